"""Transfers at their worst moments: hang-ups at random and at once, and an Asterisk that dies.

The order of a hundred random transfers is drawn from `SEED`; a failure names the number of each
call, which repeats it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from cordboard.calls.events import Answering, RecordingStarted, Transferred
from cordboard.errors import CallOver, LineError
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import until
from cordboard_testkit.sip.incoming import IncomingCall

from .conftest import Caller, Hotline, OpenHotline
from .humans import Humans, explained, step

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

NUMBER = "6012"
PLACES: dict[str, dict[str, Any]] = {
    "plain": {},
    "back": {"return_on_hangup": True},
    "warm": {"mode": "warm", "introduction": "You are both on the line now."},
    "recorded": {"record": True, "return_on_hangup": True},
    "short": {"briefing_ms": 5_000},
}
"""The destinations. All of them are one phone."""
SEED = 18
STORM = 100
AT_ONCE = 12
STAGES = ("holding", "ringing", "ringing", "briefing", "briefing", "joined")
"""How far a transfer is when the random acts begin."""
Act = Callable[[], None]

HUMANS = Humans("sudden")


def change(tree: dict[str, Any]) -> None:
    places = tree["tools"]["transfer"]["destinations"]
    for name, keys in PLACES.items():
        place = {"target": NUMBER, "context": "internal", "mode": "attended", "ring_ms": 20_000}
        places[name] = {**place, "endpoint": f"PJSIP/phone-{NUMBER}", **keys}
    tree["contexts"]["desk"] = {
        "greeting": "Order desk.",
        "tools": ["hangup_call", "transfer"],
        "recording": {"enabled": True},
        "rules": {},
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline: OpenHotline, asterisk) -> AsyncIterator[Hotline]:
    async with HUMANS.phone:
        await asterisk.connect_phone(NUMBER, HUMANS.phone.address)
        async with open_hotline(change) as opened:
            yield opened


class Transfer:
    """A caller who is being transferred."""

    def __init__(self, caller: Caller, moving: asyncio.Future[Any]) -> None:
        self.caller = caller
        self.moving = moving

    @classmethod
    async def begin(cls, hotline: Hotline, place: str) -> Transfer:
        """As the agent's tool does, once the caller has heard the greeting."""
        caller = await hotline.dial("ctx-desk")
        await caller.greeted()
        call = hotline.engine.registry.calls[await caller.call_id()]
        coming = call.line.transfer_after_speech(place, "Kari wants a blue bicycle")
        return cls(caller, asyncio.ensure_future(coming))

    async def briefed(self) -> IncomingCall:
        """The human has answered and hears the agent."""
        there = await HUMANS.rings_for(self.caller)
        there.answer()
        await there.hear_speech(after=0.0)
        return there

    async def outcome(self) -> str:
        """The caller hangs up; the end of the transfer by the ledger, empty if it had not begun."""
        self.caller.line.hangup()
        async with explained(self.caller):
            with contextlib.suppress(LineError):
                await self.moving
            await self.caller.history()
            seen = self.caller.hotline.of(await self.caller.call_id())
            return next((e.outcome for e in seen if isinstance(e, Transferred)), "")

    def end_by_engine(self) -> None:
        """An operator ends the call."""
        call = self.caller.hotline.engine.registry.calls.get(self.caller.known_as)
        if call is not None:
            call.end("completed", "operator_hangup")


async def storm(hotline: Hotline, seed: int, room: asyncio.Semaphore) -> str:
    """One transfer in which all parties act at random moments, often at once."""
    chance = random.Random(seed)
    async with room:
        place, stage = chance.choice(list(PLACES)), chance.choice(STAGES)
        if place == "short" and stage in ("briefing", "joined"):
            stage = "ringing"  # a stall could be longer than its briefing
        transfer = await Transfer.begin(hotline, place)
        caller = transfer.caller
        caller.known_as = await caller.call_id()
        acts: list[Act] = [
            caller.line.hangup,
            partial(caller.line.press, "*"),
            transfer.end_by_engine,
        ]
        if stage != "holding":
            there = await HUMANS.rings_for(caller)
            decide = partial(there.press, chance.choice("1112"))
            acts.append(there.hangup)
            acts = chance.sample(acts, chance.randint(1, len(acts)))
            begin = chance.randint(0, len(acts))
            if stage == "ringing":
                acts[begin:begin] = [there.answer, decide]
            else:
                await transfer.briefed()
            if stage == "briefing":
                acts.insert(begin, decide)
            elif stage == "joined":
                there.press("1")
                await step(caller, "joined")
        pause = [0.0, 0.0, 0.01, 0.05, chance.uniform(0, 3)]
        for act in acts:
            await asyncio.sleep(chance.choice(pause))
            with contextlib.suppress(CallOver):
                act()
        outcome = await transfer.outcome()
        for there in HUMANS.calls_for(caller):
            await there.ended()
        return outcome


