"""How fast and how well agents converse, for Prometheus. Times are seconds."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

from cordboard.observe.bounded_labels import MAX_LABEL

Stage = Literal["vad", "endpoint", "stt", "brain", "tts", "wire", "total", "answer"]
"""Parts of the silence a caller hears: last speech sample of the caller → first agent sample.

`endpoint` deciding that the caller has finished (`vad` the part of it until the silence was
noticed), `stt` the final text, `brain` the first sentence of the answer, `tts` its first sample,
`wire` until the first audible one is sent, `total` all of it; `answer` the same as `total`, but
where a filler came first, until the answer itself.
"""
Verdict = Literal["interruption", "backchannel", "noise", "echo", "key", "undecided"]
"""What a voice over the agent's turned out to be."""
SilenceKind = Literal["filler", "continuer", "reprompt", "goodbye", "stalled"]
"""What was done about a silence."""

_TURN_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.3, 1.7, 2.5, 4.0, 8.0)
"""Fine around the aim (median 0.9 s, p95 1.3 s)."""
_REACTION_BUCKETS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_HOLD_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0, 2.0)
_SILENCE_BUCKETS = (0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 60.0)
"""Fine around what no caller should wait longer for: a sound within 1.2 s."""
_GREETING_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0)


class ConversationMetrics:
    """The series about the conversations of one engine."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        self._agent_troubles = Counter(
            "ai_agent_agent_troubles",
            "What went wrong with an agent and was helped: a lost connection, a fallback, a "
            "message that made no sense.",
            ["what"],
            registry=registry,
        )

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

    def silence(self, kind: SilenceKind, seconds: float) -> None:
        """A silence of so many seconds that the engine did something about."""
        self._silences.labels(kind).inc()
        self._silence_lengths.labels(kind).observe(seconds)

    def greeting_latency(self, seconds: float) -> None:
        self._greeting_latency.observe(seconds)

    def agent_trouble(self, what: str) -> None:
        """Something went wrong with an agent and was helped."""
        self._agent_troubles.labels(what[:MAX_LABEL]).inc()
