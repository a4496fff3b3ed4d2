from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls.media.playout import heard_words

WORDS = st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), max_size=12)


@pytest.mark.parametrize(
    ("text", "share", "heard"),
    [
        ("international telecommunication at a bus", 0.8, "international telecommunication"),
        ("a b c d internationalisation", 0.4, "a b c d"),
        ("The code is 1013 now.", 0.5, "The code is"),
        ("Yes, the wind is calm.", 0.3, "Yes,"),
        ("One two.", 1.2, "One two."),
        ("One two.", -0.3, ""),
        ("", 0.5, ""),
    ],
)
def test_words_take_as_long_as_they_are_spelled(text: str, share: float, heard: str) -> None:
    assert heard_words(text, share) == heard


@given(WORDS, st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=6))
def test_more_sound_is_never_less_text_and_always_its_beginning(
    words: list[str], shares: list[float]
) -> None:
    text = " ".join(words)
    heard = [heard_words(text, share) for share in sorted(shares)]
    assert all(later.startswith(sooner) for sooner, later in pairwise(heard))
    assert " ".join(text.split()).startswith(heard[-1])
