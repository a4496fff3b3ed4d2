"""When another hearing of the same sound settles what was said, and when it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cordboard.agent_api.dialogue import Dialogue, DialogueSession, Doubt
from cordboard.agent_api.stt import Hypothesis, SpeechHints, Transcript
from cordboard.speech.second_pass import (
    AHEAD,
    TOLERANCE,
    WORTH_A_LOOK,
    Meant,
    listen_again,
    overheard,
    settle,
    worth_a_look,
)
from cordboard.tools.tool import JsonObject, ToolReply
from cordboard_testkit.fake_pipeline import FunctionDialogue

HEARD = "clouds over variance (?)"
NAMES = ("Oslo", "Vaernes", "Bergen")


def meant(*rows: tuple[str, float, str]) -> list[Meant]:
    return [Meant(Hypothesis(text, likelihood), meaning) for text, likelihood, meaning in rows]


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ([("over Vaernes", -3.0, "vaernes"), ("over variance", -3.4, "")], "over Vaernes"),
        ([("variance", -3.0, ""), ("Vaernes", -3.0 - TOLERANCE + 0.1, "v")], "Vaernes"),
        ([("variance", -3.0, ""), ("Vaernes", -3.0 - TOLERANCE - 0.1, "v")], None),
        ([("over variance", -3.0, "")], None),
        ([], None),
    ],
)  # fmt: skip
def test_a_name_is_taken_when_it_is_about_as_likely_as_what_was_written(
    heard: list[tuple[str, float, str]], text: str | None
) -> None:
    assert settle(meant(*heard), TOLERANCE) == text


def test_two_meanings_that_are_nearly_as_likely_settle_nothing() -> None:
    near = meant(("Berne", -5.0, ""), ("Bergen", -4.0, "bergen"), ("Boston", -4.5, "boston"))
    far = meant(("Bergen", -4.0, "bergen"), ("Boston", -4.1 - AHEAD, "boston"))
    assert settle(near, TOLERANCE) is None
    assert settle(far, TOLERANCE) == "Bergen"


def test_all_texts_of_a_meaning_speak_for_it_and_the_likeliest_is_taken() -> None:
    alone = meant(("variance", -3.0, ""), ("Vaernes?", -4.9, "v"))
    together = meant(
        ("variance", -3.0, ""),
        ("Vaernes?", -4.9, "v"),
        ("Vaernes", -4.8, "v"),
        ("vaernes", -5, "v"),
    )
    assert settle(alone, TOLERANCE) is None
    assert settle(together, TOLERANCE) == "Vaernes"


def test_only_texts_near_the_likeliest_are_looked_at() -> None:
    far = Hypothesis("c", -2.0 - WORTH_A_LOOK - 0.1)
    assert worth_a_look([Hypothesis("b", -3.0), far, Hypothesis("a", -2.0)]) == [
        Hypothesis("b", -3.0),
        Hypothesis("a", -2.0),
    ]
    assert worth_a_look([]) == []


def test_a_confusable_name_is_taken_for_the_known_one_only_where_it_is_likelier() -> None:
    newark, york = Hypothesis("to Newark", -3.0), Hypothesis("to New York", -3.9)
    assert overheard([newark, york], ["Newark"]) == "to Newark"
    assert overheard([newark, york, Hypothesis("into New York", -3.5)], ["Newark"]) is None
    assert overheard([york], ["Newark"]) is None
    assert overheard([], ["Newark"]) is None


class Doubting(FunctionDialogue):
    """In doubt whenever `(?)` was heard; knows three names, two of which sound alike."""

    def doubt(self, text: str) -> Doubt | None:
        if "New York" in text:
            return Doubt(("New York",), others=("Newark",))
        return Doubt(NAMES, alike=("Vaernes", "Bergen")) if "(?)" in text else None

    def meaning(self, text: str, doubt: Doubt) -> str:
        return next((name for name in doubt.names if name in text), "")


class Sound:
    """An utterance that gives other texts at each further hearing."""

    def __init__(self, *rounds: Sequence[tuple[str, float]]) -> None:
        self._rounds = list(rounds)
        self.primed: list[tuple[str, ...]] = []

    async def __call__(
        self, hints: SpeechHints, *, speculative: bool = False
    ) -> tuple[Hypothesis, ...]:
        self.primed.append(hints.phrases)
        return tuple(Hypothesis(*text) for text in self._rounds.pop(0))


async def no_tool(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
    raise AssertionError(name)


async def heard_again(
    sound: Sound | None, text: str = HEARD, dialogue: Dialogue | None = None
) -> str | None:
    if dialogue is None:
        dialogue = Doubting(DialogueSession("", (), no_tool), lambda *_: pytest.fail("answered"))
    transcript = Transcript(text, 0.0, 0.9, 90.0, listen_again=sound)
    return await listen_again(transcript, dialogue, speculative=False)


async def test_the_first_further_hearing_expects_all_names() -> None:
    sound = Sound([("clouds over Vaernes", -3.0), (HEARD, -3.1)])
    assert await heard_again(sound) == "clouds over Vaernes"
    assert sound.primed == [NAMES]


async def test_the_next_expects_only_those_that_sound_alike() -> None:
    sound = Sound([(HEARD, -3.0)], [("clouds over Bergen", -3.0), (HEARD, -3.1)])
    assert await heard_again(sound) == "clouds over Bergen"
    assert sound.primed == [NAMES, ("Vaernes", "Bergen")]


async def test_a_name_that_is_almost_another_is_told_from_it_in_one_hearing() -> None:
    sound = Sound([("to Newark", -3.0), ("to New York", -4.0)])
    assert await heard_again(sound, text="to New York") == "to Newark"
    assert sound.primed == [("New York", "Newark")]
    assert await heard_again(Sound([("to New York", -3.0)]), text="to New York") is None


async def test_what_nothing_settles_stays() -> None:
    assert await heard_again(Sound([(HEARD, -3.0)], [])) is None


async def test_nobody_listens_again_without_a_doubt_or_without_a_way_to() -> None:
    sound = Sound()
    assert await heard_again(sound, text="clouds over Oslo") is None
    assert await heard_again(sound, text="") is None
    assert await heard_again(None) is None
    assert sound.primed == []


async def test_a_brain_that_knows_no_doubt_is_not_asked() -> None:
    class Plain:
        def hints(self) -> tuple[str, ...]:
            return ()

        is_complete = understood = respond = interrupted = hints

    sound = Sound()
    assert await heard_again(sound, dialogue=Plain()) is None  # type: ignore[arg-type]
    assert sound.primed == []
