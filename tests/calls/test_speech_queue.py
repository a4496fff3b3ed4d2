"""What may be said now, and what becomes of it: the floor and the speech queue, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from cordboard.agent_api.speech import Purpose, Speech, SpeechState
from cordboard.calls.floor import TAIL_MS, Floor, Owed
from cordboard.calls.speech_queue import APART, SpeechOutlets, SpeechQueue
from cordboard_testkit.virtual_time import virtual_time

PURPOSES: tuple[Purpose, ...] = (
    "filler",
    "continuer",
    "question",
    "approval",
    "late answer",
    "reprompt",
    "farewell",
    "apology",
)


class Line:
    """A conversation around a speech queue: its agent speaks when it is told to."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.floor = Floor()
        self.said: list[tuple[str, float]] = []
        self.handed: list[Speech] = []
        self.states: dict[Speech, list[SpeechState]] = {}
        self.speaks_until = 0.0
        self.fillers = 0
        self.queue = SpeechQueue(
            self.floor, SpeechOutlets(self._speak, self._queued_ms, self._filled)
        )

    def sentence(self, text: str, purpose: Purpose = "filler") -> Speech:
        def note(speech: Speech) -> None:
            self.states.setdefault(speech, []).append(speech.state)

        return Speech(text, purpose, note)

    def wants(self, text: str) -> Speech:
        """A slow tool wants its filler said."""
        speech = self.sentence(text)
        self.queue.say_in_silence(speech)
        return speech

    def says(self, text: str, purpose: Purpose) -> Speech:
        speech = self.sentence(text, purpose)
        self.queue.say(speech)
        return speech

    def _speak(self, speech: Speech) -> None:
        self.handed.append(speech)
        self.said.append((speech.text, round(self._loop.time() - 1000, 2)))

    def _queued_ms(self) -> int:
        return max(0, round((self.speaks_until - self._loop.time()) * 1000))

    def _filled(self) -> None:
        self.fillers += 1


def play(scenario: Callable[[Line], Awaitable[None]]) -> Line:
    async def run() -> Line:
        line = Line()
        await scenario(line)
        line.queue.end()
        return line

    with virtual_time() as loop:
        return loop.run_until_complete(run())


# The fillers of slow tools


def test_when_a_tools_filler_is_said_and_when_not() -> None:
    async def scenario(line: Line) -> None:
        loop = asyncio.get_running_loop()
        line.wants("a")
        assert line.wants("too soon").state is SpeechState.DROPPED
        await asyncio.sleep(APART)
        line.speaks_until = loop.time() + 1
        line.wants("b")  # waits for the agent's voice, and some silence after it
        await asyncio.sleep(1 + APART + 0.1)
        assert line.said == [("a", 0.0), ("b", APART + 1 + APART)]

        await asyncio.sleep(APART)
        line.floor.caller_started(0)
        line.wants("c")
        await asyncio.sleep(5)
        line.floor.caller_stopped(1)
        line.queue.look()
        assert line.said[-1][0] == "c", "as soon as the caller has finished"

        await asyncio.sleep(APART)
        line.floor.caller_is_asked = True
        answered = line.wants("d")
        line.queue.withdraw(answered)
        assert answered.state is SpeechState.DROPPED
        line.floor.caller_is_asked = False
        line.queue.look()
        line.speaks_until = loop.time() + 1
        ending = line.wants("e")
        line.queue.begin_farewell()
        await asyncio.sleep(10)
        assert ending.state is SpeechState.DROPPED
        assert [text for text, _ in line.said] == ["a", "b", "c"]

    assert play(scenario).fillers == 3


def test_a_tools_filler_waits_after_one_of_the_silence_watchs() -> None:
    async def scenario(line: Line) -> None:
        line.says("Let me see.", "filler")
        await asyncio.sleep(0.5)
        line.wants("I look it up.")
        await asyncio.sleep(10)
        assert line.said == [("Let me see.", 0.0), ("I look it up.", APART)]

    play(scenario)


# The judge


def test_while_the_call_ends_only_its_farewell_is_said() -> None:
    async def scenario(line: Line) -> None:
        line.queue.begin_farewell()
        for purpose in PURPOSES:
            line.says(purpose, purpose)
        assert [text for text, _ in line.said] == ["farewell", "apology"]

    play(scenario)


def test_after_the_farewell_nothing_else_is_heard() -> None:
    async def scenario(line: Line) -> None:
        late = line.says("One moment.", "filler")
        line.queue.begin_farewell()
        assert line.queue.begins(None), "what the agent is saying is heard out"
        goodbye = line.says("Goodbye.", "farewell")
        assert line.queue.begins(goodbye)
        assert not line.queue.begins(None)
        assert line.queue.silenced
        assert not line.queue.begins(late)
        assert late.state is SpeechState.DROPPED
        assert line.queue.begins(line.says("Sorry.", "apology"))

    play(scenario)


def test_a_question_does_not_talk_into_another_question() -> None:
    async def scenario(line: Line) -> None:
        line.floor.caller_is_asked = True
        assert line.says("Your number?", "question").state is SpeechState.DROPPED
        assert line.says("Yes or no?", "approval").state is SpeechState.QUEUED

    play(scenario)


def test_the_end_of_a_filler_is_not_the_end_of_the_answer() -> None:
    async def scenario(line: Line) -> None:
        line.floor.caller_started(0)
        assert line.floor.caller_stopped(1)
        line.queue.begins(line.says("One moment.", "filler"))
        assert line.queue.ends_before_answer()
        line.floor.caller_is_asked = True
        line.queue.begins(line.says("Shall I?", "approval"))
        assert not line.queue.ends_before_answer()
        line.floor.caller_answered()
        line.floor.caller_is_asked = False
        assert line.queue.ends_before_answer(), "the rest of it was still in the making"
        line.queue.begins(None)
        assert not line.queue.ends_before_answer()
        line.queue.begins(line.says("About earlier: yes.", "late answer"))
        assert line.queue.current is None, "it counts as the agent's own"

    play(scenario)


