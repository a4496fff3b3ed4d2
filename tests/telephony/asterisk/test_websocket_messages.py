"""Control messages of chan_websocket, as Asterisk 22.10.1 sends them and as nobody should."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.telephony.asterisk.websocket_messages import (
    MAX_COMMAND_BYTES,
    MAX_EVENT_BYTES,
    Dtmf,
    Flow,
    Malformed,
    MarkProcessed,
    MediaStart,
    Refusal,
    Status,
    Unknown,
    decode,
    encode_command,
    encode_mark,
)

CHANNEL = '"channel_id":"cordboard-x-media"'
NAMES = [
    "MEDIA_START",
    "MEDIA_MARK_PROCESSED",
    "STATUS",
    "DTMF_END",
    "MEDIA_XOFF",
    "MEDIA_XON",
    "ERROR",
    "QUEUE_DRAINED",
]
FIELDS = [
    "event",
    "connection_id",
    "channel_id",
    "format",
    "optimal_frame_size",
    "correlation_id",
    "queue_length",
    "media_paused",
    "digit",
    "error_text",
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (
            '{"event":"MEDIA_START","connection_id":"1a-2b","channel":"WebSocket/INCOMING/0x7f",'
            + CHANNEL
            + ',"format":"ulaw","optimal_frame_size":160,"ptime":20,"channel_variables":{}}',
            MediaStart("1a-2b", "cordboard-x-media", "ulaw", 160),
        ),
        (
            '{"event":"MEDIA_MARK_PROCESSED",' + CHANNEL + ',"correlation_id":"17"}',
            MarkProcessed(17),
        ),
        (
            '{"event":"STATUS",' + CHANNEL + ',"queue_length":31,"xon_level":800,'
            '"xoff_level":900,"queue_full":false,"bulk_media":false,"media_paused":true}',
            Status(31, True),
        ),
        ('{"event":"DTMF_END",' + CHANNEL + ',"digit":"#"}', Dtmf("#")),
        ('{"event":"MEDIA_XOFF",' + CHANNEL + "}", Flow(stop=True)),
        ('{"event":"MEDIA_XON",' + CHANNEL + "}", Flow(stop=False)),
        ('{"event":"ERROR",' + CHANNEL + ',"error_text":"no"}', Refusal("no")),
        ('{"event":"QUEUE_DRAINED",' + CHANNEL + "}", Unknown("QUEUE_DRAINED")),
        ('{"event":"OF_ASTERISK_30"}', Unknown("OF_ASTERISK_30")),
    ],
)
def test_what_asterisk_says(text, event):
    assert decode(text.encode()) == event


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"DTMF_END digit:5 channel_id:x",  # the plain-text form, which we never ask for
        b"[]",
        b"null",
        b"{}",
        b'{"event":7}',
        b'{"event":"DTMF_END"}',
        b'{"event":"DTMF_END","digit":"12"}',
        b'{"event":"DTMF_END","digit":""}',
        b'{"event":"DTMF_END","digit":5}',
        b'{"event":"MEDIA_MARK_PROCESSED","correlation_id":""}',
        b'{"event":"MEDIA_MARK_PROCESSED","correlation_id":"-1"}',
        '{"event":"MEDIA_MARK_PROCESSED","correlation_id":"²"}'.encode(),
        b'{"event":"MEDIA_MARK_PROCESSED","correlation_id":"' + b"9" * 5000 + b'"}',
        b'{"event":"STATUS","queue_length":true}',
        b'{"event":"STATUS","queue_length":-1}',
        b'{"event":"STATUS","queue_length":1.5}',
        b'{"event":"MEDIA_START"}',
        b'{"event":"MEDIA_START","connection_id":"a","channel_id":"b","format":"ulaw",'
        b'"optimal_frame_size":"160"}',
        b"\xff\xfe",
        b'{"event":"' + b"x" * MAX_EVENT_BYTES + b'"}',
    ],
)
def test_what_it_never_says_is_malformed(text):
    event = decode(text)
    assert isinstance(event, Malformed)
    assert len(event.problem) < 200, "a log line, not a copy of what came"


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(text):
    decode(text)


@given(
    st.dictionaries(
        st.sampled_from(FIELDS) | st.text(max_size=5), st.sampled_from(NAMES) | ANYTHING
    )
)
def test_no_message_makes_it_raise_or_gives_a_field_of_another_type(message):
    event = decode(orjson.dumps(message, option=orjson.OPT_NON_STR_KEYS))
    if isinstance(event, Status):
        assert event.queue_frames >= 0
    elif isinstance(event, Dtmf):
        assert event.digit in "0123456789*#ABCD"
        assert len(event.digit) == 1
    elif isinstance(event, MarkProcessed):
        assert event.mark >= 0


@given(st.integers(1, 10**15))
def test_a_mark_comes_back_as_it_was_sent(mark):
    command = encode_mark(mark)
    assert len(command) <= MAX_COMMAND_BYTES
    number = orjson.loads(command)["correlation_id"]
    answer = {"event": "MEDIA_MARK_PROCESSED", "channel_id": "x", "correlation_id": number}
    assert decode(orjson.dumps(answer)) == MarkProcessed(mark)


def test_commands_are_short_enough_for_asterisk():
    for command in ("FLUSH_MEDIA", "PAUSE_MEDIA", "CONTINUE_MEDIA", "GET_STATUS"):
        text = encode_command(command)
        assert orjson.loads(text) == {"command": command}
        assert len(text) <= MAX_COMMAND_BYTES
