"""The engine by itself, without a telephone."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from cordboard.config.schema import Config
from cordboard.engine import Engine


def offline(tmp_path: Path, **more: Any) -> Config:
    return Config.model_validate(
        {
            "contexts": {"demo": {}},
            "health": {"port": 0},
            "audiosocket": {"port": 0},
            "calls": {"directory": str(tmp_path)},
            **more,
        }
    )


async def test_an_engine_that_waits_for_asterisk_says_so_and_is_ready_later(tmp_path: Path) -> None:
    nobody = {"url": "http://127.0.0.1:9", "password": "secret"}
    engine = Engine(offline(tmp_path, asterisk=nobody))
    with capture_logs() as log:
        await engine.start()
        await engine.stop(grace=0)
    (started,) = [entry for entry in log if entry["event"] in ("engine_started", "engine_ready")]
    assert started["event"] == "engine_started"
    assert list(started["waiting_for"]) == ["ari"]


async def test_an_engine_is_ready_when_ready_says_so(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    with capture_logs() as log:
        await engine.start()
        missing = [name for name, s in engine.readiness().items() if s.required and not s.ready]
        await engine.stop(grace=0)
    assert missing == []
    assert [e["event"] for e in log if e["event"].startswith("engine_r")] == ["engine_ready"]


async def test_an_engine_stopped_twice_stops_once(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    with capture_logs() as log:
        starting = asyncio.create_task(engine.start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.gather(engine.stop(), engine.stop(grace=0))
    events = [entry["event"] for entry in log]
    assert events.count("engine_stopping") == 1
    assert events.count("engine_stopped") == 1


async def test_what_is_given_up_is_shown(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    engine.degradation.level = 2
    shown = engine.health()["degradation"]
    assert shown["given_up"] == ["speculative recognition", "the end-of-turn model"]
    await engine.stop(grace=0)


async def test_the_collector_is_spared_the_libraries_while_the_engine_runs(tmp_path: Path) -> None:
    """A full collection holds the event loop; afterwards, all is as it was before."""
    engine = Engine(offline(tmp_path))
    before = gc.get_freeze_count()
    await engine.start()
    try:
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        await engine.stop(grace=0)
    assert gc.get_freeze_count() <= before
