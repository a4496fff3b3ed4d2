"""Whatever agents tell, in whatever order, and wherever they are lost: the call hears of one agent
whose turns never go back, whose asks have names of their own, and nothing is raised."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerPauses,
    CallerStarted,
    CallerStopped,
    CallerText,
    CallerWaits,
    Interrupted,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agent_api.speech import Speech
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import Status, ToolAsk, ToolReply
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.virtual_time import virtual_time

Step: TypeAlias = AgentEvent | str | float


class Odd(FakeAgent):
    """Takes any answer, has a format of its own."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self._rate = rate

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (AudioFormat("slin", self._rate),)

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    def answer_tool(self, reply: ToolReply) -> None:
        self.replies.append(reply)


turns = st.integers(0, 3)
names = st.sampled_from(["1.1", "1.2", "call_1", "earlier:1.1", "1:1.1", ""])
words = st.sampled_from(["", "Yes.", "One moment please.", "Are you there?"])
EVENTS = st.one_of(
    st.builds(CallerStarted, st.floats(0, 2000)),
    st.builds(CallerStopped, turns, st.just(0.0), st.just(0.0)),
    st.builds(CallerPauses, st.just(0.0), st.just(0.0)),
    st.builds(CallerWaits, st.just(0.0)),
    st.builds(CallerText, turns, words, st.just(0.0)),
    st.builds(AgentText, turns, words, st.just(0.0)),
    st.builds(AgentWords, turns, words),
    st.builds(AgentAudio, turns, st.sampled_from([b"", b"\1", bytes(320), bytes(959)])),
    st.builds(AgentAudioDone, turns),
    st.builds(Interrupted, st.just(0.0)),
    st.builds(ToolCancelled, names),
    st.builds(
        lambda ask_id, turn: ToolAsked(ToolAsk(ask_id, "book", {"a": 1}, turn)), names, turns
    ),
    st.builds(AgentFailed, st.just("lost"), st.just("dropped")),
)
ASKS = st.builds(lambda ask_id: ToolAsked(ToolAsk(ask_id, "book", {"a": 1}, 1)), names)
LOSSES = st.builds(AgentFailed, st.just("lost"), st.just("dropped"))
DOINGS = st.sampled_from(["hear", "key", "say", "fill", "answer", "late", "cut", "aside", "stall"])
STEPS = st.lists(
    st.one_of(EVENTS, EVENTS, ASKS, LOSSES, DOINGS, st.sampled_from([0.01, 1.0])), max_size=60
)


def do(agent: FallbackAgent, what: str, told: list[AgentEvent]) -> None:
    asked = [event.ask.ask_id for event in told if isinstance(event, ToolAsked)]
    reply = ToolReply(asked[-1] if asked else "1.1", "book", Status.OK, "Booked.")
    match what:
        case "hear":
            for _ in range(30):
                agent.hear(bytes(320))
        case "key":
            agent.hear_key("5")
        case "say":
            agent.say(Speech("Are you there?", "reprompt"))
        case "fill":
            agent.say(Speech("One moment please.", "filler"))
        case "answer":
            agent.answer_tool(reply)
        case "late":
            agent.say(Speech("About your earlier request: booked.", "late answer"))
        case "cut":
            agent.interrupted("Yes.", 200, 1)
        case "aside":
            agent.listen_aside(lambda _: None)
        case "stall":
            agent.recover("nothing came")


async def play(steps: list[Step]) -> tuple[list[AgentEvent], dict[str, Odd]]:
    odd: dict[str, Odd] = {}
    told: list[AgentEvent] = []

    def open_agent(provider: str) -> Odd:
        return odd.setdefault(provider, Odd({"a": 8000, "b": 24_000, "c": 16_000}[provider]))

    agent = FallbackAgent(open_agent, ("a", "b", "c"), "One moment please.")
    session = AgentSession(
        "call", "demo", "Be kind.", "Hello.", (), SLIN_8K, told.append, lambda: False
    )
    await agent.start(session)
    for step in steps:
        if isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, str):
            do(agent, step, told)
        else:
            at_work = list(odd.values())[-1]
            if at_work.session is not None:
                at_work.session.emit(step)
    await asyncio.sleep(1)
    await agent.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left
    return told, odd


ONE = ToolAsked(ToolAsk("1.1", "book", {"a": 1}, 0))
LOST = AgentFailed("lost", "dropped")


def asked_as(ask_id: str) -> ToolAsked:
    return ToolAsked(replace(ONE.ask, ask_id=ask_id))


@settings(max_examples=150, deadline=None)
@given(STEPS)
@example([ONE, LOST, 0.01, asked_as("earlier:1.1")])
@example([asked_as("1:1.1"), LOST, 0.01, ONE])
def test_the_call_hears_of_one_agent(steps: list[Step]) -> None:
    with virtual_time() as loop:
        told, odd = loop.run_until_complete(play(steps))
    losses = [at for at, event in enumerate(told) if isinstance(event, AgentFailed)]
    assert len(losses) <= sum(isinstance(step, AgentFailed) for step in steps)
    assert all(agent.closed for agent in odd.values())
    assert all(agent.problem is None for agent in odd.values())
    highest, seen = 0, 0
    asks: list[set[str]] = [set()]
    for event in told:
        if isinstance(event, AgentTrouble):
            highest = seen
            asks.append(set())
        elif isinstance(event, ToolAsked):
            asks[-1].add(event.ask.ask_id)
            assert event.ask.turn >= highest
        elif isinstance(event, CallerStopped | CallerText | AgentText | AgentAudioDone):
            assert event.turn >= highest, "an agent that took over went back behind the others"
            seen = max(seen, event.turn)
    for one, other in combinations(asks, 2):
        assert not one & other, "two agents asked by one name"
