"""A warning that strangers can trigger at will, without filling the log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

log = structlog.get_logger()

SECONDS = 10.0


@dataclass(slots=True)
class _Held:
    """The warnings of one reason that are held back."""

    timer: asyncio.TimerHandle
    count: int = 0
    details: dict[str, str] = field(default_factory=dict)
    """Details of the last one."""


class LimitedLog:
    """Logs the first warning of each reason at once, and then at most one line in `seconds`.

    That line has the count since the previous line, and the details of the last warning. A frequent
    reason hides no other one. Use on the event loop.
    """

    def __init__(self, event: str, seconds: float = SECONDS) -> None:
        self._event = event
        self._seconds = seconds
        self._held: dict[str, _Held] = {}

    def warn(self, reason: str, **details: str) -> None:
        """Log it, or count it for the next line. `reason` is one of a fixed set of words."""
        held = self._held.get(reason)
        if held is None:
            log.warning(self._event, reason=reason, **details)
            self._held[reason] = _Held(self._wait(reason))
        else:
            held.count += 1
            held.details = details

    def close(self) -> None:
        """Log the warnings held back, and cancel the timers."""
        for reason, held in self._held.items():
            held.timer.cancel()
            self._tell(reason, held)
        self._held.clear()

    def _wait(self, reason: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._due, reason)

    def _due(self, reason: str) -> None:
        held = self._held.pop(reason)
        if self._tell(reason, held):
            self._held[reason] = _Held(self._wait(reason))

    def _tell(self, reason: str, held: _Held) -> bool:
        if not held.count:
            return False
        details = {f"last_{name}": value for name, value in held.details.items()}
        log.warning(self._event, reason=reason, count=held.count, **details)
        return True
