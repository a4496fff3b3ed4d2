"""Two SIP phones call each other directly: no Asterisk needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from cordboard.errors import CallOver, CallRefused
from cordboard_testkit.correlation import came_through
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.sip import IncomingCall, OutgoingCall, SipPhone
from cordboard_testkit.timeline import Samples

Phones = tuple[SipPhone, SipPhone]


@pytest_asyncio.fixture
async def phones() -> AsyncIterator[Phones]:
    media = MediaThread()
    alice, bob = SipPhone("alice", media=media), SipPhone("bob", media=media)
    async with media, alice, bob:
        yield alice, bob


def _uri(phone: SipPhone) -> str:
    host, port = phone.address
    return f"sip:{phone.user}@{host}:{port}"


async def _connect(phones: Phones) -> tuple[OutgoingCall, IncomingCall]:
    there = await phones[0].call(_uri(phones[1]), headers={"X-AI-Context": "demo"})
    here = await phones[1].incoming()
    await asyncio.gather(there.answered(), here.answered())
    return there, here


async def test_both_hear_each_other(phones: Phones, bursts: Callable[..., Samples]) -> None:
    there, here = await _connect(phones)
    assert here.invite.headers.get("x-ai-context") == "demo"
    there.say(bursts(3, seed=1))
    here.say(bursts(3, seed=2))
    there.press("42")
    await asyncio.gather(there.said(), here.said())
    assert await here.hear_keys(2) == "42"
    assert there.keys_heard == ""
    await there.hear_silence()
    assert came_through(bursts(3, seed=2), there.heard_in_order())
    here.hangup()
    assert (await there.ended()).by == "them"
    with pytest.raises(CallOver):
        there.say(bursts(1))


async def test_a_refused_call(phones: Phones) -> None:
    phones[1].answers = False
    there = await phones[0].call(_uri(phones[1]))
    (await phones[1].incoming()).reject(480, "Temporarily Unavailable")
    with pytest.raises(CallRefused, match="Temporarily") as refused:
        await there.answered()
    assert refused.value.status == 480


async def test_a_cancelled_call(phones: Phones) -> None:
    phones[1].answers = False
    there = await phones[0].call(_uri(phones[1]))
    here = await phones[1].incoming()
    there.hangup()
    assert (await here.ended()).by == "them"
    assert (await there.ended()).by == "us"
    here.answer()
    assert here.state == "ended"


async def test_a_redirection_is_followed(phones: Phones) -> None:
    alice, bob = phones
    bob.answers = False
    async with SipPhone("carol") as carol:
        there = await alice.call(_uri(bob))
        (await bob.incoming()).redirect(_uri(carol))
        here = await carol.incoming()
        await there.answered()
        there.hangup()
        assert (await here.ended()).by == "them"


async def test_hold_silences_the_held_phone(phones: Phones, bursts: Callable[..., Samples]) -> None:
    there, here = await _connect(phones)
    await there.hold()
    during = here.held_by_peer
    here.say(bursts(1))
    with pytest.raises(TimeoutError):
        await there.hear_speech(timeout=0.3)
    await there.resume()
    assert (during, here.held_by_peer) == (True, False)
    await there.hear_speech()


async def test_a_transfer_sends_the_far_side_to_a_third_phone(phones: Phones) -> None:
    there, here = await _connect(phones)
    async with SipPhone("carol") as carol:
        assert await there.transfer(_uri(carol)) == 200
        third = await carol.incoming()
        assert here.transferred_to is not None
        assert here.transferred_to.state == "answered"
        there.hangup()
        await here.ended()
        assert third.state == "answered"
        here.transferred_to.hangup()
        await third.ended()


async def test_a_failed_transfer_is_reported_and_the_call_goes_on(phones: Phones) -> None:
    there, here = await _connect(phones)
    async with SipPhone("carol", answers=False) as carol:
        result = asyncio.create_task(there.transfer(_uri(carol)))
        (await carol.incoming()).reject()
        assert await result == 486
    assert there.state == here.state == "answered"


async def test_waiting_ends_when_the_call_does(phones: Phones) -> None:
    there, here = await _connect(phones)
    waiting = asyncio.create_task(there.hear_speech(timeout=30))
    await asyncio.sleep(0)
    here.hangup()
    with pytest.raises(CallOver, match="far side"):
        await waiting
