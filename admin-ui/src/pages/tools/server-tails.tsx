// What a server writes to its stderr, and its messages with the engine, as they come.
import { type ReactNode, useEffect, useEffectEvent, useRef, useState } from "react";

import { get, Refused, type Schema } from "../../app/api.ts";
import { seesAll, useMay, useSession } from "../../app/session.ts";
import { Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Switch } from "../../parts/field.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/tools.ts";

const EVERY_MS = 1_000;
const KEPT = 500;

interface Part<T> {
  /** Number of the last item: where the next part begins. */
  last: number;
  lost: number;
  items: T[];
}

interface Tail<T> {
  items: readonly { number: number; item: T }[];
  lost: number;
  begun: boolean;
  error: Error | null;
}

/** Follows a list that grows at its end, as long as the page is shown. */
function useTail<T>(ask: (after: number, signal: AbortSignal) => Promise<Part<T>>): Tail<T> {
  const [tail, setTail] = useState<Tail<T>>({ items: [], lost: 0, begun: false, error: null });
  const look = useEffectEvent(ask);
  useEffect(() => {
    const ended = new AbortController();
    let timer = 0;
    let last = 0;
    const follow = async () => {
      let error: Error | null = null;
      try {
        if (!document.hidden) {
          const part = await look(last, ended.signal);
          const again = part.last < last; // the engine was started anew
          last = again ? 0 : part.last;
          if (!again) setTail((before) => longer(before, part));
        }
      } catch (thrown) {
        if (ended.signal.aborted) return;
        error = thrown instanceof Error ? thrown : new Error(String(thrown));
        setTail((before) => ({ ...before, error }));
      }
      if (!isFinal(error)) timer = window.setTimeout(() => void follow(), EVERY_MS);
    };
    void follow();
    return () => {
      ended.abort();
      window.clearTimeout(timer);
    };
  }, []);
  return tail;
}

/**
 * True for a refusal that stays one: asking again helps against an engine or proxy that is busy, and
 * behind the sign-in.
 */
const isFinal = (error: Error | null) =>
  error instanceof Refused && error.status < 500 && ![401, 429].includes(error.status);

function longer<T>(before: Tail<T>, { lost, items }: Part<T>): Tail<T> {
  if (items.length === 0 && before.begun && before.error === null) return before;
  // Counted here: the numbers of an engine that was started anew begin at 1 again.
  const first = (before.items.at(-1)?.number ?? 0) + 1;
  const added = items.map((item, index) => ({ number: first + index, item }));
  const kept = [...before.items, ...added].slice(-KEPT);
  return { items: kept, lost: before.lost + lost, begun: true, error: null };
}

export function Stderr({ server }: { server: string }) {
  const me = useSession();
  if (!seesAll(me)) return <Empty icon="lock" title={words.tail.allContexts} />;
  return <StderrLines server={server} />;
}

function StderrLines({ server }: { server: string }) {
  const tail = useTail<string>(async (after, signal) => {
    const found = await get(
      "/api/v1/mcp/{server}/stderr",
      { path: { server }, query: { after } },
      signal,
    );
    return { ...found, items: found.lines };
  });
  return (
    <Scroller label={words.tail.stderr} tail={tail} none={words.tail.none}>
      {tail.items.map(({ number, item }) => (
        <div key={number} className="px-3 whitespace-pre-wrap break-words">
          {item}
        </div>
      ))}
    </Scroller>
  );
}

export function Messages({ server }: { server: string }) {
  const me = useSession();
  const personal = useMay("personal");
  if (!personal) return <Empty icon="lock" title={words.tail.personal} />;
  if (!seesAll(me)) return <Empty icon="lock" title={words.tail.allContexts} />;
  return <MessageLines server={server} />;
}

function MessageLines({ server }: { server: string }) {
  const tail = useTail<Schema<"Message">>(async (after, signal) => {
    const found = await get(
      "/api/v1/mcp/{server}/protocol",
      { path: { server }, query: { after } },
      signal,
    );
    return { ...found, items: found.messages };
  });
  return (
    <Scroller label={words.tail.messages} tail={tail} none={words.tail.noMessages}>
      {tail.items.map(({ number, item }) => (
        <MessageLine key={number} message={item} />
      ))}
    </Scroller>
  );
}

function MessageLine({ message }: { message: Schema<"Message"> }) {
  const sent = message.direction === "sent";
  return (
    <details className="border-b border-line last:border-0">
      <summary className="flex min-h-6 cursor-pointer items-center gap-2 px-3">
        <Time at={message.at} />
        <span className="w-20 shrink-0 text-muted">
          <span aria-hidden="true">{sent ? "→" : "←"}</span>{" "}
          {sent ? words.tail.sent : words.tail.received}
        </span>
        <Badge tone={message.kind === "error" ? "bad" : "neutral"}>{message.kind}</Badge>
        <span className="min-w-0 flex-1 truncate">{message.method || message.content}</span>
        {message.cut && <Badge>{words.tail.cut}</Badge>}
        <span className="text-muted">{message.id}</span>
      </summary>
      <pre className="px-3 pb-2 whitespace-pre-wrap break-words">{message.content}</pre>
    </details>
  );
}

interface ScrollerProps {
  label: string;
  tail: Tail<unknown>;
  none: string;
  children: ReactNode;
}

/** Scrolls to the newest line, unless the person switches that off. */
function Scroller({ label, tail, none, children }: ScrollerProps) {
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLElement>(null);
  const newest = tail.items.at(-1)?.number;
  useEffect(() => {
    if (follows && newest !== undefined) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [follows, newest]);
  if (!tail.begun) return tail.error ? <Problem error={tail.error} /> : <Loading />;
  return (
    <div className="grid gap-2">
      <div className="flex items-center justify-between gap-2">
        <p className="text-xs text-muted">{tail.lost > 0 && words.tail.lost(tail.lost)}</p>
        <Switch label={words.tail.follow} checked={follows} onChecked={setFollows} />
      </div>
      {tail.items.length === 0 ? (
        <Empty title={none} />
      ) : (
        <section
          ref={box}
          tabIndex={0}
          aria-label={label}
          className="max-h-[60vh] overflow-auto rounded-md border border-line bg-surface py-1 font-mono text-xs"
        >
          {children}
        </section>
      )}
    </div>
  );
}
