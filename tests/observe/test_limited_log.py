"""A warning that can be caused ten thousand times fills no log, and none of them is lost."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from cordboard.observe.limited_log import LimitedLog
from cordboard_testkit.virtual_time import virtual_time


def test_the_first_is_told_at_once_and_the_others_by_their_number() -> None:
    async def scenario() -> None:
        limited = LimitedLog("door", seconds=10.0)
        for number in range(10_000):
            limited.warn("unknown" if number % 2 else "late", peer=f"10.0.0.9:{number}")
            await asyncio.sleep(0.0025)  # 25 s in all
        await asyncio.sleep(60)
        limited.warn("unknown", peer="10.0.0.1:1")
        limited.warn("unknown", peer="10.0.0.1:2")
        limited.close()

    with capture_logs() as log, virtual_time() as loop:
        loop.run_until_complete(scenario())
    line = {"event": "door", "log_level": "warning"}
    assert log[0] == line | {"reason": "late", "peer": "10.0.0.9:0"}
    assert log[1] == line | {"reason": "unknown", "peer": "10.0.0.9:1"}, "a reason hides no other"
    assert 2 + sum(line["count"] for line in log[2:-2]) == 10_000
    assert len(log) <= 2 * 4 + 2
    assert log[-2] == line | {"reason": "unknown", "peer": "10.0.0.1:1"}
    assert log[-1] == line | {"reason": "unknown", "count": 1, "last_peer": "10.0.0.1:2"}


def test_silence_is_no_line() -> None:
    async def scenario() -> None:
        limited = LimitedLog("door")
        limited.warn("unknown")
        await asyncio.sleep(100)
        limited.close()

    with capture_logs() as log, virtual_time() as loop:
        loop.run_until_complete(scenario())
    assert len(log) == 1
