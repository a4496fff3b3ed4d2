"""A call's RTP stream in virtual time: frames out at every tick, packets in, and bad input."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable, Coroutine

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio import g711
from cordboard.audio.format import ULAW_8K
from cordboard.audio.pacer import Pacer
from cordboard.telephony.asterisk.rtp import RtpPacket, parse, serialise
from cordboard.telephony.asterisk.rtp_codings import CODINGS
from cordboard.telephony.asterisk.rtp_media import FLOOD_SECONDS, RtpMedia
from cordboard_testkit.virtual_time import virtual_time

PEER = ("192.0.2.1", 12_000)


class Wire:
    """Stands for the ports and the one socket."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sent: list[tuple[float, RtpPacket]] = []
        self.error: OSError | None = None
        self.port = 4000
        self.closed = False
        self.refreshed = 0

    def open(self, receiver):
        return self

    def listen(self) -> None:
        pass

    def refresh(self) -> None:
        self.refreshed += 1

    def send(self, data: bytes, target: tuple[str, int]) -> None:
        assert target == PEER
        if self.error is not None:
            raise self.error
        packet = parse(data)
        assert isinstance(packet, RtpPacket)
        self.sent.append((asyncio.get_running_loop().time(), packet))

    def close(self) -> None:
        self.closed = True


class Stream:
    """A claimed media, and Asterisk's end of it."""

    def __init__(self, coding: str = "ulaw") -> None:
        self.wire = Wire()
        self.pacer = Pacer(asyncio.get_running_loop())
        self.media = RtpMedia(self.wire, CODINGS[coding], self.pacer)
        self.media.direct(PEER)
        self.lost: list[str] = []
        self.heard: list[bytes] = []
        self.media.on_audio(self.heard.append)
        self.media.claim(self.lost.append)
        self.number = 65_530
        self.payload_type = CODINGS[coding].payload_type

    def arrive(self, payload: bytes = b"\x01" * 160, source=PEER, **changes) -> None:
        packet = RtpPacket(self.payload_type, self.number & 0xFFFF, 0, 9, payload)
        self.number += 1
        self.media.datagram(serialise(packet._replace(**changes)), source)

    @property
    def packets(self) -> list[RtpPacket]:
        return [packet for _, packet in self.wire.sent]


