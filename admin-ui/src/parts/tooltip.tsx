import { type ReactNode, useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";

const DELAY_MS = 400;
const GAP = 6;
const HEIGHT = 28;
const HALF_WIDTH = 64;

/**
 * Shows the label of the one button inside, under the pointer after a moment and under the focus of
 * the keyboard at once; Escape hides it. The label is also the button's `aria-label`.
 */
export function Tooltip({ text, children }: { text: string; children: ReactNode }) {
  const [place, setPlace] = useState<DOMRect | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const hide = () => {
    clearTimeout(timer.current);
    setPlace(null);
  };
  const show = (button: Element | null, delay: number) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => button && setPlace(button.getBoundingClientRect()), delay);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only listens to the button inside
    <span
      className="contents"
      onPointerEnter={({ pointerType, currentTarget }) => {
        if (pointerType !== "touch") show(currentTarget.firstElementChild, DELAY_MS);
      }}
      onPointerLeave={hide}
      onPointerDown={hide}
      onFocus={({ target }) => target.matches(":focus-visible") && show(target, 0)}
      onBlur={hide}
      onKeyDown={hide}
    >
      {children}
      {place && createPortal(<Tip text={text} place={place} />, document.body)}
    </span>
  );
}

function Tip({ text, place }: { text: string; place: DOMRect }) {
  const below = place.bottom + GAP + HEIGHT < window.innerHeight;
  const centre = place.left + place.width / 2;
  const left = Math.max(HALF_WIDTH, Math.min(centre, window.innerWidth - HALF_WIDTH));
  return (
    <span
      aria-hidden="true"
      className="pointer-events-none fixed z-50 max-w-80 -translate-x-1/2 rounded-md bg-ink px-2 py-1 text-xs whitespace-nowrap text-surface shadow-high"
      style={{ left, top: below ? place.bottom + GAP : place.top - GAP - HEIGHT }}
    >
      {text}
    </span>
  );
}
