"""Codes that were run together, and the caller's words as they were understood."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.rules.conftest import Talk

from cordboard.agents.rules.codes import in_alphabet_words, is_clear, lead
from cordboard.agents.rules.rewriting import rewrite
from cordboard.agents.rules.sound import whole_costs
from cordboard.agents.rules.words import tokenise


@pytest.mark.parametrize(
    ("heard", "code"),
    [
        ("the ATIS for echocera ciera alpha", "ESSA"),
        ("weather at Kilo-Juliot-Fox-Drakilo", "KJFK"),
        ("Lima Fokstrat Papagolf", "LFPG"),
        ("Echo Sierra Alpha", "ESSA"),
        ("Echo Golf Lima", "EGLL"),
    ],
)
async def test_a_code_that_is_clearly_ahead_is_looked_up(demo: Talk, heard: str, code: str) -> None:
    await demo.say(heard)
    assert [arguments["icao"] for _, arguments in demo.asked] == [code]


@pytest.mark.parametrize(
    "heard",
    [
        "November Golf Mike",
        "Lima Foxtrat Xraegolf",
        "Echo Gulf Lima Mi",
        "EGL",
        "Echo November Golf",
        "Kilo Bravo Sierra",
    ],
)
async def test_a_code_that_may_be_another_is_not(demo: Talk, heard: str) -> None:
    await demo.say(heard)
    assert demo.asked == []


def test_the_lead_is_that_over_the_nearest_code() -> None:
    exact = tokenise("echo november golf mike")
    assert lead(exact, "ENGM") > 0
    assert is_clear(exact, "ENGM", 0.0)
    assert lead(tokenise("echo november golf lima"), "ENGM") < 0
    assert not is_clear(tokenise("echo november golf lima"), "ENGM", 0.1)


@settings(max_examples=50, deadline=None)
@given(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=4, max_size=4))
def test_a_code_said_well_leads_all_its_neighbours(code: str) -> None:
    said = in_alphabet_words(code)
    assert whole_costs(tokenise(said), [said]) == [0.0]
    assert lead(tokenise(said), code) > 0


@pytest.mark.parametrize(
    ("heard", "understood"),
    [
        ("I need Castrop.", "I need Kastrup."),
        ("Weather for Echo Gulf Lima, Lima, please.", "Weather for Echo Golf Lima Lima, please."),
        ("What is the wind at Skiffhal?", "What is the wind at Schiphol?"),
        ("Weather in Oslo?", "Weather in Oslo?"),
        ("The ATIS for E N G M, please.", "The ATIS for E N G M, please."),
        ("What is the ATIS for Orlando?", "What is the ATIS for Orlando?"),
        ("Weather for London Gatwick.", "Weather for London Gatwick."),
        ("I flew to Castrop last year.", "I flew to Castrop last year."),
        ("Ærø weather in Castrop", "Ærø weather in Castrop"),
        ("", ""),
    ],
)
def test_only_names_that_were_understood_for_sure_are_put_right(
    demo: Talk, heard: str, understood: str
) -> None:
    assert demo.dialogue.understood(heard) == understood
    assert demo.dialogue.understood(understood) == understood


async def test_an_answer_is_understood_in_its_question(demo: Talk) -> None:
    await demo.say("What's the weather?")
    assert demo.dialogue.understood("It's Castrop.") == "It's Kastrup."
    await demo.say("It's Castrop.")
    assert [arguments["icao"] for _, arguments in demo.asked] == ["EKCH"]


@given(st.text(max_size=60), st.integers(0, 12), st.integers(1, 4))
def test_rewriting_touches_only_its_stretch(text: str, start: int, length: int) -> None:
    tokens = tokenise(text)
    end = start + length
    if end > len(tokens):
        return
    changed = rewrite(text, tokens, [(start, end, ("Oslo",))])
    if changed != text:
        assert changed.startswith(text[: tokens[start].begin])
        assert changed.endswith(text[tokens[end - 1].end :])
        assert "Oslo" in changed
