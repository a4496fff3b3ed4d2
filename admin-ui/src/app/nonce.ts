// The page's nonce: styles that a script adds need it, see the policy in docs/admin-api.md.
import { setNonce } from "get-nonce";

/** The nonce of this page, for CodeMirror. Browsers hide it from `getAttribute`. */
export function getNonce(): string {
  const meta = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]");
  return meta?.nonce ?? "";
}

/** Gives the nonce to Radix, whose dialogs add a style that stops the page behind from scrolling. */
export function shareNonce(): void {
  setNonce(getNonce());
}
