"""From the sections of the configuration to the parts of a pipeline that hear and speak.

A part is made once for a configuration and shared by its calls. What talks to a service is imported
only where it is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cordboard.agents.pipeline.offline import OfflineModels
from cordboard.agents.pipeline.service_key import key_of
from cordboard.agents.pipeline.stt.base import CallRecogniser, Recogniser
from cordboard.agents.pipeline.tts.base import Voice
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.stt import (
    DeepgramFluxStt,
    DeepgramStt,
    OpenAIStt,
    Stt,
    WhisperStt,
)
from cordboard.config.providers.tts import (
    DeepgramTts,
    ElevenLabsTts,
    HibariTts,
    OpenAITts,
    PiperTts,
    Tts,
)
from cordboard.errors import AgentError

_NO_MODELS = "of this machine is not loaded"


@dataclass(frozen=True, slots=True)
class SpeechParts:
    """What a pipeline hears and speaks with."""

    recogniser: Recogniser | CallRecogniser
    voice: Voice

    async def close(self) -> None:
        """Close what is connected to services, as soon as it is not in use. Idempotent."""
        for part in (self.recogniser, self.voice):
            close = getattr(part, "close", None)
            if close is not None:
                await close()


def speech_parts(
    settings: PipelineProvider, models: OfflineModels, environ: Mapping[str, str]
) -> SpeechParts:
    """Both. Raises `AgentError`, of kind `auth` where a key is missing."""
    return SpeechParts(
        recogniser_for(settings.stt, models, environ), voice_for(settings.tts, models, environ)
    )


def recogniser_for(
    settings: Stt, models: OfflineModels, environ: Mapping[str, str]
) -> Recogniser | CallRecogniser:
    """What hears. Raises `AgentError`."""
    match settings:
        case WhisperStt():
            if models.recogniser is None:
                raise AgentError(f"the recogniser {_NO_MODELS}")
            return models.recogniser
        case OpenAIStt():
            from cordboard.agents.pipeline.stt.openai import OpenAIRecogniser

            return OpenAIRecogniser(settings, key_of(settings, environ, "stt: openai"))
        case DeepgramStt():
            from cordboard.agents.pipeline.stt.deepgram import DeepgramRecogniser

            return DeepgramRecogniser(settings, key_of(settings, environ, "stt: deepgram"))
        case DeepgramFluxStt():
            from cordboard.agents.pipeline.stt.deepgram_flux import DeepgramFluxRecogniser

            return DeepgramFluxRecogniser(settings, key_of(settings, environ, "stt: deepgram_flux"))


def voice_for(settings: Tts, models: OfflineModels, environ: Mapping[str, str]) -> Voice:
    """What speaks. Raises `AgentError`."""
    match settings:
        case HibariTts():
            if models.voice is None:
                raise AgentError(f"the voice {_NO_MODELS}")
            return models.voice
        case PiperTts():
            from cordboard.agents.pipeline.tts.piper import PiperVoice

            return PiperVoice(settings, models.workers)
        case OpenAITts():
            from cordboard.agents.pipeline.tts.openai import openai_voice

            return openai_voice(settings, key_of(settings, environ, "tts: openai"))
        case DeepgramTts():
            from cordboard.agents.pipeline.tts.deepgram import deepgram_voice

            return deepgram_voice(settings, key_of(settings, environ, "tts: deepgram"))
        case ElevenLabsTts():
            from cordboard.agents.pipeline.tts.elevenlabs import elevenlabs_voice

            return elevenlabs_voice(settings, key_of(settings, environ, "tts: elevenlabs"))
