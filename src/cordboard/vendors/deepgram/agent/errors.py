"""Deepgram Voice Agent: the meaning of its errors and its closed connections.

Pure tables. The codes and their remedies are from the service's page "Errors & Warnings" (November
2026); the meaning of HTTP statuses and close codes is from its other services, and not confirmed
for this one.
"""

from __future__ import annotations

from cordboard.agent_api.service_protocol import Lost
from cordboard.net.failures import connection_gone

SESSION_ENDS_SOON = "MAXIMUM_SESSION_LENGTH_APPROACHING"
"""A warning, sent five minutes before the limit of two hours that a session may last."""
_AGAIN = frozenset(
    {
        *("INTERNAL_SERVER_ERROR", "CLIENT_MESSAGE_TIMEOUT", "SERVER_GOING_AWAY"),
        *("FAILED_TO_START_LISTENING", "ASR_CONNECTION_CLOSED", "ASR_DRIVER_TIMEOUT"),
        *("NON_EXISTENT_FUNCTION_CALLED", "MAXIMUM_SESSION_LENGTH_REACHED"),
    }
)
_NEVER = frozenset(
    {
        *("UNPARSABLE_CLIENT_MESSAGE", "NON_SETTINGS_MESSAGE_BEFORE_SETTINGS"),
        *("SETTINGS_ALREADY_APPLIED", "INVALID_SETTINGS", "USER_AUDIO_FORMAT"),
        *("AGENT_ID_NOT_SUPPORTED", "INVALID_AGENT_ID"),
        # After all retries and fallbacks of the service itself.
        *("FAILED_TO_THINK", "FAILED_TO_SPEAK"),
    }
)
_MAX_TEXT = 300
_PROTOCOL_CLOSURES = frozenset({1002, 1003, 1007, 1008, 1009, 1010})
"""We have sent something that the other side does not accept."""


def of_error(code: str, description: str, *, accepted: bool) -> Lost:
    """Classify an `Error` message. `accepted`: the session had been accepted before. An unknown
    error ends the session too; another session may work, unless the Settings are refused."""
    reason = f"Deepgram: {code}{f': {description}' if description else ''}"[:_MAX_TEXT]
    if code in _NEVER or (code not in _AGAIN and not accepted):
        return Lost("refused", reason, again=False)
    return Lost("dropped" if accepted else "connect", reason, again=True)


def of_connection(status: int | None, code: int | None, problem: str, *, accepted: bool) -> Lost:
    """Classify a refused handshake (`status`) or a lost connection (`code`)."""
    words = problem[:_MAX_TEXT]
    if status is not None:
        return _of_status(status, f"(HTTP {status}){f': {words}' if words else ''}")
    reason = connection_gone("Deepgram", code, words)
    if accepted:
        return Lost("dropped", reason, again=True)
    if code in _PROTOCOL_CLOSURES:
        return Lost("refused", reason, again=False)
    return Lost("connect", reason, again=True)


def _of_status(status: int, told: str) -> Lost:
    if status in (401, 403):
        return Lost("auth", f"Deepgram does not accept the key (HTTP {status})", again=False)
    if status in (402, 429):
        again = status == 429
        return Lost("quota", f"Deepgram is too busy, or the account used up {told}", again=again)
    if status >= 500 or status == 408:
        return Lost("connect", f"Deepgram is not available {told}", again=True)
    return Lost("refused", f"Deepgram refused the connection {told}", again=False)
