"""The behaviour matrix: what a caller and an operator may expect, of every provider alike.

Each behaviour is one call per provider, all at the same time, through the real Asterisk with SIP
phones; the services are strict emulators, and none may have had anything to refuse. With
`CORDBOARD_MATRIX` set, the outcomes are written to that file: the table in `docs/providers.md` is
made of it (`make matrix`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pytest

from cordboard.agent_api.provider import tool_user
from cordboard.calls.events import (
    AgentUsed,
    Answering,
    AudioStarted,
    BargedIn,
    Heard,
    LedgerEvent,
    ToolAnswered,
    ToolCalled,
    ToolFiller,
    Trouble,
)
from cordboard.config.plugins import installed
from cordboard.tools.payload import bytes_before_data, cap
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import RATE, SPEECH_LEVEL

from .conftest import Caller
from .services import (
    BRIDGE,
    FILLER,
    GREETING,
    SERVICES,
    SLOW_SECONDS,
    STORY,
    Desk,
    desks,
    failed,
    tool,
)

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

ALL = tuple(SERVICES)
REMOTE = tuple(name for name in ALL if name != "local")
ASK = "What are your opening times?"
ORDER = "Please send my order."
RUNWAY = "Runway two seven is in use."
PAID: dict[str, set[str]] = {"hybrid": {"deepgram", "openai_chat", "elevenlabs"}, "local": set()}
"""Who is paid, where that is not the provider itself."""
MATRIX: dict[str, dict[str, str]] = {}

Event = TypeVar("Event", bound=LedgerEvent)
Behaviour = Callable[[Desk], Awaitable[None]]


async def for_each(
    title: str,
    open_hotline,
    behaviour: Behaviour,
    script: Callable[[str], Script] = lambda _: Script(),
    names: tuple[str, ...] = ALL,
    instead: str = "",
) -> None:
    """Play a behaviour with these providers at the same time. `instead`: why not with the rest."""
    row = MATRIX.setdefault(title, {name: instead for name in ALL if name not in names})
    problems: list[str] = []

    async def one(desk: Desk) -> None:
        try:
            await behaviour(desk)
            assert desk.service.violations() == [], "the service had something to refuse"
        except Exception as problem:  # noqa: BLE001 - every provider has an outcome of its own
            row[desk.name] = failed(problem)
            problems.append(f"{desk.name}: {problem}\n{latest(desk)}")
        else:
            row[desk.name] = "yes"

    try:
        async with desks(open_hotline, script, names) as opened:
            await asyncio.gather(*(one(desk) for desk in opened.values()))
            hotline = next(iter(opened.values())).hotline
            hotline.hang_up_all()
            await hotline.idle()
    finally:
        if path := os.environ.get("CORDBOARD_MATRIX"):
            Path(path).write_text(json.dumps(MATRIX, indent=1) + "\n")
    assert not problems, "\n".join(problems)


def latest(desk: Desk) -> str:
    """The end of the ledgers of a desk's calls, and what its service has refused."""
    names = {c for c, _, e in desk.hotline.events if f"desk_{desk.name}" in str(e)}
    events = [f"  {at} {e}" for c, at, e in desk.hotline.events if c in names]
    log = [f"  {line}" for line in desk.hotline.log if line.get("call_id") in names]
    return "\n".join([*events[-14:], f"  refused: {desk.service.violations()}", *log[-12:]])


async def hung_up(caller, outcome: str = "completed"):
    """The caller hangs up; what the ledger says of the call."""
    caller.line.hangup()
    history = await caller.history()
    assert history.outcome == outcome, (history.outcome, history.reason, history.troubles)
    return history


def of(desk: Desk, call_id: str, kind: type[Event]) -> list[Event]:
    """The call's events of a kind, in order."""
    events = [event for name, _, event in desk.hotline.events if name == call_id]
    return [event for event in events if isinstance(event, kind)]


def said(desk: Desk, call_id: str, turn: int) -> str:
    """What the agent said in a turn, as the ledger has it."""
    return " ".join(e.text for e in of(desk, call_id, Answering) if e.turn == turn)


