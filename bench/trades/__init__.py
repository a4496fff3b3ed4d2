"""Three trades' callers in writing: is the right thing wanted understood, with the right values?

`salon.tsv`, `clinic.tsv` and `hotel.tsv` hold 100 first sentences each (intent, slots, utterance);
`followups.tsv` holds 60 answers to a question (trade, question, slots, utterance). Their author had
not seen the grammar. The contexts in `*.yaml` were developed on the odd lines; only the even lines,
the held-out half, judge. No sound, no recogniser: what is measured is the brain `rules` alone.

A tool that runs, a transfer or the end of the call that was not asked for is a `wrong action`, the
worst outcome. An answer, or a question on the way to an intent, that was not wanted is `misled`;
`asked back` is a "Did you mean ...?" that names what was wanted. For callers who want nothing of
the trade, being asked back is not counted against the agent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain
from cordboard.agents.rules.dates import read_date
from cordboard.config.rules import Rules
from cordboard.tools.tool import Effects, JsonObject, Status, ToolReply, ToolSpec

TODAY = date(2026, 11, 21)
"""A Saturday."""
TRADES = ("salon", "clinic", "hotel")
FOLDER = Path(__file__).parent
GREETING = "Good day, how can I help you?"
Outcome = Literal[
    "right", "slot open", "asked back", "not understood", "slot wrong", "misled", "wrong action"
]
OUTCOMES: tuple[Outcome, ...] = (
    "right", "slot open", "asked back", "not understood", "slot wrong", "misled", "wrong action",
)  # fmt: skip
Half = Literal["development", "held-out"]

_OPENINGS = {
    ("salon", "Which service?"): "I would like to book an appointment.",
    ("salon", "Which day?"): "I would like to book a haircut.",
    ("salon", "What time?"): "I would like to book a haircut on Friday.",
    ("salon", "Your booking code?"): "I want to cancel my appointment.",
    ("salon", "Shall I book it, yes or no?"): "I would like a haircut on Friday at 3 pm.",
    ("clinic", "What is the reason for your visit?"): "I would like to make an appointment.",
    ("clinic", "Which day?"): "I would like to make an appointment for a checkup.",
    ("clinic", "What time?"): "I would like to make an appointment for a checkup on Friday.",
    ("clinic", "Your patient number?"): "I want to cancel my appointment.",
    ("clinic", "Shall I book it, yes or no?"): (
        "I would like to make an appointment for a checkup on Friday at 3 pm."
    ),
    ("clinic", "Shall I cancel it, yes or no?"): "I want to cancel my appointment number 123456.",
    ("hotel", "Which room?"): "I would like to book a room.",
    ("hotel", "How many nights?"): "I would like to book a double room.",
    ("hotel", "Which day will you arrive?"): "I would like to book a double room for 2 nights.",
    ("hotel", "Your booking code?"): "I want to cancel my booking.",
    ("hotel", "Shall I book it, yes or no?"): "I want to cancel my booking code AB12.",
}
"""What brings the agent to ask a follow-up's question."""


@dataclass(slots=True)
class Turn:
    """One caller's words, what they mean, and what came of them."""

    trade: str
    intent: str
    slots: dict[str, str]
    text: str
    question: str = ""
    outcome: Outcome = "not understood"
    found: str = ""
    """The intent and values that were understood, for the listing."""
    ms: float = 0.0
    """Processor time of the turn."""


def read_turns(half: Half) -> Iterator[Turn]:
    """The turns of one half: odd lines are for development, even ones held out."""
    for trade in TRADES:
        for intent, slots, text in _lines(f"{trade}.tsv", half):
            yield Turn(trade, intent, _slots(slots), text)
    for trade, question, slots, text in _lines("followups.tsv", half):
        yield Turn(trade, "", _slots(slots), text, question)


