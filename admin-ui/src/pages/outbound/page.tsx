// Calls that the engine places: campaigns, single calls, and the numbers that are not called.
import { getRouteApi } from "@tanstack/react-router";

import { useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { LinkButton } from "../../parts/button.tsx";
import { CodeBlock, Prose } from "../../parts/code.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { words } from "../../words/outbound.ts";
import { CampaignDetails } from "./campaign.tsx";
import { CampaignList } from "./campaigns.tsx";
import { LOOKING, OUTBOUND } from "./data.ts";
import { DoNotCall } from "./do-not-call.tsx";
import { OneCall } from "./one-call.tsx";
import { type Search, TABS } from "./search.ts";

const route = getRouteApi("/outbound");

export default function OutboundPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (some: Search) => void navigate({ search: (old) => ({ ...old, ...some }) });
  const outbound = useGet(OUTBOUND, undefined, LOOKING);
  const { tab = "campaigns", campaign } = search;
  const tabs = TABS.map((id) => ({ id, label: words.tabs[id] }));
  return (
    <Page
      title={words.title}
      aside={
        outbound.data?.enabled && (
          <Badge>{words.live(outbound.data.live, outbound.data.max_calls)}</Badge>
        )
      }
      actions={
        <LinkButton icon="calls" to="/calls" search={{ direction: ["out"] }}>
          {words.history}
        </LinkButton>
      }
    >
      <Tabs
        label={words.title}
        tabs={tabs}
        current={tab}
        onChange={(next) => void navigate({ search: { tab: next } })}
      >
        <Answer query={outbound}>
          {({ enabled, contexts }) => (
            <>
              {!enabled && tab !== "blocked" && <Off />}
              {tab === "campaigns" && campaign === undefined && (
                <CampaignList enabled={enabled} contexts={contexts} onOpen={change} />
              )}
              {tab === "campaigns" && campaign !== undefined && (
                <CampaignDetails
                  key={campaign}
                  name={campaign}
                  what={search.what}
                  onWhat={change}
                />
              )}
              {tab === "call" && enabled && (
                <OneCall
                  contexts={contexts}
                  chosen={search.context}
                  onContext={(context) => change({ context })}
                />
              )}
              {tab === "blocked" && <DoNotCall contexts={contexts} />}
            </>
          )}
        </Answer>
      </Tabs>
    </Page>
  );
}

function Off() {
  const reads = useMay("config.read");
  return (
    <Empty icon="outbound" title={words.off.title}>
      <p>{words.off.about}</p>
      <div className="w-[36rem] max-w-full text-left">
        <CodeBlock text={words.off.file} label={words.off.fileLabel} />
      </div>
      <p>
        <Prose text={words.off.docs} />
      </p>
      {reads && (
        <LinkButton to="/contexts" search={{ at: "outbound" }}>
          {words.off.toConfiguration}
        </LinkButton>
      )}
    </Empty>
  );
}
