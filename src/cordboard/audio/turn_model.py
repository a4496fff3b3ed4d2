"""Judges whether the caller sounds finished: Smart Turn v3.2 on ONNX Runtime.

Voice activity detection finds a pause; this model judges by melody and rhythm whether the pause
ends the turn. ``SmartTurnModel(path).finished(pcm)`` takes the sound of the utterance so far and
returns a probability. The model listens to the last 8 s (Whisper features of 16 kHz sound,
normalised over the window, silence in front of shorter sound).

Thread safe and stateless; call it in a worker thread: it takes about 45 ms of one core.

Call it when the caller has been silent for 100 to 150 ms, or cut the sound to that: the model
judges best then, and takes longer silence alone for an end. Measured on 105 recorded human prompts
in the telephone band (70 of them cut once at a random loud place and 66 in a gap between words), at
0.5, by milliseconds of silence: finished ones accepted 100: 78 %, 200: 82 %, 400: 89 %, 600: 90 %;
cut ones held 84, 74, 37, 30 %; held in gaps 82, 79, 53, 32 %. The chance that a finished one scores
above a cut one is 0.90 at 100 and 150 ms and 0.85 at 0 and 200 ms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cordboard.audio.mel import FRAMES_PER_SECOND, RATE, Floats, log_mel
from cordboard.audio.resample import resample, to_floats

LINE_RATE = 8000
SECONDS = 8
"""Seconds of the utterance's end that the model hears."""
_VARIANCE_FLOOR = 1e-7


class TurnEndModel(Protocol):
    """Judges whether an utterance is complete."""

    def finished(self, pcm: bytes) -> float:
        """Return the probability, 0..1, that the caller's turn ends at the end of ``pcm``: s16 at 8
        kHz of the utterance so far (only its last 8 s matter). Blocks; thread safe."""


def smart_turn_features(pcm: bytes) -> Floats:
    """Return the model's input for s16 at 8 kHz: log-mel features [80, 800] of the last 8 s."""
    samples = to_floats(pcm[-2 * SECONDS * LINE_RATE :])
    window = np.zeros(SECONDS * RATE, np.float32)
    if len(samples):
        window[-2 * len(samples) :] = resample(samples, LINE_RATE, RATE)
    return normalised_log_mel(window)


def normalised_log_mel(window: Floats) -> Floats:
    """Return the features of exactly 8 s at 16 kHz, after zero mean and unit variance."""
    window = window - window.mean()
    window /= np.sqrt(window.var() + np.float32(_VARIANCE_FLOOR))
    return log_mel(window, SECONDS * FRAMES_PER_SECOND)


class SmartTurnModel:
    """The checked model file at ``path``, loaded and warmed up. Blocks; load it in a worker."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.finished(bytes(LINE_RATE))

    def finished(self, pcm: bytes) -> float:
        """See ``TurnEndModel.finished``."""
        features = smart_turn_features(pcm)
        (probabilities,) = self._session.run(None, {"input_features": features[None]})
        return float(probabilities[0, 0])
