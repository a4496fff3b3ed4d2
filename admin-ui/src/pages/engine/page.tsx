import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { useGet } from "../../app/api.ts";
import { isNewer, type LiveFrame, useTopic } from "../../app/live.ts";
import { seesAll, useMay, useSession } from "../../app/session.ts";
import { Answer, Empty, StaleNote } from "../../parts/answer.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { words } from "../../words/engine.ts";
import { EngineActions } from "./actions.tsx";
import { pushed } from "./facts.ts";
import { LogView } from "./log.tsx";
import { type EngineState, Overview } from "./overview.tsx";
import { type Search, TABS } from "./search.ts";
import { Support } from "./support.tsx";

const route = getRouteApi("/engine");
const SECONDS_OF_LAG = 120;

export default function EnginePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (some: Search) =>
    void navigate({ search: (old) => ({ ...old, ...some }), replace: true });
  const tab = search.tab ?? "overview";
  const [lags, setLags] = useState<readonly number[]>([]);
  const first = useGet("/api/v1/engine");
  // One look a second: the engine's state has a frame in each.
  const live = useTopic({ topic: "engine" }, (frame) => {
    const lag = stateIn(frame)?.load?.lag_p99_ms;
    if (lag !== undefined) setLags((before) => pushed(before, lag, SECONDS_OF_LAG));
  });
  const now = isNewer(first, live) ? null : stateIn(live);
  const tabs = TABS.map((id) => ({ id, label: words.tabs[id] }));
  return (
    <Page
      title={words.title}
      actions={first.data && <EngineActions drain={(now ?? first.data).drain} />}
    >
      <Tabs label={words.tabList} tabs={tabs} current={tab} onChange={(to) => change({ tab: to })}>
        {tab === "overview" && (
          <>
            {live.state === "stale" && <StaleNote since={live.since} />}
            <Answer query={first}>
              {(answer) => <Overview state={now ?? answer} lags={lags} slots={SECONDS_OF_LAG} />}
            </Answer>
          </>
        )}
        {tab === "log" && (
          <MayRead>
            <LogView search={search} onChange={change} />
          </MayRead>
        )}
        {tab === "support" && <MaySupport />}
      </Tabs>
    </Page>
  );
}

/** The log is about the calls of all contexts. */
function MayRead({ children }: { children: ReactNode }) {
  return seesAll(useSession()) ? children : <Empty icon="lock" title={words.limited} />;
}

function MaySupport() {
  return useMay("engine.control") ? (
    <Support />
  ) : (
    <Empty icon="lock" title={words.support.forbidden} />
  );
}

function stateIn({ snapshot }: Pick<LiveFrame, "snapshot">): EngineState | null {
  return snapshot && "uptime_seconds" in snapshot ? snapshot : null;
}
