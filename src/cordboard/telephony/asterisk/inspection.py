"""Facts about an Asterisk, read through ARI: version, modules, Stasis applications, clock.

    facts = await inspect(config.asterisk)

Nothing is changed.
"""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from urllib.parse import quote

from cordboard.config.schema import Asterisk
from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import AriClient, brief_connection
from cordboard.telephony.asterisk.ari_messages import Json

FIRST_VERSIONS = "20.14, 21.9 and 22.4"
"""The first versions with requests on the websocket (asterisk.org, "ARI REST Requests over
Websocket"). Earlier ones do not answer them."""


@dataclass(frozen=True, slots=True)
class AsteriskFacts:
    """An Asterisk that answers."""

    version: str
    modules: frozenset[str]
    """The running modules, with `.so`."""
    applications: frozenset[str]
    """The Stasis applications that a client is connected for."""
    clock_ahead: float
    """Seconds by which Asterisk's clock is ahead of this machine's; exact to half of the request's
    duration."""
    read_only: bool | None
    """True if the user may only read; None if Asterisk does not show the user's entry."""
    plain_password: bool | None
    """True if the password is in the entry as it is, not as a hash; None as in `read_only`."""


async def inspect(config: Asterisk) -> AsteriskFacts:
    """Read the facts. Raises `AsteriskError`, with the HTTP status of a refusal."""
    async with brief_connection(config, "inspection") as ari:
        version = await ari.request("GET", "asterisk/info", only="system")
        ahead = await _clock_ahead(ari)
        modules = await ari.request("GET", "asterisk/modules")
        applications = await ari.request("GET", "applications")
        user = await _user(ari, config.username)
    return AsteriskFacts(
        str(_member(_member(version, "system"), "version") or "of an unknown version"),
        frozenset(
            str(_member(module, "name"))
            for module in _items(modules)
            if _member(module, "status") == "Running"
        ),
        frozenset(str(_member(each, "name")) for each in _items(applications)) - {ari.app},
        ahead,
        None if user is None else user.get("read_only") == "yes",
        None if user is None else user.get("password_format") == "plain",
    )


async def _clock_ahead(ari: AriClient) -> float:
    before = time.time()
    answer = await ari.request("GET", "asterisk/ping")
    here = (before + time.time()) / 2
    stamp = str(_member(answer, "timestamp"))
    try:
        there = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    except ValueError:
        raise AsteriskError(f"GET asterisk/ping: {stamp[:40]!r} is not a time") from None
    return there - here


async def _user(ari: AriClient, username: str) -> dict[str, str] | None:
    """Return how the user is allowed in, without the password; None if Asterisk does not say."""
    path = f"asterisk/config/dynamic/res_ari/user/{quote(username, safe='')}"
    try:
        fields = await ari.request("GET", path)
    except AsteriskError as error:
        if error.status == 0:
            raise
        return None
    return {
        str(_member(field, "attribute")): str(_member(field, "value"))
        for field in _items(fields)
        if _member(field, "attribute") in ("read_only", "password_format")
    }


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
