"""Numbers and addresses of people leave every text, however they are said; other words stay."""

from __future__ import annotations

import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.sections.privacy import Kind
from cordboard.observe.logging import SecretFilter
from cordboard.privacy.check_digits import IBAN_LENGTHS, IDS, cards_in, is_card, is_iban, luhn
from cordboard.privacy.redaction import KINDS, CallRedaction, Redactor, compile_pattern

ALL = Redactor([kind for kind in KINDS if kind not in IDS])
IDS_ONLY = Redactor(IDS)
ENGLISH = "zero one two three four five six seven eight nine".split()
GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun".split()
FRENCH = "zéro un deux trois quatre cinq six sept huit neuf".split()
SPANISH = "cero uno dos tres cuatro cinco seis siete ocho nueve".split()
digits = st.text("0123456789", min_size=14, max_size=14)


def card_of(body: str) -> str:
    """A valid card number of 16 digits that begins with 4."""
    return next(n for last in "0123456789" if luhn(n := f"4{body}{last}"))


def iban_of(country: str, account: str) -> str:
    return next(iban for check in range(2, 99) if is_iban(iban := f"{country}{check:02}{account}"))


@given(digits, st.sampled_from([" ", "-", "", ", ", ". "]), st.integers(1, 7))
def test_a_written_card_number_always_goes(body: str, separator: str, group: int) -> None:
    card = card_of(body)
    written = separator.join(card[at : at + group] for at in range(0, 16, group))
    for text in (f"My card is {written}, thank you.", written, f"12 {written} 04 27"):
        clean = ALL.text(text)
        assert sum(sign.isdigit() for sign in clean) <= len("120427"), clean
        assert "[card]" in clean


@given(
    digits, st.sampled_from([ENGLISH, GERMAN, FRENCH, SPANISH]), st.sampled_from([" ", ", ", ". "])
)
def test_a_spoken_card_number_always_goes(body: str, words: list[str], pause: str) -> None:
    spoken = pause.join(words[int(digit)] for digit in card_of(body))
    assert ALL.text(f"It is {spoken} please") == "It is [card] please"


@given(st.text("0123456789", max_size=70))
def test_every_card_number_within_digits_is_found(digits: str) -> None:
    parts = ((at, at + size) for size in range(19, 12, -1) for at in range(len(digits) - size + 1))
    assert list(cards_in(digits)) == [(at, to) for at, to in parts if is_card(digits[at:to])]


def test_digits_are_spoken_in_many_ways() -> None:
    card = Redactor(["card"])
    for said in (
        "four one one one one one one one one one one one one one one one",
        "Four, triple one, double one double one. 1111 1111",
        "forty-one eleven eleven eleven eleven eleven eleven eleven",
        "forty one eleven, 1111 eleven eleven eleven eleven",
        "\u0664\u0661\u0661\u0661 1111 1111 1111",
    ):
        assert card.text(f"yes {said} right") == "yes [card] right", said
    assert "4111" not in card.text("expires 0427, 4111 1111 1111 1111 code 123")


@given(
    st.sampled_from(sorted(IBAN_LENGTHS)),
    st.text("0123456789", min_size=30, max_size=30),
    st.sampled_from(["", " ", "-"]),
)
def test_an_iban_always_goes(country: str, account: str, separator: str) -> None:
    iban = iban_of(country, account[: IBAN_LENGTHS[country] - 4])
    written = separator.join(iban[at : at + 4] for at in range(0, len(iban), 4))
    redactor = Redactor(["iban"])
    assert redactor.text(f"Pay to {written}.") == "Pay to [iban]."
    assert redactor.text(f"pay to {written.lower()} now") == "pay to [iban] now"
    spelled = " ".join(iban)
    assert redactor.text(f"It's {spelled}!") == "It's [iban]!"


