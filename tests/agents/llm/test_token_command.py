"""Services whose token a command prints: used, kept, renewed, and what happens when it fails."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.agents.llm.test_services import Call

from cordboard.agents.llm.http_model import HttpModel
from cordboard.agents.making import model_brain
from cordboard.errors import BrainError
from cordboard.net import token_command
from cordboard.net.failures import RequestFailed
from cordboard.net.token_command import TokenCommand
from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.gemini.llm import GeminiWire
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Script
from cordboard_testkit.patience import until

PRINTS = """
import pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print("token-" + pathlib.Path(sys.argv[2]).read_text())
"""


class Command:
    """A command that counts its runs and prints the token in a file."""

    def __init__(self, folder: Path, token: str = "one") -> None:
        self._runs, self.token = folder / "runs", folder / "token"
        self.token.write_text(token)
        self.words = [sys.executable, "-c", PRINTS, str(self._runs), str(self.token)]

    @property
    def runs(self) -> int:
        return len(self._runs.read_text()) if self._runs.exists() else 0


@asynccontextmanager
async def dialled(command: list[str], key: str, **more: Any) -> AsyncIterator[Call]:
    script = Script((Answer("Hello."), Answer("Bye.")), thinking_ms=1)
    async with OpenAITextEmulator(script, key=key) as emulator:
        told: dict[str, Any] = {"base_url": emulator.url, "token_command": command, **more}
        brain = model_brain(OpenAIChatBrain(type="openai_chat", **told), {})
        try:
            yield Call(brain, emulator)
        finally:
            await brain.close()


async def test_the_token_is_the_key_and_is_kept(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with dialled(command.words, "token-one") as call:
        assert await call.say("hi") == "Hello."
        assert await call.say("bye") == "Bye."
        assert call.emulator.violations == []
        assert command.runs == 1


async def test_a_refused_token_is_fetched_anew(tmp_path: Path) -> None:
    command = Command(tmp_path, "old")
    tokens = TokenCommand(command.words, 600)
    assert await tokens.token() == "token-old"
    async with dialled(command.words, "token-new") as call:
        with pytest.raises(BrainError) as failure:
            await call.say("hi")
        assert failure.value.kind == "auth"
        assert "does not accept the key" in str(failure.value)
        command.token.write_text("new")
        assert await call.say("hi again") != ""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "the token command /no/such/program cannot be started"),
        ([sys.executable, "-c", "import sys; sys.exit('not logged in')"], "failed (1): not logged"),
        ([sys.executable, "-c", "print('two words')"], "did not print a token"),
        ([sys.executable, "-c", ""], "did not print a token"),
    ],
)
async def test_a_command_that_fails_says_so(command: list[str], words: str) -> None:
    async with dialled(command, "k") as call:
        with pytest.raises(BrainError) as failure:
            await call.say("hi")
        assert failure.value.kind == "auth"
        assert words in str(failure.value)
        assert call.emulator.asked == []


async def test_a_command_that_fails_is_not_run_again_while_the_caller_waits(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    async with dialled(["sh", "-c", f"echo x >> {runs}; exit 1"], "k") as call:
        with pytest.raises(BrainError, match="failed"):
            await call.say("hi")
        assert runs.read_text().count("x") <= 2, "once for the connection, once for the answer"


async def test_a_slow_command_is_waited_for_as_long_as_a_first_word_and_goes_on(
    tmp_path: Path,
) -> None:
    go, words = tmp_path / "go", "while ! test -e $0; do sleep 0.05; done; echo token"
    async with dialled(["sh", "-c", words, str(go)], "token", first_token_ms=2_000) as call:
        with pytest.raises(BrainError) as failure:
            await call.say("hi")
        assert failure.value.kind == "stalled"
        go.touch()
        assert await call.say("hi") == "Hello."


def test_a_key_of_the_environment_is_not_sent_besides_a_token() -> None:
    settings = GeminiBrain(type="gemini", token_command=("gcloud", "auth", "print-access-token"))
    model = HttpModel(GeminiWire(settings), settings, "the-key")
    assert "the-key" not in repr(model._http._headers)


async def test_a_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    command = Command(tmp_path, "one")
    tokens = TokenCommand(command.words, 1.0)
    await asyncio.gather(*(tokens.token() for _ in range(5)))
    assert command.runs == 1, "one run for all that wait"
    command.token.write_text("two")
    async with asyncio.timeout(60):
        while await tokens.token() != "token-two":  # noqa: ASYNC110 - the end of a program
            await asyncio.sleep(0.01)
    await tokens.close()


def processes_with(mark: str) -> list[str]:
    """The processes that have an argument `mark`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "cmdline").read_text().split("\0"):
                found.append(folder.name)
    return found


