"""Callers of a DID of FreePBX: to the engine by a custom destination, on by `from-internal`, back.

The dialplan has the shape that FreePBX generates (`freepbx`); Asterisk and phones are real."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cordboard.calls.events import Bound, Offered, Transferred
from cordboard_testkit.sip import SipPhone

from .conftest import Caller, Hotline, OpenHotline
from .freepbx import DIDS, PHONES, RING_SECONDS, freepbx
from .humans import hear_each_other

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline: OpenHotline) -> AsyncIterator[Hotline]:
    async with open_hotline(freepbx) as opened:
        yield opened


async def asks(hotline: Hotline, name: str) -> Caller:
    """A caller of a DID who asks for the transfer."""
    caller = await hotline.dial(DIDS[name])
    await caller.greeted_to_the_end()
    bound = await caller.event(Bound)
    assert bound.context == f"at-{name}"
    await caller.say("Please check my order.")
    return caller


async def test_a_did_leads_to_the_engine_and_a_transfer_to_an_extension(hotline):
    async with SipPhone("desk", ring_seconds=0.2) as desk:
        await hotline.asterisk.connect_phone(PHONES[0], desk.address)
        caller = await asks(hotline, "extension")
        assert (await caller.event(Offered)).caller_number == caller.number
        there = await desk.incoming()
        history = await caller.history()
        assert (history.outcome, history.reason) == ("transferred", "transfer:extension")
        assert there.caller.user == caller.number
        await there.answered()
        await hear_each_other(1, caller.line, there)
        there.hangup()
        assert (await caller.line.ended()).by == "them"


async def test_a_ring_group_that_answers_has_the_caller(hotline):
    await hotline.asterisk.set_global(RING_SECONDS, "30")
    async with SipPhone("first", answers=False) as first, SipPhone("second") as second:
        await hotline.asterisk.connect_phone(PHONES[0], first.address)
        await hotline.asterisk.connect_phone(PHONES[1], second.address)
        caller = await asks(hotline, "group")
        there = await second.incoming()
        await there.answered()
        await hear_each_other(1, caller.line, there)
        caller.line.hangup()
        assert (await there.ended()).by == "them"
        assert (await caller.history()).outcome == "transferred"


async def test_a_ring_group_that_does_not_answer_hands_the_caller_back(hotline):
    await hotline.asterisk.set_global(RING_SECONDS, "3")
    async with SipPhone("first", answers=False) as first, SipPhone("second", answers=False) as two:
        await hotline.asterisk.connect_phone(PHONES[0], first.address)
        await hotline.asterisk.connect_phone(PHONES[1], two.address)
        await comes_back(await asks(hotline, "group"), "NOANSWER")


async def test_a_queue_whose_time_is_over_hands_the_caller_back(hotline):
    await comes_back(await asks(hotline, "fpbx-queue"), "TIMEOUT")


async def comes_back(caller: Caller, status: str) -> None:
    """The same conversation goes on."""
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome, outcome.error) == (False, "no_answer", status)
    await caller.told_after(Transferred)
    assert "nobody answers" in await caller.heard(since=caller.line.spoken_segments()[-1].end)
    assert (await caller.says_goodbye()).by == "them"
    history = await caller.history()
    assert (history.outcome, history.reason) == ("completed", "agent_hangup")


async def test_a_phone_inside_calls_the_engine(hotline):
    caller = await hotline.dial("inside-799")
    await caller.greeted_to_the_end()
    assert (await caller.event(Bound)).context == "at-group"
    caller.line.hangup()
