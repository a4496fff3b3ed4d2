"""Sender of finished spans: a bounded queue and one thread, which sends by OTLP over HTTP.

A collector that is slow, dead or hostile does no harm: handing a span over is an append, the queue
is bounded (the excess is counted, `on_dropped`), each request has a timeout, and `shutdown` takes
at most `SHUTDOWN_SECONDS`. While the collector cannot be reached, spans wait for it, with longer
and longer pauses; spans that it refuses are dropped.

The SDK's own batch processor and exporter are not used: they block the shutdown for the duration of
a request, write a log line for each excess span, and bring TLS certificates of their own; here the
certificates and the proxy rule are `cordboard.net`'s. OTEL_EXPORTER_OTLP_HEADERS and
OTEL_EXPORTER_OTLP_TRACES_HEADERS (a collector's key) are respected.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import httpx2
import structlog
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.util.re import parse_env_headers

from cordboard.net.backoff import Backoff
from cordboard.net.proxy import proxy_for
from cordboard.net.service_http import on_the_way
from cordboard.net.tls import trusted

PATH = "/v1/traces"
"""Path of OTLP over HTTP at a collector (OpenTelemetry protocol specification)."""
QUEUE = 4_096
"""Spans that may wait; a call of five minutes makes about 60."""
BATCH = 512
INTERVAL = 2.0
"""Seconds between two requests, unless a batch is full earlier."""
LONGEST_PAUSE = 60.0
REQUEST_SECONDS = 5.0
SHUTDOWN_SECONDS = 2.0
_LAST_REQUEST_SECONDS = 0.9
"""Timeout of connecting and of the answer, each, during shutdown."""
_TRY_AGAIN = {429, 502, 503, 504}
"""Statuses after which the protocol allows a retry."""

log = structlog.get_logger()


class SpanSender(SpanProcessor):
    """Takes finished spans. Its thread starts with the first one."""

    def __init__(
        self,
        endpoint: str,
        on_dropped: Callable[[int], None] = lambda _: None,
        *,
        queue: int = QUEUE,
        interval: float = INTERVAL,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`endpoint` is a collector's address, with or without `/v1/traces`."""
        base = endpoint.rstrip("/")
        self._url = base if base.endswith(PATH) else base + PATH
        self._on_dropped = on_dropped
        self._size = queue
        self._interval = interval
        self._request_seconds = request_seconds
        self._queue: deque[ReadableSpan] = deque()
        self._batch: list[ReadableSpan] = []
        """Spans taken out of the queue and not sent yet."""
        self._thread = threading.Thread(target=self._work, name="cordboard-spans", daemon=True)
        self._lock = threading.Lock()
        self._started = False
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._told = False

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span. Returns at once, in any thread."""
        context = span.context
        if self._stop.is_set() or context is None or not context.trace_flags.sampled:
            return
        if len(self._queue) >= self._size:
            self._on_dropped(1)
            return
        self._queue.append(span)
        if not self._started:
            self._start()
        if len(self._queue) == BATCH:
            self._wake.set()

    def shutdown(self) -> None:
        """Send waiting spans, if the collector takes them in time. Idempotent."""
        self._stop.set()
        self._wake.set()
        with self._lock:
            if self._started:
                self._thread.join(SHUTDOWN_SECONDS)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Make the thread send now, without waiting for it."""
        self._wake.set()
        return not self._queue

    def _start(self) -> None:
        with self._lock:
            if not self._started and not self._stop.is_set():
                self._started = True
                self._thread.start()

    def _work(self) -> None:
        try:
            client = self._client()
        except OSError as error:  # of the certificates, or of a proxy: sending is impossible
            self._tell(str(error))
            self._stop.wait()
        else:
            with client:
                self._send_until_stopped(client)
        lost = len(self._batch) + len(self._queue)
        if lost:
            self._on_dropped(lost)
            log.warning("spans_dropped", spans=lost, why="the collector did not take them in time")

    def _client(self) -> httpx2.Client:
        """Return the HTTP client. Raises `OSError`."""
        headers = {"content-type": "application/x-protobuf", **_headers(os.environ)}
        way = on_the_way(self._url.startswith("https:") and trusted(), proxy_for(self._url))
        return httpx2.Client(headers=headers, timeout=self._request_seconds, **way)

    def _send_until_stopped(self, client: httpx2.Client) -> None:
        pauses = Backoff(self._interval, LONGEST_PAUSE)
        failures = 0
        while not self._stop.is_set():
            self._wake.wait(pauses.pause(failures))
            self._wake.clear()
            sent = self._send_all(client, self._request_seconds)
            failures = 0 if sent else failures + 1
        self._send_all(client, _LAST_REQUEST_SECONDS)

    def _send_all(self, client: httpx2.Client, timeout: float) -> bool:
        """Send all waiting spans; return False if the collector cannot be reached now."""
        began = time.monotonic()
        while self._batch or self._queue:
            if self._stop.is_set() and time.monotonic() - began > SHUTDOWN_SECONDS:
                return False
            while self._queue and len(self._batch) < BATCH:
                self._batch.append(self._queue.popleft())
            if not self._send(client, timeout):
                return False
            self._batch.clear()
        return True

    def _send(self, client: httpx2.Client, timeout: float) -> bool:
        """Send one request; return True if the batch was sent or dropped."""
        body = self._encoded()
        try:
            # Only the status matters; the body may be endless, so it is not read.
            with client.stream("POST", self._url, content=body, timeout=timeout) as response:
                status = response.status_code
        except Exception as error:  # noqa: BLE001 - thread border: the next request may succeed
            return self._failed(type(error).__name__)
        if status in _TRY_AGAIN:
            return self._failed(f"HTTP {status}")
        if 200 <= status < 300:
            self._told = False
        else:
            self._on_dropped(len(self._batch))
            self._tell(f"HTTP {status}")
        return True

    def _encoded(self) -> bytes:
        try:
            return _encode(self._batch)
        except Exception:
            good = [span for span in self._batch if _can_be_encoded(span)]
            self._on_dropped(len(self._batch) - len(good))
            log.exception("spans_not_encoded", dropped=len(self._batch) - len(good))
            self._batch[:] = good
            return _encode(good)

    def _failed(self, why: str) -> bool:
        self._tell(why)
        return False

    def _tell(self, why: str) -> None:
        """Log the reason once, not for each request until it is mended."""
        if not self._told:
            self._told = True
            log.warning("spans_not_sent", error=why)


def _encode(spans: Sequence[ReadableSpan]) -> bytes:
    """Return the request's body, without error texts of servers, which may hold secrets."""
    request = encode_spans(spans)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.ClearField("events")
                span.status.message = ""
    return bytes(request.SerializeToString())


def _can_be_encoded(span: ReadableSpan) -> bool:
    try:
        _encode([span])
    except Exception:  # noqa: BLE001 - that is the question
        return False
    return True


def _headers(environ: Mapping[str, str]) -> dict[str, str]:
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    return dict(parse_env_headers(text, liberal=True))
