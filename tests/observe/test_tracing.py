"""Which line of a ledger begins and ends which span; and when there are none."""

from __future__ import annotations

import builtins
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cordboard.calls import events
from cordboard.config.load import read
from cordboard.errors import ConfigError
from cordboard.observe.open_tracing import open_tracing
from cordboard.observe.spans import SpanTracing
from cordboard.observe.tracing import NO_TRACING, ToolFacts

BEGAN = "2026-11-21T12:00:00.000+00:00"
BEGAN_MS = 1_795_262_400_000


class Stage:
    """A tracing whose spans are kept."""

    def __init__(self, **settings: Any) -> None:
        self._kept = InMemorySpanExporter()
        self.tracing = SpanTracing(SimpleSpanProcessor(self._kept), "test", "0", **settings)

    def play(self, *lines: tuple[int, events.LedgerEvent], call_id: str = "c1") -> None:
        for at_ms, event in lines:
            self.tracing.ledger(call_id, at_ms, event)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def times(self, name: str) -> list[tuple[int, int]]:
        """Begin and end of the spans of that name, in ms of call time."""
        return [
            (
                (span.start_time or 0) // 1_000_000 - BEGAN_MS,
                (span.end_time or 0) // 1_000_000 - BEGAN_MS,
            )
            for span in self.spans
            if span.name == name
        ]


def offered(call_id: str = "c1") -> tuple[int, events.LedgerEvent]:
    return 0, events.Offered(call_id, BEGAN, "test", "479", "Kari", "100")


BOUND = (5, events.Bound("demo", "local", 3, []))


def ended(at_ms: int, outcome: str = "completed") -> tuple[int, events.LedgerEvent]:
    return at_ms, events.Ended(outcome, "caller_hangup", at_ms)


def test_a_turn_lasts_from_the_first_sound_to_the_end_of_its_answer() -> None:
    stage = Stage()
    stage.play(
        offered(),
        BOUND,
        (3_000, events.SpeechBegan(2_900)),
        (4_600, events.TurnEnded(1, 4_000)),
        (4_900, events.Latency(1, 600, 0, 100, 50, 20, 770)),
        (7_000, events.AudioEnded(1)),
        (9_000, events.SpeechBegan(8_900)),
        (9_900, events.TurnEnded(2, 9_500)),
        (11_000, events.BargedIn(2, "Well")),
        (11_500, events.SpeechBegan(10_800)),
        (12_500, events.TurnEnded(3, 12_000)),
        ended(13_000),
    )
    assert stage.times("call") == [(0, 13_000)]
    assert stage.times("turn") == [(2_900, 7_000), (8_900, 11_000), (10_800, 13_000)]
    first = next(span for span in stage.spans if span.name == "turn")
    assert first.attributes is not None
    assert first.attributes["cordboard.latency.total_ms"] == 770


def test_a_voice_that_was_nobodys_turn_does_not_begin_one() -> None:
    stage = Stage()
    stage.play(
        offered(),
        (1_000, events.SpeechBegan(900)),
        (1_500, events.Resumed("backchannel")),
        (9_000, events.SpeechBegan(8_900)),
        (9_900, events.TurnEnded(1, 9_500)),
        ended(10_000),
    )
    assert stage.times("turn") == [(8_900, 10_000)]


def test_a_failed_call_is_an_error_and_says_of_nobody_who_they_are() -> None:
    stage = Stage()
    stage.play(offered(), BOUND, (9, events.Trouble("agent", "bad key abc")), ended(10, "failed"))
    (call,) = stage.spans
    assert not call.status.is_ok
    assert dict(call.attributes or {}) == {
        "cordboard.call_id": "c1",
        "cordboard.source": "test",
        "cordboard.context": "demo",
        "cordboard.provider": "local",
        "cordboard.generation": 3,
        "cordboard.outcome": "failed",
        "cordboard.reason": "caller_hangup",
    }


@pytest.mark.parametrize("status", ["ok", "error", "timeout", "refused", "cancelled"])
def test_a_tool_call_of_no_known_call_is_a_span_too(status: str) -> None:
    stage = Stage()
    facts = ToolFacts("c9", 1, "demo", "local", "crm", "mcp:crm:find", "mcp_crm_find")
    with stage.tracing.tool_call(facts) as span:
        span.answered(status)
    (tool,) = stage.spans
    assert tool.parent is None
    assert tool.status.is_ok is (status not in ("error", "timeout"))
    assert tool.attributes is not None
    assert tool.attributes["cordboard.status"] == status


def test_an_invented_name_is_cut_and_no_name_of_a_span() -> None:
    stage = Stage()
    with stage.tracing.tool_call(ToolFacts("c", 1, "demo", "local", "", "", "\ud800" * 9_999)):
        pass
    (tool,) = stage.spans
    assert tool.name == "execute_tool unknown"
    assert (tool.attributes or {})["gen_ai.tool.name"] == "?" * 100


def test_calls_without_end_do_not_pile_up() -> None:
    stage = Stage(max_calls=2)
    for call_id in ("a", "b", "c"):
        stage.play(offered(call_id), call_id=call_id)
    for call_id in ("a", "b", "c"):
        stage.play(ended(10), call_id=call_id)
    assert len(stage.spans) == 2


def test_without_a_collector_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        assert not name.startswith("opentelemetry"), "loaded for nothing"
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    tracing = open_tracing(None, "test", "0")
    assert tracing is NO_TRACING
    tracing.ledger("c1", *offered())
    with tracing.tool_call(ToolFacts("c1", 1, "demo", "local", "", "", "x")) as span:
        span.answered("ok")


@pytest.fixture
def _no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def none_of_it(name: str, package: str | None = None) -> Any:
        return None if name.startswith("opentelemetry.sdk") else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", none_of_it)


@pytest.mark.usefixtures("_no_extra")
def test_a_missing_extra_is_named_where_the_file_asks_for_it() -> None:
    text = "contexts: {demo: {}}\ntracing:\n  otlp_endpoint: http://127.0.0.1:4318\n"
    with pytest.raises(ConfigError, match=r"a.yaml:3: tracing.otlp_endpoint.*cordboard\[tracing\]"):
        read(text, Path("a.yaml"), {})
    assert read(text.partition("tracing")[0], Path("a.yaml"), {}).problems == ()


@pytest.mark.usefixtures("_no_extra")
def test_a_missing_extra_is_named_without_a_file_too() -> None:
    with pytest.raises(ConfigError, match=r"tracing.otlp_endpoint.*cordboard\[tracing\]"):
        open_tracing("http://127.0.0.1:4318", "test", "0")
    assert open_tracing(None, "test", "0") is NO_TRACING
