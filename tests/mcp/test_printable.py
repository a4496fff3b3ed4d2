from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cordboard.mcp.printable import printable


def test_ordinary_words_stay_as_they_are() -> None:
    assert printable("Kein Bericht für Łódź ✈ 東京") == "Kein Bericht für Łódź ✈ 東京"


def test_no_escape_sequence_line_end_or_reversal_comes_through() -> None:
    assert printable("a\x1b[2Jb\nc\u202ed\u2028e\x9bf") == "a [2Jb c d e f"


def test_it_is_cut() -> None:
    assert printable("x" * 1_000) == "x" * 300
    assert printable("ü" * 1_000, 10) == "ü" * 10


@given(st.text(max_size=80))
def test_any_text_is_one_visible_line(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert all(
        unicodedata.category(character)[0] != "C" or unicodedata.category(character) == "Cn"
        for character in shown
    )
