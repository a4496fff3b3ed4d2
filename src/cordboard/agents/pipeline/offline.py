"""All models of the offline agent, found, checked, loaded and warmed up side by side.

``await load_offline_models(workers)`` at start-up, once per process; the calls share the result.
Nothing blocks the event loop. Warm files take about a second on two cores.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cordboard.agents.pipeline.models import (
    HIBARI_HEART,
    SILERO_VAD,
    WHISPER_TINY_EN,
    checked_folder,
)
from cordboard.agents.pipeline.stt.whisper import WhisperRecogniser
from cordboard.agents.pipeline.tts.hibari import HibariVoice
from cordboard.agents.workers import Workers
from cordboard.audio.silero import SileroModel
from cordboard.audio.vad import VoiceActivityBank


@dataclass(frozen=True, slots=True)
class OfflineModels:
    """The ears and the mouth of every offline call."""

    voice_activity: VoiceActivityBank
    recogniser: WhisperRecogniser
    voice: HibariVoice
    voice_activity_thread: ThreadPoolExecutor
    workers: Workers
    """Where they do their work."""

    def close(self) -> None:
        """Stop the voice activity model. The workers belong to whoever made them."""
        self.voice_activity.close()
        self.voice_activity_thread.shutdown(wait=False, cancel_futures=True)


async def load_offline_models(workers: Workers) -> OfflineModels:
    """Load everything. Raises ``ModelError`` for a package or file that is missing or altered."""

    def recogniser() -> WhisperRecogniser:
        return WhisperRecogniser(checked_folder(WHISPER_TINY_EN), workers)

    def voice() -> HibariVoice:
        return HibariVoice(HIBARI_HEART.checked(), workers)

    def voice_activity() -> SileroModel:
        return SileroModel(SILERO_VAD.checked())

    ears, mouth, activity = await asyncio.gather(
        workers.run(recogniser), workers.run(voice), workers.run(voice_activity)
    )
    thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-vad")
    return OfflineModels(VoiceActivityBank(activity, thread), ears, mouth, thread, workers)
