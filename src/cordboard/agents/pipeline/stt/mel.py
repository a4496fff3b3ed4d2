"""The features that Whisper expects: see ``cordboard.audio.mel``."""

from __future__ import annotations

from cordboard.audio.mel import FRAMES_PER_SECOND, RATE, log_mel

__all__ = ["FRAMES_PER_SECOND", "RATE", "log_mel"]
