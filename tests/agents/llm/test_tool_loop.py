"""One answer with its tools, between a scripted model and tools of the test, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from tests.agents.llm.scripted_model import ScriptedModel, Table, told, wishes, words

from cordboard.agent_api.language_model import Finished, Kept, TextPiece, ToolWish
from cordboard.agents.llm.tool_loop import NOT_JSON, NOTHING_SAID, REFUSED
from cordboard.errors import BrainError
from cordboard_testkit.virtual_time import virtual_time


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with virtual_time() as loop:
        loop.run_until_complete(scene())
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks left behind: {left}"


def test_sentences_come_while_the_model_writes() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel(
            [TextPiece("Hello there. "), TextPiece("I "), 5.0, TextPiece("am."), Finished("stop")]
        )
        began = loop.time()
        times = [loop.time() - began async for _ in Table(model).dialogue.respond("hi")]
        assert times == [0.0, 5.0]

    run(scene)


def test_tools_run_side_by_side_and_their_results_go_back() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel(
            wishes(('{"place":"Oslo"}', "a"), ('{"place":"Rome"}', "b")), words("Both are sunny.")
        )
        table = Table(model, tool_seconds=2.0)
        began = loop.time()
        assert await table.say("how is it there") == ["Both are sunny."]
        assert loop.time() - began == 2.0
        assert table.most_at_once == 2
        assert told(model.requests[1].messages) == [
            "caller: how is it there",
            "agent:  [a] [b]",
            "tool a: ok Sunny in Oslo.",
            "tool b: ok Sunny in Rome.",
        ]
        assert [usage.amounts for usage in table.used] == [{}, {"output_text_tokens": 3.0}]

    run(scene)


def test_a_tool_runs_while_the_words_before_it_are_spoken() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel(
            wishes(('{"place":"Oslo"}', "a"), text="One moment."), words("It is sunny.")
        )
        table = Table(model, tool_seconds=3.0)
        began = loop.time()
        async with aclosing(table.dialogue.respond("weather")) as sentences:
            assert await anext(sentences) == "One moment."
            await asyncio.sleep(3.0)  # it is turned into sound
            assert await anext(sentences) == "It is sunny."
        assert loop.time() - began == 3.0

    run(scene)


@pytest.mark.parametrize("arguments", ["{not json", "[1]", '"text"'])
def test_bad_arguments_go_back_to_the_model(arguments: str) -> None:
    async def scene() -> None:
        model = ScriptedModel(
            wishes((arguments, "a")), wishes(('{"place":"Oslo"}', "b")), words("Sunny.")
        )
        table = Table(model)
        assert await table.say("weather") == ["Sunny."]
        assert table.asked == [("get_weather", {"place": "Oslo"})]
        second = model.requests[1].messages
        assert told(second)[-1] == f"tool a: refused {NOT_JSON}"
        assert second[-2].wishes[0].arguments == "{}"  # type: ignore[union-attr]

    run(scene)


def test_a_tool_that_does_not_exist_goes_back_to_the_model() -> None:
    async def scene() -> None:
        asks = [ToolWish("a", "fly", "{}"), Finished("tools")]
        model = ScriptedModel(asks, words("I cannot fly."))
        table = Table(model)
        assert await table.say("fly") == ["I cannot fly."]
        assert told(model.requests[1].messages)[-1] == "tool a: refused There is no such tool."

    run(scene)


def test_after_the_last_round_the_model_must_answer() -> None:
    async def scene() -> None:
        model = ScriptedModel(wishes(('{"place":"Oslo"}', "a")))
        table = Table(model, max_rounds=3)
        assert await table.say("weather") == [NOTHING_SAID]
        assert [request.may_ask for request in model.requests] == [True, True, True, False]
        assert len(table.asked) == 3

    run(scene)


def test_ids_that_are_missing_or_come_twice_are_told_apart() -> None:
    async def scene() -> None:
        asked = wishes(('{"place":"A"}', ""), ('{"place":"B"}', "x"), ('{"place":"C"}', "x"))
        model = ScriptedModel(asked, words("Done."))
        await Table(model).say("weather")
        answers = told(model.requests[1].messages)[2:]
        assert [line.split()[-1] for line in answers] == ["A.", "B.", "C."]
        assert len({line.split()[1] for line in answers}) == 3

    run(scene)


@pytest.mark.parametrize(
    ("reason", "said"), [("stop", NOTHING_SAID), ("refused", REFUSED), ("length", NOTHING_SAID)]
)
def test_an_empty_answer_is_no_silence(reason: Any, said: str) -> None:
    async def scene() -> None:
        assert await Table(ScriptedModel([Finished(reason)])).say("hi") == [said]

    run(scene)


def test_who_stops_reading_cancels_request_and_tools() -> None:
    async def scene() -> None:
        model = ScriptedModel(
            wishes(('{"place":"Oslo"}', "a"), text="One moment."), words("Never said.")
        )
        table = Table(model, tool_seconds=60.0)
        respond = table.dialogue.respond("weather")
        assert await anext(respond) == "One moment."
        await asyncio.sleep(1.0)
        await respond.aclose()
        assert table.cancelled == ["Oslo"]
        assert len(model.requests) == 1
        writing = ScriptedModel([TextPiece("A b. "), TextPiece("C "), 60.0, Finished("stop")])
        respond = Table(writing).dialogue.respond("hi")
        assert await anext(respond) == "A b."
        await respond.aclose()
        assert writing.given_up == 1

    run(scene)


def test_a_failure_comes_after_what_was_said_and_the_next_turn_goes_on() -> None:
    async def scene() -> None:
        lost = [TextPiece("I was saying. "), TextPiece("That"), BrainError("lost", "dropped")]
        model = ScriptedModel(lost, words("Back again."))
        table = Table(model)
        respond = table.dialogue.respond("hi")
        assert await anext(respond) == "I was saying."
        with pytest.raises(BrainError) as caught:
            await anext(respond)
        assert caught.value.kind == "dropped"
        assert await table.say("hello?") == ["Back again."]
        assert told(model.requests[1].messages) == [
            "caller: hi",
            "agent: I was saying.",
            "caller: hello?",
        ]

    run(scene)


def test_what_the_service_wants_back_goes_back_within_the_turn_only() -> None:
    async def scene() -> None:
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        asks = [Kept(thought), *wishes(('{"place":"Oslo"}', "a"))]
        model = ScriptedModel(asks, words("Sunny."), words("Bye."))
        table = Table(model)
        await table.say("weather")
        await table.say("bye")
        kept = [
            [block for m in request.messages for block in getattr(m, "kept", ())]
            for request in model.requests
        ]
        assert kept == [[], [thought], []]

    run(scene)


WRITTEN = 'Moment.\n```json\n{"name": "get_weather", "arguments": {"place": "Oslo"}}\n```'


def test_a_call_in_the_text_runs_and_is_not_spoken() -> None:
    async def scene() -> None:
        text = f"<think>They ask for Oslo.</think>{WRITTEN}"
        model = ScriptedModel(
            [*(TextPiece(character) for character in text), Finished("stop")],
            words("It is sunny."),
        )
        table = Table(model)
        assert await table.say("how is it there") == ["Moment.", "It is sunny."]
        assert told(model.requests[1].messages) == [
            "caller: how is it there",
            "agent: Moment. [own000001]",
            "tool own000001: ok Sunny in Oslo.",
        ]

    run(scene)


def test_a_written_call_of_a_tool_that_does_not_exist_is_refused() -> None:
    async def scene() -> None:
        model = ScriptedModel(words('CALL delete_all {"a": 1}'), words("I cannot."))
        table = Table(model)
        assert await table.say("delete it") == ["I cannot."]
        assert (
            told(model.requests[1].messages)[-1] == "tool own000001: refused There is no such tool."
        )

    run(scene)


def test_a_call_that_is_sent_and_written_runs_once() -> None:
    async def scene() -> None:
        wish = ToolWish("a", "get_weather", '{ "place":"Oslo" }')
        model = ScriptedModel([TextPiece(WRITTEN), wish, Finished("tools")], words("Sunny."))
        table = Table(model)
        assert await table.say("how is it there") == ["Moment.", "Sunny."]
        assert len(table.asked) == 1

    run(scene)


def test_what_a_cloud_reads_aloud_is_no_call() -> None:
    class Cloud(ScriptedModel):
        sends_calls = True

    async def scene() -> None:
        table = Table(Cloud(words('The note says {"name": "get_weather", "arguments": {}}.')))
        said = await table.say("what does the note say")
        assert "get_weather" in " ".join(said)
        assert table.asked == []

    run(scene)


def test_an_answer_of_thoughts_alone_is_not_silence() -> None:
    async def scene() -> None:
        table = Table(ScriptedModel(words("<think> I do not know.")))
        assert await table.say("hello") == [NOTHING_SAID]

    run(scene)


def test_a_written_call_in_the_last_round_is_neither_run_nor_spoken() -> None:
    async def scene() -> None:
        script = [TextPiece(WRITTEN), Finished("stop")]
        table = Table(ScriptedModel(script), max_rounds=1)
        assert await table.say("weather") == ["Moment.", "Moment."]
        assert len(table.asked) == 1

    run(scene)


def test_a_tools_own_sentence_is_spoken_instead_of_the_models() -> None:
    async def scene() -> None:
        model = ScriptedModel(wishes(('{"place":"Oslo"}', "a")), words("It rains."))
        table = Table(model, speak_results=True)
        assert await table.say("how is it there") == ["Sunny in Oslo."]
        assert len(model.requests) == 1
        await table.say("thanks")
        assert told(model.requests[1].messages)[-2:] == ["agent: Sunny in Oslo.", "caller: thanks"]

    run(scene)


def test_a_refusal_goes_back_to_a_model_whose_results_are_spoken() -> None:
    async def scene() -> None:
        refused = [ToolWish("a", "no_such_tool", "{}"), Finished("tools")]
        model = ScriptedModel(refused, words("I cannot do that."))
        table = Table(model, speak_results=True)
        assert await table.say("do it") == ["I cannot do that."]

    run(scene)


def test_a_service_that_pauses_again_and_again_leaves_no_caller_in_silence() -> None:
    async def scene() -> None:
        model = ScriptedModel([Kept({"type": "server_tool_use"}), Finished("paused")])
        table = Table(model, max_rounds=2)
        assert await table.say("search for it") == [NOTHING_SAID]
        assert len(model.requests) == 3

    run(scene)


def test_a_model_that_pauses_goes_on_where_results_are_spoken() -> None:
    """Anthropic's `pause_turn`: an answer without words and calls, to be sent back."""

    async def scene() -> None:
        model = ScriptedModel([Finished("paused")], words("I am back."))
        assert await Table(model, speak_results=True).say("hello") == ["I am back."]

    run(scene)
