import { sentence } from "../../app/api.ts";
import { StatusDot, type Tone } from "../../parts/badge.tsx";
import { words as all } from "../../words/outbound.ts";
import type { Checked, useChecked } from "./data.ts";

const words = all.check;

/** What the engine says about the number that is typed: its form, country, class and verdict. */
export function Verdict({ checked, error, isLooking }: ReturnType<typeof useChecked>) {
  return (
    <div role="status" className="min-h-6">
      {error && <p className="text-bad">{sentence(error)}</p>}
      {!error && !checked && isLooking && <p className="text-muted">{words.looking}</p>}
      {checked && !checked.number && (
        <p className="flex items-baseline gap-2">
          <StatusDot tone="bad" />
          {words.unread}
        </p>
      )}
      {checked?.number && <Judged checked={checked} />}
    </div>
  );
}

function Judged({ checked }: { checked: Checked }) {
  const { number, country, kind, allowed, why, for_now: later, blocked } = checked;
  const about = [countryText(country), words.kinds[kind] ?? kind].filter(Boolean);
  let [tone, text]: [Tone, string] = ["good", words.allowed];
  if (!allowed) [tone, text] = later ? ["warn", words.later] : ["bad", words.refused];
  else if (blocked) [tone, text] = ["warn", words.blocked];
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-2">
        <StatusDot tone={tone} />
        <span className="font-medium">{number}</span>
        <span className="text-muted">{about.join(", ")}</span>
        <span>{text}</span>
      </p>
      {!allowed && <p className="ml-4.5">{why}</p>}
      {!allowed && blocked && <p className="ml-4.5">{words.blocked}</p>}
    </>
  );
}

const regions = new Intl.DisplayNames(undefined, { type: "region" });

/** The country's name in the viewer's language. */
const countryText = (code: string) => (/^[A-Z]{2}$/.test(code) ? (regions.of(code) ?? code) : code);
