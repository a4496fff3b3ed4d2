"""Agents that take over from one another in the middle of a call: what the caller hears, what the
next agent knows, and what becomes of tools. Whole calls in virtual time; only agents, tools and the
line are stand-ins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentFailed,
    AgentSession,
    AgentText,
    CallerStarted,
    Said,
)
from cordboard.agent_api.speech import Speech
from cordboard.agents.fallback.agent import HOLD_ON, LONGEST_START, FallbackAgent
from cordboard.agents.provider_health import ProviderHealth
from cordboard.audio.format import AudioFormat
from cordboard.calls import events
from cordboard.errors import AgentError, FailureKind
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import Effects
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine, FakeMedia
from cordboard_testkit.fake_pipeline import MS_PER_WORD

PHRASE = "One moment please."
SLIN_24K = AudioFormat("slin", 24_000)


class FakeVoice:
    """The engine's own: a level of its own, so that it is told from the agents'."""

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        await asyncio.sleep(0.02)
        yield b"\x02\x02" * (rate // 1000 * MS_PER_WORD * len(text.split()))

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None: ...


class Chain:
    """Agents to take over from one another, and what became of them."""

    def __init__(self, *agents: FakeAgent | AgentError, voice: bool = True) -> None:
        self.agents = dict(zip("abcd", agents, strict=False))
        self.health = ProviderHealth(lambda: 0.0)
        self._voice = FakeVoice() if voice else None
        self.agent: FallbackAgent | None = None

    def __call__(self) -> FallbackAgent:
        self.agent = FallbackAgent(self._open, tuple(self.agents), PHRASE, self._voice, self.health)
        return self.agent

    def _open(self, provider: str) -> FakeAgent:
        agent = self.agents[provider]
        if isinstance(agent, AgentError):
            raise agent
        return agent

    def fake(self, provider: str) -> FakeAgent:
        agent = self.agents[provider]
        assert isinstance(agent, FakeAgent)
        assert agent.problem is None, f"the script of {provider} failed: {agent.problem!r}"
        return agent


def dead(reason: str = "no route", kind: FailureKind = "connect") -> FakeAgent:
    """Cannot start."""
    agent = FakeAgent()
    agent.start_error = AgentError(reason, kind)
    return agent


def fails(agent: FakeAgent, reason: str = "lost", kind: FailureKind = "dropped") -> None:
    agent.emit(AgentFailed(reason, kind))


class Hoarse(FakeAgent):
    """Its voice fails within the first sentence of the greeting, which it says no more."""

    def __init__(self, share: float) -> None:
        """`share`: the part of the sentence that is heard, 0 to 1."""
        super().__init__()
        self._share = share

    async def _follow(self) -> None:
        assert self.session is not None
        first, *others = self.session.opening
        self.emit(AgentText(0, first, 0.0))
        if self._share:
            self.emit(AgentAudio(0, b"\x01\x01" * round(8000 * self._share)))
            await asyncio.sleep(0.3)
        fails(self)
        await self.speak(0, *others)


async def hang_up(agent: FakeAgent, turn: int = 0) -> None:
    await agent.ask("hangup_call", {"reason": "done"}, turn)
    await agent.speak(turn)


def troubles(stage: CallStage) -> list[str]:
    return [t.message for t in stage.of(events.Trouble) if t.where == "agent_fallback"]


def internal_errors(stage: CallStage) -> float:
    name = 'ai_agent_internal_errors_total{where="agent"} '
    lines = stage.metrics.render().decode().splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def said(stage: CallStage) -> list[tuple[int, str]]:
    return [(event.turn, event.text) for event in stage.of(events.Answering)]


# At the start


def test_a_mistake_of_ours_at_the_start_of_one_is_counted_and_the_next_one_serves(
    tmp_path: Path,
) -> None:
    broken = FakeAgent()
    broken.start_error = ZeroDivisionError("a bug")
    stage = play_call(tmp_path, Chain(broken, FakeAgent(hang_up)))
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")
    assert troubles(stage) == ["a -> b: internal: internal error: ZeroDivisionError"]
    assert internal_errors(stage) == 1


def test_a_mistake_of_ours_in_the_call_is_counted_though_another_one_takes_over(
    tmp_path: Path,
) -> None:
    async def breaks(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        fails(agent, "a bug", "internal")

    stage = play_call(tmp_path, Chain(FakeAgent(breaks), FakeAgent(hang_up)))
    assert stage.ended.outcome == "completed"
    assert internal_errors(stage) == 1


def test_a_mistake_of_ours_in_the_last_one_is_counted_once(tmp_path: Path) -> None:
    async def breaks(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        fails(agent, "a bug", "internal")

    stage = play_call(tmp_path, Chain(FakeAgent(breaks)))
    assert stage.ended.reason == "agent_failed"
    assert internal_errors(stage) == 1


def test_the_next_one_greets_when_the_first_cannot_be_reached(tmp_path: Path) -> None:
    chain = Chain(dead(), FakeAgent(hang_up))
    stage = play_call(tmp_path, chain)
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")
    assert said(stage) == [(0, "Good morning.")]
    assert troubles(stage) == ["a -> b: connect: no route"]
    assert chain.fake("a").closed
    assert chain.fake("b").closed
    assert chain.health.failures["a"].kind == "connect"
    assert "b" not in chain.health.failures
    assert 'ai_agent_agent_troubles_total{what="fallback"} 1.0' in stage.metrics.render().decode()


def test_one_without_a_key_is_passed_over(tmp_path: Path) -> None:
    chain = Chain(AgentError("no key: set ACME_KEY", "auth"), FakeAgent(hang_up))
    stage = play_call(tmp_path, chain)
    assert said(stage) == [(0, "Good morning.")]
    assert chain.health.failures["a"].kind == "auth"


class SlowlyConnected(FakeAgent):
    """Needs half a second to connect, or to find that it cannot."""

    error: AgentError | None = None
    greets_at_once = False

    async def prepare(self) -> None:
        self.connected = asyncio.get_running_loop().create_future()
        await asyncio.sleep(0.5)
        self.connected.set_result(None)
        if self.error is not None:
            raise self.error

    async def start(self, session: AgentSession) -> None:
        if self.greets_at_once:
            await super().start(session)
        await self.connected
        if self.error is not None:
            raise self.error
        if not self.greets_at_once:
            await super().start(session)


@pytest.mark.parametrize("media_delay", [0.0, 1.0])
def test_one_that_fails_to_prepare_gives_way(tmp_path: Path, media_delay: float) -> None:
    first = SlowlyConnected()
    first.error = AgentError("no route", "connect")

    def slow_line() -> FakeLine:
        line = FakeLine()
        line.media_delay = media_delay
        return line

    stage = play_call(tmp_path, Chain(first, FakeAgent(hang_up)), make_line=slow_line)
    assert said(stage) == [(0, "Good morning.")]
    assert troubles(stage) == ["a -> b: connect: no route"]


def test_what_is_known_ahead_is_said_while_the_connection_is_being_opened(tmp_path: Path) -> None:
    async def later(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        await hang_up(agent)

    first = SlowlyConnected(later)
    first.greets_at_once = True
    stage = play_call(tmp_path, Chain(first))
    heard = next(line for line in stage.lines() if line["type"] == "agent.audio_started")
    assert heard["at_ms"] < 200


def test_one_that_never_starts_leaves_time_for_the_others(tmp_path: Path) -> None:
    """And the caller, whom nobody has greeted yet, is asked to wait."""
    slow = FakeAgent()
    slow.start_seconds = 60
    chain = Chain(slow, FakeAgent(hang_up))
    stage = play_call(tmp_path, chain)
    assert said(stage) == [(0, PHRASE), (0, "Good morning.")]
    texts = [line["at_ms"] for line in stage.lines() if line["type"] == "agent.text"]
    assert texts == [
        pytest.approx(HOLD_ON * 1000, abs=100),
        pytest.approx(LONGEST_START * 1000, abs=200),
    ]


def test_a_failure_told_while_it_starts_counts(tmp_path: Path) -> None:
    class Telling(FakeAgent):
        async def start(self, session) -> None:  # type: ignore[no-untyped-def]
            self.session = session
            self.emit(AgentFailed("the model is not known", "refused"))

    stage = play_call(tmp_path, Chain(Telling(), FakeAgent(hang_up)))
    assert troubles(stage) == ["a -> b: refused: the model is not known"]
    assert said(stage) == [(0, "Good morning.")]


def test_when_none_can_start_the_call_ends_with_the_last_reason(tmp_path: Path) -> None:
    stage = play_call(tmp_path, Chain(dead("one"), dead("two")))
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    assert "two" in [trouble.message for trouble in stage.of(events.Trouble)]
    assert stage.line.declined == ["unavailable"]


def test_when_none_can_even_be_opened_there_is_a_call_all_the_same(tmp_path: Path) -> None:
    chain = Chain(AgentError("no key: set A", "auth"), AgentError("no key: set B", "auth"))
    stage = play_call(tmp_path, chain)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    assert "no key: set B" in [trouble.message for trouble in stage.of(events.Trouble)]
    assert {name: each.count for name, each in chain.health.failures.items()} == {"a": 1, "b": 1}


# In the middle of a call


def test_the_next_one_answers_what_the_caller_asked_last(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "My name is Kari.")
        await agent.speak(1, "Hello Kari.")
        await asyncio.sleep(2)
        await agent.caller_says(2, "What is the weather?")
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "It is sunny.")
        await agent.caller_says(1, "Thanks, bye.")
        await agent.speak(1, "Goodbye.", done=False)
        await hang_up(agent, 1)

    chain = Chain(FakeAgent(first), FakeAgent(second))
    stage = play_call(tmp_path, chain)
    session = chain.fake("b").session
    assert session is not None
    assert session.history == (
        Said("agent", "Good morning."),
        Said("caller", "My name is Kari."),
        Said("agent", "Hello Kari."),
        Said("caller", "What is the weather?"),
    )
    assert session.greeting == ""
    assert said(stage) == [
        (0, "Good morning."),
        (1, "Hello Kari."),
        (2, PHRASE),
        (2, "It is sunny."),
        (3, "Goodbye."),
    ]
    assert troubles(stage) == ["a -> b: dropped: lost"]
    assert b"\x02\x02" * 100 in bytes(_media(stage).played), "the phrase was not heard"
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")


def test_an_answer_that_broke_off_is_given_anew(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "What is the weather?")
        await agent.speak(1, "It will", done=False)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "It will rain.")
        await hang_up(agent)

    chain = Chain(FakeAgent(first), FakeAgent(second))
    play_call(tmp_path, chain)
    session = chain.fake("b").session
    assert session is not None
    assert session.history[-1] == Said("caller", "What is the weather?")


def test_without_a_voice_of_the_engine_the_next_one_says_the_phrase(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Hello?")
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await asyncio.sleep(3)
        await hang_up(agent)

    chain = Chain(FakeAgent(first), FakeAgent(second), voice=False)
    stage = play_call(tmp_path, chain)
    assert chain.fake("b").said == [PHRASE]
    assert (1, PHRASE) in said(stage)


def test_nobody_who_does_not_wait_is_told_to(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(3)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await hang_up(agent)

    stage = play_call(tmp_path, Chain(FakeAgent(first), FakeAgent(second)))
    assert said(stage) == [(0, "Good morning.")]


def test_a_lost_agent_is_not_heard_any_more(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Hello?")
        fails(agent)
        fails(agent)
        agent.emit(AgentText(1, "I am a ghost.", 0.0))
        agent.emit(AgentAudio(1, bytes(1600)))
        agent.emit(AgentAudioDone(1))

    stage = play_call(tmp_path, Chain(FakeAgent(first), FakeAgent(hang_up)))
    assert "I am a ghost." not in [text for _, text in said(stage)]
    assert len(troubles(stage)) == 1


def test_a_stalled_agent_is_replaced(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await agent.caller_says(1, "Are you there?")

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "Yes.")
        await hang_up(agent)

    quick = {"filler_after_ms": 0, "caller_after_ms": 3_600_000, "agent_after_ms": 5_000}
    stage = play_call(
        tmp_path, Chain(FakeAgent(first), FakeAgent(second)), context=_context(silence=quick)
    )
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")
    assert troubles(stage)[0].startswith("a -> b: stalled: no answer within 5.0 s")


def test_when_the_last_one_fails_the_call_ends(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Hello?")
        fails(agent)

    second = dead("full", "quota")
    stage = play_call(tmp_path, Chain(FakeAgent(first), second))
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    assert "full" in [t.message for t in stage.of(events.Trouble) if t.where == "agent"]


def test_a_hang_up_while_one_takes_over(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Hello?")
        fails(agent)

    second = FakeAgent()
    second.start_seconds = 5

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(4)
        _media(stage).break_off("caller_hangup")

    stage = play_call(tmp_path, Chain(FakeAgent(first), second), scenario)
    assert stage.ended.reason == "caller_hangup"
    assert second.closed


# Sound


class Wideband(FakeAgent):
    """Hears and speaks in another format than the call's."""

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_24K,)

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS


