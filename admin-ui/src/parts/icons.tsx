// Drawn for this page: 16 × 16, one stroke width, in the colour of the text around.
const PATHS = {
  live: "M8 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3ZM4.8 11.2a4.5 4.5 0 0 1 0-6.4M11.2 4.8a4.5 4.5 0 0 1 0 6.4M2.7 13.3a7.5 7.5 0 0 1 0-10.6M13.3 2.7a7.5 7.5 0 0 1 0 10.6",
  calls:
    "M3.5 2h2l1.2 3-1.5 1.2a8 8 0 0 0 4.6 4.6L11 9.3l3 1.2v2A1.5 1.5 0 0 1 12.5 14 11 11 0 0 1 2 3.5 1.5 1.5 0 0 1 3.5 2Z",
  outbound:
    "M9.5 2.5h4v4M13.5 2.5L9 7M3.5 3h1.8l1 2.6-1.3 1a7.2 7.2 0 0 0 4.2 4.2l1-1.3 2.6 1v1.8a1.3 1.3 0 0 1-1.3 1.3A9.8 9.8 0 0 1 2.2 4.3 1.3 1.3 0 0 1 3.5 3Z",
  contexts: "M2.5 3.5h11M2.5 8h7M2.5 12.5h9M13 6.5v3M11.5 8h3",
  try: "M2.5 3h11v8h-6l-3 2.5V11h-2ZM5.5 6h5M5.5 8.2h3",
  tools:
    "M9.8 2.3a3.6 3.6 0 0 0-3 5L2.3 11.8l1.9 1.9 4.5-4.5a3.6 3.6 0 0 0 4.9-4.4l-2.2 2.2-1.9-.5-.5-1.9Z",
  providers: "M4.5 12.5a3 3 0 0 1-.4-6 4.2 4.2 0 0 1 8-.3 3.2 3.2 0 0 1-.4 6.3Z",
  insights: "M2.5 13.5h11M4 11V7.5M7 11V4M10 11V8.5M13 11V2.5",
  alarms: "M8 2.2a4 4 0 0 1 4 4v2.6l1.3 2.4H2.7L4 8.8V6.2a4 4 0 0 1 4-4ZM6.5 13.5h3",
  engine: "M3 3h10v4H3ZM3 9h10v4H3ZM5.2 5h.1M5.2 11h.1M8 5h3M8 11h3",
  cluster:
    "M8 2a1.8 1.8 0 1 0 0 3.6A1.8 1.8 0 0 0 8 2ZM3.5 10.4a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM12.5 10.4a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM7 5.4l-2.7 5.2M9 5.4l2.7 5.2M5.3 12.2h5.4",
  people:
    "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM1.8 13.5a4.2 4.2 0 0 1 8.4 0M10.5 2.8a2.5 2.5 0 0 1 0 4.4M11.8 9.8a4.2 4.2 0 0 1 2.4 3.7",
  settings:
    "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 3a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3ZM5.8 10a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3Z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.4 3.4",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  check: "M3 8.5l3.2 3.2L13 4.5",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  left: "M10 4L6 8l4 4",
  right: "M6 4l4 4-4 4",
  copy: "M5.5 5.5h8v8h-8ZM2.5 10.5v-8h8",
  undo: "M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M5.8 3.5L2.8 6.5l3 3",
  redo: "M13 6.5H6.5a3.5 3.5 0 0 0 0 7H10M10.2 3.5l3 3-3 3",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v4.5M9.3 6.5v4.5",
  edit: "M10.8 2.7l2.5 2.5-7.6 7.6-3.2.7.7-3.2Z",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  refresh: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.7h-2.7",
  external: "M9 2.5h4.5V7M13.5 2.5L7.5 8.5M11.5 9.5v4h-9v-9h4",
  download: "M8 2.5v7.5M4.8 7L8 10.2 11.2 7M2.5 13.5h11",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.2V8.5Z",
  play: "M4.5 2.8l8.5 5.2-8.5 5.2Z",
  pause: "M5 3v10M11 3v10",
  stop: "M4 4h8v8H4Z",
  mic: "M8 2a2 2 0 0 1 2 2v3.5a2 2 0 0 1-4 0V4a2 2 0 0 1 2-2ZM3.8 7.5a4.2 4.2 0 0 0 8.4 0M8 11.7V14",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8ZM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6Z",
  record: "M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7Z",
  headphones:
    "M2.5 11V8.5a5.5 5.5 0 0 1 11 0V11M2.5 9.5h2.2v4H3.5a1 1 0 0 1-1-1ZM13.5 9.5h-2.2v4h1.2a1 1 0 0 0 1-1Z",
  hangup: "M1.8 9.8c0-1.2 2.6-3 6.2-3s6.2 1.8 6.2 3v1.4l-3.4-.8V8.6a9 9 0 0 0-5.6 0v1.8l-3.4.8Z",
  transfer: "M2.5 5.5h10M9.5 2.5l3 3-3 3M13.5 11h-10M6.5 8.5l-2.8 2.5 2.8 2.5",
  flag: "M3.5 14V2.5M3.5 3h8.5l-1.8 3L12 9H3.5",
  warning: "M8 2.3l6.2 11H1.8ZM8 6.5v3.2M8 11.4v.1",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 7.3v3.7M8 5v.1",
  lock: "M3.5 7.5h9v6h-9ZM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  key: "M5.5 7.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM7.7 8.3l5.8-5.8M11 5l2 2",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.8V8l2.2 1.6",
  star: "M8 2l1.8 3.8 4.2.5-3.1 2.9.8 4.1L8 11.3l-3.7 2 .8-4.1L2 6.3l4.2-.5Z",
  whole: "M2.5 5.5v-3h3M13.5 5.5v-3h-3M2.5 10.5v3h3M13.5 10.5v3h-3",
  wrap: "M2.5 3.5h11M2.5 8h9a2.2 2.2 0 0 1 0 4.5H8M9.8 10.7L8 12.5l1.8 1.8M2.5 12.5h3",
  table: "M2.5 3h11v10h-11ZM2.5 6.5h11M2.5 10h11M6.5 6.5V13",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon; it says nothing to a screen reader, so text or a label stands beside it. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const round = name === "more" || name === "info" || name === "warning" || name === "engine";
  return (
    <svg
      aria-hidden="true"
      className="shrink-0"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={round ? 1.5 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
