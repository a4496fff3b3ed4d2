"""The images take calls: built by their Dockerfiles and run as compose.yaml says, without a daemon.

`scripts/image` builds and runs them (its docstring says what differs from docker). The first build
fetches Debian packages and unpacks wheels into the cache; `make setup` does it beforehand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAMESPACES = "unshare --user --map-root-user --mount --net --pid".split()
NAMESPACES += "--fork --kill-child --mount-proc".split()
pytestmark = pytest.mark.voices


def output_of(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{command[0]}: status {done.returncode}\n{done.stderr[-40_000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def images() -> dict[str, str]:
    tool = ROOT / "scripts" / "image"
    found = subprocess.run([sys.executable, tool, "missing"], stdout=-1, text=True, check=False)
    if found.returncode:
        pytest.skip(f"not tried, {found.stdout.strip()} (docs/container.md)")
    return {
        "engine": output_of(sys.executable, tool, "build", ROOT),
        "asterisk": output_of(sys.executable, tool, "build", ROOT / "docker" / "asterisk"),
    }


def scene(name: str, images: dict[str, str], folder: Path) -> dict[str, Any]:
    site, var = folder / "site", folder / "var"
    var.mkdir()
    output_of(ROOT / "docker" / "prepare", site)
    stage = Path(__file__).with_name("container_stage.py")
    arguments = (sys.executable, stage, name, json.dumps(images), str(site), str(var))
    facts: dict[str, Any] = json.loads(output_of(*NAMESPACES, *arguments))
    return facts


def all_shut(rights: dict[str, str]) -> None:
    assert rights.pop("NoNewPrivs") == "1"
    assert {int(held, 16) for held in rights.values()} == {0}, rights


def test_the_image_answers_a_caller_with_nothing_writable_and_no_rights(
    images: dict[str, str], tmp_path: Path
) -> None:
    seen = scene("alone", images, tmp_path)
    assert seen["call"] == 0, seen["said"]
    assert [line["context"] for line in seen["ledger"] if "context" in line] == ["reception"]
    all_shut(seen["rights"])
    assert seen["uid"] == "10001"
    assert seen["written"] == ["/app/var", "/tmp"]
    assert seen["stopped"] == 0


def test_compose_brings_up_asterisk_and_engine_and_a_dialled_extension_is_greeted(
    images: dict[str, str], tmp_path: Path
) -> None:
    seen = scene("together", images, tmp_path)
    offered, ended = seen["ledger"][0], seen["ledger"][-1]
    assert (offered["type"], offered["source"]) == ("call.offered", "asterisk")
    assert (ended["type"], ended["outcome"]) == ("call.ended", "completed")
    assert "PASSWORD" not in seen["asterisk_environment"]
    assert "ai_agent_active_calls" in seen["metrics"]
    assert json.loads(seen["live"])["active_calls"], "the admin token opens /health"
    all_shut(seen["rights"])
    all_shut(seen["doors"]["rights"])
    assert seen["doors"]["written"] == ["/app/var", "/tmp"]
    assert seen["stopped"] == [0, 0]
