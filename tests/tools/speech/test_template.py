from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.templates import (
    FORMATS,
    Format,
    Placeholder,
    Template,
    TemplateError,
    read_path,
    read_template,
)
from cordboard.tools.speech.speakable import speakable
from cordboard.tools.speech.template import fill

DATA: dict[str, Any] = {
    "name": "Ann",
    "price": 1234.5,
    "when": "2026-11-21T15:20:00Z",
    "code": "KA7-91",
    "count": 3,
    "items": ["soup", "fish", "tea"],
    "tables": [{"id": 4, "seats": {"free": 2}}, {"id": 9, "seats": {"free": 6}}],
    "open": True,
    "a.b": {"c:d": "odd", 'say "x"': "quoted"},
    "nothing": None,
    "nan": float("nan"),
    "phone": "+49 30 1234",
    "mail": "ann@example.com",
    "forecast": [{"summary": "rain"}, {"summary": "sun"}],
}


def said(template: str, data: Any = DATA) -> str | None:
    return fill(read_template(template), data)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("Hello {name}.", "Hello Ann."),
        ("{ name }", "Ann"),
        ("{forecast.0.summary} then {forecast.-1.summary}", "rain then sun"),
        ('{"a.b"."c:d"}', "odd"),
        ("{'a.b'.'say \"x\"'}", "quoted"),
        ('{"a.b"."say ""x"""}', "quoted"),
        ("{{name}} {{{name}}}", "{name} {Ann}"),
        ("{nobody|nobody}", "nobody"),
        ("{nobody|}!", "!"),
        ("{name:time|at some time}", "at some time"),
        ("{price:.2f}", "1,234.50"),
        ("{price:.0f}", "1,234"),
        ("{price:number}", "1,234.5"),
        ("{price:money(EUR)}", "1,234 euros and 50 cents"),
        ("{when:time}", "3:20 PM UTC"),
        ("{when:date}", "November 21st, 2026"),
        ("{when:datetime}", "November 21st, 2026 at 3:20 PM UTC"),
        ("{code:spell}", "K A, 7, 9 1"),
        ("{count:digits}", "3"),
        ("{count:ordinal}", "3rd"),
        ("{count} {count:plural(table,tables)}", "3 tables"),
        ("{tables:number} {tables:plural( table , tables )}", "2 tables"),
        ("{items:list}", "soup, fish and tea"),
        ("{tables:list(id)}", "4 and 9"),
        ("{tables:list(seats.free)}", "2 and 6"),
        ("{open:choice(open,closed)}", "open"),
        ("{count:percent}", "3 percent"),
        ("{count:duration}", "3 seconds"),
        ("{phone:phone}", "plus 4 9, 3 0, 1 2 3 4"),
        ("{mail:email}", "ann at example dot com"),
        ("no placeholder", "no placeholder"),
        ("", ""),
    ],
)
def test_a_template_is_filled(template: str, words: str) -> None:
    assert said(template) == words


@pytest.mark.parametrize(
    "template",
    [
        "{nobody}",
        "{nothing}",
        "{nan}",
        "{nan:number}",
        "{name.first}",
        "{items.7}",
        "{items.x}",
        "{tables}",
        "{name:number}",
        "{name:plural(a,b)}",
        "{count:choice(a,b)}",
        "{tables:list(nobody)}",
        "{code:email}",
        "{open:spell}",
        "Hello {name}, {nobody}.",
    ],
)
def test_without_a_value_there_is_no_sentence(template: str) -> None:
    assert said(template) is None


def test_times_of_a_list_are_of_one_clock() -> None:
    times = {"times": ["9:00", "11:30", "14:00"]}
    assert speakable(said("{times:list}", times) or "") == "9 AM, 11:30 AM and 2 PM"


def test_one_is_singular() -> None:
    assert said("{n:plural(table,tables)}", {"n": 1}) == "table"
    assert said("{n:plural(table,tables)}", {"n": "0"}) == "tables"
    assert said("{n:plural(table,tables)}", {"n": [5]}) == "table"


@pytest.mark.parametrize("value", ["{name}", "${HOME}", "{{", "}", "{name:spell}", "$$"])
def test_data_is_never_a_template(value: str) -> None:
    assert said("<{x}> {x|y}", {"x": value, "name": "secret"}) == f"<{value}> {value}"


