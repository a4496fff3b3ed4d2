"""Load of the engine, and losses of the calls' audio, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
