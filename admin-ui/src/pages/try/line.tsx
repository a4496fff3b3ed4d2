// The parts of a call that are not words: levels, keys, the state of the line, and the choice of
// microphone and sound.
import { type ReactNode, useEffect, useRef, useState } from "react";

import type { CallView, Line, Sound } from "../../audio/browser-call.ts";
import { Field, Select, Switch } from "../../parts/field.tsx";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";

const text = words.calling;
const KEYS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "*", "0", "#"] as const;
/** Loudness at the left end of a meter; quieter than that is noise. */
const QUIETEST_DB = -60;
/** Share of the way down that a meter falls with each drawn frame. */
const FALL = 0.12;

/** A level that is drawn with each frame, without React. */
export function Meter({ who, read }: { who: "you" | "agent"; read: () => number }) {
  const bar = useRef<HTMLSpanElement>(null);
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    let shown = 0;
    let frame = 0;
    const draw = () => {
      const level = Math.max(0, 1 - (20 * Math.log10(latest.current() + 1e-9)) / QUIETEST_DB);
      shown = Math.max(Math.min(1, level), shown - shown * FALL);
      if (bar.current) bar.current.style.transform = `scaleX(${shown.toFixed(3)})`;
      frame = requestAnimationFrame(draw);
    };
    draw();
    return () => cancelAnimationFrame(frame);
  }, []);
  return (
    <span className="flex items-center gap-2">
      <span className="text-muted">{text[who]}</span>
      <span className="h-2 w-24 overflow-hidden rounded-full border border-line bg-hover">
        <span
          ref={bar}
          role="img"
          aria-label={text.level(text[who])}
          className={`block h-full origin-left ${who === "you" ? "bg-caller" : "bg-agent"}`}
        />
      </span>
    </span>
  );
}

/** The keys of a telephone; the keyboard's own work while one of them has the focus. */
export function Keypad({ view, onKey }: { view: CallView; onKey: (key: string) => void }) {
  return (
    <div className="flex flex-wrap items-center gap-4 pt-3">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys inside are the controls */}
      <div
        className="grid w-fit grid-cols-3 gap-1.5"
        onKeyDown={(event) => KEYS.some((key) => key === event.key) && onKey(event.key)}
      >
        {KEYS.map((key) => (
          <button
            key={key}
            type="button"
            aria-label={text.key(key)}
            disabled={view.phase !== "live"}
            className="h-9 w-12 rounded-md border border-line bg-raised text-base font-medium hover:bg-hover disabled:opacity-50"
            onClick={() => onKey(key)}
          >
            {key}
          </button>
        ))}
      </div>
      <div className="text-muted" aria-live="polite">
        {view.pressed && <p>{text.pressed(view.pressed)}</p>}
        {view.received && <p>{text.received(view.received)}</p>}
      </div>
    </div>
  );
}

/** How the sound fares on its way: so a bad line is not taken for a slow agent. */
export function LineFacts({ line }: { line: Line }) {
  const names = text.lineFacts;
  return (
    <section aria-label={text.line} className="grid gap-2">
      <h2>{text.line}</h2>
      <dl className="grid grid-cols-2 gap-x-4 gap-y-1">
        <Fact name={names.ahead}>{durationText(line.queuedMs)}</Fact>
        <Fact name={names.target}>{durationText(line.targetMs)}</Fact>
        <Fact name={names.output}>{durationText(line.outputMs)}</Fact>
        <Fact name={names.underruns}>{line.underruns}</Fact>
        <Fact name={names.late}>{line.late}</Fact>
      </dl>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex justify-between gap-2">
      <dt className="text-muted">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export interface SoundChoiceProps {
  sound: Sound;
  onSound: (sound: Sound) => void;
}

/** Microphone, processing and format of the next call. */
export function SoundChoice({ sound, onSound }: SoundChoiceProps) {
  const devices = useMicrophones();
  const change = (part: Partial<Sound>) => onSound({ ...sound, ...part });
  return (
    <>
      <Field label={text.device}>
        <Select
          value={sound.device}
          onValue={(device) => change({ device })}
          options={[
            { value: "", label: text.usual },
            ...devices.map(({ deviceId, label }, at) => ({
              value: deviceId,
              label: label || text.unnamed(at + 1),
            })),
          ]}
        />
      </Field>
      <Field label={text.format}>
        <Select
          value={sound.format}
          onValue={(format) => change({ format })}
          options={[
            { value: "slin16", label: text.formats.slin16 },
            { value: "ulaw", label: text.formats.ulaw },
          ]}
        />
      </Field>
      <Switch
        label={text.echo}
        checked={sound.echoCancellation}
        onChecked={(echoCancellation) => change({ echoCancellation })}
      />
      <Switch
        label={text.noise}
        hint={text.noiseHint}
        checked={sound.noiseSuppression}
        onChecked={(noiseSuppression) => change({ noiseSuppression })}
      />
      <Switch
        label={text.gain}
        checked={sound.autoGainControl}
        onChecked={(autoGainControl) => change({ autoGainControl })}
      />
    </>
  );
}

/** The microphones; browsers name them only after one was allowed. */
function useMicrophones(): readonly MediaDeviceInfo[] {
  const [found, setFound] = useState<readonly MediaDeviceInfo[]>([]);
  useEffect(() => {
    const media = navigator.mediaDevices;
    if (!media) return; // not a secure context
    let gone = false;
    const look = async () => {
      const all = await media.enumerateDevices();
      const named = all.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId);
      if (!gone) setFound(named.filter(({ deviceId }) => deviceId !== "default"));
    };
    void look();
    media.addEventListener("devicechange", look);
    return () => {
      gone = true;
      media.removeEventListener("devicechange", look);
    };
  }, []);
  return found;
}
