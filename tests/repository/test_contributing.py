"""What the pages for contributors and maintainers say can be done as they say it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md", "docs/tutorial.md")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOOKS: list[dict[str, Any]] = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")["repos"]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", path.read_text())
    assert links
    for target, anchor in links:
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_the_targets_of_make_are_there(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = re.findall(r"(?:^ *|`)make ([a-z-]+)", (ROOT / page).read_text(), re.M)
    assert set(named) <= targets


def test_hooks_are_local_programs() -> None:
    """Nothing is fetched from a host to check a commit."""
    assert [entry["repo"] for entry in HOOKS] == ["local"]
    for hook in HOOKS[0]["hooks"]:
        assert hook["language"] == "system"
        assert re.match(r"\.venv/bin/(ruff|lint-imports) ", hook["entry"])
    assert "://" not in (ROOT / ".pre-commit-config.yaml").read_text()


def test_every_newer_python_may_try() -> None:
    """Resolvers read an upper bound as never."""
    specifiers = SpecifierSet(PROJECT["requires-python"])
    assert {specifier.operator for specifier in specifiers} == {">="}


def test_the_pythons_that_are_promised_are_those_that_are_tried() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    for path in ("scripts/test-pythons", ".ci/run"):
        tried = set(re.findall(r"\b3\.1\d\b", (ROOT / path).read_text()))
        assert set(promised) <= tried, path


@pytest.mark.parametrize(
    ("pythons", "settings", "status", "row"),
    [
        ("3.99", {}, 1, r"3\.99 .* not on this machine"),
        ("3.99", {"PYTHONS_MISSING": "report"}, 0, r"3\.99 .* not on this machine"),
        ("3.99", {"PYTHONS_MISSING": "fail"}, 1, r"3\.99 .* not on this machine"),
        ("/no/such/python", {"PYTHONS_MISSING": "report"}, 0, r"/no/such/python .* not on this"),
        (
            sys.executable,
            {"PYTHONS_MISSING": "report", "PYTHONS_SECONDS": "-5"},
            0,
            r"3\.\d+\.\d+ .* not run: no time left",
        ),
    ],
)
def test_a_python_that_was_not_tried_is_in_the_table(
    pythons: str, settings: dict[str, str], status: int, row: str, tmp_path: Path
) -> None:
    settings = {"PYTHONS": pythons, "CORDBOARD_CACHE": str(tmp_path), **settings}
    done = subprocess.run(
        ["scripts/test-pythons"],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("PYTHONS")}, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert re.search(row, done.stdout), done.stdout
    assert done.returncode == status
    assert "no tests were run" in done.stderr
