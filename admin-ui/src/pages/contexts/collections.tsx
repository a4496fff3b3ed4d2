// Lists and maps of the form.
import { type MouseEvent, useState } from "react";

import { Button, IconButton } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { Menu } from "../../parts/menu.tsx";
import { words } from "../../words/contexts.ts";
import { Control, Fold, Nested, summaryOf, Words } from "./fields.tsx";
import { removeAt, setAt, useForm } from "./form.ts";
import { at, isMapping, type Path } from "./outline.ts";
import { chosen, type Kind, kindOf, newValue, type Schema } from "./schema.ts";

/** A list of texts, names or numbers. */
export function SimpleItems(props: {
  path: Path;
  kind: Kind & { is: "list" };
  schema: Schema;
  label: string;
}) {
  const { path, kind, schema, label } = props;
  const { root, tree, readOnly, edit } = useForm();
  const value = at(tree, path);
  const items: unknown[] = Array.isArray(value) ? value : [];
  const inner = { ...kind.items, ...(schema.reference ? { reference: schema.reference } : {}) };
  const add = (item: unknown) =>
    edit(value === undefined ? setAt(path, [item]) : setAt([...path, items.length], item));
  return (
    <div className="grid gap-1">
      {items.length === 0 && <p className="text-xs text-muted">{standardItems(schema)}</p>}
      {items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an item is its place in the list
        <div key={index} className="flex items-center gap-1">
          <div className="min-w-0 flex-1">
            {kindOf(root, inner).is === "text" && !inner.reference ? (
              <Words
                path={[...path, index]}
                schema={inner}
                label={words.listOf(label, index + 1)}
                onValue={(text) => edit(setAt([...path, index], text))}
              />
            ) : (
              <Field label={words.listOf(label, index + 1)} hideLabel>
                <Control path={[...path, index]} schema={inner} required label={label} />
              </Field>
            )}
          </div>
          {!readOnly && (
            <ItemActions path={path} index={index} count={items.length} what={String(item)} />
          )}
        </div>
      ))}
      {!readOnly && items.length < kind.most && (
        <AddItem inner={inner} label={label} taken={items} onAdd={add} />
      )}
    </div>
  );
}

/** Chooses from the names of the file where the list takes such; else adds an empty item. */
function AddItem(props: {
  inner: Schema;
  label: string;
  taken: readonly unknown[];
  onAdd: (item: unknown) => void;
}) {
  const { inner, label, taken, onAdd } = props;
  const { root, names, pending } = useForm();
  const kind = kindOf(root, inner);
  const known = inner.reference
    ? names(inner.reference)
    : kind.is === "choice"
      ? kind.values.map(String)
      : undefined;
  if (!known) {
    return (
      <div>
        <Button
          small
          look="quiet"
          icon="plus"
          disabled={pending}
          onMouseDown={keepFocus}
          onClick={() => onAdd(newValue(root, inner))}
        >
          {words.addItem}
        </Button>
      </div>
    );
  }
  const options = known.filter((each) => !taken.includes(each));
  if (options.length === 0) return null;
  return (
    <Select
      aria-label={`${words.addItem}: ${label}`}
      aria-invalid={false}
      value=""
      onValue={(name) => name && !pending && onAdd(name)}
      options={[
        { value: "", label: `${words.addItem}…` },
        ...options.map((each) => ({ value: each, label: each })),
      ]}
      className="w-40"
    />
  );
}

