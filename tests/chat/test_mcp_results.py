"""What a model and a caller get of an MCP server's results: whole chats with the SDK's server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Script, Use

from .conftest import Parlour, read, words

SECRET = "sesame-4711-open"
SERVER = {
    "command": [sys.executable, str(Path(__file__).with_name("mcp_result_server.py"))],
    "env": {"SECRET": SECRET},
}


async def told(parlour: Parlour, tool: str, **settings: Any) -> dict[str, Any]:
    """Ask a model that wants this tool; return the result as it gets it, and check the words."""
    name = f"mcp_s_{tool}"
    script = Script((Answer(asks=(Use(name),)),), thinking_ms=1)
    async with OpenAITextEmulator(script) as emulator:
        brain = {"type": "openai_chat", "api_key": "test-key", "base_url": emulator.url}
        sessions = await parlour.open(
            None,
            providers={"cloud": {"type": "pipeline", "brain": brain}},
            contexts={"demo": {"prompt": "Be kind.", "provider": "cloud", "tools": [name]}},
            mcp={"servers": {"s": {**SERVER, **settings}}},
        )
        session, answer = sessions.begin("demo", "please", {})
        spoken = words(await read(answer))
        await session.end("completed", "caller_hangup")
        assert emulator.violations == []
        result: dict[str, Any] = orjson.loads(emulator.asked[-1]["messages"][-1]["content"])
        assert spoken == result["message"], "the emulated model repeats the message"
        return result


@pytest.mark.parametrize(
    ("tool", "message", "data"),
    [
        (
            "manual",
            "I found the manual.",
            {
                "text": "I found the manual.",
                "resources": [{"uri": "file:///manual.txt", "text": "Press the red button."}],
                "links": [
                    {"uri": "https://a.test/full", "name": "full", "description": "All pages."}
                ],
            },
        ),
        (
            "document",
            "Open from nine.",
            {"resources": [{"uri": "file:///hours.txt", "text": "Open from nine."}]},
        ),
        (
            "picture",
            "The answer is a picture and a sound, which I cannot give you on the phone.",
            {"not_text": ["a picture (image/png)", "a sound (audio/wav)"]},
        ),
        ("nothing", "I found nothing.", {"result": None}),
    ],
)
async def test_all_content_reaches_the_model(
    parlour: Parlour, tool: str, message: str, data: dict[str, Any]
) -> None:
    result = await told(parlour, tool)
    assert result["status"] == "ok"
    assert result["message"] == message
    assert result["data"] == data


async def test_the_words_of_a_protocol_error_reach_the_model(parlour: Parlour) -> None:
    result = await told(parlour, "explodes")
    assert result["status"] == "error"
    assert result["message"] == "Sorry, that service gave an answer I cannot use."
    error = result["data"]["error"]
    assert error.startswith("it answered with error -32602: backend exploded with ***")
    assert SECRET not in error
    assert len(error) < 600


async def test_an_operator_may_keep_errors_back(parlour: Parlour) -> None:
    result = await told(parlour, "explodes", defaults={"speak_errors": False})
    assert "data" not in result
