"""The log: structured, complete, and without secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from cordboard.observe.logging import MASK, KeptLine, KeptLog, SecretFilter, configure

SECRET = "hunter2-and-more"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    for name in ("mcp", "mcp.client"):  # a program that another test ran here may have set them
        library = logging.getLogger(name)
        library.disabled = False
        library.setLevel(logging.NOTSET)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line() -> None:
    stream = io.StringIO()
    configure(json=True, stream=stream)
    structlog.contextvars.bind_contextvars(call_id="c1")
    structlog.get_logger().info("tool_done", tool="mcp_a_find", ms=12)
    (event,) = events(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "tool_done",
        "level": "info",
        "call_id": "c1",
        "tool": "mcp_a_find",
        "ms": 12,
    }


def test_the_log_of_libraries_comes_along() -> None:
    stream = io.StringIO()
    configure(json=True, stream=stream)
    logging.getLogger("some.library").warning("lost %s", "it", extra={"port": 5})
    (event,) = events(stream)
    assert (event["event"], event["level"], event["port"]) == ("lost it", "warning", 5)


def test_levels_are_kept_and_chatty_libraries_are_quiet() -> None:
    stream = io.StringIO()
    configure(json=True, level="INFO", stream=stream)
    structlog.get_logger().debug("frame")
    logging.getLogger("websockets.client").info("> TEXT")
    logging.getLogger("uvicorn.error").info("Started server process")
    structlog.get_logger().info("kept")
    assert [event["event"] for event in events(stream)] == ["kept"]


def test_text_for_people() -> None:
    stream = io.StringIO()
    configure(json=False, stream=stream)
    structlog.get_logger().warning("server_down", server="crm")
    line = stream.getvalue()
    assert "server_down" in line
    assert "server=crm" in line
    assert "\x1b" not in line


def test_what_strangers_say_cannot_steer_the_operators_terminal() -> None:
    stream = io.StringIO()
    configure(json=False, stream=stream)
    log = structlog.get_logger()
    log.info("mcp_stderr", line="\x1b[2J\x1b]0;owned\x07\x9b", deep={"x": "\x1b[2J"})
    logging.getLogger("library").warning("%s", "\x1b[2J")
    try:
        raise ValueError("\x1b[2Jé")
    except ValueError:
        log.exception("failed")
    shown = stream.getvalue()
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "line=\\x1b[2J" in shown
    assert "ValueError: \\x1b[2Jé\n" in shown


def test_configuring_again_replaces_and_does_not_double() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(json=True, stream=first)
    configure(json=True, stream=second)
    structlog.get_logger().info("once")
    assert first.getvalue() == ""
    assert len(events(second)) == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_a_secret_is_masked_wherever_it_turns_up(as_json: bool) -> None:
    stream = io.StringIO()
    configure(json=as_json, stream=stream, secrets=[SECRET])
    log = structlog.get_logger()
    log.info(f"saying {SECRET}", url=f"http://x:{SECRET}@h", nested={"a": [("b", SECRET)]})
    log.info("key", **{SECRET: 1})
    log.info("object", error=ValueError(SECRET), raw=SECRET.encode())
    logging.getLogger("library").error("with %s", SECRET, extra={"token": SECRET})
    try:
        raise RuntimeError(f"refused {SECRET}")
    except RuntimeError:
        log.exception("failed")
        logging.getLogger("library").exception("failed too")
    text = stream.getvalue()
    assert SECRET not in text
    assert text.count(MASK) >= 10
    assert "refused ***" in text


def test_secrets_can_be_registered_later_and_the_longest_goes_first() -> None:
    secret_filter = SecretFilter(["abcd"])
    assert secret_filter.mask("abcd-efgh") == "***-efgh"
    secret_filter.register(["abcd-efgh"])
    assert secret_filter.mask("abcd-efgh abcd") == "*** ***"


def test_short_values_are_words_and_not_secrets() -> None:
    assert SecretFilter(["yes", ""]).mask("yes, no") == "yes, no"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.just(f"x{SECRET}y"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(SECRET), inner),
    )
)
def test_no_shape_of_a_value_hides_a_secret(value: object) -> None:
    masked = SecretFilter([SECRET])(None, "info", {"event": "e", "value": value})
    assert SECRET not in repr(masked)


# The end of the log in memory.


def contents(lines: list[KeptLine]) -> list[dict[str, Any]]:
    return [json.loads(line.content) for line in lines]


@pytest.mark.parametrize("as_json", [True, False])
def test_the_kept_lines_are_those_of_the_written_log(as_json: bool) -> None:
    stream, kept = io.StringIO(), KeptLog()
    secrets = configure(json=as_json, stream=stream, secrets=[SECRET], kept=kept)
    log = structlog.get_logger()
    log.info("started", url=f"http://{SECRET}@h", error=ValueError(SECRET), call_id="c1")
    log.debug("not written")
    secrets.register(["a-later-secret"])
    try:
        raise RuntimeError(f"refused {SECRET} a-later-secret")
    except RuntimeError:
        logging.getLogger("library").exception("failed", extra={"call_id": "c2"})
    for _ in range(100):
        logging.getLogger("mcp.client").warning("noise")
    lines = kept.after(0, 1_000).lines
    assert [(each.call_id, each.level) for each in lines[:2]] == [("c1", "info"), ("c2", "error")]
    assert "RuntimeError: refused *** ***" in contents(lines)[1]["exception"]
    assert contents(lines)[0]["url"] == f"http://{MASK}@h"
    assert "secret" not in str(lines)
    assert SECRET not in str(lines)
    assert len(lines) == 2 + 20
    if as_json:
        assert contents(lines) == events(stream)


def test_what_json_cannot_have_does_not_keep_a_line_from_the_log() -> None:
    stream, kept = io.StringIO(), KeptLog()
    configure(json=False, stream=stream, kept=kept)
    endless: list[Any] = []
    endless.append(endless)
    structlog.get_logger().info("odd", a=float("nan"), b="\ud800", c=endless, d={(1, 2): object})
    (line,) = contents(kept.after(0, 10).lines)
    assert (line["event"], line["a"], line["b"]) == ("odd", "nan", "?")
    assert "odd" in stream.getvalue()


@given(
    sizes=st.lists(st.integers(0, 60), max_size=40),
    known=st.integers(0, 50),
    most=st.integers(1, 9),
)
def test_a_reader_of_the_kept_lines_misses_none_unknowingly(
    sizes: list[int], known: int, most: int
) -> None:
    kept = KeptLog(most=10, most_bytes=400)
    for number, size in enumerate(sizes, 1):
        level = "warning" if number % 2 else "info"
        kept(
            None, "info", {"event": "x" * size, "n": number, "level": level, "call_id": number % 3}
        )
    restarted = KeptLog(begin=1_000)
    restarted(None, "info", {"event": "x"})
    assert [line.number for line in restarted.after(known, most).lines] == [1_001]
    assert restarted.after(known, most).lost == 0
    begun = known if known <= len(sizes) else 0
    seen: list[int] = []
    first = part = kept.after(known, most, level="warning")
    while part.last < len(sizes):
        seen += [line["n"] for line in contents(part.lines)]
        part = kept.after(part.last, most, level="warning")
        assert part.lost == 0
    seen += [line["n"] for line in contents(part.lines)]
    assert seen == [n for n in range(begun + first.lost + 1, len(sizes) + 1) if n % 2]
    whole = kept.after(0, 100).lines
    assert len(whole) <= 10
    assert sum(len(line.content) for line in whole) <= 400
    assert kept.end(2, call_id="1").lines == [line for line in whole if line.call_id == "1"][-2:]
