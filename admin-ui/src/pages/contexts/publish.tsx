// Publishing a draft: what changes, for whom and when, and why.
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { type Schema, sentence, useSend } from "../../app/api.ts";
import { useLiveCalls } from "../../app/live.ts";
import { useMay } from "../../app/session.ts";
import { Loading } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton, LinkButton } from "../../parts/button.tsx";
import { CodeBlock, Diff } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, TextInput } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { words } from "../../words/contexts.ts";
import { type Clash, clashOf, patchOf, textDifference } from "./data.ts";
import { valueChange } from "./diff.ts";
import type { State } from "./draft.ts";

export type Published = Schema<"Published">;

export interface PublishProps {
  state: State;
  onPublished: (report: Published) => void;
  onClash: (clash: Clash) => void;
  onClose: () => void;
}

export function PublishDialog({ state, onPublished, onClash, onClose }: PublishProps) {
  const [refused, setRefused] = useState<Error>();
  const may = useMay("config.publish");
  // By the hook: what was published counts even if this dialog is gone by then.
  const send = useSend("put", "/api/v1/config", { quiet: true, onDone: onPublished });
  const difference = useDifference(state);
  const patch = difference.data?.patch;
  const { text, base, verdict } = state;
  // A refused edit changes nothing: the text that was checked is as good as before.
  const ready = verdict.in_order && state.checked && !state.pending;
  const publish = (comment: string) =>
    send.mutate(
      { body: { text, base, comment } },
      {
        onError: (error) => {
          const clash = clashOf(error);
          if (clash) onClash(clash);
          else setRefused(error);
        },
      },
    );
  return (
    <Dialog title={words.publish.title} wide onClose={() => send.isPending || onClose()}>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <Changes state={state} />
        <TextChanges found={difference} />
        <OnThePhone />
        {refused && <Refusal error={refused} />}
        {state.refusal && <p className="text-bad">{state.refusal}</p>}
        {!verdict.in_order && <p className="text-bad">{words.publish.notInOrder}</p>}
        {!may ? (
          <p className="text-muted">{words.publish.needsGrant}</p>
        ) : patch && ready ? (
          <Patch text={patch} />
        ) : (
          <CommentForm ready={ready} busy={send.isPending} onPublish={publish} />
        )}
      </div>
    </Dialog>
  );
}

interface CommentFormProps {
  ready: boolean;
  busy: boolean;
  onPublish: (comment: string) => void;
}

function CommentForm({ ready, busy, onPublish }: CommentFormProps) {
  const [given, setComment] = useState("");
  const comment = given.trim();
  return (
    <form
      className="flex flex-wrap items-end gap-3 border-t border-line pt-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (comment && ready) onPublish(comment);
      }}
    >
      <div className="min-w-64 flex-1">
        <Field label={words.publish.comment} hint={words.publish.commentHint}>
          <TextInput
            value={given}
            required
            maxLength={500}
            onChange={(event) => setComment(event.target.value)}
          />
        </Field>
      </div>
      <Button
        type="submit"
        look="primary"
        busy={busy}
        disabled={!comment || !ready}
        className="mb-5"
      >
        {words.publish.confirm}
      </Button>
    </form>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h3 className="mb-1 text-xs font-medium text-muted">{title}</h3>
      {children}
    </section>
  );
}

/** Each changed key, its values if they are short, and when it takes effect. */
function Changes({ state: { verdict, before } }: { state: State }) {
  const { changes, tree } = verdict;
  return (
    <Part title={words.publish.inWords}>
      {changes.length === 0 ? (
        <p>{words.publish.nothing}</p>
      ) : (
        <ul className="divide-y divide-line rounded-md border border-line">
          {changes.map(({ key, takes_effect: effect }) => (
            <li key={key} className="flex flex-wrap items-baseline gap-x-3 px-3 py-1.5">
              <code className="font-mono text-xs font-medium">{key}</code>
              <span className="min-w-0 flex-1 break-words text-muted">
                <Change name={key} before={before} after={tree} />
              </span>
              <Badge tone={effect === "now" ? "good" : "warn"}>{words.effects[effect]}</Badge>
            </li>
          ))}
        </ul>
      )}
    </Part>
  );
}

