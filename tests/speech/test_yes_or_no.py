"""Yes and no as callers say them. What may be either is neither: something cannot be taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.speech.yes_or_no import is_plain_answer, read_yes_or_no

YES = (
    "yes", "Yes, please.", "yeah", "Yep, cancel it.", "Sure.", "sure, go ahead", "Go ahead.",
    "ok go ahead", "Mhm.", "Mm-hmm.", "Uh-huh.", "Okay.", "Please do.", "Please.", "I do.",
    "yes, why not?", "Of course.", "Sounds good, go ahead.", "No problem, go ahead.",
    "Yes I would like that very much", "Yeah, that's fine.", "That\u2019s right.", "alright then",
    "yes, book it", "Yes, delete all of them.", "I think so.", "Do it.", "absolutely", "um, yes",
    "yes yes yes", "Yes. That's the one.", "oh yes", "right", "Could you do that please",
    "yes right away", "By all means.", "YES!",
)  # fmt: skip
NO = (
    "no", "uh no, wait", "no, don't", "I'd rather not", "No thanks.", "No, thank you.",
    "Please don't.", "Don't do it.", "do not go ahead", "absolutely not", "not now", "Nope.",
    "never mind", "Actually no.", "I changed my mind.", "no, make it eight", "I don't think so.",
    "I do not", "That's not correct.", "Stop.", "okay no", "mhm no", "Better not.", "not yet",
    "No! No, no.", "I said no", "you can't do that, no", "Certainly not.", "No, leave it.",
    "negative", "I won\u2019t",
)  # fmt: skip
NEITHER = (
    "", "...", "yes, but at eight", "yes, no, wait", "I'm not sure", "what?", "maybe", "hmm", "um",
    "yes?", "wait", "hold on", "yes and no", "I don't know", "could you repeat that",
    "Is that correct", "the weather in Oslo", "goodbye", "yeah no", "yes if it is free",
    "Sorry, yes or no? You can also press 1 for yes or 2 for no.", "Actually yes, but for two",
    "one moment", "thanks", "cancel it", "who is this", "uh-uh", "Yes, at nine.", "no idea",
    "are you sure", "I guess", "yes one two", "ok bye", "book", "Yes, for 2 people.",
    "yes and then tell me about that other thing we have been talking of last week",
)  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "answer"), [(YES, True), (NO, False), (NEITHER, None)], ids=["yes", "no", "neither"]
)
def test_how_callers_say_it(texts: tuple[str, ...], answer: bool | None) -> None:
    wrong = {text: read_yes_or_no(text) for text in texts if read_yes_or_no(text) is not answer}
    assert wrong == {}


def test_what_listeners_murmur_is_no_answer_over_the_question() -> None:
    assert [text for text in YES if not is_plain_answer(text)] == [
        "Mhm.", "Mm-hmm.", "Uh-huh.", "Okay.", "Please.", "I do.", "alright then", "right",
    ]  # fmt: skip
    assert all(is_plain_answer(text) for text in NO)
    assert not any(is_plain_answer(text) for text in NEITHER)


@given(st.text(), st.sampled_from([no for no in NO if not no.startswith("not")]), st.text())
def test_whatever_stands_around_a_no_makes_it_no_yes(before: str, no: str, after: str) -> None:
    assert read_yes_or_no(f"{before} {no} {after}") is not True
