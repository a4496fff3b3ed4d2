// What a person can do in a live call: end it, transfer the caller, take over, join, flag the moment,
// say, hint or whisper.
import { type FormEvent, type KeyboardEvent, useState } from "react";

import { useGet, useOnce, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Checkbox, Field, TextArea, TextInput } from "../../parts/field.tsx";
import { Menu } from "../../parts/menu.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/live.ts";

const acts = words.acts;

export function EndButton({ call_id }: { call_id: string }) {
  const [asks, setAsks] = useState(false);
  const [reason, setReason] = useState("");
  const once = useOnce();
  const end = useSend("post", "/api/v1/calls/{call_id}/hangup", {
    onDone: () => {
      once.done();
      setAsks(false);
      toast(acts.ended);
    },
  });
  return (
    <>
      <Button look="danger" icon="hangup" onClick={() => setAsks(true)}>
        {acts.end}
      </Button>
      {asks && (
        <Confirm
          danger
          title={acts.endTitle}
          about={
            <>
              <p className="mb-3">{acts.endAbout}</p>
              <Field label={acts.endReason}>
                <TextInput
                  value={reason}
                  maxLength={200}
                  onChange={({ target }) => setReason(target.value)}
                />
              </Field>
            </>
          }
          confirm={acts.endYes}
          busy={end.isPending}
          onConfirm={() =>
            end.mutate(
              { path: { call_id }, body: { reason }, headers: once.headers(call_id, reason) },
              once.kept,
            )
          }
          onClose={() => setAsks(false)}
        />
      )}
    </>
  );
}

type Move = "transfer" | "takeover" | "join";

export function TransferButton({ call_id }: { call_id: string }) {
  const [asked, setAsked] = useState<{ to: string; move: Move } | null>(null);
  const [quiet, setQuiet] = useState(false);
  const uses = useGet("/api/v1/config/uses", {}, { staleTime: 60_000 });
  const once = useOnce();
  const done = (words: (to: string) => string) => ({
    onDone: () => {
      once.done();
      toast(words(asked?.to ?? ""));
      setAsked(null);
    },
  });
  const transfer = useSend("post", "/api/v1/calls/{call_id}/transfer", done(acts.transferred));
  const takeover = useSend("post", "/api/v1/calls/{call_id}/takeover", done(acts.tookOver));
  const join = useSend("post", "/api/v1/calls/{call_id}/conference", done(acts.joined));
  const busy = transfer.isPending || takeover.isPending || join.isPending;
  const item = (label: string, to: string, move: Move) => ({
    label,
    onSelect: () => setAsked({ to, move }),
  });
  const items = [
    ...(uses.data?.destinations ?? []).map((to) => item(to, to, "transfer")),
    ...(uses.data?.takeovers ?? []).flatMap((to) => [
      item(acts.takeOver(to), to, "takeover"),
      item(acts.join(to), to, "join"),
    ]),
  ];
  const confirm = ({ to, move }: { to: string; move: Move }) => {
    const headers = once.headers(call_id, move, to, quiet);
    const path = { call_id };
    const body = { destination: to };
    if (move === "transfer") transfer.mutate({ path, body, headers }, once.kept);
    else if (move === "takeover") takeover.mutate({ path, body, headers }, once.kept);
    else {
      const agent = quiet ? ("quiet" as const) : ("talks" as const);
      join.mutate({ path, body: { ...body, agent }, headers }, once.kept);
    }
  };
  return (
    <>
      <Menu
        trigger={
          <Button icon="transfer" busy={busy}>
            {acts.transfer}
          </Button>
        }
        items={
          items.length > 0
            ? items
            : [{ label: acts.noDestinations, disabled: true, onSelect: () => {} }]
        }
      />
      {asked?.move === "transfer" && (
        <Confirm
          title={acts.transferTitle(asked.to)}
          about={acts.transferAbout}
          confirm={acts.transferYes(asked.to)}
          busy={busy}
          onConfirm={() => confirm(asked)}
          onClose={() => busy || setAsked(null)}
        />
      )}
      {asked?.move === "takeover" && (
        <Confirm
          title={acts.takeOverTitle(asked.to)}
          about={acts.takeOverAbout}
          confirm={acts.takeOver(asked.to)}
          busy={busy}
          onConfirm={() => confirm(asked)}
          onClose={() => busy || setAsked(null)}
        />
      )}
      {asked?.move === "join" && (
        <Confirm
          title={acts.joinTitle(asked.to)}
          about={
            <>
              <p className="mb-3">{acts.joinAbout}</p>
              <Checkbox label={acts.joinQuiet} checked={quiet} onChecked={setQuiet} />
            </>
          }
          confirm={acts.join(asked.to)}
          busy={busy}
          onConfirm={() => confirm(asked)}
          onClose={() => busy || setAsked(null)}
        />
      )}
    </>
  );
}

