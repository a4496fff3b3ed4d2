"""Which job after a call is done next. Pure: no clock, no files.

Each tool has a line of its own: a receiver that is down, and takes its time to say so, holds up
nobody else's jobs. Every step costs as much with ten thousand jobs as with ten.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

UNKNOWN = ""
"""The tool of a job whose file has not been read."""


class JobSchedule:
    """The jobs that are not done, by name; times are seconds since 1970."""

    def __init__(self, at_once: int, per_tool: int) -> None:
        """At most so many jobs run at the same time, and so many of them for one tool."""
        self._at_once = at_once
        self._per_tool = per_tool
        self._jobs: dict[str, tuple[str, float]] = {}
        """Name → tool, and when it is due."""
        self._lines: dict[str, list[tuple[float, str]]] = {}
        """By tool; entries that no longer agree with `_jobs` mean nothing."""
        self._running: dict[str, str] = {}
        self._busy: Counter[str] = Counter()

    def __len__(self) -> int:
        """The jobs that are not done, those at work included."""
        return len(self._jobs.keys() | self._running.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._jobs or name in self._running

    def __iter__(self) -> Iterator[str]:
        yield from self._jobs

    @property
    def running(self) -> int:
        return len(self._running)

    def is_running(self, name: str) -> bool:
        return name in self._running

    def put(self, name: str, tool: str, at: float) -> None:
        """Have a job done at that time, by that tool; instead of what was said of it before."""
        self._jobs[name] = tool, at
        if name not in self._running:
            heapq.heappush(self._lines.setdefault(tool, []), (at, name))

    def forget(self, name: str) -> None:
        """A job is done, or gone."""
        self._jobs.pop(name, None)

    def take(self, now: float) -> list[str]:
        """The jobs to begin now; they are at work until `stopped`."""
        taken: list[str] = []
        for tool in list(self._lines):
            while self._is_free(tool) and (entry := self._first(tool)) and entry[0] <= now:
                heapq.heappop(self._lines[tool])
                self._running[entry[1]] = tool
                self._busy[tool] += 1
                taken.append(entry[1])
        return taken

    def stopped(self, name: str) -> None:
        """A job is no longer at work."""
        tool = self._running.pop(name, None)
        if tool is None:
            return
        self._busy[tool] -= 1
        if name in self._jobs:
            tool, at = self._jobs[name]
            heapq.heappush(self._lines.setdefault(tool, []), (at, name))

    def next_at(self) -> float | None:
        """When there is something to begin next; None when that depends on those at work."""
        firsts = (self._first(tool) for tool in list(self._lines) if self._is_free(tool))
        return min((entry[0] for entry in firsts if entry is not None), default=None)

    def _is_free(self, tool: str) -> bool:
        limit = self._at_once if tool == UNKNOWN else self._per_tool
        return len(self._running) < self._at_once and self._busy[tool] < limit

    def _first(self, tool: str) -> tuple[float, str] | None:
        """The first entry of a line that means something."""
        line = self._lines.get(tool, [])
        while line:
            at, name = line[0]
            if self._jobs.get(name) == (tool, at) and name not in self._running:
                return line[0]
            heapq.heappop(line)
        self._lines.pop(tool, None)
        return None
