"""The parts that run on this machine: Whisper, Hibari, Piper and GGUF models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.provider import Parts, Provider
from cordboard.errors import AgentError
from cordboard.vendors.local.config import GgufBrain, HibariTts, PiperTts, WhisperStt
from cordboard.vendors.openai.limits import OPENAI_CHAT

if TYPE_CHECKING:
    from cordboard.agent_api.language_model import LanguageModel
    from cordboard.agent_api.stt import Recogniser
    from cordboard.agent_api.tts import Voice

_NOT_LOADED = "of this machine is not loaded"


def _whisper(section: WhisperStt, parts: Parts) -> Recogniser:
    if parts.models is None or parts.models.recogniser is None:
        raise AgentError(f"the recogniser {_NOT_LOADED}")
    return parts.models.recogniser


def _hibari(section: HibariTts, parts: Parts) -> Voice:
    if parts.models is None or parts.models.voice is None:
        raise AgentError(f"the voice {_NOT_LOADED}")
    return parts.models.voice


def _piper(section: PiperTts, parts: Parts) -> Voice:
    from cordboard.vendors.local.piper import PiperVoice

    if parts.workers is None:
        raise AgentError("there are no worker threads: no models are loaded")
    return PiperVoice(section, parts.workers)


def _gguf(section: GgufBrain, parts: Parts) -> LanguageModel:
    from cordboard.vendors.local.gguf import GgufModel, gguf_problem

    problem = gguf_problem(section)
    if problem is not None:
        raise problem
    return GgufModel(section)


PROVIDERS = (
    Provider("whisper", "stt", WhisperStt, _whisper),
    Provider("gguf", "llm", GgufBrain, _gguf, OPENAI_CHAT),
    Provider("hibari", "tts", HibariTts, _hibari),
    Provider("piper", "tts", PiperTts, _piper),
)
