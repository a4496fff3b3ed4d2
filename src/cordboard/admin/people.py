"""Endpoints of users, their sessions, the keys of programs, and the audit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from starlette.responses import Response

from cordboard.accounts.audit import AuditEntry, verify
from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role
from cordboard.accounts.store import USER_NAME, Key, Session, User
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.history import TABLE, exported
from cordboard.admin.pace import VERIFY
from cordboard.api.administration import iso_time
from cordboard.errors import NotThere
from cordboard.history.export import Format, written

DAY = 86_400
_AT_ONCE = 1_000
"""Entries that are read together."""
_NAME = re.compile(USER_NAME)


ContextPattern = Annotated[str, Field(min_length=1, max_length=100)]
"""A context by name, or a pattern such as `sales-*`."""


class UserRow(Gives):
    name: str
    role: Role
    grants: list[Grant]
    scope: list[str]
    """Contexts by name or pattern; `["*"]`: all."""
    has_password: bool
    has_factor: bool
    disabled: bool
    created_at: str


class Users(Gives):
    users: list[UserRow]


class UserRights(Takes):
    role: Role
    grants: list[Grant] = Field([])
    scope: list[ContextPattern] = Field(list(EVERYWHERE), max_length=100)
    disabled: bool = False

    def facts(self) -> dict[str, Any]:
        """Return the rights that are given."""
        return self.model_dump(mode="json")


class NewUser(UserRights):
    name: str

    def subject(self) -> str:
        """Return the user's name."""
        return self.name

    @field_validator("name")
    @classmethod
    def _a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("expected lower-case letters, digits and . _ @ -, at most 64")
        return name


class Invitation(Gives):
    user: UserRow
    link: str
    """Valid once and for 24 hours; it is not shown again."""


class SessionRow(Gives):
    id: str
    user: str
    client: str
    created_at: str
    seen_at: str
    yours: bool


class Sessions(Gives):
    sessions: list[SessionRow]


class KeyRow(Gives):
    id: str
    label: str
    owner: str
    permissions: list[Permission]
    scope: list[str]
    created_at: str
    expires_at: str


class Keys(Gives):
    keys: list[KeyRow]


class NewKey(Takes):
    label: str = Field(min_length=1, max_length=100)
    permissions: list[Permission] = Field(min_length=1)
    scope: list[ContextPattern] = Field(list(EVERYWHERE), max_length=100)
    days: int = Field(90, ge=1, le=366)

    def facts(self) -> dict[str, Any]:
        """Return the rights of the key."""
        return self.model_dump(mode="json")


class MadeKey(Gives):
    key: KeyRow
    token: str
    """For the header `Authorization: Bearer`; it is not shown again."""


class AuditFilter(Takes):
    who: str = Field("", max_length=100)
    action: str = Field("", max_length=100)
    """An action, or the beginning of several: `call.`."""
    on: str = Field("", max_length=200)
    result: Literal["", "done", "refused", "failed"] = ""

    def wants(self, entry: Mapping[str, Any]) -> bool:
        """Return True if an entry fits; an empty field fits all."""
        exact = ("who", self.who), ("on", self.on), ("result", self.result)
        fits = all(not wanted or entry.get(name) == wanted for name, wanted in exact)
        return fits and str(entry.get("action")).startswith(self.action)


class AuditPage(AuditFilter):
    limit: int = Field(50, ge=1, le=200)
    before: int | None = Field(None, ge=1)
    """`next` of the page before."""


class AuditExport(AuditFilter):
    format: Format = "csv"


class AuditEntries(Gives):
    entries: list[dict[str, Any]]
    """The newest first."""
    next: int
    """For `before`; 0 at the end. With a filter a page may have fewer entries than `limit`, or
    none, and others follow."""


class AuditVerified(Gives):
    first: int
    """Number of the oldest line that is kept."""
    lines: int
    """Number of the last line in order."""
    head: str
    """Its hash, to be compared with `audit_head` in the engine's log."""
    problem: str
    """The first line that does not fit, and why; empty if all do."""


async def list_users(ask: Ask) -> Users:
    """List the users."""
    found = await ask.services.run(ask.services.accounts.users)
    return Users(users=[_user(user) for user in found])


async def add_user(ask: Ask) -> Invitation:
    """Add a user, and get the one-time link for the first password."""
    body: NewUser = ask.body
    accounts, run = ask.services.accounts, ask.services.run
    await run(accounts.add, body.name, body.role, body.grants, tuple(body.scope))
    return await _invitation(ask, body.name)


async def change_user(ask: Ask) -> UserRow:
    """Replace a user's role, grants and scope; disable or enable them."""
    body: UserRights = ask.body
    accounts, name = ask.services.accounts, ask.params["name"]
    changed = await ask.services.run(
        accounts.change, name, body.role, body.grants, tuple(body.scope), disabled=body.disabled
    )
    return _user(changed)


async def reset_user(ask: Ask) -> Invitation:
    """Remove a user's password and second factor, and get a new one-time link."""
    return await _invitation(ask, ask.params["name"])


async def list_sessions(ask: Ask) -> Sessions:
    """List the sessions of all users."""
    found = await ask.services.run(ask.services.accounts.sessions)
    own = ask.who.session
    return Sessions(sessions=[session_row(each, own) for each in found])


async def end_session(ask: Ask) -> Done:
    """End any session."""
    accounts = ask.services.accounts
    await ask.services.run(accounts.end_session_by_id, ask.params["session_id"])
    return Done()


async def list_keys(ask: Ask) -> Keys:
    """List the keys of all programs."""
    found = await ask.services.run(ask.services.accounts.keys)
    return Keys(keys=[_key(key) for key in found])


