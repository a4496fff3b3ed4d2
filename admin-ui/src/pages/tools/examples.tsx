// Saved arguments of a tool: choose, save, remove.
import { useState } from "react";

import { type Schema, useSend } from "../../app/api.ts";
import { Button, IconButton } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { isObject, type Json, type JsonObject } from "./schema.ts";
import { exampleId } from "./tool-lines.ts";

type Example = Schema<"Example">;

interface ExamplesProps {
  tool: string;
  context: string;
  examples: readonly Example[];
  given: Json | undefined;
}

export function Examples({ tool, context, examples, given }: ExamplesProps) {
  const [{ example }, change] = useChoices();
  const [open, setOpen] = useState<"save" | "remove" | null>(null);
  const chosen = examples.find((each) => each.id === example);
  const close = () => setOpen(null);
  return (
    <Field label={words.try.example}>
      <div className="flex gap-1">
        <Select
          className="min-w-0 flex-1"
          aria-label={words.try.example}
          value={chosen?.id ?? ""}
          onValue={(id) => change({ example: id || undefined, context: undefined })}
          options={[
            { value: "", label: words.try.noExample },
            ...examples.map((each) => ({ value: each.id, label: each.label || each.id })),
          ]}
        />
        <IconButton
          label={words.try.save}
          icon="plus"
          disabled={!isObject(given)}
          onClick={() => setOpen("save")}
        />
        {chosen && (
          <IconButton label={words.try.remove} icon="trash" onClick={() => setOpen("remove")} />
        )}
      </div>
      {open === "save" && isObject(given) && (
        <Save tool={tool} context={context} examples={examples} given={given} onClose={close} />
      )}
      {open === "remove" && chosen && <Remove example={chosen} onClose={close} />}
    </Field>
  );
}

interface SaveProps extends ExamplesProps {
  given: JsonObject;
  onClose: () => void;
}

function Save({ tool, context, examples, given, onClose }: SaveProps) {
  const [label, setLabel] = useState("");
  const saving = useSend("put", "/api/v1/tools/{name}/examples/{example_id}", {
    stale: ["/api/v1/tools/{name}/examples"],
    onDone: () => {
      toast(words.try.saved);
      onClose();
    },
  });
  const ids = examples.map((each) => each.id);
  return (
    <Dialog title={words.try.saveTitle} about={words.try.saveAbout} onClose={onClose}>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          event.stopPropagation(); // React passes it on to the form around the dialog, which runs
          saving.mutate({
            path: { name: tool, example_id: exampleId(label, ids) },
            body: { context, label, arguments: given },
          });
        }}
      >
        <Field label={words.try.label}>
          <TextInput
            required
            maxLength={200}
            value={label}
            onChange={(event) => setLabel(event.target.value)}
          />
        </Field>
        <Button type="submit" look="primary" className="justify-self-end" busy={saving.isPending}>
          {words.try.saveTitle}
        </Button>
      </form>
    </Dialog>
  );
}

function Remove({ example, onClose }: { example: Example; onClose: () => void }) {
  const [, change] = useChoices();
  const removing = useSend("delete", "/api/v1/tools/{name}/examples/{example_id}", {
    stale: ["/api/v1/tools/{name}/examples"],
    onDone: () => {
      change({ example: undefined });
      onClose();
    },
  });
  return (
    <Confirm
      title={words.try.removeTitle(example.label || example.id)}
      about={words.try.removeAbout}
      confirm={words.try.remove}
      danger
      busy={removing.isPending}
      onConfirm={() => removing.mutate({ path: { name: example.tool, example_id: example.id } })}
      onClose={onClose}
    />
  );
}
