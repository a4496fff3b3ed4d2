"""The tables and targets of `bench.turns`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable

from bench.options import Options
from bench.report import Report, Summary, Target, milliseconds
from bench.turns.judge import Overlap, Turn, Verdict

_PAUSE_BINS = ((0.3, 0.5), (0.5, 0.8), (0.8, 1.21))
_SOON = 0.3
"""Seconds."""
_LISTENED = ("echo", "noise", "click", "cough", "key")


def report_on(verdict: Verdict, options: Options) -> Report:
    report = Report("turns")
    report.notes.append(f"half of the corpus: {options.half}")
    if verdict.turns:
        _turns(report, verdict)
    if verdict.overlaps:
        _overlaps(report, verdict)
    report.notes += [f"not played to its end: {failure}" for failure in verdict.failures]
    report.notes += [f"the engine's log: {line}" for line in verdict.overload]
    report.figures = {"half": options.half, **dataclasses.asdict(verdict)}
    return report


def _groups(items: Iterable[Turn]) -> dict[str, list[Turn]]:
    found: dict[str, list[Turn]] = {}
    for item in items:
        found.setdefault(item.kind, []).append(item)
    return found


def _share(items: Iterable[bool]) -> float:
    values = list(items)
    return 100 * sum(values) / len(values) if values else 0.0


def _turns(report: Report, verdict: Verdict) -> None:
    rows = []
    for kind, turns in [*_groups(verdict.turns).items(), ("all", verdict.turns)]:
        latencies = [turn.latency for turn in turns if turn.latency is not None]
        cut = sum(turn.cut_off for turn in turns)
        cells = ["", "", ""]
        if latencies:
            summary = Summary.of(latencies)
            cells = [*map(milliseconds, (summary.median, summary.p95, summary.most))]
        missing = len(turns) - cut - len(latencies)
        rows.append([kind, str(len(turns)), str(cut), str(missing), *cells])
    heads = ["turns", "n", "cut off", "no answer", "latency ms median", "p95", "max"]
    report.table("The caller's turn is over: last sample to the agent's first", heads, rows)
    _pauses(report, verdict)
    fluent = [t.latency for t in verdict.turns if t.latency is not None and not t.pauses]
    if fluent:
        summary = Summary.of(fluent)
        report.targets += [
            Target("response to a turn without pauses, median", summary.median, 0.65, "s"),
            Target("response to a turn without pauses, p95", summary.p95, 1.0, "s"),
        ]
    sounds = [turn.silent for turn in verdict.turns if turn.silent is not None]
    if sounds:
        report.targets.append(Target("response or continuer, max of all", max(sounds), 1.2, "s"))
        hums = sum(turn.continuers for turn in verdict.turns)
        report.notes.append(f"continuers said in pauses, not counted as cuts: {hums}")
    if verdict.stages:
        stage_rows = [
            [name, *map(milliseconds, (s.median, s.p95, s.most))]
            for name, s in ((name, Summary.of(v)) for name, v in verdict.stages.items())
        ]
        heads = ["ledger: stage", "ms median", "p95", "max"]
        report.table("Where the wait goes", heads, stage_rows)


def _pauses(report: Report, verdict: Verdict) -> None:
    pauses = [(turn.kind, seconds, cut) for turn in verdict.turns for seconds, cut in turn.pauses]
    if not pauses:
        return
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in pauses):
        for least, most in (*_PAUSE_BINS, (0.0, 9.0)):
            cuts = [cut for k, s, cut in pauses if k == kind and least <= s < most]
            name = f"{kind}, {least:g}-{min(most, 1.2):g} s" if most < 9 else f"{kind}, all"
            rows.append([name, str(len(cuts)), str(sum(cuts)), f"{_share(cuts):.0f} %"])
    report.table("Pauses within a turn", ["pause", "n", "agent broke in", "share"], rows)
    for kind in dict.fromkeys(kind for kind, _, _ in pauses):
        share = _share(cut for k, _, cut in pauses if k == kind)
        report.targets.append(Target(f"cut off: {kind}", share, 10, "%"))


def _overlaps(report: Report, verdict: Verdict) -> None:
    by_kind = {
        kind: list(items)
        for kind, items in itertools.groupby(
            sorted(verdict.overlaps, key=lambda o: o.kind), lambda o: o.kind
        )
    }
    interruptions = {k: v for k, v in by_kind.items() if k.startswith("interruption")}
    if interruptions:
        _interruptions(report, interruptions)
    rows = []
    for kind, overlaps in by_kind.items():
        if kind in interruptions:
            continue
        counts: tuple[Callable[[Overlap], int], ...] = (
            lambda o: o.cut, lambda o: o.whole, lambda o: o.held, lambda o: o.turns
        )  # fmt: skip
        why = sorted({why for o in overlaps for why in o.dismissed})
        cells = [str(sum(count(o) for o in overlaps)) for count in counts]
        rows.append([kind, str(len(overlaps)), *cells, ", ".join(why)])
    if rows:
        heads = ["over the agent's speech", "n", "cut", "heard whole", "held", "taken as a turn"]
        report.table("No interruption", [*heads, "dismissed as"], rows)
    _decisions(report, by_kind)
    backchannels = by_kind.get("backchannel", [])
    if backchannels:
        ignored = _share(not o.cut for o in backchannels)
        report.targets.append(Target("backchannels ignored", ignored, 90, "%", at_least=True))
    kept = [o for o in verdict.overlaps if o.held and not o.cut and o.kind not in interruptions]
    if kept:
        exact = _share(o.whole for o in kept)
        report.targets.append(Target("resumed at the sample", exact, 100, "%", at_least=True))
    for kind in (kind for kind in by_kind if kind.startswith(_LISTENED)):
        cut = sum(o.cut for o in by_kind[kind])
        report.targets.append(
            Target(f"false barge-ins, {kind}", cut, 0, f"of {len(by_kind[kind])}")
        )


def _decisions(report: Report, by_kind: dict[str, list[Overlap]]) -> None:
    rows = []
    for kind, overlaps in by_kind.items():
        decided = [seconds for overlap in overlaps for seconds in overlap.decided]
        if decided:
            summary = Summary.of(decided)
            cells = map(milliseconds, (summary.median, summary.p95, summary.most))
            soon = _share(seconds <= _SOON for seconds in decided)
            rows.append([kind, str(len(decided)), *cells, f"{soon:.0f} %"])
    if rows:
        heads = ["held", "n", "ms median", "p95", "max", "within 0.3 s"]
        report.table("Silent until it was decided what it is", heads, rows)


def _interruptions(report: Report, interruptions: dict[str, list[Overlap]]) -> None:
    rows = []
    everything = [o for overlaps in interruptions.values() for o in overlaps]
    for kind, overlaps in [*interruptions.items(), ("all", everything)]:
        yielded = [o.yielded for o in overlaps if o.yielded is not None]
        cells = ["", "", ""]
        if yielded:
            summary = Summary.of(yielded)
            cells = [*map(milliseconds, (summary.median, summary.p95, summary.most))]
        obeyed = sum(o.obeyed for o in overlaps)
        before = sum(o.cut_before for o in overlaps)
        rows.append([kind, str(len(overlaps)), str(obeyed), str(before), *cells])
    heads = ["interruption", "n", "obeyed", "silent before", "yield ms median", "p95", "max"]
    report.table("Spoken over", heads, rows)
    yielded = [o.yielded for o in everything if o.yielded is not None]
    share = _share(o.obeyed for o in everything)
    report.targets.append(Target("interruptions obeyed", share, 95, "%", at_least=True))
    if yielded:
        report.targets.append(Target("yield, p95", Summary.of(yielded).p95, 0.25, "s"))
