"""The offline models of an engine and the threads they run on: loaded once, kept to the end."""

from __future__ import annotations

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.agents.realtime.engine_voice import spoken
from cordboard.audio.format import AudioFormat
from cordboard.calls.failure_apology import TROUBLE
from cordboard.config.schema import Config
from cordboard.vendors.local.models import (
    Need,
    OfflineLoading,
    completed,
    load_needed_models,
    needs_of,
)


class EngineModels:
    """The models of one engine, and its workers."""

    def __init__(self, loading: OfflineLoading | None = None) -> None:
        """`loading`: models whose loading has begun already; the engine owns them from now on."""
        self._loading = loading
        self._models: OfflineModels | None = None
        self.workers = loading.workers if loading is not None else None
        """The threads for model work; None while no model is needed."""

    async def load(self, config: Config) -> OfflineModels | None:
        """Load the models that a configuration needs, unless they are loaded already."""
        if self._models is not None:
            self._models = await completed(self._models, needs_of(config))
        elif (needs := needs_of(config)).ears is not Need.NO:
            if self.workers is None:
                self.workers = Workers()
            begun, load = self._loading, load_needed_models
            self._models = await (begun.finished() if begun else load(self.workers, needs))
        return self._models

    async def close(self) -> None:
        """Free the models and end the threads."""
        if self._models is not None:
            self._models.close()
        if self.workers is not None:
            await self.workers.close()

    @property
    def voice(self) -> Voice | None:
        """The offline voice, once loaded."""
        return self._models.voice if self._models is not None else None

    @property
    def turn_end_model(self) -> str:
        """`loaded`, `not needed`, or why there is none: turns then end by silence and words."""
        if self._models is None:
            return "not needed"
        return self._models.turn_end_missing or "loaded"

    async def apology(self, audio_format: AudioFormat) -> bytes:
        """Return the audio for a caller without an agent; empty without the offline voice."""
        if self.voice is None:
            return b""
        chunks = [sound async for sound in spoken(self.voice, TROUBLE, audio_format)]
        return b"".join(chunks)
