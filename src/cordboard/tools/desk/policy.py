"""Limits on the use of tools: rounds of a turn, runs of a tool in a turn and in a call.

A round is one batch of tool calls: asks that overlap are one round. The steps of a workflow belong
to the ask that runs it: they count as uses of the call, not as rounds or uses of the turn.

Pure counting without a clock; one object for each call. The count of an ask that did not run its
tool after all (the caller said no, the answer was known) is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cordboard.tools.tool import ToolAsk, ToolSpec

MAX_ROUNDS_PER_TURN = 5
"""An agent that still asks for tools after this number of rounds goes round in circles."""
MAX_NESTING = 4
"""Levels of workflows within workflows; deeper steps are refused."""

_TOO_MANY_ROUNDS = (
    f"Tools were used {MAX_ROUNDS_PER_TURN} times in a row already. Answer the caller "
    "with what you know, or ask them a question."
)


@dataclass(slots=True)
class _Turn:
    """Counts of one turn of the caller."""

    number: int
    rounds: int = 0
    uses: Counter[str] = field(default_factory=Counter)


class DeskPolicy:
    """The counts of one call."""

    def __init__(self, uses: Mapping[str, int] = MappingProxyType({})) -> None:
        """`uses`: runs of each tool so far."""
        self._turn = _Turn(0)
        self._uses: Counter[str] = Counter(uses)

    def refusal(self, ask: ToolAsk, spec: ToolSpec, *, overlaps: bool) -> str:
        """Return why this ask is not run, for the agent; empty if it may run and was counted.

        `overlaps`: another ask of the agent is still being answered.
        """
        limits, name = spec.limits, spec.name
        if 0 < limits.per_call <= self._uses[name]:
            return (
                f"{name} may be used {_times(limits.per_call)} in a conversation, and was. "
                "Answer the caller with what you know."
            )
        if not ask.parent:
            problem = self._turn_refusal(ask, spec, overlaps)
            if problem:
                return problem
        self._uses[name] += 1
        return ""

    def give_back(self, ask: ToolAsk, spec: ToolSpec) -> None:
        """Take back the count of an ask whose tool was not run after all."""
        self._uses[spec.name] -= 1
        if not ask.parent and ask.turn == self._turn.number:
            self._turn.uses[spec.name] -= 1

    def _turn_refusal(self, ask: ToolAsk, spec: ToolSpec, overlaps: bool) -> str:
        if ask.turn != self._turn.number:
            self._turn = _Turn(ask.turn)
        turn = self._turn
        if not overlaps or turn.rounds == 0:
            turn.rounds += 1
        if turn.rounds > MAX_ROUNDS_PER_TURN:
            return _TOO_MANY_ROUNDS
        if turn.uses[spec.name] >= spec.limits.per_turn:
            return (
                f"{spec.name} was already used {_times(spec.limits.per_turn)} in this turn. "
                "Answer the caller with what you know."
            )
        turn.uses[spec.name] += 1
        return ""


def nesting_refusal(name: str, above: tuple[str, ...]) -> str:
    """Return why a tool may not be a step of `above` (outermost first); empty if it may."""
    if name in above:
        return f"{name} is running already and cannot be a step of itself."
    if len(above) > MAX_NESTING:
        return f"{name} is nested too deep: at most {MAX_NESTING} levels of steps are run."
    return ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
