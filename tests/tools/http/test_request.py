"""What an argument can do to a request: fill its place, and nothing else."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.tools.http_tool import HttpTool
from cordboard.errors import ToolError
from cordboard.tools.http.request import HttpRequest, RequestPlan

VARIABLES = {"caller_number": "+4791234567"}
TEXT = st.text(max_size=40)
XML = "text/xml; charset=utf-8"
NASTY = st.sampled_from(
    [
        '"}, "admin": true, {"',
        "../../admin",
        "..",
        "a/b?c=d&e#f",
        "x\r\nHost: evil.example",
        "${SECRET}",
        "{call.caller_number}",
        "%2e%2e%2f",
        "@evil.example/",
        "\u202e\ud800",
        "<x>&'\"",
    ]
)


def plan(**config: Any) -> RequestPlan:
    whole = {"kind": "http", "url": "https://api.example.com/"} | config
    if "parameters" not in whole:
        whole["parameters"] = {name: {} for name in ("a", "b", "customer")}
    return RequestPlan(HttpTool.model_validate(whole))


def made(arguments: dict[str, Any], **config: Any) -> HttpRequest:
    return plan(**config).request(arguments, VARIABLES, "call-1:1", 1_000.9)


def headers(request: HttpRequest) -> dict[str, str]:
    return {name: value.decode() for name, value in (*request.headers, *request.secret_headers)}


@given(TEXT | NASTY)
def test_a_segment_stays_one_segment_of_the_same_host(value: str) -> None:
    try:
        request = made({"a": value}, url="https://api.example.com/x/{a}/y?z=1")
    except ToolError:
        assert not value.strip() or value in (".", "..") or len(value) > 1000
        return
    parts = urlsplit(f"https://{request.authority}{request.target}")
    assert request.host == "api.example.com"
    assert parts.query == "z=1"
    before, segment, after = parts.path.removeprefix("/").split("/")
    assert (before, after) == ("x", "y")
    assert unquote(segment, errors="replace") == value.encode("utf-8", "replace").decode()


@given(TEXT | NASTY)
def test_a_query_value_stays_one_value(value: str) -> None:
    request = made({"a": value}, url="https://api.example.com/?p={a}", query={"q": "{a}", "r": 1})
    found = parse_qsl(urlsplit(request.target).query, keep_blank_values=True)
    clean = value.encode("utf-8", "replace").decode()
    assert found == [("p", clean), ("q", clean), ("r", "1")]


@given(TEXT | NASTY)
def test_a_json_string_stays_one_string(value: str) -> None:
    body = made({"a": value}, method="POST", body={"x": "{a}", "y": "<{a}>", "z": ["{a}"]}).body
    assert body is not None
    found = json.loads(body)
    assert set(found) == {"x", "y", "z"}
    if value.isprintable():
        assert found == {"x": value, "y": f"<{value}>", "z": [value]}


@given(TEXT | NASTY)
def test_a_form_value_stays_one_value(value: str) -> None:
    body = made({"a": value}, method="POST", form={"x": "{a}", "y": "2"}).body
    assert body is not None
    found = parse_qsl(body.decode(), keep_blank_values=True)
    assert found == [("x", value.encode("utf-8", "replace").decode()), ("y", "2")]


@given(TEXT | NASTY)
def test_a_header_value_stays_one_line(value: str) -> None:
    try:
        request = made({"a": value}, header_templates={"X-Note": "n={a}"})
    except ToolError:
        assert any(ord(character) < 32 or ord(character) == 127 for character in value)
        return
    note = dict(request.headers)["X-Note"]
    assert b"\r" not in note
    assert b"\n" not in note
    assert note == f"n={value}".strip().encode("utf-8", "replace")


def test_a_text_of_xml_or_json_is_escaped_for_it() -> None:
    value = '<a b="c">&\'\n'
    xml = made({"a": value}, method="POST", text="<x>{a}</x>", content_type="text/xml").body
    assert xml == b"<x>&lt;a b=&quot;c&quot;&gt;&amp;&apos;\n</x>"
    text = made({"a": value}, method="POST", text='{{"x": "{a}"}}', content_type="application/json")
    assert json.loads(text.body or b"") == {"x": value}
    plain = made({"a": value}, method="POST", text="x {a}").body
    assert plain == f"x {value}".encode()


@given(value=TEXT | NASTY)
def test_a_text_of_xml_can_be_read_whatever_is_in_it(value: str) -> None:
    body = made(
        {"a": f"{value}\x01\ufffe."}, method="POST", text="<x>{a}</x>", content_type=XML
    ).body
    read = ElementTree.fromstring(body or b"").text
    assert read is not None
    assert read.endswith("  .")
    assert len(read) == len(f"{value}  .".replace("\r\n", "\n"))


def test_a_text_that_is_only_a_placeholder_keeps_its_type() -> None:
    body = {"n": "{a}", "list": "{b}", "more": {"city": "{customer.address.city}"}, "who": "n={a}"}
    arguments = {"a": 2.0, "b": [1, {"x": None}], "customer": {"address": {"city": "Bergen"}}}
    found = json.loads(made(arguments, method="PUT", body=body).body or b"")
    assert found == {"n": 2.0, "list": [1, {"x": None}], "more": {"city": "Bergen"}, "who": "n=2"}


def test_what_is_not_there_is_left_out() -> None:
    config = {
        "method": "POST",
        "parameters": {"a": {"required": False}, "b": {"default": 5}},
        "query": {"a": "{a}", "b": "{b}", "c": "{a|none}", "d": "x{a}"},
        "body": {"a": "{a}", "b": "{b}", "list": ["{a}", 1], "text": "<{a}>"},
    }
    request = made({}, **config)
    assert request.target == "/?b=5&c=none&d=x"
    assert json.loads(request.body or b"") == {"b": 5, "list": [1], "text": "<>"}
    assert "a=" not in made({"a": None}, **config).target


def test_a_list_becomes_several_values_of_the_query() -> None:
    assert made({"a": ["x", 2, True]}, query={"t": "{a}"}).target == "/?t=x&t=2&t=true"


def test_the_callers_number_is_at_hand_and_escaped() -> None:
    request = made({}, url="https://api.example.com/{call.caller_number}")
    assert request.target == "/%2B4791234567"


@pytest.mark.parametrize("value", ["", "  ", ".", ".."])
def test_a_segment_that_would_change_the_path_is_refused_in_words(value: str) -> None:
    with pytest.raises(ToolError):
        made({"a": value}, url="https://api.example.com/customers/{a}/orders")
    with pytest.raises(ToolError, match="The order number is missing"):
        made({}, url="https://api.example.com/{order_number}", parameters={"order_number": {}})


@pytest.mark.parametrize(
    ("value", "is_allowed"),
    [
        ("eu", True),
        ("eu.west", True),
        ("EU", True),
        ("eu.evil.example/", False),
        ("evil.example#", False),
        ("127.0.0.1:80@x", False),
        ("-", False),
        ("", False),
        ("eu\n", False),
    ],
)
def test_a_host_is_one_of_the_listed_ones(value: str, is_allowed: bool) -> None:
    config = {"url": "https://{a}.api.example.com/x", "allow_hosts": ["*.api.example.com"]}
    if is_allowed:
        assert made({"a": value}, **config).host == f"{value.lower()}.api.example.com"
    else:
        with pytest.raises(ToolError):
            made({"a": value}, **config)


def test_a_host_off_the_list_is_refused() -> None:
    with pytest.raises(ToolError):
        made({"a": "evil.example"}, url="https://{a}/x", allow_hosts=["api.example.com"])


def test_secret_headers_are_sent_as_they_are_written() -> None:
    request = made({}, headers={"Authorization": "Bearer {a}${b}"})
    assert dict(request.secret_headers) == {"Authorization": b"Bearer {a}${b}"}


def test_what_changes_something_carries_its_idempotency_key() -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert headers(made({}, method=method))["Idempotency-Key"] == "call-1:1"
    for method in ("GET", "HEAD"):
        assert "Idempotency-Key" not in headers(made({}, method=method))


def test_the_operators_own_headers_win() -> None:
    request = made({}, headers={"accept": "text/csv"}, header_templates={"User-Agent": "shop"})
    names = [name.lower() for name in headers(request)]
    assert sorted(names) == ["accept", "accept-encoding", "user-agent"]
    assert headers(request)["accept"] == "text/csv"


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("https://api.example.com", "api.example.com", "/"),
        ("https://API.example.com:443?x=1", "api.example.com", "/?x=1"),
        ("http://[::1]:8080/a%20b", "[::1]:8080", "/a%20b"),
        ("https://api.example.com/søk/{{x}}", "api.example.com", "/s%C3%B8k/%7Bx%7D"),
    ],
)
def test_the_parts_of_a_url(url: str, authority: str, target: str) -> None:
    request = made({}, url=url)
    assert (request.authority, request.target) == (authority, target)
