"""A recogniser that follows the call and judges its turns, between stand-ins, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from cordboard.agent_api.agent import (
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    CallerStopped,
    CallerText,
    Usage,
    Used,
)
from cordboard.agent_api.stt import (
    NO_HINTS,
    ListenedCall,
    SpeechHints,
    Transcript,
    TurnVerdict,
)
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.format import SLIN_8K
from cordboard.audio.vad import VoiceActivityBank
from cordboard.errors import RecogniserError
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.fake_pipeline import (
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    TalkingClock,
    silence,
    speech,
)
from cordboard_testkit.virtual_time import virtual_time

PROFILE = TurnProfile()


class Follower:
    """A `CallRecogniser` and its `Listening`: what it heard, and what a test has it say."""

    def __init__(self, *, judges_turns: bool = True) -> None:
        self.judges_turns = judges_turns
        self.text = "The draft"
        self.heard = 0
        self.closed = False
        self.call: ListenedCall | None = None

    def open(self, call: ListenedCall) -> Follower:
        self.call = call
        return self

    def hear(self, pcm_8k: bytes) -> None:
        self.heard += len(pcm_8k) // 2

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        return Transcript(self.text, 0.0, 0.9, 0.0)

    async def close(self) -> None:
        self.closed = True

    def say(self, verdict: TurnVerdict) -> None:
        assert self.call is not None
        self.call.verdict(verdict)


class PaidClock(TalkingClock):
    """A voice that costs."""

    def for_call(self, used: Callable[[Usage], None]) -> PaidClock:
        used(Usage("clock", "one", {"characters": 1.0}))
        return self


async def answer(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield f"You said {text}"


class Stage:
    def __init__(self, follower: Follower) -> None:
        self.events: list[tuple[float, AgentEvent]] = []
        self.media = FakeMedia()
        self.loop = asyncio.get_running_loop()
        hearing = HearingParts(
            VoiceActivityBank(LoudnessModel(), InlineExecutor()), follower, PROFILE
        )
        self.agent = PipelineAgent(PipelineParts(hearing, FunctionBrain(answer), PaidClock()))

    async def start(self) -> None:
        session = AgentSession(
            "call", "demo", "", "", (), SLIN_8K, self._emit, lambda: self.media.queued_ms > 0
        )
        await self.agent.start(session)
        self.media.on_audio(self.agent.hear)

    def _emit(self, event: AgentEvent) -> None:
        self.events.append((self.loop.time(), event))

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for _, event in self.events if isinstance(event, kind)]

    def silence_before_the_end(self) -> float:
        """ms from the caller's last sound to the decision."""
        (stopped,) = self.of(CallerStopped)
        assert isinstance(stopped, CallerStopped)
        return (stopped.at - stopped.last_speech_at) * 1000


def play(follower: Follower, scenario: Callable[[Stage], Awaitable[None]]) -> Stage:
    async def run() -> Stage:
        stage = Stage(follower)
        await stage.start()
        await scenario(stage)
        await stage.agent.close()
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(run())


def test_the_turn_ends_when_the_recogniser_says_so_with_its_last_text() -> None:
    follower = Follower()

    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800) + silence(400))
        follower.text = "The final text"
        follower.say(TurnVerdict.OVER)
        await stage.media.say(silence(1500))

    stage = play(follower, scenario)
    (told,) = stage.of(CallerText)
    assert isinstance(told, CallerText)
    assert told.text == "The final text"
    assert 370 < stage.silence_before_the_end() < 440
    assert stage.of(AgentText)


def test_a_verdict_that_comes_before_the_pause_is_noticed_counts_too() -> None:
    follower = Follower()

    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800) + silence(20))
        follower.say(TurnVerdict.OVER)
        await stage.media.say(silence(1500))

    silence_ms = play(follower, scenario).silence_before_the_end()
    assert PROFILE.complete_silence_ms - 20 <= silence_ms < PROFILE.complete_silence_ms + 70


def test_a_caller_who_goes_on_takes_the_verdict_back() -> None:
    follower = Follower()

    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800) + silence(20))
        follower.say(TurnVerdict.OVER)
        await stage.media.say(speech(40))
        follower.say(TurnVerdict.GOES_ON)
        await stage.media.say(speech(500) + silence(700))
        assert not stage.of(CallerStopped)
        follower.say(TurnVerdict.OVER)
        await stage.media.say(silence(300))

    assert 650 < play(follower, scenario).silence_before_the_end() < 760


def test_a_recogniser_that_says_nothing_does_not_keep_the_turn_open() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800) + silence(2500))

    silence_ms = play(Follower(), scenario).silence_before_the_end()
    longest = PROFILE.unfinished_silence_ms
    assert longest <= silence_ms < longest + 100


def test_verdicts_do_not_count_where_the_engine_decides() -> None:
    follower = Follower(judges_turns=False)

    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800) + silence(300))
        follower.say(TurnVerdict.OVER)
        await stage.media.say(silence(1500))

    assert play(follower, scenario).silence_before_the_end() >= PROFILE.silence_ms


def test_it_hears_all_the_sound_with_silence_for_what_is_missing() -> None:
    follower = Follower()

    async def scenario(stage: Stage) -> None:
        await stage.media.say(speech(800))
        await asyncio.sleep(2.0)  # a telephone that sends nothing while it is quiet

    stage = play(follower, scenario)
    assert stage.of(CallerStopped)
    assert follower.heard >= (800 + 1200) * 8
    assert follower.closed


def test_what_parts_cost_and_why_they_fail_is_told_to_the_call() -> None:
    follower = Follower()

    async def scenario(stage: Stage) -> None:
        assert follower.call is not None
        follower.call.used(Usage("deepgram", "nova-3", {"seconds": 2.0}))
        follower.call.failed(RecogniserError("no more money", "quota"))

    stage = play(follower, scenario)
    used = [event.usage.provider for event in stage.of(Used) if isinstance(event, Used)]
    assert used == ["clock", "deepgram"]
    assert stage.of(AgentFailed) == [AgentFailed("no more money", "quota")]
