// The address of the insights: measure, period, filters and the way they are shown.
import { flag, oneOf, type Raw, text, texts } from "../../app/search.ts";
import { MEASURES, type MeasureName, STATS, type Stat } from "./measures.ts";
import { isMoment, RANGES, type Range, STEPS, type Step } from "./period.ts";

export interface Search {
  /** Left out: `calls`. */
  measure?: MeasureName | undefined;
  /** Left out: 30 days, unless there is a `from`. */
  range?: Range | undefined;
  /** First day, or ISO 8601 time. */
  from?: string | undefined;
  /** Last day, or the time after the last one; left out: now. */
  to?: string | undefined;
  /** Left out: by the length of the period. */
  step?: Step | undefined;
  /** One line for each value of this. */
  by?: string | undefined;
  /** Of waits and durations; left out: p95 where there is one line for each value. */
  stat?: Stat | undefined;
  context?: string[] | undefined;
  provider?: string[] | undefined;
  version?: string[] | undefined;
  /** With the period before. */
  compare?: true | undefined;
  /** Tests and chats count, too. */
  tests?: true | undefined;
  /** Lines that are not drawn. */
  hidden?: string[] | undefined;
}

const KEY = /^[a-z_]{1,40}$/;

export function search(raw: Raw): Search {
  const from = moment(raw.from);
  const by = text(raw.by);
  return {
    measure: oneOf(raw.measure, MEASURES),
    range: from === undefined ? oneOf(raw.range, RANGES) : undefined,
    from,
    to: from === undefined ? undefined : moment(raw.to),
    step: oneOf(raw.step, STEPS),
    by: by !== undefined && KEY.test(by) ? by : undefined,
    stat: oneOf(raw.stat, STATS),
    context: texts(raw.context),
    provider: texts(raw.provider),
    version: texts(raw.version),
    compare: flag(raw.compare),
    tests: flag(raw.tests),
    hidden: texts(raw.hidden),
  };
}

function moment(raw: unknown): string | undefined {
  const given = text(raw);
  return given !== undefined && isMoment(given) ? given : undefined;
}
