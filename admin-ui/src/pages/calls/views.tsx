// Saved views: filters and columns under a name, for oneself or for others too.
import { type FormEvent, useState } from "react";

import { type Schema, useGet, useSend } from "../../app/api.ts";
import { useSession } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Checkbox, Field, TextInput } from "../../parts/field.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/calls.ts";
import { fromView, isSameView, type Search, toView } from "./search.ts";

type View = Schema<"SavedView">;

export interface ViewsMenuProps {
  search: Search;
  onOpen: (search: Search) => void;
}

export function ViewsMenu({ search, onOpen }: ViewsMenuProps) {
  const me = useSession();
  const { data } = useGet("/api/v1/views");
  const [dialog, setDialog] = useState<"save" | "delete" | null>(null);
  const save = useSaveView((view) => onOpen(fromView(view)));
  const views = data?.views ?? [];
  const open = views.find((view) => view.id === search.view);
  const changed = open !== undefined && !isSameView(fromView(open), search);
  const own = open?.owner === me.name;
  const item = (view: View): MenuItem => ({
    label: view.owner === me.name ? view.name : words.views.by(view.name, view.owner),
    checked: view === open && !changed,
    onSelect: () => onOpen(fromView(view)),
  });
  const mine = views.filter((view) => view.owner === me.name);
  const others = views.filter((view) => view.owner !== me.name);
  const items: MenuItem[] = [
    ...(mine.length ? [{ heading: words.views.mine }, ...mine.map(item)] : []),
    ...(others.length ? [{ heading: words.views.shared }, ...others.map(item)] : []),
    { heading: "" },
    { label: words.views.save, icon: "plus", onSelect: () => setDialog("save") },
  ];
  if (open && own && changed) {
    const body = { ...bodyOf(search), name: open.name, shared: open.shared };
    const label = words.views.update(open.name);
    items.push({
      label,
      icon: "check",
      onSelect: () => save.mutate({ path: { view_id: open.id }, body }),
    });
  }
  if (open && own) {
    const label = words.views.delete(open.name);
    items.push({ label, icon: "trash", danger: true, onSelect: () => setDialog("delete") });
  }
  const name = open && (changed ? words.views.changed(open.name) : open.name);
  return (
    <>
      <Menu
        align="end"
        trigger={
          <Button icon="star">
            <span className="max-w-40 truncate">{name ?? words.views.menu}</span>
          </Button>
        }
        items={items}
      />
      {dialog === "save" && (
        <SaveView search={search} onOpen={onOpen} onClose={() => setDialog(null)} />
      )}
      {dialog === "delete" && open && (
        <DeleteView
          view={open}
          onDone={() => onOpen({ ...search, view: undefined })}
          onClose={() => setDialog(null)}
        />
      )}
    </>
  );
}

const bodyOf = (search: Search) => ({
  filters: toView(search),
  columns: search.columns ?? [],
});

function useSaveView(onSaved: (view: View) => void) {
  return useSend("put", "/api/v1/views/{view_id}", {
    stale: ["/api/v1/views"],
    onDone: (view) => {
      toast(words.views.saved(view.name));
      onSaved(view);
    },
  });
}

/** An id that people can read in the address; the end keeps two views of one name apart. */
function newId(name: string): string {
  const plain = name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 40);
  return `${plain || "view"}-${Math.random().toString(36).slice(2, 8)}`;
}

interface SaveViewProps extends ViewsMenuProps {
  onClose: () => void;
}

function SaveView({ search, onOpen, onClose }: SaveViewProps) {
  const [shared, setShared] = useState(false);
  const save = useSaveView((view) => {
    onClose();
    onOpen(fromView(view));
  });
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget).get("name")).trim();
    if (name === "") return;
    save.mutate({ path: { view_id: newId(name) }, body: { ...bodyOf(search), name, shared } });
  };
  return (
    <Dialog title={words.views.dialog} about={words.views.about} onClose={onClose}>
      <form onSubmit={send} className="grid gap-3">
        <Field label={words.views.name}>
          <TextInput name="name" maxLength={100} required autoFocus autoComplete="off" />
        </Field>
        <Checkbox
          label={words.views.share}
          hint={words.views.shareHint}
          checked={shared}
          onChecked={setShared}
        />
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={save.isPending}>
            {words.views.saveYes}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface DeleteViewProps {
  view: View;
  onDone: () => void;
  onClose: () => void;
}

function DeleteView({ view, onDone, onClose }: DeleteViewProps) {
  const remove = useSend("delete", "/api/v1/views/{view_id}", {
    stale: ["/api/v1/views"],
    onDone: () => {
      onClose();
      onDone();
    },
  });
  return (
    <Confirm
      danger
      title={words.views.deleteTitle(view.name)}
      about={words.views.deleteAbout}
      confirm={words.views.deleteYes}
      busy={remove.isPending}
      onConfirm={() => remove.mutate({ path: { view_id: view.id } })}
      onClose={onClose}
    />
  );
}
