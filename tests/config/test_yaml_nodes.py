"""The quick parser of YAML gives what the careful one gives, or leaves the text to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.config import yaml_document
from cordboard.config.edit.tree import Node, parse_tree
from cordboard.config.yaml_nodes import compose
from cordboard.errors import ConfigError

from .edit.styles import STYLES

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("config/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")])
PIECES = [
    *"ab:-?{}[],\"'#&*!|>%@`=~\t\r\n\x85\ufeffé😀",
    *(
        " ",
        "  ",
        "\n  ",
        "\n    ",
        ": ",
        "- ",
        "? ",
        ", ",
        " # c",
        "|-\n  t",
        ">+\n  t",
        "&x ",
        "*x",
    ),
    *(
        "!t ",
        "!!str ",
        "<<: ",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "\r\n",
        "\\n",
        "\\/",
        "\\x41",
        "null",
    ),
    *("yes", "on", "0x1F", "010", "0o7", "1_000", ".inf", "1:30", "2001-01-01", "${X}", '"a":1'),
    *("http://a:1/b", "a: b\n", "- x\n", "k: |\n  t\n", "\u2028"),
]
LINES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
TEXTS = st.one_of(
    LINES,
    LINES.map("k: {}\nz: 1\n".format),
    LINES.map("k: [{}]\n".format),
    LINES.map(lambda inside: f"k: {{{inside}}}\n"),
)


def read(text: str) -> Any:
    """All that a text says, or the reason for which it is refused."""
    try:
        document, root = parse_tree(text, "file")
    except ConfigError as error:
        return error.problems
    return document.tree, document.places, document.problems, written(root)


def written(node: Node) -> Any:
    entries = [
        (each.key and written(each.key), written(each.value), each.start, each.indicator)
        for each in node.entries
    ]
    own = (node.kind, node.start, node.end, node.style, node.value, node.anchor, node.tagged)
    return own, entries


def same_for_both(text: str) -> None:
    quick = repr(read(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_document, "compose", lambda *_: None)
        assert quick == repr(read(text))


def is_quick(text: str) -> bool:
    return compose(text, yaml_document.MAX_VALUES, yaml_document.MAX_DEPTH) is not None


@given(TEXTS)
@example("k:\nz: 1\n")
@example("k: !\nz: 1\n")
@example('k: ["a":1]\n')
@example("k: {? }\n")
@example("&a: b\n")
@example("a: >#\n")
@example("a: 1\n...\n...\n")
@example("---\n")
@example("a: *b\n")
@example("a: &b [*b]\nc: *b\n")
def test_any_text_is_read_alike(text: str) -> None:
    same_for_both(text)


@pytest.mark.parametrize("name", STYLES)
def test_all_styles_are_read_alike(name: str) -> None:
    same_for_both(STYLES[name])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_files_that_come_with_it_are_read_quickly_and_alike(file: Path) -> None:
    text = file.read_text("utf-8")
    assert is_quick(text)
    same_for_both(text)


def test_the_limits_are_those_of_the_careful_parser() -> None:
    deep = "a: " + "[" * yaml_document.MAX_DEPTH + "]" * yaml_document.MAX_DEPTH
    many = "a: [" + "1," * yaml_document.MAX_VALUES + "]"
    for text in (deep, many, "a: " + "[" * 20_000):
        assert not is_quick(text)
        with pytest.raises(ConfigError):
            parse_tree(text, "file")
