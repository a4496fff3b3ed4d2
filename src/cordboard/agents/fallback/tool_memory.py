"""What the agents of one call have asked of tools, for the agent that takes over from another.

An answer that reached an agent which was lost before it could tell the caller must not be lost with
it, nor must a tool that changes the world be run twice. So the next agent reads in its instructions
what has been run for the caller's last request; and when it asks for the very same thing again, it
is given the answer that there is, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cordboard.tools.payload import DATA_NOTE, as_payload
from cordboard.tools.result_cache import canonical_arguments
from cordboard.tools.tool import Effects, ToolAsk, ToolReply, ToolSpec

_MOST_ANSWERS = 20
_LONGEST_NOTE = 8_000
"""Characters of one answer in the instructions."""


@dataclass(frozen=True, slots=True)
class _Answered:
    ask: ToolAsk
    reply: ToolReply


class ToolMemory:
    """The asks of one call, by the ids that the call knows them by."""

    def __init__(self, toolbox: Iterable[ToolSpec]) -> None:
        self._effects: Mapping[str, Effects] = {spec.name: spec.effects for spec in toolbox}
        self._open: dict[str, ToolAsk] = {}
        self._untold: list[_Answered] = []
        """Answers that an agent was given and has not told the caller, as far as is known."""
        self._kept: list[_Answered] = []
        """Those of them that an agent which was lost was given."""
        self._at_work: list[ToolAsk] = []
        """Given up with a lost agent, and going on, because they change the world."""

    def asked(self, ask: ToolAsk) -> None:
        """An agent has asked."""
        self._open[ask.ask_id] = ask

    def answered(self, reply: ToolReply) -> bool:
        """There is the answer. Whether somebody waits for it."""
        ask = self._open.pop(reply.ask_id, None)
        if ask is None:
            return False
        self._untold.append(_Answered(ask, reply))
        del self._untold[:-_MOST_ANSWERS]
        return True

    def cancelled(self, ask_id: str) -> None:
        """It does not want it any more."""
        self._open.pop(ask_id, None)

    def told(self) -> None:
        """The caller's turn is answered whole."""
        self._untold.clear()
        self._kept.clear()
        self._at_work.clear()

    def agent_lost(self, *, asking: bool) -> tuple[str, ...]:
        """The agent is gone: returns the ids of its asks that wait, to be given up. `asking`: the
        caller is being asked whether a tool may begin; that one will not."""
        waiting, self._open = tuple(self._open.values()), {}
        if not asking:
            self._at_work += [
                ask
                for ask in waiting
                if self._effects.get(ask.name, Effects.READ_ONLY) is not Effects.READ_ONLY
            ]
        self._kept, self._untold = [*self._kept, *self._untold], []
        return tuple(ask.ask_id for ask in waiting)

    def answer_again(self, ask: ToolAsk) -> ToolReply | None:
        """The answer that a lost agent got to the very same ask, once; None when there is none."""
        arguments = canonical_arguments(ask.arguments)
        for answered in self._kept:
            same = answered.ask.name == ask.name and answered.reply.ok
            if same and canonical_arguments(answered.ask.arguments) == arguments:
                self._kept.remove(answered)
                self._untold.append(answered)
                return replace(answered.reply, ask_id=ask.ask_id)
        return None

    def note(self) -> str:
        """What the next agent has to know of it; empty when there is nothing."""
        lines: list[str] = []
        if self._kept:
            lines.append(
                "For the caller's last request these tools have been run already, and the caller "
                f"has not been told. Use their answers; do not run them again. {DATA_NOTE}"
            )
            lines += [
                f"- {_named(answered.ask)} answered {_json(as_payload(answered.reply))}"
                for answered in self._kept
            ]
        if self._at_work:
            lines.append(
                "These tools are still at work. The caller will be told what comes of it; do not "
                "run them again."
            )
            lines += [f"- {_named(ask)}" for ask in self._at_work]
        return "\n".join(lines)


def _named(ask: ToolAsk) -> str:
    return f"{ask.name} {_json(ask.arguments)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:_LONGEST_NOTE]
