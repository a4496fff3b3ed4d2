"""Callers who are passed on: to a second phone, to a place that is not there, and without ARI."""

from __future__ import annotations

import pytest

from cordboard.calls.events import Offered, Transferred
from cordboard_testkit.sip import SipPhone

from .conftest import eventually
from .humans import hear_each_other
from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
together = SideBySide(first_alone=True)


async def test_a_second_phone_takes_the_call_and_the_engine_lets_go(hotline):
    async with SipPhone("sales", ring_seconds=0.2) as sales:
        await hotline.asterisk.connect_phone("6001", sales.address)
        caller = await hotline.dial("ctx-reception")
        await caller.greeted_to_the_end()
        await caller.say("Please put me through to sales.")
        there = await sales.incoming()
        history = await caller.history()
        assert (history.outcome, history.reason) == ("transferred", "transfer:sales")
        assert "sales" in await caller.heard(since=caller.line.spoken_segments()[-1].end)
        assert there.caller.user == caller.number

        # Both hear each other, and nothing of the engine is in between or left.
        await there.answered()
        await hear_each_other(1, caller.line, there)
        seen: list[object] = []

        async def two_phones() -> bool:
            seen[:] = channels = await hotline.asterisk.channels()
            return len(channels) == 2 and all(name.startswith("PJSIP/") for name in channels)

        async def engine_has_nothing() -> bool:
            seen[:] = [health] = [(await hotline.get("/health"))[1]]
            return health["active_calls"] == [] and health["audio"]["connections"] == 0

        await eventually(two_phones, "the channels of the phones alone", seen)
        await eventually(engine_has_nothing, "nothing of the call in the engine", seen)
        assert hotline.engine.registry.accepting

        there.hangup()
        assert (await caller.line.ended()).by == "them"


@together
async def test_a_confirmed_transfer_happens_only_after_yes(hotline):
    async with SipPhone("sales") as sales:
        await hotline.asterisk.connect_phone("6001", sales.address)
        together.others_may_begin()  # Asterisk may not survive this reload beside new calls
        caller = await hotline.dial("ctx-weather")
        await caller.greeted_to_the_end()
        began = await caller.ask("I want to book a flight.")
        assert "through to sales" in await caller.heard(since=began)
        assert not sales.calls
        await caller.say("Yes, please.")
        there = await sales.incoming()
        caller.line.hangup()
        assert (await there.ended()).by == "them"
        assert (await caller.history()).outcome == "transferred"


@together
async def test_a_place_that_does_not_exist_is_said_and_the_talk_goes_on(hotline):
    caller = await hotline.dial("ctx-reception")
    await caller.greeted_to_the_end()
    began = await caller.ask("Please put me through to the operator.")
    tried = await caller.event(Transferred)
    assert not tried.ok
    assert "0@internal" in tried.error
    await caller.told_after(Transferred)
    heard = await caller.heard(since=began)
    assert "transfer you to operator" in heard, heard

    assert (await caller.says_goodbye()).by == "them"
    history = await caller.history()
    assert (history.outcome, history.reason) == ("completed", "agent_hangup")
    assert [use.status for use in history.tools] == ["error", "ok"]


@together
async def test_a_bare_audiosocket_call_talks_but_cannot_be_transferred(hotline):
    address = f"127.0.0.1:{hotline.engine.audiosocket_port}"
    await hotline.asterisk.set_global("AUDIOSOCKET", address)
    caller = await hotline.dial("bare")
    await caller.greeted()
    offers = [(name, event) for name, _, event in hotline.events if isinstance(event, Offered)]
    [caller.known_as] = [name for name, offer in offers if offer.source == "audiosocket"]
    await caller.listen()
    began = await caller.ask("Please put me through to sales.")
    heard = await caller.heard(since=began)
    assert "cannot be transferred" in heard, heard
    assert (await caller.says_goodbye()).by == "them"

    history = await caller.history()
    assert (history.source, history.context) == ("audiosocket", "demo")
    assert (history.outcome, history.reason) == ("completed", "agent_hangup")
    assert [use.status for use in history.tools] == ["error", "ok"]
