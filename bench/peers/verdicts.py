"""Delay of the voice detector's verdicts in an engine with many calls.

From the due time of a window's last frame until the call's turn machine has the verdict, on the
event loop: with the frame's own path, this is everything that the engine adds to the time
that the detector needs to hear a voice. (Held speech is not sent at the next 20 ms tick.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from bench.peers.harness import PARTS, percentile
from cordboard.audio.vad import VoiceActivityBank, VoiceActivityModel, VoiceActivityStream

FRAME_SAMPLES = 160


@dataclass(slots=True)
class Door:
    """The input of frames, one after the other."""

    due: float = 0.0
    """Due time of the current frame."""
    lags: list[float] = field(default_factory=list)
    """Seconds, of each verdict."""

    def figures(self) -> dict[str, float]:
        """Return them in milliseconds, and clear them."""
        ordered, self.lags = sorted(self.lags), []
        if not ordered:
            return {}
        parts = {**PARTS, "p95": 0.95}
        return {f"verdict_{name}_ms": percentile(ordered, at) * 1e3 for name, at in parts.items()}


class TimedStream(VoiceActivityStream):
    """Remembers the due times of its frames."""

    __slots__ = ("_door", "_dues")

    def __init__(
        self,
        bank: VoiceActivityBank,
        row: int,
        on_probability: Callable[[float, int], None],
        on_failed: Callable[[Exception], None] | None,
        door: Door,
    ) -> None:
        def timed(probability: float, end: int) -> None:
            door.lags.append(time.perf_counter() - self._dues[(end - 1) // FRAME_SAMPLES])
            on_probability(probability, end)

        super().__init__(bank, row, timed, on_failed)
        self._door = door
        self._dues: list[float] = []

    def feed(self, pcm: bytes) -> None:
        self._dues.append(self._door.due)
        super().feed(pcm)


class TimedBank(VoiceActivityBank):
    """The engine's bank with such streams."""

    def __init__(self, model: VoiceActivityModel, executor: Executor, *, door: Door) -> None:
        super().__init__(model, executor)
        self._door = door

    def make_stream(
        self,
        row: int,
        on_probability: Callable[[float, int], None],
        on_failed: Callable[[Exception], None] | None,
    ) -> VoiceActivityStream:
        return TimedStream(self, row, on_probability, on_failed, self._door)
