"""The tool calls of a call's agents, for the agent that takes over from another.

An answer that reached an agent which was lost before it could pass it to the caller must not be
lost with it, and a tool that changes the world must not run twice. So the instructions of the next
agent list the tools that ran for the caller's last request; when it makes exactly the same tool
call again, it gets the existing answer, once.
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
    """The tool calls of one call, by their ids in the call."""

    def __init__(self, toolbox: Iterable[ToolSpec]) -> None:
        self._effects: Mapping[str, Effects] = {spec.name: spec.effects for spec in toolbox}
        self._open: dict[str, ToolAsk] = {}
        self._untold: list[_Answered] = []
        """Answers that an agent received and has not passed on to the caller, as far as is
        known."""
        self._kept: list[_Answered] = []
        """Those of them that a lost agent had received."""
        self._at_work: list[ToolAsk] = []
        """Tool calls that were given up with a lost agent but continue, because they change the
        world."""

    def asked(self, ask: ToolAsk) -> None:
        """Record a tool call of an agent."""
        self._open[ask.ask_id] = ask

    def answered(self, reply: ToolReply) -> bool:
        """Record the answer. True if an agent waits for it."""
        ask = self._open.pop(reply.ask_id, None)
        if ask is None:
            return False
        self._untold.append(_Answered(ask, reply))
        del self._untold[:-_MOST_ANSWERS]
        return True

    def cancelled(self, ask_id: str) -> None:
        """Record that the agent cancelled the tool call."""
        self._open.pop(ask_id, None)

    def told(self) -> None:
        """Record that the caller's turn is answered completely."""
        self._untold.clear()
        self._kept.clear()
        self._at_work.clear()

    def agent_lost(self, *, asking: bool) -> tuple[str, ...]:
        """Record that the agent is gone; return the ids of its waiting tool calls, to be given up.
        `asking`: the caller is being asked whether a tool may begin; that one will not."""
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
        """Return the answer that a lost agent got to exactly the same tool call, once; None when
        there is none."""
        arguments = canonical_arguments(ask.arguments)
        for answered in self._kept:
            same = answered.ask.name == ask.name and answered.reply.ok
            if same and canonical_arguments(answered.ask.arguments) == arguments:
                self._kept.remove(answered)
                self._untold.append(answered)
                return replace(answered.reply, ask_id=ask.ask_id)
        return None

    def note(self) -> str:
        """Return the instructions about it for the next agent; empty when there are none."""
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
