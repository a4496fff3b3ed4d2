import { type Schema, useGet, useSend } from "../../app/api.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/people.ts";

type Session = Schema<"SessionRow">;

const words = all.sessions;
const SESSIONS = "/api/v1/sessions";
const LOOK_MS = 15_000;

const COLUMNS: Column<Session>[] = [
  {
    id: "user",
    head: words.user,
    cell: ({ user, yours }) => (
      <span className="inline-flex min-h-6 items-center gap-2 font-medium">
        {user}
        {yours && <Badge tone="accent">{words.yours}</Badge>}
      </span>
    ),
  },
  { id: "client", head: words.client, cell: ({ client }) => client },
  { id: "began", head: words.began, wide: true, cell: (row) => <Time at={row.created_at} /> },
  { id: "seen", head: words.seen, cell: (row) => <Time at={row.seen_at} relative /> },
  {
    id: "actions",
    head: <span className="sr-only">{words.actions}</span>,
    align: "end",
    cell: (row) => <End session={row} />,
  },
];

/** All sessions of all users; one's own is ended by signing out. */
export function Sessions() {
  const sessions = useGet(SESSIONS, {}, { refetchInterval: LOOK_MS });
  return (
    <Section title={words.label} flush>
      <Answer query={sessions}>
        {(data) => (
          <DataTable
            label={words.label}
            rows={data.sessions}
            rowKey={({ id }) => id}
            columns={COLUMNS}
            empty={<Empty title={words.empty} />}
          />
        )}
      </Answer>
    </Section>
  );
}

function End({ session }: { session: Session }) {
  const end = useSend("delete", "/api/v1/sessions/{session_id}", {
    stale: [SESSIONS],
    onDone: () => toast(words.ended),
  });
  if (session.yours) return null;
  return (
    <Button
      small
      busy={end.isPending}
      aria-label={words.endOf(session.user, session.client)}
      onClick={() => end.mutate({ path: { session_id: session.id } })}
    >
      {words.end}
    </Button>
  );
}
