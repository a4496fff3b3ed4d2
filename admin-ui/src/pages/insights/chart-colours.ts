// Colours of lines: each has at least 3:1 on `raised`. Lines also differ by their dashes.
const LIGHT = [
  "#2452b8",
  "#b4532a",
  "#17713c",
  "#8b3fb0",
  "#0d6b78",
  "#b4236e",
  "#6b6f1d",
  "#59616f",
];
const DARK = [
  "#8fb1ff",
  "#f0a35e",
  "#5ccf8b",
  "#cfa0ff",
  "#5cc8d6",
  "#ff8fc0",
  "#d3d36a",
  "#a9b1bf",
];
const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

/** Colour and dash of the line with that number. */
export function strokeOf(line: number, dark: boolean): { colour: string; dash: number[] } {
  const colours = dark ? DARK : LIGHT;
  return {
    colour: colours[line % colours.length] ?? "",
    dash: [...(DASHES[(line % colours.length) % DASHES.length] ?? [])],
  };
}

/** A colour of theme.css, for a canvas. */
export function themeColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
