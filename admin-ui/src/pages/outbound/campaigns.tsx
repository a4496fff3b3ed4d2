import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Schema, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { download } from "../../parts/download.ts";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/outbound.ts";
import { CAMPAIGN, CAMPAIGNS, type Campaign, LOOKING } from "./data.ts";
import { NewCampaign } from "./new-campaign.tsx";
import { type Kind, type Progress, progressOf, stateOf } from "./progress.ts";
import type { Search } from "./search.ts";

const words = all.campaigns;
const STALE = [CAMPAIGNS, CAMPAIGN] as const;

export interface CampaignListProps {
  /** False: they can be looked at, but no call is placed. */
  enabled: boolean;
  contexts: readonly Schema<"CallableContext">[];
  onOpen: (search: Search) => void;
}

export function CampaignList({ enabled, contexts, onOpen }: CampaignListProps) {
  const campaigns = useGet(CAMPAIGNS, undefined, LOOKING);
  const mayMake = useMay("calls.place") && enabled && contexts.length > 0;
  const [making, setMaking] = useState(false);
  if (!enabled && !campaigns.data?.campaigns.length) return null;
  const add = (
    <Button look="primary" icon="plus" onClick={() => setMaking(true)}>
      {words.add}
    </Button>
  );
  return (
    <Section title={all.tabs.campaigns} actions={mayMake && add} flush>
      <Answer query={campaigns}>
        {(data) => (
          <DataTable
            label={words.label}
            rows={data.campaigns}
            rowKey={({ name }) => name}
            columns={COLUMNS}
            empty={
              <Empty icon="outbound" title={words.emptyTitle}>
                <p>{words.empty}</p>
              </Empty>
            }
          />
        )}
      </Answer>
      {making && (
        <NewCampaign
          contexts={contexts}
          onClose={() => setMaking(false)}
          onOpen={(campaign) => onOpen({ campaign })}
        />
      )}
    </Section>
  );
}

const COLUMNS: readonly Column<Campaign>[] = [
  {
    id: "name",
    head: words.columns.name,
    cell: (campaign) => (
      <>
        <Link
          to="/outbound"
          search={{ campaign: campaign.name }}
          className="inline-block min-h-6 leading-6 font-medium break-words text-accent hover:underline"
        >
          {campaign.name}
        </Link>
        <span className="hidden phone:block">
          <State campaign={campaign} progress={progressOf(campaign.people)} />
        </span>
      </>
    ),
  },
  {
    id: "state",
    head: words.columns.state,
    wide: true,
    cell: (campaign) => <State campaign={campaign} progress={progressOf(campaign.people)} />,
  },
  {
    id: "progress",
    head: words.columns.progress,
    width: "26%",
    cell: ({ people }) => {
      const progress = progressOf(people);
      return (
        <>
          <ProgressBar progress={progress} />
          <p className="mt-1 line-clamp-1 text-xs text-muted phone:hidden">{toldOf(progress)}</p>
        </>
      );
    },
  },
  { id: "context", head: words.columns.context, wide: true, cell: ({ context }) => context },
  {
    id: "hours",
    head: words.columns.hours,
    wide: true,
    cell: ({ days, hours }) => `${days}, ${hours}`,
  },
  {
    id: "created",
    head: words.columns.created,
    wide: true,
    cell: ({ created }) => <Time at={created} relative />,
  },
  {
    id: "actions",
    head: <span className="sr-only">{words.columns.actions}</span>,
    align: "end",
    cell: (campaign) => <CampaignActs campaign={campaign} small />,
  },
];

const TONES: Record<ReturnType<typeof stateOf>, Tone> = {
  paused: "neutral",
  running: "accent",
  finished: "good",
  cancelled: "warn",
};

export function State({ campaign, progress }: { campaign: Campaign; progress: Progress }) {
  const state = stateOf(campaign, progress);
  return <Badge tone={TONES[state]}>{all.states[state]}</Badge>;
}

const COLOURS: Record<Kind, string> = {
  good: "bg-good",
  missed: "bg-strong",
  bad: "bg-bad",
  live: "bg-accent",
  open: "",
};

/** Each outcome with its count, as a text. */
const toldOf = ({ parts }: Progress) =>
  parts.map(({ what, count }) => `${count.toLocaleString()} ${all.whatText(what)}`).join(", ");

/** How many are done, and a bar with a piece for each outcome. */
export function ProgressBar({ progress }: { progress: Progress }) {
  const { total, done, parts } = progress;
  return (
    <div className="grid min-w-24 gap-1">
      <span className="whitespace-nowrap">{all.ofPeople(done, total)}</span>
      <span
        role="img"
        aria-label={toldOf(progress)}
        title={toldOf(progress)}
        className="flex h-2 overflow-hidden rounded border border-line bg-hover"
      >
        {parts.map(({ what, count, kind }) => (
          <span key={what} className={COLOURS[kind]} style={{ flexGrow: count }} />
        ))}
      </span>
    </div>
  );
}

/** Start or pause; results and cancel in a menu. Only what the person may do. */
export function CampaignActs({ campaign, small = false }: { campaign: Campaign; small?: boolean }) {
  const { name } = campaign;
  const [may, mayExport] = [useMay("calls.place"), useMay("calls.export")];
  const [cancelling, setCancelling] = useState(false);
  const told = (text: string) => ({ stale: STALE, onDone: () => toast(text) });
  const start = useSend("post", "/api/v1/campaigns/{campaign}/start", told(words.started(name)));
  const pause = useSend("post", "/api/v1/campaigns/{campaign}/pause", told(words.paused(name)));
  const state = stateOf(campaign, progressOf(campaign.people));
  const isOpen = state === "paused" || state === "running";
  const items: MenuItem[] = [];
  if (mayExport) {
    const results = `${CAMPAIGNS}/${encodeURIComponent(name)}/results`;
    items.push({ label: words.results, icon: "download", onSelect: () => download(results) });
  }
  if (may && isOpen) {
    const onSelect = () => setCancelling(true);
    items.push({ label: words.cancel, icon: "stop", danger: true, onSelect });
  }
  const runs = state === "running";
  const act = runs ? pause : start;
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      {may && isOpen && (
        <Button
          small={small}
          look={runs || small ? "plain" : "primary"}
          icon={runs ? "pause" : "play"}
          aria-label={runs ? words.pauseOf(name) : words.startOf(name)}
          busy={act.isPending}
          onClick={() => act.mutate({ path: { campaign: name } })}
        >
          {runs ? words.pause : words.start}
        </Button>
      )}
      {items.length > 0 && (
        <Menu
          trigger={<IconButton label={words.more(name)} icon="more" small={small} />}
          items={items}
        />
      )}
      {cancelling && <Cancel campaign={campaign} onClose={() => setCancelling(false)} />}
    </span>
  );
}

function Cancel({ campaign, onClose }: { campaign: Campaign; onClose: () => void }) {
  const { name, people } = campaign;
  const cancel = useSend("post", "/api/v1/campaigns/{campaign}/cancel", {
    stale: STALE,
    onDone: () => {
      toast(words.cancelled(name));
      onClose();
    },
  });
  return (
    <Confirm
      title={words.cancelTitle(name)}
      about={words.cancelAbout(progressOf(people).waiting)}
      confirm={words.cancelYes}
      danger
      busy={cancel.isPending}
      onConfirm={() => cancel.mutate({ path: { campaign: name } })}
      onClose={onClose}
    />
  );
}
