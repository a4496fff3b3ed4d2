"""Whether a request may pass by the admin token, its refusal if not, and a word in the log.

One for all endpoints that need the token: who has none must not fill the log either.
"""

from __future__ import annotations

import math
import time

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cordboard.api.answers import JsonAnswer
from cordboard.api.bearer import BearerGate

TELL_SECONDS = 1.0
"""Between two lines of the log about refused requests."""

log = structlog.get_logger()


class TokenCheck:
    """Asks the gate, and tells of what it refuses."""

    def __init__(self, gate: BearerGate) -> None:
        self._gate = gate
        self._refused = 0
        """Requests since the last line of the log about them."""
        self._told_at = -math.inf

    def refusal(self, request: Request) -> Response | None:
        """The answer to a request that may not pass; None when it may."""
        refusal = self._gate.refusal(request.headers.getlist("authorization"))
        if refusal is None:
            return None
        self._tell(request.scope["path"], refusal.status)
        return JsonAnswer(
            {"error": refusal.error}, status_code=refusal.status, headers=dict(refusal.headers)
        )

    def _tell(self, path: str, status: int) -> None:
        """Log it, unless that was just done."""
        self._refused += 1
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            log.warning("admin_request_refused", path=path, status=status, count=self._refused)
            self._refused, self._told_at = 0, now
