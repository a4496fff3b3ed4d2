"""Codes that were run together, and the caller's words as they were understood."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk


@pytest.mark.parametrize("heard", ["Lima Fokstrat Papagolf", "Popogolf Lima"])
async def test_codes_that_ran_together_are_never_another_code(demo: Talk, heard: str) -> None:
    await demo.say(heard)
    assert [arguments["icao"] for _, arguments in demo.asked] in ([], ["LFPG"])


@pytest.mark.parametrize(
    "heard",
    [
        "November Golf Mike",
        "Lima Foxtrat Xraegolf",
        "Echo Gulf Lima Mi",
        "EGL",
        "Echo November Golf",
        "Kilo Bravo Sierra",
        "Echo Sierra Alpha",
        "Echo Golf Lima",
    ],
)
async def test_a_code_that_may_be_another_is_not(demo: Talk, heard: str) -> None:
    await demo.say(heard)
    assert demo.asked == []


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
