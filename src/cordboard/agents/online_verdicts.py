"""The meaning of an answer to a probe of `check --online`. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import structlog

from cordboard.agent_api.probe import Probe

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
