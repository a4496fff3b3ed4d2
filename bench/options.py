"""What the command line may choose; a benchmark that takes `options` gets them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Half: TypeAlias = Literal["tune", "held-out"]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one run."""

    half: Half = "held-out"
    """Which half of the scripted callers: things are tuned on the one, and judged by the other."""
    only: tuple[str, ...] = ()
    """The groups of cases to run, all when empty (turns, peers, load, mcp, providers)."""
    pictures: Path | None = None
    """The folder for plots; none are drawn without one."""

    together: int = 0
    """Callers at the same time, at most (turns); 0 = as many as are foreseen."""
    calls: int = 0
    """Calls of each part (doors); 0 = as many as are foreseen."""

    def chosen(self, group: str) -> bool:
        return not self.only or group in self.only