function Change({ name, before, after }: { name: string; before: unknown; after: unknown }) {
  const change = valueChange(name, before, after);
  switch (change.kind) {
    case "value":
      return (
        <>
          <del>{change.before}</del> → <ins className="no-underline">{change.after}</ins>
        </>
      );
    case "items":
      return (
        [
          ...change.added.map((each) => `+ ${each}`),
          ...change.removed.map((each) => `− ${each}`),
        ].join(", ") || words.kinds.changed
      );
    case "changed":
      return words.kinds.changed;
    default:
      return change.value
        ? `${words.kinds[change.kind]}: ${change.value}`
        : words.kinds[change.kind];
  }
}

/** The draft as differences from the file, and as a patch if the file cannot be written from here. */
function useDifference({ text, base, stale }: State) {
  return useQuery({
    queryKey: ["draft difference", text, base],
    queryFn: () => textDifference(text, base, stale ? base : ""),
  });
}

function TextChanges({ found }: { found: ReturnType<typeof useDifference> }) {
  return (
    <Part title={words.publish.asText}>
      {found.error ? (
        <p className="text-bad">{sentence(found.error)}</p>
      ) : found.data ? (
        <div className="max-h-[30vh] overflow-y-auto rounded-md border border-line">
          <Diff lines={found.data.lines} label={words.publish.diff} />
        </div>
      ) : (
        <Loading />
      )}
    </Part>
  );
}

/** The live calls by context and version: they go on with what they began with. */
function OnThePhone() {
  // A test keeps its own configuration, and no caller hears it.
  const rows = useLiveCalls().rows.filter(({ test }) => !test);
  const counts = new Map<string, number>();
  for (const { context, config } of rows) {
    const place = `${context} ${config}`;
    counts.set(place, (counts.get(place) ?? 0) + 1);
  }
  return (
    <Part title={words.publish.onThePhone}>
      {rows.length === 0 ? (
        <p>{words.publish.nobody}</p>
      ) : (
        <>
          <ul className="flex flex-wrap gap-2">
            {[...counts].map(([place, count]) => {
              const [context = "", config = ""] = place.split(" ");
              return (
                <li key={place}>
                  <Badge tone="good">
                    {context}: {words.publish.callsOn(count, config.slice(0, 8))}
                  </Badge>
                </li>
              );
            })}
          </ul>
          <p className="mt-1 text-xs text-muted">{words.publish.goOn}</p>
        </>
      )}
    </Part>
  );
}

export function Refusal({ error }: { error: Error }) {
  const patch = patchOf(error);
  return (
    <div role="alert" className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <p className="text-bad">{sentence(error)}</p>
      {patch && <Patch text={patch} />}
    </div>
  );
}

function Patch({ text }: { text: string }) {
  return (
    <>
      <p>{words.publish.readOnly}</p>
      <CodeBlock text={text} label={words.publish.patch} />
    </>
  );
}

/** The truth about the last publish: by the engine's report, not by hope. */
export interface ResultProps {
  report: Published;
  /** The context that was being edited, if it was one. */
  context: string | undefined;
  onDismiss: () => void;
}

export function ResultBar({ report, context, onDismiss }: ResultProps) {
  const { applied, generation, deferred, problems } = report;
  const mayCall = useMay("try.call");
  return (
    <div
      role="status"
      className={cx(
        "mx-6 mb-3 flex items-start gap-2 rounded-md px-3 py-2 phone:mx-4",
        applied
          ? deferred.length
            ? "bg-warn-soft text-warn"
            : "bg-good-soft text-good"
          : "bg-bad-soft text-bad",
      )}
    >
      <span className="mt-0.5">
        <Icon name={applied ? "check" : "warning"} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium">
          {applied ? words.publish.applied(generation) : words.publish.notApplied}
        </p>
        {deferred.map(({ what, until }) => (
          <p key={what}>{words.publish.deferred(what, until)}</p>
        ))}
        {!applied &&
          problems.map((each) => (
            <p key={`${each.line} ${each.message}`}>
              {words.line(each.line ?? 1)}: {each.message}
            </p>
          ))}
      </div>
      {applied && mayCall && (
        <LinkButton
          to="/try"
          search={{ mode: "call", ...(context && { context }) } as never}
          icon="calls"
        >
          {words.publish.hear}
        </LinkButton>
      )}
      <IconButton label={words.publish.dismiss} icon="close" small onClick={onDismiss} />
    </div>
  );
}
