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

from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest

from cordboard.observe.bounded_labels import BoundedLabels
from cordboard.observe.conversation_metrics import ConversationMetrics
from cordboard.observe.tool_metrics import ServerMetrics, ToolMetrics
from cordboard.observe.tool_usage import ToolUsage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `Metrics.render`: the Prometheus text format."""


MAX_MODELS = 100
"""Models with series of their own: a service may report one that is not configured."""


PostCallOutcome = Literal["queued", "delivered", "retried", "failed"]
"""Result of an attempt at a step after a call."""


_LAG_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class LoadMetrics:
    """The series of one engine about the event loop and the workers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._loop_lag = Histogram(
            "ai_agent_event_loop_lag_seconds",
            "Lag of the event loop's timers.",
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
            "Features off under load: 0 none, 1 speculative recognition, 2 the end-of-turn "
            "model, 3 new calls; each with those before it.",
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

    def loop_lag(self, seconds: float) -> None:
        self._loop_lag.observe(seconds)

    def loop_blocked(self) -> None:
        """Count one stall of the event loop."""
        self._loop_blocked.inc()

    def degradation_level(self, level: int) -> None:
        self._degradation_level.set(level)

    def worker_queue(self, priority: str, waiting: int) -> None:
        """Set the queue length of one priority (`final`, `speculative`)."""
        self._worker_queue.labels(priority).set(waiting)

    def workers_busy(self, threads: int) -> None:
        self._worker_busy.set(threads)


class MediaMetrics:
    """The series of one engine about the audio of calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._late_ticks = Counter(
            "ai_agent_late_ticks", "20 ms audio ticks sent late.", registry=registry
        )
        self._rtp_events = Counter(
            "ai_agent_rtp_events",
            "Losses, concealments and errors on calls by RTP, by a fixed word.",
            ["event"],
            registry=registry,
        )
        self._audiosocket_turned_away = Counter(
            "ai_agent_audiosocket_turned_away",
            "Connections to the AudioSocket port that were closed unused, by reason.",
            ["reason"],
            registry=registry,
        )
        self._recordings_dropped = Counter(
            "ai_agent_recording_dropped_seconds",
            "Seconds of call audio that could not be written to recordings.",
            registry=registry,
        )

    def ticks_late(self, count: int = 1) -> None:
        self._late_ticks.inc(count)

    def rtp_events(self, event: str, count: int) -> None:
        """Add to the count of one kind of RTP event (`lost`, `late`, `stranger`...)."""
        self._rtp_events.labels(event).inc(count)

    def audiosocket_turned_away(self, reason: str) -> None:
        """Count a connection that was closed unused. `reason` is one of a fixed set of words."""
        self._audiosocket_turned_away.labels(reason).inc()

    def recording_dropped(self, seconds: float) -> None:
        """Count call audio missing from its recording (disk full, disk too slow)."""
        self._recordings_dropped.inc(seconds)


class CallMetrics:
    """The series of one engine about calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._active_calls = Gauge("ai_agent_active_calls", "Calls in progress.", registry=registry)
        self._calls = Counter(
            "ai_agent_calls",
            "Calls ended, by outcome.",
            ["context", "provider", "outcome"],
            registry=registry,
        )
        self._chat_sessions = Gauge(
            "ai_agent_chat_sessions", "Written conversations in progress.", registry=registry
        )
        self._refused_offers = Counter(
            "ai_agent_refused_offers", "Calls not admitted.", ["reason"], registry=registry
        )
        self._firewall_refused = Counter(
            "ai_agent_firewall_refused",
            "Acts that the telephone firewall refused, by kind and rule.",
            ["act", "rule"],
            registry=registry,
        )
        self._trunk_calls = Gauge(
            "ai_agent_trunk_calls",
            "Live calls and transfers by trunk, of the trunks in `firewall.trunks`.",
            ["trunk", "direction"],
            registry=registry,
        )
        self._binding_problems = Counter(
            "ai_agent_binding_problems",
            "Calls that requested an unknown context or provider; others answered.",
            registry=registry,
        )

    def started(self) -> None:
        self._active_calls.inc()

    def ended(self, context: str, provider: str, outcome: str) -> None:
        """Count a call that `started` announced. `outcome` is one of a fixed set of words."""
        self._active_calls.dec()
        self._calls.labels(context, provider, outcome).inc()

    def killed(self, context: str, provider: str) -> None:
        """Count a call of an earlier engine that was killed during the call."""
        self._calls.labels(context, provider, "killed").inc()

    def chat_sessions(self, count: int) -> None:
        """Set the number of written conversations in progress."""
        self._chat_sessions.set(count)

    def refused(self, reason: str) -> None:
        """Count a call that was not admitted. `reason` is a fixed word, such as `stopping`."""
        self._refused_offers.labels(reason).inc()

    def firewall_refused(self, act: str, rule: str) -> None:
        """Count an act that the firewall refused; both are fixed words."""
        self._firewall_refused.labels(act, rule).inc()

    def trunk_calls(self, trunk: str, direction: str, more: int) -> None:
        """Count a call that begins (1) or ends (-1) on a configured trunk."""
        self._trunk_calls.labels(trunk, direction).inc(more)

    def binding_problem(self) -> None:
        """Count a call that requested a context or a provider that does not exist."""
        self._binding_problems.inc()


class PostCallMetrics:
    """The series of one engine about steps after calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Counter(
            "ai_agent_post_call_jobs",
            "Steps after calls, by result: each is queued once, may be retried, and "
            "is delivered or failed.",
            ["outcome"],
            registry=registry,
        )
        self._waiting = Gauge(
            "ai_agent_post_call_waiting", "Steps after calls that are not done.", registry=registry
        )

    def step(self, outcome: PostCallOutcome) -> None:
        """Count one result of a step after a call."""
        self._jobs.labels(outcome).inc()

    def waiting(self, jobs: int) -> None:
        """Set the number of steps after calls that are not done."""
        self._waiting.set(jobs)


class CostMetrics:
    """The series of one engine about money."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models = BoundedLabels(MAX_MODELS)
        self._usage = Counter(
            "ai_agent_usage",
            "Usage that agents' services have counted: tokens, seconds, characters, by unit.",
            ["provider", "model", "unit"],
            registry=registry,
        )
        self._cost = Counter(
            "ai_agent_cost",
            "Cost of agents' services, by `prices`.",
            ["context", "provider", "currency"],
            registry=registry,
        )

    def used(self, provider: str, model: str, unit: str, amount: float) -> None:
        """Add usage that a service has counted. `model` may be the service's own name."""
        self._usage.labels(provider, self._models.label(model), unit).inc(amount)

    def cost(self, context: str, provider: str, currency: str, amount: float) -> None:
        """Add the cost of a service."""
        self._cost.labels(context, provider, currency).inc(amount)


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
        self._ready = Gauge(
            "ai_agent_component_ready",
            "1 when a component of the engine is ready, as `/ready` and `/health` say.",
            ["component"],
            registry=registry,
        )
        self._canaries_withdrawn = Counter(
            "ai_agent_config_canaries_withdrawn",
            "Versions of the configuration that this engine has withdrawn because their calls were "
            "worse.",
            registry=registry,
        )
        self._components: set[str] = set()
        self._info = Gauge(
            "ai_agent_info", "The running version; always 1.", ["version"], registry=registry
        )

    def internal_error(self, where: str) -> None:
        """Count an internal error that was caught at a task's border."""
        self._internal_errors.labels(where).inc()

    def spans_dropped(self, count: int) -> None:
        """Count lost spans. May be called from any thread."""
        self._spans_dropped.inc(count)

    def canary_withdrawn(self) -> None:
        """Count a version that was withdrawn because its calls were worse."""
        self._canaries_withdrawn.inc()

    def components_ready(self, ready: Mapping[str, bool]) -> None:
        """Set which components are ready. Series of components that are not named are removed: a
        reload may have removed the component."""
        for gone in self._components - ready.keys():
            self._ready.remove(gone)
        self._components = set(ready)
        for component, is_ready in ready.items():
            self._ready.labels(component).set(1 if is_ready else 0)

    def version(self, version: str) -> None:
        self._info.labels(version).set(1)

    def render(self) -> bytes:
        """Return all series in the Prometheus text format (`CONTENT_TYPE`).

        Do not call on the event loop: 20 servers with 10 tools each take 100 ms. Thread-safe.
        """
        return generate_latest(self._registry)
