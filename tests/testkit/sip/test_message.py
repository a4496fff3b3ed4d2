"""SIP messages: what is written can be read, and what cannot be read is refused cleanly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.errors import MalformedPacket
from cordboard_testkit.sip.message import (
    Headers,
    SipMessage,
    SipRequest,
    SipResponse,
    parse_message,
    parse_name_address,
    uri_address,
)

_NAMES = st.from_regex(r"X-[A-Za-z0-9\-]{1,20}", fullmatch=True)
_VALUES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=60).map(
    str.strip
)
_HEADERS = st.lists(st.tuples(_NAMES, _VALUES), max_size=8).map(Headers)
_REQUESTS = st.builds(
    SipRequest,
    method=st.sampled_from(["INVITE", "ACK", "BYE", "NOTIFY"]),
    uri=st.from_regex(r"sip:[a-z0-9.\-_]{1,20}@127\.0\.0\.1:[1-9][0-9]{0,3}", fullmatch=True),
    headers=_HEADERS,
    body=st.binary(max_size=200),
)
_RESPONSES = st.builds(
    SipResponse,
    status=st.integers(100, 699),
    reason=st.sampled_from(["OK", "Not Found", "Moved Temporarily", ""]),
    headers=_HEADERS,
    body=st.binary(max_size=200),
)


def _without_length(message: SipMessage) -> list[tuple[str, str]]:
    return [(name, value) for name, value in message.headers if name != "Content-Length"]


@given(st.one_of(_REQUESTS, _RESPONSES))
def test_a_message_survives_the_wire(message: SipMessage) -> None:
    read = parse_message(message.to_bytes())
    assert type(read) is type(message)
    assert read.body == message.body
    assert _without_length(read) == list(message.headers)
    if isinstance(message, SipRequest):
        assert isinstance(read, SipRequest)
        assert (read.method, read.uri) == (message.method, message.uri)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_message(data)
    except MalformedPacket:
        return


@given(_REQUESTS, st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_message_is_read_or_refused(
    message: SipRequest, position: int, byte: int
) -> None:
    data = bytearray(message.to_bytes())
    data[position % len(data)] = byte
    try:
        parse_message(bytes(data))
    except MalformedPacket:
        return


def test_header_names_ignore_case_and_have_compact_forms() -> None:
    message = parse_message(
        b"INVITE sip:1@h SIP/2.0\r\nv: SIP/2.0/UDP a\r\nVIA: SIP/2.0/UDP b\r\n"
        b"i: abc\r\nSubject: one\r\n two\r\nl: 0\r\n\r\n"
    )
    assert message.headers.all("Via") == ["SIP/2.0/UDP a", "SIP/2.0/UDP b"]
    assert message.headers.get("Call-ID") == "abc"
    assert message.headers.get("subject") == "one two"
    assert "l" in message.headers
    assert message.headers.get("contact", "none") == "none"


def test_a_header_cannot_smuggle_another_one() -> None:
    with pytest.raises(ValueError, match="line break"):
        Headers([("X-AI-Context", "demo\r\nX-Evil: 1")])


@pytest.mark.parametrize("length", ["5", "-1", "x", "\u0662"])
def test_a_wrong_content_length_is_refused(length: str) -> None:
    with pytest.raises(MalformedPacket):
        parse_message(f"BYE sip:1@h SIP/2.0\r\nContent-Length: {length}\r\n\r\nabc".encode())


def test_name_addresses() -> None:
    quoted = parse_name_address(r'"A \"B\" <C>" <sip:0123@10.0.0.1:5070;ob>;tag=x;lr')
    assert (quoted.display, quoted.user, quoted.uri) == (
        'A "B" <C>',
        "0123",
        "sip:0123@10.0.0.1:5070;ob",
    )
    assert quoted.parameters == {"tag": "x", "lr": ""}
    assert parse_name_address("Bob <sip:b@h>").display == "Bob"
    bare = parse_name_address("sip:b@h:5070;tag=y")
    assert (bare.uri, bare.parameters) == ("sip:b@h:5070", {"tag": "y"})
    with pytest.raises(MalformedPacket):
        parse_name_address("nothing of the kind")


def test_addresses_of_uris() -> None:
    assert uri_address("sip:6001@127.0.0.1:5070;transport=udp") == ("127.0.0.1", 5070)
    assert uri_address("sip:example.org") == ("example.org", 5060)
    for wrong in ("http://x", "sip:a@h:99999", ""):
        with pytest.raises(MalformedPacket):
            uri_address(wrong)
