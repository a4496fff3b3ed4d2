import { useSyncExternalStore } from "react";

// The same width as the variant `phone` in theme.css.
const narrow = () => window.matchMedia("(width < 48rem)");

/** True on a narrow screen, for what CSS alone cannot do. */
export function usePhone(): boolean {
  return useSyncExternalStore(subscribe, () => narrow().matches);
}

function subscribe(looker: () => void): () => void {
  const query = narrow();
  query.addEventListener("change", looker);
  return () => query.removeEventListener("change", looker);
}
