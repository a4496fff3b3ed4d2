"""The generated documentation of the configuration, and the configuration that ships."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cordboard.config.load import load
from cordboard.config.patterns import PATTERNS_IN_WORDS
from cordboard.config.reference import reference
from cordboard.config.shape import Shape

REPOSITORY = Path(__file__).parents[2]


def test_the_committed_page_is_current() -> None:
    committed = (REPOSITORY / "docs" / "configuration.md").read_text("utf-8")
    assert committed == reference(), (
        "write it again: python -m cordboard.config.reference > docs/configuration.md"
    )


def test_the_page_names_the_keys_that_others_build_on() -> None:
    page = reference()
    for heading in ("health", "asterisk", "audiosocket", "providers.<name>", "contexts.<name>"):
        assert f"### `{heading}`" in page
    assert (
        "| `port` | a whole number from 0 to 65535 | `15000` | TCP port; 0 = any free one. |"
        in page
    )
    assert "| `password` | a text, secret | **required** |" in page


def test_every_link_leads_to_a_heading() -> None:
    page = reference()
    headings = {
        "".join(letter for letter in line.lower() if letter.isalnum() or letter in "_-")
        for line in page.splitlines()
        if line.startswith("### ")
    }
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert links
    assert links <= headings


def _keys(path: str, shape: Shape, seen: frozenset[str]) -> Iterator[tuple[str, Shape]]:
    for name, inner in shape.keys().items():
        here = f"{path}.{name}"
        yield here, inner
        yield from _keys(here, inner, seen)
    entry = shape.entry()
    if entry is not None:
        yield from _keys(f"{path}.*", entry[1], seen)


def test_every_key_outside_the_rules_is_described() -> None:
    undescribed = [
        path
        for path, shape in _keys("", Shape.of_file(), frozenset())
        if not shape.description and ".rules." not in path
    ]
    assert undescribed == []


def test_no_pattern_is_shown_to_a_person() -> None:
    assert "of the form" not in reference()
    assert all(words.startswith(("a ", "an ")) for words in PATTERNS_IN_WORDS.values())


def test_the_configuration_that_ships_has_no_problem() -> None:
    loaded = load(REPOSITORY / "config" / "ai-agent.yaml", {"PATH": "/usr/bin:/bin"})
    assert loaded.problems == ()
    assert loaded.config.default_context == "demo"
