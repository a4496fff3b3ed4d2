"""The caller of a test call: waits for the greeting, speaks, waits for the answer, hangs up."""

from __future__ import annotations

from typing import Any

from cordboard.audio.format import SLIN_8K
from cordboard.telephony.scripted_caller import (
    ANSWER_MS,
    GREETING_MS,
    LONGEST_MS,
    PAUSE_MS,
    ScriptedCaller,
)

WORDS = b"\1\2" * 8 * 300
"""300 ms."""
SECOND = b"\3\4" * 8 * 1000


class Clock:
    """A pacer that a test winds on."""

    def __init__(self) -> None:
        self.outlets: list[Any] = []

    def register(self, outlet: Any, on_failed: Any = None) -> None:
        self.outlets.append(outlet)

    def unregister(self, outlet: Any) -> None:
        if outlet in self.outlets:
            self.outlets.remove(outlet)


class Agent:
    """The engine's side of the call."""

    def __init__(self, caller: ScriptedCaller) -> None:
        self.caller = caller
        self.heard: list[bytes] = []
        self.ended: list[str] = []
        caller.on_audio(self.heard.append)
        caller.on_closed(self.ended.append)

    def wait(self, ms: int) -> bytes:
        """Let the time pass; return what the caller has said in it."""
        self.heard.clear()
        for _ in range(ms // 20):
            self.caller.tick(1)
        return b"".join(self.heard).strip(b"\0")


async def called(words: bytes = WORDS) -> tuple[Agent, Clock]:
    clock: Any = Clock()
    caller = ScriptedCaller(clock, words)
    offer = caller.offer("desk")
    assert (offer.variables["AI_CONTEXT"], offer.test is not None) == ("desk", True)
    await offer.media((SLIN_8K,))
    return Agent(caller), clock


async def test_it_speaks_after_the_greeting_and_hangs_up_after_the_answer() -> None:
    agent, clock = await called()
    agent.caller.write(SECOND)
    assert agent.wait(1_000 + PAUSE_MS) == b""
    assert agent.wait(320) == WORDS
    assert agent.wait(ANSWER_MS - 100) == b""
    agent.caller.write(SECOND)
    agent.wait(900)
    agent.caller.write(SECOND)  # a second sentence follows at once
    agent.wait(1_100 + PAUSE_MS - 40)
    assert agent.ended == []
    agent.wait(40)
    assert agent.ended == ["caller_hangup"]
    assert agent.caller.heard_ms == 3_000
    assert clock.outlets == []


async def test_it_does_not_wait_for_ever_for_an_agent_without_a_word() -> None:
    agent, _ = await called()
    assert agent.wait(GREETING_MS) == b""
    assert agent.wait(320) == WORDS
    agent.wait(ANSWER_MS)
    assert agent.ended == ["caller_hangup"]


async def test_without_a_voice_it_hears_the_greeting_only() -> None:
    agent, _ = await called(b"")
    agent.caller.write(SECOND)
    assert agent.wait(1_000 + PAUSE_MS) == b""
    assert agent.ended == ["caller_hangup"]


async def test_it_hangs_up_on_an_agent_that_talks_on() -> None:
    agent, _ = await called()
    agent.caller.write(SECOND * 200)
    agent.wait(LONGEST_MS)
    assert agent.ended == ["caller_hangup"]


async def test_an_agent_that_hangs_up_ends_it() -> None:
    agent, clock = await called()
    await agent.caller.hangup()
    await agent.caller.release()
    assert clock.outlets == []
