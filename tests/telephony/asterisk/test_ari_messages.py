"""Whatever Asterisk sends is understood or named as malformed; nothing raises."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.telephony.asterisk.ari_messages import (
    Channel,
    Event,
    Malformed,
    Response,
    decode,
    encode_request,
    one_line,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from(
    ["type", "channel", "request_id", "status_code", "message_body", "application", "id"]
)


@given(st.text() | st.binary())
def test_any_text_is_decoded_without_an_exception(text):
    assert isinstance(decode(text), Event | Response | Malformed)


@given(st.dictionaries(KEYS, JSON | st.sampled_from(["RESTResponse", "StasisStart"])))
def test_any_object_is_decoded_without_an_exception(body):
    assert isinstance(decode(json.dumps(body)), Event | Response | Malformed)


def test_a_stasis_start_as_asterisk_22_sends_it():
    event = decode(
        '{"type":"StasisStart","timestamp":"2026-11-21T09:07:57.220+0000","args":[],"channel":'
        '{"id":"1795252077.0","name":"PJSIP/caller-00000000","state":"Up","caller":{"name":'
        '"Test Caller","number":"4711"},"dialplan":{"context":"from-test","exten":"agent",'
        '"priority":2,"app_name":"Stasis","app_data":"cordboard,x"}},"application":"cordboard"}'
    )
    assert isinstance(event, Event)
    assert (event.type, event.application) == ("StasisStart", "cordboard")
    assert event.channel == Channel(
        id="1795252077.0",
        state="Up",
        caller_name="Test Caller",
        caller_number="4711",
        exten="agent",
        application="Stasis",
        name="PJSIP/caller-00000000",
    )


@pytest.mark.parametrize(
    ("message_body", "body", "error"),
    [
        ('{"value":"1"}', {"value": "1"}, ""),
        ("", None, ""),
        ('{"message":"Channel not found"}', {"message": "Channel not found"}, "Channel not found"),
        ('{"error":"Allocation failed"}', {"error": "Allocation failed"}, "Allocation failed"),
        ("<html>oops", {"message": "<html>oops"}, "<html>oops"),
    ],
)
def test_a_response_and_its_words(message_body, body, error):
    text = {"type": "RESTResponse", "request_id": "7", "status_code": 200}
    response = decode(json.dumps({**text, "message_body": message_body}))
    assert response == Response("7", 200, body)
    assert response.error == error


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=4))
def test_query_values_of_any_text_are_carried_unchanged(query):
    message = json.loads(encode_request("1", "GET", "channels/1.0/variable", query))
    carried = message.get("query_strings", [])
    assert {pair["name"]: pair["value"] for pair in carried} == query
    assert message["uri"] == "channels/1.0/variable"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("+1900\r\nX-Forged: 1", "+1900 X-Forged: 1"),
        ("\u202eecilA", "ecilA"),
        ("Ali\u2066ce\x1b[2J\x00 \u200fSmith\u2028", "Ali ce [2J Smith"),
        (" J\u00f8rgen O'Neil ", "J\u00f8rgen O'Neil"),
        ("\r\n", ""),
    ],
)
def test_a_caller_cannot_write_a_second_line_or_turn_the_words_around(given, shown):
    body = {"id": "1.0", "caller": {"name": given, "number": given}, "dialplan": {"exten": given}}
    channel = Channel.read(body)
    assert (channel.caller_name, channel.caller_number, channel.exten) == (shown, shown, shown)


@given(st.text())
def test_a_cleaned_name_is_one_line_of_visible_characters_and_loses_no_other(name):
    cleaned = one_line(name)
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert not {unicodedata.category(c) for c in cleaned} & hidden
    assert len(cleaned.splitlines()) <= 1
    assert cleaned == cleaned.strip()
    assert one_line(cleaned) == cleaned

    def visible(text):
        return [c for c in text if unicodedata.category(c) not in hidden and not c.isspace()]

    assert visible(cleaned) == visible(name)