def _lines(name: str, half: Half) -> Iterator[list[str]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if number % 2 == (half == "development"):
            yield line.split("\t")


def _slots(text: str) -> dict[str, str]:
    return {} if text == "-" else dict(pair.split("=", 1) for pair in text.split(";"))


@dataclass(slots=True)
class Trade:
    """A context as its callers meet it."""

    brain: RulesBrain
    toolbox: tuple[ToolSpec, ...]
    says: Mapping[str, str]
    """Answer → intent that gives it."""
    titles: Mapping[str, str]
    """Intent → how the agent names it."""
    asked: list[tuple[str, JsonObject]] = field(default_factory=list)

    async def run(self, name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        self.asked.append((name, arguments))
        return ToolReply("1", name, Status.OK, "Done.", {})


def load_trade(path: Path) -> Trade:
    """A trade's `rules`, with its `tools` (name → effects) and `transfer` destinations."""
    document = YAML(typ="safe").load(path)
    rules = Rules.model_validate(document["rules"])
    tools = [
        ToolSpec(name, "mcp", "", {}, effects=Effects(effects))
        for name, effects in document["tools"].items()
    ]
    names = {"properties": {"destination": {"enum": document["transfer"]}}}
    tools += [
        ToolSpec("hangup_call", "builtin", "", {}),
        ToolSpec("transfer", "builtin", "", names),
    ]
    says = {intent.say: name for name, intent in rules.intents.items() if intent.say}
    titles = {n.removesuffix("_booking"): intent.title for n, intent in rules.intents.items()}
    brain = RulesBrain(rules, today=lambda: TODAY)
    brain.warm(tools)
    return Trade(brain, tuple(tools), says, {**titles, "human": "a person"})


async def score(turns: Sequence[Turn], trades: Mapping[str, Trade]) -> None:
    """Say each turn to a dialogue of its own and note its outcome."""
    for turn in turns:
        await _score(turn, trades[turn.trade])


async def _score(turn: Turn, trade: Trade) -> None:
    trade.asked.clear()
    dialogue = trade.brain.open(DialogueSession("", trade.toolbox, trade.run, {}, GREETING))
    if turn.question:
        opening = _OPENINGS[turn.trade, turn.question]
        async for _ in dialogue.respond(opening):
            pass
        turn.intent = dialogue.task.intent.removesuffix("_booking") if dialogue.task else ""
        if trade.asked or not turn.intent:
            turn.found = "(the question was not reached)"
            return
    before = dialogue.task
    known = dict(before.values) if before else {}
    began = time.thread_time()
    answer = " ".join([sentence async for sentence in dialogue.respond(turn.text)])
    turn.ms = 1000 * (time.thread_time() - began)
    task = dialogue.task
    intent, values = "", {}
    if task is not None and (task is not before or turn.question):
        intent = task.intent
        values = {slot: v.value for slot, v in task.values.items() if known.get(slot) != v}
    doubt = answer.startswith("Did you mean")
    if turn.question and "yes" in turn.slots:
        turn.found = f"{answer} {trade.asked}"
        done = bool(trade.asked)
        wanted = turn.slots["yes"] == "true"
        turn.outcome = "right" if done == wanted else "wrong action" if done else "asked back"
        return
    acted = bool(trade.asked) or answer in trade.says
    if answer in trade.says:
        intent, values = trade.says[answer], {}
    for name, arguments in trade.asked:
        intent = {"hangup_call": "goodbye", "transfer": "human"}.get(name, name)
        values = {} if name in ("hangup_call", "transfer") else arguments
        values = {slot: v for slot, v in values.items() if not turn.question or slot in turn.slots}
    if not acted and answer == GREETING:
        intent = "repeat"
    if intent == "transfer":  # the destination is no part of the wish
        intent, values = "human", {}
    intent = intent.removesuffix("_booking")
    turn.found = f"{intent} {values} {answer!r}"
    offered = intent == turn.intent or trade.titles.get(turn.intent, "?") in answer
    turn.outcome = _judge(
        turn, intent, values, acted=acted, doubt=doubt, offered=offered, answer=answer
    )


def _judge(
    turn: Turn,
    intent: str,
    values: Mapping[str, Any],
    *,
    acted: bool,
    doubt: bool,
    offered: bool,
    answer: str,
) -> Outcome:
    wanted = {slot: _plain(slot, text) for slot, text in turn.slots.items()}
    got = {slot: _plain(slot, str(value)) for slot, value in values.items()}
    if not intent or answer.startswith("I did not get that"):
        return "right" if turn.intent == "none" else "not understood"
    if doubt:
        return "asked back" if offered or turn.intent == "none" else "misled"
    if intent != turn.intent:
        return "wrong action" if acted and answer != "" and not _is_said(answer) else "misled"
    wrong = [slot for slot, value in got.items() if wanted.get(slot) != value]
    if wrong and turn.intent not in ("hours", "opening_hours"):
        return "wrong action" if acted else "slot wrong"
    return "right" if wanted.keys() <= got.keys() or _needs_none(turn) else "slot open"


def _is_said(answer: str) -> bool:
    """A mere answer: no tool ran."""
    return answer != "Done." and not answer.startswith(("I am putting you", "Goodbye"))


def _needs_none(turn: Turn) -> bool:
    return turn.intent in ("hours", "opening_hours", "human", "emergency")


def _plain(slot: str, text: str) -> str:
    if slot == "day":
        found = read_date(text.split(), TODAY)
        return found.isoformat() if found else text
    return text.replace(" ", "").lower() if slot in ("code", "number") else text


def count(turns: Sequence[Turn]) -> Counter[Outcome]:
    return Counter(turn.outcome for turn in turns)
