"""The meaning of OpenAI's errors for a call. Pure.

Codes are those of the service's answers in public reports (`model_not_found` in `response.done`:
openai-realtime-console 561; `session_expired`: livekit/agents 2358, with a close 1001 "maximum
duration": reachy_mini_conversation_app 134; `conversation_already_has_active_response`:
livekit/agents 6818; `inference_rate_limit_exceeded`, `credit_balance_exhausted`: livekit-agents
1.8.9), and those of OpenAI's other interfaces; there is no published list. So the code counts
first, then the type, then the words; an unknown error counts as harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cordboard.agent_api.service_protocol import Lost
from cordboard.errors import FailureKind
from cordboard.net.failures import connection_gone
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.realtime.messages import text_of

Meaning: TypeAlias = Literal[
    "auth", "quota", "pace", "refused", "expired", "busy", "server", "harmless"
]
"""In order: the key; money; too many requests or tokens for now; the requested thing does not
exist; the session's hour is over; there is an active response already; the service's own fault, may
work next time; no consequence."""

_CODES: dict[str, Meaning] = {
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "invalid_organization": "auth",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "credit_balance_exhausted": "quota",
    "rate_limit_exceeded": "pace",
    "inference_rate_limit_exceeded": "pace",
    "model_not_found": "refused",
    "invalid_model": "refused",
    "unsupported_model": "refused",
    "beta_api_shape_disabled": "refused",
    "unsupported_country_region_territory": "refused",
    "session_expired": "expired",
    "conversation_already_has_active_response": "busy",
    "server_error": "server",
    "internal_error": "server",
}
_TYPES: dict[str, Meaning] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "insufficient_quota": "quota",
    "rate_limit_error": "pace",
    "rate_limit_exceeded": "pace",
    "tokens": "pace",
    "requests": "pace",
    "server_error": "server",
}
_WORDS: tuple[tuple[str, Meaning], ...] = (
    ("already has an active response", "busy"),
    ("maximum duration", "expired"),
)
_SECRET = re.compile(r"\b(sk|ek|sess)-[^\s\"'.,]+")
_KINDS: dict[Meaning, FailureKind] = {
    "auth": "auth",
    "quota": "quota",
    "pace": "quota",
    "refused": "refused",
}
USUAL_WAIT = 1.0
"""Seconds to wait at a rate limit whose message states no time."""
_TRY_AGAIN = re.compile(r"try again in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]{1,9})(ms|s))?")
"""The time stated in public reports: `644ms`, `18.642s`, `1m26.4s` (BuilderIO/micro-agent 86,
semanser/codel 72, openai/openai-agents-js 1022)."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One error of the service."""

    meaning: Meaning
    code: str
    reason: str
    """Reason for log and ledger: no secrets, at most 200 characters."""
    wait_s: float = USUAL_WAIT
    """Seconds after which a request may work again; only for `pace`."""

    @property
    def kind(self) -> FailureKind:
        """The kind of the call agent's failure."""
        return _KINDS.get(self.meaning, "refused")


def trouble(code: str, kind: str, message: str, key: str = "") -> Trouble:
    """Return the meaning of an `error` object; any of the texts may be empty."""
    by_words = next((means for words, means in _WORDS if words in message), None)
    meaning = _CODES.get(code) or _TYPES.get(kind) or by_words or "harmless"
    if meaning == "auth":
        return Trouble(meaning, code, "OpenAI does not accept the API key")
    reason = f"OpenAI: {_short(message, key) or code or kind or 'an error'}"
    return Trouble(meaning, code, reason, _stated_wait(message))


def _stated_wait(message: str) -> float:
    found = _TRY_AGAIN.search(message)
    if found is None or not any(found.groups()):
        return USUAL_WAIT
    hours, minutes, amount, unit = found.groups()
    try:
        seconds = float(amount or 0) / (1000 if unit == "ms" else 1)
    except ValueError:
        return USUAL_WAIT
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


def trouble_of(error: JsonObject, key: str) -> Trouble:
    """Return the meaning of an `error` object as it arrived."""
    code, kind = text_of(error, "code"), text_of(error, "type")
    return trouble(code, kind, text_of(error, "message"), key)


def lost(status: int | None, code: int | None, problem: str, key: str) -> Lost:
    """Implements `ServiceProtocol.lost`."""
    words = _short(problem, key)
    if status is not None:
        return _refused(status, words)
    for name, meaning in _CODES.items():
        if name in problem and meaning in _KINDS:
            told = trouble(name, "", problem, key)
            return Lost(told.kind, told.reason, again=meaning == "pace")
    kind: FailureKind = "refused" if code == 1008 else "dropped"
    return Lost(kind, connection_gone("OpenAI", code, words), again=True)


def _refused(status: int, words: str) -> Lost:
    if status in (401, 403):
        return Lost("auth", f"OpenAI does not accept the API key (HTTP {status})", again=False)
    told = f"(HTTP {status}){f': {words}' if words else ''}"
    if status == 429:
        return Lost("quota", f"too many requests to OpenAI, or no credit {told}", again=True)
    if status >= 500 or status in (408, 425):
        return Lost("connect", f"OpenAI has trouble {told}", again=True)
    return Lost("refused", f"OpenAI refused the connection {told}", again=False)


def _short(text: str, key: str) -> str:
    if key:
        text = text.replace(key, "…")
    return _SECRET.sub("…", text).strip()[:200]
