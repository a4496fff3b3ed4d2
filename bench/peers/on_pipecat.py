"""Pipecat: a bot's usual pipeline with a transport of our own.

Runs in the peers' environment. Transport, recogniser, user aggregator (with the voice activity
model), LLM, voice, transport, assistant aggregator. A frame counts as taken when the recogniser
has it. The input is 8 kHz, which its voice activity model accepts directly.
"""

# mypy: disable-error-code="import-not-found, import-untyped, misc, no-untyped-call, override"

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from loguru import logger

logger.remove()
logging.disable(logging.CRITICAL)

from pipecat.audio.vad.silero import SileroVADAnalyzer  # noqa: E402
from pipecat.frames.frames import InputAudioRawFrame  # noqa: E402
from pipecat.pipeline.pipeline import Pipeline  # noqa: E402
from pipecat.pipeline.worker import PipelineParams, PipelineWorker  # noqa: E402
from pipecat.processors.aggregators.llm_context import LLMContext  # noqa: E402
from pipecat.processors.aggregators.llm_response_universal import (  # noqa: E402
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.services.llm_service import LLMService  # noqa: E402
from pipecat.services.settings import LLMSettings, STTSettings, TTSSettings  # noqa: E402
from pipecat.services.stt_service import STTService  # noqa: E402
from pipecat.services.tts_service import TTSService  # noqa: E402
from pipecat.transports.base_input import BaseInputTransport  # noqa: E402
from pipecat.transports.base_output import BaseOutputTransport  # noqa: E402
from pipecat.transports.base_transport import TransportParams  # noqa: E402
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy  # noqa: E402
from pipecat.turns.user_turn_strategies import UserTurnStrategies  # noqa: E402
from pipecat.workers.runner import WorkerRunner  # noqa: E402

from bench.peers import harness  # noqa: E402

logger.remove()
RATE = 8000
UNSET = dict.fromkeys(
    ("system_instruction", "temperature", "max_tokens", "top_p", "top_k", "frequency_penalty",
     "presence_penalty", "seed", "filter_incomplete_user_turns", "user_turn_completion_config")
)  # fmt: skip


class Line(BaseInputTransport):
    """The caller's sound."""

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)


class Nowhere(BaseOutputTransport):
    """Output of the agent, which never speaks here."""

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: Any) -> bool:
        return True


class Recogniser(STTService):
    """A recogniser that takes frames and returns no text."""

    def __init__(self, stamps: harness.Stamps) -> None:
        super().__init__(
            sample_rate=RATE,
            ttfs_p99_latency=0.0,
            settings=STTSettings(model="none", language=None),
        )
        self._stamps = stamps

    async def process_audio_frame(self, frame: Any, direction: Any) -> None:
        stamp = getattr(frame, "bench", None)
        if stamp is not None:
            self._stamps.taken.append((*stamp, time.perf_counter()))
        await super().process_audio_frame(frame, direction)

    async def run_stt(self, audio: bytes) -> AsyncIterator[Any]:
        yield None


class Brain(LLMService):
    def __init__(self) -> None:
        super().__init__(settings=LLMSettings(model="none", **UNSET))

    async def process_frame(self, frame: Any, direction: Any) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class Mute(TTSService):
    def __init__(self) -> None:
        super().__init__(
            sample_rate=RATE, settings=TTSSettings(model="none", voice="none", language=None)
        )

    async def run_tts(self, text: str, context_id: str) -> AsyncIterator[Any]:
        yield None


class PipecatCall:
    def __init__(self, vad: bool) -> None:
        self.stamps = harness.Stamps()
        self.started = asyncio.Event()
        params = TransportParams(
            audio_in_enabled=True,
            audio_out_enabled=True,
            audio_in_sample_rate=RATE,
            audio_out_sample_rate=RATE,
            audio_out_10ms_chunks=2,
        )
        self._line = Line(params)
        pair = LLMContextAggregatorPair(
            LLMContext(messages=[{"role": "system", "content": "Be brief."}]),
            user_params=LLMUserAggregatorParams(
                vad_analyzer=SileroVADAnalyzer(sample_rate=RATE) if vad else None,
                user_turn_strategies=UserTurnStrategies(
                    stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.2)]
                ),
            ),
        )
        parts = [self._line, Recogniser(self.stamps), pair.user(), Brain(), Mute()]
        self.worker: Any = PipelineWorker(
            Pipeline([*parts, Nowhere(params), pair.assistant()]),
            enable_rtvi=False,
            cancel_on_idle_timeout=False,
            params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE),
        )

        @self.worker.event_handler("on_pipeline_started")
        async def _(worker: Any, frame: Any) -> None:
            self.started.set()

    async def hand_over(self, frame: bytes, due: float) -> None:
        audio = InputAudioRawFrame(audio=frame, sample_rate=RATE, num_channels=1)
        audio.bench = (due, time.perf_counter())
        await self._line.push_audio_frame(audio)


@asynccontextmanager
async def opened(count: int, vad: bool) -> AsyncIterator[Sequence[harness.Call]]:
    calls = [PipecatCall(vad) for _ in range(count)]
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(*(call.worker for call in calls))
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(60):
        await asyncio.gather(*(call.started.wait() for call in calls))
    yield calls
    await runner.cancel()
    await asyncio.wait([task], timeout=30)


if __name__ == "__main__":
    asyncio.run(harness.run("pipecat", opened, RATE))
