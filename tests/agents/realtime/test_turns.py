"""Whatever a service reports, in whatever order: the call gets events that make sense."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentSession,
    AgentText,
    AgentWords,
    CallerStopped,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agents.realtime import turns as talk_module
from cordboard.agents.realtime.turns import Turns
from cordboard.audio.format import ULAW_8K
from cordboard_testkit.virtual_time import virtual_time


class Stage:
    """Implements `turns.Stage` and `EngineSentences`; its playout is heard at once, or never."""

    def __init__(self, *, speaking: bool, given: Speech | None) -> None:
        self.events: list[AgentEvent] = []
        self.asks_at: list[int] = []
        self.ignored_words: list[str] = []
        self._given = given
        session = AgentSession("call", "demo", "", "", (), ULAW_8K, self.emit, lambda: speaking)
        self.talk = Turns(session, "plain", self, self)

    def emit(self, event: AgentEvent) -> None:
        self.events.append(event)
        self.asks_at.append(len(self.talk.asks))

    def ignored(self, why: str, detail: str = "") -> None:
        self.ignored_words.append(why)

    def answer_begins(self) -> Speech | None:
        return None

    def begins(self, speech: Speech) -> bool:
        given, self._given = self._given, None
        return given is not None

    def settled(self) -> None:
        """Nobody waits for it here."""


IDS = st.sampled_from(["a", "b"])
FILLER = Speech("One moment.", "filler")
REPORTS = st.lists(
    st.one_of(
        st.tuples(st.just("caller_started"), st.none() | st.floats(0, 2000)),
        st.tuples(st.just("caller_stopped"), st.none() | st.floats(0, 2000)),
        st.tuples(st.just("caller_text"), st.sampled_from(["", "Hello."]), st.none()),
        st.tuples(st.just("agent_words"), st.sampled_from(["", "well ", "one moment"])),
        st.tuples(st.just("agent_sound"), st.binary(max_size=4), IDS),
        st.tuples(st.just("waiting_sound"), st.binary(min_size=1, max_size=4)),
        st.tuples(st.just("agent_speech"), st.sampled_from([FILLER, None])),
        st.tuples(st.just("answer_done")),
        st.tuples(st.just("answer_broke")),
        st.tuples(st.just("cut")),
        st.tuples(st.just("cut_by_call")),
        st.tuples(st.just("lost")),
        st.tuples(st.just("hold")),
        st.tuples(st.just("release")),
        st.tuples(st.just("tool_asked"), IDS, st.just("book"), st.just({})),
        st.tuples(st.just("tool_cancelled"), IDS),
        st.tuples(st.just("tool_answered"), IDS),
        st.tuples(st.just("notice_silence"), st.floats(0, 5000), st.floats(0, 5000)),
        st.tuples(st.just("given_up")),
    ),
    max_size=40,
)  # fmt: skip


def play(reports: list[tuple[object, ...]], speaking: bool, given: Speech | None) -> Stage:
    async def scenario() -> Stage:
        stage = Stage(speaking=speaking, given=given)
        for name, *values in reports:
            getattr(stage.talk, str(name))(*values)
            await asyncio.sleep(0.01)
        stage.talk.release()
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(scenario())


SILENT_UNDER_AN_ANSWER: list[tuple[object, ...]] = [
    ("caller_started", None),
    ("agent_sound", b"\0", "a"),
    ("notice_silence", 1011.0, 0.0),
    ("agent_sound", b"\0", "a"),
]
"""The service does not say that the caller has stopped, and answers."""


@given(REPORTS, st.booleans(), st.none() | st.just(FILLER))
@example(SILENT_UNDER_AN_ANSWER, False, None)
def test_the_events_make_sense(
    reports: list[tuple[object, ...]], speaking: bool, given: Speech | None
) -> None:
    stage = play(reports, speaking, given)
    open_turn: int | None = None
    turns: list[int] = []
    asked: set[str] = set()
    for event, asks in zip(stage.events, stage.asks_at, strict=True):
        match event:
            case AgentText(turn):
                open_turn = turn
            case AgentWords(turn) | AgentAudio(turn):
                assert turn == open_turn, "sound and words belong to a sentence that was begun"
            case AgentAudioDone():
                assert asks == 0 or any(name == "hold" for name, *_ in reports)
                open_turn = None
            case Interrupted():
                assert speaking, "what is not heard cannot be cut"
            case CallerStopped(turn, last, at):
                assert last <= at
                turns.append(turn)
            case CallerText(turn):
                assert turn in turns, "who said something has begun and stopped"
            case ToolAsked(ask):
                assert ask.ask_id not in asked, "no tool is run twice for one call of the model"
                asked.add(ask.ask_id)
            case ToolCancelled(ask_id):
                assert ask_id in asked
    assert turns == sorted(set(turns))


def test_what_is_held_too_long_is_told_of_once_and_a_cut_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(talk_module, "MAX_HELD_BYTES", 320)

    async def scenario() -> Stage:
        stage = Stage(speaking=False, given=None)
        stage.talk.hold()
        for _ in range(9):
            stage.talk.agent_sound(bytes(160), "a")
        assert stage.ignored_words == ["too_much"]
        stage.talk.cut()
        stage.talk.agent_sound(bytes(160), "b")
        stage.talk.release()
        return stage

    with virtual_time() as loop:
        stage = loop.run_until_complete(scenario())
    assert sum(len(e.pcm) for e in stage.events if isinstance(e, AgentAudio)) == 160
    assert stage.ignored_words == ["too_much"]


@pytest.mark.parametrize("whole", [True, False])
def test_half_an_answer_that_waits_is_not_heard_when_the_connection_is_lost(whole: bool) -> None:
    """The next connection gives it from its beginning."""

    async def scenario() -> Stage:
        stage = Stage(speaking=True, given=None)
        stage.talk.owes = True
        stage.talk.hold()
        stage.talk.agent_words("The table is booked.")
        stage.talk.agent_sound(bytes(160), "a")
        if whole:
            stage.talk.answer_done()
        stage.talk.lost()
        stage.talk.release()
        return stage

    with virtual_time() as loop:
        stage = loop.run_until_complete(scenario())
    kinds = [AgentText, AgentWords, AgentAudio, AgentAudioDone] if whole else []
    assert [type(event) for event in stage.events] == kinds
    assert stage.talk.owes != whole


def test_a_late_answer_that_the_caller_cuts_before_it_is_heard_is_not_lost() -> None:
    """The service tells it while the engine speaks, so it waits; the caller takes the floor."""
    late = Speech("About your earlier request: it is booked.", "late answer")

    class Telling(Stage):
        def answer_begins(self) -> Speech | None:
            return late

    async def scenario() -> Stage:
        stage = Telling(speaking=True, given=None)
        stage.talk.hold()
        stage.talk.agent_words("By the way, it is booked.")
        stage.talk.cut()
        stage.talk.release()
        return stage

    with virtual_time() as loop:
        stage = loop.run_until_complete(scenario())
    assert not [event for event in stage.events if isinstance(event, AgentText)]
    assert late.state is SpeechState.DROPPED


def test_a_late_answer_that_breaks_off_with_the_connection_was_not_heard() -> None:
    late = Speech("About your earlier request: it is booked.", "late answer")

    class Telling(Stage):
        def answer_begins(self) -> Speech | None:
            return late

    async def scenario() -> Stage:
        stage = Telling(speaking=True, given=None)
        stage.talk.owes = True  # the service has taken it
        stage.talk.agent_words("By the way,")
        late.begin()  # by the call
        stage.talk.lost()
        return stage

    with virtual_time() as loop:
        stage = loop.run_until_complete(scenario())
    assert late.state is SpeechState.CUT
    assert not stage.talk.owes, "the next connection would tell it a second time"
