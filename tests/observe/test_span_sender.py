"""Sending spans: to a collector that works, and to those that do not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import structlog
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from cordboard.observe.span_sender import BATCH, SpanSender

from .conftest import Collector, said

DEAD = "http://127.0.0.1:9"


def make_spans(sender: SpanSender, *names: str) -> None:
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    provider.add_span_processor(sender)
    tracer = provider.get_tracer("test")
    for name in names:
        with tracer.start_as_current_span(name, attributes={"size": len(name)}):
            pass


def test_spans_arrive_with_what_they_say(collector: Collector) -> None:
    dropped: list[int] = []
    sender = SpanSender(collector.url + "/", dropped.append)
    make_spans(sender, "one", "three")
    sender.shutdown()
    assert [(span.name, said(span)) for span in collector.spans] == [
        ("one", {"size": 3}),
        ("three", {"size": 5}),
    ]
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["content-type"] == "application/x-protobuf"
    assert dropped == []


def test_a_full_batch_does_not_wait(collector: Collector) -> None:
    sender = SpanSender(f"{collector.url}/v1/traces", interval=3600)
    make_spans(sender, *(["span"] * BATCH))
    collector.wait(requests=1)
    assert collector.paths == ["/v1/traces"]
    assert len(collector.spans) == BATCH
    sender.shutdown()


def test_a_collectors_key_goes_along(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=abc%20def")
    sender = SpanSender(collector.url)
    make_spans(sender, "span")
    sender.shutdown()
    assert collector.headers[0]["x-api-key"] == "abc def"


def test_spans_wait_for_a_collector_that_is_busy(collector: Collector) -> None:
    dropped: list[int] = []
    collector.statuses = [503, 429]
    sender = SpanSender(collector.url, dropped.append, interval=0.01)
    make_spans(sender, "patient")
    collector.wait(requests=3)
    sender.shutdown()
    assert [span.name for span in collector.spans] == ["patient"]
    assert dropped == []


def test_a_proxy_that_cannot_be_used_is_told_and_costs_only_the_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example")
    dropped: list[int] = []
    structlog.reset_defaults()  # tests of commands leave their own log set up
    with structlog.testing.capture_logs() as logged:
        sender = SpanSender("http://collector.example", dropped.append, queue=2, interval=0.01)
        make_spans(sender, "one", "two", "three")
        sender.shutdown()
    assert sum(dropped) == 3
    assert any("socks5" in str(entry) for entry in logged)


def test_what_a_collector_refuses_is_dropped_and_counted(collector: Collector) -> None:
    dropped: list[int] = []
    collector.statuses = [400]
    sender = SpanSender(collector.url, dropped.append, interval=0.01)
    make_spans(sender, "wrong")
    collector.wait(requests=1)
    make_spans(sender, "right")
    sender.shutdown()
    assert [span.name for span in collector.spans] == ["right"]
    assert dropped == [1]


def test_one_span_that_cannot_be_sent_costs_no_other(collector: Collector) -> None:
    dropped: list[int] = []
    sender = SpanSender(collector.url, dropped.append)
    make_spans(sender, "good", "half a pair: \ud800", "good too")
    sender.shutdown()
    assert [span.name for span in collector.spans] == ["good", "good too"]
    assert dropped == [1]


def test_the_queue_has_an_end() -> None:
    dropped: list[int] = []
    sender = SpanSender(DEAD, dropped.append, queue=10, interval=3600)
    make_spans(sender, *(["span"] * 25))
    assert sum(dropped) == 15
    sender.shutdown()
    assert sum(dropped) == 25


@pytest.fixture
def mute() -> Iterator[tuple[str, threading.Event]]:
    """A collector that takes a connection and never says a word: its address, and its taking."""
    taken = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections: list[socket.socket] = []

        def take() -> None:
            connections.append(listener.accept()[0])
            taken.set()

        taker = threading.Thread(target=take)
        taker.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", taken
        taker.join()
        for connection in connections:
            connection.close()


def test_a_mute_collector_does_not_hold_the_shutdown(mute: tuple[str, threading.Event]) -> None:
    url, taken = mute
    sender = SpanSender(url, interval=0.01, request_seconds=60.0)
    make_spans(sender, "span")
    assert taken.wait(60)
    began = time.monotonic()
    sender.shutdown()
    assert time.monotonic() - began < 30, "the request itself would take 60 s"


def test_without_spans_there_is_no_thread() -> None:
    before = threading.active_count()
    sender = SpanSender(DEAD)
    assert threading.active_count() == before
    sender.shutdown()
