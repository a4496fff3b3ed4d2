"""Numbers from outside: what is read, what is refused, and what class it has."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.firewall.numbers import LONGEST, matches, read_number, read_target, written_forms


@pytest.mark.parametrize(
    ("text", "home", "read", "kind", "country"),
    [
        ("+47 22 12 34 56", None, "+4722123456", "fixed", "NO"),
        ("22 12 34 56", "NO", "+4722123456", "fixed", "NO"),
        ("(0047) 22.12-34 56", "NO", "+4722123456", "fixed", "NO"),
        ("004722123456", None, "+4722123456", "fixed", "NO"),
        ("011 47 22123456", "US", "+4722123456", "fixed", "NO"),
        ("+4741234567", None, "+4741234567", "mobile", "NO"),
        ("+4782900000", None, "+4782900000", "premium", "NO"),
        ("82900000", "NO", "+4782900000", "premium", "NO"),
        ("+19005551234", None, "+19005551234", "premium", "US"),
        ("+979123456789", None, "+979123456789", "premium", ""),
        ("+80812345678", None, "+80812345678", "shared_cost", ""),
        ("+80012345678", None, "+80012345678", "toll_free", ""),
        ("+447012345678", None, "+447012345678", "personal", "GB"),
        ("+8816123456", None, "+8816123456", "satellite", ""),
        ("+870765123456", None, "+870765123456", "satellite", ""),
        ("+882161234567", None, "+882161234567", "satellite", ""),
        ("112", None, "112", "emergency", ""),
        ("911", "NO", "911", "emergency", "NO"),
        ("110", "NO", "110", "emergency", "NO"),
        ("110", None, "110", "short_code", ""),
        ("1881", "NO", "1881", "short_code", "NO"),
        ("+4712", None, "+4712", "unknown", ""),
        ("22123456", None, "22123456", "unknown", ""),
    ],
)
def test_a_number_is_read_with_its_class(
    text: str, home: str | None, read: str, kind: str, country: str
) -> None:
    number = read_number(text, home)
    assert number is not None
    assert (number.text, number.kind, number.country) == (read, kind, country)


HOSTILE = (
    "", " ", "+", "++4722123456", "+47221234 56;ext=5", "+4722123456,,99", "+4722123456&PJSIP/x",
    "*724722123456", "#31#4722123456", "4722123456#", "4722123456w9", "4722123456p9",
    "1-800-FLOWERS", "+47 22\uff11\uff12\uff13\uff14", "+\u0664\u0667221234",
    "+472212\u096b\u096c", "sip:+4722123456@x",
    "+4722123456@evil", "${EXTEN}", "+4722123456\n", "\t+4722123456", "+4722123456/n",
    "PJSIP/+4722123456", "+4722123456|112", "+47\u200b22123456", "+47\u00a022123456", "four seven",
    "+" + "1" * 40, "1e9", "0x2f", "-4722123456", "+47221234\x0056",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("home", [None, "NO", "US"])
def test_a_hostile_text_is_no_number(text: str, home: str | None) -> None:
    assert read_number(text, home) is None


@pytest.mark.parametrize("value", [None, 4722123456, True, 1.5, ["+4722123456"], {}])
def test_only_texts_are_numbers(value: object) -> None:
    assert read_number(value, "NO") is None


@given(st.text(max_size=LONGEST + 5), st.sampled_from([None, "NO", "US", "GB"]))
@example("+4722123456&911", None)
def test_what_is_read_is_nothing_but_digits(text: str, home: str | None) -> None:
    number = read_number(text, home)
    if number is not None:
        assert re.fullmatch(r"\+?[0-9]{1,15}", number.text, re.ASCII) or not number.is_full
        assert re.fullmatch(r"\+?[0-9]+", number.text, re.ASCII)
        assert re.fullmatch(r"[+0-9 ().-]+", text, re.ASCII)


@given(
    st.from_regex(r"\+?[0-9]{1,20}", fullmatch=True),
    st.sampled_from("*#&,;wpWPxX@/$%|\u0661\uff21 "),
)
def test_one_dialplan_character_makes_it_unreadable(digits: str, bad: str) -> None:
    assert read_number(digits + bad, "NO") is None
    assert bad == " " or read_number(digits[:1] + bad + digits[1:] + "5", "NO") is None


@given(st.from_regex(r"\+?[0-9]{1,31}", fullmatch=True), st.sampled_from([None, "NO", "US"]))
def test_a_number_that_was_read_is_read_the_same_again(text: str, home: str | None) -> None:
    number = read_number(text, home)
    if number is not None:
        assert read_number(number.text, home) == number


@pytest.mark.parametrize(
    ("target", "home", "kind"),
    [
        ("6001", "NO", "extension"), ("sales-queue", "NO", "extension"), ("*97", None, "extension"),
        ("22123456", None, "extension"), ("22123456", "NO", "fixed"), ("82900000", "NO", "premium"),
        ("+8816123456", None, "satellite"), ("112", None, "emergency"), ("110", None, "extension"),
    ],
)  # fmt: skip
def test_a_configured_target_that_is_no_number_is_an_extension(
    target: str, home: str | None, kind: str
) -> None:
    assert read_target(target, home).kind == kind


def test_patterns_are_numbers_or_their_beginnings() -> None:
    assert matches("+4782900000", ("+4722", "+4782*"))
    assert matches("+4722123456", ("+4722123456",))
    assert not matches("+4722123456", ("+47221234", "+46*", "22123456"))


@pytest.mark.parametrize("written", ["+4722123456", "22 12 34 56", "004722123456", "4722123456"])
def test_a_number_has_other_forms(written: str) -> None:
    forms = {"+4722123456", "4722123456", "004722123456", "22123456"}
    assert set(written_forms(written, "NO")) == forms - {written.replace(" ", "")}
    assert written_forms("+442079460000", "GB")[-2:] == ("02079460000", "2079460000")
    assert "02079460000" not in written_forms("+442079460000", "NO")
    for text in ("anonymous", "", "6001"):
        assert written_forms(text, "NO") == ()
