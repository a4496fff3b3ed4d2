// The written conversation.
import { type FormEvent, useRef, useState, useSyncExternalStore } from "react";

import { sentence } from "../../app/api.ts";
import { Said, Transcript } from "../../conversation/transcript.tsx";
import { Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton, LinkButton } from "../../parts/button.tsx";
import { TextInput } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import type { WrittenTest, WrittenView } from "./written-test.ts";

const text = words.chatting;
/** The engine's limit, unless it is configured otherwise. */
const MOST_CHARACTERS = 4_000;

export interface ChatProps {
  test: WrittenTest | null;
  /** False while it is not known what to try. */
  ready: boolean;
  onBegin: () => void;
}

export function Chat({ test, ready, onBegin }: ChatProps) {
  if (test === null) {
    return (
      <div className="m-auto">
        <Empty icon="try" title={text.idle}>
          <p>{text.idleHint}</p>
          <Button look="primary" disabled={!ready} onClick={onBegin}>
            {text.begin}
          </Button>
        </Empty>
      </div>
    );
  }
  return <Conversation test={test} onBegin={onBegin} />;
}

function Conversation({ test, onBegin }: { test: WrittenTest; onBegin: () => void }) {
  const view = useSyncExternalStore(test.subscribe, () => test.view);
  const answering = view.phase === "answering" || view.phase === "beginning";
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Facts view={view} onBegin={onBegin} onEnd={() => test.leave()} />
      <Transcript
        conversation={view.conversation}
        busy={answering}
        onApprove={view.phase === "approval" ? (yes) => test.approve(yes) : undefined}
      >
        {answering && view.conversation.items.at(-1)?.kind !== "agent" && (
          <Said by="agent">
            <span className="text-muted">{text.thinks}</span>
          </Said>
        )}
        {view.waiting.map((message, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same words may wait twice
          <Said key={at} by="caller">
            <span className="text-muted">{message}</span>{" "}
            <span className="text-xs text-muted">{text.waiting}</span>
          </Said>
        ))}
        <Outcome view={view} />
      </Transcript>
      <Entry test={test} view={view} />
    </div>
  );
}

function Facts(props: { view: WrittenView; onBegin: () => void; onEnd: () => void }) {
  const { phase, begun } = props.view;
  const over = phase === "ended" || phase === "failed";
  return (
    <div className="flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5">
      {begun && (
        <>
          <span className="font-medium">{begun.context}</span>
          <span className="text-muted">{text.facts(begun.provider, begun.model)}</span>
          <span className="text-muted">{text.toolCount(begun.tools.length)}</span>
          {begun.trial && <Badge tone="accent">{begun.trial}</Badge>}
          {begun.missing_tools.length > 0 && (
            <Badge tone="warn">{text.missing(begun.missing_tools.join(", "))}</Badge>
          )}
          {begun.notice && <span className="text-xs text-muted">{begun.notice}</span>}
        </>
      )}
      <div className="ml-auto flex gap-2">
        {!over && (
          <Button small onClick={props.onEnd}>
            {text.end}
          </Button>
        )}
        <Button small icon="refresh" onClick={props.onBegin}>
          {text.again}
        </Button>
      </div>
    </div>
  );
}

/** How the last answer went, or the conversation ended. */
function Outcome({ view }: { view: WrittenView }) {
  const { phase, took, reason, error, begun } = view;
  return (
    <>
      {took && (
        <p className="pl-19 text-xs text-muted">
          {took.firstMs === null
            ? text.tookSilent(durationText(took.wholeMs))
            : text.took(durationText(took.firstMs), durationText(took.wholeMs))}
        </p>
      )}
      {error && (
        <p role="alert" className="flex items-start gap-2 text-bad">
          <Icon name="warning" />
          {sentence(error)}
        </p>
      )}
      {phase === "ended" && begun && (
        <div className="flex flex-wrap items-center gap-3 rounded-md bg-hover px-3 py-2">
          <span>
            {text.over}
            {reason && <span className="text-muted"> ({reason})</span>}
          </span>
          <LinkButton small icon="calls" to="/calls/$callId" params={{ callId: begun.chat }}>
            {text.openRecord}
          </LinkButton>
        </div>
      )}
    </>
  );
}

function Entry({ test, view }: { test: WrittenTest; view: WrittenView }) {
  const [typed, setTyped] = useState("");
  const input = useRef<HTMLInputElement>(null);
  const over = view.phase === "ended" || view.phase === "failed";
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (typed.trim() === "" || over) return;
    test.say(typed.trim());
    setTyped("");
    input.current?.focus();
  };
  return (
    <form onSubmit={send} className="flex gap-2 border-t border-line px-4 py-3">
      <TextInput
        ref={input}
        aria-label={text.message}
        placeholder={text.placeholder}
        autoComplete="off"
        autoFocus
        maxLength={MOST_CHARACTERS}
        disabled={over}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      {view.phase === "answering" && (
        <IconButton label={text.stop} icon="stop" onClick={() => test.stop()} />
      )}
      <Button type="submit" look="primary" disabled={over || typed.trim() === ""}>
        {text.send}
      </Button>
    </form>
  );
}
