"""The generated documentation of the configuration, and the configuration that ships."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordboard.config.load import load
from cordboard.config.patterns import PATTERNS_IN_WORDS
from cordboard.config.reference import reference
from cordboard.config.shape import Shape

REPOSITORY = Path(__file__).parents[2]


FOLDER = REPOSITORY / "docs" / "configuration"
PAGES = reference()
"""The generated pages: text by file name."""


def test_the_committed_pages_are_current() -> None:
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    written_by_hand = committed.pop("README.md")
    assert committed == PAGES, (
        "write them again: python -m cordboard.config.reference docs/configuration"
    )
    assert [name for name in PAGES if f"]({name})" not in written_by_hand] == []


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("engine.md", "health"),
        ("telephony.md", "asterisk"),
        ("telephony.md", "audiosocket"),
        ("providers.md", "providers.<name>"),
        ("provider-pipeline.md", "providers.<name>(type:pipeline)"),
        ("provider-elevenlabs-agent.md", "providers.<name>.tts"),
        ("pipeline-tts.md", "providers.<name>.tts"),
        ("contexts.md", "contexts.<name>"),
        ("rules.md", "contexts.<name>.rules"),
    ],
)
def test_a_section_is_on_the_page_of_its_concern(page: str, heading: str) -> None:
    assert f"\n## `{heading}`\n" in PAGES[page]


def test_the_pages_name_the_keys_that_others_build_on() -> None:
    assert (
        "| `port` | a whole number from 0 to 65535 | `15000` | TCP port; 0 = any free one. |"
        in PAGES["engine.md"]
    )
    assert "| `password` | a text, secret | **required** |" in PAGES["telephony.md"]


def test_every_provider_and_every_part_of_a_pipeline_has_its_page() -> None:
    for kind in Shape.of_file().keys()["providers"].entry()[1].kinds():
        assert f"provider-{kind.replace('_', '-')}.md" in PAGES
    assert {"pipeline-stt.md", "pipeline-brain.md", "pipeline-tts.md"} <= PAGES.keys()


def test_no_heading_stands_twice_on_a_page() -> None:
    for name, page in PAGES.items():
        headings = [line for line in page.splitlines() if line.startswith("#")]
        assert len(headings) == len(set(headings)), name


def test_every_link_leads_to_a_heading() -> None:
    anchors = {
        name: {
            "".join(letter for letter in line.lower() if letter.isalnum() or letter in "_-")
            for line in page.splitlines()
            if line.startswith("## ")
        }
        for name, page in PAGES.items()
    }
    links = {
        (page or name, anchor)
        for name, text in PAGES.items()
        for page, anchor in re.findall(r"\]\(([a-z-]*(?:\.md)?)#([^)]*)\)", text)
        if f"../{page}" not in text
    }
    assert links
    assert {link for link in links if link[1] not in anchors[link[0]]} == set()


def test_no_table_is_empty() -> None:
    for name, page in PAGES.items():
        assert "|---|---|---|---|\n\n" not in page, name


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
    assert not any("of the form" in page for page in PAGES.values())
    assert all(words.startswith(("a ", "an ")) for words in PATTERNS_IN_WORDS.values())


def test_the_configuration_that_ships_has_no_problem() -> None:
    loaded = load(REPOSITORY / "config" / "ai-agent.yaml", {"PATH": "/usr/bin:/bin"})
    assert loaded.problems == ()
    assert loaded.config.default_context == "demo"
