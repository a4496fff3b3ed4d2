"""From the sections of the configuration to the parts of a pipeline that hear and speak.

A part is made once for a configuration and shared by its calls. What talks to a service is imported
only where it is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cordboard.agent_api.stt import CallRecogniser, Recogniser
from cordboard.agent_api.tts import Voice
from cordboard.agents.pipeline.service_key import key_of
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
from cordboard.vendors.local.models import OfflineModels

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
            from cordboard.vendors.openai.stt import OpenAIRecogniser

            return OpenAIRecogniser(settings, key_of(settings, environ, "stt: openai"))
        case DeepgramStt():
            from cordboard.vendors.deepgram.stt import DeepgramRecogniser

            return DeepgramRecogniser(settings, key_of(settings, environ, "stt: deepgram"))
        case DeepgramFluxStt():
            from cordboard.vendors.deepgram.flux import DeepgramFluxRecogniser

            return DeepgramFluxRecogniser(settings, key_of(settings, environ, "stt: deepgram_flux"))


def voice_for(settings: Tts, models: OfflineModels, environ: Mapping[str, str]) -> Voice:
    """What speaks. Raises `AgentError`."""
    match settings:
        case HibariTts():
            if models.voice is None:
                raise AgentError(f"the voice {_NO_MODELS}")
            return models.voice
        case PiperTts():
            from cordboard.vendors.local.piper import PiperVoice

            return PiperVoice(settings, models.workers)
        case OpenAITts():
            from cordboard.vendors.openai.tts import openai_voice

            return openai_voice(settings, key_of(settings, environ, "tts: openai"))
        case DeepgramTts():
            from cordboard.vendors.deepgram.tts import deepgram_voice

            return deepgram_voice(settings, key_of(settings, environ, "tts: deepgram"))
        case ElevenLabsTts():
            from cordboard.vendors.elevenlabs.tts import elevenlabs_voice

            return elevenlabs_voice(settings, key_of(settings, environ, "tts: elevenlabs"))
