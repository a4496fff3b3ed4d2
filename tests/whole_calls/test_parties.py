"""What each party of a call truly hears, in every consultation and conference, with every media.

Asterisk's bridges change their technology when a third channel comes or leaves, and some media have
lost their sound by that: so each party is listened to at each step, and on the way back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from cordboard.calls.events import ConferenceStep, RecordingStarted
from cordboard_testkit.patience import until
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.voice_line import VoiceLine

from .bank import channels
from .conftest import Caller, Hotline
from .humans import (
    AMONG_OTHERS,
    Humans,
    explained,
    hear_each_other,
    hears,
    kept_a_part,
    noise,
    step,
)
from .side_by_side import run_among_others

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

NUMBER = "6041"
PLACES: dict[str, dict[str, Any]] = {
    "attended": {"return_on_hangup": True},
    "warm": {
        "mode": "warm",
        "introduction": "You are both on the line now, so please say hello to each other.",
        "return_on_hangup": True,
    },
    "recorded": {"record": True, "return_on_hangup": True},
    "operator": {"takeover": True},
}


def places(media: str):
    def change(tree: dict[str, Any]) -> None:
        tree["asterisk"] |= {"media": media}
        for name, keys in PLACES.items():
            place = {"target": NUMBER, "context": "internal", "mode": "attended"}
            place |= {"briefing_ms": 120_000, "ring_ms": 60_000}
            place |= {"endpoint": f"PJSIP/phone-{NUMBER}", **keys}
            tree["tools"]["transfer"]["destinations"][name] = place
            sentences = ["[please] (check|look up) my order [please]"]
            tree["contexts"][f"to-{name}"] = {
                "greeting": "Order desk.",
                "tools": ["hangup_call", "transfer"],
                "rules": {"intents": {"go": {"sentences": sentences, "transfer": name}}},
                "recording": {"enabled": name == "recorded"},
            }

    return change


@dataclass(frozen=True, slots=True)
class Exchange:
    """A hotline, and the phone of all others."""

    hotline: Hotline
    humans: Humans

    async def hears(self, line: VoiceLine, words: str, since: float = 0.0) -> str:
        return await hears(self.hotline, line, words, since)


async def asks(here: Exchange, name: str) -> tuple[Caller, IncomingCall]:
    """A caller who asks for the transfer and hears music, while nobody else hears anything."""
    caller = await here.hotline.dial(f"ctx-to-{name}")
    await caller.greeted_to_the_end()
    await caller.say("Please check my order.")
    await step(caller, "ringing")
    there = await here.humans.rings_for(caller)
    await caller.line.hear_speech(after=time.monotonic())
    there.answer()
    return caller, there


async def is_briefed(here: Exchange, caller: Caller, there: IncomingCall) -> None:
    """The human hears the agent alone, and the caller their music."""
    caller.line.say(noise(7))
    await here.hears(there, "press")
    await caller.line.said()
    assert not await there.brought(noise(7), alike=AMONG_OTHERS)
    await caller.line.hear_speech(after=time.monotonic())


async def is_back(here: Exchange, caller: Caller, words: str, since: float) -> None:
    """The caller hears the agent again, and the agent them; then the call ends."""
    await here.hears(caller.line, words, since)
    assert (await caller.says_goodbye()).by == "them"
    assert (await caller.history()).reason == "agent_hangup"


async def attended(here: Exchange) -> None:
    caller, there = await asks(here, "attended")
    async with explained(caller):
        await is_briefed(here, caller, there)
        there.press("1")
        await step(caller, "joined")
        await hear_each_other(1, caller.line, there, alike=AMONG_OTHERS)
        since = time.monotonic()
        there.hangup()
        await is_back(here, caller, "back with me", since)


async def recorded(here: Exchange) -> None:
    caller, there = await asks(here, "recorded")
    async with explained(caller):
        await is_briefed(here, caller, there)
        there.press("1")
        await step(caller, "joined")
        await hear_each_other(6, caller.line, there, alike=AMONG_OTHERS)
        since = time.monotonic()
        there.hangup()
        await is_back(here, caller, "back with me", since)
        await here.hotline.engine.calls_recorded()
        started = await caller.event(RecordingStarted)
        kept, _ = channels(here.hotline.folder / started.path, started.rate)
        both = [kept_a_part(noise(60 + number), kept) for number in (0, 1)]
        assert all(both), f"the recording has caller and human: {both}"


async def declined(here: Exchange) -> None:
    caller, there = await asks(here, "attended")
    async with explained(caller):
        await is_briefed(here, caller, there)
        since = time.monotonic()
        there.press("2")
        await is_back(here, caller, "cannot take", since)


async def warm(here: Exchange) -> None:
    caller, there = await asks(here, "warm")
    async with explained(caller):
        await is_briefed(here, caller, there)
        since = time.monotonic()
        there.press("1")
        await step(caller, "introducing")
        both = (here.hears(line, "each other", since) for line in (caller.line, there))
        await asyncio.gather(*both)
        await step(caller, "joined")
        await hear_each_other(2, caller.line, there, alike=AMONG_OTHERS)
        since = time.monotonic()
        there.hangup()
        await is_back(here, caller, "back with me", since)


async def joined_by_an_operator(here: Exchange, caller: Caller, *others: VoiceLine) -> IncomingCall:
    """An operator joins; all are told."""
    operator = here.hotline.engine.registry.calls[await caller.call_id()].operator
    joining = asyncio.ensure_future(operator.confer("operator", "otto", quiet=False))
    before = len(here.humans.calls_for(caller))
    await until(lambda: len(here.humans.calls_for(caller)) > before)
    there = here.humans.calls_for(caller)[before]
    there.answer()
    await here.hears(there, "press")
    since = time.monotonic()
    there.press("1")
    await asyncio.gather(*(here.hears(line, "colleague", since) for line in (caller.line, *others)))
    await joining
    return there


async def left_by_the_operator(caller: Caller, there: IncomingCall) -> None:
    there.hangup()
    call_id = await caller.call_id()

    def over() -> bool | None:
        steps = [e.step for e in caller.hotline.of(call_id) if isinstance(e, ConferenceStep)]
        return True if steps[-1] == "over" else None

    await caller.hotline.seen(over, "the end of the conference")


async def conference(here: Exchange) -> None:
    caller = await here.hotline.dial("ctx-to-attended")
    await caller.greeted_to_the_end()
    async with explained(caller):
        there = await joined_by_an_operator(here, caller)
        await hear_each_other(3, caller.line, there, alike=AMONG_OTHERS)
        since = time.monotonic()
        call = here.hotline.engine.registry.calls[await caller.call_id()]
        assert await call.operator.say("Hello to both of you.", "otto")
        await asyncio.gather(*(here.hears(line, "hello", since) for line in (caller.line, there)))
        await left_by_the_operator(caller, there)
        assert (await caller.says_goodbye()).by == "them", "the agent hears and is heard"
        assert (await caller.history()).reason == "agent_hangup"


async def conference_of_caller_and_human(here: Exchange) -> None:
    caller, human = await asks(here, "attended")
    async with explained(caller):
        await is_briefed(here, caller, human)
        human.press("1")
        await step(caller, "joined")
        there = await joined_by_an_operator(here, caller, human)
        await hear_each_other(4, caller.line, human, there, alike=AMONG_OTHERS)
        await left_by_the_operator(caller, there)
        await hear_each_other(5, caller.line, human, alike=AMONG_OTHERS)
        since = time.monotonic()
        human.hangup()
        await is_back(here, caller, "back with me", since)


@contextlib.asynccontextmanager
async def exchange(media: str, open_hotline, asterisk) -> AsyncIterator[Exchange]:
    humans = Humans("party")
    async with humans.phone:
        await asterisk.connect_phone(NUMBER, humans.phone.address)
        async with open_hotline(places(media)) as hotline:
            yield Exchange(hotline, humans)
            await hotline.idle()
            assert (await hotline.get("/health"))[1]["audio"]["connections"] == 0


@pytest.mark.parametrize("media", ["audiosocket", "rtp", "websocket"])
async def test_each_party_hears_what_is_theirs_at_each_step(media, open_hotline, asterisk):
    # What depends on the media is how many are in a bridge; the rest is the same with all of them.
    stories = [attended, conference, conference_of_caller_and_human]
    if media == "audiosocket":
        stories += [recorded, declined, warm]
    async with exchange(media, open_hotline, asterisk) as here:
        one_by_one = (run_among_others(story, here) for story in stories)
        ends = await asyncio.gather(*one_by_one, return_exceptions=True)
        here.hotline.hang_up_all()
    wrong = {s.__name__: e for s, e in zip(stories, ends, strict=True) if e is not None}
    assert not wrong, "\n\n".join(f"{name}: {error!r}" for name, error in wrong.items())
