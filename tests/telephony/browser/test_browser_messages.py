"""The page's frames: whatever comes, the answer is a message or a violation with a close code."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.format import SLIN_16K, ULAW_8K
from cordboard.telephony.browser import messages
from cordboard.telephony.browser.messages import (
    HEADER,
    HangupByPage,
    MarkDone,
    PageStats,
    Played,
    PressedKey,
    Sound,
    Violation,
    decode_sound,
    decode_text,
    encode_sound,
)

FRAME = bytes(range(160))
PLAYED: dict[str, Any] = {
    "type": "played",
    "flush": 2,
    "ms": 1240.5,
    "playing": True,
    "queued_ms": 60,
    "underruns": 1,
}


@given(st.binary(min_size=640, max_size=640), st.integers(0, 2**33), st.integers(0, 2**32 - 1))
def test_a_frame_comes_out_as_it_went_in_also_when_its_number_wraps(
    pcm: bytes, seq: int, at_ms: int
) -> None:
    assert decode_sound(encode_sound(seq, at_ms, pcm), seq, SLIN_16K) == Sound(pcm, at_ms)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"", messages.BAD_FRAME),
        (HEADER.pack(1, 7, 0)[:-1], messages.BAD_FRAME),
        (HEADER.pack(2, 7, 0) + FRAME, messages.BAD_FRAME),
        (encode_sound(7, 0, b""), messages.BAD_FRAME),
        (encode_sound(7, 0, FRAME[:-1]), messages.BAD_FRAME),
        (encode_sound(7, 0, FRAME + b"\0"), messages.TOO_LARGE),
        (encode_sound(6, 0, FRAME), messages.OUT_OF_ORDER),
        (encode_sound(8, 0, FRAME), messages.OUT_OF_ORDER),
    ],
)
def test_a_frame_that_is_not_the_next_20_ms_has_a_close_code(frame: bytes, code: int) -> None:
    found = decode_sound(frame, 7, ULAW_8K)
    assert isinstance(found, Violation)
    assert found.code == code


@given(st.binary(max_size=1_400))
def test_no_binary_frame_raises(frame: bytes) -> None:
    assert isinstance(decode_sound(frame, 0, SLIN_16K), (Sound, Violation))


def test_each_message_of_a_page_is_read() -> None:
    def read(**body: Any) -> object:
        return decode_text(orjson.dumps(body).decode())

    assert read(**PLAYED) == Played(flush=2, ms=1240.5, playing=True, queued_ms=60.0, underruns=1)
    assert read(type="mark_done", name=4) == MarkDone(name=4)
    assert read(type="key", digit="#") == PressedKey(digit="#")
    assert read(type="hangup") == HangupByPage()
    assert read(type="stats", output_ms=21.3, late=2, of_later_version=1) == PageStats(
        output_ms=21.3, late=2
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"type":1}',
        '{"type":"jump"}',
        '{"type":"key","digit":"12"}',
        '{"type":"key","digit":"a"}',
        '{"type":"key"}',
        '{"type":"mark_done","name":-1}',
        '{"type":"mark_done","name":true}',
        '{"type":"mark_done","name":4294967296}',
        orjson.dumps({**PLAYED, "ms": -1}).decode(),
        orjson.dumps({**PLAYED, "ms": 1e300}).decode(),
        orjson.dumps({**PLAYED, "ms": None}).decode(),
        orjson.dumps({**PLAYED, "playing": 1}).decode(),
        orjson.dumps({**PLAYED, "underruns": 0.5}).decode(),
    ],
)
def test_a_text_that_is_no_message_is_a_violation(text: str) -> None:
    found = decode_text(text)
    assert isinstance(found, Violation)
    assert found.code == messages.BAD_FRAME


def test_a_long_text_is_too_large_before_it_is_read() -> None:
    found = decode_text('{"type":"hangup"' + " " * messages.MAX_TEXT_CHARACTERS + "}")
    assert isinstance(found, Violation)
    assert found.code == messages.TOO_LARGE


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(
    st.sampled_from(["played", "mark_done", "key", "hangup", "stats", "x"]),
    st.dictionaries(
        st.sampled_from(["flush", "ms", "playing", "queued_ms", "underruns", "name", "digit"]),
        _json,
    ),
)
def test_no_fields_of_a_message_raise(kind: str, fields: dict[str, Any]) -> None:
    decode_text(json.dumps({**fields, "type": kind}))


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    decode_text(text)
