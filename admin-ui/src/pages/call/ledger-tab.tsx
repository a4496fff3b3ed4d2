// The ledger as it is, line by line.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { api } from "../../app/api.ts";
import { Answer } from "../../parts/answer.tsx";
import { Json } from "../../parts/code.tsx";
import { type Column, VirtualRows } from "../../parts/table.tsx";
import { words } from "../../words/call.ts";
import { rulerText } from "./draw.ts";
import { type LedgerLine, ledgerLines } from "./ledger.ts";
import type { Shown } from "./shown.ts";

const COLUMNS: readonly Column<LedgerLine>[] = [
  {
    id: "time",
    head: words.ledger.time,
    width: "6rem",
    cell: ({ at }) => <span className="font-mono text-xs text-muted">{rulerText(at, true)}</span>,
  },
  {
    id: "type",
    head: words.ledger.type,
    width: "minmax(7rem, 9rem)",
    cell: ({ type }) => <code className="font-mono text-xs">{type}</code>,
  },
  {
    id: "fields",
    head: words.ledger.fields,
    width: "minmax(6rem, 1fr)",
    cell: ({ fields }) => (
      <span className="block truncate font-mono text-xs text-muted">{fields}</span>
    ),
  },
];

export function LedgerTab({ shown: { id, end, player } }: { shown: Shown }) {
  const [open, setOpen] = useState<LedgerLine | null>(null);
  const query = useQuery({
    // A running call has more lines later.
    queryKey: ["ledger", id, end],
    queryFn: async ({ signal }) => {
      const params = { path: { call_id: id } };
      const answer = await api.GET("/api/v1/calls/{call_id}/ledger", {
        params,
        parseAs: "text",
        signal,
      });
      return answer.data ?? "";
    },
    placeholderData: keepPreviousData,
    gcTime: 0, // each key holds the whole ledger
  });
  const lines = useMemo(() => ledgerLines(query.data ?? ""), [query.data]);
  return (
    <Answer query={query}>
      {() => (
        <div className="flex flex-col">
          <div className="flex h-[26rem] flex-col">
            <VirtualRows
              label={words.ledger.label}
              rows={lines}
              columns={COLUMNS}
              rowKey={({ key }) => key}
              height={26}
              selected={open?.key}
              onOpen={(line) => {
                setOpen(line);
                player.seek(line.at);
              }}
            />
          </div>
          {open && (
            <div className="border-t border-line p-4">
              <Json value={open.value} label={words.ledger.line} />
            </div>
          )}
        </div>
      )}
    </Answer>
  );
}
