"""All models of the offline agent, found, checked, loaded and warmed up side by side.

``await load_offline_models(workers)`` at start-up, once per process; the calls share the result.
Nothing blocks the event loop. Warm files take about a second on two cores.

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


async def load_offline_models(workers: Workers) -> OfflineModels:
    """Load everything. Raises ``ModelError`` for a package or file that is missing or altered."""

    def recogniser() -> WhisperRecogniser:
        return WhisperRecogniser(checked_folder(WHISPER_TINY_EN), workers)

    def voice() -> HibariVoice:
        return HibariVoice(HIBARI_HEART.checked(), workers)

    def voice_activity() -> SileroModel:
        return SileroModel(SILERO_VAD.checked())

    ears, mouth, activity, (turn_end, missing) = await asyncio.gather(
        workers.run(recogniser),
        workers.run(voice),
        workers.run(voice_activity),
        workers.run(turn_end_model),
    )
    if missing:
        log.warning("turn_end_model_missing", reason=missing)
    thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-vad")
    bank = VoiceActivityBank(activity, thread)
    echo_thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-echo")
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Left to itself, the linear algebra of one small echo question spins on every core.
    threadpool_limits(limits=1, user_api="blas")
    return OfflineModels(bank, ears, mouth, thread, echo_thread, workers, turn_end, missing)


def turn_end_model(file: ModelFile = SMART_TURN) -> tuple[TurnEndModel | None, str]:
    """The turn end model, or why there is none: its file is missing or altered. Blocks."""
    try:
        return SmartTurnModel(file.checked()), ""
    except ModelError as error:
        return None, str(error)
