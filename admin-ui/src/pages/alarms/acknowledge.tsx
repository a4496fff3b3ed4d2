import { type FormEvent, useState } from "react";

import { useSend } from "../../app/api.ts";
import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { words } from "../../words/alarms.ts";
import { words as parts } from "../../words/parts.ts";
import { type Alarm, UNTIL, type Until, untilOf } from "./rule.ts";

const LONGEST_NOTE = 500;

/** Says that somebody looks after an alarm, and when it is to remind again. */
export function Acknowledge({ alarm, onClose }: { alarm: Alarm; onClose: () => void }) {
  const [note, setNote] = useState(alarm.acknowledged?.note ?? "");
  const [until, setUntil] = useState<Until>("never");
  const [time, setTime] = useState("");
  const { dialog } = words;
  const send = useSend("post", "/api/v1/alarms/{alarm}/acknowledge", {
    stale: ["/api/v1/alarms"],
    onDone: onClose,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = { note: note.trim(), until: untilOf(until, time, new Date()) };
    send.mutate({ path: { alarm: alarm.id }, body });
  };
  return (
    <Dialog title={dialog.title(alarm.id)} about={dialog.about} onClose={onClose}>
      <form onSubmit={submit} className="grid gap-3">
        <Field label={dialog.note} hint={dialog.noteHint}>
          <TextArea
            rows={3}
            maxLength={LONGEST_NOTE}
            value={note}
            onChange={(event) => setNote(event.target.value)}
          />
        </Field>
        <Field label={dialog.until}>
          <Select
            value={until}
            onValue={setUntil}
            options={UNTIL.map((each) => ({ value: each, label: dialog.choices[each] }))}
          />
        </Field>
        {until === "time" && (
          <Field label={dialog.time}>
            <TextInput
              type="datetime-local"
              required
              value={time}
              onChange={(event) => setTime(event.target.value)}
            />
          </Field>
        )}
        <div className="mt-1 flex justify-end gap-2">
          <Button onClick={onClose}>{parts.cancel}</Button>
          <Button look="primary" type="submit" busy={send.isPending}>
            {words.acknowledge}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
