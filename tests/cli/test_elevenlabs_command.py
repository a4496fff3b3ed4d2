"""`cordboard elevenlabs sync`, with an emulated service in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cordboard_testkit.emulators.elevenlabs.agent import KEY, ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import PERMITS_NOTHING, new_agent

from .commands import typed

ENVIRONMENT = {"ELEVENLABS_API_KEY": KEY}


@pytest.fixture(scope="module")
def running() -> Iterator[ElevenLabsEmulator]:
    agent = new_agent("agent_1", sound="pcm_16000", permits=PERMITS_NOTHING)
    service = ElevenLabsEmulator(agent=agent)
    up, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with service:
            up.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    up.wait(10)
    yield service
    loop.call_soon_threadsafe(over.set)
    thread.join(10)
    loop.close()


@pytest.fixture
def service(running: ElevenLabsEmulator) -> ElevenLabsEmulator:
    """The agent as it was at first."""
    agent = new_agent("agent_1", sound="pcm_16000", permits=PERMITS_NOTHING)
    running.workspace.agents["agent_1"] = agent
    running.workspace.tools.clear()
    running.violations.clear()
    return running


@pytest.fixture
def file(tmp_path: Path, service: ElevenLabsEmulator) -> str:
    config: dict[str, Any] = {
        "default_provider": "eleven",
        "providers": {
            "eleven": {
                "type": "elevenlabs_agent",
                "agent_id": "agent_1",
                "base_url": service.url,
            },
            "other": {"type": "pipeline"},
        },
        "contexts": {
            "sales": {"prompt": "Sell.", "greeting": "Hello.", "tools": ["find", "hangup_call"]},
            "help": {"prompt": "Help {caller_name}.", "tools": ["find"]},
            "offline": {"provider": "other", "tools": ["look"]},
        },
        "tools": {
            name: {
                "kind": "http",
                "url": "https://example.com/{name}",
                "parameters": {"name": {"type": "string", "description": "Whose."}},
                "description": "Find it.",
            }
            for name in ("find", "look")
        },
    }
    path = tmp_path / "agent.yaml"
    path.write_text(json.dumps(config))
    return str(path)


def test_it_shows_then_writes_then_has_nothing_to_do(
    file: str, service: ElevenLabsEmulator
) -> None:
    command = ("elevenlabs", "sync", "eleven", "--config", file)
    shown = typed(*command, "--dry-run", **ENVIRONMENT)
    assert shown.status == 0, shown.err
    assert "+ tool find" in shown.out
    assert "+ tool hangup_call" in shown.out
    assert "tool look" not in shown.out  # no context of this provider has it
    assert "pcm_16000 -> ulaw_8000" in shown.out
    assert "nothing was written" in shown.out
    assert service.workspace.tools == {}

    done = typed(*command, **ENVIRONMENT)
    assert done.status == 0, done.err
    assert "written, and read back" in done.out
    assert done.err == ""
    assert set(service.workspace.client_tools("agent_1")) == {"find", "hangup_call"}

    again = typed(*command, **ENVIRONMENT)
    assert "nothing is to be done" in again.out
    assert "2 tools are as they should be" in again.out

    one = typed(*command, "--context", "help", **ENVIRONMENT)
    assert "nothing is to be done" in one.out
    assert len(service.workspace.tools) == 2
    assert KEY not in shown.out + done.out + again.out
    assert service.violations == []


def test_texts_are_written_when_one_context_is_named(
    file: str, service: ElevenLabsEmulator
) -> None:
    command = ("elevenlabs", "sync", "eleven", "-c", file, "--prompt", "--first-message")
    assert "the texts of which context?" in typed(*command, **ENVIRONMENT).err
    variables = typed(*command, "-C", "help", **ENVIRONMENT)
    assert variables.status == 2
    assert "caller_name" in variables.err
    done = typed(*command, "-C", "sales", **ENVIRONMENT)
    assert done.status == 0, done.err
    agent = service.workspace.agents["agent_1"]["conversation_config"]["agent"]
    assert agent["first_message"] == "Hello."
    assert agent["prompt"]["prompt"].startswith("Sell.\n\n")


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["eleven"], {"ELEVENLABS_API_KEY": "xi-wrong"}, "does not accept the key"),
        (["eleven"], {"ELEVENLABS_API_KEY": ""}, "set ELEVENLABS_API_KEY"),
        (["other"], ENVIRONMENT, "no provider 'other' is of type elevenlabs_agent; known: eleven"),
        (["eleven", "-C", "nobody"], ENVIRONMENT, "there is no context 'nobody'"),
    ],
)
def test_what_is_wrong_is_one_message(
    file: str, arguments: list[str], environment: dict[str, str], told: str
) -> None:
    done = typed("elevenlabs", "sync", *arguments, "--config", file, **environment)
    assert done.status == 1
    assert told in done.err
    assert "Traceback" not in done.err
    assert "xi-wrong" not in done.err + done.out