export function FlagButton({ call_id }: { call_id: string }) {
  const [asks, setAsks] = useState(false);
  const flag = useSend("post", "/api/v1/calls/{call_id}/flag", {
    onDone: () => {
      setAsks(false);
      toast(acts.flagged);
    },
  });
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("text") ?? "");
    flag.mutate({ path: { call_id }, body: { text } });
  };
  return (
    <>
      <Button icon="flag" onClick={() => setAsks(true)}>
        {acts.flag}
      </Button>
      {asks && (
        <Dialog title={acts.flagTitle} about={acts.flagAbout} onClose={() => setAsks(false)}>
          <form onSubmit={send} className="grid gap-3">
            <Field label={acts.flagText}>
              <TextInput name="text" maxLength={500} autoFocus autoComplete="off" />
            </Field>
            <div className="flex justify-end">
              <Button type="submit" look="primary" busy={flag.isPending}>
                {acts.flag}
              </Button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}

const PARTIES = ["human", "operator"] as const;
type Party = (typeof PARTIES)[number];
type Kind = "say" | "hint" | Party;

export interface ComposerProps {
  call_id: string;
  /** The names of those who can be whispered to; empty: not on the line. */
  others: Record<Party, string>;
}

/** Words for the caller, a note for the agent's model, or words for one other party alone. */
export function Composer({ call_id, others }: ComposerProps) {
  const [chosen, setKind] = useState<Kind>("say");
  const parties = PARTIES.filter((each) => others[each] !== "");
  const kinds: Kind[] = ["say", "hint", ...parties];
  const kind = kinds.includes(chosen) ? chosen : "say"; // one who was whispered to has left
  const [text, setText] = useState("");
  const [interrupt, setInterrupt] = useState(false);
  const path = { call_id };
  const once = useOnce();
  const say = useSend("post", "/api/v1/calls/{call_id}/say", {
    onDone: ({ state }) => {
      once.done();
      setText("");
      toast(state === "begun" ? acts.begun : acts.willSay);
    },
  });
  const hint = useSend("post", "/api/v1/calls/{call_id}/hint", {
    onDone: () => {
      once.done();
      setText("");
      toast(acts.hinted);
    },
  });
  const whisper = useSend("post", "/api/v1/calls/{call_id}/whisper", {
    onDone: ({ state }) => {
      once.done();
      setText("");
      toast(state === "begun" ? acts.whispered : acts.willWhisper);
    },
  });
  const busy = say.isPending || hint.isPending || whisper.isPending;
  const send = () => {
    if (text.trim() === "" || busy) return;
    if (kind === "say") {
      const headers = once.headers(call_id, kind, text, interrupt);
      say.mutate({ path, body: { text, interrupt }, headers }, once.kept);
      return;
    }
    const headers = once.headers(call_id, kind, text);
    if (kind === "hint") hint.mutate({ path, body: { text }, headers }, once.kept);
    else whisper.mutate({ path, body: { text, to: kind }, headers }, once.kept);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const labels = {
    say: acts.sayLabel,
    hint: acts.hintLabel,
    human: acts.whisperLabel(others.human),
    operator: acts.whisperLabel(others.operator),
  };
  const buttons = {
    say: acts.say,
    hint: acts.hint,
    human: acts.whisperTo(others.human),
    operator: acts.whisperTo(others.operator),
  };
  return (
    <div className="grid gap-2 border-t border-line bg-raised px-4 py-2.5">
      <TextArea
        rows={2}
        maxLength={500}
        value={text}
        aria-label={labels[kind]}
        placeholder={labels[kind]}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="flex flex-wrap items-center gap-2">
        <fieldset aria-label={acts.kind} className="flex flex-wrap">
          {kinds.map((each) => (
            <Button
              key={each}
              small
              look={each === kind ? "primary" : "plain"}
              aria-pressed={each === kind}
              onClick={() => setKind(each)}
            >
              {buttons[each]}
            </Button>
          ))}
        </fieldset>
        {kind === "say" && (
          <Checkbox label={acts.interrupt} checked={interrupt} onChecked={setInterrupt} />
        )}
        <Button small className="ml-auto" busy={busy} disabled={!text.trim()} onClick={send}>
          {acts.send[kind === "say" || kind === "hint" ? kind : "whisper"]}
        </Button>
      </div>
    </div>
  );
}

/** The acts that the person may do. */
export function useActs() {
  const control = useMay("calls.control");
  const note = useMay("calls.note");
  const listen = useMay("calls.listen");
  return { control, note, listen };
}
