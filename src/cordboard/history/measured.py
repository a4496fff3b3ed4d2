"""The numbers of one call for the rollups: counts, and histograms of waits. Pure.

They contain no words and no numbers of callers: names of contexts, providers, tools, destinations
and parts come from the configuration. Counts are whole, costs in millionths, so that the sum over
calls is the same in any order, and a call can be taken out again.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from cordboard.calls.history import CallHistory, Turn
from cordboard.calls.resumption import MOVED
from cordboard.history.histogram import bucket_of
from cordboard.history.query import CallRow

MILLION = 1_000_000
STAGES = ("total", "vad", "endpoint", "stt", "brain", "tts", "wire")
"""Stages of the caller's waits, as in `turn.latency`."""
WAITS = (*STAGES, "answer", "tool", "duration")
"""Histograms: also the wait for the answer itself (fillers do not count), tool calls, whole
calls."""
KINDS = ("call", "chat", "test")
"""A call by telephone; a written conversation; a trial by the operator."""
_KIND_OF_SOURCE: Mapping[str, str] = {"chat": "chat", "try": "test"}
_FAILED = ("error", "timeout")
_NOT_JUDGED = ("shutdown", "killed", "not_reached")
_LAST_DAY = datetime.date.max.toordinal()


@dataclass(frozen=True, slots=True)
class Cell:
    """Calls that are counted together."""

    hour: int
    """Hours since 1970, UTC, of the offer."""
    day: int
    """Ordinal of the date of the offer, by the zone in its ledger."""
    context: str = ""
    provider: str = ""
    version: str = ""
    """Of the configuration; empty if it is not known."""
    kind: str = "call"


@dataclass(frozen=True, slots=True)
class Measured:
    """One call that has ended, or one refused offer."""

    cell: Cell
    ended_ms: int
    """ms since 1970."""
    counts: Counter[str] = field(default_factory=Counter)
    """By name, such as `calls`, or by family and key: `outcome/failed`, `tool/crm_find`."""
    waits: Mapping[str, Counter[int]] = field(default_factory=dict)
    """Histograms by name of `WAITS`."""

    def encode(self) -> str:
        """Return counts and waits as JSON."""
        waits = {name: list(each.items()) for name, each in self.waits.items()}
        return orjson.dumps([self.counts, waits]).decode()


def decode_measured(cell: Cell, ended_ms: int, content: str) -> Measured:
    """Return the call of `Measured.encode`."""
    counts, waits = orjson.loads(content)
    return Measured(
        cell, ended_ms, Counter(counts), {name: Counter(dict(each)) for name, each in waits.items()}
    )


def measured_of(history: CallHistory, row: CallRow) -> Measured | None:
    """Return the numbers of a call; None until it has ended, and if another engine went on with it:
    they are those of its ledger there. Raises `TypeError` or `ValueError` for
    a damaged ledger."""
    if history.ended_ms is None or history.outcome == MOVED:
        return None
    turns, counts = history.caller_turns, _counts_of(history)
    waits: dict[str, Counter[int]] = {}

    def add(name: str, ms: float | None) -> None:
        if ms is not None:
            counted, bucket = waits.setdefault(name, Counter()), bucket_of(ms)
            counted[bucket] = counted.get(bucket, 0) + 1

    for turn in turns:
        for stage in STAGES if turn.latency else ():
            add(stage, turn.latency.get(f"{stage}_ms"))
        add("answer", turn.answer_ms)
    for use in history.tools:
        if use.answered_ms is not None and use.source == "run" and use.status != "refused":
            add("tool", use.answered_ms - use.asked_ms)
    add("duration", history.ended_ms)
    version = str(history.config)
    kind = "test" if history.test else _KIND_OF_SOURCE.get(row.source, "call")
    cell = _cell(row, row.context, row.provider, version.replace("\0", ""), kind)
    return Measured(cell, row.started_ms + history.ended_ms, counts, waits)


def measured_refusal(row: CallRow) -> Measured:
    """Return the numbers of a refused offer."""
    counts = Counter({f"refused/{row.reason}": 1})
    return Measured(_cell(row), row.started_ms, counts)


def _cell(
    row: CallRow, context: str = "", provider: str = "", version: str = "", kind: str = "call"
) -> Cell:
    day = datetime.datetime.fromisoformat(row.started_at).date().toordinal()
    return Cell(row.started_ms // 3_600_000, min(day, _LAST_DAY), context, provider, version, kind)


def _counts_of(history: CallHistory) -> Counter[str]:
    turns, tools = history.caller_turns, history.tools
    counts: Counter[str] = Counter(
        {
            "calls": 1,
            f"outcome/{history.outcome}": 1,
            "turns": len(turns),
            "talk_ms": history.ended_ms or 0,
            "interruptions": sum(t.interrupted is not None for t in history.turns.values()),
            "judged": int(history.outcome not in _NOT_JUDGED),
            "contained": int(_contained(history)),
            "abandoned": int(_abandoned(history)),
        }
    )
    counts.update(f"transfer/{move['destination']}" for move in history.transfers if move["ok"])
    false = (o.verdict for o in history.overlaps if o.verdict not in ("", "interruption"))
    counts.update(f"pause/{verdict}" for verdict in false)
    counts.update(f"silence/{silence.kind}" for silence in history.silences)
    counts.update(f"tool/{use.name}" for use in tools)
    counts.update(f"tool_failed/{use.name}" for use in tools if use.status in _FAILED)
    counts.update(f"trouble/{line['where']}" for line in history.failed_parts)
    for line in history.used:
        if line.get("cost") is not None:
            name = f"cost/{line.get('currency', '')}/{line['provider']}"
            counts[name] += round(line["cost"] * MILLION)
    if any(abs(count) >= 2**53 for count in counts.values()):
        raise ValueError("a number of the ledger is too large")
    return +counts


def _contained(history: CallHistory) -> bool:
    """True if the agent served the caller to the end: they talked, and either side hung up, but not
    a caller who was waiting."""
    ended = history.reason in ("caller_hangup", "agent_hangup")
    served = history.outcome == "completed" and ended and bool(history.caller_turns)
    return served and not _abandoned(history)


def _abandoned(history: CallHistory) -> bool:
    """True if the caller hung up while waiting: for the first sound, or for an answer."""
    if history.reason != "caller_hangup":
        return False
    turns = history.caller_turns
    if not turns:
        return not any(turn.answer_start_ms is not None for turn in history.turns.values())
    return not _answered(turns[-1])


def _answered(turn: Turn) -> bool:
    if turn.filled:
        return turn.answer_ms is not None
    return turn.answer_start_ms is not None
