"""The meaning of refused or lost connections to Gemini Live, and of its token counts.

Pure functions over status, close code and reason. Sources: reports on closed sessions (adk-python
3692 and 3918, python-genai 760 and 985, livekit/agents 2274, pipecat 5465): 1007 an argument or the
key, 1008 a model or an operation that is not allowed, 1011 the service's own trouble, its deadline
or the quota, 1006 a connection that broke.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cordboard.agent_api.service_protocol import Lost
from cordboard.net.failures import connection_gone

QUICK = 5.0
"""Seconds after the session was accepted within which 1007 or 1008 is about a message of ours."""
MOST_QUICK = 2
"""This many of those in a row mean that the same will happen again."""
_REFUSED = (1003, 1007, 1008, 1009)
_QUOTA = re.compile(r"quota|billing|resource.?exhausted|credits", re.IGNORECASE)
_KEY = re.compile(r"api.?key|unauthenticated|permission.?denied|credential", re.IGNORECASE)
_LOAD = re.compile(r"unavailable|overloaded|try again", re.IGNORECASE)
_VERSION = re.compile(r"unknown name|api version|cannot find field", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The state of the connection when it was lost."""

    accepted_for: float | None
    """Seconds since the session was accepted; None: it was not."""
    with_handle: bool
    """The connection was meant to continue an earlier session."""
    quick_losses: int
    """Losses in a row soon after the session was accepted, without this one."""
    api_version: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """The loss, and whether the handle must be given up."""

    lost: Lost
    forget_handle: bool = False
    quick: bool = False


def meaning(
    status: int | None, code: int | None, problem: str, circumstances: Circumstances
) -> Meaning:
    """Return the meaning of the loss."""
    asked = ""
    if status == 404 or _VERSION.search(problem):
        asked = f" (asked with `api_version: {circumstances.api_version}`)"
    if status is not None:
        return Meaning(_of_status(status, problem, asked))
    reason = connection_gone("Gemini", code, problem) + asked
    if _KEY.search(problem) and code in _REFUSED:
        return Meaning(Lost("auth", reason, again=False))
    if _QUOTA.search(problem):
        return Meaning(Lost("quota", reason, again=False))
    if circumstances.accepted_for is None:
        busy = code == 1011 and _LOAD.search(problem) is not None
        return _not_accepted(code, reason, circumstances.with_handle, busy)
    quick = code in _REFUSED and circumstances.accepted_for < QUICK
    if quick and circumstances.quick_losses + 1 >= MOST_QUICK:
        if circumstances.with_handle:
            return Meaning(Lost("dropped", reason, again=True), forget_handle=True, quick=True)
        return Meaning(Lost("refused", reason, again=False), quick=True)
    return Meaning(Lost("dropped", reason, again=True), quick=quick)


def _of_status(status: int, words: str, asked: str) -> Lost:
    if status in (401, 403) or _KEY.search(words):
        return Lost("auth", f"Gemini does not accept the API key (HTTP {status})", again=False)
    told = f"Gemini refused the connection (HTTP {status}){f': {words}' if words else ''}{asked}"
    if status == 429:
        return Lost("quota", told, again=not _QUOTA.search(words))
    if status >= 500 or status == 408:
        return Lost("connect", told, again=True)
    return Lost("refused", told, again=False)


def _not_accepted(code: int | None, reason: str, with_handle: bool, busy: bool) -> Meaning:
    """Return the meaning of a close instead of an accepted session."""
    if code in _REFUSED or (code == 1011 and with_handle):
        if with_handle:
            return Meaning(Lost("dropped", reason, again=True), forget_handle=True)
        return Meaning(Lost("refused", reason, again=False))
    return Meaning(Lost("quota" if busy else "connect", reason, again=True))


def seconds_left(value: object) -> float:
    """Return the seconds of a goAway (`"10s"`, `"9.5s"`); 0 when it does not say."""
    match = (
        re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,9})?)s\s*", value) if isinstance(value, str) else None
    )
    return float(match.group(1)) if match else 0.0


def amounts_of(usage: Mapping[str, object]) -> dict[str, float]:
    """Return `usageMetadata` in the engine's units. Cached tokens are subtracted from the input;
    tokens without a kind count as text, thoughts as output text."""
    text_in, sound_in = _by_kind(usage, "promptTokensDetails", "promptTokenCount")
    more_text, more_sound = _by_kind(usage, "toolUsePromptTokensDetails", "toolUsePromptTokenCount")
    text_kept, sound_kept = _by_kind(usage, "cacheTokensDetails", "cachedContentTokenCount")
    text_out, sound_out = _by_kind(usage, "responseTokensDetails", "responseTokenCount")
    amounts = {
        "input_text_tokens": max(0.0, text_in - text_kept) + more_text,
        "input_audio_tokens": max(0.0, sound_in - sound_kept) + more_sound,
        "cached_text_tokens": text_kept,
        "cached_audio_tokens": sound_kept,
        "output_text_tokens": text_out + _count(usage.get("thoughtsTokenCount")),
        "output_audio_tokens": sound_out,
    }
    return {unit: amount for unit, amount in amounts.items() if amount > 0}


def _by_kind(usage: Mapping[str, object], details: str, total: str) -> tuple[float, float]:
    """Return the tokens of text (and all other kinds) and of sound."""
    sound = other = 0.0
    listed = usage.get(details)
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict):
            continue
        if entry.get("modality") == "AUDIO":
            sound += _count(entry.get("tokenCount"))
        else:
            other += _count(entry.get("tokenCount"))
    return max(other, _count(usage.get(total)) - sound), sound


def _count(value: object) -> float:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        value = int(value)  # 64-bit numbers are strings in Google's JSON
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if 0 <= value < 1e15 else 0.0
