"""Check of requests for the operator's token (`admin.token`), with refusals and their log.

`BearerGate` is pure: headers in, refusal out. The answers are those of RFC 6750: 401 with a
challenge for a missing or wrong token. Without a configured token no request can have it, so the
answer is 403 with advice. All endpoints that need the token share one `TokenCheck`: a client
without it must not fill the log either.
"""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from cordboard.api.answers import JsonAnswer

TELL_SECONDS = 1.0
"""Seconds between two lines of the log about refused requests."""
CHALLENGE = 'Bearer realm="cordboard"'
NONE_CONFIGURED = (
    "this needs the admin token, and none is configured; set `admin.token` in the configuration, "
    'for example to "${CORDBOARD_TOKEN}"'
)
MISSING = "this needs the admin token: send the header Authorization: Bearer TOKEN"
WRONG = "this is not the admin token"


log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a request is not served."""

    status: int
    error: str
    headers: Mapping[str, str] = field(default_factory=dict)


class BearerGate:
    """Compares requests with the configured token."""

    def __init__(self, token: Callable[[], SecretStr | None]) -> None:
        """`token` returns the one in force, at each request: a reload may change it. An empty token
        counts as none: it must not open anything."""
        self._token = token

    def refusal(self, authorization: Sequence[str]) -> Refusal | None:
        """Return None when the request may pass; `authorization`: the values of all such headers,
        in latin-1 as HTTP servers decode them."""
        secret = self._token()
        token = secret.get_secret_value().encode() if secret is not None else b""
        if not token:
            return Refusal(403, NONE_CONFIGURED)
        if not authorization:
            return Refusal(401, MISSING, {"WWW-Authenticate": CHALLENGE})
        scheme, _, given = authorization[0].partition(" ")
        right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token)
        if len(authorization) == 1 and scheme.lower() == "bearer" and right:
            return None
        return Refusal(401, WRONG, {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'})


class TokenCheck:
    """Applies the gate, and logs its refusals."""

    def __init__(self, gate: BearerGate) -> None:
        self._gate = gate
        self._refused = 0
        """Requests refused since the last line of the log about them."""
        self._told_at = -math.inf

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a refused request; None when it may pass."""
        refusal = self._gate.refusal(request.headers.getlist("authorization"))
        if refusal is None:
            return None
        self._tell(request.scope["path"], refusal.status)
        return JsonAnswer(
            {"error": refusal.error}, status_code=refusal.status, headers=dict(refusal.headers)
        )

    def _tell(self, path: str, status: int) -> None:
        """Log the refusal, unless one was just logged."""
        self._refused += 1
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            log.warning("admin_request_refused", path=path, status=status, count=self._refused)
            self._refused, self._told_at = 0, now
