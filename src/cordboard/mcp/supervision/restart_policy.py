"""Decides when a server that went down is restarted or given up. Pure: no clock, no task.

The pause doubles with each remembered failure, up to `max_backoff_ms`. Random jitter shortens it by
up to a fifth, so that servers which died together do not restart in step. A failure is forgotten
when it is older than `window_ms`; all are when the server was ready for `healthy_ms`. With
`max_restarts` remembered failures, the next one gives the server up.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from cordboard.config.mcp import McpRestart
from cordboard.net.backoff import Backoff


class RestartPolicy:
    """Remembers the failures of one server; begins without any."""

    def __init__(self, config: McpRestart, chance: Callable[[], float] = random.random) -> None:
        """`chance` returns numbers from 0 to 1."""
        self._config = config
        self._backoff = Backoff(
            config.backoff_ms / 1000, config.max_backoff_ms / 1000, chance=chance
        )
        self._failures: deque[float] = deque()

    def pause(self, now: float, ready_for: float) -> float | None:
        """Record the end of a life; return the seconds until the next one, or None to give up.

        `now` is in seconds of any steady clock; `ready_for` is how many seconds the server was
        ready.
        """
        config = self._config
        if not config.enabled:
            return None
        if ready_for >= config.healthy_ms / 1000:
            self._failures.clear()
        while self._failures and now - self._failures[0] > config.window_ms / 1000:
            self._failures.popleft()
        if len(self._failures) >= config.max_restarts:
            return None
        pause = self._backoff.pause(len(self._failures))
        self._failures.append(now)
        return pause
