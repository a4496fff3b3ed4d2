// Hooks for canvases: their width, and the colours in force.
import { type RefObject, useLayoutEffect, useState } from "react";

import { type Palette, paletteOf } from "./draw.ts";

/** The width of an element, 0 before it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!element.current) return;
    setWidth(element.current.clientWidth);
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

/** The colours in force; another theme is another palette. */
export function usePalette(element: RefObject<HTMLElement | null>): Palette | null {
  const [palette, setPalette] = useState<Palette | null>(null);
  useLayoutEffect(() => {
    const read = () => element.current && setPalette(paletteOf(element.current));
    read();
    const observer = new MutationObserver(read);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const forced = window.matchMedia("(forced-colors: active)");
    forced.addEventListener("change", read);
    return () => {
      observer.disconnect();
      forced.removeEventListener("change", read);
    };
  }, [element]);
  return palette;
}
