"""`cordboard users ...`, `cordboard audit verify`: the accounts of the admin port.

They work on the files in `admin.ui.data`, with and without a running engine: users of the machine
who may write there are trusted. Each change is in the audit.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.accounts.rights import Grant, Role
from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, system_user
from cordboard.errors import NotThere

if TYPE_CHECKING:
    from pathlib import Path

    from cordboard.accounts.audit import AuditLog
    from cordboard.accounts.store import Accounts
    from cordboard.config.sections.admin import AdminUi

users = typer.Typer(help="People of the admin port: add, list, disable.", no_args_is_help=True)
audit = typer.Typer(help="The audit of the admin port.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name to sign in with.")]


@users.command("add")
def add(
    name: NameArgument,
    role: Annotated[Role | None, typer.Option(help="Default: viewer; first user: admin.")] = None,
    grant: Annotated[
        list[Grant] | None,
        typer.Option(help="A right that no role has; repeatable. The first user gets all."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="CONTEXT", help="A context or pattern; repeatable. Default: all."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add a user, and print a link, valid once and for 24 hours, to set the password with."""
    from cordboard.accounts.rights import EVERYWHERE
    from cordboard.accounts.store import USER_NAME

    if not re.fullmatch(USER_NAME, name):
        raise typer.BadParameter("a name has lower-case letters, digits and . _ @ -, at most 64")
    with _opened(config) as (settings, accounts, log):
        first = not accounts.users()
        role = role or (Role.ADMIN if first else Role.VIEWER)
        grants = [*Grant] if first and grant is None else grant or []
        contexts = tuple(scope) if scope else EVERYWHERE
        detail = {"role": role, "grants": grants, "scope": contexts}
        _record(log, "user.add", name, detail)
        accounts.add(name, role, grants, contexts)
        print(f"{name}: {role}" + "".join(f", {each}" for each in grants))
        _print_link(settings, accounts.reset(name))


@users.command("list")
def list_users(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """List the users with their roles, grants and scopes."""
    with _opened(config) as (_, accounts, _log):
        for user in accounts.users():
            state = "disabled" if user.disabled else "" if user.has_password else "no password yet"
            factor = "second factor" if user.has_factor else ""
            scope = "" if "*" in user.scope else f"only {' '.join(user.scope) or 'nothing'}"
            facts = [str(user.role), *sorted(user.grants), scope, factor, state]
            print(f"{user.name}: {', '.join(fact for fact in facts if fact)}")


@users.command("disable")
def disable(name: NameArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """End a user's sessions and keys, and let them sign in no more."""
    with _opened(config) as (_, accounts, log):
        user = accounts.user(name)
        if user is None:
            raise NotThere(f"there is no user {name}")
        _record(log, "user.change", name, {"disabled": True})
        accounts.change(name, user.role, user.grants, user.scope, disabled=True)
        print(f"{name} is disabled")


@users.command("reset")
def reset(name: NameArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove a user's password and second factor, and print a link to set a new password with."""
    with _opened(config) as (settings, accounts, log):
        if accounts.user(name) is None:
            raise NotThere(f"there is no user {name}")
        _record(log, "user.reset", name, {})
        _print_link(settings, accounts.reset(name))


@audit.command("verify")
def verify_audit(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Check that no line of the audit was changed, removed or inserted.

    Compare the last hash with an earlier one in the engine's log (`audit_head`): a file that was
    cut at its end is in order by itself. Exit status 1 when a line does not fit.
    """
    from cordboard.accounts.audit import verify

    path = _settings(config).data / "audit.jsonl"
    if not path.exists():
        raise NotThere(f"there is no audit {path}")
    found = verify(path)
    which = f"lines {found.first} to {found.lines}" if found.first > 1 else f"{found.lines} lines"
    print(f"{path}: {which} in order; the last hash is {found.head}")
    if found.problem:
        print(f"cordboard: {path}: {found.problem}", file=sys.stderr)
        raise typer.Exit(1)


@contextmanager
def _opened(config: Path) -> Iterator[tuple[AdminUi, Accounts, AuditLog]]:
    from cordboard.accounts.audit import AuditLog
    from cordboard.accounts.store import Accounts

    settings = _settings(config)
    folder = settings.data
    accounts = Accounts(folder)
    try:
        yield (
            settings,
            accounts,
            AuditLog(folder / "audit.jsonl", time.time, keep_months=settings.audit_months),
        )
    finally:
        accounts.close()


def _settings(config: Path) -> AdminUi:
    from cordboard.cli.running_engine import admin_ui

    return admin_ui(config, os.environ)


def _record(log: AuditLog, action: str, name: str, detail: Mapping[str, object]) -> None:
    from cordboard.accounts.audit import AuditEntry

    facts = {**detail, "system_user": system_user()}
    log.append(AuditEntry("machine", action, name, via="command", detail=facts))


def _print_link(settings: AdminUi, token: str) -> None:
    """Print the link. The token is behind the `#`, which browsers send to no server."""
    from cordboard.accounts.store import LINK_HOURS

    until = datetime.datetime.now().astimezone() + datetime.timedelta(hours=LINK_HOURS)
    print(f"Valid once, until {until:%Y-%m-%d %H:%M}:")
    print(f"  {settings.address}/#link={token}")
