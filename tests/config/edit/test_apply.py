"""Edits of a text: what they change, what they leave alone, and what they refuse."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.config.edit.apply import apply
from cordboard.config.edit.edits import (
    Edit,
    Insert,
    Move,
    Remove,
    Rename,
    Set,
    apply_to_data,
    same,
)
from cordboard.config.yaml_document import Document, KeyPath, dotted, parse
from cordboard.errors import ConfigError, EditRefused

from .styles import STYLES

AWKWARD = ("anchors", "strange keys", "flow on lines", "mappings in lists")
"""Styles with places that only an editor can change."""


def edited(text: str, edit: Edit, *, may_refuse: bool) -> str | None:
    try:
        return apply(text, [edit])
    except EditRefused as refused:
        if may_refuse and str(refused).endswith("edit it as text"):
            return None
        raise


def data_of(text: str) -> dict[str, Any]:
    document = parse(text, "")
    assert not document.problems
    return document.tree


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ("a: 1  # why\nb: 2\n", Set(("a",), 3), "a: 3  # why\nb: 2\n"),
        ("a: 'x'\n", Set(("a",), "it's"), "a: 'it''s'\n"),
        ('a: "x"\n', Set(("a",), 'say "no"'), 'a: "say \\"no\\""\n'),
        ("a: x\n", Set(("a",), "y: z"), 'a: "y: z"\n'),
        ("a: x\n", Set(("a",), "yes"), 'a: "yes"\n'),
        ("a: x\n", Set(("a",), "12"), 'a: "12"\n'),
        ("a: x\n", Set(("a",), "${NAME}"), "a: ${NAME}\n"),
        ("a: [x]\n", Set(("a", 0), "${NAME}"), 'a: ["${NAME}"]\n'),
        ("a: |\n  x\n  y\nb: 1\n", Set(("a",), "z\n"), "a: |\n  z\nb: 1\n"),
        ("a: |  # c\n    x\nb: 1\n", Set(("a",), "y\n\nz"), "a: |-  # c\n    y\n\n    z\nb: 1\n"),
        ("a: >-\n  x\n  y\n", Set(("a",), "p q\nr"), "a: >-\n  p q\n\n  r\n"),
        ("a: x  # c\nb: 1\n", Set(("a",), "y\nz"), "a: |-  # c\n  y\n  z\nb: 1\n"),
        ("a: |\n  x\nb: 1\n", Set(("a",), 5), "a: 5\nb: 1\n"),
        (
            "a:\n    b: 1\n",
            Set(("c",), {"d": {"e": 1}}),
            "a:\n    b: 1\nc:\n    d:\n        e: 1\n",
        ),
        ("a:\n- x\n", Set(("b",), [{"c": 1, "d": [1]}]), "a:\n- x\nb:\n- c: 1\n  d:\n  - 1\n"),
        ("a: [x]\n", Set(("b",), ["p", "q"]), "a: [x]\nb: [p, q]\n"),
        ("a:  # c\n  b: 1\n  # d\nc: 1\n", Set(("a",), "x"), "a: x  # c\nc: 1\n"),
        ("a: {}  # c\n", Set(("a", "b"), 1), "a:  # c\n  b: 1\n"),
        ("a:\n", Set(("a", "b", "c"), 1), "a:\n  b:\n    c: 1\n"),
        ("a: 1\r\nb: 2\r\n", Set(("c",), "x\ny"), "a: 1\r\nb: 2\r\nc: |-\r\n  x\r\n  y\r\n"),
        ("a: 1\n\nb: 2\n", Set(("c",), 3), "a: 1\n\nb: 2\n\nc: 3\n"),
        ("a: 1", Set(("b",), 2), "a: 1\nb: 2"),
        ("a: 1", Set(("b",), "x\ny\n"), "a: 1\nb: |\n  x\n  y\n"),
        ("a: 'x'\nb: 'y'\n", Set(("c",), "z"), "a: 'x'\nb: 'y'\nc: 'z'\n"),
        ("a: 1\n# of b\nb: 2 # b\nc: 3\n", Remove(("b",)), "a: 1\nc: 3\n"),
        ("# free\n\na: 1\nb: 2\n", Remove(("a",)), "# free\n\nb: 2\n"),
        ("a:\n  b: 1\nc: 2\n", Remove(("a", "b")), "a: {}\nc: 2\n"),
        ("a:\n  - b: 1\n    # c\n    c: 2\n", Remove(("a", 0, "b")), "a:\n  - # c\n    c: 2\n"),
        ("a: [x, y, z]\n", Remove(("a", 1)), "a: [x, z]\n"),
        ("a: [x, y, z]\n", Remove(("a", 2)), "a: [x, y]\n"),
        ("a: [\n  x,  # x\n  y  # y\n]\n", Remove(("a", 1)), "a: [\n  x,  # x\n]\n"),
        ("a: 1\nc: 3\n", Insert(("b",), 2, "c"), "a: 1\nb: 2\nc: 3\n"),
        ("a: 1\n# of c\nc: 3\n", Insert(("b",), 2, "c"), "a: 1\nb: 2\n# of c\nc: 3\n"),
        ("a: {b: 1}\n", Insert(("a", "c"), 2, "b"), "a: {c: 2, b: 1}\n"),
        ("a:\n  - x # x\n  - y\n", Insert(("a", 1), "p"), "a:\n  - x # x\n  - p\n  - y\n"),
        (
            "a: [\n  x,  # x\n  y  # y\n]\n",
            Insert(("a", 2), 1),
            "a: [\n  x,  # x\n  y,  # y\n  1\n]\n",
        ),
        ("# c\na: 1 # d\n", Rename(("a",), "b c"), "# c\nb c: 1 # d\n"),
        ("'a': 1\n", Rename(("a",), "b"), "'b': 1\n"),
        ("a:\n  # x\n  - x # x\n  - y\n", Move(("a", 0), 1), "a:\n  - y\n  # x\n  - x # x\n"),
        ("a: [x, y,  z]\n", Move(("a", 2), 0), "a: [z, x,  y]\n"),
        ("a: [\n  x, # x\n  y # y\n]\n", Move(("a", 1), 0), "a: [\n  y, # y\n  x, # x\n]\n"),
    ],
)
def test_only_the_named_place_changes(text: str, edit: Edit, after: str) -> None:
    assert apply(text, [edit]) == after


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        ("a: &x 1\nb: *x\n", Set(("b",), 2), "b is the alias *x (line 2); edit it as text"),
        ("a: &x 1\nb: *x\n", Set(("a",), 2), "a has the anchor &x (line 1); edit it as text"),
        ("a: &x {c: 1}\nb: *x\n", Set(("a", "c"), 2), "a has the anchor &x (line 1)"),
        ("a: &x {c: 1}\nb: *x\n", Remove(("a",)), "a has the anchor &x (line 1)"),
        ("a: &x {c: 1}\nb:\n  <<: *x\n", Remove(("b", "c")), "b.c comes from a merge key (<<)"),
        ("a: !!map {c: 1}\n", Set(("a", "c"), 2), "a has a tag (line 1)"),
        ("a: 1\na: 2\n", Set(("a",), 3), "mend the text first: :2: a: duplicate key"),
        ("a: 1\n", Remove(("b",)), "there is no b"),
        ("a: 1\n", Set(("a", "b"), 2), "a has no entries: it is a single value"),
        ("a: [1]\n", Set(("a", 2), 2), "there is no a[2]"),
        ("a: [1]\n", Set(("a", "b"), 2), "a is a list"),
        ("a: 1\nb: 2\n", Rename(("a",), "b"), "there is a b already"),
        ("a: 1\n", Insert(("a",), 2), "there is a a already"),
        ("a: 1\n", Insert(("b",), 2, "c"), "there is no c"),
        ("? a\n: 1\n", Set(("a",), 2), "a has no plain key; edit it as text"),
        ("a: [x, # c\n  y]\n", Remove(("a", 0)), "there are comments between the items"),
        ("a: [b: 1]\n", Set(("a", 0, "c"), 2), "a list item has a key without braces"),
        ("a: 1\u2028\n", Set(("a",), 2), "line breaks that are neither LF nor CRLF"),
        ("a: 1\n", Set(("a",), "\ud800"), "half of a surrogate pair"),
        ("a: 1\n", Set(("a",), 10**50), "a: a number with more than 40 digits"),
        ("a: 1\n", Set(("a",), {1: 2}), "a key must be a text"),
        ("a: 1\n", Set(("a",), object()), "a value cannot be of the type object"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(
    text: str, edit: Edit, reason: str
) -> None:
    with pytest.raises(EditRefused, match=re.escape(reason)):
        apply(text, [edit])


def test_a_text_that_is_not_yaml_is_refused_as_by_the_loader() -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        apply("a: [1\n", [Set(("a",), 2)])


def test_setting_a_mapping_or_list_rewrites_its_differing_parts_only() -> None:
    text = "a:\n  b: 1  # b\n  c: [x, y]  # c\n  # d\n  d: 3\n"
    after = apply(text, [Set(("a",), {"b": 1, "c": ["x", "z", "y"], "e": 4})])
    assert after == "a:\n  b: 1  # b\n  c: [x, z, y]  # c\n  e: 4\n"


# Properties over all styles.

KEY = st.text("abcxyz -#:'\"\\{}[],&*!|>%@`?~ü0189\t\n", max_size=8) | st.sampled_from(
    ["on", "null", "<<", "1.5", "-", "---", "2026-01-01"]
)
TEXT = KEY | st.text(max_size=20) | st.lists(KEY, max_size=4).map("\n".join)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | TEXT.filter(lambda text: text.isprintable() or "\n" in text)
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=6,
)


def paths_of(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(found for key, one in entries for found in paths_of(one, (*path, key)))]


@st.composite
def edits(draw: st.DrawFn, tree: dict[str, Any]) -> Edit:
    """An edit that is possible for the values."""
    path = draw(st.sampled_from(paths_of(tree)))
    value: Any = tree
    for part in path:
        value = value[part]
    kinds = ["set", "remove"] if path else []
    kinds += ["insert"] if isinstance(value, (dict, list)) else []
    kinds += ["rename"] if path and isinstance(path[-1], str) else []
    kinds += ["move"] if path and isinstance(path[-1], int) else []
    match draw(st.sampled_from(kinds)):
        case "set":
            return Set(path, draw(VALUE))
        case "remove":
            return Remove(path)
        case "rename":
            return Rename(path, draw(KEY))
        case "move":
            holder: Any = tree
            for part in path[:-1]:
                holder = holder[part]
            return Move(path, draw(st.integers(0, len(holder) - 1)))
        case _ if isinstance(value, list):
            return Insert((*path, draw(st.integers(0, len(value)))), draw(VALUE))
        case _:
            before = draw(st.none() | st.sampled_from([*value])) if value else None
            return Insert((*path, draw(KEY)), draw(VALUE), before)


def window(document: Document, path: KeyPath, total: int) -> tuple[int, int]:
    """First and last line, from 1, that an edit of a path may touch: between the keys around it."""
    own = [place.line for key, place in document.places.items() if key[: len(path)] == path]
    others = [place.line for key, place in document.places.items() if key[: len(path)] != path]
    first, last = min(own), max(own)
    before = max((line for line in others if line < first), default=0)
    after = min((line for line in others if line > last), default=total + 1)
    return (before if before == first else before + 1), after - 1


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"# (?:at|free).*?(?=\r?$)", text, re.MULTILINE))


@settings(max_examples=40, deadline=None)
@given(drawn=st.data())
@pytest.mark.parametrize("style", STYLES)
def test_an_edit_changes_the_values_it_names_and_nothing_else(
    style: str, drawn: st.DataObject
) -> None:
    text = STYLES[style]
    before = parse(text.removeprefix("\ufeff"), "")
    edit = drawn.draw(edits(before.tree))
    try:
        expected = apply_to_data(before.tree, edit)
    except EditRefused:  # the key is there already
        with pytest.raises(EditRefused):
            apply(text, [edit])
        return
    after = edited(text, edit, may_refuse=style in AWKWARD)
    if after is None:
        return
    assert same(data_of(after), expected)
    assert after.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in text) == ("\r\n" in after)
    assert not re.search(r"(?<!\r)\n", after) or "\r\n" not in text

    owned = [
        comment for comment in comments(text) if comment.startswith(f"# at {dotted(edit.path)}")
    ]
    lost = [*comments(text)]
    for comment in comments(after):
        if comment in lost:
            lost.remove(comment)
    assert all(comment in owned for comment in lost), lost
    if isinstance(edit, (Rename, Move)):
        assert not lost

    if isinstance(edit, Set):
        assert apply(after, [edit]) == after
    if isinstance(edit, Set) and style != "anchors":
        lines, new = text.splitlines(keepends=True), after.splitlines(keepends=True)
        first, last = window(before, edit.path, len(lines))
        assert new[: first - 1] == lines[: first - 1]
        assert lines[last:] == (new[len(new) - len(lines) + last :] if last < len(lines) else [])


@settings(max_examples=200, deadline=None)
@given(drawn=st.data(), style=st.sampled_from([*STYLES]))
def test_edits_one_after_another_give_what_each_gives(style: str, drawn: st.DataObject) -> None:
    text, tree, made = STYLES[style], data_of(STYLES[style].removeprefix("\ufeff")), []
    for _ in range(drawn.draw(st.integers(2, 4))):
        edit = drawn.draw(edits(tree))
        try:
            stepped = apply(text, [edit])
        except EditRefused:
            continue
        tree, text = apply_to_data(tree, edit), stepped
        made.append(edit)
        if not tree:
            break
    assert same(data_of(text.removeprefix("\ufeff")), tree)
    assert apply(STYLES[style], made) == text


def test_nan_and_types_are_told_apart() -> None:
    assert same([math.nan], [math.nan])
    assert not same(1, True)
    assert not same([1], [1.0])


def test_a_comment_below_a_value_that_gets_several_lines_stays_a_comment() -> None:
    text = "a: 2  # of a\n  # more\nb: 1\n"
    assert apply(text, [Set(("a",), "x\ny")]) == 'a: "x\\ny"  # of a\n  # more\nb: 1\n'
