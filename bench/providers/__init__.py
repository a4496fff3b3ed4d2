"""Cost and delay of the realtime adapters, beside two floors and the vendors' own SDKs.

Fifty calls in this process talk to a service in another one, which sends prepared messages of the
vendor's protocol. Four parts (`--only load`, `parsing`, `barge-in`, `gemini-drop`):

    load         processor time of a call in 20 ms, and delay, both ways
    parsing      one message: our protocol, the vendor's SDK
    barge-in     from the decision to the truncation
    gemini-drop  a forced 1011 in the middle of a tool call

About five minutes. Figures of a busy machine are worse; of *load* above all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import get_args

from bench.options import Options
from bench.providers import barge_in, gemini_drop, load, parsing
from bench.providers.load import Load
from bench.report import Report, Summary, Target

CALLS = 50
CUTS = 500
DROPS = 20
SERVICES: Sequence[tuple[str, bool]] = (
    ("openai", False),
    ("openai", True),
    ("deepgram", False),
    ("elevenlabs", False),
    ("gemini", False),
)
"""And True for TLS. Gemini's audio is resampled both ways."""
PASSTHROUGH = ("openai", "deepgram", "elevenlabs")
MOST_US = 60.0
MOST_ADDED_MS = 5.0
MOST_CUT_MS = 10.0
MOST_BACK_S = 1.0
Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    report = Report("providers")
    if options.chosen("load"):
        await _load(report, progress)
    if options.chosen("parsing"):
        progress("parsing: our protocols and the vendors' SDKs")
        _add_parsing(report, await parsing.measure())
    if options.chosen("barge-in"):
        progress(f"barge-in: {CUTS} cuts over {CALLS} calls")
        _add_cuts(report, await barge_in.measure(CALLS, CUTS))
    if options.chosen("gemini-drop"):
        progress(f"gemini-drop: {DROPS} times each")
        await _add_drops(report)
    return report


async def _load(report: Report, progress: Progress) -> None:
    loads: list[Load] = []
    for service, tls in SERVICES:
        for way in get_args(load.Way):
            one = await load.measure(service, way, CALLS, tls=tls)
            loads.append(one)
            progress(f"load: {_name(one)}, {way}: {one.both_us:.0f} us, both ways")
    heads = ["service, way", "us at rest", "hear", "both ways"]
    heads += ["up ms p50 / p99 / max", "down ms p50 / p99 / max", "clock late"]
    report.table(f"{CALLS} calls: a call's 20 ms", heads, [_row(one) for one in loads])
    report.figures["load"] = [asdict(one) for one in loads]
    for service, tls in SERVICES:
        ours, *floors = (one for one in loads if (one.service, one.tls) == (service, tls))
        name = _name(ours)
        if service in PASSTHROUGH and not tls:
            cost = Target(f"{name}: a call's 20 ms, both ways", ours.both_us, MOST_US, "us")
            report.targets.append(cost)
        ups, downs = [one.up for one in floors], [one.down for one in floors]
        for way, mine, theirs in (("up", ours.up, ups), ("down", ours.down, downs)):
            added = Summary.of(mine).p99 - min(Summary.of(floor).p99 for floor in theirs)
            target = f"{name}: added {way}, p99 over the better floor's"
            report.targets.append(Target(target, added * 1000, MOST_ADDED_MS, "ms"))


def _name(one: Load) -> str:
    return one.service + (" by TLS" if one.tls else "")


def _row(one: Load) -> list[str]:
    costs = [f"{us:.1f}" for us in (one.at_rest_us, one.hear_us, one.both_us)]
    delays = [" / ".join(_in_ms(times)) for times in (one.up, one.down)]
    return [f"{_name(one)}, {one.way}", *costs, *delays, str(one.late_ticks)]


def _add_parsing(report: Report, costs: Sequence[parsing.Costs]) -> None:
    rows = [
        [f"{one.service}, {one.who}"]
        + [f"{us:.1f}" for us in (one.sound_in, one.words_in, one.sound_out)]
        for one in costs
    ]
    heads = ["service, who", "a sound read", "words read", "a frame written"]
    report.table("One message, us", heads, rows)
    report.figures["parsing"] = [asdict(one) for one in costs]


def _add_cuts(report: Report, cuts: barge_in.Cuts) -> None:
    parts = {
        "Interrupted to the message in the socket": cuts.told,
        "speech_started written to truncation read": cuts.back,
    }
    rows = [[name, str(len(times)), *_in_ms(times)] for name, times in parts.items()]
    report.table("Barge-in (openai), ms", ["from, to", "n", "p50", "p99", "max"], rows)
    for name, times in parts.items():
        value = Summary.of(times).p99 * 1000
        report.targets.append(Target(f"{name}, p99", value, MOST_CUT_MS, "ms"))
    report.figures["barge_in"] = asdict(cuts)


async def _add_drops(report: Report) -> None:
    rows, figures = [], {}
    for when in get_args(gemini_drop.When):
        drops = await gemini_drop.measure(when, DROPS)
        figures[when] = asdict(drops)
        parts = {"result taken": drops.taken, "first sound": drops.sounded}
        rows += [[f"{when}: {to}", str(len(s)), *_in_ms(s)] for to, s in parts.items()]
        name = f"gemini closed with 1011 {when}: result taken again, longest"
        report.targets.append(Target(name, max(drops.taken), MOST_BACK_S, "s"))
    heads = ["from the close, to", "n", "p50", "p99", "max"]
    report.table("Gemini closes with 1011 in the middle of a tool call, ms", heads, rows)
    report.figures["gemini_drop"] = figures


def _in_ms(times: Sequence[float]) -> list[str]:
    s = Summary.of(times)
    return [f"{value * 1000:.2f}" for value in (s.median, s.p99, s.most)]
