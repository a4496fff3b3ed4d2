"""An engine of a cluster for measurements and tests of faults: `python -m bench.cluster_engine FILE
AGENT`. The engine is the real one, as `cordboard run` has it; its agents need no models.

    desk     a tone for each sentence; in the context `shop` it asks for the tool `order` once, some
             time after its start, whatever the call has had before
    echo     the caller's own audio, without conversation
    turns    one turn after the other, with a ledger

Exit status 75, as that of `cordboard run`, when other engines have replaced it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Final

import numpy as np

from bench.echo_agent import EchoAgent
from bench.load.server import LoadEngine
from cordboard.agent_api.agent import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentSession,
    AgentText,
    ToolAsked,
)
from cordboard.agent_api.speech import Speech
from cordboard.calls.binding import Binding
from cordboard.cli.options import run_async
from cordboard.cli.run import REPLACED
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.observe.logging import configure
from cordboard.runtime.health import EngineModels
from cordboard.tools.tool import ToolAsk

RATE = 8_000
TONE_SECONDS = 0.4
SHOP = "shop"
"""The context whose agents order."""
ORDER: Final = "order"
"""Name of the tool."""
_FIRST, _LAST = 0.3, 3.0
"""Seconds after its start at which an agent orders, at random."""


def tone() -> bytes:
    """Return the sound of a sentence, s16 at 8 kHz."""
    times = np.arange(int(RATE * TONE_SECONDS)) / RATE
    return (9_000 * np.sin(2 * np.pi * 440 * times)).astype("<i2").tobytes()


class DeskAgent(EchoAgent):
    """Speaks tones; in the shop it orders once, for the call's id."""

    def __init__(self) -> None:
        super().__init__(speaks=False)
        self._talk: AgentSession | None = None
        self._ordering: asyncio.TimerHandle | None = None

    async def start(self, session: AgentSession) -> None:
        self._talk = session
        if session.greeting:
            self._speak(0, session.greeting)
        if session.context_name == SHOP:
            loop = asyncio.get_running_loop()
            chance = random.Random(session.call_id)
            self._ordering = loop.call_later(chance.uniform(_FIRST, _LAST), self._order, session)

    def say(self, speech: Speech) -> None:
        self._speak(1, speech.text, speech)

    def _speak(self, turn: int, text: str, speech: Speech | None = None) -> None:
        if self._talk is not None:
            self._talk.emit(AgentText(turn, text, asyncio.get_running_loop().time(), speech))
            self._talk.emit(AgentAudio(turn, tone()))
            self._talk.emit(AgentAudioDone(turn))

    def _order(self, session: AgentSession) -> None:
        session.emit(ToolAsked(ToolAsk("order.1", ORDER, {"call": session.call_id}, 0)))

    async def close(self) -> None:
        if self._ordering is not None:
            self._ordering.cancel()
        self._talk = None


class ClusterEngine(LoadEngine):
    """The engine, with one of these agents for every caller."""

    def _open_agent(self, binding: Binding) -> Agent:
        return DeskAgent() if self._agent == "desk" else super()._open_agent(binding)


async def _no_models(models: EngineModels, config: Config) -> None:
    """In place of `EngineModels.load`: beside a realtime provider the engine would load those that
    speak for it, which takes most of its start."""


async def serve(file: Path, agent: str) -> int:
    """Run until a signal, or until others have replaced it; return the exit status."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    EngineModels.load = _no_models  # type: ignore[method-assign]
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    engine = ClusterEngine(load(file, os.environ), agent)
    await engine.start()
    replaced, stopped = loop.create_task(engine.replaced()), loop.create_task(stop.wait())
    await asyncio.wait({replaced, stopped}, return_when=asyncio.FIRST_COMPLETED)
    is_replaced = replaced.done()
    for task in (replaced, stopped):
        task.cancel()
    await engine.stop(grace=0)
    return REPLACED if is_replaced else 0


if __name__ == "__main__":
    configure(json=False, level="WARNING", secrets=())
    raise SystemExit(run_async(serve(Path(sys.argv[1]), sys.argv[2])))
