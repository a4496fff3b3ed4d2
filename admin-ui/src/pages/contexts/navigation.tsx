// The parts of the file: a tree at the left, or a list to choose from where there is no room.
import { type ReactNode, useState } from "react";

import { IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { Menu } from "../../parts/menu.tsx";
import { words } from "../../words/contexts.ts";
import { NewEntry } from "./collections.tsx";
import { useForm } from "./form.ts";
import { at, isMapping } from "./outline.ts";
import { kindOf, type Root } from "./schema.ts";
import type { Group, Part } from "./sections.ts";

export interface PartsProps {
  groups: readonly Group[];
  current: Part | undefined;
  onOpen: (part: Part) => void;
}

export function PartsTree({ groups, current, onOpen }: PartsProps) {
  return (
    <nav
      aria-label={words.parts}
      className="min-h-0 overflow-y-auto border-r border-line px-2 pb-6 max-[75rem]:hidden"
    >
      {groups.map((group) => (
        <TreeGroup key={group.name} group={group} onOpen={onOpen}>
          {group.parts.map((part) => (
            <TreePart
              key={part.key}
              part={part}
              current={part.key === current?.key}
              onOpen={() => onOpen(part)}
            />
          ))}
        </TreeGroup>
      ))}
    </nav>
  );
}

function TreeGroup(props: { group: Group; onOpen: (part: Part) => void; children: ReactNode }) {
  const { group, onOpen, children } = props;
  const { root, readOnly } = useForm();
  const [adding, setAdding] = useState(false);
  const label = group.label || words.engine;
  return (
    <section aria-label={label} className="pt-3">
      <div className="flex h-7 items-center justify-between pl-2">
        <h2 className="text-xs font-medium text-muted">{label}</h2>
        {!readOnly && takesEntries(root, group) && (
          <IconButton label={words.add(label)} icon="plus" small onClick={() => setAdding(true)} />
        )}
      </div>
      <ul>{children}</ul>
      {adding && <NewPart group={group} onOpen={onOpen} onClose={() => setAdding(false)} />}
    </section>
  );
}

const takesEntries = (root: Root, { field }: Group) =>
  field !== undefined && kindOf(root, field.schema).is === "map";

/** Asks for the name of a new part of a group, and opens it. */
function NewPart(props: { group: Group; onOpen: (part: Part) => void; onClose: () => void }) {
  const { group, onOpen, onClose } = props;
  const { root, tree } = useForm();
  const kind = group.field && kindOf(root, group.field.schema);
  const entries = at(tree, [group.name]);
  if (kind?.is !== "map") return null;
  return (
    <NewEntry
      path={[group.name]}
      kind={kind}
      names={isMapping(entries) ? Object.keys(entries) : []}
      title={words.add(group.label || words.engine)}
      onAdded={(name) =>
        onOpen({ key: `${group.name}.${name}`, path: [group.name, name], label: name })
      }
      onClose={onClose}
    />
  );
}

function TreePart({ part, current, onOpen }: { part: Part; current: boolean; onOpen: () => void }) {
  const { problems, changes } = useForm();
  const inside = (key: string) =>
    part.key ? key === part.key || key.startsWith(`${part.key}.`) : !/[.[]/.test(key);
  const faulty = [...problems].some(
    ([key, found]) => inside(key) && found.some((each) => each.fatal),
  );
  const changed = [...changes.keys()].some(inside);
  return (
    <li>
      <button
        type="button"
        aria-current={current ? "page" : undefined}
        onClick={onOpen}
        className={cx(
          "flex h-7 w-full items-center gap-2 rounded-md px-2 text-left hover:bg-hover",
          current ? "bg-selected font-medium" : "text-ink",
        )}
      >
        <span className="flex-1 truncate">{part.label || words.general}</span>
        {changed && <Mark word={words.changedMark} className="bg-accent" />}
        {faulty && (
          <span className="text-bad">
            <Icon name="warning" size={14} />
            <span className="sr-only">{words.error}</span>
          </span>
        )}
      </button>
    </li>
  );
}

function Mark({ word, className }: { word: string; className: string }) {
  return (
    <span className={cx("size-1.5 rounded-full", className)} title={word}>
      <span className="sr-only">{word}</span>
    </span>
  );
}

export function PartsSelect({ groups, current, onOpen }: PartsProps) {
  const { root, readOnly } = useForm();
  const [adding, setAdding] = useState<Group>();
  const growing = readOnly ? [] : groups.filter((group) => takesEntries(root, group));
  const parts = groups.flatMap((group) =>
    group.parts.map((part) => {
      const label = part.label || words.general;
      return {
        part,
        option: { value: part.key, label: group.label ? `${group.label}: ${label}` : label },
      };
    }),
  );
  return (
    <div className="mb-4 hidden items-center gap-2 max-[75rem]:flex">
      <Select
        aria-label={words.part}
        value={current?.key ?? ""}
        options={parts.map((each) => each.option)}
        onValue={(key) => {
          const found = parts.find((each) => each.part.key === key);
          if (found) onOpen(found.part);
        }}
        className="min-w-0 flex-1"
      />
      {growing.length > 0 && (
        <Menu
          trigger={<IconButton label={words.addPart} icon="plus" />}
          items={growing.map((group) => ({
            label: words.add(group.label || words.engine),
            onSelect: () => setAdding(group),
          }))}
        />
      )}
      {adding && <NewPart group={adding} onOpen={onOpen} onClose={() => setAdding(undefined)} />}
    </div>
  );
}
