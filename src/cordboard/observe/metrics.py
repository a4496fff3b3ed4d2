"""What the engine counts and times, for Prometheus.

One `Metrics` per engine, with a registry of its own: nothing is global, so two engines in one
process (tests do that) never mix. Every method is a quick, synchronous update in memory and may be
called from the event loop. All label values come from the configuration or from a fixed set of
words, never from a caller, so the number of series is bounded; tool names pass through the desk,
which knows only listed ones, and of one server at most 100 are told apart (`OTHER_TOOLS`), since a
server may list others every second. The series of an MCP server go when the server does
(`mcp_server_gone`).

Names keep the prefix `ai_agent_`. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest

from cordboard.observe.cost_metrics import CostMetrics
from cordboard.observe.tool_usage import ToolUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of what `Metrics.render` returns: the Prometheus text format."""

Stage = Literal["vad", "endpoint", "stt", "brain", "tts", "wire", "total", "answer"]
"""Parts of the silence a caller hears: last speech sample of the caller → first agent sample.

`endpoint` deciding that the caller has finished (`vad` the part of it until the silence was
noticed), `stt` the final text, `brain` the first sentence of the answer, `tts` its first sample,
`wire` until the first audible one is sent, `total` all of it; `answer` the same as `total`, but
where a filler came first, until the answer itself.
"""
Verdict = Literal["interruption", "backchannel", "noise", "echo", "key", "undecided"]
"""What a voice over the agent's turned out to be."""
PostCallOutcome = Literal["queued", "delivered", "retried", "failed"]
"""What becomes of a step after a call."""
SilenceKind = Literal["filler", "continuer", "reprompt", "goodbye", "stalled"]
"""What was done about a silence."""
ApprovalAnswer = Literal["yes", "no", "none"]
"""What a caller answered who was asked whether something is to be done."""
APPROVAL_ANSWERS: Mapping[bool | None, ApprovalAnswer] = {True: "yes", False: "no", None: "none"}
"""`ApprovalAnswer` by the answer of `CallLine.confirm`."""

_TURN_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.3, 1.7, 2.5, 4.0, 8.0)
"""Fine around the aim (median 0.9 s, p95 1.3 s)."""
_REACTION_BUCKETS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_HOLD_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0, 2.0)
_SILENCE_BUCKETS = (0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 60.0)
"""Fine around what no caller should wait longer for: a sound within 1.2 s."""
_GREETING_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0)
_TOOL_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MCP_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
"""Fine where a caller notices the difference."""
_LAG_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)

MAX_TOOLS = 100
"""Tools of one server that have series of their own."""
OTHER_TOOLS = "other"
"""Stands for all further ones."""
_MAX_LABEL = 128


