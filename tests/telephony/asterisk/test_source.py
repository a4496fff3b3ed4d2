"""Calls by SIP through a real Asterisk, ARI and AudioSocket, onto an exchange that echoes."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from cordboard.audio.format import SLIN_16K
from cordboard.audio.resample import resample_pcm
from cordboard.calls.offer import TransferTarget
from cordboard.config.schema import AudioSocket
from cordboard.errors import LineGone, MediaError, TransferFailed
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import LeakSnapshot, assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import RATE

from .bursts_heard import burst_came

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

SALES = TransferTarget("sales", "extension", "6001", "internal")


async def test_a_caller_is_offered_with_number_name_and_variables(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone("4711") as phone:
        call = await phone.call(asterisk.sip_uri("early"))
        offer = (await board.exchange.next()).offer
        assert (offer.source, offer.transport) == ("asterisk", "audiosocket")
        assert offer.called_number == "early"
        assert offer.caller_number == "4711"
        assert offer.variables == {
            "AI_CONTEXT": "sales",
            "AI_PROVIDER": "local",
            "ORDER": 'A-17, "urgent"',
        }
        assert await offer.control.variable("ORDER") == 'A-17, "urgent"'
        assert await offer.control.variable("NOT_SET") is None
        await call.answered()
        call.hangup()
        await board.exchange.idle()


async def test_sound_and_keys_pass_and_the_caller_hangs_up(asterisk, open_board, bursts):
    before = LeakSnapshot.take()
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        await call.answered()
        echo = await board.exchange.next_up()
        call.say(bursts())
        await call.said()
        await call.hear_silence()
        await burst_came(bursts(), lambda: np.frombuffer(bytes(echo.heard), "<i2"))
        echo.echoing = False
        written = time.monotonic()
        echo.media.write(bursts(4, seed=2).astype("<i2").tobytes())
        await call.hear_speech(after=written)
        await call.hear_silence()
        await burst_came(bursts(4, seed=2), call.heard_in_order)
        call.press("4#")
        await asyncio.wait_for(echo.two_keys.wait(), PATIENCE)
        assert echo.keys == "4#"
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)
        assert board.source.lines == ()
        assert board.server.connections == 0
        assert not board.pacer.running
        with pytest.raises(LineGone):
            await echo.offer.control.transfer(SALES, lambda: None)
        await echo.offer.control.hangup()  # a line that is gone is no error
    await before.assert_nothing_left()


async def test_wideband_of_the_file_passes_both_ways_and_keys_go_out(asterisk, open_board, bursts):
    def wideband(server, _):
        return AudioSocketPath(server, "slin16")

    async with open_board(asterisk, make_path=wideband) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        await call.answered()
        echo = await board.exchange.next_up()
        assert echo.media.format == SLIN_16K
        echo.echoing = False
        call.say(bursts())
        await call.said()
        await echo.offer.control.dtmf("12#")
        assert await call.hear_keys(3) == "12#"
        await burst_came(
            bursts(), lambda: np.frombuffer(resample_pcm(bytes(echo.heard), 16_000, RATE), "<i2")
        )
        written = time.monotonic()
        sound = bursts(4, seed=2).astype("<i2").tobytes()
        echo.media.write(resample_pcm(sound, RATE, 16_000))
        await call.hear_speech(after=written)
        await call.hear_silence()
        await burst_came(bursts(4, seed=2), call.heard_in_order)
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_engine_hangs_up(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("answered"))
        echo = await board.exchange.next_up()
        await echo.offer.control.hangup()
        assert (await call.ended()).by == "them"
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


@pytest.mark.parametrize(("cause", "status"), [("busy", 486), ("congestion", 503)])
async def test_a_refused_caller_hears_why(asterisk, open_board, cause, status):
    async with open_board(asterisk) as board, SipPhone() as phone:
        board.exchange.answering = False
        call = await phone.call(asterisk.sip_uri("agent"))
        offer = (await board.exchange.next()).offer
        await offer.control.hangup(cause)
        await offer.control.release()
        assert (await call.ended()).status == status
        assert board.source.lines == ()


@pytest.mark.parametrize(
    "target",
    [
        SALES,
        TransferTarget("help", "queue", "support", "queues"),
    ],
    ids=["extension", "queue"],
)
async def test_a_transfer_reaches_another_phone(asterisk, open_board, bursts, target):
    async with open_board(asterisk) as board, SipPhone() as phone, SipPhone() as colleague:
        await asterisk.connect_phone("6001", colleague.address)
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        await echo.offer.control.transfer(target, lambda: None)
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "transferred"
        await board.exchange.idle()
        other = await colleague.incoming()
        await other.answered()
        call.say(bursts(20))
        await other.hear_speech(after=0.0)
        assert board.source.lines == ()
        assert await asterisk.bridges() != [], "only the dialplan's own bridge is left"
        assert not any("AudioSocket" in name for name in await asterisk.channels())
        call.hangup()
        await assert_line_clean(asterisk)


async def test_after_a_failed_transfer_the_call_goes_on(asterisk, open_board, bursts):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        nowhere = TransferTarget("sales", "extension", "9999", "internal")
        with pytest.raises(TransferFailed, match="9999@internal"):
            await echo.offer.control.transfer(nowhere, lambda: None)
        call.say(bursts())
        await call.hear_speech()
        assert not echo.ended.done()
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_media_port_refuses(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        await board.server.stop()
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next()
        await asyncio.wait_for(echo.up.wait(), PATIENCE)
        assert isinstance(echo.problem, MediaError)
        await call.ended()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_media_connection_goes_to_somebody_else(asterisk, open_board):
    """A wrong advertised address at which somebody listens: it never comes to us."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(deaf, "127.0.0.2", port):
        config = AudioSocket(port=port, advertise_host="127.0.0.2", connect_timeout_ms=600)
        async with open_board(asterisk, audiosocket=config) as board, SipPhone() as phone:
            call = await phone.call(asterisk.sip_uri("agent"))
            echo = await board.exchange.next()
            await asyncio.wait_for(echo.up.wait(), PATIENCE)
            assert "127.0.0.2" in str(echo.problem)
            await call.ended()
            await board.exchange.idle()
            await assert_line_clean(asterisk)


