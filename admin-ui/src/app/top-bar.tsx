// The bar on top: whether the engine answers calls, which configuration is in force, alarms, search,
// and who is signed in.
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";

import { Badge, Kbd, StatusDot, type Tone } from "../parts/badge.tsx";
import { Button, IconButton } from "../parts/button.tsx";
import { Icon } from "../parts/icons.tsx";
import { Menu } from "../parts/menu.tsx";
import { Time } from "../parts/time.tsx";
import { words } from "../words/shell.ts";
import { keyOf, type Schema, useGet, useSend } from "./api.ts";
import { useLiveCalls, useTopic } from "./live.ts";
import { callsOnOthers } from "./live-calls.ts";
import type { TopicState } from "./live-socket.ts";
import { useNodes } from "./pages.ts";
import { useMay, useSession } from "./session.ts";
import { chooseTheme, chosenTheme, THEMES } from "./theme.ts";

export function TopBar({ onNavigation, onSearch, onShortcuts }: TopBarProps) {
  return (
    <header className="flex h-12 items-center gap-3 border-b border-line px-6 phone:gap-1.5 phone:px-2">
      <span className="hidden phone:block">
        <IconButton label={words.openNavigation} icon="menu" onClick={onNavigation} />
      </span>
      <EngineLight />
      <Version />
      <div className="ml-auto flex items-center gap-2 phone:gap-0.5">
        <Alarms />
        <SearchButton onSearch={onSearch} />
        <AccountMenu onShortcuts={onShortcuts} />
      </div>
    </header>
  );
}

interface TopBarProps {
  onNavigation: () => void;
  onSearch: () => void;
  onShortcuts: () => void;
}

type Light = "looking" | "ready" | "draining" | "notReady" | "unreachable";

const TONES: Record<Light, Tone> = {
  looking: "neutral",
  ready: "good",
  draining: "warn",
  notReady: "bad",
  unreachable: "bad",
};

// One late answer, or one second without Asterisk, is no alarm.
const BAD_MS = 3_000;

/** The state of the engine at one look. */
export function lookAt(
  engine: Pick<Schema<"EngineState">, "ready" | "drain"> | null,
  feed: TopicState["state"],
): Light {
  if (feed === "connecting") return "looking";
  if (feed !== "live") return "unreachable";
  if (engine === null) return "looking";
  if (engine.drain.draining) return "draining";
  return engine.ready ? "ready" : "notReady";
}

function EngineLight() {
  const may = useMay("engine.read");
  const { snapshot, state } = useTopic(may ? { topic: "engine" } : null);
  const engine = snapshot as Schema<"EngineState"> | null;
  const look = lookAt(engine, state);
  const [light, setLight] = useState<Light>("looking");
  useEffect(() => {
    if (TONES[look] !== "bad") return setLight(look);
    const timer = setTimeout(() => setLight(look), BAD_MS);
    return () => clearTimeout(timer);
  }, [look]);
  if (!may) return null;
  const calls = engine && words.engine.calls(engine.active_calls, engine.max_calls);
  return (
    <Link
      to="/engine"
      className="flex h-8 min-w-0 items-center gap-2 rounded-md px-2 whitespace-nowrap hover:bg-hover"
    >
      <StatusDot tone={TONES[light]} />
      <span role="status" className="truncate">
        {words.engine[light]}
      </span>
      {engine && light !== "unreachable" && (
        <span className="text-muted phone:hidden">
          {light === "draining" ? words.engine.callsLeft(engine.drain.calls_left) : calls}
        </span>
      )}
    </Link>
  );
}

const VERSION_LOOK_MS = 30_000;

/** Which configuration is in force here, since when, by whom, and our calls that began on others. */
function Version() {
  const { data } = useGet(
    "/api/v1/config/versions",
    { query: { limit: 20 } },
    { refetchInterval: VERSION_LOOK_MS, enabled: useMay("config.read") },
  );
  const { rows } = useLiveCalls();
  const node = useNodes().find(({ own }) => own)?.node ?? ""; // as in the rows of an engine alone
  const version = data?.versions.find((each) => each.in_force);
  if (version === undefined) return null;
  const older = callsOnOthers(rows, node, version.digest);
  return (
    <Link
      to="/contexts"
      className="flex h-8 min-w-0 items-center gap-1.5 rounded-md px-2 whitespace-nowrap text-muted hover:bg-hover phone:hidden"
    >
      <span className="sr-only">{words.version.label}</span>
      <code className="font-mono text-ink">{version.digest.slice(0, 6)}</code>
      <span className="truncate">
        <Time at={version.at} relative /> {version.who && words.version.by(version.who)}
      </span>
      {older > 0 && <Badge tone="warn">{words.version.older(older)}</Badge>}
    </Link>
  );
}

/** The alarms that fire, if there are any. */
function Alarms() {
  const may = useMay("alarms.read");
  const { snapshot } = useTopic(may ? { topic: "alarms" } : null);
  const all = (snapshot as Schema<"AlarmStates"> | null)?.alarms ?? [];
  const firing = all.filter(({ state }) => state === "firing");
  if (firing.length === 0) return null;
  return (
    <Link
      to="/alarms"
      className="flex h-7 items-center gap-1.5 rounded-md bg-bad-soft px-2 font-medium whitespace-nowrap text-bad"
    >
      <Icon name="alarms" size={14} />
      <span aria-hidden="true" className="hidden phone:inline">
        {firing.length}
      </span>
      <span role="status" className="phone:sr-only">
        {words.alarms(firing.length)}
      </span>
    </Link>
  );
}

function SearchButton({ onSearch }: { onSearch: () => void }) {
  return (
    <>
      <button
        type="button"
        onClick={onSearch}
        className="flex h-8 w-52 items-center gap-2 rounded-md border border-line bg-raised px-2 text-muted hover:border-strong phone:hidden"
      >
        <Icon name="search" size={14} />
        <span className="flex-1 text-left">{words.search}</span>
        <Kbd>Ctrl K</Kbd>
      </button>
      <span className="hidden phone:block">
        <IconButton label={words.search} icon="search" onClick={onSearch} />
      </span>
    </>
  );
}

function AccountMenu({ onShortcuts }: { onShortcuts: () => void }): ReactNode {
  const { name, role } = useSession();
  const [theme, setTheme] = useState(chosenTheme);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const signOut = useSend("delete", "/api/v1/session", {
    // Not as if the session had ended: nothing of the page is kept.
    onDone: () => void queries.resetQueries({ queryKey: keyOf("/api/v1/session") }),
  });
  return (
    <Menu
      trigger={
        <Button look="quiet" aria-label={`${words.me.menu}: ${name}`}>
          <span className="max-w-32 truncate phone:max-w-16">{name}</span>
          <Icon name="down" size={12} />
        </Button>
      }
      items={[
        {
          label: words.me.settings,
          icon: "settings",
          onSelect: () => void navigate({ to: "/settings" }),
        },
        { label: words.me.shortcuts, icon: "info", onSelect: onShortcuts },
        { heading: words.me.theme },
        ...THEMES.map((each) => ({
          label: words.me.themes[each],
          checked: each === theme,
          onSelect: () => {
            chooseTheme(each);
            setTheme(each);
          },
        })),
        { heading: `${name}, ${role}` },
        { label: words.me.signOut, icon: "external", onSelect: () => signOut.mutate({}) },
      ]}
    />
  );
}
