/** A text in which `words` between backticks are code, as the engine's descriptions have them. */
export function Marked({ text }: { text: string }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return text; // a backtick is alone: it is no mark
  return parts.map((part, index) =>
    index % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never move
      <code key={index} className="rounded bg-hover px-1 font-mono text-[0.92em] text-ink">
        {part}
      </code>
    ) : (
      part
    ),
  );
}
