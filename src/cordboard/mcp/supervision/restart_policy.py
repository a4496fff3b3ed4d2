"""When a server that went down is started again, and when it is given up. Pure: no clock, no task.

The pause doubles with each failure that is not yet forgiven, up to `max_backoff_ms`. Up to a fifth
is taken off it by chance, so that servers which died together do not come back in step. A failure
is forgiven when it is older than `window_ms`, and all are when the server was ready for
`healthy_ms`. More than `max_restarts` of them, and the server is given up.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from cordboard.config.mcp import McpRestart
from cordboard.net.backoff import Backoff


class RestartPolicy:
    """The memory of one server's failures. A new one knows of none."""

    def __init__(self, config: McpRestart, chance: Callable[[], float] = random.random) -> None:
        """`chance` gives numbers from 0 to 1."""
        self._config = config
        self._backoff = Backoff(
            config.backoff_ms / 1000, config.max_backoff_ms / 1000, chance=chance
        )
        self._failures: deque[float] = deque()

    def pause(self, now: float, ready_for: float) -> float | None:
        """Note that a life ended; returns the seconds until the next one, None to give up.

        `now` is on any steady clock; `ready_for` is for how many seconds the server was ready.
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
