"""`cordboard check --online`: does each configured service answer, and know key and model?

    findings = await check_online(config, os.environ)

All services are queried at once, each for a few seconds at most. No call is made. A realtime
agent's session is opened too, and closed at once, because no list of the services contains its
voices and settings; unless the descriptor says that a session costs money
(`Provider.tries_session`).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import httpx2
import structlog

from cordboard.agent_api.probe import Probe
from cordboard.agent_api.provider import Parts, Provider, provider_of
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agents.making import make
from cordboard.agents.realtime.trial import try_session
from cordboard.config.plugins import Plugins, failure_of, installed
from cordboard.config.providers import PaidPart, paid_parts
from cordboard.config.schema import Config
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import AgentError, FailureKind
from cordboard.net.failures import HTTP_ERRORS, kind_of_error
from cordboard.net.service_http import client_for
from cordboard.net.tls import load_trusted

SECONDS = 10.0
"""Timeout of one answer."""
_ENOUGH = 4 * 1024 * 1024
"""Bytes of an answer that are read."""
_GOOD: frozenset[State] = frozenset({"ok", "ends soon", "unlisted"})
_STATES: dict[FailureKind, State] = {
    "auth": "wrong key",
    "connect": "unreachable",
    "dropped": "unreachable",
    "stalled": "unreachable",
}
"""State for the failure of a session that was not accepted; all other kinds are `refused`."""


log = structlog.get_logger()

State = Literal[
    "ok", "ends soon", "no key", "wrong key", "unknown", "unlisted", "unreachable", "refused"
]
"""`ends soon`: it works, until a day that the service states; `unlisted`: the service does not list
it, which does not prove that it does not exist; `refused`: the answer says neither yes nor no."""
SOON_DAYS = 90
"""Days before its end from which on a model is reported."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of an answer."""

    state: State
    detail: str = ""


def verdict(probe: Probe, status: int, body: bytes, today: date | None = None) -> Verdict:
    """Return the meaning of an answer. `today`: for tests."""
    if status in (401, 403) or (status == 400 and b"API_KEY_INVALID" in body):
        if b"missing_permissions" in body:
            return Verdict("refused", "the key may not ask for this; it may do for calls")
        return Verdict("wrong key", f"it does not accept the key (HTTP {status})")
    if status in probe.unknown:
        return Verdict("unknown", f"there is no such thing, or not for this key (HTTP {status})")
    if status == 404:
        return Verdict("refused", "there is nothing at this address (HTTP 404); is base_url right?")
    if status == 429:
        return Verdict("refused", "the account is used up, or the service too busy (HTTP 429)")
    if status >= 500:
        return Verdict("unreachable", f"the service is not well (HTTP {status})")
    if status != 200:
        return Verdict("refused", f"an unexpected answer (HTTP {status})")
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return Verdict("refused", "the answer is not JSON; is the address right?")
    try:
        problem = probe.judge(told)
    except Exception as error:  # border: a service may answer anything, a plug-in judge anyhow
        log.exception("probe_judge_failed", probe=probe.what)
        return Verdict("refused", f"the answer makes no sense ({type(error).__name__})")
    if problem:
        return Verdict("unlisted", problem)
    return _lasting(probe, told, today or datetime.now(UTC).date())


def _lasting(probe: Probe, told: Any, today: date) -> Verdict:
    """Return the meaning of the day that an answer states as the thing's end."""
    day = told.get(probe.end) if probe.end and isinstance(told, dict) else None
    try:
        end = date.fromisoformat(day[:10]) if isinstance(day, str) else date.max
    except ValueError:
        end = date.max
    if (end - today).days > SOON_DAYS:
        return Verdict("ok")
    if end < today:
        return Verdict("refused", f"the service has ended it on {end}")
    return Verdict("ends soon", f"the service ends it on {end}")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    provider: str
    """The name in `providers`, with the part of a pipeline: `support`, `mixed.tts`."""
    what: str
    state: State
    advice: str = ""
    """The problem and its remedy; never contains a key."""

    @property
    def good(self) -> bool:
        """True if calls can be expected to work."""
        return self.state in _GOOD

    def __str__(self) -> str:
        text = f"{self.provider}: {self.what}: {self.state}"
        return f"{text}: {self.advice}" if self.advice else text


