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

from cordboard.observe.logging import MASK, SecretFilter, configure

SECRET = "hunter2-and-more"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
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
