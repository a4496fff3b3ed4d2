"""The models on this machine that agents may use: the ears of pipelines, and other loaded
models."""

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
    """The ears of all pipelines, and the other models in use."""

    voice_activity: VoiceActivityBank
    recogniser: Recogniser | None
    """None if no agent needs it."""
    voice: Voice | None
    """None if no agent needs it, or if it is optional and not installed."""
    voice_activity_thread: ThreadPoolExecutor
    echo_thread: ThreadPoolExecutor
    """Thread for the echo guard: short work that must not wait behind the recogniser."""
    workers: Workers
    """Threads of recogniser and voice."""
    turn_end: TurnEndModel | None = None
    """Judges from the sound whether a turn has ended; None when its file is not installed."""
    turn_end_missing: str = ""
    """Reason why ``turn_end`` is None, with the command that installs it; empty when it is
    there."""

    def close(self) -> None:
        """Stop the voice activity model. The creator of the workers closes them."""
        self.voice_activity.close()
        self.voice_activity_thread.shutdown(wait=False, cancel_futures=True)
        self.echo_thread.shutdown(wait=False, cancel_futures=True)
