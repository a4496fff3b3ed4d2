"""YAML as Cordboard reads it: plain values, their lines, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.explain import inner_path
from cordboard.config.yaml_document import dotted, parse
from cordboard.errors import ConfigError


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "a.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_every_key_and_item_has_its_line() -> None:
    document = parse("# head\na: 1\nb:\n  - x\n  -\n    c: 2\nd: |\n  text\n", "a.yaml")
    assert document.tree == {"a": 1, "b": ["x", {"c": 2}], "d": "text\n"}
    assert document.line(("a",)) == 2
    assert document.line(("b", 0)) == 4
    assert document.line(("b", 1, "c")) == 6
    assert document.line(("d",)) == 7


def test_what_is_not_there_has_the_line_of_what_surrounds_it() -> None:
    document = parse("# head\na:\n  b: 1\n", "a.yaml")
    assert document.line(("a", "missing", "deeper")) == 2
    assert document.line(("missing",)) == 2


def test_it_is_yaml_1_2() -> None:
    text = (
        "a: yes\nb: on\nc: true\nd: 0o17\ne: 010\nf: 12:30:00\ng: 1e3\nh: ~\ni: 0x1F\nj: -1_000\n"
    )
    assert parse(text, "a.yaml").tree == {
        "a": "yes",
        "b": "on",
        "c": True,
        "d": 15,
        "e": 10,
        "f": "12:30:00",
        "g": 1000.0,
        "h": None,
        "i": 31,
        "j": -1000,
    }


def test_keys_and_dates_are_texts_as_written() -> None:
    tree = parse("0049123: a\ntrue: b\n1.50: c\nd: 2026-01-02\n", "a.yaml").tree
    assert tree == {"0049123": "a", "true": "b", "1.50": "c", "d": "2026-01-02"}


def test_aliases_and_merge_keys_work_and_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\nd: {<<: [*a, {z: 4, x: 9}]}\n"
    document = parse(text, "a.yaml")
    assert document.tree["b"] == {"x": 1, "y": 3}
    assert document.tree["c"] == {"x": 1, "y": 2}
    assert document.tree["d"] == {"x": 1, "y": 2, "z": 4}
    assert document.line(("b", "y")) == 4


def test_all_duplicate_keys_are_found_at_once_and_no_value_is_shown() -> None:
    document = parse("a: hunter2\nb: {c: 1, c: 2}\na: hunter3\n", "a.yaml")
    assert [str(problem) for problem in document.problems] == [
        "a.yaml:2: b.c: duplicate key; it is already in line 2",
        "a.yaml:3: a: duplicate key; it is already in line 1",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.yaml:1: the file is empty; expected at least `contexts:` with one context"),
        ("# only\n", "a.yaml:1: the file is empty; expected at least `contexts:` with one context"),
        ("- a\n", "a.yaml:1: expected a mapping (`key: value` lines), found a list"),
        ("\nhello\n", "a.yaml:2: expected a mapping (`key: value` lines), found a single value"),
        (
            "a: 1\n\tb: 2\n",
            "a.yaml:2: not valid YAML: found character '\\t' that cannot start any token"
            " (while scanning for the next token)",
        ),
        (
            "a: 'x\n\n\n",
            "a.yaml:4: not valid YAML: found unexpected end of stream"
            " (while scanning a quoted scalar that begins in line 1)",
        ),
        (
            "env: {T: ${T}}\n",
            "a.yaml:1: not valid YAML: expected ',' or '}', but got '{' (while parsing a flow"
            " mapping); inside { } or [ ], write a ${VARIABLE} in quotes",
        ),
        ("a: *b\n", "a.yaml:1: not valid YAML: found undefined alias 'b'"),
        (
            "a: 1\n---\nb: 2\n",
            "a.yaml:2: not valid YAML: but found another document"
            " (expected a single document in the stream that begins in line 1)",
        ),
        ("a: 1\nb: \x01\n", "a.yaml:2: not valid YAML: the character U+0001 is not allowed"),
        ("a: " + "[" * 1000, "a.yaml:1: nested more than 50 deep"),
    ],
)
def test_what_is_not_yaml_is_one_clear_message(text: str, message: str) -> None:
    assert refused(text) == [message]


def test_tags_and_cycles_are_problems() -> None:
    document = parse("a: !!python/object:os.system ls\nb: &b [1, *b]\nc: !!int x\n", "a.yaml")
    assert [str(problem) for problem in document.problems] == [
        "a.yaml:1: a: the YAML tag tag:yaml.org,2002:python/object:os.system does not fit here;"
        " leave it out",
        "a.yaml:2: b[1]: an alias that contains itself",
        "a.yaml:3: c: the YAML tag tag:yaml.org,2002:int does not fit here; leave it out",
    ]


def test_aliases_that_multiply_each_other_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    assert "more than 50,000 keys and values (aliases in aliases)" in refused("\n".join(lines))[0]


PATHS = st.lists(st.from_regex(r"[a-z_]{1,5}", fullmatch=True) | st.integers(0, 99), min_size=1)


@given(PATHS)
def test_a_dotted_key_says_the_way(path: list[str | int]) -> None:
    assert inner_path(dotted(tuple(path))) == tuple(path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text("ab: #'\"\n{}[]$é", max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abc-:", min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, min_size=1))
def test_json_is_read_as_it_is(tree: dict[str, object]) -> None:
    document = parse(json.dumps(tree, ensure_ascii=False), "a.yaml")
    assert document.tree == tree
    assert document.problems == []