async def test_the_caller_hangs_up_while_the_media_is_being_opened(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        board.exchange.answering = False
        call = await phone.call(asterisk.sip_uri("answered"))
        await call.answered()
        offer = (await board.exchange.next()).offer
        call.hangup()
        ended = asyncio.get_running_loop().create_future()
        try:
            (await offer.media()).on_closed(ended.set_result)
        except LineGone:
            pass
        else:
            assert await asyncio.wait_for(ended, PATIENCE) == "caller_hangup"
        await offer.control.release()
        await assert_line_clean(asterisk)
        assert board.server.connections == 0


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_set_up_that_is_cancelled_leaves_nothing(asterisk, open_board, steps):
    """Cancelled after a varying number of turns of the event loop."""
    before = LeakSnapshot.take()
    async with open_board(asterisk, context="demo") as board, SipPhone() as phone:
        board.exchange.answering = False
        call = await phone.call(asterisk.sip_uri("agent"))
        offer = (await board.exchange.next()).offer
        opening = asyncio.create_task(offer.media())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait((opening,))
        await offer.control.hangup()
        await offer.control.release()
        await call.ended()
        await assert_line_clean(asterisk)
        assert board.server.connections == 0
        assert board.source.lines == ()
        assert len(board.exchange.calls) == 1, "a late media connection became a call of its own"
    await before.assert_nothing_left()


async def test_a_lost_media_connection_is_told_from_a_hangup(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        [name] = [name for name in await asterisk.channels() if name.startswith("AudioSocket")]
        await asterisk.cli(f"channel request hangup {name}")
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "media_lost"
        await call.ended()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_ten_calls_at_once_leave_nothing(asterisk, open_board, bursts):
    before = LeakSnapshot.take()
    async with open_board(asterisk) as board, SipPhone() as phone:
        calls = [await phone.call(asterisk.sip_uri("agent")) for _ in range(10)]
        await asyncio.gather(*(call.answered() for call in calls))
        for call in calls:
            call.say(bursts())
        await asyncio.gather(*(call.hear_speech(after=0.0) for call in calls))
        for call in calls[:5]:
            call.hangup()
        for echo in board.exchange.calls:
            await echo.offer.control.hangup()
        await board.exchange.idle()
        assert board.source.lines == ()
        assert board.server.connections == 0
        await assert_line_clean(asterisk)
    await before.assert_nothing_left()


async def test_stopping_ends_live_calls(asterisk, open_board):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        await board.exchange.next_up()
        await board.source.stop()
        assert (await call.ended()).by == "them"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_a_bare_call_without_ari(asterisk, open_board, bursts):
    async with open_board(asterisk, context="demo") as board, SipPhone() as phone:
        await asterisk.set_global("AUDIOSOCKET", board.server.address)
        call = await phone.call(asterisk.sip_uri("bare"))
        await call.answered()
        echo = await board.exchange.next_up()
        assert echo.offer.source == "audiosocket"
        assert echo.offer.variables == {"AI_CONTEXT": "demo"}
        call.say(bursts(20))
        await call.hear_speech(after=0.0)
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        again = await phone.call(asterisk.sip_uri("bare"))
        echo = await board.exchange.next_up(2)
        await echo.offer.control.hangup()
        assert (await again.ended()).by == "them"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_asterisk_sending_u_law_as_slin_is_found_out(asterisk, open_board):
    """`Dial(AudioSocket/...)` without `c(slin)`: noise in both directions, if nobody looked."""
    async with open_board(asterisk, context="demo") as board, SipPhone() as phone:
        await asterisk.set_global("AUDIOSOCKET", board.server.address)
        call = await phone.call(asterisk.sip_uri("mislabelled"))
        await call.answered()
        echo = await board.exchange.next_up()
        call.say((8000 * np.sin(np.arange(RATE) * 440 * 2 * np.pi / RATE)).astype(np.int16))
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "media_lost"
        assert "c(slin)" in echo.media.problem
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
