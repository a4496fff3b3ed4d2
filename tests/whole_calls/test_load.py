"""Callers for whom there is no room or no agent: what the dialplan and they hear of it."""

from __future__ import annotations

import pytest
import pytest_asyncio

from cordboard.audio.format import SLIN_8K
from cordboard.errors import AgentError, CallRefused

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


class Stillborn:
    """An agent that cannot start."""

    formats = (SLIN_8K,)

    async def start(self, session: object) -> None:
        raise AgentError("the provider refuses us")

    async def close(self) -> None:
        """There is nothing to close."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline):
    """An engine that takes one call at a time."""

    def one_at_a_time(tree):
        tree["calls"]["max_calls"] = 1

    async with open_hotline(one_at_a_time, settled=False) as hotline:
        yield hotline


async def test_a_caller_too_many_hears_the_dialplans_busy(hotline):
    first = await hotline.dial("ctx-demo")
    await first.greeted()
    second = await hotline.dial("careful")
    with pytest.raises(CallRefused) as refusal:
        await second.line.answered()
    assert refusal.value.status == 486, "Busy() in the dialplan"
    assert await hotline.metric("ai_agent_refused_offers_total", reason="busy") == 1
    assert first.line.end is None, "the first has noticed nothing"
    first.line.hangup()
    await hotline.idle()
    third = await hotline.dial("careful")
    await third.greeted()
    third.line.hangup()


async def test_without_an_agent_the_dialplan_has_its_say(hotline, monkeypatch):
    monkeypatch.setattr(hotline.engine._succession, "providers", None)
    caller = await hotline.dial("careful")
    with pytest.raises(CallRefused) as refusal:
        await caller.line.answered()
    assert refusal.value.status == 503, "Congestion() in the dialplan"
    assert await hotline.metric("ai_agent_refused_offers_total", reason="no_agent") == 1


async def test_an_agent_that_cannot_start_is_apologised_for(hotline, monkeypatch):
    monkeypatch.setattr(hotline.engine._succession.providers, "open", lambda *_: Stillborn())
    caller = await hotline.dial("careful")
    await caller.line.hear_speech()
    await caller.line.ended()
    assert "something went wrong on our side" in await caller.heard()
    history = await caller.history()
    assert (history.outcome, history.reason) == ("failed", "agent_failed")


async def test_without_a_voice_for_the_apology_the_dialplan_takes_over(hotline, monkeypatch):
    monkeypatch.setattr(hotline.engine._succession.providers, "open", lambda *_: Stillborn())
    monkeypatch.setattr(type(hotline.engine), "voice", None)
    caller = await hotline.dial("careful")
    assert (await caller.line.ended()).by == "them"
    assert (await caller.history()).reason == "agent_failed"


async def test_an_overloaded_engine_takes_no_new_calls_and_shows_why(hotline, monkeypatch):
    monkeypatch.setattr(hotline.engine._load.degradation, "level", 3)
    caller = await hotline.dial("careful")
    with pytest.raises(CallRefused) as refusal:
        await caller.line.answered()
    assert refusal.value.status == 486
    health = (await hotline.get("/health"))[1]
    assert health["degradation"]["given_up"][-1] == "new calls"
    assert await hotline.metric("ai_agent_refused_offers_total", reason="overloaded") == 1
