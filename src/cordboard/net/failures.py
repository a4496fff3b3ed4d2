"""One table from HTTP statuses and transport errors to the kind of a failure. Pure.

The words of a refusal come from the service and are untrusted: they are cut to one short line, and
keys in them are removed.
"""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

from cordboard.errors import AgentError, FailureKind
from cordboard.net.proxy import ProxyFailed

WORTH_READING = 4_096
"""Bytes of an error's body that are read."""
_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""
_USED_UP = (b"insufficient_quota", b"billing", b"exceeded your current quota")
"""Words of a 429 that a retry does not help with."""
_BAD_KEY = b"API_KEY_INVALID"
"""Reason in the status 400 with which some services refuse a key."""
_MOST_WORDS = 300
_MOST_CAUSES = 10
_KEYS = re.compile(r"\b(?:sk|xi|key|Bearer|Token)[-_ ][\w*.-]{6,}")

HTTP_ERRORS = (
    httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, httpx2.CookieConflict
)  # fmt: skip
"""Everything that httpx2 raises for a request. Making the client may raise `OSError` besides."""


class RequestFailed(AgentError):
    """A request to a service failed."""

    def __init__(
        self, message: str, kind: FailureKind, *, again: bool, after: float | None = None
    ) -> None:
        super().__init__(message, kind)
        self.again = again
        """True if the same request may succeed when it is sent again."""
        self.after = after
        """Seconds that the service asks to wait before a retry; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Meaning of a transport error."""

    kind: FailureKind
    words: str
    """Words that follow the name of the service: `cannot be reached (connection refused)`."""


def kind_of_status(status: int) -> FailureKind:
    """Return the kind of failure of an HTTP status other than success."""
    if status in (401, 403):
        return "auth"
    if status in (402, 429, 529):
        return "quota"
    if status >= 500 or status == 408:
        return "connect"
    return "refused"


def kind_of_error(error: Exception) -> Failure:
    """Return the meaning of one of `HTTP_ERRORS` or an `OSError`."""
    name = type(error).__name__
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return Failure("connect", f"cannot be reached ({why_not_connected(error)})")
    if isinstance(error, httpx2.PoolTimeout):
        return Failure("connect", "cannot be reached (too many requests are under way)")
    if isinstance(error, httpx2.ProxyError):
        return Failure("connect", f"cannot be reached (the proxy refused: {str(error)[:100]})")
    if isinstance(error, OSError):
        return Failure("connect", f"cannot be reached ({error})")
    if isinstance(error, httpx2.TimeoutException):
        return Failure("stalled", f"has fallen silent ({name})")
    if isinstance(error, (httpx2.TransportError, httpx2.StreamError)):
        return Failure("dropped", f"broke off ({name})")
    return Failure("garbage", f"sent an unreadable answer ({name})")


def failed(service: str, error: Exception) -> RequestFailed:
    """Return the failure of a request, from one of `HTTP_ERRORS` or an `OSError`."""
    failure = kind_of_error(error)
    again = failure.kind in ("connect", "dropped")
    return RequestFailed(f"{service} {failure.words}", failure.kind, again=again)


def refused(
    service: str, status: int, body: bytes, retry_after: str | None = None, key: str = ""
) -> RequestFailed:
    """Return the failure for an answer without success. `service`: its name in messages."""
    words = words_of_error(body, key)
    kind = kind_of_status(status)
    if status == 400 and _BAD_KEY in body:
        kind = "auth"
    elif status == 401 and "quota" in words.lower():
        kind = "quota"  # some services use this status for a used-up account
    does = f"answers HTTP {status}"
    if kind == "auth":
        does = f"does not accept the key (HTTP {status})"
        if "permission" not in words.lower():
            words = ""  # some repeat the key in part
    again = status in _AGAIN and not any(word in body for word in _USED_UP)
    message = f"{service} {does}{f': {words}' if words else ''}"
    return RequestFailed(message, kind, again=again, after=_seconds(retry_after))


def words_of_error(body: bytes, key: str = "") -> str:
    """Return the message in an error's body, in one short line; empty when there is none.

    The forms in use: `{"error": {"message"}}`, `{"detail": {"message"}}`, `{"err_msg"}`,
    `{"message"}`. A quoted key is removed.
    """
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "detail", "err_msg", "message"):
        if isinstance(told, dict) and name in told:
            told = told[name]
            if isinstance(told, dict):
                told = told.get("message", "")
            break
    if not isinstance(told, str):
        return ""
    words = " ".join(told.split())
    return _KEYS.sub("***", words.replace(key, "***") if key else words)[:_MOST_WORDS]


def why_not_connected(error: BaseException) -> str:
    """Return the reason for a failed connection, from the chain of its causes: words that follow
    "it cannot be reached:", without secrets."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        if isinstance(cause, ProxyFailed):
            return str(cause)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({cause.verify_message[:100]})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as we do"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, OSError) and cause.errno and cause.strerror:
            return cause.strerror[:100]
        cause = cause.__cause__ or cause.__context__
    if str(error).startswith("its name"):  # the guard's own words
        return str(error)
    if type(error) is OSError and error.args:  # asyncio's, of several addresses
        return str(error)[:200]
    late = (httpcore2.ConnectTimeout, httpx2.ConnectTimeout)
    return "it does not answer" if isinstance(error, late) else "no connection"


def connection_gone(service: str, code: int | None, words: str) -> str:
    """Return the sentence for a connection that the service closed with this code, or that broke
    (None). `words`: the reason; may be empty."""
    told = f"the connection to {service} is gone"
    return told + (f" ({code})" if code is not None else "") + (f": {words}" if words else "")


def _seconds(retry_after: str | None) -> float | None:
    """Return the value of a `Retry-After` header in seconds; a date is not supported."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None
