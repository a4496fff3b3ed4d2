"""A stranger who reads all that the engine tells and connects as fast as they can gets no call."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.echo_agent import EchoEngine

from cordboard.calls.history import CallHistory, ledgers, read
from cordboard.config.schema import Config
from cordboard.runtime.engine import Engine
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.late_asterisk import LateAsterisk, LateCall, late_connections
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.stranger import Stranger

from .conftest import until

pytestmark = pytest.mark.usefixtures("lent_models")
ELSEWHERE = "127.0.0.2"
"""Also this machine: where Asterisk connects to be held back."""


def delays(most: float = 0.5) -> Iterator[float]:
    chance = random.Random(13)
    while True:
        yield chance.uniform(0, most)


@contextlib.asynccontextmanager
async def echoing(
    folder: Path, asterisk: dict[str, Any], **audiosocket: Any
) -> AsyncIterator[Engine]:
    """An engine whose agents send back what they hear, and that does not mind a busy machine."""
    config = Config.model_validate(
        {
            "health": {"port": 0},
            "audiosocket": {"port": 0, "connect_timeout_ms": 20_000, **audiosocket},
            "asterisk": asterisk,
            "calls": {"directory": str(folder)},
            "contexts": {"demo": {}},
        }
    )
    engine = EchoEngine(config, sheds_load=False)
    await engine.start()
    try:
        assert await engine.line_ready(60)
        yield engine
    finally:
        await engine.stop(grace=0)


def histories(folder: Path) -> list[CallHistory]:
    return [read(path) for path in ledgers(folder)]


@pytest.mark.parametrize("bare", [False, True], ids=["bare calls shut", "bare calls open"])
async def test_fifty_late_calls_reach_themselves_and_no_stranger_one(
    tmp_path: Path, bare: bool
) -> None:
    context = {"context": "demo", "max_calls": 2, "calls_per_minute": 5} if bare else {}
    async with (
        LateAsterisk(delays()) as asterisk,
        echoing(tmp_path, {"url": asterisk.url, "password": "x"}, **context) as engine,
        Stranger("127.0.0.1", engine.audiosocket_port, engine.http_port) as stranger,
    ):
        for _ in range(5):
            calls = [await asterisk.call() for _ in range(10)]
            assert all(await asyncio.gather(*map(LateCall.reached_itself, calls)))
            await asyncio.gather(*map(LateCall.hang_up, calls))
        await engine.registry.idle()
        await engine.calls_recorded()
        turned_away = engine.doors.audiosocket.turned_away
    spoils = stranger.spoils
    assert spoils.attempts > 50, "the stranger was there"
    told = histories(tmp_path)
    by_ari = [history for history in told if history.source == "asterisk"]
    assert [history.reason for history in by_ari] == ["caller_hangup"] * 50
    if bare:  # an open door is one: they talk to agents of their own, as few as they may
        assert len(spoils.heard) <= len(told) - 50
    else:
        assert spoils.heard == []
        assert len(told) == 50
    assert turned_away["used_uuid"] == turned_away["late_uuid"] == 0, "no UUID was ever found"


async def test_calls_through_asterisk_reach_themselves_and_no_stranger_one(
    asterisk: AsteriskInstance, tmp_path: Path
) -> None:
    port = free_port()
    ari = {
        "url": asterisk.ari_url,
        "username": asterisk.ari_user,
        "password": asterisk.ari_password,
        "app": asterisk.app,
    }
    async with (
        late_connections(delays(), ELSEWHERE, port, "127.0.0.1"),
        echoing(tmp_path, ari, port=port, advertise_host=ELSEWHERE) as engine,
        Stranger("127.0.0.1", port, engine.http_port, together=8) as stranger,
        SipPhone() as phone,
    ):
        for _ in range(5):
            call = await phone.call(asterisk.sip_uri("agent"))
            await call.answered()
            await until(lambda: any(c.state == "talking" for c in engine.registry.calls.values()))
            call.hangup()
            await call.ended()
            await engine.registry.idle()
        await engine.calls_recorded()
        await assert_line_clean(asterisk)
    assert stranger.spoils.heard == []
    assert stranger.spoils.attempts > 50
    told = histories(tmp_path)
    assert [(history.source, history.reason) for history in told] == [
        ("asterisk", "caller_hangup")
    ] * 5
