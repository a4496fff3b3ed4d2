from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from cordboard.errors import McpCommandMissing, McpError
from cordboard.mcp.stdio.process import Launch, ServerProcess, child_environment, resolve
from cordboard.mcp.stdio.stderr import StderrTail

NOWHERE = {"PATH": "/nonexistent"}


def test_our_own_modules_run_in_our_own_interpreter() -> None:
    command = ["python3", "-m", "cordboard.mcp_servers.aviation_atis", "--config", "x.yaml"]
    assert resolve(command, {"PATH": os.environ["PATH"]}) == [sys.executable, *command[1:]]
    assert resolve(["python", "-u", *command[1:]], NOWHERE)[0] == sys.executable


def test_other_python_programs_run_where_path_says(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert resolve(["python3", "-m", "other"], {"PATH": str(tmp_path)})[0] == str(python)
    assert resolve(["python3", "-m", "other"], NOWHERE)[0] == sys.executable


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_a_missing_program_is_named(program: str) -> None:
    with pytest.raises(McpCommandMissing, match=program):
        resolve([program], NOWHERE)


async def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(McpCommandMissing, match="gone"):
        await ServerProcess.spawn(Launch((sys.executable,), cwd=tmp_path / "gone"))


async def test_a_text_that_no_system_takes_is_an_error_of_ours() -> None:
    with pytest.raises(McpError):
        await ServerProcess.spawn(Launch((sys.executable, "a\0b")))


def our_children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def test_a_start_cancelled_at_any_moment_leaves_no_process() -> None:
    others = our_children()  # of earlier tests; none of our business
    for steps in range(12):
        spawning = asyncio.create_task(ServerProcess.spawn(Launch(("sleep", "60"))))
        for _ in range(steps):
            await asyncio.sleep(0)
        spawning.cancel()
        try:
            process = await spawning
        except asyncio.CancelledError:
            pass
        else:
            await process.stop(0)
        assert our_children() <= others


def test_the_environment_is_a_minimum_and_what_was_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "ASTERISK_ARI_PASSWORD", "HTTPS_PROXY", "PYTHONPATH"):
        monkeypatch.setenv(name, "ours")
    for name in ("LANG", "LC_TIME", "TZ", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, f"the {name}")
    environment = child_environment({"TOKEN": "declared", "TZ": "declared too"})
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["LC_TIME"] == "the LC_TIME"
    assert (environment["TOKEN"], environment["TZ"]) == ("declared", "declared too")
    assert "ours" not in environment.values()


def test_stderr_keeps_the_end_and_masks_secrets() -> None:
    tail = StderrTail("s", ["hunter2-token"], clock=lambda: 0.0)
    for number in range(1_000):
        tail.feed(f"line {number} hunter2-token\n".encode())
    assert len(tail.lines) == 200
    assert tail.lines[-1] == "line 999 ***"
    tail.feed(b"\xff\xfe broken\n")
    assert "broken" in tail.lines[-1]


def test_stderr_is_bounded_in_bytes_too() -> None:
    tail = StderrTail("s", clock=lambda: 0.0)
    for _ in range(300):
        tail.feed(b"x" * 4_000 + b"\n")
    assert 0 < sum(len(line) for line in tail.lines) <= 64 * 1024


def test_of_a_flood_on_stderr_only_the_end_is_looked_at() -> None:
    tail = StderrTail("s", ["hunter2-token"], clock=lambda: 0.0)
    tail.feed(b"half a li")
    tail.feed(b"".join(b"line %d\n" % number for number in range(50_000)) + b"hunter2")
    tail.feed(b"-token\nend\n")
    assert len(tail.lines) == 200
    assert tail.lines[-3:] == ("line 49999", "***", "end")
    assert tail.lines[0] == "line 49802"


def test_stderr_is_shown_without_control_characters() -> None:
    tail = StderrTail("s", clock=lambda: 0.0)
    tail.feed(b"\x1b[2Jwiped\x07 \xe2\x80\xaegnp\n")
    assert tail.lines == (" [2Jwiped   gnp",)
