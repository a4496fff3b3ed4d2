"""What became of a reload: what is in force now, what is not yet, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.errors import ConfigProblem

UNTIL_RESTART = "the engine is restarted"
UNTIL_IDLE = "no call is active"
UNTIL_CALLS_END = "the calls that use it have ended"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A change that is not in force yet."""

    what: str
    """The dotted key."""
    until: str


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The answer to a reload."""

    applied: bool
    """False: nothing has changed; `problems` says why."""
    generation: int
    """The number of the generation that new calls get."""
    changed: tuple[str, ...] = ()
    """The keys whose values are other ones than before."""
    deferred: tuple[Deferred, ...] = ()
    """All that the file says and is not in force yet, also by earlier reloads."""
    problems: tuple[ConfigProblem, ...] = ()
    """What is wrong in the file. What is not fatal does not keep it from being applied."""
