"""Calls by SIP through a real Asterisk and ExternalMedia RTP, onto an exchange that echoes."""

from __future__ import annotations

import asyncio
import socket
import time

import numpy as np
import pytest

from cordboard.audio import g711
from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K
from cordboard.audio.resample import resample_pcm
from cordboard.config.schema import Rtp
from cordboard.errors import MediaError
from cordboard.telephony.asterisk.rtp_codings import CODINGS, RtpCoding
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard_testkit.correlation import came_through
from cordboard_testkit.free_ports import free_port_range
from cordboard_testkit.leaks import LeakSnapshot, assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone

from .bursts_heard import BURST, burst_came

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

OF_THE_NET = {"gap", "jumped", "late", "lost", "concealed"}
"""What a busy machine does to a stream of packets. Each key makes a gap, too, where
Asterisk does not transcode."""
FORMATS = {"ulaw": ULAW_8K, "alaw": ALAW_8K, "slin": SLIN_8K, "g722": SLIN_16K}


@pytest.fixture
def open_rtp(open_board):
    """`async with open_rtp(asterisk, codec="g722", config=Rtp(...))`."""

    def opened(asterisk, *, codec="auto", config=None, **more):
        return open_board(
            asterisk, make_path=lambda _, pacer: RtpPath(config or Rtp(), pacer, codec), **more
        )

    return opened


@pytest.fixture
def sounds(bursts):
    """The same bursts without what is above 1.7 kHz: they pass the filters of the wideband way."""

    def make(count: int = 4, seed: int = 1) -> np.ndarray:
        pcm = bursts(count, seed).astype("<i2").tobytes()
        return np.frombuffer(resample_pcm(resample_pcm(pcm, 8000, 4000), 4000, 8000), "<i2")

    return make


def as_linear(sound: bytes, name: str) -> np.ndarray:
    """What came in a coding, as samples at 8 kHz."""
    if name == "ulaw":
        sound = g711.ulaw_to_linear(sound)
    elif name == "alaw":
        sound = g711.alaw_to_linear(sound)
    elif name == "g722":
        sound = resample_pcm(sound, 16_000, 8000)
    return np.frombuffer(sound, "<i2")


def from_linear(pcm: bytes, name: str) -> bytes:
    if name == "ulaw":
        return g711.linear_to_ulaw(pcm)
    if name == "alaw":
        return g711.linear_to_alaw(pcm)
    return resample_pcm(pcm, 8000, 16_000) if name == "g722" else pcm


async def test_sound_and_keys_pass_in_each_coding(asterisk, open_rtp, sounds):
    """Side by side, a call for each coding."""

    async def both_ways(name, call, echo):
        assert echo.media.format == FORMATS[name]
        call.say(sounds())
        await call.said()
        await call.hear_silence()
        await burst_came(sounds(), lambda: as_linear(bytes(echo.heard), name))
        echo.echoing = False
        written = time.monotonic()
        echo.media.write(from_linear(sounds(4, seed=2).astype("<i2").tobytes(), name))
        await call.hear_speech(after=written)
        await call.hear_silence()
        await burst_came(sounds(4, seed=2), call.heard_in_order)
        call.press("4#")
        await asyncio.wait_for(echo.two_keys.wait(), PATIENCE)
        call.say(sounds(2))
        await call.said()
        assert echo.keys == "4#", "no key comes twice"
        assert set(echo.media.counts) <= OF_THE_NET
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"

    before = LeakSnapshot.take()
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        lines = []
        for name in CODINGS:
            board.exchange.formats = (FORMATS[name],)
            call = await phone.call(asterisk.sip_uri("agent"))
            await call.answered()
            lines.append((name, call, await board.exchange.next_up(len(lines) + 1)))
        await asyncio.gather(*(both_ways(*line) for line in lines))
        await board.exchange.idle()
        await assert_line_clean(asterisk)
        assert board.path.health()["rtp_ports"] == 0
        assert not board.pacer.running
    await before.assert_nothing_left()


async def test_ulaw_from_the_phone_reaches_us_untouched(asterisk, open_rtp, bursts):
    """Byte for byte: neither Asterisk nor we convert anything."""
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        board.exchange.formats = (ULAW_8K,)
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        call.say(bursts())
        await call.said()
        said = g711.linear_to_ulaw(bursts().astype("<i2").tobytes())
        loud = [said[at : at + 160 * 6] for at in range(0, len(said), BURST)]
        await until(lambda: any(part in bytes(echo.heard) for part in loud))
        call.hangup()
        await board.exchange.idle()


async def test_the_engine_hangs_up(asterisk, open_rtp):
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("answered"))
        echo = await board.exchange.next_up()
        await echo.offer.control.hangup()
        assert (await call.ended()).by == "them"
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)
        assert board.path.health()["rtp_ports"] == 0


