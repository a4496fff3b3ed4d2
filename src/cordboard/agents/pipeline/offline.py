"""All models of the offline agent, found, checked, loaded and warmed up side by side.

``await load_offline_models(workers)`` at start-up, once per process; the calls share the result.
Nothing blocks the event loop. Warm files take about a second on two cores, which a program can
spend on its other imports: see ``OfflineLoading``.

All are required but one: without the turn end model calls run on silence and words alone.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from cordboard.agents.pipeline.models import (
    HIBARI_HEART,
    SILERO_VAD,
    SMART_TURN,
    WHISPER_TINY_EN,
    ModelFile,
    checked_folder,
)
from cordboard.agents.pipeline.stt.whisper import WhisperRecogniser
from cordboard.agents.pipeline.tts.hibari import HibariVoice
from cordboard.agents.workers import Workers
from cordboard.audio.silero import SileroModel
from cordboard.audio.turn_model import SmartTurnModel, TurnEndModel
from cordboard.audio.vad import VoiceActivityBank
from cordboard.config.schema import Config
from cordboard.errors import ModelError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OfflineModels:
    """The ears and the mouth of every offline call."""

    voice_activity: VoiceActivityBank
    recogniser: WhisperRecogniser
    voice: HibariVoice
    voice_activity_thread: ThreadPoolExecutor
    echo_thread: ThreadPoolExecutor
    """Where echo is told from voices: short work that must not wait behind the recogniser."""
    workers: Workers
    """Where they do their work."""
    turn_end: TurnEndModel | None = None
    """Tells from the sound whether a turn has ended; None when its file is not installed."""
    turn_end_missing: str = ""
    """Why ``turn_end`` is None, with the command that installs it; empty when it is there."""

    def close(self) -> None:
        """Stop the voice activity model. The workers belong to whoever made them."""
        self.voice_activity.close()
        self.voice_activity_thread.shutdown(wait=False, cancel_futures=True)
        self.echo_thread.shutdown(wait=False, cancel_futures=True)


class OfflineLoading:
    """All of them on their way, in the worker threads: begin it first, and do the rest of the start
    beside it. Needs no event loop to begin."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        # The longest first: there are fewer threads than models.
        self._voice = workers.begin(lambda: HibariVoice(HIBARI_HEART.checked(), workers))
        self._recogniser = workers.begin(
            lambda: WhisperRecogniser(checked_folder(WHISPER_TINY_EN), workers)
        )
        self._turn_end = workers.begin(turn_end_model)
        self._voice_activity = workers.begin(lambda: SileroModel(SILERO_VAD.checked()))

    async def finished(self) -> OfflineModels:
        """The models, as soon as all are there; once. Raises ``ModelError`` for a package or file
        that is missing or altered."""
        ears, mouth, activity, (turn_end, missing) = await asyncio.gather(
            asyncio.wrap_future(self._recogniser),
            asyncio.wrap_future(self._voice),
            asyncio.wrap_future(self._voice_activity),
            asyncio.wrap_future(self._turn_end),
        )
        if missing:
            log.warning("turn_end_model_missing", reason=missing)
        thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-vad")
        bank = VoiceActivityBank(activity, thread)
        echo_thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-echo")
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        # Left to itself, the linear algebra of one small echo question spins on every core.
        threadpool_limits(limits=1, user_api="blas")
        return OfflineModels(
            bank, ears, mouth, thread, echo_thread, self.workers, turn_end, missing
        )


async def load_offline_models(workers: Workers) -> OfflineModels:
    """Load everything. Raises ``ModelError`` for a package or file that is missing or altered."""
    return await OfflineLoading(workers).finished()


def needs_models(config: Config) -> bool:
    """Whether any provider of the configuration speaks with the offline models."""
    return any(provider.type == "pipeline" for provider in config.providers.values())


def turn_end_model(file: ModelFile = SMART_TURN) -> tuple[TurnEndModel | None, str]:
    """The turn end model, or why there is none: its file is missing or altered. Blocks."""
    try:
        return SmartTurnModel(file.checked()), ""
    except ModelError as error:
        return None, str(error)
