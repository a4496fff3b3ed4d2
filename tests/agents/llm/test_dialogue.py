"""A model's dialogue: what it is told of the conversation, and answers begun ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.agents.llm.scripted_model import ScriptedModel, Table, told, wishes, words

from cordboard.agent_api.agent import Said
from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Finished,
    Message,
    TextPiece,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.llm.messages import (
    CUT_NOTE,
    NOT_UNDERSTOOD,
    History,
    complete,
    cut_at,
)
from cordboard.tools.payload import DATA_NOTE
from cordboard_testkit.virtual_time import virtual_time


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with virtual_time() as loop:
        loop.run_until_complete(scene())
        loop.run_until_complete(asyncio.sleep(0))
        assert not asyncio.all_tasks(loop)


def test_the_model_is_told_prompt_style_and_that_data_is_data() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Hi."))
        await Table(model, greeting="Welcome.", spoken_style="Be short.").say("hello")
        request = model.requests[0]
        assert request.system == f"You are kind.\n\nBe short.\n\n{DATA_NOTE}"
        assert [tool.name for tool in request.tools] == ["get_weather"]
        assert told(request.messages) == ["agent: Welcome.", "caller: hello"]

    run(scene)


def test_it_goes_on_where_another_agent_stopped() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Yes."))
        said = (Said("agent", "Welcome."), Said("caller", "A table?"), Said("agent", "For two"))
        await Table(model, said=said).say("for three")
        assert told(model.requests[0].messages) == [
            "agent: Welcome.",
            "caller: A table?",
            "agent: For two",
            "caller: for three",
        ]

    run(scene)


def test_what_was_not_heard_was_not_said() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("We have fish. We have meat. We have soup."), words("Ok."))
        table = Table(model)
        await table.say("menu")
        table.dialogue.interrupted("We have fish. We")
        await table.say("fish")
        await table.say("thanks")
        assert told(model.requests[2].messages) == [
            "caller: menu",
            "agent: We have fish. We",
            f"caller: {CUT_NOTE}\nfish",
            "agent: Ok.",
            "caller: thanks",
        ]

    run(scene)


def test_an_answer_that_was_heard_to_its_end_was_not_cut() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("We have fish."), words("Ok."))
        table = Table(model)
        await table.say("menu")
        table.dialogue.interrupted("One moment please. We have fish.")
        await table.say("fish")
        assert told(model.requests[1].messages)[1:] == ["agent: We have fish.", "caller: fish"]

    run(scene)


def test_a_tool_that_was_interrupted_is_told_as_given_up() -> None:
    async def scene() -> None:
        model = ScriptedModel(
            wishes(('{"place":"Oslo"}', "a"), text="One moment."), words("Alright.")
        )
        table = Table(model, tool_seconds=60.0)
        respond = table.dialogue.respond("weather in Oslo")
        await anext(respond)
        await asyncio.sleep(1.0)
        table.dialogue.interrupted("One")  # as the call does, before the answer is closed
        await respond.aclose()
        await table.say("never mind")
        lines = told(model.requests[1].messages)
        assert lines[1] == "agent: One [a]"
        assert lines[2].startswith("tool a: cancelled")
        assert lines[3].endswith("\nnever mind")

    run(scene)


def test_words_that_could_not_be_understood_are_told_as_such() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Pardon?"))
        await Table(model).say("")
        assert told(model.requests[0].messages) == [f"caller: {NOT_UNDERSTOOD}"]

    run(scene)


def test_what_the_line_said_besides_is_known() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Fine."))
        table = Table(model)
        await table.say("hi")
        table.dialogue.said_besides("About your earlier request: it is booked.")
        await table.say("what?")
        assert told(model.requests[1].messages)[2] == (
            "agent: About your earlier request: it is booked."
        )

    run(scene)


# Begun ahead.


def test_an_answer_begun_ahead_is_there_when_the_turn_is_over() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel([2.0, TextPiece("Hello. "), Finished("stop")])
        table = Table(model)
        table.dialogue.prepare("hi there")
        began = loop.time()
        await asyncio.sleep(2.0)
        assert await table.say("hi there") == ["Hello."]
        assert loop.time() - began == 2.0
        assert len(model.requests) == 1
        await table.say("and")
        assert told(model.requests[1].messages) == [
            "caller: hi there",
            "agent: Hello.",
            "caller: and",
        ]

    run(scene)


def test_nothing_is_done_before_the_turn_is_sure() -> None:
    async def scene() -> None:
        model = ScriptedModel(wishes(('{"place":"Oslo"}', "a")), words("Sunny."))
        table = Table(model)
        table.dialogue.prepare("weather in Oslo")
        await asyncio.sleep(10.0)
        assert table.asked == []
        assert await table.say("weather in Oslo") == ["Sunny."]
        assert len(table.asked) == 1

    run(scene)


def test_of_what_was_begun_for_other_words_nothing_is_left() -> None:
    async def scene() -> None:
        model = ScriptedModel(
            [TextPiece("Wrong. "), 60.0, Finished("stop")], words("Right."), words("Bye.")
        )
        table = Table(model)
        table.dialogue.prepare("I want")
        await asyncio.sleep(1.0)
        assert await table.say("I want a table") == ["Right."]
        assert model.given_up == 1
        await table.say("bye")
        assert told(model.requests[2].messages) == [
            "caller: I want a table",
            "agent: Right.",
            "caller: bye",
        ]

    run(scene)


def test_who_goes_on_makes_it_forget() -> None:
    async def scene() -> None:
        model = ScriptedModel([60.0, Finished("stop")])
        table = Table(model)
        table.dialogue.prepare("I want")
        await asyncio.sleep(1.0)
        table.dialogue.forget()
        await asyncio.sleep(0.1)
        assert model.given_up == 1

    run(scene)


def test_what_was_begun_before_an_interruption_is_not_used() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("We have fish and meat."), words("Old."), words("New."))
        table = Table(model)
        await table.say("menu")
        table.dialogue.prepare("fish")
        await asyncio.sleep(1.0)
        table.dialogue.interrupted("We have")
        assert await table.say("fish") == ["New."]

    run(scene)


def test_it_can_be_turned_off() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Hello."))
        table = Table(model, eager=False)
        table.dialogue.prepare("hi")
        await asyncio.sleep(1.0)
        assert model.requests == []

    run(scene)


# The conversation itself.


def test_a_long_conversation_loses_its_oldest_turns_at_once() -> None:
    history = History("", (), most_turns=8, most_tokens=10_000)
    lengths = []
    for number in range(20):
        turn = history.turn(f"turn {number}")
        turn.messages.append(AgentSaid("ok"))
        history.add(turn)
        lengths.append(len([m for m in history.messages() if isinstance(m, CallerSaid)]))
    assert max(lengths) <= 8
    assert lengths[7:10] == [6, 7, 8]
    assert told(history.messages())[-2:] == ["caller: turn 19", "agent: ok"]


def test_a_large_conversation_loses_its_oldest_turns() -> None:
    history = History("", (), most_turns=1_000, most_tokens=1_000)
    for _ in range(10):
        turn = history.turn("x" * 1_000)
        history.add(turn)
    assert 1 <= len(history.messages()) <= 4


texts = st.text(alphabet="ab ,.", max_size=12)
wish_lists = st.lists(st.sampled_from("xyz"), max_size=3, unique=True)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = [CallerSaid(draw(texts))]
    for _ in range(draw(st.integers(0, 3))):
        ids = draw(wish_lists)
        asked = tuple(ToolWish(one, "t", "{}") for one in ids)
        messages.append(AgentSaid(draw(texts), asked))
        messages += [ToolAnswered(one, "t", {"status": "ok", "message": ""}) for one in ids]
    return messages


@given(turns(), texts)
def test_a_cut_turn_stays_whole(messages: list[Message], heard: str) -> None:
    """No wish without its answer, no answer without its wish, no words that were not said."""
    cut = cut_at(messages, heard)
    assert [m for m in cut if not isinstance(m, AgentSaid)] == [
        m for m in messages if not isinstance(m, AgentSaid)
    ]
    said = [m for m in messages if isinstance(m, AgentSaid)]
    left = [m for m in cut if isinstance(m, AgentSaid)]
    assert [m.wishes for m in left if m.wishes] == [m.wishes for m in said if m.wishes]
    for message in left:
        assert any(whole.text.startswith(message.text) for whole in said)
    assert cut_at(cut, heard) == cut


@given(turns(), st.integers(0, 10))
def test_a_broken_turn_is_made_whole(messages: list[Message], end: int) -> None:
    broken = messages[: 1 + end]
    complete(broken)
    wanted: list[str] = []
    for message in broken:
        if isinstance(message, AgentSaid):
            assert not wanted
            wanted = [wish.wish_id for wish in message.wishes]
        elif isinstance(message, ToolAnswered):
            wanted.remove(message.wish_id)
    assert not wanted


def test_a_note_is_in_the_next_request_as_the_operators_and_never_as_the_callers() -> None:
    async def scene() -> None:
        model = ScriptedModel(words("Hello."), words("Thursday?"))
        table = Table(model)
        await table.say("hi")
        assert table.dialogue.take_note("Offer Thursday.")
        await table.say("when?")
        first, second = model.requests[:2]
        assert second.system == f"{first.system}\n\nOffer Thursday."
        assert "Thursday" not in str(told(second.messages)[:3])

    run(scene)
