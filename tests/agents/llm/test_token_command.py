"""Services whose token a command prints: used, kept, renewed, and what happens when it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agents.llm.test_services import Call

from cordboard.agents.making import model_brain
from cordboard.errors import BrainError
from cordboard.net.token_command import TokenCommand
from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.gemini.llm import GeminiWire
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Script

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
async def dialled(command: list[str], key: str) -> AsyncIterator[Call]:
    script = Script((Answer("Hello."), Answer("Bye.")), thinking_ms=1)
    async with OpenAITextEmulator(script, key=key) as emulator:
        told: dict[str, Any] = {"base_url": emulator.url, "token_command": command}
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


async def test_a_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    command = Command(tmp_path, "one")
    tokens = TokenCommand(command.words, 1.0)
    await asyncio.gather(*(tokens.token() for _ in range(5)))
    assert command.runs == 1, "one run for all that wait"
    command.token.write_text("two")
    async with asyncio.timeout(20):
        while await tokens.token() != "token-two":  # noqa: ASYNC110 - the end of a program
            await asyncio.sleep(0.01)
    await tokens.close()


async def test_a_command_is_stopped_with_the_service() -> None:
    forever = [sys.executable, "-c", "import time; time.sleep(600)"]
    tokens = TokenCommand(forever, 600)
    asked = asyncio.create_task(tokens.token())
    await asyncio.sleep(0.2)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await tokens.close()


def test_vertex_has_the_version_in_its_address() -> None:
    url = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"
    settings = GeminiBrain(type="gemini", model="gemini-3.8-flash", base_url=url)
    assert GeminiWire(settings).path == "/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    command = GeminiBrain(type="gemini", token_command=("gcloud", "auth", "print-access-token"))
    assert model_brain(command, {}).problem is None