def heard_seconds(caller: Caller, since: float = -math.inf) -> float:
    """How long the caller heard somebody: so much sound came, however late."""
    parts = caller.line.utterances_heard(since)
    loud = [np.flatnonzero(np.abs(part.astype(int)) > SPEECH_LEVEL) for part in parts]
    return sum(float(at[-1] - at[0]) for at in loud) / RATE


def slowly(name: str) -> Script:
    """The model asks for the slow tool."""
    use = Use(tool("slow", name), {"seconds": SLOW_SECONDS})
    return Script((Answer(asks=(use,), heard=ORDER),))


def took_words(desk: Desk, words: str, heard: str) -> None:
    """What is in the ledger is what was understood; a recogniser may write it its own way."""
    if desk.name == "local":
        words, heard = (re.sub(r"[^a-z ]", "", text.lower()) for text in (words, heard))
    assert heard == words


async def test_greeting(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        assert heard_seconds(caller) > 0.6, "not to its end"
        await hung_up(caller)
        assert said(desk, await caller.call_id(), 0) == GREETING

    await for_each("greeting", open_hotline, behaviour)


async def test_a_tool_call(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ASK)
        answered = await caller.event(ToolAnswered)
        assert (answered.status, answered.message) == ("ok", RUNWAY)
        await hung_up(caller)
        call_id = await caller.call_id()
        assert said(desk, call_id, 1) == RUNWAY
        assert len(of(desk, call_id, ToolCalled)) == 1
        (heard,) = of(desk, call_id, Heard)
        took_words(desk, ASK, heard.text)
        used = {used.provider for used in of(desk, call_id, AgentUsed)}
        assert used == PAID.get(desk.name, {desk.name}), "what was used is told"

    def script(name: str) -> Script:
        return Script((Answer(asks=(Use(tool("look_up", name)),), heard=ASK),))

    await for_each("tool call", open_hotline, behaviour, script)


def payloads_in(told: object) -> list[dict[str, Any]]:
    """Every payload of a tool's answer with rows in it, in whatever a service was told."""
    if isinstance(told, str):
        with contextlib.suppress(ValueError):
            return payloads_in(json.loads(told)) if told.startswith("{") else []
        return []
    if isinstance(told, list):
        return [payload for item in told for payload in payloads_in(item)]
    if not isinstance(told, dict):
        return []
    if "rows" in (told.get("data") or {}):
        return [told]
    return payloads_in(list(told.values()))


async def test_a_large_answer_is_cut_to_what_the_service_can_take(open_hotline):
    kinds = {"hybrid": "openai_chat"}
    rows = [{"id": number, "name": f"row {number}"} for number in range(1_000)]

    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ASK)
        answered = await caller.event(ToolAnswered)
        await hung_up(caller)
        limits = tool_user(installed(), kinds.get(desk.name, desk.name)).payload
        data, cut = cap({"rows": rows}, limits, bytes_before_data(answered.message, {}))
        (payload, *again) = payloads_in(desk.service.told())
        assert payload == {
            "status": "ok",
            "message": answered.message,
            "truncated": True,
            "data": data,
        }
        assert len(orjson.dumps(payload)) <= limits.max_bytes
        assert len(data["rows"]) <= limits.max_items + 1, "with the note of what is missing"
        assert all(other == payload for other in again), "a chat repeats it with each round"
        assert cut

    def script(name: str) -> Script:
        return Script((Answer(asks=(Use(tool("rows", name), {"count": 1_000}),), heard=ASK),))

    await for_each("large answer", open_hotline, behaviour, script, REMOTE, "rules take no data")