def in_virtual_time(scenario: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    def test() -> None:
        with virtual_time() as loop:
            loop.run_until_complete(scenario())

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


@in_virtual_time
async def test_one_frame_every_20_ms_and_never_a_jump():
    stream = Stream()
    await asyncio.sleep(0.5)
    stream.media.write(b"\x01" * 400)
    await asyncio.sleep(0.5)
    times = [at for at, _ in stream.wire.sent]
    assert len(times) in (49, 50)
    assert np.allclose(np.diff(times), 0.02)
    first = stream.packets[0]
    for index, packet in enumerate(stream.packets):
        assert packet.payload_type == 0
        assert packet.ssrc == first.ssrc
        assert packet.sequence == first.sequence + index & 0xFFFF
        assert packet.timestamp == first.timestamp + 160 * index & 0xFFFFFFFF
        assert len(packet.payload) == 160


@in_virtual_time
async def test_the_marker_says_that_sound_begins_after_silence():
    stream = Stream()
    for _ in range(2):
        await asyncio.sleep(0.1)
        stream.media.write(b"\x01" * 480)
    await asyncio.sleep(0.1)
    loud = [packet.payload != ULAW_8K.silence() for packet in stream.packets]
    begins = [now and not before for before, now in zip([False, *loud], loud, strict=False)]
    assert begins.count(True) == 2
    assert [packet.marker for packet in stream.packets] == begins


@in_virtual_time
async def test_two_streams_do_not_begin_with_the_same_numbers():
    streams = [Stream() for _ in range(3)]
    await asyncio.sleep(0.03)
    firsts = [stream.packets[0] for stream in streams]
    for part in ("ssrc", "sequence", "timestamp"):
        assert len({getattr(packet, part) for packet in firsts}) > 1, part


@in_virtual_time
async def test_heard_held_resumed_flushed_and_marked():
    stream = Stream()
    media, sent, marks = stream.media, [], []
    media.on_sent(sent.append)
    sound = bytes(range(1, 101)) * 16  # 200 ms
    media.mark(lambda: marks.append("start"))
    media.write(sound)
    media.mark(lambda: marks.append("end"))
    await asyncio.sleep(0.07)
    assert marks == ["start"]
    assert (media.heard_ms, media.queued_ms) == (60, 140)
    media.hold()
    await asyncio.sleep(0.1)
    assert sent[-1] == ULAW_8K.silence()
    assert media.heard_ms == 60
    media.resume()
    await asyncio.sleep(0.04)
    assert sent[-1] == sound[640:800], "at the very sample"
    assert media.flush() == 100
    assert media.queued_ms == 0
    await asyncio.sleep(0.2)
    assert marks == ["start"]
    assert sent == [packet.payload for packet in stream.packets]
    media.mark(lambda: marks.append("again"))
    media.write(sound[:160])
    await asyncio.sleep(0.04)
    assert marks == ["start", "again"]


@in_virtual_time
async def test_sound_is_handed_on_as_it_comes():
    stream = Stream()
    for number in range(10):
        stream.arrive(bytes((number,)) * 160)
        assert len(stream.heard) == number + 1
    assert stream.media.counts == {}


@in_virtual_time
async def test_a_lost_frame_is_filled_in_and_counted():
    stream = Stream()
    stream.arrive()
    stream.number += 2
    stream.arrive()
    assert [len(frame) for frame in stream.heard] == [160] * 4
    assert stream.media.counts == {"lost": 2, "concealed": 2}
    assert stream.wire.counts == stream.media.counts


@in_virtual_time
async def test_a_tick_gives_up_what_is_waited_for():
    stream = Stream()
    stream.media._jitter.depth = 0.05
    stream.arrive()
    stream.number += 1
    stream.arrive()
    assert len(stream.heard) == 1
    await asyncio.sleep(0.08)
    assert len(stream.heard) == 3


@in_virtual_time
async def test_only_asterisk_is_heard():
    stream = Stream()
    stream.arrive(source=("192.0.2.66", 12_000))
    stream.arrive(source=("192.0.2.1", 12_001))
    assert stream.heard == []
    assert stream.media.counts == {"stranger": 2}


@in_virtual_time
async def test_what_cannot_be_used_is_counted_and_ends_nothing():
    stream = Stream("slin")
    media = stream.media
    stream.arrive(bytes(320))
    stream.arrive(b"odd", payload_type=10)
    stream.arrive(bytes(20), payload_type=118)
    stream.arrive(b"")
    for junk in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(5000), os.urandom(3000), b"\x80" * 11):
        media.datagram(junk, PEER)
    stream.arrive(bytes(320))
    assert len(stream.heard) == 2, "and none of them counts as lost"
    assert media.counts == {
        "payload_length": 1, "payload_type": 1, "malformed": 3, "too_long": 2,
    }  # fmt: skip
    await asyncio.sleep(0.05)
    assert stream.lost == []


@in_virtual_time
async def test_sound_faster_than_real_time_is_dropped_beyond_a_second():
    stream = Stream()
    for _ in range(500):
        stream.arrive()
    assert len(stream.heard) == FLOOD_SECONDS * 50
    assert stream.media.counts["flood"] == 450
    await asyncio.sleep(2)
    stream.arrive()
    assert len(stream.heard) == 51
    assert stream.lost == []


@in_virtual_time
async def test_a_phone_that_is_silent_for_minutes_is_no_loss():
    stream = Stream()
    stream.arrive()
    await asyncio.sleep(200)
    stream.arrive()
    assert stream.lost == []
    assert len(stream.heard) == 2
    assert stream.media.counts == {}


@in_virtual_time
async def test_no_packet_for_too_long_is_a_loss():
    stream = Stream()
    stream.media.idle_seconds = 15
    stream.arrive()
    await asyncio.sleep(14)
    assert stream.lost == []
    await asyncio.sleep(2)
    assert len(stream.lost) == 1
    assert "15 s" in stream.lost[0]
    assert stream.wire.closed
    assert not stream.pacer.running


