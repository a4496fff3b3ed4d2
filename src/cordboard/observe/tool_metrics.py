"""Tools at the desk and at MCP servers, for Prometheus. Times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cordboard.observe.bounded_labels import BoundedLabels
from cordboard.observe.tool_usage import ToolUsage

ApprovalAnswer = Literal["yes", "no", "none"]
"""The caller's answer to an approval question."""
APPROVAL_ANSWERS: Mapping[bool | None, ApprovalAnswer] = {True: "yes", False: "no", None: "none"}
"""`ApprovalAnswer` by the answer of `CallLine.confirm`."""

_TOOL_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MCP_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
"""Fine in the range that callers notice."""

MAX_TOOLS = 100
"""Tools of one server with series of their own; all exposed names together: ten times that."""


class ToolMetrics:
    """The series of one engine about tools, from the desk's replies."""

    def __init__(self, registry: CollectorRegistry, usage: ToolUsage) -> None:
        self._usage = usage
        self._names = BoundedLabels(10 * MAX_TOOLS)
        self._calls = Counter(
            "ai_agent_tool_calls", "Tool calls answered.", ["tool", "status"], registry=registry
        )
        self._latency = Histogram(
            "ai_agent_tool_latency_seconds",
            "Tool call to its answer.",
            ["tool"],
            buckets=_TOOL_BUCKETS,
            registry=registry,
        )
        self._refusals = Counter(
            "ai_agent_tool_refused",
            "Tool calls that were refused, by reason; `tool` is a refusal of the tool's own.",
            ["reason"],
            registry=registry,
        )
        self._approvals = Counter(
            "ai_agent_tool_approvals",
            "Approval questions to callers, by their answer.",
            ["answer"],
            registry=registry,
        )
        self._cache_hits = Counter(
            "ai_agent_tool_cache_hits",
            "Tool calls answered with a kept result.",
            ["tool"],
            registry=registry,
        )
        self._late = Counter(
            "ai_agent_tool_late",
            "Results that came after their tool call was given up, by whether the caller heard.",
            ["told"],
            registry=registry,
        )

    def called(
        self, tool: str, status: str, seconds: float, *, context: str = "", source: str = "run"
    ) -> None:
        """Count one answer of the desk. `tool` is a name of the catalogue, never one that an agent
        invented: the desk reports those as `unknown`. `source` is that of the reply."""
        tool = self._names.label(tool)
        self._usage.record(context, tool, status, seconds, source)
        self._calls.labels(tool, status).inc()
        self._latency.labels(tool).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a refusal. `reason` is one of `cordboard.tools.tool.RefusalReason`, or `tool`."""
        self._refusals.labels(reason).inc()

    def approval(self, answer: ApprovalAnswer) -> None:
        """Count an approval question, by its answer."""
        self._approvals.labels(answer).inc()

    def cache_hit(self, tool: str) -> None:
        """Count an answer that was given again. `tool` as in `called`."""
        self._cache_hits.labels(self._names.label(tool)).inc()

    def late(self, *, told: bool) -> None:
        """Count a result that came too late."""
        self._late.labels("yes" if told else "no").inc()


class ServerMetrics:
    """The series of one engine about MCP servers.

    It implements `mcp.supervision.status.ServerObserver`.
    """

    def __init__(self, registry: CollectorRegistry, internal_error: Callable[[str], None]) -> None:
        self._internal_error = internal_error
        self._tools: dict[str, BoundedLabels] = {}
        """By server."""
        self._calls = Counter(
            "ai_agent_mcp_tool_calls",
            "Requests to MCP servers.",
            ["server", "tool", "status"],
            registry=registry,
        )
        self._latency = Histogram(
            "ai_agent_mcp_tool_latency_seconds",
            "Duration of a request to an MCP server until its answer; without refused ones.",
            ["server", "tool"],
            buckets=_MCP_BUCKETS,
            registry=registry,
        )
        self._up = Gauge(
            "ai_agent_mcp_server_up",
            "1 when the MCP server answers.",
            ["server"],
            registry=registry,
        )
        self._restarts = Counter(
            "ai_agent_mcp_server_restarts",
            "Restarts of an MCP server after it died.",
            ["server"],
            registry=registry,
        )
        self._breaker = Gauge(
            "ai_agent_mcp_breaker_open",
            "1 while the circuit breaker of an MCP server is open, because it did not answer.",
            ["server"],
            registry=registry,
        )
        self._reports = Gauge(
            "ai_agent_mcp_breaker_reports",
            "Other engines of the cluster whose circuit breaker of an MCP server is open.",
            ["server"],
            registry=registry,
        )

    def tool_called(self, server: str, tool: str, status: str, seconds: float) -> None:
        """Count one answer to a call of a server's listed tool, by the server's own name of it.

        `refused` is a refusal of our desk: it is counted, but not timed.
        """
        tool = self._tools.setdefault(server, BoundedLabels(MAX_TOOLS)).label(tool)
        self._calls.labels(server, tool, status).inc()
        if status != "refused":
            self._latency.labels(server, tool).observe(seconds)

    def internal_error(self, where: str) -> None:
        """Count an internal error that was caught at a task's border."""
        self._internal_error(where)

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Set whether a server answers. Call it for each configured server at start, so that its
        series exist from the beginning."""
        self._up.labels(server).set(1 if up else 0)
        self._restarts.labels(server)
        self._breaker.labels(server)

    def mcp_server_restarted(self, server: str) -> None:
        self._restarts.labels(server).inc()

    def mcp_breaker_reports(self, server: str, engines: int) -> None:
        """Set how many other engines of the cluster have an open breaker of a server."""
        self._reports.labels(server).set(engines)

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Set whether a server's circuit breaker is open."""
        self._breaker.labels(server).set(1 if is_open else 0)

    def mcp_server_gone(self, server: str) -> None:
        """Remove all series of a server that is in no configuration in force, once it is closed:
        later reports would bring series back. Its counts are removed too, so a later server of that
        name counts from 0, which Prometheus takes for a reset."""
        self._tools.pop(server, None)
        for series in (
            self._calls,
            self._latency,
            self._up,
            self._restarts,
            self._breaker,
            self._reports,
        ):
            series.remove_by_labels({"server": server})
