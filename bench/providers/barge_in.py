"""From the decision that the caller speaks to the truncation, with OpenAI's protocol.

While all calls send frames, the service speaks on each, and cuts itself with `speech_started` after
some frames. *Told and sent*: from the `Interrupted` that the call gets until the adapter has the
heard text and the message is handed to the socket. *There and back*: from just before the service
writes `speech_started` until it has read `conversation.item.truncate`.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from bench.providers.lines import AdapterLine
from bench.providers.load import Frames, opened
from bench.providers.service_process import serving
from bench.providers.wires import PAUSE, SPOKEN, WIRES
from cordboard.audio.pacer import INTERVAL, Pacer

ARRIVE = 5.0
"""Timeout in seconds for the last truncation."""


@dataclass(frozen=True, slots=True)
class Cuts:
    told: list[float]
    """Seconds."""
    back: list[float]


async def measure(calls: int, count: int) -> Cuts:
    """Measure `cuts` cuts. Raises `ValueError`, `TimeoutError`."""
    wire = WIRES["openai"]
    async with serving("openai") as service, opened(wire, "adapter", service, calls) as lines:
        frames = Frames(lines)
        pacer = Pacer(asyncio.get_running_loop())
        pacer.register(frames)
        frames.on = True
        await service.do("barge_in", on=True)
        agents = [line for line in lines if isinstance(line, AdapterLine)]
        await asyncio.sleep((math.ceil(count / calls) + 1) * (SPOKEN + PAUSE) * INTERVAL)
        await service.do("barge_in", on=False)
        pacer.unregister(frames)
        async with asyncio.timeout(ARRIVE):
            while True:
                told = [seconds for agent in agents for seconds in agent.cuts]
                back = [there - here for here, there in await service.do("cuts")]
                if len(told) == len(back):
                    break
                await asyncio.sleep(0.1)
    if len(told) < count:
        raise ValueError(f"only {len(told)} answers were cut")
    return Cuts(told[:count], back[:count])
