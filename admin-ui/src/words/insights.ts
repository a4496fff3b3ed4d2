import type { Group, MeasureName } from "../pages/insights/measures.ts";
import type { Range, Step } from "../pages/insights/period.ts";

const groups: Record<Group, string> = {
  volume: "Volume",
  outcome: "Outcome",
  waiting: "Waits",
  conversation: "Conversation",
  tools: "Tools",
  troubles: "Failures",
  cost: "Cost",
};

const measures: Record<MeasureName, string> = {
  calls: "Calls",
  concurrency: "Simultaneous calls",
  duration: "Duration, p95",
  turns: "Turns",
  refused: "Refused",
  containment: "Containment",
  abandonment: "Abandonment",
  transfers: "Transfers",
  outcomes: "Outcomes",
  wait: "Wait for a sound, p95",
  answer_wait: "Wait for an answer, p95",
  interruptions: "Interruptions",
  pauses: "Pauses",
  silences: "Silences",
  tools: "Tool calls",
  tool_failures: "Tool failures",
  tool_failure_share: "Tool failure share",
  tool_time: "Tool time, p95",
  troubles: "Failed parts",
  cost: "Cost",
  cost_per_contained: "Cost per contained call",
};

const ranges: Record<Range, string> = {
  "24h": "24 h",
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  "365d": "1 year",
};

const steps: Record<Step, string> = { hour: "Hours", day: "Days", week: "Weeks", month: "Months" };

export const words = {
  title: "Insights",
  groups,
  measures,
  /** Titles of the chart: without the percentile that the list shows. */
  titleOf: (measure: MeasureName) => measures[measure].replace(/, p95$/, ""),
  measureList: "Measures",
  measure: "Measure",
  period: "Period",
  ranges,
  from: "From",
  to: "To",
  step: "Step",
  steps,
  by: "Separate by",
  byNothing: "One line",
  bys: {
    context: "Context",
    provider: "Provider",
    version: "Version",
    kind: "Kind",
    outcome: "Outcome",
    reason: "Reason",
    destination: "Destination",
    cause: "Cause",
    of: "Kind of silence",
    part: "Part",
    tool: "Tool",
    stage: "Stage",
  } as Record<string, string>,
  stat: "Percentile",
  allStats: "p50, p95, p99",
  all: {
    context: "All contexts",
    provider: "All providers",
    version: "All versions",
  },
  filters: { context: "Context", provider: "Provider", version: "Version" },
  compare: "Compare with the period before",
  before: "before",
  tests: "With tests and chats",
  reset: "Reset filters",
  fewer: (count: number) =>
    count === 1
      ? "1 line with fewer calls is left out"
      : `${count} lines with fewer calls are left out`,
  empty: "Nothing was counted in this period",
  emptyHint: "Choose a longer period, or fewer filters. A call counts when it has ended.",
  noIndex: "Measures need the index of calls",
  noIndexHint: "Switch it on in the configuration, and restart the engine:",
  noIndexFile: "calls:\n  index: {enabled: true}",
  lines: "Lines",
  hide: (line: string) => `Hide ${line}`,
  show: (line: string) => `Show ${line}`,
  everything: "All",
  chart: (measure: string) =>
    `Chart of ${measure}. Left and right move between points, up and down between lines, Enter opens the calls behind a point.`,
  keys: "← → points · ↑ ↓ lines · Enter opens the calls · drag zooms",
  openCalls: "Show the calls",
  publish: "Version put into force",
  publishOf: (version: string, who: string, why: string) =>
    [version.slice(0, 7), who && `by ${who}`, why && `“${why}”`].filter(Boolean).join(" "),
  table: "Values",
  time: "Time",
  samples: (count: number) => (count === 1 ? "1 sample" : `${count} samples`),
  more: (count: number) => `Show ${count} more rows`,
  wholePeriod: "Whole period",
  point: (time: string, line: string, value: string, samples: number) =>
    `${time}${line && `, ${line}`}: ${value}, of ${samples}`,
} as const;
