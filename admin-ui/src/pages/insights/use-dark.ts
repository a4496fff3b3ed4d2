import { useSyncExternalStore } from "react";

const root = () => document.documentElement;

/** True in the dark theme, for what is drawn on a canvas. */
export function useDark(): boolean {
  return useSyncExternalStore(subscribe, () => root().dataset.theme === "dark");
}

function subscribe(looker: () => void): () => void {
  const changes = new MutationObserver(looker);
  changes.observe(root(), { attributeFilter: ["data-theme"] });
  return () => changes.disconnect();
}