@pytest.mark.parametrize(
    ("template", "position", "expected"),
    [
        ("{", 1, "the name of a field"),
        ("{}", 1, "the name of a field"),
        ("{a.}", 3, "the name of a field"),
        ("Hi {a", 5, "'.', ':', '|' or '}'"),
        ("a } b", 2, "'}}'"),
        ("{a:}", 3, "a format (.2f, choice, date"),
        ("{a:shout}", 3, "a format"),
        ("{a:.2}", 3, "a format"),
        ("{a:plural(x)}", 3, "plural with 2 arguments, got 1"),
        ("{a:plural(x,y,z)}", 3, "plural with 2 arguments, got 3"),
        ("{a:list(x,y)}", 3, "list with 0 to 1 arguments, got 2"),
        ("{a:list(.x)}", 8, "the name of a field"),
        ("{a:plural(x,y}", 13, "',' or ')'"),
        ("{a:money(euro)}", 9, "the three letters of a currency"),
        ("{a|b{c}}", 4, "'}'"),
        ('{"a}', 4, 'a closing "'),
        ("{a:time b}", 8, "'|' or '}'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(template: str, position: int, expected: str) -> None:
    with pytest.raises(TemplateError) as caught:
        read_template(template)
    assert caught.value.position == position
    assert caught.value.expected.startswith(expected)
    assert f"at character {position + 1}: expected {expected}" in str(caught.value)


def test_in_a_field_only_dots_and_quotes_mean_something() -> None:
    assert read_path("og:title.a|b.{x}.-1") == ("og:title", "a|b", "{x}", "-1")
    assert read_path('"a.b".c') == ("a.b", "c")
    for wrong in ("", "a..b", ".a", 'a."b', 'a."b"c'):
        with pytest.raises(TemplateError):
            read_path(wrong)


_keys = st.text(min_size=1, max_size=8).filter(lambda key: "\x00" not in key)
_words = st.text(
    st.characters(exclude_characters="(),{}\"'.", exclude_categories=["C", "Z"]), min_size=1
)


@st.composite
def _formats(draw: st.DrawFn) -> Format:
    name = draw(st.sampled_from([*sorted(FORMATS), "fixed"]))
    if name == "fixed":
        return Format(name, (str(draw(st.integers(0, 9))),))
    if name == "money":
        return Format(name, ("EUR",))
    if name == "list":
        return Format(name, (), tuple(draw(st.lists(_words, max_size=2))))
    return Format(name, tuple(draw(_words) for _ in range(FORMATS[name][0])))


_defaults = st.none() | st.text(st.characters(exclude_characters="{}"), max_size=5).map(str.strip)
_placeholders = st.builds(
    Placeholder,
    st.lists(_keys, min_size=1, max_size=3).map(tuple),
    st.none() | _formats(),
    _defaults,
)
_pieces = st.lists(st.text(min_size=1, max_size=8) | _placeholders, max_size=6)


def written(piece: str | Placeholder) -> str:
    if isinstance(piece, str):
        return piece.replace("{", "{{").replace("}", "}}")
    text = ".".join('"' + key.replace('"', '""') + '"' for key in piece.path)
    form = piece.format
    if form is not None and form.name == "fixed":
        text += f":.{form.arguments[0]}f"
    elif form is not None:
        inside = ",".join(form.arguments) or ".".join(form.path)
        text += f":{form.name}" + (f"({inside})" if inside else "")
    return "{" + text + (f"|{piece.default}" if piece.default is not None else "") + "}"


def joined(pieces: list[str | Placeholder]) -> Template:
    together: list[str | Placeholder] = []
    for piece in pieces:
        last = together[-1] if together else None
        if isinstance(piece, str) and isinstance(last, str):
            together[-1] = last + piece
        else:
            together.append(piece)
    return tuple(together)


@given(_pieces)
def test_what_is_written_is_read(pieces: list[str | Placeholder]) -> None:
    assert read_template("".join(map(written, pieces))) == joined(pieces)


@given(st.text(max_size=30) | st.text("{}ab.:|(),\"'0 list", max_size=30))
def test_any_text_is_a_template_or_has_a_mistake_at_a_place(text: str) -> None:
    position = 0
    try:
        read_template(text)
    except TemplateError as error:
        position = error.position
    assert 0 <= position <= len(text)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(_json, _formats())
def test_whatever_the_data_is_filling_never_raises(data: Any, form: Format) -> None:
    words = fill((Placeholder(("x",), form),), {"x": data})
    assert words is None or isinstance(words, str)
    assert fill((Placeholder(("x",), form, "default"),), {"x": data}) is not None


_FORMS = [
    Format(name, ("EUR",) if name == "money" else ("a", "b"), ()) for name in sorted(FORMATS)
] + [Format("fixed", ("2",))]


@pytest.mark.parametrize("form", _FORMS, ids=lambda form: str(form.name))
def test_numbers_that_no_voice_can_say_are_words(form: Format) -> None:
    for value in (10**5000, -(10**5000), 1e308, float("inf"), float("nan"), "9" * 5000):
        words = fill((Placeholder(("x",), form, "none"),), {"x": value})
        assert words is not None
        assert len(words) < 200 or (form.name == "list" and isinstance(value, str))