async def test_three_seconds_without_a_packet_of_the_phone_are_no_end(asterisk, open_rtp, bursts):
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        call.say(bursts(1))
        await call.said()
        call.mute()
        await asyncio.sleep(3)
        call.mute(False)
        assert not echo.ended.done()
        before = len(echo.heard)
        call.say(bursts(1))
        await call.said()
        await until(lambda: len(echo.heard) > before)
        assert set(echo.media.counts) <= OF_THE_NET
        assert echo.media.counts["lost"] < 50, "a pause of 150 packets is no loss"
        call.hangup()
        await board.exchange.idle()


async def test_asterisk_drops_what_comes_back_as_118(asterisk, open_rtp, sounds, monkeypatch):
    """The trap of slin16: it arrives as type 118, but only static types are heard coming back."""
    wideband = RtpCoding(
        "slin16", 118, SLIN_16K, 4, CODINGS["slin"].decoder, CODINGS["slin"].encoder
    )
    choose = "cordboard.telephony.asterisk.rtp_path.choose"
    monkeypatch.setattr(choose, lambda formats, codec: wideband)
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        echo.echoing = False
        call.say(sounds(2))
        await call.said()
        await burst_came(  # it does arrive
            sounds(2), lambda: np.frombuffer(resample_pcm(bytes(echo.heard), 16_000, 8000), "<i2")
        )
        sound = sounds(2, seed=2).astype("<i2").tobytes()
        echo.media.write(resample_pcm(sound, 8000, 16_000))
        await until(lambda: echo.media.queued_ms == 0)
        assert np.abs(call.heard()).max(initial=0) < 100, "118 is not heard"
        for payload_type in (10, 11):
            echo.media._packets._payload_type = payload_type
            echo.media.write(sound)
            since = time.monotonic()
            await call.hear_speech(after=since)
            await call.hear_silence(400)
        call.hangup()
        await board.exchange.idle()


async def test_strangers_floods_and_junk_disturb_nobody(asterisk, open_rtp, bursts):
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        board.exchange.formats = (ULAW_8K,)
        calls = [await phone.call(asterisk.sip_uri("agent")) for _ in range(2)]
        echoes = [await board.exchange.next_up(number) for number in (1, 2)]
        for call in calls:
            call.say(bursts(8))
        target = ("127.0.0.1", echoes[0].media.port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setblocking(False)
            for round_ in range(40):
                for _ in range(100):
                    stranger.sendto(b"\x80\0" + bytes(170), target)
                stranger.sendto(bytes(9000), target)
                stranger.sendto(b"", target)
                await asyncio.sleep(0.02 if round_ else 0)
        for call in calls:
            await call.said()
            await call.hear_silence()
        attacked, other = echoes
        assert attacked.media.counts["stranger"] > 500
        assert attacked.media.counts["flood"] > 10
        assert not attacked.ended.done()
        assert set(other.media.counts) <= OF_THE_NET
        assert came_through(bursts(8), as_linear(bytes(other.heard), "ulaw"))
        for call in calls:
            call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_every_port_is_in_use(asterisk, open_rtp):
    span = free_port_range(1)
    config = Rtp(first_port=span[0], last_port=span[0])
    async with open_rtp(asterisk, config=config) as board, SipPhone() as phone:
        first = await phone.call(asterisk.sip_uri("agent"))
        await board.exchange.next_up()
        second = await phone.call(asterisk.sip_uri("agent"))
        refused = await board.exchange.next(2)
        await asyncio.wait_for(refused.up.wait(), PATIENCE)
        assert isinstance(refused.problem, MediaError)
        assert "rtp.first_port" in str(refused.problem)
        await second.ended()
        assert board.path.health()["rtp_events"]["no_port"] == 1
        first.hangup()
        await board.exchange.idle()
        third = await phone.call(asterisk.sip_uri("agent"))
        await board.exchange.next_up(3)
        third.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_the_caller_hangs_up_while_the_media_is_being_opened(asterisk, open_rtp):
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        for _ in range(5):
            call = await phone.call(asterisk.sip_uri("answered"))
            await call.answered()
            call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
        assert board.path.health()["rtp_ports"] == 0
        assert not board.pacer.running


async def test_asterisk_closes_its_end(asterisk, open_rtp):
    """Only the media channel dies: ICMP tells at once, long before `idle_seconds`."""
    async with open_rtp(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        [name] = [name for name in await asterisk.channels() if name.startswith("UnicastRTP")]
        await asterisk.cli(f"channel request hangup {name}")
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "media_lost"
        await call.ended()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
