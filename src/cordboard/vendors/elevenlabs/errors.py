"""The meaning of refused connections, reported errors and hang-ups of an ElevenLabs agent. Pure.

Close codes and error types are those of the service's AsyncAPI document (`WebSocketCloseCode`,
`ErrorType`): 1000 the conversation is over, 1002 something failed at the service (models, timeouts,
a used-up account), 1008 it does not accept our message, 1011 it broke. 3000 closes a connection
whose branch or signature is no longer valid (issue 626 of its packages), 4300 one that has waited
too long in the queue of an agent at its limit of conversations (reported by pydantic-ai, 2026).
"""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.agent_api.service_protocol import Lost
from cordboard.errors import FailureKind

QUEUE_FULL = "the agent at ElevenLabs is at its limit of conversations"
EARLY_S = 5.0
"""Seconds after the conversation was accepted within which 1008 is about its settings: the service
checks overrides, voice and variables only then."""
_QUEUE_TIMEOUT = 4300
_MOST_WORDS = 300
_PERMIT = "; permit it at ElevenLabs (Security), or run `cordboard elevenlabs sync`"


@dataclass(frozen=True, slots=True)
class Complaint:
    """The service's last error before it hung up."""

    kind: str = ""
    """`error_type`, where it gave one."""
    code: int | None = None
    words: str = ""


def refused(status: int, words: str, subject: str) -> Lost:
    """Classify an HTTP status instead of an answer. `subject`: such as `the agent agent_1`."""
    told = f": {_short(words)}" if words else ""
    if status in (401, 403) and "quota" not in words.lower():
        return Lost("auth", f"ElevenLabs does not accept the key (HTTP {status}){told}", False)
    if status in (401, 402, 403):
        return Lost("quota", f"the account at ElevenLabs is used up (HTTP {status}){told}", False)
    if status == 429:
        return Lost("quota", f"ElevenLabs is too busy for us (HTTP 429){told}", True)
    if status == 404:
        return Lost("refused", f"ElevenLabs does not know {subject} (HTTP 404){told}", False)
    if status >= 500 or status == 408:
        return Lost("connect", f"ElevenLabs is not available (HTTP {status}){told}", True)
    return Lost("refused", f"ElevenLabs refuses {subject} (HTTP {status}){told}", False)


def closed(
    code: int | None, problem: str, complaint: Complaint, accepted_for: float | None
) -> Lost:
    """Classify a connection that ended. `accepted_for`: seconds since its conversation was
    accepted; None: it was not."""
    accepted = accepted_for is not None
    words = _short(complaint.words or problem)
    told = f": {words}" if words else ""
    everything = f"{complaint.kind} {complaint.words} {problem}".lower()
    code = code if code is not None else complaint.code
    if "quota" in everything:
        return Lost("quota", f"the account at ElevenLabs is used up{told}", False)
    if code == _QUEUE_TIMEOUT:
        return Lost("quota", f"{QUEUE_FULL}{told}", False)
    if complaint.kind == "max_duration_exceeded":
        return Lost("dropped", f"the conversation was too long for the agent{told}", True)
    if complaint.kind == "override_error" or "override for field" in everything:
        return Lost("refused", f"the agent does not permit an override{told}{_PERMIT}", False)
    if complaint.kind == "safety_violation":
        return Lost("refused", f"ElevenLabs has ended the conversation{told}", False)
    if code == 1000:
        return Lost("dropped", f"the agent has ended the conversation{told}", False)
    if code == 1008 and (accepted_for is None or accepted_for < EARLY_S):
        kind: FailureKind = "auth" if "authoriz" in everything else "refused"
        return Lost(kind, f"the agent does not accept the conversation{told}", False)
    if code is None:
        kind = "dropped" if accepted else "connect"
        return Lost(kind, f"the connection to ElevenLabs broke{told}", True)
    kind = "dropped" if accepted else "connect"
    return Lost(kind, f"ElevenLabs closed the connection ({code}){told}", True)


def _short(words: str) -> str:
    return " ".join(words.split())[:_MOST_WORDS]
