"""Spans of calls, turns and tool calls, made with the OpenTelemetry SDK (extra `tracing`).

Only `cordboard.observe.open_tracing` imports this. This module maps lines of the ledger to the
beginnings and ends of spans; `cordboard.observe.span_sender` sends them.

The MCP SDK makes spans of its own with the process-wide tracer provider, which can be set only
once. The one set here (`_Relay`) is a stateless switch: it passes them to the engine whose tool
call they happen in, found in the context, and makes none elsewhere. So two engines in one process
do not mix, and a provider set by other code stays in place (MCP's spans then go there).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import structlog
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.util.types import Attributes, AttributeValue

from cordboard.observe.tracing import LedgerLine, ToolFacts, ToolSpan, Tracing

MAX_CALLS = 5_000
"""Calls whose spans are kept open; further calls have none. An engine cannot have as many."""
MAX_NAME = 100
"""Characters of a name that an agent invented."""
_ENGINE: Final = otel_context.create_key("cordboard-tracer-provider")
_NS_PER_MS = 1_000_000

log = structlog.get_logger()


@dataclass(slots=True)
class _Turn:
    number: int
    span: Span
    last_ns: int = 0
    """End of the last audio of its answer; 0: none has ended yet."""


@dataclass(slots=True)
class _CallSpans:
    """Open spans of one call."""

    span: Span
    began_ns: int
    speech_ns: int = 0
    """Start of the caller's speech since the last turn; 0: none."""
    turn: _Turn | None = None
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    """Attributes of every span of the call."""


