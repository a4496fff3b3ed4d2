"""Endpoints of the stored secrets: list, set, remove. No value is ever given out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr

from cordboard.accounts.rights import Permission
from cordboard.admin import config_checks as checks
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.services import Editing
from cordboard.config.files import MOST_KIB
from cordboard.config.secret_list import SecretState, secret_list
from cordboard.config.stored_secrets import is_name
from cordboard.errors import RequestRefused


class Secret(Gives):
    name: str
    state: Literal["set", "missing", "default"]
    """`default`: not set, and the file has a default wherever it names it."""
    source: Literal["environment", "stored", ""]
    shadowed: bool
    """True if the stored secret has no effect, because the environment has one of that name."""
    used_by: list[str]
    """Keys of the file."""
    fingerprint: str
    """The same for the same value; tells nothing of it. Empty if it is not set."""
    set_at: str
    set_by: str


class Secrets(Gives):
    secrets: list[Secret]


class SecretValue(Takes):
    value: SecretStr = Field(min_length=1, max_length=MOST_KIB * 1024)


async def list_secrets(ask: Ask) -> Secrets:
    """List the secrets that fill the file from outside, and those that are stored; no values."""
    rows = await _listed(ask)
    return Secrets(secrets=[_row(each) for each in rows])


async def set_secret(ask: Ask) -> Secret:
    """Store a secret for `${NAME}` of the file. A running engine takes it with the next reload, at
    once if it watches its file; a variable of the environment wins."""
    name, body = ask.params["secret"], ask.body
    if not is_name(name):
        raise RequestRefused(422, "invalid", "the name is not that of a variable, such as SHOP_KEY")
    value = body.value.get_secret_value()
    await ask.services.run(_editing(ask).secrets.put, name, value, ask.who.name)
    return await _one(ask, name)


async def remove_secret(ask: Ask) -> Secrets:
    """Remove a stored secret. A running engine loses it with the next reload."""
    name = ask.params["secret"]
    await ask.services.run(_editing(ask).secrets.remove, name)
    return await list_secrets(ask)


def _editing(ask: Ask) -> Editing:
    if ask.services.editing is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    return ask.services.editing


async def _listed(ask: Ask) -> list[SecretState]:
    services, editing = ask.services, _editing(ask)
    values = await services.check_config(checks.tree)
    environ = services.source.environ if services.source is not None else {}
    return await services.run(secret_list, values, services.config(), environ, editing.secrets)


async def _one(ask: Ask, name: str) -> Secret:
    return next(_row(each) for each in await _listed(ask) if each.name == name)


def _row(state: SecretState) -> Secret:
    return Secret(
        name=state.name,
        state=state.state,
        source=state.source,
        shadowed=state.shadowed,
        used_by=list(state.used_by),
        fingerprint=state.fingerprint,
        set_at=state.note.at,
        set_by=state.note.by,
    )


_CHANGES: dict[str, Any] = {
    "may": Permission.SECRETS_WRITE,
    "scope": Scope.NONE,
    "elevated": True,
}

ENDPOINTS = (
    Endpoint(
        "GET",
        "/secrets",
        may=Permission.SECRETS_LIST,
        scope=Scope.NONE,
        takes=None,
        gives=Secrets,
        audit=UNRECORDED,
        does=list_secrets,
    ),
    Endpoint(
        "PUT",
        "/secrets/{secret}",
        takes=SecretValue,
        gives=Secret,
        audit="secret.set",
        does=set_secret,
        **_CHANGES,
    ),
    Endpoint(
        "DELETE",
        "/secrets/{secret}",
        takes=None,
        gives=Secrets,
        audit="secret.remove",
        does=remove_secret,
        **_CHANGES,
    ),
)
