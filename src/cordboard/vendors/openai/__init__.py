"""OpenAI: Realtime, Live, transcription, speech, Chat Completions and Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.provider import Parts, Provider
from cordboard.vendors.openai.config import (
    LOCAL_COLD_START_MS,
    OpenAIChatBrain,
    OpenAILiveProvider,
    OpenAIRealtimeProvider,
    OpenAIResponsesBrain,
    OpenAIStt,
    OpenAITts,
)
from cordboard.vendors.openai.limits import (
    CHAT_PAYLOAD,
    OPENAI_CHAT,
    OPENAI_REALTIME,
    REALTIME_PAYLOAD,
)
from cordboard.vendors.openai.probes import probes

if TYPE_CHECKING:
    from cordboard.agent_api.language_model import LanguageModel
    from cordboard.agent_api.service_protocol import ServiceProtocol
    from cordboard.agent_api.stt import Recogniser
    from cordboard.agent_api.tts import Voice


def _realtime(section: OpenAIRealtimeProvider, parts: Parts) -> ServiceProtocol:
    from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

    return OpenAIProtocol(section, parts.key)


def _live(section: OpenAILiveProvider, parts: Parts) -> ServiceProtocol:
    from cordboard.vendors.openai.live.protocol import OpenAILiveProtocol

    return OpenAILiveProtocol(section, parts.key)


def _stt(section: OpenAIStt, parts: Parts) -> Recogniser:
    from cordboard.vendors.openai.stt import OpenAIRecogniser

    return OpenAIRecogniser(section, parts.key)


def _tts(section: OpenAITts, parts: Parts) -> Voice:
    from cordboard.agents.pipeline.service_voice import ServiceVoice

    if section.over_realtime:
        from cordboard.vendors.openai.realtime_voice import RealtimeSynthesis

        return ServiceVoice(RealtimeSynthesis(section, parts.key))
    from cordboard.vendors.openai.tts import OpenAISynthesis

    return ServiceVoice(OpenAISynthesis(section, parts.key))


def _chat(section: OpenAIChatBrain, parts: Parts) -> LanguageModel:
    from cordboard.agents.llm.http_model import HttpModel
    from cordboard.agents.llm.local_server import LocalServerModel
    from cordboard.vendors.openai.chat_completions import OpenAIChatWire

    wire, cold = OpenAIChatWire(section), section.cold_start_ms
    own = section.base_url is not None and section.api_key is None
    if cold is None and own and not section.token_command:
        cold = LOCAL_COLD_START_MS
    if not cold:
        return HttpModel(wire, section, parts.key)
    return LocalServerModel(wire, section, parts.key, cold / 1000)


def _responses(section: OpenAIResponsesBrain, parts: Parts) -> LanguageModel:
    from cordboard.agents.llm.http_model import HttpModel
    from cordboard.vendors.openai.responses import OpenAIResponsesWire

    return HttpModel(OpenAIResponsesWire(section), section, parts.key)


PROVIDERS = (
    Provider(
        "openai_realtime",
        "agent",
        OpenAIRealtimeProvider,
        _realtime,
        OPENAI_REALTIME,
        REALTIME_PAYLOAD,
        probes,
    ),
    Provider(
        "openai_live",
        "agent",
        OpenAILiveProvider,
        _live,
        OPENAI_REALTIME,
        REALTIME_PAYLOAD,
        probes,
    ),
    Provider("openai", "stt", OpenAIStt, _stt, probes=probes),
    Provider("openai_chat", "llm", OpenAIChatBrain, _chat, OPENAI_CHAT, CHAT_PAYLOAD, probes),
    Provider(
        "openai_responses",
        "llm",
        OpenAIResponsesBrain,
        _responses,
        OPENAI_CHAT,
        CHAT_PAYLOAD,
        probes,
    ),
    Provider("openai", "tts", OpenAITts, _tts, probes=probes),
)
