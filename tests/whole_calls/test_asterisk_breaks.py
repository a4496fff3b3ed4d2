"""Asterisk restarts under a live engine; the sound of a call never comes."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_asterisk_is_killed_under_a_live_call_and_comes_back(open_hotline):
    async with open_hotline() as hotline:
        caller = await hotline.dial("ctx-orders")
        await caller.greeted()
        await hotline.asterisk.kill()
        history = await caller.history()
        assert (history.outcome, history.reason) == ("failed", "asterisk_lost")
        await hotline.ready(False)
        status, ready = await hotline.get("/ready")
        assert status == 503
        assert not ready["components"]["ari"]["ready"]
        assert ready["components"]["ari"]["detail"], "it says why"
        assert ready["components"]["media"]["ready"]
        assert (await hotline.get("/live"))[0] == 200
        assert (await hotline.get("/health"))[1]["active_calls"] == []
        outcome = {"context": "orders", "provider": "local", "outcome": "failed"}
        assert await hotline.metric("ai_agent_calls_total", **outcome) == 1

        await hotline.asterisk.start()
        await hotline.ready()
        caller.line.hangup()
        again = await hotline.dial("ctx-orders")
        await again.greeted_to_the_end()
        began = await again.ask("What are the opening times?")
        assert "runway" in (await again.heard(since=began)).replace(" ", "")
        again.line.hangup()
        assert (await again.history()).outcome == "completed"


async def listen_only(reader, writer):
    await reader.read()
    writer.close()


async def test_media_that_nobody_takes_or_that_never_comes_ends_the_call(open_hotline):
    """Asterisk is told an address at which nothing listens; then somebody does who takes the
    connection and does nothing. Both name the setting to look at."""

    def elsewhere(tree):
        tree["audiosocket"] |= {"advertise_host": "127.0.0.2", "connect_timeout_ms": 700}

    async def fails(hotline):
        caller = await hotline.dial("ctx-orders")
        assert (await caller.line.ended()).by == "them"
        history = await caller.history()
        assert (history.outcome, history.reason) == ("failed", "media_failed")
        assert "audiosocket.advertise_host" in history.troubles[0]
        await hotline.idle()
        assert await hotline.metric("ai_agent_active_calls") == 0

    async with open_hotline(elsewhere, settled=False) as hotline:
        await fails(hotline)
        port = hotline.engine.audiosocket_port
        async with await asyncio.start_server(listen_only, "127.0.0.2", port):
            await fails(hotline)
