"""The command line as a user types it: messages and exit status, no tracebacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "config" / "ai-agent.yaml")


def cordboard(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from cordboard.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


def written(folder: Path, text: str) -> str:
    path = folder / "agent.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["", "run", "demo", "call", "check", "version"])
def test_every_command_explains_itself(name: str) -> None:
    done = cordboard(*name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


def test_check_of_the_demo_file() -> None:
    done = cordboard("check", "-c", DEMO)
    assert (done.returncode, done.stderr) == (0, "")
    assert "in order. Contexts: demo, reception." in done.stdout


def test_check_tells_problems_from_warnings(tmp_path: Path) -> None:
    text = (
        "contexts:\n  demo: {greting: Hi}\n"
        "mcp: {servers: {shop: {command: [no-such-program-at-all]}}}\n"
    )
    done = cordboard("check", "-c", written(tmp_path, text))
    first, second, total = done.stderr.splitlines()
    assert done.returncode == 1
    assert ":2: contexts.demo.greting: unknown key; did you mean greeting?" in first
    assert second.startswith("warning: ")
    assert "no-such-program-at-all" in second
    assert total.endswith("1 problem")


def test_what_is_only_degraded_does_not_fail_the_check(tmp_path: Path) -> None:
    text = "contexts:\n  demo: {greeting: Hi}\nmcp: {servers: {shop: {command: [no-such-thing]}}}\n"
    done = cordboard("check", "-c", written(tmp_path, text))
    assert done.returncode == 0
    assert "warning: " in done.stderr


def test_a_file_without_contexts(tmp_path: Path) -> None:
    done = cordboard("check", "-c", written(tmp_path, "contexts: {}\n"))
    assert done.returncode == 1
    assert "found an empty mapping" in done.stderr


@pytest.mark.parametrize("command", ["run", "demo", "call --say hello", "check"])
def test_a_file_that_is_not_there(command: str) -> None:
    done = cordboard(*command.split(), "-c", "/nowhere/agent.yaml")
    assert done.returncode == 1
    assert "/nowhere/agent.yaml: cannot be read: No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["call"], "nothing to say"),
        (["call", "--say", " "], "--say without words"),
        (["call", "--say", "hello", "--target", "here"], "is not HOST:PORT"),
        (["call", "--say", "hello", "--record", "/nowhere/call.wav"], "there is no folder"),
        (["run", "--log-level", "loud"], "'loud' is none of"),
        (["nonsense"], "No such command"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str) -> None:
    done = cordboard(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_a_context_that_is_not_there() -> None:
    done = cordboard("call", "-c", DEMO, "--say", "hello", "--context", "nowhere")
    assert done.returncode == 1
    assert "there is no context 'nowhere'; known: demo, reception" in done.stderr


def test_a_folder_for_results_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = cordboard("demo", "-c", DEMO, "--output", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "the ledger cannot be written to" in done.stderr
