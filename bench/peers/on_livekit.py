"""LiveKit Agents: an `AgentSession` with audio input and output of our own instead of a room.

Runs in the peers' environment. A frame counts as taken when the recogniser's stream has it.
The input is 16 kHz, the rate of its voice activity model, so that no resampling is needed.
"""

# mypy: disable-error-code="import-not-found, import-untyped, misc, no-untyped-call, override"

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentSession, inference, llm, stt, tts
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities

from bench.peers import harness

RATE = 16_000


class Line(AudioInput):
    """The caller's sound."""

    def __init__(self) -> None:
        super().__init__(label="bench")
        self.frames: asyncio.Queue[Any] = asyncio.Queue()

    async def __anext__(self) -> Any:
        return await self.frames.get()


class Nowhere(AudioOutput):
    """Output of the agent, which never speaks here."""

    def __init__(self) -> None:
        super().__init__(
            label="bench", capabilities=AudioOutputCapabilities(pause=True), sample_rate=RATE
        )

    async def capture_frame(self, frame: Any) -> None:
        await super().capture_frame(frame)

    def flush(self) -> None:
        super().flush()

    def clear_buffer(self) -> None:
        """Nothing is buffered."""


class Recogniser(stt.STT):
    """A recogniser that takes frames and returns no text."""

    def __init__(self, stamps: harness.Stamps) -> None:
        super().__init__(capabilities=stt.STTCapabilities(streaming=True, interim_results=False))
        self.stamps = stamps

    async def _recognize_impl(self, buffer: Any, **_: Any) -> Any:
        raise NotImplementedError

    def stream(
        self, *, language: Any = None, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS
    ) -> Any:
        return Recognition(stt=self, conn_options=conn_options)


class Recognition(stt.RecognizeStream):
    async def _run(self) -> None:
        taken = self._stt.stamps.taken
        async for frame in self._input_ch:
            stamp = getattr(frame, "userdata", {}).get("bench")
            if stamp is not None:
                taken.append((*stamp, time.perf_counter()))


class Mute(tts.TTS):
    def __init__(self) -> None:
        super().__init__(
            capabilities=tts.TTSCapabilities(streaming=False), sample_rate=RATE, num_channels=1
        )

    def synthesize(self, text: str, **_: Any) -> Any:
        raise NotImplementedError


class Brain(llm.LLM):
    def chat(self, **_: Any) -> Any:
        raise NotImplementedError


class LiveKitCall:
    def __init__(self, vad: bool) -> None:
        self.stamps = harness.Stamps()
        self._line = Line()
        self.session: Any = AgentSession(
            vad=inference.VAD(model="silero") if vad else None,
            stt=Recogniser(self.stamps),
            llm=Brain(),
            tts=Mute(),
            turn_handling={"turn_detection": "vad" if vad else "manual"},
            aec_warmup_duration=None,
            user_away_timeout=None,
        )
        self.session.input.audio = self._line
        self.session.output.audio = Nowhere()

    async def hand_over(self, frame: bytes, due: float) -> None:
        self._line.frames.put_nowait(
            rtc.AudioFrame(
                data=frame,
                sample_rate=RATE,
                num_channels=1,
                samples_per_channel=len(frame) // 2,
                userdata={"bench": (due, time.perf_counter())},
            )
        )


@asynccontextmanager
async def opened(count: int, vad: bool) -> AsyncIterator[Sequence[harness.Call]]:
    calls = [LiveKitCall(vad) for _ in range(count)]
    for call in calls:
        await call.session.start(Agent(instructions="Be brief."))
    yield calls
    async with asyncio.timeout(60):
        await asyncio.gather(*(call.session.aclose() for call in calls), return_exceptions=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(harness.run("livekit", opened, RATE))
