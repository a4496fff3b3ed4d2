"""Turns recorded calls into figures; nothing here listens or waits.

cut off      the agent began to speak before the caller's turn was over
latency      last speech sample of the turn to the agent's next one, at the caller
obeyed       spoken over, the agent fell silent within a second, stayed so to the end of it, and
             gave up its sentence
yield        first sample of the interruption to the agent's last one
cut          the agent gave up its sentence (ledger: `agent.interrupted`)
whole        every sample of its sentence was heard, in order, none missing or twice
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.turns.play import Played
from cordboard.calls.history import LedgerLine, read_lines
from cordboard.calls.history import ledgers as recorded
from cordboard_testkit.timeline import Samples, Segment

_AFTER_PAUSE = 0.15
"""Seconds: an agent that begins this soon after the caller resumed decided in the pause."""
_LONGEST_CONTINUER = 0.9
_YIELDS_WITHIN = 1.0
_FELL_SILENT = 0.25
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(slots=True)
class Turn:
    """A caller's turn with the agent."""

    kind: str
    name: str
    pauses: list[tuple[float, bool]]
    """Each mid-phrase pause: its length in seconds, and whether the agent broke in."""
    cut_off: bool
    latency: float | None
    """None: cut off, or no answer came."""
    silent: float | None = None
    """From the caller's last sample to any sound of the agent: an answer or a continuer."""
    continuers: int = 0


@dataclass(slots=True)
class Overlap:
    """A sound during the agent's long sentence."""

    kind: str
    name: str
    cut: bool
    whole: bool
    held: int
    dismissed: list[str]
    """The engine's reason for the end of each hold."""
    turns: int
    """Number of the caller's turns, according to the engine."""
    decided: list[float] = field(default_factory=list)
    """Seconds of each hold, until the speech resumed or was dropped."""
    obeyed: bool = False
    yielded: float | None = None
    """Seconds; None when the agent did not yield."""
    cut_before: bool = False
    """The agent was silent already when the interruption began (its own echo had cut it)."""
    latency: float | None = None
    """Of the answer to an interruption."""


@dataclass(slots=True)
class Verdict:
    """All figures of one run."""

    turns: list[Turn] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)
    """The ledgers' stages of the caller's wait, in seconds."""
    failures: list[str] = field(default_factory=list)
    overload: list[str] = field(default_factory=list)
    """Overload lines of the engine's log: figures of such a run are of an overloaded engine."""


def ledgers(folder: Path) -> dict[str, list[LedgerLine]]:
    """Every call's ledger below a folder, by the UUID of its connection."""
    books = map(read_lines, recorded(folder))
    return {str(book[0]["external_id"]): book for book in books if book}


def overload(log: str) -> list[str]:
    """The overload lines of an engine's log, and the number of refused callers."""
    lines = [_COLOUR.sub("", line) for line in log.splitlines()]
    told = [line for line in lines if "degraded" in line or "event_loop_was_blocked" in line]
    refused = sum("offer_refused" in line or "caller_turned_away" in line for line in lines)
    return [*told[:6], f"{refused} callers refused"] if told or refused else []


def judge_turn(played: Played, continuers: int = 0) -> Turn:
    """`continuers`: their number in the ledger. A continuer is not an answer and takes no floor:
    that many short sounds of the agent within the caller's turn do not count as cuts, but as
    sound."""
    case, said_at = played.case, played.said_at
    if said_at is None:
        raise ValueError(f"{case.name} was never said")
    sounds = [segment for segment in played.agent if segment.start > said_at]
    short = [sound for sound in sounds if sound.seconds < _LONGEST_CONTINUER]
    hums = short[:continuers]
    began = [sound.start for sound in sounds if sound not in hums]
    pauses = [
        (end - start, any(start < at - said_at < end + _AFTER_PAUSE for at in began))
        for start, end in case.pauses
    ]
    cut_off = any(at < played.said_until for at in began)
    answer = min((at for at in began if at >= played.said_until), default=None)
    latency = None if cut_off or answer is None else answer - played.said_until
    after = [sound.start for sound in sounds if sound.start >= played.said_until]
    silent = None if cut_off or not after else min(after) - played.said_until
    return Turn(case.kind, case.name, pauses, cut_off, latency, silent, len(hums))


def judge_overlap(
    played: Played, sentence: Samples, ledger: Sequence[LedgerLine], interruption: bool
) -> Overlap:
    """`sentence` is the agent's own, as an undisturbed caller heard it."""
    kinds = Counter(line["type"] for line in ledger)
    overlap = Overlap(
        played.case.kind,
        played.case.name,
        cut=kinds["agent.interrupted"] > 0,
        whole=np.array_equal(played.heard[: len(sentence)], sentence),
        held=kinds["agent.held"],
        dismissed=[line["why"] for line in ledger if line["type"] == "agent.resumed"],
        turns=kinds["caller.stopped"],
        decided=_decided(ledger),
    )
    if interruption and played.said_at is not None:
        _judge_yield(overlap, played, played.said_at)
    return overlap


def _decided(ledger: Sequence[LedgerLine]) -> list[float]:
    resumed = [line["held_ms"] for line in ledger if line["type"] == "agent.resumed"]
    given_up = [
        line["decision_ms"] - line["reaction_ms"]
        for line in ledger
        if line["type"] == "agent.interrupted" and line["decision_ms"]
    ]
    return [float(ms) / 1000 for ms in resumed + given_up]


def _judge_yield(overlap: Overlap, played: Played, onset: float) -> None:
    spoken = joined(played.agent, _FELL_SILENT)
    under = next((s for s in spoken if s.start <= onset <= s.end), None)
    if under is None:
        overlap.cut_before = True
        return
    stopped = under.end
    again = [s for s in spoken if stopped < s.start < played.said_until]
    answer = next((s.start for s in spoken if s.start >= played.said_until), None)
    if stopped - onset > _YIELDS_WITHIN or again:
        return
    overlap.obeyed = overlap.cut
    overlap.yielded = stopped - onset
    overlap.latency = None if answer is None else answer - played.said_until


def joined(segments: Iterable[Segment], gap: float) -> list[Segment]:
    """The segments with pauses shorter than `gap` seconds closed."""
    found: list[Segment] = []
    for segment in segments:
        if found and segment.start - found[-1].end < gap:
            found[-1] = Segment(found[-1].start, segment.end)
        else:
            found.append(segment)
    return found


def stages(lines: Iterable[Mapping[str, object]]) -> dict[str, float]:
    """The stages of the last `turn.latency` in a ledger, in seconds, in their order."""
    found: dict[str, float] = {}
    for line in lines:
        if line["type"] == "turn.latency":
            found = {
                name.removesuffix("_ms"): float(str(value)) / 1000
                for name, value in line.items()
                if name.endswith("_ms") and name != "at_ms"
            }
    return found
