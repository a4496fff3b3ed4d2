"""`Idempotency-Key`: a request that is sent again gets the first one's answer, and does nothing.

A client whose connection broke does not know whether the call was transferred. It sends the same
key again. Keys count for one caller and one path, for ten minutes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from starlette.responses import Response

from cordboard.errors import RequestRefused

SECONDS = 600.0
"""Time for which an answer is kept."""
MOST = 1_000
"""Answers kept; the oldest is dropped for a new one."""
MOST_KEY = 200
"""Characters of a key."""
REPEATED = {"Idempotent-Replayed": "true"}
"""Header of an answer that was given before."""

Place: TypeAlias = tuple[str, str, str]
"""Caller, path and key."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One request with a key."""

    first: bool
    """It is the one that acts."""
    id: str
    """A UUID of this caller, path, key and body: the same again after a restart."""
    _result: asyncio.Future[tuple[int, bytes] | None]
    _forget: Callable[[], None]

    def settle(self, answer: Response | None) -> None:
        """Keep the answer of the first request. An error of ours and a busy engine are not kept:
        then nothing was done, and the client may try again. None: it was cancelled."""
        if not self.first or self._result.done():
            return
        if answer is None or answer.status_code >= 500:
            self._forget()
        result = None if answer is None else (answer.status_code, bytes(answer.body))
        self._result.set_result(result)

    async def answer(self) -> Response:
        """Return the first request's answer, once it is there. Raises `RequestRefused` 503."""
        result = await asyncio.shield(self._result)
        if result is None:
            raise RequestRefused(503, "busy", "the first request was given up; try again")
        status, content = result
        return Response(content, status, headers=REPEATED, media_type="application/json")


@dataclass(slots=True)
class FirstAnswers:
    """The answers of one port. Not for several threads."""

    clock: Callable[[], float] = time.monotonic
    _kept: dict[Place, tuple[float, bytes, asyncio.Future[tuple[int, bytes] | None]]] = field(
        default_factory=dict
    )
    """End, digest of the body, and answer; the oldest first."""

    def attempt(self, place: Place, content: str) -> Attempt:
        """Begin a request. Raises `RequestRefused` 422 for a key of another body, or a bad key."""
        key = place[2]
        if not 0 < len(key) <= MOST_KEY:
            message = f"Idempotency-Key: expected 1 to {MOST_KEY} characters"
            raise RequestRefused(422, "invalid", message)
        now, digest = self.clock(), sha256(content.encode()).digest()
        named = "\0".join((*place, digest.hex()))
        request = str(uuid.UUID(bytes=sha256(named.encode()).digest()[:16], version=4))
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            del self._kept[next(iter(self._kept))]
        known = self._kept.get(place)
        if known is not None:
            if known[1] != digest:
                message = "Idempotency-Key: it was sent with another body before"
                raise RequestRefused(422, "invalid", message)
            return Attempt(False, request, known[2], lambda: None)
        result: asyncio.Future[tuple[int, bytes] | None]
        result = asyncio.get_running_loop().create_future()
        self._kept[place] = (now + SECONDS, digest, result)
        if len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]
        return Attempt(True, request, result, lambda: self._drop(place, result))

    def _drop(self, place: Place, result: asyncio.Future[tuple[int, bytes] | None]) -> None:
        known = self._kept.get(place)
        if known is not None and known[2] is result:
            del self._kept[place]
