"""Consultations in a real Asterisk: refusals, breaks of the connection, a killed engine."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from cordboard.calls.offer import (
    CallerGone,
    PartyAnswered,
    PartyEvent,
    PartyGone,
    PartyRings,
    TransferTarget,
)
from cordboard.errors import LineError, PartyUnreachable
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone

from .test_breaks import Cable

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

SALES = TransferTarget(
    "sales", "extension", "6001", "internal", endpoint="PJSIP/phone-6001", ring_seconds=20
)


@pytest_asyncio.fixture(loop_scope="session")
async def human(asterisk):
    async with SipPhone("human", answers=False) as phone:
        await asterisk.connect_phone("6001", phone.address)
        yield phone


async def rings(control, seen: list[PartyEvent], human: SipPhone):
    """A consultation whose phone rings."""
    leg = control.consult(SALES, seen.append)
    await leg.hold()
    await leg.dial()
    there = await human.incoming()
    await until(lambda: PartyRings() in seen)
    return leg, there


@pytest.mark.parametrize(
    ("status", "cause"), [(486, 17), (603, 21), (480, 19), (404, 1), (503, 34), (302, 23)]
)
async def test_how_a_phone_refuses_is_told(asterisk, open_board, human, status, cause):
    """With 302 nothing follows the phone's advice: `channels/create` does not."""
    async with open_board(asterisk) as board, SipPhone() as phone, SipPhone() as elsewhere:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        seen: list[PartyEvent] = []
        leg, there = await rings(echo.offer.control, seen, human)
        if status == 302:
            there.redirect("sip:6002@{}:{}".format(*elsewhere.address))
        else:
            there.reject(status, "No")
        await until(lambda: any(isinstance(event, PartyGone) for event in seen))
        assert seen[-1] == PartyGone(cause, status)
        await leg.back()
        await leg.close()
        assert not elsewhere.calls
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_a_phone_that_is_not_connected_and_the_states_of_devices(asterisk, open_board, human):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        control = echo.offer.control
        nowhere = TransferTarget("a", "extension", "1", "internal", endpoint="PJSIP/nobody")
        leg = control.consult(nowhere, lambda event: None)
        await leg.hold()
        with pytest.raises(PartyUnreachable):
            await leg.dial()
        with pytest.raises(LineError, match="not with the agent"):
            control.consult(SALES, lambda event: None)
        await leg.back()
        await leg.close()
        assert await control.device_state("PJSIP/phone-6001") == "NOT_INUSE"
        assert await control.device_state("PJSIP/nobody") == "INVALID"
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_human_sees_the_caller_and_both_are_heard_by_the_media_that_follows(
    asterisk, open_board, human, bursts
):
    async with open_board(asterisk) as board, SipPhone("4711") as phone:
        call = await phone.call(asterisk.sip_uri("agent"), caller_number="4711")
        echo = await board.exchange.next_up()
        seen: list[PartyEvent] = []
        leg, there = await rings(echo.offer.control, seen, human)
        assert there.caller.user == "4711"
        there.answer()
        await until(lambda: PartyAnswered() in seen)
        await leg.brief()
        there.say(bursts())
        await there.hear_speech()  # the exchange echoes: they are with the agent
        await leg.join()
        await there.hear_silence()
        call.say(bursts())
        await there.hear_speech()
        await leg.follow()
        heard = len(echo.heard)
        await until(lambda: len(echo.heard) > heard + 16_000)
        call.hangup()
        await until(lambda: CallerGone() in seen)
        assert there.end is None, "nobody has hung them up"
        assert not echo.ended.done(), "the call learns of it when the consultation is closed"
        await leg.close()
        await there.ended()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_human_leaves_the_room_of_a_private_sound_before_it_is_removed(
    asterisk, open_board, human, bursts, asked
):
    """Asterisk leaves a phone outside for good that enters a bridge while its own is removed."""
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        seen: list[PartyEvent] = []
        leg, there = await rings(echo.offer.control, seen, human)
        there.answer()
        await until(lambda: PartyAnswered() in seen)
        async with leg.aside():
            pass
        room = f"bridges/{leg.channel_id}-room1"
        left = asked.index(f"POST {room}/removeChannel {leg.channel_id}")
        assert left < asked.index(f"DELETE {room}")
        await leg.brief()
        there.say(bursts())
        await there.hear_speech()
        await leg.back()
        await leg.close()
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_what_happens_during_a_break_of_the_connection_is_learnt_after_it(
    asterisk, open_board, human
):
    async with Cable(asterisk) as cable, open_board(cable) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        seen: list[PartyEvent] = []
        leg, there = await rings(echo.offer.control, seen, human)
        await cable.pull()
        await board.disconnected()
        there.answer()
        await cable.plug()
        await until(lambda: PartyAnswered() in seen)
        await cable.pull()
        await board.disconnected()
        there.hangup()
        await cable.plug()
        await until(lambda: PartyGone() in seen)
        await leg.back()
        await leg.close()
        call.hangup()
        await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_an_engine_that_died_leaves_a_consultation_to_be_swept(asterisk, open_board, human):
    async with SipPhone() as phone:
        async with Cable(asterisk) as cable, open_board(cable) as old:
            call = await phone.call(asterisk.sip_uri("agent"))
            echo = await old.exchange.next_up()
            _, there = await rings(echo.offer.control, [], human)
            await cable.pull()
            await old.disconnected()
            echo.ended.set_result("transferred")  # nothing is hung up
            await old.exchange.idle()
        async with open_board(asterisk) as board:
            assert (await there.ended()).by == "them"
            await board.exchange.next_up()
            call.hangup()
            await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_a_phone_on_hold_may_be_silent_for_hours(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        media, held = echo.media, []
        usual = media.idle_seconds
        media.on_hold(held.append)
        await call.hold("inactive")
        await until(lambda: held == [True])
        assert media.idle_seconds > 3_600 > usual
        await call.resume()
        await until(lambda: held == [True, False])
        assert media.idle_seconds == usual
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