async def test_two_parallel_tools(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ASK)
        await caller.event(ToolAnswered, 2)
        call_id = await caller.call_id()
        order = [
            type(event)
            for name, _, event in desk.hotline.events
            if name == call_id and isinstance(event, ToolCalled | ToolAnswered)
        ]
        assert order == [ToolCalled, ToolCalled, ToolAnswered, ToolAnswered]
        await hung_up(caller)
        words = said(desk, call_id, 1)
        assert RUNWAY in words
        assert "At last." in words

    def script(name: str) -> Script:
        uses = Use(tool("slow", name), {"seconds": 2}), Use(tool("look_up", name))
        return Script((Answer(asks=uses, heard=ASK),))

    await for_each(
        "two parallel tools", open_hotline, behaviour, script, REMOTE, "rules ask for one at a time"
    )


async def test_a_slow_tool_with_a_filler(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ORDER)
        filler = await caller.event(ToolFiller)
        answered = await caller.event(ToolAnswered)
        assert (filler.text, answered.status) == (FILLER, "ok")
        call_id = await caller.call_id()
        told = desk.hotline.of(call_id)
        assert told.index(filler) < told.index(answered), "the filler came before the answer"
        await hung_up(caller)
        words = said(desk, call_id, 1)
        assert words.count(FILLER) == 1
        assert words.startswith(FILLER)
        assert words.endswith("At last.")

    await for_each("slow tool with filler", open_hotline, behaviour, slowly)


