"""`cordboard run` as a program of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cordboard.testing.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def test_sighup_reloads_the_file_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path, log = tmp_path / "ai-agent.yaml", tmp_path / "log"
    tree: dict[str, Any] = {
        "contexts": {"demo": {}},
        "health": {"port": 0},
        "audiosocket": {"port": 0},
        "calls": {"directory": str(tmp_path / "calls")},
        "reload": {"watch": False},
    }
    path.write_text(json.dumps(tree))
    command = [sys.executable, "-m", "cordboard", "run", "--log-json", "-c", str(path)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output, cwd=ROOT) as program:
        try:
            _logged(log, "engine_ready")
            path.write_text("contexts:\n  demo: {greetin: x}\n")
            program.send_signal(signal.SIGHUP)
            refused = _logged(log, "reload_refused")
            assert (refused["why"], refused["level"]) == ("SIGHUP", "error")
            assert f"{path}:2: contexts.demo.greetin: unknown key" in refused["problems"][0]
            path.write_text(json.dumps({**tree, "contexts": {"demo": {"greeting": "New."}}}))
            program.send_signal(signal.SIGHUP)
            reloaded = _logged(log, "reloaded")
            assert (reloaded["generation"], reloaded["changed"]) == (2, ["contexts.demo.greeting"])
            program.send_signal(signal.SIGTERM)
            assert program.wait(PATIENCE) == 0
        finally:
            program.kill()


def _logged(log: Path, event: str) -> dict[str, Any]:
    """The first line of that event, once it is there."""

    def found() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    _until(lambda: found() != [], log)
    return found()[0]


def _until(reached: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
