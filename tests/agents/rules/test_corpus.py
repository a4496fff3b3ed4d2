"""What the demo's contexts understand: what a recogniser really wrote, and texts by hand.

`corpus/whisper.jsonl` was made by speaking each `said` (hibari voice, 8 kHz u-law line, some faster
and with noise) to Whisper tiny.en with and without hints and keeping what it wrote; `everyday` and
`stories` are questions and sentences that ask for nothing. To look up what was not asked for is the
worst outcome, to ask back costs a turn. The floors are what the grammar reaches.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.agents.rules.conftest import TODAY, Talk

from cordboard.agents.rules import RulesBrain
from cordboard.agents.rules.grammar import Expected, Grammar, compile_grammar
from cordboard.config.schema import Config
from cordboard.tools.tool import ToolSpec

CORPUS = Path(__file__).parent / "corpus"
ATIS = "mcp_aviation_atis_get_atis"


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def grammars(config: Config, toolbox: tuple[ToolSpec, ...]) -> dict[str, Grammar]:
    return {
        name: compile_grammar(context.rules, toolbox)
        for name, context in config.contexts.items()
        if context.rules is not None
    }


async def _outcomes(
    rows: list[dict[str, Any]], brain: RulesBrain, toolbox: tuple[ToolSpec, ...]
) -> tuple[Counter[str], list[str]]:
    """How often an aerodrome was taken, asked about, or neither; and what was looked up wrongly."""
    counted: Counter[str] = Counter()
    wrong: list[str] = []
    for row in rows:
        talk = Talk(brain, toolbox)
        answer = await talk.say(row["heard"])
        codes = [arguments["icao"] for name, arguments in talk.asked if name == ATIS]
        if codes and codes != [row["wanted"]]:
            wrong.append(row["heard"])
        counted["take" if codes else "ask" if "Did you mean" in answer else "none"] += 1
    return counted, wrong


@pytest.mark.parametrize(
    ("corpus", "wanted", "taken", "taken_or_asked", "wrong"),
    [
        ("whisper.jsonl", True, 145, 172, 0),
        ("everyday.jsonl", True, 165, 196, 0),
        ("everyday.jsonl", False, 0, 0, 6),
        ("stories.jsonl", True, 53, 155, 0),
        ("stories.jsonl", False, 0, 0, 7),
    ],
)
async def test_how_often_callers_are_understood(
    corpus: str,
    wanted: bool,
    taken: int,
    taken_or_asked: int,
    wrong: int,
    brains: dict[str, RulesBrain],
    toolbox: tuple[ToolSpec, ...],
) -> None:
    rows = [row for row in _rows(corpus) if bool(row.get("listed", row["wanted"])) == wanted]
    rows = [row for row in rows if not row.get("misheard")]
    counted, mistaken = await _outcomes(rows, brains["demo"], toolbox)
    assert len(mistaken) <= wrong, mistaken
    assert counted["take"] >= taken
    assert counted["take"] + counted["ask"] >= taken_or_asked


@pytest.mark.parametrize("row", _rows("written.jsonl"), ids=lambda row: row["heard"][:60])
def test_what_was_written_by_hand(row: dict[str, Any], grammars: dict[str, Grammar]) -> None:
    grammar = grammars[row["context"]]
    asked, expected = row.get("asked"), None
    if asked:
        task = next(name for name, slots in grammar.slots.items() if asked in slots)
        expected = Expected(task, {asked: asked, **grammar.slots[task]}, asked)
    reading = grammar.understand(grammar.look(row["heard"], TODAY), expected)
    if row["intent"] is None:
        assert reading is None or not reading.sure
        return
    assert reading is not None
    answered = "" if row["intent"].startswith("_") else row["intent"]
    assert (reading.intent or (expected.intent if expected and answered else "")) == answered
    sure = {slot: j.value.value for slot, j in reading.slots.items() if j.value is not None}
    assert sure == row.get("slots", {})
    unsure = {
        slot: [guess.value for guess in judged.guesses]
        for slot, judged in reading.slots.items()
        if judged.value is None
    }
    assert unsure == row.get("ask", {})
