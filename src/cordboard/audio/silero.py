"""Silero VAD (8 kHz) on ONNX Runtime: the model behind ``cordboard.audio.vad``.

One session for the whole process, one thread, about 60 us for a single window on a server
core. Needs the ``local`` extra; ``onnxruntime`` is imported when a model is loaded, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from cordboard.audio.vad import RATE, Floats


class SileroModel:
    """The model file at ``path``, loaded and warmed up. Thread safe; keeps no per-call state."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self._rate = np.array(RATE, np.int64)

    def judge(self, windows: Floats, states: Floats) -> tuple[Floats, Floats]:
        """See ``VoiceActivityModel.judge``."""
        output, new_states = self._session.run(
            None, {"input": windows, "state": states, "sr": self._rate}
        )
        return cast(Floats, output)[:, 0], cast(Floats, new_states)
