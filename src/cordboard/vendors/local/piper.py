"""Piper's voices, on this machine: for languages and voices that the bundled one does not speak.

Piper (`piper-tts`, with espeak-ng inside) is under the GPL, version 3 or later. It is a separate
extra, nothing else needs it, and it is imported only where `tts: piper` is configured: installing
it is the operator's decision. A voice is one file, with its settings beside it.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

from cordboard.agent_api.workers import Workers
from cordboard.agents.pipeline.service_voice import PaidBy, ServiceVoice
from cordboard.audio.resample import resample, to_pcm
from cordboard.errors import AgentError, ModelError, VoiceError
from cordboard.vendors.local.config import PiperTts
from cordboard.vendors.local.hibari import finished
from cordboard.vendors.local.model_files import PIPER_JOE, checked_folder

INSTALL = "pip install 'cordboard[piper]'"
_TUNING = ("speaker_id", "length_scale", "noise_scale", "noise_w_scale")


class PiperSynthesis:
    """Implements `Synthesis`, one sentence at a time, in the workers."""

    provider = "piper"
    paid_by: PaidBy = "seconds"

    def __init__(self, settings: PiperTts, workers: Workers) -> None:
        self._settings = settings
        self._workers = workers
        self._engine: Any = None
        self._tuning: Any = None
        self._alone = threading.Lock()
        """espeak-ng has global state."""
        self.model = settings.model or PIPER_JOE[0].distribution

    async def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`. The first text loads the voice: about a second."""
        sentences = await self._workers.run(self._begun, text)
        needed = time.monotonic()
        while True:
            within = needed - time.monotonic()
            pcm = await self._workers.run_within(within, self._sentence, sentences, rate)
            if pcm is None:
                return
            needed = max(needed, time.monotonic()) + len(pcm) / (2 * rate)
            yield pcm

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _begun(self, text: str) -> Iterator[Any]:
        with self._alone:
            if self._engine is None:
                self._load()
            return iter(self._engine.synthesize(text, self._tuning))

    def _sentence(self, sentences: Iterator[Any], rate: int) -> bytes | None:
        try:
            with self._alone:
                chunk = next(sentences, None)
            if chunk is None:
                return None
            samples = resample(chunk.audio_float_array, chunk.sample_rate, rate)
        except Exception as error:  # models and phonemisers do not document their errors
            raise VoiceError(f"piper failed: {error!r}") from error
        return to_pcm(finished(samples, rate))

    def _load(self) -> None:
        try:
            path = self._settings.model
            model = Path(path) if path else checked_folder(PIPER_JOE) / Path(PIPER_JOE[0].name).name
            piper = importlib.import_module("piper")
            given = {name: getattr(self._settings, name) for name in _TUNING}
            self._tuning = importlib.import_module("piper.config").SynthesisConfig(
                **{name: value for name, value in given.items() if value is not None}
            )
            self._engine = piper.PiperVoice.load(model)
        except (ImportError, ModelError, OSError, ValueError, RuntimeError) as error:
            raise VoiceError(f"piper's voice cannot be loaded: {error}", "refused") from error


class PiperVoice:
    """Implements `Voice`; shared by all calls."""

    def __init__(self, settings: PiperTts, workers: Workers) -> None:
        """Raises `AgentError` where piper is not installed. The first text loads the voice."""
        if util.find_spec("piper") is None:
            raise AgentError(
                f"tts: piper needs a package that is not installed, under the GPL: {INSTALL}",
                "refused",
            )
        self._voice = ServiceVoice(PiperSynthesis(settings, workers))

    def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        """See `Voice.speak`. Raises `VoiceError`."""
        return self._voice.speak(text, rate=rate)

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """See `Voice.prepare`."""
        await self._voice.prepare(texts, rate=rate)
