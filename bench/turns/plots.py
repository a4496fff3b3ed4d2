"""The plots of `bench.turns`, drawn into a folder as SVG."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench import pictures
from bench.turns.judge import Verdict

_STAGES = ("endpoint", "stt", "brain", "tts", "wire")
RESPONSE_LIMIT_MS, YIELD_LIMIT_MS = 1000.0, 250.0


def draw(verdict: Verdict, folder: Path) -> list[Path]:
    """Draw the available figures; returns the files."""
    drawn = {
        "turns-response.svg": _response(verdict),
        "turns-waterfall.svg": _waterfall(verdict),
        "turns-yield.svg": _yield(verdict),
        "turns-shares.svg": _shares(verdict),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in drawn.items():
        if text:
            (folder / name).write_text(text)
            files.append(folder / name)
    return files


def _response(verdict: Verdict) -> str:
    series: dict[str, list[float]] = {}
    for turn in verdict.turns:
        if turn.latency is not None:
            series.setdefault(turn.kind, []).append(turn.latency * 1000)
    title = "The caller's wait: share of turns answered within (ms)"
    return pictures.steps(title, series, "ms", RESPONSE_LIMIT_MS) if series else ""


def _waterfall(verdict: Verdict) -> str:
    totals = verdict.stages.get("total", [])
    if not totals:
        return ""
    stages = {name: verdict.stages[name] for name in _STAGES if name in verdict.stages}
    by_total = sorted(range(len(totals)), key=totals.__getitem__)
    rows = {
        "median of each": {
            name: statistics.median(values) * 1000 for name, values in stages.items()
        }
    }
    for name, place in (("fastest", 0), ("middle", len(totals) // 2), ("slowest", -1)):
        turn = by_total[place]
        rows[f"the {name} turn"] = {s: values[turn] * 1000 for s, values in stages.items()}
    return pictures.stack("Where the wait goes, by the call's ledger (ms)", rows, "ms")


def _yield(verdict: Verdict) -> str:
    series: dict[str, list[float]] = {}
    for overlap in verdict.overlaps:
        if overlap.yielded is not None:
            series.setdefault(overlap.kind, []).append(overlap.yielded * 1000)
    title = "Spoken over: share of interruptions after which the agent is silent within (ms)"
    return pictures.steps(title, series, "ms", YIELD_LIMIT_MS) if series else ""


def _shares(verdict: Verdict) -> str:
    """For each kind: the share of cases with a wrong decision of the agent."""
    wrong: dict[str, list[bool]] = {}
    for turn in verdict.turns:
        wrong.setdefault(f"cut off: {turn.kind}", []).append(turn.cut_off)
    for overlap in verdict.overlaps:
        interruption = overlap.kind.startswith("interruption")
        bad = not overlap.obeyed if interruption else overlap.cut
        name = "not obeyed" if interruption else "gave way to"
        wrong.setdefault(f"{name}: {overlap.kind}", []).append(bad)
    bars = [(name, 100 * statistics.mean(values)) for name, values in wrong.items()]
    return pictures.bars("Wrong decisions of the agent (%)", bars, "%") if bars else ""
