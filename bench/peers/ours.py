"""Cordboard: the whole engine in one process, its callers at the door of the media.

Without VAD the agent only takes the frames (`--both-ways`: and passes them back to the caller);
with it the agent is the offline pipeline with its real models, and no utterance ever ends.
A frame counts as taken when the agent has returned from it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bench.echo_agent import EchoAgent
from bench.peers import harness
from bench.peers.null_media import NullLine, NullMedia
from bench.peers.verdicts import Door, TimedBank
from cordboard.agent_api.agent import Agent
from cordboard.audio.pacer import Pacer
from cordboard.calls.binding import Binding
from cordboard.cli.options import run_async
from cordboard.config.schema import Config
from cordboard.observe.logging import configure
from cordboard.runtime.engine import Engine
from cordboard.vendors.local import models as offline

RATE = 8000
BOTH_WAYS = "--both-ways"


def configuration(folder: str) -> Config:
    """One context without greeting and re-prompts."""
    long = 3_600_000
    return Config.model_validate(
        {
            "health": {"port": 0},
            "audiosocket": {"port": 0},
            "calls": {"directory": folder, "max_calls": 1000},
            "mcp": {"enabled": False},
            "providers": {"local": {"type": "pipeline"}},
            "contexts": {
                "bench": {
                    "provider": "local",
                    "greeting": "",
                    "tools": [],
                    "silence": {"caller_after_ms": long, "agent_after_ms": long},
                    "rules": {"intents": {"hello": {"sentences": ["hello"], "say": "Hello."}}},
                }
            },
        }
    )


class BenchEngine(Engine):
    """The engine, with or without its agent."""

    hears = True
    speaks = False

    def _open_agent(self, binding: Binding) -> Agent:
        return super()._open_agent(binding) if self.hears else EchoAgent(speaks=self.speaks)


async def measure() -> None:
    pacer = Pacer(asyncio.get_running_loop())
    both_ways = BOTH_WAYS in sys.argv
    door = Door()
    offline.VoiceActivityBank = partial(TimedBank, door=door)  # type: ignore[misc, assignment]
    with tempfile.TemporaryDirectory() as folder:
        engine = BenchEngine(configuration(folder))
        engine.speaks = both_ways
        await engine.start()

        @asynccontextmanager
        async def opened(count: int, vad: bool) -> AsyncIterator[Sequence[harness.Call]]:
            engine.hears = vad
            lines = [NullMedia(pacer, door) for _ in range(count)]
            for line in lines:
                engine.registry.offer(NullLine(line).offer())
            while not all(line.connected for line in lines):  # noqa: ASYNC110 - no event says it
                await asyncio.sleep(0.01)
            yield lines
            for line in lines:
                line.hang_up()
            await engine.registry.idle()

        name = "cordboard, both ways" if both_ways else "cordboard"
        try:
            await harness.run(name, opened, RATE, door.figures)
        finally:
            await engine.stop(grace=0)


if __name__ == "__main__":
    configure(json=False, level="ERROR", secrets=())
    if not Path("bench").is_dir():
        raise SystemExit("start it in the repository's folder")
    run_async(measure())