def test_ibans_with_letters_go() -> None:
    redactor = Redactor(["iban"])
    assert redactor.text("GB82 WEST 1234 5698 7654 32") == "[iban]"
    assert redactor.text("GB82 WEST 1234 5698 7654 33") == "GB82 WEST 1234 5698 7654 33"
    other = "n o 9 3 8 6 0 1 1 1 1 7 9 4 ø"
    assert redactor.text(other) == other


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("br_cpf", "529.982.247-25", "529.982.247-24"),
        ("ca_sin", "046 454 286", "046 454 287"),
        ("de_tax_id", "86 095 742 719", "86 095 742 718"),
        ("fr_nir", "2 55 08 14 168 025 38", "2 55 08 14 168 025 39"),
        ("in_aadhaar", "2341 2341 2346", "2341 2341 2347"),
        ("nl_bsn", "111222333", "111222334"),
        ("pl_pesel", "44051401359", "44051401358"),
        ("uk_nhs", "943 476 5919", "943 476 5918"),
    ],
)
def test_ids_go_by_their_check_digits(kind: str, good: str, bad: str) -> None:
    redactor = Redactor([kind])
    if kind != "ca_sin":  # this one begins with 0, which is for fictitious numbers
        assert redactor.text(f"it is {good}.") == f"it is [{kind}]."
    assert redactor.text(f"it is {bad}.") == f"it is {bad}."


def test_addresses_go() -> None:
    assert ALL.text("mail jane.doe+x@example.co.uk, please") == "mail [email], please"
    assert ALL.text("to jane dot doe at example dot com") == "to [email]"
    assert ALL.text("<müller@bücher.example>") == "<[email]>"


@pytest.mark.parametrize(
    "number",
    [
        "+49 171 2345678", "0171/2345678", "(555) 123-4567", "555 123 4567", "+1-555-123-4567",
        "five five five one two three four five six seven", "plus 49 171 2345678",
        "oh one seven one, two three four five six seven eight",
    ],
)  # fmt: skip
def test_telephone_numbers_go(number: str) -> None:
    clean = ALL.text(f"call me at {number} today")
    assert clean in ("call me at [phone] today", "call me at plus [phone] today")


@pytest.mark.parametrize(
    "text",
    [
        "A table for two at seven, please, on the 23rd of November 2026.",
        "It is 2026-11-23 17:30:00, or 23.11.2026, or 11/23/2026.",
        "That makes 12.50, 13.75, 14.20 and 1,234,567 altogether.",
        "There are 10 000 000 people.",
        "One or two, three at most; no, four!",
        "Flight LH 1234 from gate B22 at 14:05.",
        "I am one of four, and you are one in a million at the dot.",
        "Information Kilo, wind 1 8 0 at 5, 10 kilometres, 1013.",
        "Your call is 5f6c1c52-9a0e-4c1f-8d6e-3f2a5b60c7d1.",
        "",
        "a b c d e f g h i j",
    ],
)
def test_ordinary_sentences_stay(text: str) -> None:
    assert ALL.text(text) == text
    assert IDS_ONLY.text(text) == text


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_taken_and_letters_stay(text: str) -> None:
    redactor = Redactor(["card", "iban", "phone"])
    clean = redactor.text(text)
    if not any(sign.isdigit() for sign in text) and clean != text:
        assert "[" in clean
    assert redactor.text(clean) == clean or any(sign.isdigit() for sign in clean)


