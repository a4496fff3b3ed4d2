// Two people changed the file: theirs is in force, ours is a draft. Both are shown; nothing is lost.
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { sentence, useGet } from "../../app/api.ts";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { words } from "../../words/contexts.ts";
import type { Clash } from "./data.ts";
import { type Conflict, decided, type Side } from "./merge.ts";

export interface ConflictProps {
  clash: Clash;
  /** The draft, to be looked at where the texts cannot be merged. */
  text: string;
  /** Takes the text; rejects if the engine cannot be asked about it. */
  onMerged: (text: string) => Promise<void>;
  onClose: () => void;
}

export function ConflictDialog({ clash, text, onMerged, onClose }: ConflictProps) {
  const { theirs, withOurs, conflicts } = clash;
  const [sides, setSides] = useState<readonly (Side | undefined)[]>([]);
  // By hand one changes their text: the secrets of the draft have other numbers there.
  const byHand = withOurs === undefined;
  const [merged, setMerged] = useState(withOurs ?? theirs);
  const versions = useGet("/api/v1/config/versions", { query: { limit: 1 } });
  const take = useMutation({ mutationFn: onMerged });
  const who = versions.data?.versions[0]?.who || words.conflict.somebody;
  const open = conflicts.filter((_, index) => !sides[index]).length;
  const decide = (index: number, side: Side) => {
    const next = conflicts.map((_, each) => (each === index ? side : sides[each]));
    setSides(next);
    if (!byHand) setMerged(decided(withOurs, conflicts, next));
  };
  const about = byHand
    ? words.conflict.byHand
    : conflicts.length === 0
      ? words.conflict.merged
      : words.conflict.clashes(conflicts.length);
  return (
    <Dialog
      title={words.conflict.title}
      about={words.conflict.about(who)}
      wide
      onClose={() => take.isPending || onClose()}
    >
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <p>{about}</p>
        {!byHand &&
          conflicts.map((each, index) => (
            <Choice
              key={each.at}
              conflict={each}
              side={sides[index]}
              onSide={(side) => decide(index, side)}
            />
          ))}
        <Compare
          left={byHand ? text : theirs}
          leftLabel={byHand ? words.conflict.leftByHand : words.conflict.left}
          merged={merged}
          onMerged={byHand ? setMerged : undefined}
        />
        {take.error && (
          <p role="alert" className="text-bad">
            {sentence(take.error)}
          </p>
        )}
        <div className="flex items-center justify-end gap-3">
          {!byHand && open > 0 && <span className="text-muted">{words.conflict.undecided}</span>}
          <Button
            look="primary"
            busy={take.isPending}
            disabled={byHand ? merged === theirs : open > 0}
            onClick={() => take.mutate(merged)}
          >
            {words.conflict.take}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

const SIDES = ["theirs", "ours", "both"] as const;

function Choice(props: {
  conflict: Conflict;
  side: Side | undefined;
  onSide: (side: Side) => void;
}) {
  const { conflict, side, onSide } = props;
  const title = words.conflict.atLine(conflict.line);
  return (
    <fieldset className="min-w-0 rounded-md border border-line">
      <legend className="ml-2 px-1 font-medium">{title}</legend>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-2 p-3 pt-1">
        <Lines label={words.conflict.before} text={conflict.base} />
        <Lines
          label={words.conflict.theirs}
          text={conflict.theirs}
          lit={side === "theirs" || side === "both"}
        />
        <Lines
          label={words.conflict.ours}
          text={conflict.ours}
          lit={side === "ours" || side === "both"}
        />
        <div className="flex gap-4">
          {SIDES.map((each) => (
            <label key={each} className="flex min-h-6 items-center gap-1.5">
              <input
                type="radio"
                name={`conflict ${conflict.at}`}
                checked={side === each}
                onChange={() => onSide(each)}
                className="size-4 accent-accent"
              />
              {words.conflict[each]}
            </label>
          ))}
        </div>
      </div>
    </fieldset>
  );
}

function Lines({ label, text, lit = false }: { label: string; text: string; lit?: boolean }) {
  return (
    <div className="grid grid-cols-[4rem_minmax(0,1fr)] gap-2 text-xs">
      <span className="text-muted">{label}</span>
      <pre
        className={cx(
          "overflow-x-auto rounded px-2 py-0.5 font-mono",
          lit ? "bg-good-soft" : "bg-surface",
        )}
      >
        {text || words.conflict.nothing}
      </pre>
    </div>
  );
}

/** Both texts side by side; loaded when it is needed. `onMerged`: the right one is merged by hand. */
function Compare(props: {
  left: string;
  leftLabel: string;
  merged: string;
  onMerged: ((text: string) => void) | undefined;
}) {
  const { left, leftLabel, merged, onMerged } = props;
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<{ setRight: (text: string) => void; destroy: () => void } | null>(null);
  const [begin] = useState({ left, leftLabel, right: merged, onRight: onMerged });
  const wanted = useRef(merged);
  wanted.current = merged;
  useEffect(() => {
    let over = false;
    void import("./compare.ts").then(({ compare }) => {
      if (over || !place.current) return;
      view.current = compare(place.current, {
        ...begin,
        rightLabel: words.conflict.right,
      });
      view.current.setRight(wanted.current);
    });
    return () => {
      over = true;
      view.current?.destroy();
    };
  }, [begin]);
  useEffect(() => view.current?.setRight(merged), [merged]);
  return (
    <section aria-label={words.conflict.compare}>
      <div className="grid grid-cols-2 gap-3 text-xs font-medium text-muted">
        <h3>{leftLabel}</h3>
        <h3>{words.conflict.right}</h3>
      </div>
      <div ref={place} className="mt-1 h-64 overflow-auto rounded-md border border-line" />
    </section>
  );
}
