"""Options of the command line, for benchmarks with a parameter `options`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Half: TypeAlias = Literal["tune", "held-out"]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one run."""

    half: Half = "held-out"
    """The half of the scripted callers: one half is for tuning, the other for judging."""
    only: tuple[str, ...] = ()
    """The groups of cases to run, all when empty (turns, peers, load, mcp, providers, admin)."""
    pictures: Path | None = None
    """The folder for plots; none are drawn without one."""

    together: int = 0
    """Most simultaneous callers (turns); 0 = the benchmark's default."""
    calls: int = 0
    """Calls of each part (doors, history, admin); 0 = the benchmark's default."""
    seconds: int = 0
    """Length of each measurement (admin); 0 = the benchmark's default."""

    def chosen(self, group: str) -> bool:
        return not self.only or group in self.only
