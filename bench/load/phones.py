"""Many of our own SIP phones in one process: `python -m bench.load.phones URI CALLS ... SPEECH`.

Arguments: address, number of calls, most at once, new ones per second, seconds each, u-law file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np

from cordboard.audio import g711
from cordboard.cli.options import run_async
from cordboard.errors import CordboardError
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import RATE


async def crowd(
    uri: str, calls: int, at_once: int, a_second: float, seconds: float, ulaw: bytes
) -> int:
    """Return the number of failed calls."""
    pcm = g711.ulaw_to_linear(ulaw)
    sound = np.resize(np.frombuffer(pcm, "<i2"), int(seconds * RATE)).astype(np.int16)
    places = asyncio.Semaphore(at_once)
    failed = 0

    async def one(phone: SipPhone) -> None:
        nonlocal failed
        try:
            call = await phone.call(uri)
            await call.answered()
            call.say(sound)
            await asyncio.sleep(seconds)
            call.hangup()
            await call.ended()
        except (CordboardError, TimeoutError):
            failed += 1
        finally:
            places.release()

    async with SipPhone("load") as phone, asyncio.TaskGroup() as group:
        for _ in range(calls):
            await places.acquire()
            group.create_task(one(phone))
            await asyncio.sleep(1 / a_second)
    return failed


if __name__ == "__main__":
    _, uri, calls, at_once, a_second, seconds, speech = sys.argv
    ulaw = Path(speech).read_bytes()
    failures = run_async(
        crowd(uri, int(calls), int(at_once), float(a_second), float(seconds), ulaw)
    )
    raise SystemExit(min(failures, 100))