def test_an_agent_may_have_a_filler_of_its_own() -> None:
    async def scenario(line: Line) -> None:
        assert line.queue.begins(Speech("One moment please.", "filler"))
        assert line.fillers == 1

    play(scenario)


DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(PURPOSES)),
        st.tuples(st.just("wants"), st.none()),
        st.tuples(st.just("withdraw"), st.integers(0, 5)),
        st.tuples(st.just("begins"), st.integers(-1, 5)),
        st.tuples(st.just("heard"), st.integers(0, 5)),
        st.tuples(st.just("cut"), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("caller"), st.sampled_from(["starts", "stops", "asked", "answers"])),
        st.tuples(st.just("sound"), st.floats(0, 3)),
        st.tuples(st.just("wait"), st.floats(0, 5)),
        st.tuples(st.just("farewell"), st.none()),
    ),
    max_size=40,
)


def meets(line: Line, what: str, place: int) -> None:
    """Something becomes of a sentence that the agent has."""
    chosen = [speech for speech in line.handed if not speech.over][place : place + 1]
    if what == "begins":
        line.queue.begins(chosen[0] if chosen and place >= 0 else None)
    for speech in chosen if place >= 0 else ():
        {"heard": speech.finish, "cut": speech.cut, "drop": speech.drop}.get(what, int)()


def turns(line: Line, what: str) -> None:
    """Something happens to the floor."""
    match what:
        case "starts":
            line.floor.caller_started(0)
        case "stops":
            line.floor.caller_stopped(line.floor.turn + 1)
        case _:
            line.floor.caller_is_asked = what == "asked"
    line.queue.look()


async def do(line: Line, what: str, value: object, made: list[Speech]) -> None:
    match what, value:
        case "say", str(purpose):
            made.append(line.sentence("x", purpose))  # type: ignore[arg-type]
            before = len(line.said)
            line.queue.say(made[-1])
            assert made[-1].ends_call or not line.floor.ending or len(line.said) == before
        case "wants", _:
            made.append(line.wants("slow"))
        case "withdraw", int(place):
            for speech in made[place : place + 1]:
                line.queue.withdraw(speech)
        case "caller", str(does):
            turns(line, does)
        case "sound", float(seconds):
            line.speaks_until = asyncio.get_running_loop().time() + seconds
        case "wait", float(seconds):
            await asyncio.sleep(seconds)
        case "farewell", _:
            line.queue.begin_farewell()
        case _, int(place):
            meets(line, what, place)


@given(DOINGS)
def test_every_sentence_ends_once_and_a_tools_filler_talks_over_nothing(
    doings: list[tuple[str, object]],
) -> None:
    made: list[Speech] = []

    async def scenario(line: Line) -> None:
        speak = line._speak

        def checked(speech: Speech) -> None:
            if speech.text == "slow":
                assert line.floor.free
                assert line._queued_ms() == 0
            speak(speech)

        line.queue._outlets = SpeechOutlets(checked, line._queued_ms, line._filled)
        for what, value in doings:
            await do(line, what, value, made)

    line = play(scenario)
    allowed = {
        (SpeechState.DROPPED,),
        (SpeechState.BEGUN, SpeechState.HEARD),
        (SpeechState.BEGUN, SpeechState.CUT),
    }
    for speech in made:
        assert tuple(line.states[speech]) in allowed


# The floor


def test_an_answer_is_owed_until_it_is_given() -> None:
    floor = Floor()
    floor.caller_started(0)
    assert floor.caller_stopped(1)
    assert (floor.owed, floor.turn, floor.asked) == (Owed.ANSWER, 1, True)
    assert floor.answering(1)
    assert not floor.answering(1), "a further sentence of it"
    assert floor.owed is Owed.SPEECH
    floor.answer_done(0)
    assert floor.owed is Owed.SPEECH, "the end of an older answer"
    floor.answer_done(1)
    assert floor.owed is Owed.NOTHING


def test_a_greeting_is_owed_unless_the_agent_has_begun() -> None:
    floor = Floor()
    floor.greets()
    assert (floor.owed, floor.asked) == (Owed.ANSWER, False)
    floor = Floor()
    floor.answering(0)
    floor.answer_done(0)
    floor.greets()
    assert floor.owed is Owed.NOTHING


def test_a_murmur_under_our_voice_wants_no_answer_unless_it_cuts_in() -> None:
    floor = Floor()
    floor.caller_started(TAIL_MS + 1)
    assert not floor.caller_stopped(1)
    assert floor.owed is Owed.NOTHING
    assert floor.caller_cut_in(), "it was an interruption after all"
    assert floor.owed is Owed.ANSWER
    floor.caller_started(TAIL_MS)
    assert not floor.certain
    assert floor.caller_stopped(2)
    assert not floor.gives_up_answer()
    assert floor.owed is Owed.NOTHING


def test_a_turn_without_words_is_owed_nothing() -> None:
    floor = Floor()
    floor.caller_started(0)
    floor.caller_stopped(1)
    floor.caller_text(1, "")
    assert floor.owed is Owed.NOTHING
    assert floor.answering(1), "until the agent speaks after all"
    assert floor.owed is Owed.SPEECH


def test_the_tail_of_an_older_answer_does_not_answer_the_new_turn() -> None:
    floor = Floor()
    floor.caller_started(0)
    floor.caller_stopped(2)
    assert not floor.answering(1)
    assert floor.owed is Owed.ANSWER
