"""A call that goes on in a second engine: real speech on a real AudioSocket connection, both times.

The first engine is asked something and its ledger is taken away in the middle of the answer, as if
it had been killed; the caller's second connection stands for the channel that Asterisk has kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.call_registry import Aside, CallRegistry
from cordboard.calls.history import CallHistory, find, read_lines
from cordboard.calls.offer import Offer, ResumedCall
from cordboard.calls.resumption import whole_lines
from cordboard.config.load import read
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.caller_voice import render_script
from cordboard_testkit.patience import until
from cordboard_testkit.simulated_call import Bench, bench, voice_of

HOURS = "We are open from nine to five on all days of the week, and on Sundays too."
CONTEXT: dict[str, Any] = {
    "greeting": "Order desk.",
    "tools": ["hangup_call"],
    "recording": {"enabled": True},
    "silence": {"filler_after_ms": 0},  # a busy machine is slow
    "rules": {
        "intents": {
            "opening_times": {
                "sentences": ["[please] [tell me] [what are] [the|your] opening times"],
                "say": HOURS,
            }
        }
    },
}


def lines_of(directory: Path, call_id: str) -> list[dict[str, Any]]:
    path = find(directory, call_id)
    return [] if path is None else [dict(line) for line in read_lines(path)]


@asynccontextmanager
async def called(place: Bench) -> AsyncIterator[SimulatedCaller]:
    async with SimulatedCaller("127.0.0.1", place.engine.audiosocket_port) as caller:
        yield caller


@pytest.mark.voices
async def test_the_caller_goes_on_in_a_second_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {"contexts": {"desk": CONTEXT}, "mcp": {"lock": "off"}}
    config = read(json.dumps(tree), tmp_path / "ai-agent.yaml", {}).config
    first, second = tmp_path / "first", tmp_path / "second"
    async with (
        bench(config, "desk", "audiosocket", first, sheds_load=False) as place,
        called(place) as caller,
    ):
        (question,) = await render_script(voice_of(place.engine), ["What are your opening times?"])
        await caller.hear_speech()
        await caller.hear_silence()
        caller.say(question.sound)
        asked_at = await caller.said()
        await caller.hear_speech(after=asked_at)
        call_id, _ = place.offered[-1]
        path = find(first, call_id)
        assert path is not None
        content = await asyncio.to_thread(path.read_bytes)
        await asyncio.to_thread(caller.stop_speaking)
    kept = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    lost = ResumedCall(whole_lines(kept), "a-1", 2, "desk")
    offer = CallRegistry.offer

    def go_on(registry: CallRegistry, given: Offer, aside: Aside | None = None) -> None:
        offer(registry, replace(given, call_id=call_id, resumed=lost), aside)

    monkeypatch.setattr(CallRegistry, "offer", go_on)

    def spoken(times: int) -> bool:
        """True if the second engine has spoken to the end so often."""
        kinds = [line["type"] for line in lines_of(second, call_id)]
        adopted = kinds.index("call.adopted") if "call.adopted" in kinds else len(kinds)
        return kinds[adopted:].count("agent.audio_ended") >= times

    async with (
        bench(config, "desk", "audiosocket", second, sheds_load=False) as place,
        called(place) as caller,
    ):
        await until(lambda: spoken(1))
        await caller.hear_silence()
        caller.say(question.sound)
        await caller.said()
        await until(lambda: spoken(2))
        await caller.hear_silence()
        caller.hangup()
        await place.engine.calls_recorded()
    lines = lines_of(second, call_id)
    history = CallHistory.from_lines(lines)
    kinds = [line["type"] for line in lines]
    assert (kinds.count("call.offered"), kinds.count("call.adopted")) == (1, 1)
    assert (history.outcome, len(history.adopted)) == ("completed", 1)
    said = history.transcript()
    greeting, asked, resumed, again, answer = [text for _, text in said]
    assert [who for who, _ in said] == ["agent", "caller", "agent", "caller", "agent"]
    assert greeting == "Order desk."
    assert "opening times" in asked.lower()
    assert "the line dropped for a moment. You said:" in resumed
    assert "opening times" in again.lower()
    assert answer == HOURS
    assert [turn.number for turn in history.caller_turns] == [1, 2]
    parts = [Path(each.path).name for each in history.recordings]
    assert parts == [f"{call_id}.wav", f"{call_id}-2.wav"]
    assert (second / lines[0]["started_at"][:10] / parts[1]).is_file()
