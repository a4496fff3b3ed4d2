"""Nobody is left in silence, whoever is silent: on a real line, with an engine of its own."""

from __future__ import annotations

import pytest

from cordboard.calls.events import ToolCalled

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_nobody_is_left_in_silence(open_hotline):
    """A tool that never answers is bridged; a caller who says nothing is asked, then let go."""

    def change(tree):
        tree["contexts"]["orders"]["silence"] = {
            "caller_after_ms": 2_500,
            "reprompts": ["Are you still there?"],
            "goodbye": "Then I hang up. Goodbye.",
        }
        tree["mcp"]["servers"]["orders"]["defaults"] = {"timeout_ms": 4_000}

    async with open_hotline(change) as hotline:
        caller = await hotline.dial("ctx-orders")
        await caller.greeted_to_the_end()
        asked_at = await caller.say("Please check my order.")
        filler_at = await caller.line.hear_speech(20, after=asked_at)
        await caller.event(ToolCalled)
        assert (await caller.line.ended(40)).by == "them"
        history = await caller.history()
        heard = await caller.heard(since=filler_at)

    [turn] = history.caller_turns
    assert turn.filled
    assert turn.latency["total_ms"] < 1_400, "1200, and room for a busy machine"
    assert turn.answer_ms > 4_000
    assert (history.outcome, history.reason) == ("completed", "caller_silent")
    assert [silence.kind for silence in history.silences] == ["filler", "reprompt", "goodbye"]
    for words in ("one moment", "still there", "goodbye"):
        assert words in heard, heard
