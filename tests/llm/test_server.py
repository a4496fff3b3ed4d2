"""The same model behind llama.cpp's own server, by `brain: openai_chat` with a `base_url`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import xllamacpp

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.making import model_brain
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIChatBrain

WEATHER = ToolSpec(
    "get_weather",
    "http",
    "Gets the current weather of a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def server(model_file: Path) -> Iterator[str]:
    """Its address."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model_file)
    params.n_ctx = 4_096
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.verbosity = -1
    running = xllamacpp.Server(params)
    yield f"{running.listening_address}/v1"
    del running


async def test_it_talks_and_calls_tools(server: str) -> None:
    asked: list[tuple[str, JsonObject]] = []

    async def ask(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        asked.append((name, arguments))
        return ToolReply("1", name, Status.OK, "In Bergen it rains, 9 degrees.")

    brain = model_brain(
        OpenAIChatBrain(
            type="openai_chat",
            base_url=server,
            model="local",
            temperature=0,
            max_tokens=120,
            eager=False,
            spoken_style="",
            speak_results=True,
            first_token_ms=120_000,
            stall_ms=120_000,
        ),
        {},
    )
    dialogue = brain.open(DialogueSession("You are a weather desk.", (WEATHER,), ask))
    spoken = [sentence async for sentence in dialogue.respond("How is the weather in Bergen?")]
    await brain.close()
    assert asked == [("get_weather", {"city": "Bergen"})], spoken
    assert spoken[-1] == "In Bergen it rains, 9 degrees."
    assert not any(sign in sentence for sentence in spoken for sign in "{}<>_`")
