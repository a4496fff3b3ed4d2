"""The offline voice: hibari-tts, an American English female voice, on one thread.

A sentence of ten words takes about 30 ms on a server core, so whole sentences are rendered and
handed over one by one. hibari leaves 0.25-0.35 s of silence before the first sound; it is cut,
because the caller would wait for that time. Every sentence is brought to the same speech level,
kept below full scale, limited to the telephone band by the resampler and faded at its edges. The
last sentences are kept, so that greetings and fillers come at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cordboard.agent_api.workers import Workers
from cordboard.agents.pipeline.sentence_cache import SentenceCache
from cordboard.audio.resample import Floats, resample, to_pcm
from cordboard.errors import ModelError, VoiceError
from cordboard.tools.speech.speakable import has_words, without_marks

NATIVE_RATE = 24000
SPEECH_DBFS = -18.0
"""RMS level of the spoken parts; a usual level of announcements on telephone lines."""
LEAD = 0.020
TAIL = 0.200
"""Seconds of silence left before the first sound and after the last one: with both, sentences
follow each other like in fluent speech."""
_FADE = 0.005
_SOFT_LIMIT = 0.75
_AUDIBLE_DB = 42.0
"""Sound this many decibels below the loudest 10 ms counts as silence at the edges."""

PRONUNCIATIONS: Mapping[str, str] = MappingProxyType({"ATIS": "ˈATɪs"})  # noqa: RUF001
"""Words that hibari would spell or misread, in its own phoneme alphabet."""


def finished(samples: Floats, rate: int) -> Floats:
    """Prepare a raw sentence for the line: edges trimmed and faded, level set, peaks limited."""
    size = rate // 100
    windows = samples[: len(samples) // size * size].reshape(-1, size)
    power = np.mean(np.square(windows), axis=1)
    if not len(power) or power.max() <= 0:
        return np.zeros(0, np.float32)
    audible = np.flatnonzero(power > power.max() * 10 ** (-_AUDIBLE_DB / 10))
    begin = max(0, int(audible[0]) * size - int(LEAD * rate))
    end = min(len(samples), (int(audible[-1]) + 1) * size + int(TAIL * rate))
    speech = power[power > power.max() / 100].mean()
    spoken: Floats = samples[begin:end] * np.float32(10 ** (SPEECH_DBFS / 20) / np.sqrt(speech))
    fade = min(int(_FADE * rate), len(spoken) // 2)
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    spoken[:fade] *= ramp
    spoken[len(spoken) - fade :] *= ramp[::-1]
    return _limited(spoken)


_WAITED = 2.0
"""Seconds by which the first sentence of an answer precedes other work that is needed now: it is
the shorter work, and its caller has waited for a recognition already."""


def _limited(samples: Floats) -> Floats:
    """Bend peaks above the soft limit smoothly, so that nothing reaches full scale."""
    room = 0.97 - _SOFT_LIMIT
    size = np.abs(samples)
    bent = _SOFT_LIMIT + room * np.tanh((size - _SOFT_LIMIT) / room)
    limited: Floats = np.where(size > _SOFT_LIMIT, np.copysign(bent, samples), samples)
    return limited.astype(np.float32, copy=False)


class HibariVoice:
    """The voice, shared by all calls. Building it blocks (0.7 s): do it in a worker thread."""

    def __init__(
        self,
        model: Path,
        workers: Workers,
        *,
        cache_bytes: int = 16_000_000,
        pronunciations: Mapping[str, str] = PRONUNCIATIONS,
    ) -> None:
        """Load the checked ``model`` file and warm it up. Raises ``ModelError``.

        ``cache_bytes`` bounds the sentences kept (16 MB are 17 minutes at 8 kHz).
        """
        self._workers = workers
        self._cache = SentenceCache(cache_bytes)
        self._pronunciations = {
            word: f"[{word}](/{phonemes}/)" for word, phonemes in pronunciations.items()
        }
        words = "|".join(re.escape(word) for word in sorted(pronunciations, key=len, reverse=True))
        self._pronounced = re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None
        try:
            from hibari import Hibari

            self._engine: Any = Hibari(model=str(model), threads=1)
            self._render("Ready, Xqwerty.", 8000)
        except (ImportError, RuntimeError, ValueError, OSError) as error:
            raise ModelError(f"cannot load the hibari voice in {model}: {error}") from error

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        """See ``Voice.speak``. Raises ``VoiceError``."""
        needed = time.monotonic() - _WAITED
        for sentence in self.sentences(text):
            pcm = await self._sentence(sentence, rate, needed - time.monotonic())
            needed = max(needed, time.monotonic()) + len(pcm) / (2 * rate)
            yield pcm

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """See ``Voice.prepare``: behind all work that callers wait for."""
        for text in texts:
            for sentence in self.sentences(text):
                await self._sentence(sentence, rate, inf)

    def sentences(self, text: str) -> list[str]:
        """Cut ``text`` where the voice pauses; pieces without a letter or digit are left out."""
        cut: list[str] = self._engine.split_sentences(without_marks(text))
        return [sentence for sentence in cut if has_words(sentence)]

    @property
    def cached_bytes(self) -> int:
        return self._cache.size

    async def _sentence(self, sentence: str, rate: int, within: float) -> bytes:
        """Return the sound, which the caller should hear ``within`` seconds."""
        pcm = self._cache.find(sentence, rate)
        if pcm is not None:
            return pcm
        pcm = await self._workers.run_within(within, self._render, sentence, rate)
        self._cache.keep(sentence, rate, pcm)
        return pcm

    def _render(self, sentence: str, rate: int) -> bytes:
        if self._pronounced is not None:
            sentence = self._pronounced.sub(lambda m: self._pronunciations[m[0]], sentence)
        try:
            samples = self._engine(sentence, seed=0)
        except Exception as error:  # models and phonemisers do not document their errors
            raise VoiceError(f"hibari failed on {sentence!r}: {error!r}") from error
        return to_pcm(finished(resample(samples, NATIVE_RATE, rate), rate))