async def test_a_tool_that_fails(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask("Please cancel my order.")
        answered = await caller.event(ToolAnswered)
        assert answered.status == "error"
        call_id = await caller.call_id()
        await hung_up(caller)
        assert "No report for that station." in said(desk, call_id, 1)

    def script(name: str) -> Script:
        return Script((Answer(asks=(Use(tool("fails", name)),), heard="Please cancel my order."),))

    await for_each("tool error", open_hotline, behaviour, script)


async def test_a_tool_that_is_not_the_calls(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ASK)
        answered = await caller.event(ToolAnswered)
        assert (answered.status, answered.reason) == ("refused", "not_in_toolbox")
        call_id = await caller.call_id()
        await hung_up(caller)
        assert "I cannot." in said(desk, call_id, 1), "the model was told"
        assert not desk.hotline.server_words("orders"), "another context's tool was not run"

    def script(_: str) -> Script:
        return Script((Answer(asks=(Use("check_order"),), then="I cannot.", heard=ASK),))

    await for_each(
        "refused tool", open_hotline, behaviour, script, REMOTE, "rules name their tools themselves"
    )


async def test_a_caller_who_cuts_in(open_hotline):
    async def behaviour(desk: Desk) -> None:
        question = await desk.hotline.speech.say(ASK)  # rendered before the story
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        ended = await caller.say("Please tell me a long story.")
        await caller.line.hear_speech(after=ended)
        await caller.event(AudioStarted, 2)
        await asyncio.sleep(2)  # of the story, which lasts about 12 s
        caller.line.say(question)
        cut = await caller.event(BargedIn)
        heard_until = caller.line.last_heard_at
        assert cut.heard_ms > 0
        assert STORY.startswith(cut.heard.removesuffix("…")), cut.heard
        assert 0 < len(cut.heard) < len(STORY)
        ended = await caller.line.said()
        await caller.event(Heard, 2)
        assert heard_seconds(caller, heard_until + 0.2) < 1.0, "the agent goes on speaking"
        told = desk.service.told()
        truncations = [m for m in told if m.get("type") == "conversation.item.truncate"]
        if desk.name == "openai_realtime":
            assert len(truncations) == 1
            assert abs(truncations[0]["audio_end_ms"] - cut.heard_ms) <= 60
        answered = await caller.event(ToolAnswered)
        await caller.line.hear_speech(after=ended)
        await caller.listen()
        await hung_up(caller)
        call_id = await caller.call_id()
        assert (answered.message, said(desk, call_id, 2)) == (RUNWAY, RUNWAY)
        if desk.name == "hybrid":
            remembered = [
                m for m in desk.service.told()[-1]["messages"] if m["role"] == "assistant"
            ]
            assert STORY not in str(remembered)
            assert cut.heard.removesuffix("…") in str(remembered)

    def script(name: str) -> Script:
        story = Answer(STORY, heard="Please tell me a long story.")
        return Script((story, Answer(asks=(Use(tool("look_up", name)),), heard=ASK)))

    # OpenAI Live stops its track by itself: nothing is left that could be taken back.
    names = tuple(name for name in ALL if name != "openai_live")
    await for_each(
        "barge-in with truncation", open_hotline, behaviour, script, names, "it stops by itself"
    )


async def test_a_caller_who_hangs_up_while_a_tool_is_at_work(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.say(ORDER)
        await caller.event(ToolCalled)
        history = await hung_up(caller)
        assert history.reason == "caller_hangup"

    await for_each("hang-up mid-tool", open_hotline, behaviour, slowly)


async def test_a_provider_that_drops_the_connection(open_hotline):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.ask(ASK)
        call_id = await caller.call_id()

        def mended() -> bool | None:
            troubles = [e for c, _, e in desk.hotline.events if c == call_id]
            where = [e.where for e in troubles if isinstance(e, Trouble)]
            return True if "agent_reconnected" in where else None

        await desk.hotline.seen(mended, "another connection")
        assert desk.service.connections() == 2
        await hung_up(caller)
        assert RUNWAY in said(desk, call_id, 1)
        assert said(desk, call_id, 0) == GREETING
        assert len(of(desk, call_id, ToolCalled)) == 1, "no tool is run twice"

    def script(name: str) -> Script:
        answer = Answer(asks=(Use(tool("look_up", name)),), heard=ASK)
        # Deepgram is told what was found out by a new question.
        return Script((answer,), Answer(RUNWAY), (Fault("ask", "close", 1011),))

    realtime = tuple(name for name in REMOTE if name != "hybrid")
    await for_each(
        "provider drop", open_hotline, behaviour, script, realtime, "no connection to drop"
    )


async def test_a_provider_that_is_gone_for_good(open_hotline):
    """The next one answers what the caller had asked."""

    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.say(ASK)
        call_id = await caller.call_id()

        def answered() -> bool | None:
            words = [e.text for e in of(desk, call_id, Answering)]
            return any(RUNWAY in sentence for sentence in words) or None

        await desk.hotline.seen(answered, "the answer of the next one")
        assert (await caller.event(ToolAnswered)).message == RUNWAY
        await caller.listen()
        history = await hung_up(caller)
        assert any(trouble.startswith("agent_fallback") for trouble in history.troubles), (
            history.troubles
        )
        events = [event for name, _, event in desk.hotline.events if name == call_id]
        words = [event.text for event in events if isinstance(event, Answering)]
        assert words.count(GREETING) == 1
        assert words.count(BRIDGE) <= 1, "it is said to who has to wait"

    def script(_: str) -> Script:
        gone = Fault("turn", "close", 1011)
        refused = tuple(Fault("connect", "refuse", 503, connection=at) for at in range(2, 9))
        return Script((Answer("Never said.", heard=ASK),), faults=(gone, *refused))

    def failing(name: str) -> Script:
        if name != "hybrid":
            return script(name)
        errors = tuple(Fault("turn", "refuse", 500) for _ in range(8))
        return Script((Answer("Never said.", heard=ASK),), faults=errors)

    await for_each(
        "fallback", open_hotline, behaviour, failing, REMOTE, "nothing to fall back from"
    )


async def test_a_caller_who_is_passed_on(open_hotline, asterisk):
    async def behaviour(desk: Desk) -> None:
        caller = await desk.dial()
        await caller.greeted_to_the_end()
        await caller.say("Please put me through to sales.")
        history = await caller.history()
        assert (history.outcome, history.reason) == ("transferred", "transfer:sales")
        passed_on.append(caller.number)

    def script(_: str) -> Script:
        use = Use("transfer", {"destination": "sales"})
        return Script((Answer(asks=(use,), heard="Please put me through to sales."),))

    passed_on: list[str] = []
    async with SipPhone("sales") as sales:
        await asterisk.connect_phone("6001", sales.address)
        await for_each("transfer", open_hotline, behaviour, script)
        arrived = [(await sales.incoming()).caller.user for _ in passed_on]
        assert sorted(arrived) == sorted(passed_on)
