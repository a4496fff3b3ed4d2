"""A doubtful turn in a call: what is answered, what is told, what it costs. In virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.agents.pipeline.test_agent import Stage, play

from cordboard.agent_api.agent import CallerStopped, CallerText
from cordboard.errors import RecogniserError
from cordboard_testkit.fake_pipeline import ScriptedRecogniser

HEARD = "Clouds over variance (?)"


def listening_again(again: Sequence[str | Exception], level: int = 0) -> Stage:
    async def scenario(stage: Stage) -> None:
        stage.degradation.level = level
        stage.agent = stage.with_recogniser(ScriptedRecogniser([HEARD, HEARD], again=again))
        await stage.start()
        await stage.say()

    return play(scenario, [])


def told(stage: Stage) -> tuple[str, str]:
    (event,) = stage.of(CallerText)
    assert isinstance(event, CallerText)
    return event.text, event.understood


def test_what_a_second_hearing_settles_is_answered_and_told_beside_what_was_written() -> None:
    stage = listening_again(["Clouds over Oslo"])
    assert stage.sentences() == ["You said Clouds over Oslo"]
    assert told(stage) == (HEARD, "Clouds over Oslo")


def test_a_second_hearing_hides_in_the_pause_as_well() -> None:
    stage = listening_again(["Clouds over Oslo"])
    assert stage.time_of(CallerText) == stage.time_of(CallerStopped)


def test_a_second_hearing_that_fails_leaves_the_first() -> None:
    stage = listening_again([RecogniserError("worn out")])
    assert stage.sentences() == [f"You said {HEARD}"]
    assert told(stage) == (HEARD, "")


def test_a_recogniser_that_cannot_listen_again_is_enough() -> None:
    assert listening_again([]).sentences() == [f"You said {HEARD}"]


def test_under_overload_a_turn_is_still_listened_to_again_once_it_is_over() -> None:
    stage = listening_again(["Clouds over Oslo"], level=1)
    assert stage.sentences() == ["You said Clouds over Oslo"]
    assert stage.time_of(CallerText) > stage.time_of(CallerStopped)


def test_nobody_listens_again_under_much_overload() -> None:
    stage = listening_again(["Clouds over Oslo"], level=2)
    assert stage.sentences() == [f"You said {HEARD}"]
