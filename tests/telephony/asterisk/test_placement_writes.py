"""What an engine writes for the dialplan while Asterisk does not answer, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.placement import RETRY_SECONDS, Placement
from cordboard_testkit.virtual_time import in_virtual_time

APP = "cordboard-a-000001"


class SilentAsterisk:
    """It does what it is asked for, and may answer nothing."""

    state = SimpleNamespace(connected=True)

    def __init__(self) -> None:
        self.answers = True
        self.variables: dict[str, str] = {}

    async def request(self, method: str, path: str, *, variable: str, value: str) -> None:
        self.variables[variable] = value
        if not self.answers:
            await asyncio.sleep(5)
            raise AsteriskError("no answer")


@in_virtual_time
async def test_a_room_that_comes_back_is_written_after_a_write_without_an_answer() -> None:
    """The engine drained for a moment: the dialplan may have heard the first half of it alone."""
    tasks: list[asyncio.Task[None]] = []
    asterisk: Any = SilentAsterisk()
    placement = Placement(
        asterisk, "cordboard", lambda work: tasks.append(asyncio.ensure_future(work))
    )
    placement.room(APP, 5)
    await asyncio.sleep(1)
    asterisk.answers = False
    placement.room(APP, 0)
    await asyncio.sleep(1)
    placement.room(APP, 5)
    asterisk.answers = True
    await asyncio.sleep(5 + RETRY_SECONDS + 1)
    assert asterisk.variables == {f"CORDBOARD_ROOM_{APP}": "5|,,"}
    assert all(task.done() for task in tasks)
