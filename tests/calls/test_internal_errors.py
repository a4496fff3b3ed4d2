"""Mistakes of ours that are caught at a task's border are counted by where, not only logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cordboard.agent_api.agent import AgentFailed, AgentText, AgentTrouble
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.calls.call_usage import CallUsage
from cordboard.calls.events import Connected, Trouble
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import ToolReply
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call, stage_config
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.virtual_time import virtual_time

from .exchange import Hall
from .exchange import play as play_hall


def counted(metrics: Metrics) -> list[str]:
    prefix = 'ai_agent_internal_errors_total{where="'
    lines = metrics.render().decode().splitlines()
    return [line.removeprefix(prefix).split('"')[0] for line in lines if line.startswith(prefix)]


class Broken(FakeAgent):
    def answer_tool(self, reply: ToolReply) -> None:
        raise ZeroDivisionError("a bug")


async def asks(agent: FakeAgent) -> None:
    await asyncio.sleep(1)
    agent.begin_ask("get_weather", {})


def cannot_start() -> FakeAgent:
    agent = FakeAgent()
    agent.start_error = ZeroDivisionError("a bug")
    return agent


@pytest.mark.parametrize(
    ("make", "where"), [(lambda: Broken(asks), "tool_ask"), (cannot_start, "call")]
)
def test_in_a_call(tmp_path: Path, make: Callable[[], FakeAgent], where: str) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0)

    context = {"tools": ["get_weather"]}
    stage = play_call(tmp_path, make, scenario, context=context, tools=[FakeTool("get_weather")])
    assert stage.ended.outcome == "failed"
    assert counted(stage.metrics) == [where]


def test_a_call_that_cannot_be_counted_is_over_and_its_line_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(CallUsage, "begin", begin)

    async def scenario(hall: Hall) -> None:
        line = hall.ring()
        await asyncio.sleep(1)
        assert line.released
        assert not hall.registry.calls
        await hall.registry.idle()

    hall = play_hall(tmp_path, scenario)
    assert counted(hall.metrics) == ["call"]


@pytest.mark.parametrize(
    "told", [AgentFailed("a bug", "internal"), AgentTrouble("internal", "a bug")]
)
def test_in_an_agent(tmp_path: Path, told: AgentFailed | AgentTrouble) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        agent.emit(told)
        await agent.ask("hangup_call", {"reason": "done"}, 0)

    stage = play_call(tmp_path, lambda: FakeAgent(script))
    assert counted(stage.metrics) == ["agent"]


def test_in_a_plugin_at_the_end_of_the_call(tmp_path: Path) -> None:
    """The line is let go all the same: the caller is not left on it."""

    def forgets(speech: Speech) -> None:
        if speech.over:
            raise ZeroDivisionError("a bug")

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        filler = Speech("One moment.", "filler", forgets)
        agent.emit(AgentText(1, filler.text, asyncio.get_running_loop().time(), filler))
        await agent.ask("hangup_call", {"reason": "done"}, 0)

    stage = play_call(tmp_path, lambda: FakeAgent(script))  # checks what is left
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")
    assert stage.line.hangups == ["normal"]
    assert [trouble.where for trouble in stage.of(Trouble)] == ["conversation"]
    assert counted(stage.metrics) == ["call"]


def test_in_the_apology(tmp_path: Path) -> None:
    """The caller is not left on a line that nobody ends."""

    async def apology(audio_format: AudioFormat) -> bytes:
        raise ZeroDivisionError("a bug")

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        agent.emit(AgentFailed("gone", "dropped"))

    stage = play_call(tmp_path, lambda: FakeAgent(script), apology=apology)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "internal_error")
    assert stage.ended.duration_ms < 10_000
    assert counted(stage.metrics) == ["farewell"]


def test_who_looks_on(tmp_path: Path) -> None:
    def listener(at_ms: int, event: object) -> None:
        raise ZeroDivisionError("a bug")

    metrics, writer = Metrics(), LedgerWriter()
    ledger = Ledger(
        writer,
        tmp_path / "a.jsonl",
        0.0,
        listener,
        lambda: 1.0,
        lambda: metrics.internal_error("ledger_listener"),
    )
    ledger.record(Connected())
    ledger.record(Connected())
    ledger.close()
    writer.close()
    assert counted(metrics) == ["ledger_listener"]
    assert 'ai_agent_internal_errors_total{where="ledger_listener"} 1.0' in (
        metrics.render().decode()
    )


def test_what_a_service_quotes_of_a_secret_is_in_no_ledger(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        agent.emit(AgentTrouble("garbage", "unknown api-key key-of-azure"))
        agent.emit(AgentFailed("auth: key-of-azure is not valid", "auth"))

    async def run() -> str:
        config = stage_config()
        config.keep_secret({"key-of-azure"})
        stage = CallStage(tmp_path, FakeAgent(script), config, (), FakeLine(), None)
        await stage.over()
        return repr(stage.lines())

    with virtual_time() as loop:
        lines = loop.run_until_complete(run())
    assert "key-of-azure" not in lines
    assert "unknown api-key •••" in lines
    assert "auth: ••• is not valid" in lines
