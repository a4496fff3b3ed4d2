"""The states of a dialogue: its expectations. Plain data; `dialogue` changes from one to the
next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cordboard.agents.rules.values import Judged, Value


@dataclass(slots=True)
class Task:
    """An intent in progress, with the known values of its slots."""

    intent: str
    lists: Mapping[str, str]
    """Slot → list."""
    values: dict[str, Value] = field(default_factory=dict)
    guesses: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    """Slots with uncertain values."""
    unknown: set[str] = field(default_factory=set)
    """Slots for which the caller named something that is not a value of their list."""
    asked: dict[str, int] = field(default_factory=dict)
    """Number of questions for each slot."""
    confirmed: bool = False

    def put(self, slot: str, judged: Judged) -> None:
        """Record the reading of a slot, replacing earlier ones; another yes is needed."""
        self.confirmed = False
        self.guesses.pop(slot, None)
        self.unknown.discard(slot)
        self.values.pop(slot, None)
        if judged.value is not None:
            self.values[slot] = judged.value
        elif judged.guesses:
            self.guesses[slot] = judged.guesses
        else:
            self.unknown.add(slot)


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing was asked."""


@dataclass(frozen=True, slots=True)
class Asking:
    """`Which aerodrome?`"""

    task: Task
    slot: str


@dataclass(frozen=True, slots=True)
class Choosing:
    """`Did you mean Oslo or Bergen?`"""

    task: Task
    slot: str
    guesses: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ChoosingTask:
    """`Did you mean the weather or the sales desk?`, `Did you mean the weather?`"""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Confirming:
    """`Shall I put you through to sales?` A task that is confirmed already was refused by its tool:
    another value starts it again."""

    task: Task


@dataclass(frozen=True, slots=True)
class Offering:
    """`Would you like another aerodrome?`"""

    intent: str = ""
    """The intent that a `yes` starts anew."""


State = Idle | Asking | Choosing | ChoosingTask | Confirming | Offering
