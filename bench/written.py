"""What the brain `rules` makes of callers' words in writing: no sound, no recogniser, no audio run.

Two parts of the benchmark `understanding`: `text`, the demo's questions as they are written, and
`trades`, the first sentences and answers of a salon's, a clinic's and a hotel's callers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.engine_process import demo_config
from bench.questions import (
    CALLERS,
    DEVELOPMENT,
    FIRST_BLIND,
    FRESH,
    HELD_OUT,
    NOTHING,
    QUESTIONS,
    SECOND_BLIND,
    Question,
)
from bench.report import Report
from bench.trades import FOLDER, OUTCOMES, TODAY, TRADES, Half, count, load_trade, read_turns, score
from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain
from cordboard.tools.builtin import HangupCall, Transfer
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec

CONTEXT = "demo"
SETS = {
    "held-out questions": HELD_OUT,
    "second blind questions": SECOND_BLIND,
    "first blind questions": FIRST_BLIND,
    "callers' stories": CALLERS,
    "nothing to look up": NOTHING,
    "development questions": DEVELOPMENT,
    "fresh questions": FRESH,
    "first questions": QUESTIONS,
}
HALVES: tuple[Half, ...] = ("development", "held-out")


async def add_text(report: Report) -> None:
    """The demo's questions: looked up at once, after a yes, or what was not asked for."""
    config = demo_config()
    toolbox = (HangupCall().spec, Transfer(config.destinations).spec)
    brain = RulesBrain(config.contexts[CONTEXT].rules, today=lambda: TODAY)
    brain.warm(toolbox)
    rows, times = [], []
    for name, questions in SETS.items():
        counted: Counter[str] = Counter()
        for question in questions:
            began = time.thread_time()
            counted[await _outcome(question, brain, toolbox)] += 1
            times.append(1000 * (time.thread_time() - began))
        right = counted["right"] + (counted["nothing"] if name == "nothing to look up" else 0)
        rows.append(
            [name, str(len(questions)), str(right), str(counted["asked"]), str(counted["wrong"])]
        )
    heads = ["questions in writing", "n", "right at once", "after a yes", "wrong"]
    report.table("The demo's questions as text", heads, rows)
    report.notes.append(f"a turn of the demo: {_spread(times)}")


async def _outcome(question: Question, brain: RulesBrain, toolbox: Sequence[ToolSpec]) -> str:
    looked_up: list[str] = []

    async def run(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        looked_up.append(str(arguments.get("icao", name)))
        return ToolReply("1", name, Status.OK, "Done.", {})

    dialogue = brain.open(DialogueSession("", tuple(toolbox), run))
    answer = " ".join([sentence async for sentence in dialogue.respond(question.text)])
    if not looked_up and answer.startswith("Did you mean") and " or " not in answer:
        async for _ in dialogue.respond("Yes."):
            pass
        return "asked" if looked_up == [question.icao] else "nothing"
    if not looked_up:
        return "nothing"
    return "right" if looked_up == [question.icao] else "wrong"


async def add_trades(report: Report, folder: Path = FOLDER) -> None:
    """Three trades' callers, for both halves; only the held-out one judges."""
    trades = {name: load_trade(folder / f"{name}.yaml") for name in TRADES}
    for half in HALVES:
        turns = list(read_turns(half))
        await score(turns, trades)
        parts = {name: [t for t in turns if t.trade == name and not t.question] for name in TRADES}
        parts["answers to a question"] = [turn for turn in turns if turn.question]
        parts["all"] = turns
        rows = [
            [name, str(len(part)), *(str(count(part)[outcome]) for outcome in OUTCOMES)]
            for name, part in parts.items()
        ]
        report.table(f"Three trades as text, {half} half", ["callers", "n", *OUTCOMES], rows)
        report.notes.append(f"a turn of the trades, {half}: {_spread([t.ms for t in turns])}")


def _spread(times: Sequence[float]) -> str:
    ordered = sorted(times)
    middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
    return (
        f"median {middle:.1f} ms, p95 {late:.1f} ms, longest {ordered[-1]:.1f} ms of processor time"
    )
