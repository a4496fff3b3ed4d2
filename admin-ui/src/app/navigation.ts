// The pages of the navigation, in its order, with their shortcuts (`g` and a letter).
import type { IconName } from "../parts/icons.tsx";
import { words } from "../words/shell.ts";
import type { Permission } from "./session.ts";

export interface Entry {
  to:
    | "/live"
    | "/calls"
    | "/outbound"
    | "/contexts"
    | "/try"
    | "/tools"
    | "/providers"
    | "/insights"
    | "/alarms"
    | "/engine"
    | "/cluster"
    | "/people"
    | "/settings"
    | "/setup";
  name: string;
  icon: IconName;
  /** Typed after `g`. */
  letter: string;
  /** Without it the page has nothing to show. */
  may?: Permission;
  /** In the lower part. */
  lower?: boolean;
}

export const NAVIGATION: readonly Entry[] = [
  { to: "/live", name: words.pages.live, icon: "live", letter: "l", may: "calls.read" },
  { to: "/calls", name: words.pages.calls, icon: "calls", letter: "c", may: "calls.read" },
  {
    to: "/outbound",
    name: words.pages.outbound,
    icon: "outbound",
    letter: "o",
    may: "calls.read",
  },
  {
    to: "/contexts",
    name: words.pages.contexts,
    icon: "contexts",
    letter: "x",
    may: "config.read",
  },
  { to: "/try", name: words.pages.try, icon: "try", letter: "y", may: "try.chat" },
  { to: "/tools", name: words.pages.tools, icon: "tools", letter: "t", may: "tools.read" },
  {
    to: "/providers",
    name: words.pages.providers,
    icon: "providers",
    letter: "p",
    may: "providers.read",
  },
  {
    to: "/insights",
    name: words.pages.insights,
    icon: "insights",
    letter: "i",
    may: "analytics.read",
  },
  { to: "/alarms", name: words.pages.alarms, icon: "alarms", letter: "a", may: "alarms.read" },
  { to: "/engine", name: words.pages.engine, icon: "engine", letter: "e", may: "engine.read" },
  { to: "/cluster", name: words.pages.cluster, icon: "cluster", letter: "n", may: "engine.read" },
  {
    to: "/people",
    name: words.pages.people,
    icon: "people",
    letter: "u",
    may: "people.manage",
    lower: true,
  },
  {
    to: "/setup",
    name: words.pages.setup,
    icon: "check",
    letter: "d", // as `cordboard doctor`, which checks the same
    may: "config.draft",
    lower: true,
  },
  { to: "/settings", name: words.pages.settings, icon: "settings", letter: "s", lower: true },
];