class Metrics:
    """All series of one engine."""

    def __init__(self) -> None:
        # Otherwise each counter comes with a second series that nobody looks at.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry(auto_describe=True)
        self._tools_known: dict[str, set[str]] = {}
        """By server; the key "" is for exposed names."""
        self.costs = CostMetrics(self._registry)
        """What agents use up."""
        self.usage = ToolUsage()
        """The same answers by day and context, for people (`GET /tools/usage`)."""
        self._define_calls()
        self._define_agents()
        self._define_conversations()
        self._define_tools()
        self._define_engine()
        self._define_media()

    def _define_calls(self) -> None:
        registry = self._registry
        self._active_calls = Gauge("ai_agent_active_calls", "Calls in progress.", registry=registry)
        self._calls = Counter(
            "ai_agent_calls",
            "Calls ended, by how they ended.",
            ["context", "provider", "outcome"],
            registry=registry,
        )
        self._chat_sessions = Gauge(
            "ai_agent_chat_sessions", "Conversations in writing that go on.", registry=registry
        )
        self._refused_offers = Counter(
            "ai_agent_refused_offers", "Calls not admitted.", ["reason"], registry=registry
        )
        self._binding_problems = Counter(
            "ai_agent_binding_problems",
            "Unknown contexts or providers that calls asked for; others answered.",
            registry=registry,
        )

    def _define_agents(self) -> None:
        registry = self._registry
        self._agent_troubles = Counter(
            "ai_agent_agent_troubles",
            "What went wrong with an agent and was helped: a lost connection, a fallback, a "
            "message that made no sense.",
            ["what"],
            registry=registry,
        )
        self._internal_errors = Counter(
            "ai_agent_internal_errors",
            "Failures of our own that were caught at a task's border, by where.",
            ["where"],
            registry=registry,
        )

    def _define_conversations(self) -> None:
        registry = self._registry
        self._turn_latency = Histogram(
            "ai_agent_turn_latency_seconds",
            "Last speech sample of the caller to first agent sample on the wire, by stage.",
            ["stage"],
            buckets=_TURN_BUCKETS,
            registry=registry,
        )
        self._reactions = Histogram(
            "ai_agent_barge_in_reaction_seconds",
            "First sample of a voice over the agent's until the agent is silent.",
            buckets=_REACTION_BUCKETS,
            registry=registry,
        )
        self._overlaps = Counter(
            "ai_agent_overlaps",
            "Voices over the agent's, by what they turned out to be.",
            ["verdict"],
            registry=registry,
        )
        self._holds = Histogram(
            "ai_agent_resumed_hold_seconds",
            "How long the agent was silent for a voice that was no interruption, by what it was.",
            ["verdict"],
            buckets=_HOLD_BUCKETS,
            registry=registry,
        )
        self._silence_lengths = Histogram(
            "ai_agent_silence_seconds",
            "How long nobody had been heard when the engine did something about it.",
            ["kind"],
            buckets=_SILENCE_BUCKETS,
            registry=registry,
        )
        self._silences = Counter(
            "ai_agent_silences",
            "Silences that were too long, by what was done: fillers, re-prompts, endings.",
            ["kind"],
            registry=registry,
        )
        self._greeting_latency = Histogram(
            "ai_agent_greeting_latency_seconds",
            "Answer to first greeting sample on the wire.",
            buckets=_GREETING_BUCKETS,
            registry=registry,
        )

    def _define_tools(self) -> None:
        registry = self._registry
        self._tool_calls = Counter(
            "ai_agent_tool_calls", "Tool calls answered.", ["tool", "status"], registry=registry
        )
        self._tool_latency = Histogram(
            "ai_agent_tool_latency_seconds",
            "Tool call to its answer.",
            ["tool"],
            buckets=_TOOL_BUCKETS,
            registry=registry,
        )
        self._tool_refusals = Counter(
            "ai_agent_tool_refused",
            "Tool calls that were refused, by why; `tool` is a refusal of the tool's own.",
            ["reason"],
            registry=registry,
        )
        self._tool_approvals = Counter(
            "ai_agent_tool_approvals",
            "Callers asked whether a tool may do its work, by their answer.",
            ["answer"],
            registry=registry,
        )
        self._tool_cache_hits = Counter(
            "ai_agent_tool_cache_hits",
            "Tool calls answered with a kept result.",
            ["tool"],
            registry=registry,
        )
        self._tool_late = Counter(
            "ai_agent_tool_late",
            "Results that came after their ask had been given up, by whether the caller was told.",
            ["told"],
            registry=registry,
        )
        self._define_servers()

    def _define_servers(self) -> None:
        registry = self._registry
        self._mcp_calls = Counter(
            "ai_agent_mcp_tool_calls",
            "Requests to MCP servers.",
            ["server", "tool", "status"],
            registry=registry,
        )
        self._mcp_latency = Histogram(
            "ai_agent_mcp_tool_latency_seconds",
            "Request to an MCP server to its answer; refused ones never got there.",
            ["server", "tool"],
            buckets=_MCP_BUCKETS,
            registry=registry,
        )
        self._mcp_up = Gauge(
            "ai_agent_mcp_server_up",
            "1 when the MCP server answers.",
            ["server"],
            registry=registry,
        )
        self._mcp_restarts = Counter(
            "ai_agent_mcp_server_restarts",
            "Restarts of an MCP server after it died.",
            ["server"],
            registry=registry,
        )
        self._mcp_breaker = Gauge(
            "ai_agent_mcp_breaker_open",
            "1 while an MCP server is left alone, because it did not answer.",
            ["server"],
            registry=registry,
        )

    def _define_engine(self) -> None:
        registry = self._registry
        self._post_call_jobs = Counter(
            "ai_agent_post_call_jobs",
            "Steps after calls, by what became of them: each is queued once, may be retried, and "
            "is delivered or failed.",
            ["outcome"],
            registry=registry,
        )
        self._post_call_waiting = Gauge(
            "ai_agent_post_call_waiting", "Steps after calls that are not done.", registry=registry
        )
        self._loop_lag = Histogram(
            "ai_agent_event_loop_lag_seconds",
            "How late the event loop ran a timer.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self._loop_blocked = Counter(
            "ai_agent_event_loop_blocked",
            "Times the event loop stood still for more than half a second.",
            registry=registry,
        )
        self._degradation_level = Gauge(
            "ai_agent_degradation_level",
            "What is given up under load: 0 nothing, 1 speculative recognition, 2 the end-of-turn "
            "model, 3 new calls; each with those before it.",
            registry=registry,
        )
        self._recordings_dropped = Counter(
            "ai_agent_recording_dropped_seconds",
            "Seconds of calls that could not be written to their recordings.",
            registry=registry,
        )
        self._worker_queue = Gauge(
            "ai_agent_worker_queue",
            "Pieces of model work waiting for a thread.",
            ["priority"],
            registry=registry,
        )
        self._worker_busy = Gauge(
            "ai_agent_worker_busy", "Worker threads at work.", registry=registry
        )
        self._spans_dropped = Counter(
            "ai_agent_spans_dropped",
            "OpenTelemetry spans that could not be sent.",
            registry=registry,
        )
        self._info = Gauge(
            "ai_agent_info", "The running version; always 1.", ["version"], registry=registry
        )

    def _define_media(self) -> None:
        registry = self._registry
        self._late_ticks = Counter(
            "ai_agent_late_ticks", "20 ms audio ticks sent late.", registry=registry
        )
        self._rtp_events = Counter(
            "ai_agent_rtp_events",
            "What was dropped, filled in or wrong on calls by RTP, by a fixed word.",
            ["event"],
            registry=registry,
        )
        self._audiosocket_turned_away = Counter(
            "ai_agent_audiosocket_turned_away",
            "Connections to the AudioSocket port that were closed unused, by why.",
            ["reason"],
            registry=registry,
        )

    # --- calls -----------------------------------------------------------------------------

    def call_started(self) -> None:
        self._active_calls.inc()

    def call_ended(self, context: str, provider: str, outcome: str) -> None:
        """Count a call that `call_started` announced. `outcome` is one of a fixed set of words."""
        self._active_calls.dec()
        self._calls.labels(context, provider, outcome).inc()

    def call_killed(self, context: str, provider: str) -> None:
        """Count a call of an earlier engine that was killed while it went on."""
        self._calls.labels(context, provider, "killed").inc()

    def chat_sessions(self, count: int) -> None:
        """Say how many conversations in writing go on."""
        self._chat_sessions.set(count)

    def offer_refused(self, reason: str) -> None:
        """Count a call that was not admitted. `reason` is a fixed word, such as `stopping`."""
        self._refused_offers.labels(reason).inc()

    def binding_problem(self) -> None:
        """Count a call that asked for a context or a provider that does not exist."""
        self._binding_problems.inc()

    def turn_latency(self, stage: Stage, seconds: float) -> None:
        self._turn_latency.labels(stage).observe(seconds)

    def barge_in_reaction(self, seconds: float) -> None:
        """A voice over the agent's: from its first sample until the agent was silent."""
        self._reactions.observe(seconds)

    def overlap(self, verdict: Verdict) -> None:
        """Count a voice over the agent's, once it is known what it was."""
        self._overlaps.labels(verdict).inc()

    def resumed(self, verdict: Verdict, seconds: float) -> None:
        """A voice over the agent's was no interruption; its speech was held for so long."""
        self._overlaps.labels(verdict).inc()
        self._holds.labels(verdict).observe(seconds)

    def agent_trouble(self, what: str) -> None:
        """Something went wrong with an agent and was helped."""
        self._agent_troubles.labels(what[:_MAX_LABEL]).inc()

    def internal_error(self, where: str) -> None:
        """Something of ours failed, and was caught at a task's border."""
        self._internal_errors.labels(where).inc()

    def silence(self, kind: SilenceKind, seconds: float) -> None:
        """A silence of so many seconds that the engine did something about."""
        self._silences.labels(kind).inc()
        self._silence_lengths.labels(kind).observe(seconds)

    def greeting_latency(self, seconds: float) -> None:
        self._greeting_latency.observe(seconds)

    # --- tools -----------------------------------------------------------------------------

    def tool_called(
        self, tool: str, status: str, seconds: float, *, context: str = "", source: str = "run"
    ) -> None:
        """Count one answer of the desk. `tool` is a name of the catalogue, never one an agent made
        up: the desk reports those as `unknown`. `source` is that of the reply."""
        tool = self._tool_label("", tool)
        self.usage.record(context, tool, status, seconds, source)
        self._tool_calls.labels(tool, status).inc()
        self._tool_latency.labels(tool).observe(seconds)

    def tool_refused(self, reason: str) -> None:
        """Count a refusal. `reason` is one of `cordboard.tools.tool.RefusalReason`, or `tool`."""
        self._tool_refusals.labels(reason).inc()

    def tool_approval(self, answer: ApprovalAnswer) -> None:
        """Count a question for the caller's yes, by what came of it."""
        self._tool_approvals.labels(answer).inc()

    def tool_cache_hit(self, tool: str) -> None:
        """Count an answer that was given again. `tool` as in `tool_called`."""
        self._tool_cache_hits.labels(self._tool_label("", tool)).inc()

    def tool_late(self, *, told: bool) -> None:
        """Count a result that came too late."""
        self._tool_late.labels("yes" if told else "no").inc()

    def mcp_tool_called(self, server: str, tool: str, status: str, seconds: float) -> None:
        """Count one answer to an ask for a listed tool of a server, by the server's own name of it.

        `refused` is what our desk turned down: it is counted, but not timed.
        """
        tool = self._tool_label(server, tool)
        self._mcp_calls.labels(server, tool, status).inc()
        if status != "refused":
            self._mcp_latency.labels(server, tool).observe(seconds)

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Say whether a server answers. Call it for each configured server at start, so that its
        series exist from the beginning."""
        self._mcp_up.labels(server).set(1 if up else 0)
        self._mcp_restarts.labels(server)
        self._mcp_breaker.labels(server)

    def mcp_server_restarted(self, server: str) -> None:
        self._mcp_restarts.labels(server).inc()

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Say whether a server is left alone for a while."""
        self._mcp_breaker.labels(server).set(1 if is_open else 0)

    def mcp_server_gone(self, server: str) -> None:
        """Take away all series of a server that no configuration in force has, when it is closed:
        whatever is reported later would bring series back. What it counted is gone with them, so
        a server of that name that comes later counts from 0, which Prometheus takes for a reset."""
        self._tools_known.pop(server, None)
        for series in (
            self._mcp_calls,
            self._mcp_latency,
            self._mcp_up,
            self._mcp_restarts,
            self._mcp_breaker,
        ):
            series.remove_by_labels({"server": server})

    def _tool_label(self, server: str, tool: str) -> str:
        """The tool as a label: fit for the text format, and one of a bounded number."""
        label = tool[:_MAX_LABEL].encode("utf-8", "replace").decode()
        known = self._tools_known.setdefault(server, set())
        if label not in known:
            if len(known) >= (MAX_TOOLS if server else 10 * MAX_TOOLS):
                return OTHER_TOOLS
            known.add(label)
        return label

    # --- after calls -----------------------------------------------------------------------

    def post_call(self, outcome: PostCallOutcome) -> None:
        """Count one thing that became of a step after a call."""
        self._post_call_jobs.labels(outcome).inc()

    def post_call_waiting(self, jobs: int) -> None:
        """Say how many steps after calls are not done."""
        self._post_call_waiting.set(jobs)

    # --- engine ----------------------------------------------------------------------------

    def loop_lag(self, seconds: float) -> None:
        self._loop_lag.observe(seconds)

    def loop_blocked(self) -> None:
        """Count one time that the event loop stood still."""
        self._loop_blocked.inc()

    def degradation_level(self, level: int) -> None:
        self._degradation_level.set(level)

    def recording_dropped(self, seconds: float) -> None:
        """Count sound of a call that did not get into its recording (disk full, disk too slow)."""
        self._recordings_dropped.inc(seconds)

    def ticks_late(self, count: int = 1) -> None:
        self._late_ticks.inc(count)

    def rtp_events(self, event: str, count: int) -> None:
        """Add to the count of one thing that went wrong on RTP (`lost`, `late`, `stranger`...)."""
        self._rtp_events.labels(event).inc(count)

    def audiosocket_turned_away(self, reason: str) -> None:
        """Count a connection that was closed unused. `reason` is one of a fixed set of words."""
        self._audiosocket_turned_away.labels(reason).inc()

    def worker_queue(self, priority: str, waiting: int) -> None:
        """Set the queue length of one priority (`final`, `speculative`)."""
        self._worker_queue.labels(priority).set(waiting)

    def workers_busy(self, threads: int) -> None:
        self._worker_busy.set(threads)

    def spans_dropped(self, count: int) -> None:
        """Count spans that are lost. May be called from any thread."""
        self._spans_dropped.inc(count)

    def version(self, version: str) -> None:
        self._info.labels(version).set(1)

    def render(self) -> bytes:
        """All series in the Prometheus text format (`CONTENT_TYPE`).

        Not on the event loop: 20 servers with 10 tools each take 100 ms. Safe from any thread.
        """
        return generate_latest(self._registry)
