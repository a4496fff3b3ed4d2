"""Speed and quality of conversations, for Prometheus. Times are seconds."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

from cordboard.observe.bounded_labels import BoundedLabels

Stage = Literal["vad", "endpoint", "stt", "brain", "tts", "wire", "total", "answer"]
"""Parts of the silence a caller hears: last speech sample of the caller → first agent sample.

`endpoint`: until the end of the turn is decided (`vad`: its part until the silence is noticed),
`stt`: the final text, `brain`: the first sentence of the answer, `tts`: its first sample, `wire`:
until the first audible one is sent, `total`: all of it. `answer`: the same as `total`, except that
after a filler it lasts until the answer itself.
"""
Verdict = Literal["interruption", "backchannel", "noise", "echo", "key", "undecided"]
"""Classification of a voice over the agent's."""
SilenceKind = Literal["filler", "continuer", "reprompt", "goodbye", "stalled"]
"""Reaction to a silence."""

_TURN_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.3, 1.7, 2.5, 4.0, 8.0)
"""Fine around the goal (median 0.9 s, p95 1.3 s)."""
_REACTION_BUCKETS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_HOLD_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0, 2.0)
_SILENCE_BUCKETS = (0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 60.0)
"""Fine around the limit of a caller's wait: audio within 1.2 s."""
_GREETING_BUCKETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0)

MAX_WORDS = 100
"""Words for problems of agents, which plug-ins may choose."""


class ConversationMetrics:
    """The series of one engine about its conversations."""

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
            "Voices over the agent's, by their classification.",
            ["verdict"],
            registry=registry,
        )
        self._holds = Histogram(
            "ai_agent_resumed_hold_seconds",
            "Silence of the agent for a voice that was not an interruption, by classification.",
            ["verdict"],
            buckets=_HOLD_BUCKETS,
            registry=registry,
        )
        self._silence_lengths = Histogram(
            "ai_agent_silence_seconds",
            "Duration of silence on both sides before the engine reacted.",
            ["kind"],
            buckets=_SILENCE_BUCKETS,
            registry=registry,
        )
        self._silences = Counter(
            "ai_agent_silences",
            "Silences that were too long, by reaction: fillers, re-prompts, endings.",
            ["kind"],
            registry=registry,
        )
        self._greeting_latency = Histogram(
            "ai_agent_greeting_latency_seconds",
            "Answer to first greeting sample on the wire.",
            buckets=_GREETING_BUCKETS,
            registry=registry,
        )
        self._words = BoundedLabels(MAX_WORDS)
        self._agent_troubles = Counter(
            "ai_agent_agent_troubles",
            "Problems of agents that were handled: a lost connection, a fallback, an unreadable "
            "message.",
            ["what"],
            registry=registry,
        )

    def turn_latency(self, stage: Stage, seconds: float) -> None:
        self._turn_latency.labels(stage).observe(seconds)

    def barge_in_reaction(self, seconds: float) -> None:
        """Observe the time from a voice's first sample over the agent's until its silence."""
        self._reactions.observe(seconds)

    def overlap(self, verdict: Verdict) -> None:
        """Count a voice over the agent's, once it is classified."""
        self._overlaps.labels(verdict).inc()

    def resumed(self, verdict: Verdict, seconds: float) -> None:
        """Observe for how long speech was held for a voice that was not an interruption."""
        self._overlaps.labels(verdict).inc()
        self._holds.labels(verdict).observe(seconds)

    def silence(self, kind: SilenceKind, seconds: float) -> None:
        """Observe the seconds of a silence to which the engine reacted."""
        self._silences.labels(kind).inc()
        self._silence_lengths.labels(kind).observe(seconds)

    def greeting_latency(self, seconds: float) -> None:
        self._greeting_latency.observe(seconds)

    def agent_trouble(self, what: str) -> None:
        """Count a problem of an agent that was handled."""
        self._agent_troubles.labels(self._words.label(what)).inc()
