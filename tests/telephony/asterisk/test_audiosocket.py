"""The AudioSocket parser: every way bytes can come, and every way a peer can be wrong."""

import struct
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio import g711
from cordboard.telephony.asterisk import audiosocket
from cordboard.telephony.asterisk.audiosocket import (
    Audio,
    Dtmf,
    Hangup,
    Identified,
    Parser,
    PeerError,
    Unknown,
    Violation,
)

CALL = UUID("40325ec2-5efd-4bd3-805f-53576e581d13")


def frame(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack("!BH", kind, len(payload)) + payload


def identified() -> Parser:
    parser = Parser()
    assert parser.feed(audiosocket.encode_uuid(CALL)) == [Identified(CALL)]
    return parser


def tone(count: int, level: int = 8000) -> bytes:
    wave = level * np.sin(2 * np.pi * 440 * np.arange(count) / 8000)
    return wave.astype("<i2").tobytes()


PCM = st.binary(min_size=1, max_size=700).map(lambda half: half + half)
FRAMES = st.one_of(
    st.tuples(PCM, st.sampled_from(sorted(set(audiosocket.RATES.values())))).map(
        lambda pair: (audiosocket.encode_audio(*pair), Audio(pair[1], pair[0]))
    ),
    st.sampled_from(sorted(audiosocket.DTMF_DIGITS)).map(
        lambda digit: (audiosocket.encode_dtmf(digit), Dtmf(digit))
    ),
    st.just((audiosocket.encode_hangup(), Hangup())),
    st.integers(0, 255).map(
        lambda code: (audiosocket.encode_error(code), PeerError(bytes((code,))))
    ),
    st.tuples(st.sampled_from([0x02, 0x04, 0x19, 0x7F, 0xFE]), st.binary(max_size=300)).map(
        lambda pair: (frame(*pair), Unknown(pair[0], len(pair[1])))
    ),
)


@given(uuid=st.uuids(), frames=st.lists(FRAMES, max_size=12), data=st.data())
def test_pieces_of_any_size_give_the_same_events(uuid, frames, data):
    stream = audiosocket.encode_uuid(uuid) + b"".join(wire for wire, _ in frames)
    parser, events, position = Parser(), [], 0
    while position < len(stream):
        size = data.draw(st.integers(1, 400))
        events += parser.feed(stream[position : position + size])
        position += size
    assert events == [Identified(uuid), *(event for _, event in frames)]


@given(
    chunks=st.lists(st.binary(max_size=2000), max_size=10),
    side=st.sampled_from(["server", "client"]),
)
def test_no_bytes_make_it_raise_and_a_violation_is_always_the_last_event(chunks, side):
    parser = Parser(side)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    assert [isinstance(event, Violation) for event in events[:-1]].count(True) == 0
    if events and isinstance(events[-1], Violation):
        assert parser.failed
        assert parser.feed(audiosocket.encode_uuid(CALL)) == []


@given(st.binary(min_size=3, max_size=100).filter(lambda data: data[0] != 0x01))
def test_the_uuid_must_come_first(data):
    [violation] = Parser().feed(data)
    assert isinstance(violation, Violation)
    assert f"0x{data[0]:02x}" in violation.message


def test_a_stranger_is_turned_away_by_the_first_three_bytes():
    [violation] = Parser().feed(b"GET")  # a browser; would announce 17,748 bytes
    assert isinstance(violation, Violation)


@pytest.mark.parametrize("size", [0, 15, 17, 36])
def test_a_uuid_of_a_wrong_size_is_refused(size):
    [violation] = Parser().feed(frame(0x01, bytes(size)))
    assert f"not {size}" in violation.message


def test_a_second_uuid_is_refused():
    [violation] = identified().feed(audiosocket.encode_uuid(uuid4()))
    assert "second UUID" in violation.message


def test_half_a_sample_is_refused():
    [violation] = identified().feed(frame(0x10, bytes(321)))
    assert "321 bytes" in violation.message


def test_a_server_overlooks_empty_audio_but_a_client_fails_as_asterisk_does():
    assert identified().feed(frame(0x10)) == []
    [violation] = Parser("client").feed(frame(0x10))
    assert "empty" in violation.message


@pytest.mark.parametrize("kind", [0x01, 0x02, 0x03, 0x20, 0xFF])
def test_a_client_fails_on_anything_but_audio_and_hangup(kind):
    [violation] = Parser("client").feed(frame(kind, b"5"))
    assert f"0x{kind:02x}" in violation.message


def test_a_client_hears_a_server_without_a_uuid():
    pcm = tone(160)
    wire = audiosocket.encode_audio(pcm) + audiosocket.encode_hangup()
    assert Parser("client").feed(wire) == [Audio(8000, pcm), Hangup()]


@pytest.mark.parametrize("payload", [b"", b"12", b"x", b"\xff"])
def test_a_dtmf_frame_that_is_no_digit_is_refused(payload):
    [violation] = identified().feed(frame(0x03, payload))
    assert "DTMF" in violation.message


def test_what_follows_a_violation_in_the_same_piece_is_not_read():
    events = identified().feed(frame(0x10, b"\0") + audiosocket.encode_audio(tone(160)))
    assert [type(event) for event in events] == [Violation]


def speech_like(seconds: float) -> bytes:
    """Bursts of harmonics with pauses and a little line noise."""
    random = np.random.default_rng(1)
    time = np.arange(int(seconds * 8000)) / 8000
    voice = sum(np.sin(2 * np.pi * 140 * k * time + k) / k for k in range(1, 12))
    loudness = np.maximum(0, np.sin(2 * np.pi * 1.5 * time))
    return (3000 * voice * loudness + random.normal(0, 3, len(time))).astype("<i2").tobytes()


def test_u_law_labelled_as_slin_is_found_out_within_a_second_of_speech():
    coded = g711.linear_to_ulaw(speech_like(1.0))
    parser, events = identified(), []
    for position in range(0, len(coded), 160):
        events += parser.feed(frame(0x10, coded[position : position + 160]))
    assert "c(slin)" in events[-1].message
    assert parser.failed


@pytest.mark.parametrize("level", [0.02, 0.3, 1.0, 3.0])
def test_real_slin_in_10_ms_frames_is_heard(level):
    samples = np.frombuffer(speech_like(4.0), "<i2") * level
    pcm = np.clip(samples, -32768, 32767).astype("<i2").tobytes()
    parser, heard = identified(), b""
    for position in range(0, len(pcm), 160):
        for event in parser.feed(frame(0x10, pcm[position : position + 160])):
            heard += event.pcm
    assert heard == pcm


@pytest.mark.parametrize("silence", [b"\0\0", b"\xff\xff", b"\xff\x7f"])
def test_silence_in_160_byte_frames_is_no_reason_to_end_a_call(silence):
    parser = identified()
    for _ in range(500):
        assert parser.feed(frame(0x10, silence * 80)) == [Audio(8000, silence * 80)]


def test_a_tone_in_u_law_is_found_out():
    coded = g711.linear_to_ulaw(tone(1600))
    parser = identified()
    events = [parser.feed(frame(0x10, coded[at : at + 160])) for at in range(0, 1600, 160)]
    assert any(isinstance(event, Violation) for batch in events for event in batch)


@pytest.mark.parametrize(
    ("pcm", "rate"), [(b"", 8000), (b"123", 8000), (bytes(65_536), 8000), (b"12", 11_025)]
)
def test_audio_that_asterisk_would_choke_on_cannot_be_encoded(pcm, rate):
    with pytest.raises(ValueError, match=r"frame|kind"):
        audiosocket.encode_audio(pcm, rate)


def test_only_a_digit_can_be_encoded_as_one():
    with pytest.raises(ValueError, match="DTMF"):
        audiosocket.encode_dtmf("12")
