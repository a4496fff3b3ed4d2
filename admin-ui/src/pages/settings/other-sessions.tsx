import { type Schema, useGet, useSend } from "../../app/api.ts";
import { Answer } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/settings.ts";

const words = all.others;
const OTHERS = "/api/v1/session/others";

const COLUMNS: Column<Schema<"SessionRow">>[] = [
  { id: "client", head: words.client, cell: ({ client }) => client },
  { id: "began", head: words.began, cell: (row) => <Time at={row.created_at} /> },
  { id: "seen", head: words.seen, wide: true, cell: (row) => <Time at={row.seen_at} relative /> },
];

/** Where else one is signed in. */
export function OtherSessions() {
  const others = useGet(OTHERS);
  const end = useSend("delete", OTHERS, {
    stale: [OTHERS],
    onDone: () => toast(words.ended),
  });
  const some = (others.data?.sessions.length ?? 0) > 0;
  const button = (
    <Button busy={end.isPending} onClick={() => end.mutate({})}>
      {words.end}
    </Button>
  );
  return (
    <Section title={words.title} actions={some && button} flush>
      <Answer query={others}>
        {({ sessions }) => (
          <DataTable
            label={words.label}
            rows={sessions}
            rowKey={({ id }) => id}
            columns={COLUMNS}
            empty={<p className="p-4 text-muted">{words.none}</p>}
          />
        )}
      </Answer>
    </Section>
  );
}
