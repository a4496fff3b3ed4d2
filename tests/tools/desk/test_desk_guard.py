"""The firewall's seat at the desk: after the arguments, before limits, yes, cache and run."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from cordboard.firewall.policy import ALLOWED, Decision, Need, refused
from cordboard.tools.call_line import NoCaller
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Limits,
    Status,
    ToolAsk,
    ToolResult,
    ToolRun,
    ToolSpec,
)

SCHEMA = {
    "type": "object", "properties": {"place": {"type": "string"}}, "additionalProperties": False
}  # fmt: skip


class Tool:
    def __init__(self, effects: Effects = Effects.READ_ONLY, limits: Limits = Limits()) -> None:  # noqa: B008
        self.spec = ToolSpec("book", "python", "", SCHEMA, effects=effects, limits=limits)
        self.ran = 0

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        self.ran += 1
        return ToolResult(message="Booked.", data={"number": self.ran})


class Guard:
    def __init__(self, decision: Decision = ALLOWED, proven: bool = True) -> None:
        self.decision = decision
        self.proven = proven
        self.log: list[str] = []

    def check(self, ask: ToolAsk, spec: ToolSpec) -> Decision:
        self.log.append(f"check {ask.arguments}")
        return self.decision

    async def verify(self, ask: ToolAsk, proof: Literal["pin", "operator"]) -> ToolResult | None:
        self.log.append(f"verify {proof}")
        return None if self.proven else ToolResult(Status.REFUSED, "Not verified.")

    def cleared(self, ask: ToolAsk) -> None:
        self.log.append("cleared")

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, result: ToolResult) -> None:
        self.log.append(f"answered {result.status}")


class Line(NoCaller):
    yes = True

    async def confirm(self, question: str) -> bool | None:
        return self.yes


def desk(tool: Tool, guard: Guard) -> Desk:
    catalogue = Catalogue([ToolEntry(tool)])
    return Desk(catalogue.toolbox(["book"]), Line("call", "demo"), guard=guard)


def ask(number: int = 1, **arguments: Any) -> ToolAsk:
    return ToolAsk(f"{number}", "book", arguments, turn=number)


async def test_wrong_arguments_and_unknown_tools_do_not_reach_it() -> None:
    tool, guard = Tool(), Guard()
    at = desk(tool, guard)
    assert (await at.run(ask(place=1))).refused == "arguments"
    assert (await at.run(ToolAsk("2", "other", {}, 1))).refused == "not_in_toolbox"
    assert guard.log == ["answered refused", "answered refused"]


async def test_a_refused_tool_does_not_run_counts_no_use_and_gives_no_kept_answer() -> None:
    tool, guard = Tool(limits=Limits(per_call=2, cache_ttl_ms=60_000)), Guard()
    at = desk(tool, guard)
    assert (await at.run(ask(1, place="a"))).ok
    guard.decision = refused("hours", "outside", "Not now.")
    for number in range(2, 6):
        reply = await at.run(ask(number, place="a"))
        assert (reply.status, reply.refused, reply.message) == (
            Status.REFUSED, "firewall", "Not now."
        )  # fmt: skip
    guard.decision = ALLOWED
    assert (await at.run(ask(7, place="b"))).ok, "refusals used nothing up"
    assert tool.ran == 2


@pytest.mark.parametrize(
    ("needs", "proven", "yes", "reason", "log"),
    [
        (("pin",), True, None, "", ["verify pin", "cleared"]),
        (("pin",), False, None, "firewall", ["verify pin"]),
        (("pin", "confirm"), True, True, "", ["verify pin", "cleared"]),
        (("pin", "confirm"), True, False, "approval", ["verify pin"]),
        (("confirm",), True, None, "approval", []),
        (("operator",), False, True, "firewall", ["verify operator"]),
    ],
)
async def test_proof_comes_first_then_the_yes(
    needs: tuple[Need, ...], proven: bool, yes: bool | None, reason: str, log: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Line, "yes", yes)
    tool, guard = Tool(), Guard(Decision(True, needs=needs), proven)
    reply = await desk(tool, guard).run(ask(place="a"))
    assert reply.refused == reason
    assert tool.ran == (0 if reason else 1)
    assert guard.log == ["check {'place': 'a'}", *log, f"answered {reply.status}"]


async def test_the_yes_of_the_agents_own_code_is_a_yes() -> None:
    tool, guard = Tool(), Guard(Decision(True, needs=("confirm",)))
    assert (await desk(tool, guard).run(ToolAsk("1", "book", {}, 1, confirmed=True))).ok
    assert "cleared" in guard.log