@in_virtual_time
async def test_a_closed_port_is_a_loss_but_one_refusal_is_not():
    stream = Stream()
    stream.media.refused()
    stream.media.refused()
    stream.arrive()
    stream.media.refused()
    assert stream.lost == []
    stream.media.refused()
    stream.media.refused()
    assert stream.lost == ["Asterisk has closed its RTP port"]
    assert stream.media.counts["refused"] == 5


@in_virtual_time
async def test_a_full_socket_buffer_costs_a_frame_and_no_call():
    stream = Stream()
    stream.wire.error = BlockingIOError(errno.EAGAIN, "full")
    await asyncio.sleep(0.1)
    stream.wire.error = None
    await asyncio.sleep(0.1)
    assert stream.media.counts["send_full"] in (4, 5)
    assert stream.lost == []
    assert stream.packets


@in_virtual_time
async def test_nothing_can_be_sent_for_two_seconds():
    stream = Stream()
    stream.wire.error = OSError(errno.ENETUNREACH, "Network is unreachable")
    await asyncio.sleep(1.9)
    assert stream.lost == []
    await asyncio.sleep(0.3)
    assert len(stream.lost) == 1
    assert "unreachable" in stream.lost[0]


@in_virtual_time
async def test_the_end_is_told_once_and_silence_follows():
    stream, ends = Stream(), []
    media = stream.media
    media.write(b"\x01" * 8000)
    media.on_closed(ends.append)
    media.end("caller_hangup")
    media.end("hangup")
    media.take_key("1")
    media.write(b"\x01" * 160)
    await media.close()
    await media.close()
    assert ends == ["caller_hangup"]
    assert stream.wire.closed
    assert not stream.pacer.running
    assert media.queued_ms == 0
    late = []
    media.on_closed(late.append)
    assert late == ["caller_hangup"]


@in_virtual_time
async def test_keys_of_ari_are_handed_on():
    stream, keys = Stream(), []
    stream.media.on_dtmf(keys.append)
    for key in "4#":
        stream.media.take_key(key)
    assert keys == ["4", "#"]


@pytest.mark.parametrize("name", list(CODINGS))
def test_what_goes_out_comes_in(name):
    """Two of our ends on one wire, in each coding: a tone stays that tone."""

    async def scenario() -> None:
        speaker, listener = Stream(name), Stream(name)
        audio_format = speaker.media.format
        at = np.arange(audio_format.rate // 5)
        tone = (8000 * np.sin(2 * np.pi * 500 * at / audio_format.rate)).astype("<i2").tobytes()
        convert = {"ulaw": g711.linear_to_ulaw, "alaw": g711.linear_to_alaw}
        back = {"ulaw": g711.ulaw_to_linear, "alaw": g711.alaw_to_linear}
        speaker.media.write(convert.get(name, bytes)(tone))
        await asyncio.sleep(0.3)
        for packet in speaker.packets:
            listener.media.datagram(serialise(packet), PEER)
        heard = np.frombuffer(back.get(name, bytes)(b"".join(listener.heard)), "<i2")
        spectrum = np.abs(np.fft.rfft(heard))
        peak = spectrum.argmax() * audio_format.rate / len(heard)
        assert peak == pytest.approx(500, abs=10)
        assert heard.std() > 3000

    in_virtual_time(scenario)()


@given(
    st.sampled_from(list(CODINGS)),
    st.lists(
        st.tuples(
            st.binary(max_size=60)
            | st.builds(
                lambda *parts: serialise(RtpPacket(*parts)),
                st.integers(0, 127),
                st.integers(0, 0xFFFF) | st.integers(0, 20),
                st.integers(0, 2**32 - 1),
                st.integers(1, 2),
                st.binary(max_size=400),
            ),
            st.sampled_from([PEER, PEER, PEER, ("192.0.2.66", 1)]),
            st.floats(0, 0.2),
        ),
        max_size=60,
    ),
)
def test_any_datagrams_at_any_time_end_nothing(name, arrivals):
    async def scenario() -> None:
        stream = Stream(name)
        for data, source, later in arrivals:
            stream.media.datagram(data, source)
            await asyncio.sleep(later)
        unit = stream.media.format.bytes_per_sample
        assert all(len(frame) % unit == 0 for frame in stream.heard)
        assert stream.lost == []
        await stream.media.close()

    with virtual_time() as loop:
        loop.run_until_complete(scenario())