async def test_a_hundred_transfers_with_hang_ups_at_random_leave_nothing(hotline):
    await (await Transfer.begin(hotline, "recorded")).outcome()  # all is loaded that stays
    before = LeakSnapshot.take()
    room = asyncio.Semaphore(AT_ONCE)
    calls = (storm(hotline, SEED * 1_000 + number, room) for number in range(STORM))
    found = await asyncio.gather(*calls, return_exceptions=True)
    problems = {
        SEED * 1_000 + number: one
        for number, one in enumerate(found)
        if isinstance(one, BaseException)
    }
    assert not problems, problems
    outcomes = Counter(map(str, found))
    assert {"accepted", "cancelled", "declined"} <= set(outcomes), outcomes
    await hotline.idle()
    await before.assert_nothing_left()
    started = [event for _, _, event in hotline.events if isinstance(event, RecordingStarted)]
    for path in {event.path for event in started}:
        size = (hotline.folder / path).stat().st_size
        header = (hotline.folder / path).read_bytes()[:8]
        assert int.from_bytes(header[4:8], "little") == size - 8, f"{path} is not closed"


async def answered_then_gone(hotline: Hotline, seconds: float) -> tuple[float, str]:
    transfer = await Transfer.begin(hotline, "plain")
    there = await HUMANS.rings_for(transfer.caller)
    there.answer()
    # Not before the ACK (RFC 3261, section 15): Asterisk would not see it.
    await until(lambda: any(each.method == "ACK" for each in there.requests))
    await asyncio.sleep(seconds)
    there.hangup()
    assert (await transfer.moving).returned, "the caller is with the agent"
    return seconds, await transfer.outcome()


async def test_a_human_who_answers_and_hangs_up_at_once_has_declined(hotline):
    pauses = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)
    found = await asyncio.gather(*(answered_then_gone(hotline, each) for each in pauses))
    assert found == [(pause, "declined") for pause in pauses]


async def both_gone(hotline: Hotline, state: str, *, caller_first: bool) -> str:
    transfer = await Transfer.begin(hotline, "back")
    there = await HUMANS.rings_for(transfer.caller)
    if state != "ringing":
        there = await transfer.briefed()
    if state == "joined":
        there.press("1")
    await step(transfer.caller, state)
    acts: list[Act] = [there.hangup, transfer.caller.line.hangup]
    for act in reversed(acts) if caller_first else acts:
        act()
    return await transfer.outcome()


@pytest.mark.parametrize(
    ("state", "outcomes"),
    [
        ("ringing", {"cancelled", "declined"}),
        ("briefing", {"cancelled", "declined"}),
        ("joined", {"accepted"}),
    ],
)
async def test_caller_and_human_hang_up_at_once(hotline, state, outcomes):
    """Which of them Asterisk sees first decides the outcome."""
    found = await asyncio.gather(
        *(both_gone(hotline, state, caller_first=first) for first in (True, False) * 2)
    )
    assert set(found) <= outcomes, found


async def test_an_asterisk_that_dies_in_every_state_of_a_transfer_leaves_nothing(hotline, asterisk):
    """It is frozen first: so two transfers are in states that last some ms otherwise."""
    await (await Transfer.begin(hotline, "recorded")).outcome()
    before = LeakSnapshot.take()
    places = {
        "ringing": "plain",
        "briefing": "back",
        "introducing": "warm",
        "joined": "recorded",
        "returning": "short",
    }
    transfers = {state: await Transfer.begin(hotline, place) for state, place in places.items()}
    await HUMANS.rings_for(transfers["ringing"].caller)
    for state in ("briefing", "joined", "returning", "introducing"):
        there = await transfers[state].briefed()
        if state in ("joined", "introducing"):
            there.press("1")
            await step(transfers[state].caller, state)
    await transfers["introducing"].caller.event(Answering, 3)
    os.kill(asterisk.pid, signal.SIGSTOP)
    await step(transfers["returning"].caller, "returning")
    await step(transfers["introducing"].caller, "joined")
    await asterisk.kill()
    for state, transfer in transfers.items():
        with contextlib.suppress(LineError):
            await transfer.moving
        history = await transfer.caller.history()
        assert history.outcome == "failed", state
        assert history.reason in ("asterisk_lost", "line_failed"), state
    await hotline.ready(False)
    hotline.hang_up_all()
    for call in HUMANS.phone.calls.values():
        call.hangup()
    await asterisk.start()
    await hotline.ready()
    await hotline.idle()
    children = LeakSnapshot.take().children  # Asterisk is another process now
    await dataclasses.replace(before, children=children).assert_nothing_left()

    again = await Transfer.begin(hotline, "back")
    there = await again.briefed()
    there.press("1")
    await step(again.caller, "joined")
    there.hangup()
    assert (await again.moving).returned
    assert await again.outcome() == "accepted"
