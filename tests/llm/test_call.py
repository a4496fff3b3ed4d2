"""A whole telephone call through a real Asterisk: the caller speaks, the model thinks, and the tool
of a real MCP server gives the sentence that the caller hears. It uses config/local_model.yaml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard_testkit.caller_voice import render_script
from cordboard_testkit.simulated_call import PlacedCall, bench, voice_of

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.asterisk, pytest.mark.voices]


def configuration(model_file: Path) -> Config:
    """The example's, with the model's place and the patience of a busy machine."""
    config = load(ROOT / "config/local_model.yaml", os.environ).config
    pipeline = config.providers["local_model"]
    patience = {"wait_ms": 60_000, "first_token_ms": 60_000, "stall_ms": 60_000}
    brain = pipeline.brain.model_copy(update={"model": str(model_file), **patience})
    mended = pipeline.model_copy(update={"brain": brain})
    return config.model_copy(update={"providers": {**config.providers, "local_model": mended}})


async def test_a_call_through_asterisk_is_answered_by_the_model_and_its_tool(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # the example's paths are relative
    async with bench(configuration(model_file), "desk", "sip", tmp_path) as place:
        lines = ["How is the weather in Bergen?", "Thank you. Goodbye."]
        script = await render_script(voice_of(place.engine), lines)
        placed: PlacedCall = await place.place("desk", script, wait_for_hangup=60)
    history = placed.history
    tools = [(tool.name, tool.arguments, tool.status) for tool in history.tools]
    assert ("get_weather", {"icao": "ENBR"}, "ok") in tools
    assert all(exchange.answered_at is not None for exchange in placed.record.exchanges)
    spoken = " ".join(text for who, text in history.transcript() if who == "agent")
    assert "Bergen Flesland" in spoken
    assert "CALL" not in spoken
    assert "{" not in spoken
    assert history.troubles == []
    used = [line for line in placed.ledger if line["type"] == "agent.used"]
    assert {line["provider"] for line in used} == {"gguf"}
