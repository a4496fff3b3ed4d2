// The command palette (Ctrl-K): pages, contexts, tools, calls and acts, found by typing.
import { useRouter } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useMemo, useState } from "react";

import { Confirm, Dialog } from "../parts/dialog.tsx";
import { toast } from "../parts/toast.tsx";
import { words as all } from "../words/shell.ts";
import { useGet, useSend } from "./api.ts";
import { type LiveRow, useLiveCalls } from "./live.ts";
import { usePages } from "./pages.ts";
import { asCallId, asNumber, findItems, type Item } from "./palette-items.ts";
import { useSession } from "./session.ts";
import { chooseTheme, THEMES } from "./theme.ts";

const words = all.palette;

export default function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  // By its id: live calls come and go above it.
  const [marked, setMarked] = useState<string>();
  const [ending, setEnding] = useState<LiveRow | null>(null);
  const list = useId();
  const items = useItems(setEnding, onClose);
  const go = useGo(onClose);
  const found = useMemo(() => [...findItems(items, text), ...typed(text, go)], [items, text, go]);
  const current = Math.max(
    found.findIndex(({ id }) => id === marked),
    found.length > 0 ? 0 : -1,
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setMarked(found.at((current + step) % found.length)?.id);
    else if (event.key === "Enter") found[current]?.run();
    else return;
    event.preventDefault();
  };
  if (ending !== null) return <EndCall call={ending} onClose={onClose} />;
  return (
    <Dialog title={words.title} onClose={onClose} wide light>
      <input
        role="combobox"
        aria-label={words.title}
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={current >= 0 ? `${list}-${current}` : undefined}
        autoFocus
        autoComplete="off"
        spellCheck={false}
        placeholder={words.placeholder}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setMarked(undefined);
        }}
        onKeyDown={onKeyDown}
        className="h-9 w-full rounded-md border border-strong bg-surface px-3 text-base"
      />
      <div
        role="listbox"
        id={list}
        aria-label={words.found}
        className="mt-2 max-h-[50vh] overflow-y-auto"
      >
        {found.map((item, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          <div
            key={item.id}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === current}
            ref={index === current ? (row) => row?.scrollIntoView({ block: "nearest" }) : undefined}
            onPointerMove={() => setMarked(item.id)}
            onClick={item.run}
            className="flex h-8 cursor-pointer items-center justify-between gap-4 rounded px-2 aria-selected:bg-selected"
          >
            <span className="truncate">{item.label}</span>
            <span className="shrink-0 text-xs text-muted">{item.kind}</span>
          </div>
        ))}
        {found.length === 0 && <p className="px-2 py-3 text-muted">{words.nothing}</p>}
      </div>
    </Dialog>
  );
}

/** Opens an address of this page, and closes the palette. */
function useGo(onClose: () => void) {
  const { history } = useRouter();
  return useMemo(
    () => (address: string) => {
      onClose();
      history.push(address);
    },
    [history, onClose],
  );
}

const part = encodeURIComponent;

function useItems(onEnd: (call: LiveRow) => void, onClose: () => void): Item[] {
  const { permissions } = useSession();
  const may = (permission: (typeof permissions)[number]) => permissions.includes(permission);
  const [reads, tries, controls] = [may("config.read"), may("try.chat"), may("calls.control")];
  const uses = useGet("/api/v1/config/uses", {}, { enabled: reads });
  const tools = useGet("/api/v1/tools", {}, { enabled: may("tools.read") });
  const { rows } = useLiveCalls();
  const pages = usePages();
  const go = useGo(onClose);
  return useMemo(() => {
    const items: Item[] = pages.map(({ to, name }) => ({
      id: to,
      label: name,
      kind: words.page,
      run: () => go(to),
    }));
    for (const call of rows) {
      const also = `${call.call_id} ${call.called_number} ${call.caller_name}`;
      const label = `${call.caller_number || call.call_id}, ${call.context}`;
      const id = call.call_id;
      items.push({
        id,
        label,
        kind: words.liveCall,
        also,
        run: () => go(`/live?call=${part(id)}`),
      });
      if (controls) {
        const run = () => onEnd(call);
        items.push({ id: `end-${id}`, label: words.endCall(label), kind: words.act, also, run });
      }
    }
    for (const { context, numbers } of uses.data?.contexts ?? []) {
      const [id, also] = [`context-${context}`, numbers.join(" ")];
      const run = () => go(`/contexts/${part(context)}`);
      items.push({ id, label: context, kind: words.context, also, run });
      if (!tries) continue;
      const begin = () => go(`/try?context=${part(context)}`);
      items.push({ id: `try-${context}`, label: words.try(context), kind: words.act, run: begin });
    }
    for (const tool of tools.data?.tools ?? []) {
      const name = String(tool.name);
      const run = () => go(`/tools/${part(name)}`);
      items.push({ id: `tool-${name}`, label: name, kind: words.tool, run });
    }
    for (const theme of THEMES) {
      const label = words.theme(all.me.themes[theme]);
      const run = () => {
        chooseTheme(theme);
        onClose();
      };
      items.push({ id: `theme-${theme}`, label, kind: words.act, run });
    }
    return items;
  }, [pages, rows, uses.data, tools.data, go, tries, controls, onEnd, onClose]);
}

/** What the text itself can mean: a number, the id of a call, words of a call. */
function typed(text: string, go: (address: string) => void): Item[] {
  const [number, id, spoken] = [asNumber(text), asCallId(text), text.trim()];
  const items: Item[] = [];
  const add = (key: string, label: string, address: string) =>
    items.push({ id: key, label, kind: words.history, run: () => go(address) });
  if (number) add("number", words.callsOf(number), `/calls?number=${part(number)}`);
  if (id && !number) add("id", words.callWithId(id), `/calls/${part(id)}`);
  if (spoken) add("text", words.callsWith(spoken), `/calls?text=${part(spoken)}`);
  return items;
}

function EndCall({ call, onClose }: { call: LiveRow; onClose: () => void }) {
  const hangup = useSend("post", "/api/v1/calls/{call_id}/hangup", {
    onDone: () => {
      toast(words.ended);
      onClose();
    },
  });
  const label = `${call.caller_number || call.call_id}, ${call.context}`;
  return (
    <Confirm
      title={words.endCall(label)}
      about={words.endAbout}
      confirm={words.end}
      danger
      busy={hangup.isPending}
      onConfirm={() => hangup.mutate({ path: { call_id: call.call_id }, body: { reason: "" } })}
      onClose={onClose}
    />
  );
}