async def add_key(ask: Ask) -> MadeKey:
    """Make a key for a program, with a part of one's own permissions."""
    body: NewKey = ask.body
    key, token = await ask.services.run(
        ask.services.accounts.add_key,
        ask.who.name,
        body.label,
        body.permissions,
        tuple(body.scope),
        body.days * DAY,
    )
    return MadeKey(key=_key(key), token=token)


async def remove_key(ask: Ask) -> Done:
    """Remove a key; the program is signed out at once."""
    await ask.services.run(ask.services.accounts.remove_key, ask.params["key_id"])
    return Done()


async def read_audit(ask: Ask) -> AuditEntries:
    """Read the audit, the newest entries first."""
    page: AuditPage = ask.query
    read = ask.services.audit.read
    entries, following = await ask.services.run(read, page.limit, page.before, page.wants)
    return AuditEntries(entries=entries, next=following)


async def export_audit(ask: Ask) -> Response:
    """Export all entries of the audit that fit, the newest first, as CSV or JSON lines."""
    asked: AuditExport = ask.query
    read = ask.services.audit.read

    def entries() -> Iterator[dict[str, Any]]:
        before: int | None = None
        while before != 0:
            found, before = read(_AT_ONCE, before, asked.wants)
            yield from found

    columns = ["seq", "at", *(each.name for each in fields(AuditEntry))]
    return await exported(ask, written(entries(), columns, asked.format), "audit", asked.format)


async def verify_audit(ask: Ask) -> AuditVerified:
    """Check that no line of the audit was changed, removed or inserted."""
    ask.services.paces.take(VERIFY, ask.who.name)
    found = await ask.services.run(verify, ask.services.audit.path)
    return AuditVerified(
        first=found.first, lines=found.lines, head=found.head, problem=found.problem
    )


async def _invitation(ask: Ask, name: str) -> Invitation:
    accounts, run = ask.services.accounts, ask.services.run
    token = await run(accounts.reset, name)
    user = await run(accounts.user, name)
    if user is None:
        raise NotThere(f"there is no user {name[:64]}")
    return Invitation(user=_user(user), link=f"{ask.services.public_address}/#link={token}")


def _user(user: User) -> UserRow:
    return UserRow(
        name=user.name,
        role=user.role,
        grants=sorted(user.grants),
        scope=list(user.scope),
        has_password=user.has_password,
        has_factor=user.has_factor,
        disabled=user.disabled,
        created_at=iso_time(user.created_at),
    )


def session_row(session: Session, own: Session | None) -> SessionRow:
    """Return a session as a row; `own` is the caller's."""
    return SessionRow(
        id=session.id,
        user=session.user.name,
        client=session.client,
        created_at=iso_time(session.created_at),
        seen_at=iso_time(session.seen_at),
        yours=own is not None and own.id == session.id,
    )


def _key(key: Key) -> KeyRow:
    return KeyRow(
        id=key.id,
        label=key.label,
        owner=key.owner.name,
        permissions=sorted(key.permissions),
        scope=list(key.scope),
        created_at=iso_time(key.created_at),
        expires_at=iso_time(key.expires_at),
    )


_MANAGE, _NONE = Permission.PEOPLE_MANAGE, Scope.NONE

ENDPOINTS = (
    Endpoint(
        "GET",
        "/users",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Users,
        audit=UNRECORDED,
        does=list_users,
    ),
    Endpoint(
        "POST",
        "/users",
        may=_MANAGE,
        scope=_NONE,
        takes=NewUser,
        gives=Invitation,
        audit="user.add",
        does=add_user,
        elevated=True,
    ),
    Endpoint(
        "PUT",
        "/users/{name}",
        may=_MANAGE,
        scope=_NONE,
        takes=UserRights,
        gives=UserRow,
        audit="user.change",
        does=change_user,
        elevated=True,
    ),
    Endpoint(
        "POST",
        "/users/{name}/reset",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Invitation,
        audit="user.reset",
        does=reset_user,
        elevated=True,
    ),
    Endpoint(
        "GET",
        "/sessions",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Sessions,
        audit=UNRECORDED,
        does=list_sessions,
    ),
    Endpoint(
        "DELETE",
        "/sessions/{session_id}",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Done,
        audit="session.end_other",
        does=end_session,
    ),
    Endpoint(
        "GET",
        "/api-keys",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Keys,
        audit=UNRECORDED,
        does=list_keys,
    ),
    Endpoint(
        "POST",
        "/api-keys",
        may=_MANAGE,
        scope=_NONE,
        takes=NewKey,
        gives=MadeKey,
        audit="key.add",
        does=add_key,
        elevated=True,
    ),
    Endpoint(
        "DELETE",
        "/api-keys/{key_id}",
        may=_MANAGE,
        scope=_NONE,
        takes=None,
        gives=Done,
        audit="key.remove",
        does=remove_key,
        elevated=True,
    ),
    Endpoint(
        "GET",
        "/audit",
        may=Permission.AUDIT_READ,
        scope=_NONE,
        takes=None,
        asks=AuditPage,
        gives=AuditEntries,
        audit=UNRECORDED,
        does=read_audit,
    ),
    Endpoint(
        "GET",
        "/audit/export",
        may=Permission.AUDIT_READ,
        scope=_NONE,
        takes=None,
        asks=AuditExport,
        gives=TABLE,
        audit="audit.export",
        does=export_audit,
    ),
    Endpoint(
        "GET",
        "/audit/verify",
        may=Permission.AUDIT_READ,
        scope=_NONE,
        takes=None,
        gives=AuditVerified,
        audit=UNRECORDED,
        does=verify_audit,
    ),
)
