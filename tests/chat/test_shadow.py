"""A draft that listens: what it gets of a live call, what it would do, and how that is compared."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.agent_api.agent import Said
from cordboard.agent_api.dialogue import DialogueSession
from cordboard.calls import events
from cordboard.chat.shadow import (
    Decision,
    LiveStory,
    LiveTurn,
    ShadowAgent,
    ToolDecision,
    compare,
    likeness,
)
from cordboard.privacy.redaction import Redactor
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import ToolReply

FIND = ToolDecision("find_order", {"number": 7})


def called(turn: int, ask_id: str, number: int, parent: str = "") -> events.ToolCalled:
    return events.ToolCalled(turn, ask_id, "find_order", "x", {"number": number}, parent)


def answered(ask_id: str) -> events.ToolAnswered:
    return events.ToolAnswered(ask_id, "find_order", "ok", "It is on its way.", 5, sent={"id": 7})


CALL = (
    events.Answering(0, "Good day."),
    events.Heard(1, "Where is order seven?", 1.0),
    called(1, "a", 7),
    called(1, "b", 7, parent="a"),
    answered("a"),
    events.Answering(1, "It is on its way."),
    events.Answering(1, "Anything else?"),
    events.Heard(2, "", 0.0),
    events.Heard(2, "No, thanks.", 1.0, understood="No thanks."),
    events.Answering(2, "Goodbye, and thank you"),
    events.BargedIn(2, "Goodbye"),
    events.Heard(3, "Hm", 1.0, said_by="human"),
    events.Ended("completed", "caller_hangup", 9_000),
)


def turns() -> list[LiveTurn]:
    story = LiveStory()
    return [turn for event in CALL if (turn := story.take(event)) is not None]


def test_the_turns_of_a_live_call() -> None:
    first, second = turns()
    assert first.heard == "Where is order seven?"
    assert first.history == (Said("agent", "Good day."),)
    assert first.decision == Decision((FIND,), "It is on its way. Anything else?")
    assert second.heard == "No thanks."
    assert second.history == (
        Said("agent", "Good day."),
        Said("caller", "Where is order seven?"),
        Said("agent", "It is on its way. Anything else?"),
    )
    assert second.decision == Decision((), "Goodbye")


class Draft:
    """A brain that asks for some orders, and says what it heard of them."""

    payload = PayloadLimits()

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers
        self.replies: list[ToolReply] = []
        self.sessions: list[DialogueSession] = []

    def open(self, session: DialogueSession) -> Draft:
        self.sessions.append(session)
        return self

    async def respond(self, text: str) -> AsyncGenerator[str, None]:
        for number in self.numbers:
            ask = self.sessions[-1].ask_tool("find_order", {"number": number})
            self.replies.append(await ask)
        yield "It is on its way."
        yield "Anything else, 4111 1111 1111 1111?"

    def hints(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, text: str) -> bool:
        return False

    def understood(self, text: str) -> str:
        return text

    def interrupted(self, heard: str) -> None:
        raise AssertionError("nothing of a draft is heard")


async def decided(draft: Draft, live: LiveTurn) -> Decision:
    agent = ShadowAgent(draft, "Be kind.", "Hi.", (), {}, Redactor(), lambda _: None)
    return await agent.decide(live)


async def test_the_draft_gets_live_replies_and_no_other_tool_runs() -> None:
    live, _ = turns()
    draft = Draft(7, 8)
    decision = await decided(draft, live)
    assert decision.tools == (FIND, ToolDecision("find_order", {"number": 8}))
    same, other = draft.replies
    assert (same.status, same.message, same.data) == ("ok", "It is on its way.", {"id": 7})
    assert (other.status, other.tries) == ("refused", 0)
    assert "the tool was not run" in other.message
    assert draft.sessions[0].history == live.history
    assert compare(live.decision, decision) == "other_tool"
    assert compare(live.decision, await decided(Draft(8), live)) == "other_arguments"
    assert compare(live.decision, await decided(Draft(7), live)) == "same"


@pytest.mark.parametrize(
    ("live", "draft", "verdict"),
    [
        (Decision(), Decision(), "same"),
        (Decision(words="Good day, Sir!"), Decision(words="good day sir"), "same"),
        (Decision(words="Good day."), Decision(words="We are closed."), "other_words"),
        (Decision((FIND,), "a"), Decision((), "a"), "other_tool"),
        (Decision((FIND, FIND)), Decision((FIND,)), "other_tool"),
        (
            Decision((ToolDecision("a", {"x": 1, "y": 2}), ToolDecision("b"))),
            Decision((ToolDecision("b"), ToolDecision("a", {"y": 2, "x": 1}))),
            "same",
        ),
        (Decision((FIND,)), Decision((ToolDecision("find_order", {"number": 2**70}),)),
         "other_arguments"),
    ],
)  # fmt: skip
def test_decisions_are_compared(live: Decision, draft: Decision, verdict: str) -> None:
    assert compare(live, draft) == verdict


@given(st.text(), st.text())
def test_likeness_is_a_part(one: str, other: str) -> None:
    assert 0 <= likeness(one, other) <= 1
    assert likeness(one, one) == 1