/** A list of sections. */
export function Items({
  path,
  kind,
  label,
}: {
  path: Path;
  kind: Kind & { is: "list" };
  label: string;
}) {
  const { root, tree, readOnly, pending, edit } = useForm();
  const value = at(tree, path);
  const items: unknown[] = Array.isArray(value) ? value : [];
  return (
    <>
      {items.map((item, index) => (
        <Fold
          // biome-ignore lint/suspicious/noArrayIndexKey: an item is its place in the list
          key={index}
          path={[...path, index]}
          label={titleOf(item) ?? words.item(index + 1)}
          summary={summaryOf(kindOf(root, kind.items), item)}
          actions={
            !readOnly && <ItemActions path={path} index={index} count={items.length} what={label} />
          }
        >
          <Nested
            path={[...path, index]}
            kind={kindOf(root, kind.items)}
            schema={kind.items}
            label={label}
          />
        </Fold>
      ))}
      {!readOnly && items.length < kind.most && (
        <div>
          <Button
            small
            icon="plus"
            disabled={pending}
            onMouseDown={keepFocus}
            onClick={() => {
              const item = newValue(root, kind.items);
              edit(
                value === undefined ? setAt(path, [item]) : setAt([...path, items.length], item),
              );
            }}
          >
            {words.addItem}
          </Button>
        </div>
      )}
    </>
  );
}

/** A field left by the press of a button would hand in its text, and disable the button before its click. */
function keepFocus(event: MouseEvent): void {
  event.preventDefault();
}

/** They go by the place in the list, which is old while a change waits. */
function ItemActions(props: { path: Path; index: number; count: number; what: string }) {
  const { path, index, count, what } = props;
  const { edit, pending } = useForm();
  const move = (to: number) => edit({ op: "move", path: [...path, index], index: to });
  return (
    <Menu
      trigger={<IconButton label={`${words.moreActions}: ${what}`} icon="more" small />}
      items={[
        {
          label: words.up,
          icon: "up",
          disabled: pending || index === 0,
          onSelect: () => move(index - 1),
        },
        {
          label: words.down,
          icon: "down",
          disabled: pending || index === count - 1,
          onSelect: () => move(index + 1),
        },
        {
          label: words.remove,
          icon: "trash",
          disabled: pending,
          onSelect: () => edit(removeAt([...path, index])),
        },
      ]}
    />
  );
}

/** A map: entries with names of one's own. */
export function Entries(props: {
  path: Path;
  kind: Kind & { is: "map" };
  reference: string | undefined;
}) {
  const { path, kind, reference } = props;
  const { root, tree, readOnly } = useForm();
  const value = at(tree, path);
  const names = isMapping(value) ? Object.keys(value) : [];
  const inner = { ...kind.values, ...(reference ? { reference } : {}) };
  const innerKind = kindOf(root, inner);
  const nested = ["section", "variant", "map"].includes(innerKind.is);
  return (
    <>
      {names.length === 0 && <p className="text-xs text-muted">{words.notSet}</p>}
      {names.map((name) => {
        const here = [...path, name];
        const actions = !readOnly && <EntryActions path={here} names={names} rule={kind.names} />;
        return nested ? (
          <Fold
            key={name}
            path={here}
            label={name}
            summary={summaryOf(innerKind, at(value, [name]))}
            actions={actions}
          >
            <Nested path={here} kind={innerKind} schema={inner} label={name} />
          </Fold>
        ) : (
          <div key={name} data-path={JSON.stringify(here)} className="flex items-end gap-1">
            <div className="min-w-0 flex-1">
              <Field label={<span className="font-mono text-xs">{name}</span>}>
                <Control path={here} schema={inner} required label={name} />
              </Field>
            </div>
            <span className="pb-1">{actions}</span>
          </div>
        );
      })}
      {!readOnly && <AddEntry path={path} kind={kind} names={names} />}
    </>
  );
}

interface Naming {
  readonly names: readonly string[];
  readonly rule: RegExp | undefined;
}

function wrongName(name: string, { names, rule }: Naming): string | undefined {
  if (!name) return undefined;
  if (names.includes(name)) return words.nameTaken;
  return rule && !rule.test(name) ? words.badName : undefined;
}

export function AddEntry(props: {
  path: Path;
  kind: Kind & { is: "map" };
  names: readonly string[];
  onAdded?: (name: string) => void;
  label?: string;
}) {
  const [open, setOpen] = useState(false);
  const { label = words.addEntry } = props;
  return (
    <div>
      <Button small icon="plus" onClick={() => setOpen(true)}>
        {label}
      </Button>
      {open && <NewEntry {...props} title={label} onClose={() => setOpen(false)} />}
    </div>
  );
}

