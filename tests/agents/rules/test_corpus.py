"""What the demo's contexts understand: what a recogniser really wrote, and texts by hand.

`corpus/whisper.jsonl` was made by speaking each `said` (hibari voice, 8 kHz u-law line, some faster
and with noise) to Whisper tiny.en with and without hints and keeping what it wrote. `outcome` is
what may come of it: `take` the aerodrome, `ask` about one or two, `unknown`, `none`. To mistake one
aerodrome for another is the one thing that must not happen; a question costs only a turn.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.agents.rules.conftest import TODAY

from cordboard.agents.rules.grammar import (
    CHANGE_TO,
    VALUE_OF,
    Grammar,
    compile_grammar,
)
from cordboard.config.schema import Config
from cordboard.tools.tool import ToolSpec

CORPUS = Path(__file__).parent / "corpus"


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


def _outcome(grammar: Grammar, heard: str) -> tuple[str, object]:
    readings = grammar.readings(grammar.look(heard, TODAY), grammar.intents)
    if not readings:
        return "none", None
    if readings[0].intent != "get_atis":
        return readings[0].intent, None
    judged = readings[0].slots.get("aerodrome")
    if judged is None:
        return "ask_slot", None
    if judged.value is not None:
        return "take", judged.value.value
    if judged.guesses:
        return "ask", [guess.value for guess in judged.guesses]
    return "unknown", None


@pytest.mark.parametrize("row", _rows("whisper.jsonl"), ids=lambda row: row["heard"][:60])
def test_what_the_recogniser_wrote(row: dict[str, Any], grammars: dict[str, Grammar]) -> None:
    found = _outcome(grammars["demo"], row["heard"])
    assert found == (row["outcome"], row.get("aerodrome"))


@pytest.mark.parametrize("row", _rows("written.jsonl"), ids=lambda row: row["heard"][:60])
def test_what_was_written_by_hand(row: dict[str, Any], grammars: dict[str, Grammar]) -> None:
    grammar = grammars[row["context"]]
    active = set(grammar.intents)
    if asked := row.get("asked"):
        active |= {VALUE_OF + asked, CHANGE_TO + asked}
    readings = grammar.readings(grammar.look(row["heard"], TODAY), active)
    if row["intent"] is None:
        assert not readings
        return
    assert readings
    assert readings[0].intent == row["intent"]
    sure = {slot: j.value.value for slot, j in readings[0].slots.items() if j.value is not None}
    assert sure == row.get("slots", {})
    unsure = {
        slot: [guess.value for guess in judged.guesses]
        for slot, judged in readings[0].slots.items()
        if judged.value is None
    }
    assert unsure == row.get("ask", {})


def test_no_aerodrome_is_mistaken_for_another() -> None:
    """Of the recorded outcomes themselves: what is taken is what was said."""
    rows = [row for row in _rows("whisper.jsonl") if not row.get("misheard")]
    named = {row["said"]: row["wanted"] for row in rows}
    wrong = [
        row for row in rows if row["outcome"] == "take" and row["aerodrome"] != named[row["said"]]
    ]
    assert wrong == []
    wanted = Counter(row["outcome"] for row in rows if row["listed"])
    assert wanted["take"] / wanted.total() > 0.8
    assert (wanted["take"] + wanted["ask"]) / wanted.total() > 0.95
