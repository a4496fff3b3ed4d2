"""What is looked up before the greeting: whole calls in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls import events
from cordboard.errors import ToolError
from cordboard.tools.speech.template import fill_prompt
from cordboard.tools.tool import Effects, JsonObject, ToolResult, ToolRun, ToolSpec
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine, FakeMedia


class LookUp(FakeTool):
    """Knows a customer after `seconds`."""

    def __init__(
        self, name: str = "find_customer", seconds: float = 0.0, answer: Any = None, **more: Any
    ) -> None:
        super().__init__(name, seconds, **more)
        spec = self._spec
        self._spec = ToolSpec(
            name,
            "python",
            "Finds a customer.",
            {"type": "object", "properties": {"number": {"type": "string"}}},
            origin=spec.origin,
            effects=spec.effects,
            secret_arguments=frozenset({"pin"}),
        )
        self._answer = answer
        self.arguments: list[JsonObject] = []
        self.variables: list[Mapping[str, str]] = []

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        self.arguments.append(arguments)
        self.variables.append(dict(run.line.variables))
        await super().run(arguments, run)
        if isinstance(self._answer, Exception):
            raise self._answer
        return ToolResult(message="Ann Lee, gold.", data=self._answer)


ANN = {"name": "Ann Lee", "orders": [{"item": "a red lamp"}], "points": 1200, "vip": True}
STEP = {
    "tool": "find_customer",
    "arguments": {"number": "{call.caller_number}"},
    "save_as": "customer",
}
GREETING = "Hello {customer.name|there}, about {customer.orders.0.item|your order}."


async def leave(stage: CallStage) -> None:
    await asyncio.sleep(20)
    assert stage.line.media is not None
    stage.line.media.break_off("caller_hangup")


def play(
    tmp_path: Path, *tools: LookUp, make_line: Any = FakeLine, **context: Any
) -> tuple[CallStage, FakeAgent]:
    agents: list[FakeAgent] = []

    def make_agent() -> FakeAgent:
        agents.append(FakeAgent())
        return agents[0]

    settings = {"greeting": GREETING, "pre_call": [STEP], **context}
    stage = play_call(
        tmp_path, make_agent, leave, context=settings, tools=tools, make_line=make_line
    )
    return stage, agents[0]


def greeting_of(agent: FakeAgent) -> str:
    assert agent.session is not None
    return agent.session.greeting


def lines_of(stage: CallStage, kind: str) -> list[Any]:
    return [line for line in stage.lines() if line["type"] == kind]


def test_the_caller_is_greeted_by_what_was_found(tmp_path: Path) -> None:
    tool = LookUp(answer=ANN)
    stage, agent = play(tmp_path, tool, prompt="{customer} Points: {customer.points}.")
    assert greeting_of(agent) == "Hello Ann Lee, about a red lamp."
    assert agent.session is not None
    assert agent.session.prompt == "Ann Lee, gold. Points: 1200."
    assert tool.arguments == [{"number": "4791234567"}]
    heard = [event.text for event in stage.of(events.Answering)]
    assert heard == ["Hello Ann Lee, about a red lamp."]
    (asked,) = lines_of(stage, "tool.asked")
    assert (asked["ask_id"], asked["turn"], asked["name"]) == ("pre.1", 0, "find_customer")
    (done,) = lines_of(stage, "call.pre_call")
    assert done["steps"] == [{"tool": "find_customer", "save_as": "customer", "status": "ok"}]


def test_formats_quoted_keys_and_json_in_texts(tmp_path: Path) -> None:
    """A greeting has the language of spoken answers; a prompt may show JSON."""
    found = {**ANN, "since": 1998, "a.b": "odd", "debt": 5.2}
    _, agent = play(
        tmp_path,
        LookUp(answer=found),
        greeting="{customer.points:number}, {customer.debt:money(EUR)}, {customer.name:date|x}",
        prompt='{customer."a.b"} {customer.since:year} {"points": 1} {customer: text} {a|b|c}',
    )
    assert greeting_of(agent) == "1,200, 5 euros and 20 cents, x"
    assert agent.session is not None
    assert agent.session.prompt == 'odd 1998 {"points": 1} {customer: text} {a|b|c}'


def test_the_steps_tool_is_not_the_agents(tmp_path: Path) -> None:
    _, agent = play(tmp_path, LookUp(answer=ANN))
    assert agent.session is not None
    assert [spec.name for spec in agent.session.toolbox] == ["hangup_call", "transfer"]


def slow_line() -> FakeLine:
    line = FakeLine()
    line.media_delay = 0.8
    return line


def test_it_is_looked_up_while_the_line_is_connected(tmp_path: Path) -> None:
    stage, agent = play(tmp_path, LookUp(seconds=0.9, answer=ANN), make_line=slow_line)
    assert "Ann Lee" in greeting_of(agent)
    (started,) = lines_of(stage, "agent.text")
    assert 900 <= started["at_ms"] < 960


def test_steps_run_side_by_side(tmp_path: Path) -> None:
    tools = [LookUp(name, 1.0, ANN) for name in ("one", "two", "three", "four", "five", "six")]
    steps = [{"tool": tool.spec.name, "save_as": f"r_{tool.spec.name}"} for tool in tools]
    stage, _ = play(tmp_path, *tools, pre_call=steps, greeting="{r_one.name} {r_six.name}")
    (done,) = lines_of(stage, "call.pre_call")
    assert done["took_ms"] == 1_000
    assert [step["status"] for step in done["steps"]] == ["ok"] * 6


@pytest.mark.parametrize(
    ("tool", "context", "status"),
    [
        (LookUp(seconds=60, answer=ANN), {}, "late"),
        (LookUp(seconds=1, answer=ANN), {"pre_call": [STEP | {"timeout_ms": 300}]}, "late"),
        (LookUp(answer=ToolError("The register is closed.")), {}, "error"),
        (LookUp(answer=ANN), {"pre_call": [STEP | {"arguments": {"number": 5}}]}, "refused"),
        (LookUp(name="another", answer=ANN), {}, "error"),
    ],
)
def test_what_fails_or_is_late_leaves_the_default_and_the_call_goes_on(
    tmp_path: Path, tool: LookUp, context: dict[str, Any], status: str
) -> None:
    tool.began = tool.finished = 0
    stage, agent = play(tmp_path, tool, prompt="[{customer}]", **context)
    assert greeting_of(agent) == "Hello there, about your order."
    assert agent.session is not None
    assert agent.session.prompt == "[]"
    (done,) = lines_of(stage, "call.pre_call")
    assert done["steps"][0]["status"] == status
    assert stage.ended.outcome == "completed"
    assert tool.finished == 0 or status != "late"


def test_the_greeting_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    stage, _ = play(tmp_path, LookUp(seconds=60, answer=ANN), pre_call_timeout_ms=1_500)
    (started,) = lines_of(stage, "agent.text")
    assert 1_500 <= started["at_ms"] < 1_560


def test_a_greeting_that_needs_no_result_does_not_wait_for_any(tmp_path: Path) -> None:
    """And it is word for word the one that was rendered beforehand."""
    tool = LookUp(seconds=2, answer=ANN)
    stage, agent = play(tmp_path, tool, greeting="Good morning.")
    assert greeting_of(agent) == "Good morning."
    (started,) = lines_of(stage, "agent.text")
    assert started["at_ms"] < 60
    assert tool.finished == 1
    assert agent.session is not None
    assert agent.session.variables["customer"] == "Ann Lee, gold."


def test_what_was_found_is_data(tmp_path: Path) -> None:
    nasty = {"name": "A\r\n\nIgnore {prompt} ${HOME} {customer.points}\x00" + "x" * 5_000}
    _, agent = play(tmp_path, LookUp(answer=nasty), greeting="[{customer.name}]")
    said = greeting_of(agent)
    assert said.startswith("[A Ignore {prompt} ${HOME} {customer.points} x")
    assert len(said) == 1_002
    assert said.isprintable()


def test_a_caller_who_hangs_up_meanwhile_is_let_go(tmp_path: Path) -> None:
    tool = LookUp(seconds=60, answer=ANN)

    async def at_once(stage: CallStage) -> None:
        await asyncio.sleep(0.5)
        assert isinstance(stage.line.media, FakeMedia)
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path,
        FakeAgent,
        at_once,
        context={"greeting": GREETING, "pre_call": [STEP]},
        tools=[tool],
    )
    assert stage.ended.duration_ms == 500
    assert tool.finished == 0


def test_a_step_that_changes_the_world_may_end_its_work(tmp_path: Path) -> None:
    tool = LookUp(seconds=4, answer=ANN, effects=Effects.DESTRUCTIVE)
    _, agent = play(tmp_path, tool)
    assert greeting_of(agent) == "Hello there, about your order."
    assert tool.finished == 1


def test_defaults_and_paths_in_texts() -> None:
    found = {("customer",): "Ann", ("customer", "a", "0"): "x"}
    saved = {"customer": lambda placeholder: found.get(placeholder.path, "")}
    text = "{customer} {customer.a.0} {customer.b|none} {customer.b} {caller_name|friend} {{x|y}}"
    assert fill_prompt(text, {"caller_name": ""}, saved) == "Ann x none  friend {x|y}"
    assert fill_prompt("{customer.b|none} {customer|}", {}) == "none "
