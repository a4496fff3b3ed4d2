"""Between agent and caller: waits by stage, tools and fillers, interruptions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import AgentAudio, AgentAudioDone, CallerPartial
from cordboard.calls import events
from cordboard.tools.tool import Effects, Filler, ToolAsk, ToolReply
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_pipeline import MS_PER_WORD

WORD = MS_PER_WORD / 1000


def talk(
    tmp_path: Path, script: Script, *tools: FakeTool, seconds: float = 30, greeting: str = ""
) -> CallStage:
    """A call in which the script runs and the caller hangs up after `seconds`."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(seconds)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"greeting": greeting, "tools": [tool.spec.name for tool in tools]},
        tools=tools,
    )
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.problem is None, f"the script failed: {stage.agent.problem!r}"
    return stage


def test_the_wait_of_a_turn_is_told_by_stage(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather in Bergen?")
        reply = await agent.ask("get_weather", {"place": "Bergen"}, 1)
        await agent.speak(1, reply.message, "Anything else?")

    stage = talk(tmp_path, script, FakeTool("get_weather", 0.4))
    (latency,) = stage.of(events.Latency)
    # As the stand-ins take: endpoint 500 ms, recogniser 100, tool 400, voice 50, one frame 20.
    assert latency == events.Latency(1, 500, 100, 400, 50, 10, 1060)
    turn = stage.history().turns[1]
    assert turn.answer_start_ms is not None
    assert turn.last_speech_ms is not None
    assert turn.answer_start_ms - turn.last_speech_ms == latency.total_ms
    text = stage.metrics.render().decode()
    assert 'ai_agent_turn_latency_seconds_count{stage="total"} 1.0' in text


@pytest.mark.parametrize(
    ("privacy", "shown"), [({}, "Weather in"), ({"redact": {"kinds": ["card"]}}, "")]
)
def test_words_so_far_are_with_the_call_until_they_are_final_and_not_in_its_ledger(
    tmp_path: Path, privacy: dict[str, Any], shown: str
) -> None:
    seen: list[str] = []

    async def script(agent: FakeAgent) -> None:
        agent.emit(CallerPartial("Weather in"))
        await asyncio.sleep(2)
        await agent.caller_says(1, "Weather in Bergen?")

    async def scenario(stage: CallStage) -> None:
        for _ in range(2):
            await asyncio.sleep(1)
            assert stage.call.conversation is not None
            seen.append(stage.call.conversation.partial)
            await asyncio.sleep(4)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path, lambda: FakeAgent(script), scenario, context={"greeting": ""}, privacy=privacy
    )
    assert seen == [shown, ""]
    words = [line["text"] for line in stage.lines() if line["type"] == "caller.text"]
    assert words == ["Weather in Bergen?"]
    assert '"Weather in"' not in str(stage.lines()).replace("'", '"')


def test_the_greeting_has_its_own_measure(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        """Nothing but the greeting."""

    stage = talk(tmp_path, script, greeting="Good morning.")
    assert stage.of(events.Latency) == []
    text = stage.metrics.render().decode()
    name = "ai_agent_greeting_latency_seconds_sum "
    (seconds,) = (line.removeprefix(name) for line in text.splitlines() if line.startswith(name))
    assert float(seconds) == pytest.approx(0.06)


def test_a_slow_tool_is_bridged_by_a_sentence(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 3, filler=Filler(1000, ("One moment, please.",)))

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        reply = await agent.ask("get_weather", {}, 1)
        await agent.speak(1, reply.message)

    stage = talk(tmp_path, script, tool)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said == ["One moment, please."]
    (use,) = stage.history().tools
    assert (use.filler, use.status) == ("One moment, please.", "ok")
    assert use.answered_ms is not None
    assert use.answered_ms - use.asked_ms == 3000


def test_a_quick_tool_is_not(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 0.5, filler=Filler(1000, ("One moment, please.",)))

    async def script(agent: FakeAgent) -> None:
        await agent.ask("get_weather", {}, 1)

    stage = talk(tmp_path, script, tool)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said == []
    assert stage.of(events.ToolFiller) == []


def test_a_tool_outside_the_toolbox_is_never_run_and_written_down_as_refused(
    tmp_path: Path,
) -> None:
    secret = FakeTool("delete_everything")
    replies: list[ToolReply] = []

    async def script(agent: FakeAgent) -> None:
        replies.append(await agent.ask("delete_everything", {"sure": True}, 1))
        replies.append(await agent.ask("hangup_call", {}, 1))

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(5)
        assert stage.call.state == "talking", "hangup_call is not in this call's toolbox"
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path, lambda: FakeAgent(script), scenario, context={"tools": []}, tools=[secret]
    )
    assert secret.began == 0
    assert [reply.status for reply in replies] == ["refused", "refused"]
    assert "There is no tool named 'delete_everything'" in replies[0].message
    asked = stage.of(events.ToolCalled)[0]
    assert (asked.name, asked.tool, asked.arguments) == ("delete_everything", "", {"sure": True})
    assert [answer.status for answer in stage.of(events.ToolAnswered)] == ["refused", "refused"]
    assert 'tool="unknown"' in stage.metrics.render().decode()


