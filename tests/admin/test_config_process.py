"""The process that checks configurations: results, errors, ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordboard.admin import config_checks as checks
from cordboard.admin.config_process import ConfigFile, ConfigProcess, Desk
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.errors import ConfigError, RequestRefused
from cordboard_testkit.patience import PATIENCE

TEXT = """\
providers: {local: {type: pipeline}}
contexts: {desk: {provider: local, greeting: "Good ${DAY}."}}
default_context: desk
"""
ENVIRON = {"DAY": "morning"}


def pid(desk: Desk) -> int:
    return os.getpid()


def garbage(desk: Desk) -> tuple[bool, int]:
    """Whether a collection may interrupt a check, and how many objects each one looks at."""
    return gc.isenabled(), len(gc.get_objects())


def place(desk: Desk) -> tuple[int, set[str]]:
    return os.nice(0), set(os.environ)


def end(desk: Desk) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(desk: Desk) -> None:
    signal.pause()


def fail(desk: Desk) -> None:
    raise ZeroDivisionError("a defect")


def note_and_hang(desk: Desk, notes: str) -> None:
    with Path(notes).open("a") as file:
        file.write("began\n")
    signal.pause()


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    path = tmp_path / "engine.yaml"
    path.write_text(TEXT)
    return ConfigFile(path, tmp_path / "versions")


@pytest.fixture
def running(file: ConfigFile) -> Config:
    return load(file.path, ENVIRON).config


@pytest.fixture(autouse=True)
def _finds_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process imports the functions of this file by their module's name."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.fixture
def process(file: ConfigFile) -> Iterator[ConfigProcess]:
    process = ConfigProcess(file)
    yield process
    process.close()


def test_a_verdict_is_that_of_the_engine_and_errors_keep_their_places(
    process: ConfigProcess, running: Config, file: ConfigFile
) -> None:
    draft = TEXT.replace("Good", "Nice")
    answer = process.run(running, ENVIRON, checks.checked_draft, draft, "", may_publish=True)
    assert b'"changes":[{"key":"contexts.desk.greeting","takes_effect":"now"}]' in answer
    without = process.run(running, {}, checks.checked_draft, draft, "", may_publish=True)
    assert b'"in_order":false' in without  # the values of this request, not of the one before
    file.path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as raised:
        process.run(running, ENVIRON, checks.tree)
    assert raised.value.problems[0].file == str(file.path)


def test_it_is_one_quiet_process_without_the_secrets_of_the_engine(
    process: ConfigProcess, running: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never")
    niceness, names = process.run(running, ENVIRON, place)
    assert niceness > os.nice(0)
    assert "OPENAI_API_KEY" not in names
    assert process.run(running, ENVIRON, pid) == process.run(running, ENVIRON, pid) != os.getpid()


def test_a_defect_is_raised_with_the_place_in_the_process(
    process: ConfigProcess, running: Config
) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        process.run(running, ENVIRON, fail)
    assert "in fail" in raised.value.__notes__[0]
    assert process.run(running, ENVIRON, pid)


def test_a_process_that_was_killed_is_started_again(
    process: ConfigProcess, running: Config
) -> None:
    first = process.run(running, ENVIRON, pid)
    os.kill(first, signal.SIGKILL)
    assert process.run(running, ENVIRON, pid) != first
    with pytest.raises(RequestRefused) as raised:  # twice, by the work itself
        process.run(running, ENVIRON, end)
    assert (raised.value.status, raised.value.code) == (503, "busy")
    assert process.run(running, ENVIRON, pid)


def test_work_that_does_not_end_is_given_up_with_its_process(
    file: ConfigFile, running: Config
) -> None:
    process = ConfigProcess(file, longest_seconds=300)
    first = process.run(running, ENVIRON, pid)
    process.longest_seconds = 0.05
    with pytest.raises(RequestRefused):
        process.run(running, ENVIRON, hang)
    process.longest_seconds = 300
    assert process.run(running, ENVIRON, pid) != first
    process.close()
    process.close()


def test_its_end_does_not_wait_for_work_at_hand_nor_does_that_begin_again(
    file: ConfigFile, running: Config, tmp_path: Path
) -> None:
    process, notes = ConfigProcess(file, longest_seconds=PATIENCE), tmp_path / "notes"
    notes.touch()
    refused: list[int] = []

    def work() -> None:
        with pytest.raises(RequestRefused) as raised:
            process.run(running, ENVIRON, note_and_hang, str(notes))
        refused.append(raised.value.status)

    thread = threading.Thread(target=work)
    thread.start()
    while not notes.read_text():
        time.sleep(0.01)
    process.close()
    thread.join(PATIENCE)
    assert (refused, notes.read_text()) == ([503], "began\n")


def test_it_ends_with_the_engine(process: ConfigProcess, running: Config) -> None:
    child = process.run(running, ENVIRON, pid)
    process._connection.close()  # as when the engine is killed
    started: subprocess.Popen[bytes] = process._process
    assert (started.pid, started.wait(timeout=300)) == (child, 0)


def test_no_collection_of_garbage_interrupts_a_check(
    process: ConfigProcess, running: Config
) -> None:
    process.run(running, ENVIRON, checks.checked_draft, TEXT, "", may_publish=True)
    process.run(running, ENVIRON, garbage)  # brings this module, and what it imports
    interrupts, objects = process.run(running, ENVIRON, garbage)
    assert not interrupts
    assert objects < 10_000, "modules are looked at again, or garbage stays"
