"""Schedules post-call jobs. Pure: no clock, no files.

Each tool has a queue of its own: a receiver that is down, and slow to fail, does not delay the jobs
of others. Every operation costs the same with ten thousand jobs as with ten.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

UNKNOWN = ""
"""The tool of a job whose file has not been read."""


class JobSchedule:
    """The unfinished jobs by name; times are seconds since 1970."""

    def __init__(self, at_once: int, per_tool: int) -> None:
        """Run at most `at_once` jobs at the same time, and at most `per_tool` of them per tool."""
        self._at_once = at_once
        self._per_tool = per_tool
        self._jobs: dict[str, tuple[str, float]] = {}
        """Name → tool and due time."""
        self._lines: dict[str, list[tuple[float, str]]] = {}
        """Queue by tool; entries that do not agree with `_jobs` are stale."""
        self._running: dict[str, str] = {}
        self._busy: Counter[str] = Counter()

    def __len__(self) -> int:
        """Number of unfinished jobs, including running ones."""
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
        """Schedule a job at that time, for that tool; replaces its earlier entry."""
        self._jobs[name] = tool, at
        if name not in self._running:
            heapq.heappush(self._lines.setdefault(tool, []), (at, name))

    def forget(self, name: str) -> None:
        """Drop a job that is done or gone."""
        self._jobs.pop(name, None)

    def take(self, now: float) -> list[str]:
        """Return the jobs to begin now; they are running until `stopped`."""
        taken: list[str] = []
        for tool in list(self._lines):
            while self._is_free(tool) and (entry := self._first(tool)) and entry[0] <= now:
                heapq.heappop(self._lines[tool])
                self._running[entry[1]] = tool
                self._busy[tool] += 1
                taken.append(entry[1])
        return taken

    def stopped(self, name: str) -> None:
        """Report that a job does not run any more."""
        tool = self._running.pop(name, None)
        if tool is None:
            return
        self._busy[tool] -= 1
        if name in self._jobs:
            tool, at = self._jobs[name]
            heapq.heappush(self._lines.setdefault(tool, []), (at, name))

    def next_at(self) -> float | None:
        """Return the time of the next job to begin; None if that depends on running ones."""
        firsts = (self._first(tool) for tool in list(self._lines) if self._is_free(tool))
        return min((entry[0] for entry in firsts if entry is not None), default=None)

    def _is_free(self, tool: str) -> bool:
        limit = self._at_once if tool == UNKNOWN else self._per_tool
        return len(self._running) < self._at_once and self._busy[tool] < limit

    def _first(self, tool: str) -> tuple[float, str] | None:
        """Return the first entry of a queue that is not stale."""
        line = self._lines.get(tool, [])
        while line:
            at, name = line[0]
            if self._jobs.get(name) == (tool, at) and name not in self._running:
                return line[0]
            heapq.heappop(line)
        self._lines.pop(tool, None)
        return None