def test_another_format_is_converted_both_ways(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Hello?")
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        agent.emit(AgentText(0, "Aye.", 0.0))
        agent.emit(AgentAudio(0, b"\x00\x08" * 24 * 1000))
        agent.emit(AgentAudioDone(0))
        await asyncio.sleep(2)
        await hang_up(agent)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2.5)
        await _media(stage).say(b"\x00\x04" * 160 * 50)

    chain = Chain(FakeAgent(first), Wideband(second))
    stage = play_call(tmp_path, chain, scenario)
    session = chain.fake("b").session
    assert session is not None
    assert session.format == SLIN_24K
    heard = bytes(chain.fake("b").heard)
    assert len(heard) >= SLIN_24K.frame_bytes * 40
    assert heard[len(heard) // 2 // 2 * 2 :][:2] in (b"\x00\x04", b"\xff\x03", b"\x01\x04")
    played = bytes(_media(stage).played)
    assert abs(played.count(b"\x00\x08") / 8 - 1000) < 60, "a second of sound was not a second"


def test_what_the_caller_was_saying_is_heard_by_the_next_one(tmp_path: Path) -> None:
    """The utterance began under the first agent, which is lost in the middle of it."""

    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        agent.emit(CallerStarted(0.0))
        await asyncio.sleep(0.5)
        fails(agent)

    second = FakeAgent()
    second.start_seconds = 1.0

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2 + 0.1)
        for number in range(1, 201):
            _media(stage)._on_audio(number.to_bytes(2, "little") * 160)  # type: ignore[misc]
            await asyncio.sleep(0.02)
        _media(stage).break_off("caller_hangup")

    chain = Chain(FakeAgent(first), second)
    play_call(tmp_path, chain, scenario)
    heard = bytes(second.heard)
    frames = [int.from_bytes(heard[at : at + 2], "little") for at in range(0, len(heard), 320)]
    numbered = [number for number in frames if number]
    assert numbered == list(range(numbered[0], 201)), "frames were lost, doubled or disordered"
    assert numbered[0] <= 2, "the beginning of the utterance was lost"


