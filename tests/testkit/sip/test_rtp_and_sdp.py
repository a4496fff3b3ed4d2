"""RTP packets, telephone events and session descriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.errors import MalformedPacket
from cordboard_testkit.sip.rtp import KEYS, RtpPacket, TelephoneEvent, key_press
from cordboard_testkit.sip.sdp import AudioDescription, parse_sdp

_PACKETS = st.builds(
    RtpPacket,
    payload_type=st.integers(0, 127),
    sequence=st.integers(0, 0xFFFF),
    timestamp=st.integers(0, 0xFFFFFFFF),
    ssrc=st.integers(0, 0xFFFFFFFF),
    payload=st.binary(max_size=400),
    marker=st.booleans(),
)


@given(_PACKETS)
def test_a_packet_survives_the_wire(packet: RtpPacket) -> None:
    assert RtpPacket.parse(packet.to_bytes()) == packet


@given(st.binary(max_size=80))
def test_any_datagram_is_read_or_refused(data: bytes) -> None:
    try:
        packet = RtpPacket.parse(data)
        TelephoneEvent.parse(packet.payload)
    except MalformedPacket:
        return


@given(
    _PACKETS,
    st.lists(st.integers(0, 0xFFFFFFFF), max_size=15),
    st.none() | st.binary(max_size=40).map(lambda data: data + bytes(-len(data) % 4)),
    st.integers(0, 20),
)
def test_sources_extension_and_padding_are_skipped(
    packet: RtpPacket, sources: list[int], extension: bytes | None, padding: int
) -> None:
    data = bytearray(packet.to_bytes()[:12])
    data[0] |= len(sources)
    data += b"".join(source.to_bytes(4, "big") for source in sources)
    if extension is not None:
        data[0] |= 0x10
        data += b"\xbe\xde" + (len(extension) // 4).to_bytes(2, "big") + extension
    data += packet.payload
    if padding:
        data[0] |= 0x20
        data += bytes(padding - 1) + bytes([padding])
    assert RtpPacket.parse(bytes(data)) == packet


@pytest.mark.parametrize("key", KEYS)
def test_a_key_press_is_six_frames_and_three_ends(key: str) -> None:
    events = [TelephoneEvent.parse(event.to_bytes()) for event in key_press(key, ms=120)]
    assert [event.duration for event in events] == [160, 320, 480, 640, 800, 960, 960, 960, 960]
    assert [event.end for event in events] == [False] * 6 + [True] * 3
    assert {event.key for event in events} == {key}


@given(
    st.integers(0, 65535),
    st.sampled_from(["sendrecv", "sendonly", "recvonly", "inactive"]),
    st.none() | st.integers(96, 127),
)
def test_a_description_survives_the_wire(port: int, direction: str, events: int | None) -> None:
    types = (0, 8) + ((events,) if events is not None else ())
    offer = AudioDescription("127.0.0.1", port, types, events, direction)  # type: ignore[arg-type]
    assert parse_sdp(offer.to_bytes()) == offer


@given(st.binary(max_size=300))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        parse_sdp(body)
    except MalformedPacket:
        return


def test_the_address_may_stand_in_the_session_or_in_the_stream() -> None:
    session = b"v=0\r\nc=IN IP4 10.0.0.1\r\nm=audio 4000 RTP/AVP 0\r\n"
    assert parse_sdp(session).host == "10.0.0.1"
    assert parse_sdp(session + b"c=IN IP4 10.0.0.2\r\n").host == "10.0.0.2"


def test_a_held_stream_is_answered_with_listening_only() -> None:
    offer = AudioDescription("10.0.0.1", 4000, (0, 96), 96, "sendonly")
    answer = offer.answer("127.0.0.1", 5000)
    assert (answer.direction, answer.event_type, answer.payload_types) == ("recvonly", 96, (0, 96))


@pytest.mark.parametrize("body", [b"", b"v=0\r\n", b"m=audio x RTP/AVP 0\r\nc=IN IP4 h\r\n"])
def test_a_description_without_audio_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedPacket):
        parse_sdp(body)