async def check_online(
    config: Config,
    environ: Mapping[str, str],
    seconds: float = SECONDS,
    plugins: Plugins | None = None,
    only: str | None = None,
) -> tuple[Finding, ...]:
    """Query every service of every provider, in the order of the file. `plugins`: the descriptors;
    default: the installed ones. `only`: the name of one provider."""
    plugins = plugins or installed()
    trusted = await load_trusted()
    asked = [
        _verify(
            seconds, trusted, f"{name}.{paid.key}" if paid.key else name, paid, environ, plugins
        )
        for name, provider in config.providers.items()
        if only in (None, name)
        for paid in paid_parts(provider)
    ]
    found = await asyncio.gather(*asked)
    return tuple(finding for findings in found for finding in findings)


async def _verify(
    seconds: float,
    tls: ssl.SSLContext,
    name: str,
    paid: PaidPart,
    environ: Mapping[str, str],
    plugins: Plugins,
) -> list[Finding]:
    service = paid.section
    missing = service.missing_key(environ)
    if missing:
        return [Finding(name, service.type, "no key", missing.removeprefix("no key: "))]
    key = service.key(environ)[0]
    provider = provider_of(plugins, paid.role, service.type)
    if provider is None:
        return []
    probes, problem = _probes(provider, paid, key, plugins)
    if problem:
        return [Finding(name, service.type, "refused", problem)]
    findings: list[Finding] = []
    for probe in probes:
        answer = await _ask(probe, seconds)
        advice = _advice(paid, probe, answer, environ)
        findings.append(Finding(name, f"{service.type}, {probe.what}", answer.state, advice))
        if answer.state in ("wrong key", "unreachable"):
            break  # the rest would only repeat it
    if (
        isinstance(service, RealtimeProvider)
        and provider.tries_session
        and all(finding.good for finding in findings)
    ):
        findings.append(
            await _session(service, key, f"{service.type}, session", name, tls, seconds, plugins)
        )
    return findings


def _probes(
    provider: Provider[Any], paid: PaidPart, key: str, plugins: Plugins
) -> tuple[tuple[Probe, ...], str]:
    """Return the requests for a part, or the problem of a plug-in with them."""
    try:
        return provider.probes(paid.section, key), ""
    except Exception as error:  # border of a plug-in: its code may raise anything
        source = plugins.sources.get((paid.role, paid.section.type))
        if source is None:
            raise
        return (), failure_of(source, "its probes", error, key)


async def _session(
    service: RealtimeProvider,
    key: str,
    what: str,
    name: str,
    tls: ssl.SSLContext,
    seconds: float,
    plugins: Plugins,
) -> Finding:
    """Verify that the service accepts all settings of a session: voice, turn detection,
    `extra`..."""
    try:
        protocol = make("agent", service, Parts(key), plugins)
        if not isinstance(protocol, ServiceProtocol):
            return Finding(name, what, "ok")  # the plug-in's own agent: nothing can be tried here
        await try_session(protocol, service.type, tls, seconds)
    except AgentError as error:
        return Finding(name, what, _STATES.get(error.kind, "refused"), str(error))
    except Exception as error:  # border of a plug-in: its code may raise anything
        source = plugins.sources.get(("agent", service.type))
        if source is None:
            raise
        return Finding(name, what, "refused", failure_of(source, "its session", error, key))
    return Finding(name, what, "ok")


async def _ask(probe: Probe, seconds: float) -> Verdict:
    try:
        async with (
            await client_for(probe.url, probe.headers, seconds) as client,
            client.stream("GET", probe.url) as answer,
        ):
            body = b""
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _ENOUGH:
                    return Verdict("refused", "an answer that is far too long")
            return verdict(probe, answer.status_code, body)
    except httpx2.TimeoutException:
        return Verdict("unreachable", "no answer in time")
    except (*HTTP_ERRORS, OSError) as error:
        return Verdict("unreachable", kind_of_error(error).words)


def _advice(paid: PaidPart, probe: Probe, answer: Verdict, environ: Mapping[str, str]) -> str:
    """Return the remedy."""
    host = httpx2.URL(probe.url).host
    match answer.state:
        case "ok":
            return ""
        case "wrong key":
            where = paid.section.key(environ)[1] or "api_key"
            return f"{answer.detail}; see that {where} holds a key that {host} accepts"
        case "unknown":
            kind = probe.what.partition(" ")[0]
            return f"{answer.detail}; see that the {kind} is spelled as {host} has it"
        case "ends soon":
            return f"{answer.detail}; choose another one before"
        case "unreachable":
            return f"{answer.detail}; see that this machine can reach {host}"
    return answer.detail