class SpanTracing(Tracing):
    """The tracing of one engine."""

    def __init__(
        self, sender: SpanProcessor, service_name: str, version: str, max_calls: int = MAX_CALLS
    ) -> None:
        """`sender` receives each finished span. The usual variables (OTEL_RESOURCE_ATTRIBUTES,
        OTEL_TRACES_SAMPLER and so on) are respected."""
        resource = Resource.create({"service.name": service_name, "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(sender)
        self._tracer = self._provider.get_tracer("cordboard", version)
        self._max_calls = max_calls
        self._calls: dict[str, _CallSpans] = {}

    def start(self) -> None:
        _set_relay()

    def close(self) -> None:
        self._provider.shutdown()

    def ledger(self, call_id: str, at_ms: int, event: LedgerLine) -> None:
        if event.type == "call.offered":
            self._offered(call_id, event.fields())
            return
        call = self._calls.get(call_id)
        if call is None:
            return
        at_ns = call.began_ns + at_ms * _NS_PER_MS
        match event.type:
            case "call.bound":
                self._bound(call, event.fields())
            case "caller.started":
                speech_ns = call.began_ns + event.fields()["speech_ms"] * _NS_PER_MS
                call.speech_ns = call.speech_ns or speech_ns
            case "agent.resumed":
                call.speech_ns = 0  # that speech was not a turn
            case "caller.stopped":
                self._begin_turn(call, event.fields()["turn"], at_ns)
            case "turn.latency" | "turn.answered":
                _note_latency(call, event.fields())
            case "agent.audio_ended" | "agent.interrupted" | "agent.cut_off":
                if call.turn is not None and event.fields()["turn"] == call.turn.number:
                    call.turn.last_ns = at_ns
            case "tool.approval":
                span = call.turn.span if call.turn is not None else call.span
                span.set_attribute("cordboard.approval", event.fields()["answer"])
            case "call.ended":
                del self._calls[call_id]
                _end_call(call, event.fields(), at_ns)

    def tool_call(self, facts: ToolFacts) -> ToolSpan:
        call = self._calls.get(facts.call_id)
        parent: Span | None = None
        if call is not None:
            turn = call.turn
            in_turn = turn is not None and turn.number == facts.turn
            parent = turn.span if turn is not None and in_turn else call.span
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        name = _text(facts.exposed_name)
        span = self._tracer.start_span(
            f"execute_tool {name if facts.tool else 'unknown'}",
            context,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "cordboard.call_id": facts.call_id,
                "cordboard.context": facts.context,
                "cordboard.provider": facts.provider,
                "cordboard.turn": facts.turn,
                "cordboard.server": facts.server,
                "cordboard.tool": _text(facts.tool),
            },
        )
        return _OpenToolSpan(span, self._provider)

    def _offered(self, call_id: str, fields: Mapping[str, Any]) -> None:
        if len(self._calls) >= self._max_calls:
            log.warning("call_not_traced", call_id=call_id, calls=len(self._calls))
            return
        began_ns = _epoch_ns(fields["started_at"])
        attributes = {"cordboard.call_id": call_id}
        span = self._tracer.start_span(
            "call",
            Context(),
            SpanKind.SERVER,
            {**attributes, "cordboard.source": fields["source"]},
            start_time=began_ns,
        )
        self._calls[call_id] = _CallSpans(span, began_ns, attributes=dict(attributes))

    def _bound(self, call: _CallSpans, fields: Mapping[str, Any]) -> None:
        call.attributes["cordboard.context"] = fields["context"]
        call.attributes["cordboard.provider"] = fields["provider"]
        call.span.set_attributes(call.attributes)
        call.span.set_attribute("cordboard.generation", fields["generation"])

    def _begin_turn(self, call: _CallSpans, number: int, at_ns: int) -> None:
        began_ns = call.speech_ns or at_ns
        _end_turn(call, began_ns)
        span = self._tracer.start_span(
            "turn",
            trace.set_span_in_context(call.span, Context()),
            attributes={**call.attributes, "cordboard.turn": number},
            start_time=began_ns,
        )
        call.turn, call.speech_ns = _Turn(number, span), 0


class _OpenToolSpan(ToolSpan):
    """A tool call's span; the current one while it is entered."""

    def __init__(self, span: Span, provider: TracerProvider) -> None:
        self._span = span
        context = otel_context.set_value(_ENGINE, provider)
        self._context = trace.set_span_in_context(span, context)

    def __enter__(self) -> ToolSpan:
        self._token = otel_context.attach(self._context)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        otel_context.detach(self._token)
        self._span.end()

    def answered(self, status: str) -> None:
        self._span.set_attribute("cordboard.status", status)
        if status in ("error", "timeout"):
            self._span.set_attribute("error.type", "tool_error" if status == "error" else status)
            self._span.set_status(StatusCode.ERROR)


def _note_latency(call: _CallSpans, fields: Mapping[str, Any]) -> None:
    """Add the stages of the caller's wait to the turn that they belong to."""
    turn = call.turn
    if turn is not None and fields["turn"] == turn.number:
        for name, value in fields.items():
            if name.endswith("_ms"):
                turn.span.set_attribute(f"cordboard.latency.{name}", value)


def _end_turn(call: _CallSpans, at_ns: int) -> None:
    """End a turn when its answer has been heard; without an answer, at the next event."""
    if call.turn is not None:
        call.turn.span.end(call.turn.last_ns or at_ns)
        call.turn = None


def _end_call(call: _CallSpans, fields: Mapping[str, Any], at_ns: int) -> None:
    _end_turn(call, at_ns)
    call.span.set_attribute("cordboard.outcome", fields["outcome"])
    call.span.set_attribute("cordboard.reason", fields["reason"])
    if fields["outcome"] == "failed":
        call.span.set_status(StatusCode.ERROR)
    call.span.end(at_ns)


def _epoch_ns(started_at: str) -> int:
    try:
        return round(datetime.fromisoformat(started_at).timestamp() * 1000) * _NS_PER_MS
    except ValueError:
        return time.time_ns()


def _text(name: str) -> str:
    """Return a name of any origin, fit for UTF-8."""
    return name[:MAX_NAME].encode("utf-8", "replace").decode()


class _Relay(trace.TracerProvider):
    """The process-wide provider: a switch to the engine in whose tool call a span begins."""

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes | None = None,
    ) -> trace.Tracer:
        return _RelayTracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )


class _RelayTracer(trace.Tracer):
    def __init__(self, *identity: Any) -> None:
        self._identity = identity
        self._silent = trace.NoOpTracer()

    def _real(self, context: Context | None) -> trace.Tracer:
        provider = otel_context.get_value(_ENGINE, context)
        if isinstance(provider, TracerProvider):
            return provider.get_tracer(*self._identity)
        return self._silent

    def start_span(
        self, name: str, context: Context | None = None, *args: Any, **more: Any
    ) -> Span:
        return self._real(context).start_span(name, context, *args, **more)

    def start_as_current_span(  # type: ignore[override]
        self, name: str, context: Context | None = None, *args: Any, **more: Any
    ) -> AbstractContextManager[Span]:
        return self._real(context).start_as_current_span(name, context, *args, **more)


def _set_relay() -> None:
    present = trace.get_tracer_provider()
    if isinstance(present, trace.ProxyTracerProvider):
        trace.set_tracer_provider(_Relay())
    elif not isinstance(present, _Relay):
        log.info("tracer_provider_kept", provider=type(present).__qualname__)
