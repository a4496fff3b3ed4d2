"""Every relative link of the pages leads to a file or heading that exists.

Anchors are made as code hosts make them from headings; `make docs` makes them the same way.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for place in ("*.md", "docs/**/*.md", "examples/**/*.md", "testkit/*.md")
    for path in ROOT.glob(place)
)
FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FROM_ELSEWHERE = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.M)
IN_HTML = re.compile(r"(?:src|href)=\"([^\"]+)\"")
MENTION = re.compile(r"(?<![\w/-])docs/[\w./-]*\w\.(?:md|json|svg)\b")
FOLDERS_OF_TEXT = ("src", "testkit", "tests", "scripts", "examples", "config", "docker", "bench")


def text_of(page: Path) -> str:
    """The page without its code."""
    return re.sub(r"`[^`\n]*`", "``", FENCED.sub("", page.read_text("utf-8")))


def links_of(page: Path) -> list[str]:
    """Every link of the page, but addresses of other hosts."""
    text = text_of(page)
    found = [*LINK.findall(text), *FROM_ELSEWHERE.findall(text), *IN_HTML.findall(text)]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchor(heading: str) -> str:
    """The anchor of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors_of(page: Path) -> list[str]:
    text = FENCED.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return [*map(anchor, headings), *re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)]


def broken(page: Path, link: str) -> str:
    """The reason why a link is broken; empty if it leads somewhere."""
    path, _, place = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT):
        return "outside of the repository"
    if not target.exists():
        return "no such file"
    if place and target.suffix == ".md":
        times = anchors_of(target).count(place)
        return "" if times == 1 else f"{times} headings with that anchor"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    problems = {link: broken(page, link) for link in links_of(page)}
    assert {link: why for link, why in problems.items() if why} == {}


def test_every_page_that_a_file_names_is_there() -> None:
    files = [
        path
        for folder in FOLDERS_OF_TEXT
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml", ".sh", ".toml", ".ini", ""} and path.is_file()
    ]
    files += [ROOT / name for name in ("Makefile", "Dockerfile", "compose.yaml", "pyproject.toml")]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in MENTION.findall(path.read_text("utf-8", errors="replace"))
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")}
    named = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    assert len(named) == len(set(named))
    of_the_root = {"start.md", "changelog.md", "contributing.md", "security.md"}
    assert set(named) - of_the_root == pages


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    seen, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        for link in links_of(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in seen:
                seen.add(target)
                waiting.append(target)
    assert set(ROOT.glob("docs/**/*.md")) - seen == set()


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("#nowhere", "0 headings with that anchor"),
        ("nowhere.md", "no such file"),
        ("architecture.md#nowhere", "0 headings with that anchor"),
        ("../../../etc/passwd", "outside of the repository"),
        ("architecture.md", ""),
    ],
)
def test_a_broken_link_is_found(link: str, why: str) -> None:
    assert broken(ROOT / "docs" / "README.md", link) == why


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("`providers.<name>(type:openai_realtime)`", "providersnametypeopenai_realtime"),
        ("What is fatal, and what is degraded", "what-is-fatal-and-what-is-degraded"),
        ("A [linked](x.md) word - here", "a-linked-word---here"),
    ],
)
def test_anchors_are_those_of_code_hosts(heading: str, expected: str) -> None:
    assert anchor(heading) == expected
