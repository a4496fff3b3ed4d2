"""A warning that strangers can cause as often as they like, without filling the log."""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

log = structlog.get_logger()

SECONDS = 10.0


class LimitedLog:
    """Logs the first of its warnings at once, and then one line in `seconds` at most.

    That line tells how many there were since the one before, by reason, and the details of the
    last. Use on the event loop.
    """

    def __init__(self, event: str, seconds: float = SECONDS) -> None:
        self._event = event
        self._seconds = seconds
        self._held: Counter[str] = Counter()
        self._details: dict[str, str] = {}
        """Of the last warning that is held back."""
        self._timer: asyncio.TimerHandle | None = None

    def warn(self, reason: str, **details: str) -> None:
        """Log it, or count it for the next line. `reason` is one of a fixed set of words."""
        if self._timer is not None:
            self._held[reason] += 1
            self._details = details
            return
        log.warning(self._event, reason=reason, **details)
        self._wait()

    def close(self) -> None:
        """Log what is held back, and wait for nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._tell():
            self._wait()

    def _tell(self) -> bool:
        if not self._held:
            return False
        details = {f"last_{name}": value for name, value in self._details.items()}
        log.warning(self._event, count=self._held.total(), reasons=dict(self._held), **details)
        self._held.clear()
        return True
