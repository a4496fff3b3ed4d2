// What people add to a call: a review, tags, notes. Two people at once do not overwrite each other:
// each change names the revision that was shown.
import { type FormEvent, useEffect, useState } from "react";

import { Refused, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button, IconButton } from "../../parts/button.tsx";
import { Field, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/call.ts";
import type { Shown } from "./shown.ts";

const CALL = "/api/v1/calls/{call_id}";
const STALE = [CALL, "/api/v1/calls", "/api/v1/calls/facets"] as const;

/** What the three forms share: where to send a change, and what to do when somebody was faster. */
function useChange<P extends "notes" | "tags" | "review">(
  shown: Shown,
  part: P,
  onDone: () => void,
) {
  const { refresh } = shown;
  const send = useSend("put", `${CALL}/${part}`, {
    stale: STALE,
    quiet: true,
    onDone: () => {
      toast(words.notes.saved);
      onDone();
    },
  });
  const { error } = send;
  useEffect(() => {
    if (!error) return;
    const conflict = error instanceof Refused && error.refusal.code === "conflict";
    toast.bad(conflict ? words.notes.changed : error.message);
    if (conflict) refresh();
  }, [error, refresh]);
  return send;
}

export function NotesTab({ shown }: { shown: Shown }) {
  return (
    <div className="grid gap-6 px-4 pb-4">
      <Review shown={shown} />
      <Tags shown={shown} />
      <NoteList shown={shown} />
    </div>
  );
}

const REVIEWS = ["", "good", "bad"] as const;
type Judgement = (typeof REVIEWS)[number];

function Review({ shown }: { shown: Shown }) {
  const { notes, notes_revision: revision } = shown.call;
  const before = {
    review: REVIEWS.find((each) => each === notes.review) ?? ("" as const),
    why: notes.review_why,
  };
  const [written, setWritten] = useState<{ review: Judgement; why: string }>();
  const { review, why } = written ?? before;
  const isNew = review !== before.review || why !== before.why;
  // The review under the one that is being written. It may become another one meanwhile.
  const [below, setBelow] = useState(before);
  const isSame = below.review === before.review && below.why === before.why;
  if (!written && !isSame) setBelow(before);
  const theirs = written && isNew && !isSame;
  const may = useMay("calls.note");
  const send = useChange(shown, "review", () => {});
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    send.mutate(
      { path: { call_id: shown.id }, body: { revision, review, why } },
      // What was written since is kept.
      { onSuccess: () => setWritten((now) => (now === written ? undefined : now)) },
    );
  };
  const options = REVIEWS.map((value) => ({ value, label: words.notes[value || "none"] }));
  return (
    <form onSubmit={onSubmit} className="grid gap-3">
      <Field
        label={words.notes.review}
        aside={
          notes.reviewed_by && (
            <span className="text-xs text-muted">{words.notes.by(notes.reviewed_by)}</span>
          )
        }
      >
        <Select
          value={review}
          onValue={(chosen) => setWritten({ review: chosen, why })}
          options={options}
          disabled={!may}
        />
      </Field>
      <Field
        label={words.notes.why}
        hint={theirs && words.notes.theirs(words.notes[before.review || "none"], before.why)}
      >
        <TextArea
          rows={2}
          value={why}
          disabled={!may}
          onChange={(event) => setWritten({ review, why: event.target.value })}
        />
      </Field>
      {may && (
        <div>
          <Button type="submit" busy={send.isPending} disabled={!isNew}>
            {words.notes.save}
          </Button>
        </div>
      )}
    </form>
  );
}

function Tags({ shown }: { shown: Shown }) {
  const { notes, notes_revision: revision } = shown.call;
  const [tag, setTag] = useState("");
  const may = useMay("calls.note");
  const send = useChange(shown, "tags", () => setTag(""));
  const put = (tags: string[]) =>
    send.mutate({ path: { call_id: shown.id }, body: { revision, tags } });
  return (
    <form
      className="grid gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (tag.trim()) put([...notes.tags, tag.trim()]);
      }}
    >
      <h2>{words.notes.tags}</h2>
      {notes.tags.length > 0 && (
        <ul className="flex flex-wrap gap-1.5">
          {notes.tags.map((each) => (
            <li key={each} className="flex items-center rounded bg-hover pl-2">
              {each}
              {may && (
                <IconButton
                  small
                  icon="close"
                  label={words.notes.removeTag(each)}
                  onClick={() => put(notes.tags.filter((other) => other !== each))}
                />
              )}
            </li>
          ))}
        </ul>
      )}
      {may && (
        <div className="flex gap-2">
          <TextInput
            aria-label={words.notes.addTag}
            placeholder={words.notes.addTag}
            maxLength={60}
            value={tag}
            onChange={(event) => setTag(event.target.value)}
          />
          <Button type="submit" busy={send.isPending} disabled={!tag.trim()}>
            {words.notes.add}
          </Button>
        </div>
      )}
    </form>
  );
}

function NoteList({ shown }: { shown: Shown }) {
  const { you, call } = shown;
  const { notes, notes_revision: revision } = call;
  const [text, setText] = useState("");
  const may = useMay("calls.note");
  const send = useChange(shown, "notes", () => setText(""));
  const put = (all: { text: string; at: string; by: string }[]) =>
    send.mutate({ path: { call_id: shown.id }, body: { revision, notes: all } });
  return (
    <form
      className="grid gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) put([...notes.notes, { text: text.trim(), at: "", by: "" }]);
      }}
    >
      <h2>{words.notes.notes}</h2>
      <ul className="grid gap-2">
        {notes.notes.map((note) => (
          <li key={`${note.at}/${note.by}/${note.text}`} className="flex items-start gap-2">
            <div className="min-w-0 flex-1">
              <p className="break-words whitespace-pre-wrap">{note.text}</p>
              <p className="text-xs text-muted">
                {note.by}, <Time at={note.at} />
              </p>
            </div>
            {may && note.by === you && (
              <IconButton
                small
                icon="trash"
                label={words.notes.remove}
                onClick={() => put(notes.notes.filter((other) => other !== note))}
              />
            )}
          </li>
        ))}
      </ul>
      {may && (
        <>
          <TextArea
            rows={2}
            aria-label={words.notes.note}
            placeholder={words.notes.note}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <div>
            <Button type="submit" busy={send.isPending} disabled={!text.trim()}>
              {words.notes.add}
            </Button>
          </div>
        </>
      )}
    </form>
  );
}