async def gone(mark: str) -> None:
    """Wait until the killed processes have left the table."""
    async with asyncio.timeout(60):
        while processes_with(mark):  # noqa: ASYNC110 - the end of a program
            await asyncio.sleep(0.01)


async def started(mark: str) -> None:
    """Wait for the program and its child."""
    async with asyncio.timeout(60):
        while len(processes_with(mark)) < 2:  # noqa: ASYNC110 - the start of a program
            await asyncio.sleep(0.01)


CHILD = 'import sys, time; print("ready", file=sys.stderr, flush=True); time.sleep(600)'
WRAPPER = f"{sys.executable} -c '{CHILD}' $1; echo token"


async def test_a_running_command_is_killed_with_its_children_at_the_end() -> None:
    tokens = TokenCommand(["sh", "-c", WRAPPER, "sh", mark := f"mark-{uuid4()}"], 600)
    asked = asyncio.create_task(tokens.token())
    await started(mark)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await tokens.close()
    await gone(mark)


async def test_a_command_that_is_given_up_as_it_starts_leaves_no_child() -> None:
    mark = f"mark-{uuid4()}"
    for steps in range(12):  # of the event loop, until it is given up
        tokens = TokenCommand(["sh", "-c", WRAPPER, "sh", mark], 600)
        asked = asyncio.create_task(tokens.token())
        for _ in range(steps):
            await asyncio.sleep(0)
        asked.cancel()
        await tokens.close()
    await gone(mark)


async def test_a_child_that_keeps_the_output_open_delays_no_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_command, "RUN_SECONDS", 0.5)
    tokens = TokenCommand(["sh", "-c", WRAPPER, "sh", mark := f"mark-{uuid4()}"], 600)
    async with asyncio.timeout(60):
        with pytest.raises(RequestFailed, match="not ended within"):
            await tokens.token()
    await gone(mark)


async def test_endless_output_is_not_collected() -> None:
    code = "import fcntl, os; fcntl.fcntl(1, 1031, 1 << 20)\nwhile 1: os.write(1, bytes(99999))"
    endless = [sys.executable, "-c", code]  # 1031: F_SETPIPE_SZ, so that much waits to be read
    before = open_pipes()
    with pytest.raises(RequestFailed, match="prints too much") as failure:
        await TokenCommand(endless, 600).token()
    left = [pipe for pipe in open_pipes() if all(pipe is not known for known in before)]
    assert not left, failure  # whose traceback keeps them


def open_pipes() -> list[asyncio.ReadTransport]:
    """By their type: isinstance asks a weak proxy for its class, which may be of a dead object."""
    return [
        value
        for value in gc.get_objects()
        if issubclass(type(value), asyncio.ReadTransport) and not value.is_closing()
    ]


def test_vertex_has_the_version_in_its_address() -> None:
    url = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"
    settings = GeminiBrain(type="gemini", model="gemini-3.8-flash", base_url=url)
    assert GeminiWire(settings).path == "/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    command = GeminiBrain(type="gemini", token_command=("gcloud", "auth", "print-access-token"))
    assert model_brain(command, {}).problem is None


async def test_a_command_that_hangs_is_stopped_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The started one holds the outputs open: otherwise the call would wait for it. The time gets
    longer until it is enough for a shell to start."""
    started = tmp_path / "started"
    script = f"sleep 600 & echo $! > {started}; wait; echo token"
    for seconds in (2.0, 8.0, 30.0):
        monkeypatch.setattr(token_command, "RUN_SECONDS", seconds)
        async with asyncio.timeout(60):
            with pytest.raises(RequestFailed, match="has not ended within"):
                await TokenCommand(("sh", "-c", script), 60).token()
        if started.exists() and started.read_text().strip():
            break
    process = Path("/proc", started.read_text().strip(), "stat")

    def lives() -> bool:
        try:
            return process.read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    await until(lambda: not lives(), "the end of the process")
