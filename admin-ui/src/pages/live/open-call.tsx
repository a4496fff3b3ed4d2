// One live call beside the list: its words as they come, the running turn, and what can be done.
import { useState } from "react";

import { usePhone } from "../../app/phone.ts";
import { useMay } from "../../app/session.ts";
import { useShortcut } from "../../app/shortcuts.tsx";
import { type Conversation, NOTHING_YET } from "../../conversation/conversation.ts";
import { Transcript, useConversation } from "../../conversation/transcript.tsx";
import { isOpen } from "../../conversation/waits.ts";
import { LastWait } from "../../conversation/waits-view.tsx";
import { Empty, Loading, StaleNote } from "../../parts/answer.tsx";
import { IconButton, LinkButton } from "../../parts/button.tsx";
import { durationText, Money } from "../../parts/time.tsx";
import { words } from "../../words/live.ts";
import { Composer, EndButton, FlagButton, TransferButton, useActs } from "./acts.tsx";
import { callerOf, Marks, State } from "./cells.tsx";
import { Elapsed } from "./elapsed.tsx";
import { ListenBar, ListenButton, useListening } from "./listen-button.tsx";
import type { LiveRow } from "./rows.ts";

export interface OpenCallProps {
  callId: string;
  /** Undefined once it is over, and before the list has come. */
  row: LiveRow | undefined;
  ahead: number;
  onClose: () => void;
}

/** Give it the call as its key: it holds what has happened in one call. */
export function OpenCall({ callId, row, ahead, onClose }: OpenCallProps) {
  const [known, setKnown] = useState(row);
  if (row !== undefined && row !== known) setKnown(row); // of a call that is over the last one stays
  const { conversation, feed } = useConversation(callId);
  const hidden = !useMay("personal");
  const listening = useListening(callId);
  useShortcut("Escape", words.call.closeKey, onClose);
  const { ended } = conversation;
  const nothing = conversation === NOTHING_YET;
  const live = row !== undefined && ended === null && feed.state !== "over";
  return (
    <aside
      aria-label={words.call.label(known ? callerOf(known) : callId)}
      className="flex min-h-0 w-[30rem] shrink-0 flex-col border-l border-line bg-raised phone:w-full phone:border-l-0"
    >
      <Header row={known} callId={callId} ahead={ahead} live={live} onClose={onClose} />
      {live && <Acts callId={callId} listening={listening} />}
      <ListenBar listening={listening} />
      {feed.state === "stale" && (
        <StaleNote since={feed.since}>{nothing ? words.unreached : undefined}</StaleNote>
      )}
      {feed.state === "refused" && !known ? (
        <Empty icon="calls" title={words.call.notLive}>
          <WholeCall callId={callId} />
        </Empty>
      ) : nothing && (feed.state === "connecting" || feed.state === "stale") ? (
        <div className="flex-1 px-4">{feed.state === "connecting" && <Loading />}</div>
      ) : (
        <>
          {known && <Wait row={known} {...{ conversation, ahead, live }} />}
          <Transcript
            {...{ conversation, hidden }}
            busy={live}
            quiet
            nothing={words.call.nothing}
          />
        </>
      )}
      {ended && <Ended {...ended} callId={callId} />}
      {live && <Words callId={callId} row={known} />}
    </aside>
  );
}

interface HeaderProps extends OpenCallProps {
  live: boolean;
}

function Header({ row, callId, ahead, live, onClose }: HeaderProps) {
  // On a phone the call is the whole page.
  const Heading = usePhone() ? "h1" : "h2";
  return (
    <header className="border-b border-line px-4 py-2.5">
      <div className="flex items-center gap-2">
        <Heading className="min-w-0 truncate text-base">{row ? callerOf(row) : callId}</Heading>
        {row && <Marks row={row} />}
        <span className="ml-auto flex gap-1">
          <LinkButton look="quiet" small icon="external" to="/calls/$callId" params={{ callId }}>
            {words.call.open}
          </LinkButton>
          <IconButton label={words.call.close} icon="close" small onClick={onClose} />
        </span>
      </div>
      {row && (
        <p className="flex flex-wrap gap-x-3 text-muted">
          {live && (
            <span className="text-ink">
              <State row={row} />
            </span>
          )}
          {live && <Elapsed since={Date.parse(row.started_at)} ahead={ahead} shape="clock" />}
          <span>
            {row.context}, {row.provider}
          </span>
          {row.called_number && (
            <span>
              {words.call.called} {row.called_number}
            </span>
          )}
          <span>
            {words.call.transport} {row.transport}
          </span>
          {row.cost && <Money amount={row.cost.amount} currency={row.cost.currency ?? ""} />}
          {row.queued_ms > 0 && <span>{words.call.queued(durationText(row.queued_ms))}</span>}
        </p>
      )}
    </header>
  );
}

interface WaitProps {
  row: LiveRow;
  conversation: Conversation;
  ahead: number;
  live: boolean;
}

function Wait({ row, conversation, ahead, live }: WaitProps) {
  const turn = conversation.turns.at(-1);
  if (!turn) return null;
  const title = words.call.turn(turn.number, live && isOpen(turn));
  const began = Date.parse(row.started_at) + ahead;
  return (
    <section aria-label={title} className="border-b border-line px-4 py-2">
      <LastWait {...{ title, conversation, began, live }} />
    </section>
  );
}

interface ActsProps {
  callId: string;
  listening: ReturnType<typeof useListening>;
}

function Acts({ callId, listening }: ActsProps) {
  const may = useActs();
  if (!may.control && !may.note && !may.listen) return null;
  return (
    <div className="flex flex-wrap gap-2 border-b border-line px-4 py-2 phone:[&_svg]:hidden">
      {may.listen && <ListenButton listening={listening} />}
      {may.note && <FlagButton call_id={callId} />}
      {may.control && <TransferButton call_id={callId} />}
      {may.control && (
        <span className="ml-auto">
          <EndButton call_id={callId} />
        </span>
      )}
    </div>
  );
}

function Words({ callId, row }: { callId: string; row: LiveRow | undefined }) {
  const others = { human: row?.human ?? "", operator: row?.operator ?? "" };
  return useActs().control && <Composer call_id={callId} others={others} />;
}

function WholeCall({ callId }: { callId: string }) {
  return (
    <LinkButton to="/calls/$callId" params={{ callId }}>
      {words.call.open}
    </LinkButton>
  );
}

interface EndedProps {
  callId: string;
  outcome: string;
  reason: string;
}

function Ended({ callId, outcome, reason }: EndedProps) {
  const how = [outcome, reason].filter(Boolean).join(", ").replaceAll("_", " ");
  return (
    <div role="status" className="flex items-center gap-3 border-t border-line px-4 py-2.5">
      <span>
        {words.call.ended}: {how}
      </span>
      <span className="ml-auto">
        <WholeCall callId={callId} />
      </span>
    </div>
  );
}
