"""A caller who waits for a slow tool hears Asterisk's music, and then every word of the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.events import MusicBegan, MusicEnded, ToolAnswered
from cordboard_testkit.leaks import assert_line_clean

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


def music_soon(gate: Path) -> Callable[[dict[str, Any]], None]:
    """The order takes until the file `gate` is there; without music there would be silence."""

    def change(tree: dict[str, Any]) -> None:
        desk = deepcopy(tree["contexts"]["orders"])
        desk["rules"]["intents"]["place_order"]["arguments"] = {"path": str(gate)}
        desk["silence"] = {"filler_after_ms": 0, "music_after_ms": 1_500}
        tree["contexts"]["orders"] = desk
        for tool in tree["mcp"]["servers"]["orders"]["tools"]:
            if tool["expose_as"] == "place_order":
                tool["name"] = "waits_for_file"

    return change


async def test_music_until_the_tool_answers_and_then_its_words(open_hotline, asterisk, tmp_path):
    gate = tmp_path / "gate"
    async with open_hotline(music_soon(gate)) as hotline:
        caller = await hotline.dial("ctx-orders")
        await caller.greeted_to_the_end()
        await caller.say("Please place my order.")
        assert (await caller.event(MusicBegan)).music == "default"
        began = await caller.line.hear_speech()
        await asyncio.sleep(2.2)
        gate.touch()
        assert (await caller.event(ToolAnswered)).message == "It is there."
        assert (await caller.event(MusicEnded)).played_ms > 2_000
        over = time.monotonic()
        assert over - began > 2, "the music was not heard"
        await caller.listen()
        assert (await caller.heard(since=over)).lower().strip(" .!") == "it is there"
        caller.line.hangup()
        history = await caller.history()
        assert history.troubles == []
        await hotline.idle()
        await assert_line_clean(asterisk)
