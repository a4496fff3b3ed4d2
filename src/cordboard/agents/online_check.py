"""`cordboard check --online`: is each configured service there, and does it know key and model?

    findings = await check_online(config, os.environ)

All services are asked at once, each for a few seconds at most. No call is made. With OpenAI,
Deepgram and Gemini a realtime agent's session is opened too, and closed at once: no list of theirs
has the voices and settings of one. Those of ElevenLabs cost money: there the agent is looked at.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from cordboard.agents.online_requests import Probe, State, Verdict, probes, verdict
from cordboard.agents.realtime.protocols import protocol_for
from cordboard.agents.realtime.trial import try_session
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.realtime import RealtimeProvider
from cordboard.config.providers.services import PaidPart, paid_parts
from cordboard.config.schema import Config
from cordboard.errors import AgentError, FailureKind
from cordboard.net.failures import HTTP_ERRORS, kind_of_error
from cordboard.net.service_http import client_for
from cordboard.net.tls import load_trusted

SECONDS = 10.0
"""For one answer."""
_ENOUGH = 4 * 1024 * 1024
"""Bytes of an answer that are read."""
_GOOD: frozenset[State] = frozenset({"ok", "unlisted"})
_STATES: dict[FailureKind, State] = {
    "auth": "wrong key",
    "connect": "unreachable",
    "dropped": "unreachable",
    "stalled": "unreachable",
}
"""What it means that a session was not accepted; anything else is `refused`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was verified."""

    provider: str
    """As `providers` names it, and the part of a pipeline: `support`, `mixed.tts`."""
    what: str
    state: State
    advice: str = ""
    """What is wrong, and what to do; never a key."""

    @property
    def good(self) -> bool:
        """Whether calls can be expected to work."""
        return self.state in _GOOD

    def __str__(self) -> str:
        text = f"{self.provider}: {self.what}: {self.state}"
        return f"{text}: {self.advice}" if self.advice else text


async def check_online(
    config: Config, environ: Mapping[str, str], seconds: float = SECONDS
) -> tuple[Finding, ...]:
    """Ask every service of every provider, in the order of the file."""
    trusted = await load_trusted()
    asked = [
        _verify(seconds, trusted, f"{name}.{paid.part}" if paid.part else name, paid, environ)
        for name, provider in config.providers.items()
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
) -> list[Finding]:
    missing = paid.missing_key(environ)
    if missing:
        return [Finding(name, paid.kind, "no key", missing.removeprefix("no key: "))]
    key = paid.key(environ)
    findings: list[Finding] = []
    for probe in probes(paid, key):
        answer = await _ask(probe, seconds)
        advice = _advice(paid, probe, answer, environ)
        findings.append(Finding(name, f"{paid.kind}, {probe.what}", answer.state, advice))
        if answer.state in ("wrong key", "unreachable"):
            break  # the rest would only say it again
    service = paid.service
    if (
        isinstance(service, RealtimeProvider)
        and not isinstance(service, ElevenLabsAgentProvider)
        and all(finding.good for finding in findings)
    ):
        findings.append(await _session(service, key, f"{paid.kind}, session", name, tls, seconds))
    return findings


async def _session(
    service: RealtimeProvider, key: str, what: str, name: str, tls: ssl.SSLContext, seconds: float
) -> Finding:
    """Whether the service takes all settings of a session: voice, turn detection, `extra`..."""
    try:
        await try_session(protocol_for(service, key), what.partition(",")[0], tls, seconds)
    except AgentError as error:
        return Finding(name, what, _STATES.get(error.kind, "refused"), str(error))
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
                    return Verdict("refused", "an answer beyond all measure")
            return verdict(probe, answer.status_code, body)
    except httpx2.TimeoutException:
        return Verdict("unreachable", "no answer in time")
    except (*HTTP_ERRORS, OSError) as error:
        return Verdict("unreachable", kind_of_error(error).words)


def _advice(paid: PaidPart, probe: Probe, answer: Verdict, environ: Mapping[str, str]) -> str:
    """What to do about it."""
    host = httpx2.URL(probe.url).host
    match answer.state:
        case "ok":
            return ""
        case "wrong key":
            where = paid.key_source(environ)
            return f"{answer.detail}; see that {where} holds a key that {host} accepts"
        case "unknown":
            kind = probe.what.partition(" ")[0]
            return f"{answer.detail}; see that the {kind} is spelled as {host} has it"
        case "unreachable":
            return f"{answer.detail}; see that this machine can reach {host}"
    return answer.detail
