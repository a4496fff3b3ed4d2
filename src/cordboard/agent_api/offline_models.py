"""The models on this machine that agents may use: the ears of pipelines, and what is loaded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cordboard.agent_api.stt import Recogniser
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.audio.turn_model import TurnEndModel
from cordboard.audio.vad import VoiceActivityBank


@dataclass(frozen=True, slots=True)
class OfflineModels:
    """The ears of every pipeline, and what else was needed."""

    voice_activity: VoiceActivityBank
    recogniser: Recogniser | None
    """None where nothing needs it."""
    voice: Voice | None
    """None where nothing needs it, or where it is only wanted and not installed."""
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