@pytest.mark.parametrize(
    "piece", ["1", "1 ", "one ", "a@", "a.", "de12 ", "x at y dot ", "- ", "K D 1 "]
)
def test_no_text_takes_long(piece: str) -> None:
    redactor = Redactor(KINDS, {"a": "KD-######", "b": "**-**-**-**-**-**-**-**", "c": "@@@@ ####"})
    began = time.process_time()
    redactor.text(piece * (20_000 // len(piece)))
    assert time.process_time() - began < 5  # 20 ms to 300 ms; what grows faster takes minutes


def test_configured_patterns_go() -> None:
    redactor = Redactor((), {"customer": "KD-######", "contract": "@##/***"})
    assert (
        redactor.text("I am kd 123456, contract X12/ab9") == "I am [customer], contract [contract]"
    )
    assert redactor.text("K D one two three four five six") == "[customer]"
    assert redactor.text("KD-1234567 and AKD-123456 stay") == "KD-1234567 and AKD-123456 stay"
    for wrong in ("", "##", "abc", "#" * 65):
        with pytest.raises(ValueError, match="expected 3 to 64 characters"):
            compile_pattern(wrong)


def test_data_is_searched_at_any_depth() -> None:
    call = CallRedaction(ALL)
    data = {"a": [{"card": 4111111111111111, "n": 5, "ok": True}], "jane@example.com": "x"}
    clean = {"a": [{"card": "[card]", "n": 5, "ok": True}], "[email]": "x"}
    assert call.data(data) == clean
    same = {"a": [1, "two", None, 2.5], "at": 1_795_284_000_123}
    assert call.data(same) is same
    deep: object = "4111111111111111"
    for _ in range(100):
        deep = [deep]
    assert "4111" not in str(call.data(deep))


def test_numbers_of_data_go_as_the_same_digits_in_texts_do() -> None:
    call = CallRedaction(
        Redactor(["card", "nl_bsn", "phone"], {"order": "88####", "shop": "KD-##"})
    )
    card = 4111111111111111
    assert call.data([card, float(card), 111222333, 882001, 882001.0, {"n": 882002}]) == [
        "[card]", "[card]", "[nl_bsn]", "[order]", "[order]", {"n": "[order]"},
    ]  # fmt: skip
    same = [card + 1, -card, 882, 12882001, 0.5, 882001.5, 1e300, float("inf"), 10**40, True]
    assert call.data(same) is same
    times = {"at": 1_795_284_000, "ms": 1_795_284_000_123, "took": 12345678, "ok": True}
    assert call.data(times) is times


def test_a_number_that_was_removed_before_goes_from_data_too() -> None:
    call = CallRedaction(Redactor(["phone"]))
    assert call.data({"phone": 91234567}) == {"phone": 91234567}, "it may be an amount"
    assert call.text("Call me at 912 34 567") == "Call me at [phone]"
    assert call.data({"phone": 91234567, "so_far": 912345.0, "other": 91234568}) == {
        "phone": "[number]", "so_far": "[number]", "other": 91234568,
    }  # fmt: skip


def test_what_is_not_searched_is_not_written() -> None:
    call = CallRedaction(Redactor(["card"]))
    clean = call.data({"a": "x" * 49_990, "b": "4111 1111 1111 1111", "c": "later"})
    assert clean == {"a": "x" * 49_990, "b": "4111 1111 [long]", "c": "[long]"}
    assert call.data({"c": "later"}) == {"c": "later"}


def test_a_part_of_a_removed_number_goes_too() -> None:
    call = CallRedaction(Redactor(["card"]))
    assert call.text("So that is 4111 1111 1111 1111, right?") == "So that is [card], right?"
    assert call.text("So that is 4111 1111") == "So that is [number]"
    assert call.text("Order 987654 321") == "Order 987654 321"
    assert CallRedaction(Redactor(["card"])).text("So that is 4111 1111") == "So that is 4111 1111"


def test_a_number_that_is_said_in_parts_is_never_completed() -> None:
    call = CallRedaction(Redactor(["card"]))
    assert call.text("It is 4111 1111") == "It is 4111 1111"
    assert call.text("Yes?") == "Yes?"
    assert call.text("and then one one one one") == "and then one one one one"
    assert call.text("1111, that is all.") == "[card], that is all."
    assert call.text("I live at 1111 Elm Street") == "I live at 1111 Elm Street"
    call = CallRedaction(Redactor(["card"]))
    call.text("It is 4111 1111 1111")
    assert call.text("My house has the number 1111") == "My house has the number 1111"


def test_the_configuration_knows_all_kinds() -> None:
    assert set(get_args(Kind)) == set(KINDS)
    assert not Redactor()
    assert is_card("4111111111111111")
    assert not is_card("1111111111111117")


def test_log_fields_that_quote_people_are_searched() -> None:
    log = SecretFilter(["geheim"])
    event = {"event": "said", "call_id": "4111111111111111", "text": "4111 1111 1111 1111 geheim"}
    assert log(None, "info", dict(event))["text"] == "4111 1111 1111 1111 ***"
    log.redact = Redactor(["card"]).text
    assert log(None, "info", dict(event)) == {**event, "text": "[card] ***"}
