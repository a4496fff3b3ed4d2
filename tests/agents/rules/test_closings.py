"""Farewells end the caller's turn by their words: none of them is encouraged to go on."""

from __future__ import annotations

import asyncio
from statistics import median

import pytest
from tests.agents.pipeline.test_agent import Stage
from tests.agents.rules.conftest import Talk, brain_of

from cordboard.agent_api.agent import CallerPauses, CallerStopped
from cordboard.agents.pipeline.agent import PipelineAgent
from cordboard.config.schema import Config
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.state_machine import silence_for
from cordboard.speech.turns.text_clues import clue_of
from cordboard_testkit.fake_pipeline import ScriptedRecogniser
from cordboard_testkit.virtual_time import virtual_time

CLOSINGS = (
    "Thank you very much. Goodbye.",
    "Okay, thanks, bye.",
    "No thank you, goodbye.",
    "That's all, thank you.",
    "Bye bye.",
    "Thanks for your help, bye.",
    "Great, thank you, have a nice day.",
    "No, that's everything, thanks.",
    "All right then, goodbye.",
    "Cheers, bye now.",
)


def test_ten_closings_end_the_turn_by_their_words(config: Config) -> None:
    """The end-of-turn model takes every voice for unfinished, which is worth a wait of 1.25 s."""
    rules = config.contexts["demo"].rules

    class Desk(Stage):
        def with_recogniser(self, recogniser: ScriptedRecogniser) -> PipelineAgent:
            self.brain = brain_of(rules)  # type: ignore[assignment]
            return super().with_recogniser(recogniser)

    async def unfinished(pcm: bytes) -> float:
        await asyncio.sleep(0.05)
        return 0.01

    async def say(words: str) -> float:
        stage = Desk([words], turn_odds=unfinished)
        await stage.start()
        await stage.say(then=2000)
        await stage.agent.close()
        assert stage.sentences() == ["Goodbye."]
        assert stage.of(CallerPauses) == [], "it is encouraged to go on"
        (stopped,) = stage.of(CallerStopped)
        assert isinstance(stopped, CallerStopped)
        return stopped.at - stopped.last_speech_at

    async def say_all() -> list[float]:
        return [await say(words) for words in CLOSINGS]

    with virtual_time() as loop:
        waits = loop.run_until_complete(say_all())
    assert median(waits) <= 0.7, waits


@pytest.mark.parametrize(
    "words",
    [
        "See you later.", "See you tomorrow.", "See you on Friday.", "Talk to you later.",
        "Take care.", "Cheers then.", "Thanks, that's it.", "That will do, thank you.",
        "I'm all set.", "Have a lovely day.", "You have a good weekend.", "I have to go now.",
        "Great, thanks, see you later.",
    ],
)  # fmt: skip
async def test_ordinary_closings_end_the_call(demo: Talk, words: str) -> None:
    assert await demo.say(words) == "Goodbye."
    assert [name for name, _ in demo.asked] == ["hangup_call"]


async def test_what_only_sounds_like_a_closing_does_not(demo: Talk) -> None:
    for words in ("I have to go to Oslo, how is the weather?", "Later, please."):
        assert await demo.say(words) != "Goodbye."
    await demo.say("I want to buy a ticket.")
    assert "Shall I put you through to sales?" in await demo.say("That's it.")


def test_a_long_answer_may_still_have_a_tail(demo: Talk) -> None:
    words = "What is the weather in Boston?"
    clue = clue_of(words, complete=demo.dialogue.is_complete(words))
    assert silence_for(TurnProfile(), clue, 0.99) > TurnProfile().complete_silence_ms
