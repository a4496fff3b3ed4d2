// The call from this page: its controls, words, waits and line.
import { useBlocker } from "@tanstack/react-router";
import { useState, useSyncExternalStore } from "react";

import { useClockAhead } from "../../app/clock.ts";
import { useLiveCalls } from "../../app/live.ts";
import { useShortcut } from "../../app/shortcuts.tsx";
import { type BrowserCall, type CallView, noMicrophone } from "../../audio/browser-call.ts";
import { Transcript, useConversation } from "../../conversation/transcript.tsx";
import { Waits } from "../../conversation/waits-view.tsx";
import { Empty } from "../../parts/answer.tsx";
import { StatusDot } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Icon } from "../../parts/icons.tsx";
import { clockText, useNow } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import { Keypad, LineFacts, Meter } from "./line.tsx";

const text = words.calling;

export interface CallTest {
  readonly call: BrowserCall;
  /** Counts the calls of this page. */
  readonly number: number;
}

/** Where a link leads to. */
interface Next {
  readonly pathname: string;
  readonly search: object;
}

export interface CallProps {
  test: CallTest | null;
  /** False while it is not known what to try. */
  ready: boolean;
  onBegin: () => void;
}

export function Call({ test, ready, onBegin }: CallProps) {
  const missing = noMicrophone();
  if (missing === "insecure") return <Insecure />;
  if (missing === "unsupported") return <Empty icon="mic" title={text.unsupported} />;
  if (test === null) {
    return (
      <div className="m-auto">
        <Empty icon="mic" title={text.idle}>
          <p>{text.idleHint}</p>
          <Button look="primary" icon="calls" disabled={!ready} onClick={onBegin}>
            {text.begin}
          </Button>
        </Empty>
      </div>
    );
  }
  return <Running key={test.number} call={test.call} onBegin={onBegin} />;
}

/** The page came over plain http from another machine: what helps, to be copied. */
function Insecure() {
  const port = location.port || "80";
  const local = `http://localhost:${port}${location.pathname}${location.search}`;
  return (
    <Empty icon="lock" title={text.insecureTitle}>
      <p>
        {text.insecure} <span className="text-ink select-all">{local}</span>
      </p>
      <CodeBlock text={`ssh -L ${port}:127.0.0.1:${port} ${location.hostname}`} />
    </Empty>
  );
}

/** Follow the call's ledger from the moment when it is among the live calls. */
function useCourse(callId: string) {
  const { rows } = useLiveCalls();
  const ahead = useClockAhead();
  const [began, setBegan] = useState<number | null>(null);
  const row = rows.find((each) => each.call_id === callId);
  if (row && began === null) setBegan(Date.parse(row.started_at));
  const followed = useConversation(began === null ? null : callId);
  return { ...followed, began: (began ?? 0) + ahead };
}

function Running({ call, onBegin }: { call: BrowserCall; onBegin: () => void }) {
  const view = useSyncExternalStore(call.subscribe, () => call.view);
  const { conversation, feed, began } = useCourse(view.callId);
  const live = view.phase === "live";
  const nothing = view.end === null && text.noTranscript;
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Controls call={call} view={view} onBegin={onBegin} />
      <div className="flex min-h-0 flex-1 phone:flex-col">
        <Transcript conversation={conversation} busy={live} quiet nothing={nothing}>
          {feed.state === "refused" && (
            <p role="alert" className="text-warn">
              {text.feedRefused} {feed.message}
            </p>
          )}
        </Transcript>
        <aside
          aria-label={text.course}
          className="w-80 shrink-0 overflow-y-auto border-l border-line px-4 py-3 phone:max-h-[38%] phone:w-full phone:border-t phone:border-l-0"
        >
          <div className="grid grid-cols-[minmax(0,1fr)] gap-5">
            <Waits conversation={conversation} began={began} live={live} />
            <LineFacts line={view.line} />
          </div>
        </aside>
      </div>
    </div>
  );
}

function Controls({
  call,
  view,
  onBegin,
}: {
  call: BrowserCall;
  view: CallView;
  onBegin: () => void;
}) {
  const [keypad, setKeypad] = useState(false);
  useShortcut("m", text.muteKey, () => call.mute(!call.view.muted));
  if (view.phase === "ended") return <Ended view={view} onBegin={onBegin} />;
  const live = view.phase === "live";
  return (
    <div className="border-b border-line px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div role="status" className="flex min-w-36 items-center gap-2">
          <StatusDot tone={live ? "good" : "accent"} />
          <span className="font-medium">{text.phases[view.phase]}</span>
          {live && <Clock since={view.since} />}
        </div>
        <div className="flex gap-4">
          <Meter who="you" read={() => call.levels.microphone} />
          <Meter who="agent" read={() => call.levels.speaker} />
        </div>
        <div className="ml-auto flex flex-wrap gap-2">
          <Button
            icon="mic"
            ref={takeLostFocus}
            aria-pressed={view.muted}
            look={view.muted ? "primary" : "plain"}
            onClick={() => call.mute(!view.muted)}
          >
            {view.muted ? text.muted : text.mute}
          </Button>
          <Button icon="table" aria-expanded={keypad} onClick={() => setKeypad(!keypad)}>
            {text.keypad}
          </Button>
          <Button look="danger" icon="hangup" onClick={call.leave}>
            {text.hangUp}
          </Button>
        </div>
      </div>
      {keypad && <Keypad view={view} onKey={(key) => call.press(key)} />}
    </div>
  );
}

/** The button that had the focus is gone with its bar: the keyboard goes on here. */
function takeLostFocus(element: HTMLElement | null): void {
  if (document.activeElement === document.body) element?.focus();
}

function Clock({ since }: { since: number }) {
  useNow(500); // renders again; the time itself is on the clock of `performance`
  return <span className="text-muted">{clockText(performance.now() - since)}</span>;
}

function Ended({ view, onBegin }: { view: CallView; onBegin: () => void }) {
  const why = view.end?.why ?? "";
  const known = Object.entries(words.ends).find(([each]) => each === why)?.[1];
  return (
    <div className="grid gap-2 border-b border-line px-4 py-2">
      <div
        role="status"
        ref={takeLostFocus}
        tabIndex={-1}
        className="flex flex-wrap items-center gap-3"
      >
        <Icon name="hangup" />
        <span className="font-medium">{known ?? words.endedOther(why)}</span>
        {view.end?.said && <span className="text-muted">{view.end.said}</span>}
        {view.lastedMs > 0 && (
          <span className="text-muted">{text.duration(clockText(view.lastedMs))}</span>
        )}
      </div>
      {/* Far from the place of "Hang up": who meant it as the agent ended the call begins no other. */}
      <div className="flex gap-2">
        <Button look="primary" icon="calls" onClick={onBegin}>
          {text.again}
        </Button>
        {view.since > 0 && (
          <LinkButton icon="calls" to="/calls/$callId" params={{ callId: view.callId }}>
            {text.openCall}
          </LinkButton>
        )}
      </div>
    </div>
  );
}

/** Asks before the page with a call is left, which ends the call. */
export function LeaveCall({
  call,
  staysFor,
}: {
  call: BrowserCall;
  staysFor: (next: Next) => boolean;
}) {
  const runs = () => call.view.phase !== "ended";
  const blocker = useBlocker({
    shouldBlockFn: ({ next }) => runs() && !staysFor(next),
    enableBeforeUnload: runs,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Confirm
      title={text.leaveTitle}
      about={text.leaveAbout}
      confirm={text.leave}
      danger
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    />
  );
}
