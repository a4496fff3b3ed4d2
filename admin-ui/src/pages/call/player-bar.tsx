import { type ReactNode, useEffect, useRef } from "react";
import { useMay } from "../../app/session.ts";
import { useShortcut } from "../../app/shortcuts.tsx";
import { IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Checkbox, Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import { rulerText } from "./draw.ts";
import { type Player, RATES, usePlayerState } from "./player.ts";
import type { Shown } from "./shown.ts";
import { beginOf, neighbour, troublesOf } from "./timeline.ts";

const STEP_MS = 5000;

export interface PlayerBarProps {
  shown: Shown;
  /** Days for which recordings of the context are kept; null if it is not known. */
  keptDays: number | null;
}

export function PlayerBar({ shown, keptDays }: PlayerBarProps) {
  const { player } = shown;
  useKeys(shown);
  return (
    <section
      aria-label={words.player.label}
      className="flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 px-6 py-1 phone:px-4"
    >
      {player.hasSound && <PlayButton player={player} />}
      <Clock shown={shown} />
      {player.hasSound ? (
        <Controls player={player} />
      ) : (
        <WhySilent shown={shown} keptDays={keptDays} />
      )}
    </section>
  );
}

function useKeys({ player, end, call, shapes, go }: Shown): void {
  const { keys } = words;
  const jump = (time: number, turn?: number) => {
    player.seek(Math.max(0, Math.min(end, time)));
    go({ at: Math.round(time), ...(turn !== undefined && { turn, tab: "turn" }) });
  };
  const turn = (step: 1 | -1) => {
    const time = neighbour(call.turns.map(beginOf), player.time, step);
    const found = call.turns.find((each) => beginOf(each) === time);
    if (time !== undefined) jump(time, found?.number);
  };
  const trouble = (step: 1 | -1) => {
    const times = troublesOf(shapes).map(({ from }) => from);
    const time = neighbour(times, player.time, step);
    if (time !== undefined) jump(time);
  };
  useShortcut(" ", keys.play, () => player.toggle());
  useShortcut("ArrowLeft", keys.back, () => jump(player.time - STEP_MS));
  useShortcut("ArrowRight", keys.on, () => jump(player.time + STEP_MS));
  useShortcut("[", keys.turnBefore, () => turn(-1));
  useShortcut("]", keys.turnAfter, () => turn(1));
  useShortcut(",", keys.troubleBefore, () => trouble(-1));
  useShortcut(".", keys.troubleAfter, () => trouble(1));
}

function PlayButton({ player }: { player: Player }) {
  const { playing } = usePlayerState(player);
  return (
    <IconButton
      label={playing ? words.player.pause : words.player.play}
      icon={playing ? "pause" : "play"}
      look="primary"
      onClick={() => player.toggle()}
    />
  );
}

/** The position; its text changes ten times a second at most, without React. */
function Clock({ shown: { player, end } }: { shown: Shown }) {
  const text = useRef<HTMLSpanElement>(null);
  useEffect(
    () =>
      player.follow((time) => {
        const shown = tenths(time);
        if (text.current && text.current.textContent !== shown) text.current.textContent = shown;
      }),
    [player],
  );
  return (
    <span className="font-mono text-xs whitespace-nowrap text-muted">
      <span ref={text} className="inline-block min-w-14 text-right text-sm text-ink" />
      {` / ${rulerText(end, false)}`}
    </span>
  );
}

function tenths(time: number): string {
  return `${rulerText(time, false)}.${Math.floor((Math.max(0, time) % 1000) / 100)}`;
}

function Controls({ player }: { player: Player }) {
  const { rate, hears, skips, failed } = usePlayerState(player);
  return (
    <>
      <Select
        aria-label={words.player.rate}
        className="w-20"
        value={String(rate)}
        options={RATES.map((each) => ({ value: String(each), label: `${each}×` }))}
        onValue={(value) => player.setRate(Number(value))}
      />
      <fieldset className="flex items-center gap-1">
        {(["caller", "agent"] as const).map((side) => (
          <button
            key={side}
            type="button"
            aria-pressed={hears[side]}
            aria-label={words.player.heard(words.player[side])}
            className={cx(
              "inline-flex h-6 items-center gap-1 rounded-md border px-2 text-xs",
              hears[side]
                ? "border-strong bg-raised text-ink"
                : "border-line text-muted line-through",
            )}
            onClick={() => player.setHears(side, !hears[side])}
          >
            <Icon name={hears[side] ? "headphones" : "close"} size={12} />
            {words.player[side]}
          </button>
        ))}
      </fieldset>
      <Checkbox
        label={words.player.skip}
        checked={skips}
        onChecked={(checked) => player.setSkips(checked)}
        className="text-muted"
      />
      {failed && (
        <span role="alert" className="flex items-center gap-1 text-bad">
          <Icon name="warning" size={14} /> {words.player.failed}
        </span>
      )}
    </>
  );
}

/** Why there is no sound: seven tickets a week elsewhere are about recordings that just lack. */
function WhySilent({ shown: { call, live }, keptDays }: PlayerBarProps) {
  const may = useMay("recordings.play");
  const { state } = call.recording;
  const { missing } = words;
  if (state === "there") {
    return (
      <Note icon={may ? "info" : "lock"}>{may && live ? missing.running : missing.forbidden}</Note>
    );
  }
  if (state === "off") return <Note icon="info">{missing.off(call.row.context ?? "")}</Note>;
  if (state === "declined") return <Note icon="info">{missing.declined}</Note>;
  const due = keptDays ? new Date((call.row.started_ms ?? 0) + (keptDays + 1) * 86_400_000) : null;
  const past = due !== null && due.getTime() < Date.now();
  return (
    <Note icon="info">
      {missing.deleted} {past && keptDays !== null && missing.due(keptDays)}{" "}
      {past && due && <Time at={due.toISOString()} />}
      {keptDays === 0 && missing.deletedByHand}
    </Note>
  );
}

function Note({ icon, children }: { icon: "info" | "lock"; children: ReactNode }) {
  return (
    <p className="flex items-center gap-1.5 text-muted">
      <Icon name={icon} size={14} />
      <span>{children}</span>
    </p>
  );
}
