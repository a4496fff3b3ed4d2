"""RTP packets as bytes: what is written is read, and whatever arrives is either read or refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.telephony.asterisk.rtp import (
    Malformed,
    Packetiser,
    RtpPacket,
    parse,
    serialise,
)

words = st.integers(0, 2**32 - 1)
extensions = st.none() | st.tuples(
    st.integers(0, 0xFFFF), st.binary(max_size=40).map(lambda data: data[: len(data) & ~3])
)
packets = st.builds(
    RtpPacket,
    st.integers(0, 127),
    st.integers(0, 0xFFFF),
    words,
    words,
    st.binary(max_size=400),
    st.booleans(),
    st.lists(words, max_size=15).map(tuple),
    extensions,
)


@given(packets, st.integers(0, 255))
def test_what_is_written_is_read(packet, padding):
    assert parse(serialise(packet, padding)) == packet


@given(packets, st.integers(1, 255), st.data())
def test_a_packet_cut_short_is_read_shorter_or_refused(packet, padding, data):
    whole = serialise(packet, padding)
    cut = parse(whole[: data.draw(st.integers(0, len(whole) - 1))])
    if isinstance(cut, RtpPacket):
        assert (packet.payload + bytes(padding)).startswith(cut.payload[:-255] or b"")
        assert len(cut.payload) < len(packet.payload) + padding
    else:
        assert cut.reason in ("short", "version", "contributors", "extension", "padding")


@given(st.binary(max_size=2100))
def test_any_bytes_are_read_or_refused(data):
    assert isinstance(parse(data), (RtpPacket, Malformed))


@given(st.integers(0, 255), st.integers(0, 255), st.binary(min_size=10, max_size=60))
def test_any_first_bytes_are_read_within_bounds(first, second, rest):
    data = bytes((first, second)) + rest
    packet = parse(data)
    if isinstance(packet, RtpPacket):
        assert first >> 6 == 2
        assert packet.payload in data[12:]
    elif first == 0x80:
        pytest.fail("a bare header with any payload is RTP")


def header(first: int, second: int = 0) -> bytes:
    return struct.pack(">BBHII", first, second, 1, 2, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "short"),
        (header(0x80)[:11], "short"),
        (header(0x40) + b"payload", "version"),
        (header(0x00) + b"payload", "version"),
        (header(0x82) + b"1234567", "contributors"),
        (header(0x90) + b"123", "extension"),
        (header(0x90) + b"\0\0\0\2" + b"1234", "extension"),
        (header(0xA0) + b"payload\0", "padding"),
        (header(0xA0) + b"payload\xff", "padding"),
        (header(0xA0), "padding"),
    ],
)
def test_what_is_no_rtp_is_named(data, reason):
    assert parse(data) == Malformed(reason)


def test_a_payload_of_padding_alone_is_empty():
    assert parse(header(0xA0) + b"\0\0\0\4").payload == b""


def test_what_no_header_can_say_is_refused():
    packet = RtpPacket(0, 1, 2, 3, b"")
    with pytest.raises(ValueError, match="header"):
        serialise(packet._replace(contributors=(1,) * 16))
    with pytest.raises(ValueError, match="words"):
        serialise(packet._replace(extension=(1, b"123")))


def test_numbers_and_stamps_go_on_over_the_end_of_their_range():
    stream = Packetiser(9, 160, ssrc=7, sequence=0xFFFF, timestamp=0xFFFFFFFF)
    first, second = parse(stream.packet(b"a", marker=True)), parse(stream.packet(b"b"))
    assert first == RtpPacket(9, 0xFFFF, 0xFFFFFFFF, 7, b"a", True)
    assert second == RtpPacket(9, 0, 159, 7, b"b", False)
