"""The pipeline agent between stand-ins, in virtual time: what is said when, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    AgentTrouble,
    CallerPartial,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    OverlapBegan,
    OverlapDismissed,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agent_api.stt import NO_HINTS, SpeechHints, Transcript
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.format import SLIN_8K
from cordboard.audio.vad import VoiceActivityBank
from cordboard.config.conversation import BargeIn
from cordboard.errors import RecogniserError, VoiceError
from cordboard.observe.degradation import Degradation
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts, TurnOdds
from cordboard.tools.tool import Status, ToolReply
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.fake_pipeline import (
    MS_PER_WORD,
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    Respond,
    ScriptedRecogniser,
    TalkingClock,
    silence,
    speech,
)
from cordboard_testkit.virtual_time import virtual_time


async def echo(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield f"You said {text}" if text else "I did not get that"


class Stage:
    """An agent on a fake line, and everything it told."""

    def __init__(
        self,
        texts: list[str | Exception],
        respond: Respond = echo,
        voice: TalkingClock | None = None,
        *,
        barge_in: BargeIn = "on",
        profile: TurnProfile | None = None,
        turn_odds: TurnOdds | None = None,
    ) -> None:
        self.recogniser = ScriptedRecogniser(texts)
        self.brain = FunctionBrain(respond)
        self.voice = voice or TalkingClock()
        self.media = FakeMedia()
        self.events: list[AgentEvent] = []
        self.times: list[float] = []
        self._profile = profile or TurnProfile()
        self._turn_odds = turn_odds
        self.degradation = Degradation()
        self._barge_in = barge_in
        self.agent = self.with_recogniser(self.recogniser)

    def with_recogniser(self, recogniser: ScriptedRecogniser) -> PipelineAgent:
        hearing = HearingParts(
            VoiceActivityBank(LoudnessModel(), InlineExecutor()),
            recogniser,
            self._profile,
            self._turn_odds,
            degradation=self.degradation,
        )
        return PipelineAgent(PipelineParts(hearing, self.brain, self.voice, self._barge_in))

    def emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        self.times.append(asyncio.get_running_loop().time())
        if isinstance(event, AgentAudio):
            self.media.write(event.pcm)
        elif isinstance(event, Interrupted):
            self.media.flush()
        elif isinstance(event, OverlapBegan):
            self.media.hold()
        elif isinstance(event, OverlapDismissed):
            self.media.resume()

    async def start(self, greeting: str = "") -> None:
        await self.agent.start(
            AgentSession(
                "call", "demo", "", greeting, (), SLIN_8K, self.emit,
                lambda: self.media.queued_ms > 0,
            )
        )  # fmt: skip
        self.media.on_audio(self.agent.hear)

    async def say(self, ms: int = 600, then: int = 1200) -> None:
        await self.media.say(speech(ms) + silence(then))

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    def sentences(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, AgentText)]

    def time_of(self, kind: type) -> float:
        return next(
            time
            for time, event in zip(self.times, self.events, strict=True)
            if isinstance(event, kind)
        )


def play(
    scenario: Callable[[Stage], Awaitable[None]],
    texts: list[str | Exception],
    respond: Respond = echo,
    voice: TalkingClock | None = None,
    *,
    barge_in: BargeIn = "on",
    profile: TurnProfile | None = None,
    turn_odds: TurnOdds | None = None,
) -> Stage:
    async def run() -> Stage:
        stage = Stage(
            texts, respond, voice, barge_in=barge_in, profile=profile, turn_odds=turn_odds
        )
        await scenario(stage)
        await stage.agent.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(run())


def test_a_turn_is_heard_understood_and_answered() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start("Hello there")
        await stage.media.say(silence(1000))
        await stage.say()

    stage = play(scenario, ["Good morning"])
    assert stage.sentences() == ["Hello there", "You said Good morning"]
    (stopped,) = stage.of(CallerStopped)
    assert isinstance(stopped, CallerStopped)
    spoken_until = 1000.0 + 1.0 + 0.6
    assert abs(stopped.last_speech_at - spoken_until) < 0.05
    assert stage.of(AgentAudioDone) == [AgentAudioDone(0), AgentAudioDone(1)]


@pytest.mark.parametrize(("heard", "understood"), [("Gulf Kilo", "Golf Kilo"), ("Golf Kilo", "")])
def test_what_was_surely_misheard_is_put_right_beside_what_was_written(
    heard: str, understood: str
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    (told,) = play(scenario, [heard]).of(CallerText)
    assert isinstance(told, CallerText)
    assert (told.text, told.understood) == (heard, understood)


def test_recognition_hides_in_the_pause() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    stage = play(scenario, ["Good morning"])
    assert [speculative for _, speculative in stage.recogniser.requests] == [True]
    assert stage.time_of(CallerText) == stage.time_of(CallerStopped)


def test_a_whole_answer_is_taken_faster() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    quick = play(scenario, ["Yes."])
    slow = play(scenario, ["Good morning"])
    assert quick.time_of(CallerStopped) < slow.time_of(CallerStopped) - 0.1


def test_a_pause_in_a_sentence_does_not_split_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.media.say(speech(500) + silence(250) + speech(500) + silence(1500))

    stage = play(scenario, ["The weather at", "The weather at Bergen"])
    assert stage.sentences() == ["You said The weather at Bergen"]
    partial = [CallerPartial("The weather at"), CallerPartial("The weather at Bergen")]
    assert stage.of(CallerPartial) == partial
    assert stage.recogniser.requests[-1][0] > 1250, "the final text is made of the whole sentence"


def test_the_caller_interrupts_and_is_answered_anew() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start("one two three four five six seven eight nine ten")
        await stage.media.say(silence(1000))
        await stage.say()

    stage = play(scenario, ["Stop", "Stop"])
    (interrupted,) = stage.of(Interrupted)
    assert isinstance(interrupted, Interrupted)
    assert interrupted.at - 1001.0 < 0.5, "sound stops soon after the caller begins"
    assert len(stage.media.played) < 16 * 2000 + 16 * 900
    assert stage.sentences()[-1] == "You said Stop"


def test_without_barge_in_the_agent_finishes_first() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start("one two three four five six seven eight nine ten")
        await stage.media.say(silence(500))
        await stage.say(then=4000)

    stage = play(scenario, ["Stop"], barge_in="off")
    assert stage.of(Interrupted) == []
    assert stage.sentences()[-1] == "You said Stop"


def test_a_murmur_or_a_cough_over_the_agent_stops_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start("one two three four five six seven eight nine ten")
        await stage.media.say(silence(500))
        await stage.say(ms=180)
        await stage.say(ms=180)

    stage = play(scenario, ["Mm-hmm.", ""])
    assert stage.of(Interrupted) == []
    assert len(stage.sentences()) == 1


def test_noise_without_words_is_not_answered_but_unclear_speech_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(ms=130)
        await stage.say(ms=800)

    stage = play(scenario, ["", ""])
    assert stage.sentences() == ["I did not get that"]


def test_a_turn_ends_even_if_the_phone_stops_sending() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.media.say(speech(600))
        await asyncio.sleep(3)

    stage = play(scenario, ["Good morning"])
    assert stage.sentences() == ["You said Good morning"]


async def with_tool(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield "Let me see"
    reply = await dialogue.session.ask_tool("lookup", {"q": text})
    yield reply.message


def answer_later(stage: Stage, seconds: float) -> None:
    (asked,) = stage.of(ToolAsked)
    assert isinstance(asked, ToolAsked)
    reply = ToolReply(asked.ask.ask_id, "lookup", Status.OK, "It is sunny")
    asyncio.get_running_loop().call_later(seconds, stage.agent.answer_tool, reply)


def test_a_tool_result_is_spoken_in_the_same_answer() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()
        answer_later(stage, 1.0)
        await stage.media.say(silence(2000))

    stage = play(scenario, ["Weather"], with_tool)
    assert stage.sentences() == ["Let me see", "It is sunny"]
    assert stage.of(AgentAudioDone) == [AgentAudioDone(1)]


def test_a_question_during_a_slow_tool_waits_for_its_turn() -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        source = with_tool if text == "Weather" else echo
        async for sentence in source(dialogue, text):
            yield sentence

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(then=1800)
        await stage.say()
        answer_later(stage, 0.1)
        await stage.media.say(silence(3000))

    stage = play(scenario, ["Weather", "Hello?"], respond)
    assert stage.sentences() == ["Let me see", "It is sunny", "You said Hello?"]


def test_an_interruption_gives_up_the_tool() -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        if text != "Weather":
            yield "All right"
            return
        yield "This will take me quite some time I am afraid so please wait"
        await dialogue.session.ask_tool("lookup", {})

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()
        await stage.say()

    stage = play(scenario, ["Weather", "Never mind"], respond)
    assert len(stage.of(ToolCancelled)) == 1
    assert stage.sentences()[-1] == "All right"


def test_one_failed_recognition_is_asked_again_three_end_the_call() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        for _ in range(3):
            await stage.say(then=2500)

    broken: list[str | Exception] = [RecogniserError("broken")] * 3
    assert play(scenario, [broken[0], "Hello", "Hello"]).of(AgentFailed) == []
    stage = play(scenario, broken)
    assert len(stage.of(AgentFailed)) == 1
    assert stage.sentences()[0] == "I did not get that"


def test_a_broken_voice_is_told_to_the_call() -> None:
    class Mute(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000):  # type: ignore[no-untyped-def]
            raise VoiceError("no sound card")
            yield b""

    async def scenario(stage: Stage) -> None:
        await stage.start("Hello")
        await stage.media.say(silence(500))

    assert stage_failed(play(scenario, [], voice=Mute()))


def test_a_sentence_whose_voice_breaks_in_the_middle_was_not_heard_whole() -> None:
    class Breaking(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
            yield bytes(320)
            await asyncio.sleep(0.1)
            raise VoiceError("no sound card")

    question = Speech("Are you there?", "reprompt")

    async def scenario(stage: Stage) -> None:
        await stage.start()
        stage.agent.say(question)
        await stage.media.say(silence(60))
        question.begin()  # by the call
        await stage.media.say(silence(500))

    assert stage_failed(play(scenario, [], voice=Breaking()))
    assert question.state is SpeechState.CUT


def test_a_bug_in_the_brain_is_told_to_the_call() -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        raise ZeroDivisionError
        yield ""

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    assert stage_failed(play(scenario, ["Hello"], respond))


def stage_failed(stage: Stage) -> bool:
    return len(stage.of(AgentFailed)) == 1


LONG = "one two three four five six seven eight nine ten"


def test_a_murmur_holds_the_speech_which_goes_on_at_the_very_sample() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start(LONG)
        await stage.media.say(silence(1000))
        await stage.say(ms=420, then=4000)

    stage = play(scenario, ["Mm-hmm.", "Mm-hmm."])
    (began,) = stage.of(OverlapBegan)
    (dismissed,) = stage.of(OverlapDismissed)
    assert isinstance(began, OverlapBegan)
    assert isinstance(dismissed, OverlapDismissed)
    assert dismissed.why == "backchannel"
    assert began.at - 1001.0 < 0.1
    assert abs(began.onset_at - 1001.0) < 0.05
    assert dismissed.at - began.at <= 0.3
    assert len(stage.media.played) == 16 * MS_PER_WORD * 10, "all of it was heard, nothing twice"
    assert stage.of(CallerStarted) == stage.of(CallerText) == []
    assert stage.sentences() == [LONG]


def test_a_short_word_that_is_understood_late_still_interrupts() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start(LONG)
        await stage.media.say(silence(1000))
        await stage.say(ms=200, then=1500)

    stage = play(scenario, ["", "Stop"])
    kinds = [type(e) for e in stage.events if not isinstance(e, AgentAudio)]
    order = [OverlapBegan, OverlapDismissed, CallerStarted, Interrupted, CallerStopped, CallerText]
    assert [kind for kind in kinds if kind in order] == order
    assert stage.sentences()[-1] == "You said Stop"


def test_the_greeting_may_be_protected_and_nothing_else() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start(LONG)
        await stage.media.say(silence(500))
        await stage.say(then=4000)
        await stage.say(then=1500)

    words = "a b c d e f g h i"
    stage = play(scenario, [words, "Stop", "Stop"], barge_in="greeting_protected")
    assert len(stage.of(Interrupted)) == 1
    assert stage.time_of(Interrupted) > 1005.0
    assert stage.sentences() == [LONG, f"You said {words}", "You said Stop"]


def test_who_speaks_on_after_protected_speech_is_heard_from_the_beginning() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start("one two three")
        await stage.media.say(silence(300))
        await stage.say(ms=1500)

    stage = play(scenario, ["Good morning"], barge_in="off")
    (started,) = stage.of(CallerStarted)
    assert isinstance(started, CallerStarted)
    assert abs(started.at - 1000.3) < 0.05
    assert stage.sentences()[-1] == "You said Good morning"


def test_the_melody_shortens_or_prolongs_the_wait() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(then=2000)

    def wait(odds: float) -> float:
        async def turn_odds(pcm: bytes) -> float:
            await asyncio.sleep(0.05)
            return odds

        stage = play(scenario, ["Good morning sir"], turn_odds=turn_odds)
        (stopped,) = stage.of(CallerStopped)
        assert isinstance(stopped, CallerStopped)
        assert stopped.silence_at is not None
        assert stopped.last_speech_at < stopped.silence_at < stopped.at
        return stopped.at - stopped.last_speech_at

    assert wait(0.97) < 0.57 < 0.85 < wait(0.5) < 0.95 < wait(0.01)


def test_a_turn_model_that_fails_is_done_without() -> None:
    async def turn_odds(pcm: bytes) -> float:
        raise RuntimeError("no model")

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    stage = play(scenario, ["Good morning"], turn_odds=turn_odds)
    assert stage.sentences() == ["You said Good morning"]


def test_a_recogniser_that_never_returns_is_given_up() -> None:
    class Stuck(ScriptedRecogniser):
        async def transcribe(self, *args: object, **options: object) -> Transcript:
            await asyncio.Event().wait()
            raise AssertionError

    async def scenario(stage: Stage) -> None:
        stage.agent = stage.with_recogniser(Stuck([]))
        await stage.start()
        for _ in range(3):
            await stage.say(then=9500)

    stage = play(scenario, [])
    assert stage.sentences()[0] == "I did not get that"
    assert stage.times[stage.events.index(stage.of(AgentText)[0])] < 1009.5
    assert len(stage.of(AgentFailed)) == 1, "the third time there is no use in going on"


def test_a_voice_that_never_returns_is_told_to_the_call() -> None:
    class Stuck(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

    async def scenario(stage: Stage) -> None:
        await stage.start("Hello")
        await stage.media.say(silence(9000))

    stage = play(scenario, [], voice=Stuck())
    assert stage_failed(stage)
    assert stage.time_of(AgentFailed) < 1008.5


def test_a_filler_is_not_said_when_the_answer_comes_first() -> None:
    stages: list[Stage] = []

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        def fill() -> None:
            stages[0].agent.say(Speech("One moment", "filler"))

        asyncio.get_running_loop().call_later(0.1, fill)  # the voice takes three times as long
        yield "Here it is"

    async def scenario(stage: Stage) -> None:
        stages.append(stage)
        await stage.start()
        await stage.say(then=3000)

    stage = play(scenario, ["Hello"], respond, TalkingClock(0.3))
    assert stage.sentences() == ["Here it is"]
    assert stage.of(AgentAudioDone) == [AgentAudioDone(1)]


def test_a_filler_is_not_said_to_who_is_speaking() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        asyncio.get_running_loop().call_later(
            0.5, lambda: stage.agent.say(Speech("One moment", "filler"))
        )
        await stage.say(ms=1000)

    assert play(scenario, ["Hello"]).sentences() == ["You said Hello"]


def test_a_filler_that_has_begun_is_finished_before_the_answer() -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        await asyncio.sleep(0.5)
        yield "Here it is"

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(then=700)
        stage.agent.say(Speech("One moment", "filler"))
        await stage.media.say(silence(2000))

    stage = play(scenario, ["Hello"], respond)
    assert stage.sentences() == ["One moment", "Here it is"]
    texts = [type(e) for e in stage.events if isinstance(e, AgentText | AgentAudio)]
    assert texts == [AgentText, AgentAudio, AgentText, AgentAudio]


def test_the_agent_lets_the_caller_finish_who_speaks_when_the_answer_is_ready() -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        await asyncio.sleep(1.0)
        yield f"You said {text}"

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(then=1000)
        await stage.say(ms=1500, then=4000)

    stage = play(scenario, ["The weather", "in Oslo"], respond)
    assert stage.of(Interrupted) == stage.of(OverlapBegan) == []
    first = stage.of(AgentText)[0]
    assert isinstance(first, AgentText)
    assert first.at > 1000 + 0.6 + 1.0 + 1.5, "not into the middle of what the caller says"


def test_an_unanswered_turn_is_declared_done() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(ms=130)

    stage = play(scenario, [""])
    assert stage.of(AgentAudioDone) == [AgentAudioDone(1)]
    assert stage.sentences() == []


def test_under_overload_nothing_is_done_ahead_and_the_turn_is_still_understood() -> None:
    asked: list[bytes] = []

    async def turn_odds(pcm: bytes) -> float:
        asked.append(pcm)
        return 0.5

    async def scenario(stage: Stage) -> None:
        stage.degradation.level = 2
        await stage.start()
        await stage.say()

    stage = play(scenario, ["Good morning"], turn_odds=turn_odds)
    assert stage.sentences() == ["You said Good morning"]
    assert [speculative for _, speculative in stage.recogniser.requests] == [False]
    assert asked == [], "the end-of-turn model is given up too"


@pytest.mark.parametrize("then", ["goes on", "is over", "hangs up"])
def test_the_end_of_turn_model_is_asked_in_vain_no_longer_than_the_pause(then: str) -> None:
    """Behind the work of many callers it would take a thread for nothing."""
    asked: list[str] = []

    async def turn_odds(pcm: bytes) -> float:
        asked.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            asked.append("dropped")
        raise AssertionError

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say(then=200)
        assert asked == ["began"]
        if then == "goes on":
            await stage.media.say(speech(200))
        elif then == "is over":
            await stage.media.say(silence(1200))
        else:
            await stage.agent.close()
        assert asked == ["began", "dropped"]

    play(scenario, ["Good morning sir", "Good morning sir"], turn_odds=turn_odds)


def test_without_the_end_of_turn_model_the_words_decide_and_its_failure_is_told() -> None:
    async def turn_odds(pcm: bytes) -> float:
        raise ZeroDivisionError("a bug")

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.say()

    stage = play(scenario, ["Good morning"], turn_odds=turn_odds)
    assert stage.sentences() == ["You said Good morning"]
    (told, *_) = stage.of(AgentTrouble)
    assert told == AgentTrouble("internal", "end-of-turn model: ZeroDivisionError('a bug')")


def test_the_melody_is_that_of_the_last_phrase() -> None:
    lengths: list[int] = []

    async def turn_odds(pcm: bytes) -> float:
        lengths.append(len(pcm) // 16)
        return 0.5

    async def scenario(stage: Stage) -> None:
        await stage.start()
        await stage.media.say(speech(800) + silence(150) + speech(500) + silence(450))
        await stage.media.say(speech(600) + silence(2000))

    play(scenario, ["One two", "One two three", "One two three four"], turn_odds=turn_odds)
    first, second, third = lengths
    assert second > first + 600, "a short pause does not divide a phrase"
    assert 900 <= third < 1100, "0.3 s before it, the phrase, and the beginning of the pause"


def test_a_late_answer_about_a_key_says_nothing_of_the_voice_after_it() -> None:
    """What was taken for a murmur was a key's tone, and then the caller interrupts."""

    class Late(ScriptedRecogniser):
        async def transcribe(
            self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
        ) -> Transcript:
            first = not self.requests
            self.requests.append((len(pcm_8k) // 16, speculative))
            await asyncio.sleep(0.2 if first else 0.08)
            text, confidence = ("Okay.", 0.9) if first else ("No, wait.", 0.5)
            return Transcript(text, 0.0, confidence, 100.0)

    async def scenario(stage: Stage) -> None:
        stage.agent = stage.with_recogniser(Late([]))
        await stage.start(LONG)
        await stage.media.say(silence(1000))
        asyncio.get_running_loop().call_later(0.24, stage.agent.hear_key, "1")
        await stage.media.say(speech(200) + silence(100) + speech(400) + silence(1500))

    stage = play(scenario, [])
    assert [why.why for why in stage.of(OverlapDismissed)] == ["key"]  # type: ignore[attr-defined]
    assert [text.text for text in stage.of(CallerText)] == ["No, wait."]  # type: ignore[attr-defined]
