import { useState } from "react";

import { type Schema, useGet, useSend } from "../../app/api.ts";
import { useSession } from "../../app/session.ts";
import { Answer } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Menu } from "../../parts/menu.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/people.ts";
import { RightsForm } from "./rights-form.tsx";

type User = Schema<"UserRow">;
type Open = { what: "edit" | "reset" | "disable"; user: User } | { what: "add" } | null;

const USERS = "/api/v1/users";

export function Users(props: { sort: string | undefined; onSort: (sort: string) => void }) {
  const users = useGet(USERS);
  const [open, setOpen] = useState<Open>(null);
  const [invitation, setInvitation] = useState<Schema<"Invitation"> | null>(null);
  const me = useSession().name;
  const close = () => setOpen(null);
  return (
    <Section
      title={words.users}
      actions={
        <Button look="primary" icon="plus" onClick={() => setOpen({ what: "add" })}>
          {words.add}
        </Button>
      }
      flush
    >
      <Answer query={users}>
        {(data) => (
          <DataTable
            label={words.users}
            rows={data.users}
            rowKey={({ name }) => name}
            columns={columns(me, setOpen)}
            sort={props.sort ?? "name"}
            onSort={props.onSort}
          />
        )}
      </Answer>
      {open?.what === "add" && <AddUser onClose={close} onMade={setInvitation} />}
      {open?.what === "edit" && <EditUser user={open.user} onClose={close} />}
      {open?.what === "disable" && <DisableUser user={open.user} onClose={close} />}
      {open?.what === "reset" && (
        <ResetUser user={open.user} onClose={close} onMade={setInvitation} />
      )}
      {invitation && <Invited invitation={invitation} onClose={() => setInvitation(null)} />}
    </Section>
  );
}

function columns(me: string, open: (next: Open) => void): Column<User>[] {
  return [
    {
      id: "name",
      head: words.columns.name,
      value: ({ name }) => name,
      cell: (user) => (
        <span className="inline-flex min-h-6 items-center gap-2 font-medium">
          {user.name}
          {user.name === me && <Badge>{words.you}</Badge>}
          {user.disabled && <Badge tone="warn">{words.disabled}</Badge>}
        </span>
      ),
    },
    {
      id: "role",
      head: words.columns.role,
      value: ({ role }) => role,
      cell: ({ role }) => words.roles[role],
    },
    {
      id: "grants",
      head: words.columns.grants,
      wide: true,
      cell: ({ grants }) => (
        <span className="flex flex-wrap gap-1">
          {grants.map((grant) => (
            <Badge key={grant}>{words.grants[grant]}</Badge>
          ))}
        </span>
      ),
    },
    {
      id: "scope",
      head: words.columns.scope,
      wide: true,
      cell: ({ scope }) => <Scope scope={scope} />,
    },
    { id: "signIn", head: words.columns.signIn, wide: true, cell: (user) => signIn(user) },
    {
      id: "created",
      head: words.columns.created,
      wide: true,
      value: ({ created_at }) => created_at,
      cell: ({ created_at }) => <Time at={created_at} relative />,
    },
    {
      id: "actions",
      head: <span className="sr-only">{words.columns.actions}</span>,
      align: "end",
      width: "3rem",
      cell: (user) => <UserMenu user={user} onOpen={open} />,
    },
  ];
}

function signIn(user: User): string {
  if (!user.has_password) return words.invited;
  return user.has_factor ? `${words.password}, ${words.factor}` : words.password;
}

/** Contexts by name or pattern. */
export function Scope({ scope }: { scope: readonly string[] }) {
  if (scope.includes("*")) return <span className="text-muted">{words.allContexts}</span>;
  return <span>{scope.join(", ")}</span>;
}

function UserMenu({ user, onOpen }: { user: User; onOpen: (next: Open) => void }) {
  const change = useSend("put", "/api/v1/users/{name}", { stale: [USERS] });
  const enable = () => {
    const { role, grants, scope } = user;
    change.mutate({ path: { name: user.name }, body: { role, grants, scope, disabled: false } });
  };
  return (
    <Menu
      trigger={<IconButton label={words.more(user.name)} icon="more" small />}
      items={[
        { label: words.edit, icon: "edit", onSelect: () => onOpen({ what: "edit", user }) },
        { label: words.newLink, icon: "key", onSelect: () => onOpen({ what: "reset", user }) },
        user.disabled
          ? { label: words.enable, icon: "check", onSelect: enable }
          : {
              label: words.disable,
              icon: "lock",
              danger: true,
              onSelect: () => onOpen({ what: "disable", user }),
            },
      ]}
    />
  );
}

interface MakesLink {
  onClose: () => void;
  onMade: (invitation: Schema<"Invitation">) => void;
}

function AddUser({ onClose, onMade }: MakesLink) {
  const add = useSend("post", USERS, {
    stale: [USERS],
    quiet: true,
    onDone: (invitation) => {
      onClose();
      onMade(invitation);
    },
  });
  return (
    <Dialog title={words.addTitle} about={words.addAbout} onClose={onClose}>
      <RightsForm
        named
        confirm={words.addUser}
        busy={add.isPending}
        error={add.error}
        onSubmit={(body) => add.mutate({ body: { ...body, disabled: false } })}
      />
    </Dialog>
  );
}

function EditUser({ user, onClose }: { user: User; onClose: () => void }) {
  const change = useSend("put", "/api/v1/users/{name}", {
    stale: [USERS],
    quiet: true,
    onDone: () => {
      toast(words.saved(user.name));
      onClose();
    },
  });
  return (
    <Dialog title={words.editTitle(user.name)} onClose={onClose}>
      <RightsForm
        start={user}
        confirm={words.save}
        busy={change.isPending}
        error={change.error}
        onSubmit={({ role, grants, scope }) =>
          change.mutate({
            path: { name: user.name },
            body: { role, grants, scope, disabled: user.disabled },
          })
        }
      />
    </Dialog>
  );
}

function DisableUser({ user, onClose }: { user: User; onClose: () => void }) {
  const { role, grants, scope } = user;
  const change = useSend("put", "/api/v1/users/{name}", { stale: [USERS], onDone: onClose });
  const body = { role, grants, scope, disabled: true };
  return (
    <Confirm
      title={words.disableTitle(user.name)}
      about={words.disableAbout}
      confirm={words.disableConfirm}
      danger
      busy={change.isPending}
      onConfirm={() => change.mutate({ path: { name: user.name }, body })}
      onClose={onClose}
    />
  );
}

function ResetUser({ user, onClose, onMade }: MakesLink & { user: User }) {
  const reset = useSend("post", "/api/v1/users/{name}/reset", {
    stale: [USERS],
    onDone: (invitation) => {
      onClose();
      onMade(invitation);
    },
  });
  return (
    <Confirm
      title={words.resetTitle(user.name)}
      about={words.resetAbout}
      confirm={words.resetConfirm}
      danger
      busy={reset.isPending}
      onConfirm={() => reset.mutate({ path: { name: user.name } })}
      onClose={onClose}
    />
  );
}

interface InvitedProps {
  invitation: Schema<"Invitation">;
  onClose: () => void;
}

function Invited({ invitation, onClose }: InvitedProps) {
  return (
    <Dialog
      title={words.linkTitle(invitation.user.name)}
      about={words.linkAbout}
      wide
      onClose={onClose}
    >
      <CodeBlock text={invitation.link} label={words.linkLabel} />
      <div className="mt-4 flex justify-end">
        <Button look="primary" onClick={onClose}>
          {words.done}
        </Button>
      </div>
    </Dialog>
  );
}
