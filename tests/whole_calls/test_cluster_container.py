"""deploy/compose takes calls: its services started as the file says, without a daemon.

`scripts/image` builds and runs the images of this repository (`test_container`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_container import NAMESPACES, images, output_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.voices
assert images  # the fixture


def test_a_call_goes_on_in_another_engine_of_the_deployment(
    images: dict[str, str], tmp_path: Path
) -> None:
    site, folder = tmp_path / "site", tmp_path / "stage"
    folder.mkdir()
    output_of(ROOT / "docker" / "prepare", "--cluster", site)
    stage = Path(__file__).with_name("cluster_stage.py")
    arguments = (sys.executable, stage, json.dumps(images), str(site), str(folder))
    seen: dict[str, Any] = json.loads(output_of(*NAMESPACES, *arguments))
    replicas = {name: stream["replicas"] for name, stream in seen["streams"].items()}
    made = {"KV_cordboard_leases", "KV_cordboard_calls", "cordboard_events"}
    assert made <= replicas.keys()
    assert set(replicas.values()) == {3}, replicas
    offered, ended = seen["first"]["ledger"][0], seen["first"]["ledger"][-1]
    assert (offered["type"], offered["source"]) == ("call.offered", "asterisk")
    assert (ended["type"], ended["outcome"]) == ("call.ended", "completed")
    assert seen["first"]["index"] == [[offered["call_id"]]]
    assert seen["second"]["ledger"][-1]["outcome"] == "completed"
    assert seen["engines"] == 1, "at its Asterisk"
    assert set(seen["stopped"].values()) == {0}, seen["stopped"]
    assert len(seen["stopped"]) == 4
