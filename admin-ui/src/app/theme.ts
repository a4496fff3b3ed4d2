// Light, dark, or as the system is. The script in index.html sets it before the first paint.
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "cordboard.theme";
const system = () => window.matchMedia("(prefers-color-scheme: dark)");

/** The chosen theme; "system" where none is stored. */
export function chosenTheme(): Theme {
  const stored = readSetting(KEY);
  return THEMES.find((each) => each === stored) ?? "system";
}

/** Puts a theme into force, and keeps it for this browser. */
export function chooseTheme(theme: Theme): void {
  writeSetting(KEY, theme);
  show();
}

/** Follows changes of the system's theme, and of another tab. */
export function followTheme(): void {
  system().addEventListener("change", show);
  window.addEventListener("storage", (event) => {
    if (event.key === KEY) show();
  });
}

function show(): void {
  const theme = chosenTheme();
  const dark = theme === "system" ? system().matches : theme === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

/** A setting of this browser; empty where storage is switched off. */
export function readSetting(key: string): string {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a setting in this browser, if it has storage. */
export function writeSetting(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Private windows of some browsers have no storage: the setting then lasts as long as the page.
  }
}
