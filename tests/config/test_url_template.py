"""URLs with placeholders, taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.templates import (
    Placeholder,
    only_placeholder,
    placeholders_in,
    read_json_template,
)
from cordboard.config.url_template import read_url_template


@pytest.mark.parametrize(
    ("text", "host", "port", "path", "query"),
    [
        ("https://a.example", "a.example", None, "/", ""),
        ("HTTP://A.Example:81/x/y?z=1?2", "a.example", 81, "/x/y", "z=1?2"),
        ("https://a.example?x", "a.example", None, "/", "x"),
        ("https://[2001:db8::1]:8443/", "2001:db8::1", 8443, "/", ""),
        ("https://[2001:db8::1]", "2001:db8::1", None, "/", ""),
        ("https://a.example/{{x}}", "a.example", None, "/{x}", ""),
    ],
)
def test_the_parts(text: str, host: str, port: int | None, path: str, query: str) -> None:
    url = read_url_template(text)
    assert (url.fixed_host, url.port) == (host, port)
    assert ("".join(map(str, url.path)), "".join(map(str, url.query))) == (path, query)


def test_placeholders_are_where_they_stand() -> None:
    url = read_url_template("https://{a}.x.example:8443/{b}/c{d|/?}?e={f}&{g}=1")
    assert url.fixed_host is None
    assert url.port == 8443
    names = [
        [piece.path[0] for piece in part if isinstance(piece, Placeholder)]
        for part in (url.host, url.path, url.query)
    ]
    assert names == [["a"], ["b", "d"], ["f", "g"]]


@pytest.mark.parametrize(
    "text",
    ["", "/x", "{a}", "{a}://x", "https://", "https:///x", "https://{a}:{b}/", "https://a:0/",
     "https://a:99999/", "https://a b/", "https://a\\b/", "https://a/\n", "https://a@b/"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|at character"):
        read_url_template(text)


@given(st.text("htps:/.?#@[]{}|ab1 \\", max_size=40), st.booleans())
def test_any_text_is_taken_apart_or_refused(text: str, begins: bool) -> None:
    try:
        url = read_url_template(f"https://{text}" if begins else text)
    except ValueError:
        return
    fixed = "".join(piece for piece in url.host if isinstance(piece, str))
    assert not set("/?#@\\ ") & set(fixed)
    assert str(url.path[0]).startswith("/")


def test_the_places_of_placeholders_in_json() -> None:
    template = read_json_template({"a": ["x", "{b}"], "c": {"d": "<{e.0|none}>"}, "f": 1})
    found = [(path, piece.path) for path, piece in placeholders_in(template)]
    assert found == [(("a", 1), ("b",)), (("c", "d"), ("e", "0"))]
    assert only_placeholder(template["a"][1]) is not None
    assert only_placeholder(template["c"]["d"]) is None
