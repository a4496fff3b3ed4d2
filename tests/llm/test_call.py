"""A whole telephone call through a real Asterisk: the caller speaks, the model thinks, and the tool
of a real MCP server gives the sentence that the caller hears. It uses config/local_model.yaml."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cordboard.config.load import load
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard_testkit.caller_voice import render_script
from cordboard_testkit.simulated_call import bench, voice_of

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.asterisk, pytest.mark.voices]


def configuration(model_file: Path) -> Config:
    """The example's, with the model's place and the patience of a busy machine."""
    config = load(ROOT / "config/local_model.yaml", os.environ).config
    pipeline, desk = config.providers["local_model"], config.contexts["desk"]
    assert isinstance(pipeline, PipelineProvider)
    patience = dict.fromkeys(("wait_ms", "first_token_ms", "stall_ms"), 60_000)
    changed = {"model": str(model_file), "n_threads": 1, **patience}
    model = pipeline.model_copy(update={"brain": pipeline.brain.model_copy(update=changed)})
    silence = desk.silence.model_copy(update={"agent_after_ms": 60_000})
    return config.model_copy(
        update={
            "providers": {**config.providers, "local_model": model},
            "contexts": {"desk": desk.model_copy(update={"silence": silence})},
        }
    )


async def tools_read(logged: list[EventDict]) -> None:
    """Until the model has read the tools, which come when their server has started."""

    def read() -> bool:
        names = [entry["event"] for entry in logged]
        ready = names.index("mcp_server_ready") if "mcp_server_ready" in names else len(names)
        return any(e["event"] == "gguf_read_ahead" and e["tokens"] > 100 for e in logged[ready:])

    async with asyncio.timeout(300):
        while not read():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.05)


async def test_a_call_through_asterisk_is_answered_by_the_model_and_its_tool(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # the example's paths are relative
    with capture_logs() as logged:
        async with bench(configuration(model_file), "desk", "sip", tmp_path) as place:
            await tools_read(logged)
            lines = ["How is the weather in Bergen?", "Thank you. Goodbye."]
            script = await render_script(voice_of(place.engine), lines)
            placed = await place.place("desk", script, wait_for_hangup=60)
    history = placed.history
    assert history.troubles == []
    tools = [(tool.name, tool.arguments, tool.status) for tool in history.tools]
    assert tools[0] == ("get_weather", {"icao": "ENBR"}, "ok")
    assert all(exchange.answered_at is not None for exchange in placed.record.exchanges)
    spoken = " ".join(text for who, text in history.transcript() if who == "agent")
    assert "Bergen Flesland" in spoken
    assert not any(sign in spoken for sign in ("CALL", "{", "_"))
    used = [line for line in placed.ledger if line["type"] == "agent.used"]
    assert {line["provider"] for line in used} == {"gguf"}