def test_each_agent_learns_what_was_heard_of_its_own(tmp_path: Path) -> None:
    class Listening(FakeAgent):
        cut: tuple[str, int, int] | None = None

        def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
            self.cut = (heard, heard_ms, turn)

    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Tell me a story.")
        await agent.speak(1, "Once upon", done=False)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "There was a king who had a great many horses.")
        await asyncio.sleep((2 + 3) * MS_PER_WORD / 1000 + 1.5)
        agent.interrupt()
        await hang_up(agent)

    listening = Listening(second)
    play_call(tmp_path, Chain(FakeAgent(first), listening))
    assert listening.cut is not None
    heard, heard_ms, turn = listening.cut
    assert turn == 0
    assert 1200 < heard_ms < 1800, "the sound of the others was counted"
    assert heard.startswith("There was a king")
    assert "horses" not in heard


# Tools


def _context(**more: object) -> dict[str, object]:
    return {"tools": ["get_weather", "book_table", "hangup_call"], **more}


def test_ids_of_asks_are_never_used_twice(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.ask("get_weather", {"place": "Oslo"}, 1)
        await agent.speak(1, "Sunny.")
        await asyncio.sleep(1)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await agent.caller_says(1, "And in Bergen?")
        reply = await agent.ask("get_weather", {"place": "Bergen"}, 1)
        await agent.speak(1, reply.message)
        await hang_up(agent, 1)

    stage = play_call(
        tmp_path,
        Chain(FakeAgent(first), FakeAgent(second)),
        context=_context(),
        tools=[FakeTool("get_weather"), FakeTool("book_table")],
    )
    ids = [ask.ask_id for ask in stage.of(events.ToolCalled)]
    assert len(set(ids)) == len(ids) == 3
    assert (2, "It is sunny in Bergen.") in said(stage)
    turns = [ask.turn for ask in stage.of(events.ToolCalled)]
    assert turns == [1, 2, 2]


def test_an_answer_that_was_not_told_is_not_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    """The table is booked, the agent dies before it can say so; the next one books it again."""
    booking = FakeTool("book_table", 0.2, Effects.DESTRUCTIVE)

    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Book a table.")
        await agent.ask("book_table", {"place": "Oslo"}, 1)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        reply = await agent.ask("book_table", {"place": "Oslo"}, 0)
        await agent.speak(0, reply.message)
        await agent.caller_says(1, "Once more.")
        reply = await agent.ask("book_table", {"place": "Oslo"}, 1)
        await agent.speak(1, reply.message)
        await hang_up(agent, 1)

    chain = Chain(FakeAgent(first), FakeAgent(second))
    stage = play_call(tmp_path, chain, context=_context(), tools=[booking, FakeTool("get_weather")])
    assert (1, "It is sunny in Oslo.") in said(stage)
    assert booking.began == 2, "once before, once when the caller wanted it again"
    session = chain.fake("b").session
    assert session is not None
    assert 'book_table {"place": "Oslo"} answered' in session.prompt
    assert "It is sunny in Oslo." in session.prompt


def test_a_tool_at_work_when_the_agent_is_lost(tmp_path: Path) -> None:
    """One that only reads is stopped; one that changes the world is finished, and told once."""
    booking = FakeTool("book_table", 4.0, Effects.DESTRUCTIVE)
    weather = FakeTool("get_weather", 4.0)

    async def first(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Book a table, and the weather?")
        agent.begin_ask("book_table", {"place": "Oslo"}, 1)
        agent.begin_ask("get_weather", {"place": "Oslo"}, 1)
        await asyncio.sleep(1)
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "I am looking after that.")
        await asyncio.sleep(20)
        await hang_up(agent)

    chain = Chain(FakeAgent(first), FakeAgent(second))
    stage = play_call(tmp_path, chain, context=_context(), tools=[booking, weather])
    assert (booking.finished, weather.finished) == (1, 0)
    assert [late.text for late in chain.fake("b").late] == [
        "About your earlier request: It is sunny in Oslo."
    ]
    (late,) = stage.of(events.ToolLate)
    assert late.told
    told = [text for _, text in said(stage) if "It is sunny in Oslo." in text]
    assert told == ["About your earlier request: It is sunny in Oslo."]
    session = chain.fake("b").session
    assert session is not None
    assert "still at work" in session.prompt
    assert "get_weather" not in session.prompt


def test_keys_pressed_meanwhile_reach_the_next_one(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        fails(agent)

    second = FakeAgent()
    second.start_seconds = 1.0

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2.5)
        _media(stage).press("5")
        await asyncio.sleep(2)
        _media(stage).break_off("caller_hangup")

    play_call(tmp_path, Chain(FakeAgent(first), second), scenario)
    assert second.keys == ["5"]


def test_what_the_engine_wants_said_meanwhile_is_said_by_the_next_one(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        fails(agent)

    second = FakeAgent()
    second.start_seconds = 4.0
    silence = {"caller_after_ms": 3_000, "reprompts": ["Are you there?"], "goodbye": ""}

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(12)
        _media(stage).break_off("caller_hangup")

    stage = play_call(
        tmp_path, Chain(FakeAgent(first), second), scenario, context=_context(silence=silence)
    )
    assert (0, "Are you there?") in said(stage)


def _media(stage: CallStage) -> FakeMedia:
    assert stage.line.media is not None
    return stage.line.media


def test_the_very_words_of_a_filler_that_was_dropped_are_the_models(tmp_path: Path) -> None:
    """The next agent learns them as part of the conversation."""

    class Filled(FakeAgent):
        def say(self, speech: Speech) -> None:
            speech.drop()
            self.spawn(self._answer(speech.text))

        async def _answer(self, words: str) -> None:
            await self.speak(1, words)
            await self.caller_says(2, "And tomorrow?")
            fails(self)

    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        await agent.caller_says(1, "What is the weather?")

    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "Rain.")
        await asyncio.sleep(2)
        await hang_up(agent)

    chain = Chain(Filled(first), FakeAgent(second))
    silence = {"filler_after_ms": 900, "fillers": ["Let me see."]}
    play_call(tmp_path, chain, context={"silence": silence})
    session = chain.fake("b").session
    assert session is not None
    assert [said.text for said in session.history] == [
        "Good morning.",
        "What is the weather?",
        "Let me see.",
        "And tomorrow?",
    ]


def test_the_phrase_for_a_caller_who_waits_is_not_their_answer(tmp_path: Path) -> None:
    """It is a filler: the latency of the answer ends with what the next agent says."""

    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        await agent.caller_says(1, "What is the weather?")
        fails(agent)

    async def second(agent: FakeAgent) -> None:
        await asyncio.sleep(3)
        await agent.speak(0, "Rain.")
        await asyncio.sleep(2)
        await hang_up(agent)

    stage = play_call(tmp_path, Chain(FakeAgent(first), FakeAgent(second)))
    assert [text for _, text in said(stage)][1:] == [PHRASE, "Rain."]
    (latency,) = stage.of(events.Latency)
    assert latency.filler
    (answered,) = stage.of(events.Answered)
    assert answered.answer_ms > 3000


def test_a_note_is_in_the_prompt_of_each_agent_that_takes_over(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        assert chain.agent is not None
        assert chain.agent.take_note("Offer Thursday.")
        assert agent.notes == ["Offer Thursday."]
        fails(agent)
        assert chain.agent.take_note("Be brief.")

    async def second(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await hang_up(agent)

    chain = Chain(FakeAgent(first), FakeAgent(second))
    play_call(tmp_path, chain)
    session = chain.fake("b").session
    assert session is not None
    told = [session.prompt, *chain.fake("b").notes]
    assert ["Offer Thursday." in "".join(told), "Be brief." in "".join(told)] == [True, True]
    assert chain.fake("a").notes == ["Offer Thursday."]


# Announcements

ANNOUNCED = {
    "disclosure": "I am a machine.",
    "recording": {"enabled": True, "consent": "This call is recorded."},
}


def announced(stage: CallStage) -> dict[str, bool]:
    """Whether each announcement is known to be heard."""
    unheard = {event.kind: False for event in stage.of(events.AnnouncementUnheard)}
    return unheard | {event.kind: True for event in stage.of(events.AnnouncementHeard)}


@pytest.mark.parametrize("share", [0, 0.5])
def test_what_a_failed_voice_did_not_say_is_not_proven_heard(tmp_path: Path, share: float) -> None:
    for name, make in (("alone", lambda: Hoarse(share)), ("last", Chain(Hoarse(share)))):
        stage = play_call(tmp_path / name, make, context=ANNOUNCED)
        assert announced(stage) == {"disclosure": False, "consent": False}
        assert stage.ended.reason == "agent_failed"


def test_the_next_agent_s_announcements_count(tmp_path: Path) -> None:
    """It greets anew if the caller has heard nothing."""
    stage = play_call(tmp_path, Chain(Hoarse(0), FakeAgent(hang_up)), context=ANNOUNCED)
    assert announced(stage) == {"disclosure": True, "consent": True}


def test_the_next_agent_s_words_complete_no_broken_announcement(tmp_path: Path) -> None:
    async def second(agent: FakeAgent) -> None:
        await agent.speak(0, "I am back.")
        await hang_up(agent)

    stage = play_call(tmp_path, Chain(Hoarse(0.5), FakeAgent(second)), context=ANNOUNCED)
    assert announced(stage) == {"disclosure": False, "consent": False}
