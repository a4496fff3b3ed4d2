// The engines of the cluster: who is there, how full, and whether it takes calls.
import { useState } from "react";

import { type Answered, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Checkbox } from "../../parts/field.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { agoText, Time } from "../../parts/time.tsx";
import { words } from "../../words/cluster.ts";

type State = Answered<"/api/v1/cluster">;
type Node = State["nodes"][number];

const CLUSTER = "/api/v1/cluster";
const LOOK_MS = 2_000;
const stale = [CLUSTER] as const;

export default function ClusterPage() {
  const cluster = useGet(CLUSTER, {}, { refetchInterval: LOOK_MS });
  return (
    <Page title={words.title}>
      <Answer query={cluster}>
        {(state) =>
          state.clustered ? (
            <>
              {state.bus && <Bus bus={state.bus} />}
              <Nodes nodes={state.nodes} />
            </>
          ) : (
            <Empty icon="cluster" title={words.alone}>
              <p>{words.aloneHint}</p>
            </Empty>
          )
        }
      </Answer>
    </Page>
  );
}

function Bus({ bus }: { bus: NonNullable<State["bus"]> }) {
  const { connected, server, problem, lease } = bus;
  return (
    <p role="status" className="mb-3 flex flex-wrap items-center gap-1.5">
      <StatusDot tone={connected ? (lease === "held" ? "good" : "warn") : "bad"} />
      {connected ? (
        <>
          {words.bus.connected(server)} {lease !== "held" && words.bus.doubt}
        </>
      ) : (
        <>
          <span className="font-medium text-bad">{words.bus.away}</span> {problem}{" "}
          <span className="text-muted">{words.bus.awayHint}</span>
        </>
      )}
    </p>
  );
}

function Nodes({ nodes }: { nodes: readonly Node[] }) {
  const may = useMay("engine.control");
  const [asking, setAsking] = useState("");
  const [moves, setMoves] = useState(false);
  const close = () => setAsking("");
  const ask = (node: string) => {
    setMoves(false); // a choice for one node is none for the next
    setAsking(node);
  };
  const drain = useSend("post", "/api/v1/cluster/nodes/{node}/drain", { stale, onDone: close });
  const undrain = useSend("post", "/api/v1/cluster/nodes/{node}/undrain", { stale });
  const acts: Column<Node> = {
    id: "acts",
    head: <span className="sr-only">{words.acts}</span>,
    align: "end",
    cell: ({ node, draining }) => (
      <Button
        small
        aria-label={draining ? words.undrainNode(node) : words.drainNode(node)}
        busy={undrain.isPending}
        onClick={() => (draining ? undrain.mutate({ path: { node } }) : ask(node))}
      >
        {draining ? words.undrain : words.drain}
      </Button>
    ),
  };
  return (
    <>
      <DataTable
        label={words.list}
        rows={nodes}
        rowKey={({ instance }) => instance}
        columns={may ? [...COLUMNS, acts] : COLUMNS}
      />
      {asking && (
        <Confirm
          {...words.confirm(asking)}
          about={
            <>
              <p>{words.confirm(asking).about}</p>
              <Checkbox
                className="mt-2"
                label={words.handOver}
                hint={words.handOverHint}
                checked={moves}
                onChecked={setMoves}
              />
            </>
          }
          busy={drain.isPending}
          onConfirm={() => drain.mutate({ path: { node: asking }, body: { hand_over: moves } })}
          onClose={close}
        />
      )}
    </>
  );
}

const head = words.columns;
const COLUMNS: Column<Node>[] = [
  {
    id: "node",
    head: head.node,
    cell: ({ node, instance, own }) => (
      <span title={instance}>
        <span className="font-medium">{node}</span>{" "}
        {own && <span className="text-muted">{words.here}</span>}
      </span>
    ),
  },
  {
    id: "state",
    head: head.state,
    cell: ({ draining, problem }) => (
      <span className="flex flex-wrap items-center gap-1.5">
        <StatusDot tone={draining ? "warn" : "good"} />
        {draining ? words.draining : words.ready}
        {problem && (
          <span title={problem}>
            <Badge tone="warn">{words.unseen}</Badge>
          </span>
        )}
      </span>
    ),
  },
  { id: "calls", head: head.calls, align: "end", cell: ({ live_calls: live }) => live },
  { id: "free", head: head.free, align: "end", cell: ({ free_slots: free }) => free },
  { id: "version", head: head.version, wide: true, cell: ({ version }) => version },
  {
    id: "labels",
    head: head.labels,
    wide: true,
    cell: ({ labels, region }) => [region, ...labels].filter(Boolean).join(", "),
  },
  { id: "asterisk", head: head.asterisk, wide: true, cell: ({ asterisk }) => asterisk },
  {
    id: "started",
    head: head.started,
    wide: true,
    cell: ({ started_at: at }) => <Time at={at} />,
  },
  {
    id: "lease",
    head: head.lease,
    align: "end",
    wide: true,
    cell: ({ lease_age_ms: age }) => age !== null && agoText(age),
  },
];