/** Asks for the name of a new entry, and for its kind if there are several. */
export function NewEntry(props: {
  path: Path;
  kind: Kind & { is: "map" };
  names: readonly string[];
  title: string;
  onAdded?: (name: string) => void;
  onClose: () => void;
}) {
  const { path, kind, names, title, onAdded, onClose } = props;
  const { root, edit } = useForm();
  const inner = kindOf(root, kind.values);
  const variants = inner.is === "variant" ? [...inner.sections.keys()] : [];
  const [name, setName] = useState("");
  const [variant, setVariant] = useState(
    inner.is === "variant" ? (chosen(inner, {})?.[0] ?? "") : "",
  );
  const wrong = wrongName(name, { names, rule: kind.names });
  const add = () => {
    edit(setAt([...path, name], newValue(root, kind.values, variant)));
    onAdded?.(name);
    onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (name && !wrong) add();
        }}
      >
        <Field label={words.newName} error={wrong}>
          <TextInput
            value={name}
            autoComplete="off"
            onChange={(event) => setName(event.target.value)}
          />
        </Field>
        {variants.length > 0 && (
          <Field label={words.kind}>
            <Select
              value={variant}
              onValue={setVariant}
              options={variants.map((each) => ({ value: each, label: each }))}
            />
          </Field>
        )}
        <div className="flex justify-end">
          <Button type="submit" look="primary" disabled={!name || wrong !== undefined}>
            {words.addItem}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function EntryActions(props: {
  path: Path;
  names: readonly string[];
  rule: RegExp | undefined;
  onRenamed?: (name: string) => void;
  onRemoved?: () => void;
}) {
  const { path, names, rule, onRenamed, onRemoved } = props;
  const { edit } = useForm();
  const [asking, setAsking] = useState<"rename" | "remove">();
  const name = String(path.at(-1));
  const close = () => setAsking(undefined);
  return (
    <>
      <Menu
        trigger={<IconButton label={`${words.moreActions}: ${name}`} icon="more" small />}
        items={[
          { label: `${words.rename}…`, icon: "edit", onSelect: () => setAsking("rename") },
          {
            label: `${words.remove}…`,
            icon: "trash",
            danger: true,
            onSelect: () => setAsking("remove"),
          },
        ]}
      />
      {asking === "rename" && (
        <Rename
          name={name}
          naming={{ names, rule }}
          onClose={close}
          onRename={(key) => {
            edit({ op: "rename", path: [...path], key });
            onRenamed?.(key);
          }}
        />
      )}
      {asking === "remove" && (
        <Confirm
          title={words.removeTitle(name)}
          about={words.removeAbout}
          confirm={words.remove}
          danger
          onClose={close}
          onConfirm={() => {
            close();
            edit(removeAt(path));
            onRemoved?.();
          }}
        />
      )}
    </>
  );
}

function Rename(props: {
  name: string;
  naming: Naming;
  onRename: (name: string) => void;
  onClose: () => void;
}) {
  const { name, naming, onRename, onClose } = props;
  const [next, setNext] = useState(name);
  const wrong = next === name ? undefined : wrongName(next, naming);
  return (
    <Dialog title={words.renameTitle(name)} about={words.renameAbout} onClose={onClose}>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (!next || wrong) return;
          if (next !== name) onRename(next);
          onClose();
        }}
      >
        <Field label={words.newName} error={wrong}>
          <TextInput
            value={next}
            autoComplete="off"
            onChange={(event) => setNext(event.target.value)}
          />
        </Field>
        <div className="flex justify-end">
          <Button type="submit" look="primary" disabled={!next || wrong !== undefined}>
            {words.rename}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** A telling value of an item, such as the tool of a pre-call step. */
function titleOf(item: unknown): string | undefined {
  if (!isMapping(item)) return undefined;
  return Object.values(item).find(
    (each): each is string => typeof each === "string" && each !== "",
  );
}

function standardItems(schema: Schema): string {
  const items = schema.default;
  return Array.isArray(items) && items.length > 0
    ? words.isDefault(items.join(" · "))
    : words.notSet;
}
