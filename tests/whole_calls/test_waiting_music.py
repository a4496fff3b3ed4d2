"""A caller who waits for a slow tool hears Asterisk's music, and then every word of the answer."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytest

from cordboard.calls.events import MusicBegan, MusicEnded, ToolAnswered
from cordboard_testkit.leaks import assert_line_clean

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


def music_soon(tree: dict[str, Any]) -> None:
    """The order takes 6 s; without music there would be silence."""
    desk = deepcopy(tree["contexts"]["orders"])
    desk["rules"]["intents"]["place_order"]["arguments"] = {"seconds": 6}
    desk["silence"] = {"filler_after_ms": 0, "music_after_ms": 1_500}
    tree["contexts"]["orders"] = desk


async def test_music_until_the_tool_answers_and_then_its_words(open_hotline, asterisk):
    async with open_hotline(music_soon) as hotline:
        caller = await hotline.dial("ctx-orders")
        await caller.greeted_to_the_end()
        await caller.say("Please place my order.")
        assert (await caller.event(MusicBegan)).music == "default"
        began = await caller.line.hear_speech()
        assert (await caller.event(ToolAnswered)).message == "At last."
        assert (await caller.event(MusicEnded)).played_ms > 2_000
        over = time.monotonic()
        assert over - began > 2, "the music was not heard"
        await caller.listen()
        assert (await caller.heard(since=over)).lower().strip(" .!") == "at last"
        caller.line.hangup()
        history = await caller.history()
        assert history.troubles == []
        await hotline.idle()
        await assert_line_clean(asterisk)
