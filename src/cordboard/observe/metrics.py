"""Counters and timings of the engine, for Prometheus.

One `Metrics` per engine, with a registry of its own: nothing is global, so two engines in one
process (tests do that) never mix. Every method is a quick, synchronous update in memory and may be
called from the event loop. All label values come from the configuration or from a fixed set of
words, never from a caller, so the number of series is bounded. Tool names pass through the desk,
which knows only listed ones, and at most 100 per server have series of their own
(`bounded_labels`), since a server may list others every second. The series of an MCP server are
removed with the server (`servers.mcp_server_gone`).

Names keep the prefix `ai_agent_`. Times are seconds.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import generate_latest

from cordboard.observe.call_metrics import CallMetrics, PostCallMetrics
from cordboard.observe.conversation_metrics import ConversationMetrics
from cordboard.observe.cost_metrics import CostMetrics
from cordboard.observe.load_metrics import LoadMetrics, MediaMetrics
from cordboard.observe.tool_metrics import ServerMetrics, ToolMetrics
from cordboard.observe.tool_usage import ToolUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `Metrics.render`: the Prometheus text format."""


class Metrics:
    """All series of one engine, grouped by subject."""

    def __init__(self) -> None:
        # Otherwise each counter comes with a second, unused series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry(auto_describe=True)
        self.calls = CallMetrics(registry)
        self.conversations = ConversationMetrics(registry)
        self.costs = CostMetrics(registry)
        """Usage and cost of agents."""
        self.load = LoadMetrics(registry)
        self.media = MediaMetrics(registry)
        self.post_call = PostCallMetrics(registry)
        self.servers = ServerMetrics(registry, self.internal_error)
        """MCP servers."""
        self.usage = ToolUsage()
        """Answers of tools by day and context, for `GET /tools/usage`."""
        self.tools = ToolMetrics(registry, self.usage)
        self._internal_errors = Counter(
            "ai_agent_internal_errors",
            "Internal errors that were caught at a task's border, by place.",
            ["where"],
            registry=registry,
        )
        self._spans_dropped = Counter(
            "ai_agent_spans_dropped",
            "OpenTelemetry spans that could not be sent.",
            registry=registry,
        )
        self._info = Gauge(
            "ai_agent_info", "The running version; always 1.", ["version"], registry=registry
        )

    def internal_error(self, where: str) -> None:
        """Count an internal error that was caught at a task's border."""
        self._internal_errors.labels(where).inc()

    def spans_dropped(self, count: int) -> None:
        """Count lost spans. May be called from any thread."""
        self._spans_dropped.inc(count)

    def version(self, version: str) -> None:
        self._info.labels(version).set(1)

    def render(self) -> bytes:
        """Return all series in the Prometheus text format (`CONTENT_TYPE`).

        Do not call on the event loop: 20 servers with 10 tools each take 100 ms. Thread-safe.
        """
        return generate_latest(self._registry)
