"""How long a context waits: its profile, the numbers it replaces, what the page says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cordboard.config.conversation import TurnTaking
from cordboard.speech.turns.profiles import PROFILES, TurnProfile, profile_of

PAGE = Path(__file__).parents[3] / "docs" / "turn-taking.md"
WAITS = (
    "complete_silence_ms",
    "finished_silence_ms",
    "silence_ms",
    "doubtful_silence_ms",
    "dictation_silence_ms",
    "unfinished_silence_ms",
)
"""In the order of the page's table."""


def waits(profile: TurnProfile) -> list[int]:
    return [getattr(profile, name) for name in WAITS]


def test_a_patient_agent_always_waits_longer_than_a_quick_one() -> None:
    each = [
        waits(profile_of(TurnTaking(profile=name))) for name in ("quick", "balanced", "patient")
    ]
    for quick, balanced, patient in zip(*each, strict=True):
        assert quick < balanced < patient
    assert profile_of(TurnTaking()) == PROFILES["balanced"]


@pytest.mark.parametrize("name", WAITS)
def test_a_context_replaces_a_single_number(name: str) -> None:
    profile = profile_of(TurnTaking.model_validate({"profile": "patient", name: 1234}))
    assert getattr(profile, name) == 1234
    others = [other for other in WAITS if other != name]
    assert all(getattr(profile, each) == getattr(PROFILES["patient"], each) for each in others)


def test_a_context_may_want_doubtful_voices_decided_at_once() -> None:
    assert profile_of(TurnTaking()).overlap_doubt_ms > 0
    assert profile_of(TurnTaking(overlap_doubt_ms=0)).overlap_doubt_ms == 0


def test_pauses_need_not_be_learnt() -> None:
    assert profile_of(TurnTaking(learn_pauses=False)).most_learned_ms == 0
    assert profile_of(TurnTaking()).most_learned_ms > 0


def test_the_page_has_the_numbers_in_force() -> None:
    rows = re.findall(r"^\|[^|]+\| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    columns = [[int(row[column]) for row in rows] for column in range(3)]
    assert columns == [waits(PROFILES[name]) for name in ("quick", "balanced", "patient")]