def test_the_result_of_a_cancelled_ask_reaches_nobody(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 2)

    async def script(agent: FakeAgent) -> None:
        ask_id, _ = agent.begin_ask("get_weather", {})
        await asyncio.sleep(1)
        agent.cancel_ask(ask_id)

    stage = talk(tmp_path, script, tool)
    assert (tool.began, tool.finished) == (1, 0)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.replies == []
    (answer,) = stage.of(events.ToolAnswered)
    assert (answer.status, answer.took_ms) == ("cancelled", 1000)


def test_what_changes_the_world_is_not_cancelled(tmp_path: Path) -> None:
    tool = FakeTool("book", 2, Effects.DESTRUCTIVE)

    async def script(agent: FakeAgent) -> None:
        ask_id, _ = agent.begin_ask("book", {})
        await asyncio.sleep(1)
        agent.cancel_ask(ask_id)

    stage = talk(tmp_path, script, tool)
    assert tool.finished == 1
    (answer,) = stage.of(events.ToolAnswered)
    assert answer.status == "cancelled", "the agent has given it up"
    (late,) = stage.of(events.ToolLate)
    assert (late.status, late.told) == ("ok", True)


def test_an_interruption_takes_back_the_rest_and_notes_what_was_heard(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "one two three four.", "five six seven eight.", done=False)
        await asyncio.sleep(5 * WORD)
        agent.interrupt()
        agent.emit(AgentAudio(1, bytes(16000)))  # was on its way
        agent.emit(AgentAudioDone(1))
        await asyncio.sleep(1)
        await agent.speak(2, "nine ten.")

    stage = talk(tmp_path, script)
    (cut,) = stage.of(events.BargedIn)
    assert cut == events.BargedIn(1, "one two three four. five", heard_ms=1560)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.interruptions == [cut.heard]
    assert stage.of(events.AudioEnded) == [events.AudioEnded(2)]
    assert stage.line.media is not None
    heard = 5 * WORD + 0.05  # the sound began 50 ms before the second sentence was handed over
    assert len(stage.line.media.played) / 16000 == pytest.approx(heard + 2 * WORD, abs=0.02)
    assert stage.history().transcript() == [("agent", cut.heard), ("agent", "nine ten.")]


def test_there_is_nothing_to_interrupt_in_silence(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "one two.")
        await asyncio.sleep(2)
        agent.interrupt()

    stage = talk(tmp_path, script)
    assert stage.of(events.BargedIn) == []
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.interruptions == []


def test_an_agent_that_trips_over_an_answer_is_helped_on(tmp_path: Path) -> None:
    class Clumsy(FakeAgent):
        def answer_tool(self, reply: ToolReply) -> None:
            raise KeyError(reply.ask_id)

    async def script(agent: FakeAgent) -> None:
        await agent.ask("get_weather", {}, 1)

    stage = play_call(
        tmp_path,
        lambda: Clumsy(script),
        context={"tools": ["get_weather"]},
        tools=[FakeTool("get_weather")],
    )
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    assert isinstance(stage.agent, FakeAgent)
    assert len(stage.agent.said) == 1, "the caller hears an apology"


def test_arguments_that_json_cannot_hold_harm_nobody(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "half a \ud83d character")
        reply = await agent.ask("nothing", {"number": 10**30, "text": "\udc80"}, 1)
        await agent.speak(1, reply.message)

    stage = talk(tmp_path, script)
    turn = stage.history().turns[1]
    assert turn.heard.startswith("half a ")
    assert turn.tools[0].status == "refused"
    assert turn.answer


def test_who_looks_on_cannot_harm_the_call(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        class Closed(list[events.LedgerEvent]):
            def append(self, event: events.LedgerEvent) -> None:
                raise BrokenPipeError

        stage.events = Closed()
        await asyncio.sleep(5)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(tmp_path, FakeAgent, scenario)
    assert stage.history().transcript() == [("agent", "Good morning.")]


def test_an_ask_is_known_by_its_id(tmp_path: Path) -> None:
    """Two tools at once: each answer finds its question, the quick one first."""
    slow, quick = FakeTool("slow", 2), FakeTool("quick", 1)
    order: list[str] = []

    async def script(agent: FakeAgent) -> None:
        async def ask(name: str) -> None:
            order.append((await agent.ask(name, {}, 1)).name)

        await asyncio.gather(ask("slow"), ask("quick"))

    stage = talk(tmp_path, script, slow, quick)
    assert order == ["quick", "slow"]
    assert [use.name for use in stage.history().tools] == ["slow", "quick"]
    assert ToolAsk("1.1", "slow", {}, 1).ask_id == stage.history().tools[0].ask_id
