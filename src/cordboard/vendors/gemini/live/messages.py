"""Messages to Gemini Live as JSON objects: the session's setup and all others.

Pure functions. Field names are the camel case of Google's JSON. Sources: google-genai 3.4
(`types.py`, `_live_converters.py`) and reports on closed sessions: `toolConfig` and an empty
`required` are refused (1007, 1008), so neither is ever sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cordboard.agent_api.agent import AgentSession
from cordboard.agents.extra_settings import with_extra
from cordboard.tools.payload import DATA_NOTE, as_payload
from cordboard.tools.provider_schema import for_provider_list
from cordboard.tools.tool import Effects, JsonObject, ToolReply, ToolSpec
from cordboard.vendors.gemini.config import GeminiLiveProvider, RealtimeInputConfig, ThinkingConfig
from cordboard.vendors.gemini.limits import GEMINI
from cordboard.vendors.gemini.live.memory import GATE_SECONDS, Call
from cordboard.vendors.gemini.models import live_model

NOTHING_ANSWERED = "The tool has answered nothing. Asking it again is of no use."
"""Text for the model in place of an empty answer: an empty one makes it repeat the call (Google's
page on the move to 3.8 Live: name a status, and whether a further attempt helps)."""

_CUT_OFF: JsonObject = {
    "status": "error",
    "message": "The connection was lost. The answer follows as soon as it is there.",
}


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a connection."""

    handle: str = ""
    """Handle of the session to resume; empty: a new session."""
    seeded: bool = False
    """A history of the conversation follows."""
    greeted: str = ""
    """The caller has been greeted with these words, and nothing else was spoken."""


def setup(settings: GeminiLiveProvider, session: AgentSession, start: Start) -> JsonObject:
    """Return the first message."""
    message: JsonObject = {
        "model": model_name(settings.model),
        "generationConfig": _generation(settings),
        "systemInstruction": {"parts": [{"text": _instruction(session, start.greeted)}]},
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }
    declarations = _declarations(session.toolbox, settings)
    if declarations:
        message["tools"] = [{"functionDeclarations": declarations}]
    input_config = _input(settings.realtime_input_config)
    if input_config:
        message["realtimeInputConfig"] = input_config
    if settings.session_resumption:
        message["sessionResumption"] = {"handle": start.handle} if start.handle else {}
    compression = settings.context_window_compression
    if compression.enabled:
        window = {"targetTokens": compression.target_tokens} if compression.target_tokens else {}
        message["contextWindowCompression"] = {"slidingWindow": window}
        if compression.trigger_tokens:
            message["contextWindowCompression"]["triggerTokens"] = compression.trigger_tokens
    if settings.proactivity.proactive_audio:
        message["proactivity"] = {"proactiveAudio": True}
    if settings.safety_settings:
        message["safetySettings"] = [setting.model_dump() for setting in settings.safety_settings]
    if start.seeded:
        message["historyConfig"] = {"initialHistoryInClientContent": True}
    return {"setup": with_extra(message, settings.extra)}


def model_name(model: str) -> str:
    """Return the name in the service's form: with its collection."""
    return model if "/" in model else f"models/{model}"


def blocks(spec: ToolSpec | None, settings: GeminiLiveProvider) -> bool:
    """True if the model waits for this tool; None: a tool that was never declared."""
    if live_model(settings.model).waits == "never":
        return False
    if settings.function_behavior in ("blocking", "non_blocking"):
        return settings.function_behavior == "blocking"
    if spec is None or spec.effects is not Effects.READ_ONLY:
        return True
    by_timeout = settings.function_behavior == "by_timeout"
    return by_timeout and spec.limits.timeout_ms <= GATE_SECONDS * 1000


def turns(said: Iterable[tuple[str, str]], *, complete: bool) -> JsonObject:
    """Return words of the conversation; `said`: role (`user`, `model`) and text, neighbours of one
    role joined. `complete`: True if the model must answer."""
    joined: list[tuple[str, list[str]]] = []
    for role, text in said:
        if not text.strip():
            continue
        if joined and joined[-1][0] == role:
            joined[-1][1].append(text)
        else:
            joined.append((role, [text]))
    contents = [{"role": role, "parts": [{"text": "\n".join(texts)}]} for role, texts in joined]
    return {"clientContent": {"turns": contents, "turnComplete": complete}}


def tool_response(answers: Iterable[JsonObject]) -> JsonObject:
    """Return answers to tools, each made by `function_response`."""
    return {"toolResponse": {"functionResponses": list(answers)}}


def function_response(
    call_id: str, name: str, response: JsonObject, scheduling: str = ""
) -> JsonObject:
    """Return one answer. `scheduling`: for a tool that the model does not wait for."""
    answer: JsonObject = {"id": call_id, "name": name, "response": response}
    if scheduling:
        answer["scheduling"] = scheduling
    return answer


def cut_off(calls: Iterable[Call]) -> JsonObject:
    """Return answers that end the exchange in which these calls were requested."""
    return tool_response(function_response(call.call_id, call.name, _CUT_OFF) for call in calls)


def response_of(reply: ToolReply) -> JsonObject:
    """Return a reply as the object for the model: never empty, never large."""
    response = as_payload(reply)
    if not reply.message.strip() and not reply.data:
        response |= {"message": NOTHING_ANSWERED, "retryable": False}
    return response


def _generation(settings: GeminiLiveProvider) -> JsonObject:
    config: JsonObject = {"responseModalities": ["AUDIO"]}
    speech: JsonObject = {}
    if settings.voice_name:
        speech["voiceConfig"] = {"prebuiltVoiceConfig": {"voiceName": settings.voice_name}}
    if settings.language_code:
        speech["languageCode"] = settings.language_code
    if speech:
        config["speechConfig"] = speech
    for name, value in (
        ("temperature", settings.temperature),
        ("topP", settings.top_p),
        ("topK", settings.top_k),
        ("maxOutputTokens", settings.max_output_tokens),
    ):
        if value is not None:
            config[name] = value
    if thinking := _thinking(settings):
        config["thinkingConfig"] = thinking
    return config


def _thinking(settings: GeminiLiveProvider) -> JsonObject:
    given = settings.thinking_config or ThinkingConfig()
    thinking: JsonObject = {}
    if given.thinking_level is not None:
        thinking["thinkingLevel"] = given.thinking_level.upper()
    elif live_model(settings.model).thinking == "required":
        thinking["thinkingLevel"] = "LOW"
    if given.thinking_budget is not None:
        thinking["thinkingBudget"] = given.thinking_budget
    return thinking


def _input(settings: RealtimeInputConfig) -> JsonObject:
    given = settings.automatic_activity_detection
    detection = {
        name: value
        for name, value in (
            ("startOfSpeechSensitivity", given.start_of_speech_sensitivity),
            ("endOfSpeechSensitivity", given.end_of_speech_sensitivity),
            ("prefixPaddingMs", given.prefix_padding_ms),
            ("silenceDurationMs", given.silence_duration_ms),
        )
        if value is not None
    }
    config: JsonObject = {}
    if detection:
        config["automaticActivityDetection"] = detection
    if settings.activity_handling:
        config["activityHandling"] = settings.activity_handling
    if settings.turn_coverage:
        config["turnCoverage"] = settings.turn_coverage
    return config


def _instruction(session: AgentSession, greeted: str) -> str:
    parts = [session.prompt.strip()]
    if session.toolbox:
        parts.append(DATA_NOTE)
    if greeted:
        parts.append(f"You have greeted the caller with these words already: “{greeted}”")
    return "\n\n".join(part for part in parts if part) or "You are on the telephone. Be brief."


def _declarations(toolbox: tuple[ToolSpec, ...], settings: GeminiLiveProvider) -> list[JsonObject]:
    specs = {spec.name: spec for spec in toolbox}
    waits_anyway = live_model(settings.model).waits == "always"
    declarations: list[JsonObject] = []
    for tool in for_provider_list(toolbox, GEMINI)[0]:
        declaration: JsonObject = {
            "name": tool.name,
            "description": tool.description or tool.name,
        }
        if not blocks(specs[tool.name], settings):
            declaration["behavior"] = "NON_BLOCKING"
        elif not waits_anyway:
            declaration["behavior"] = "BLOCKING"
        if tool.parameters is not None:
            declaration["parameters"] = _typed(tool.parameters)
        declarations.append(declaration)
    return declarations


def _typed(schema: JsonObject) -> JsonObject:
    """Return a schema with its types in capitals, as in the service's enum."""
    whole: dict[str, Any] = dict(schema)
    if isinstance(kind := whole.get("type"), str):
        whole["type"] = kind.upper()
    if isinstance(properties := whole.get("properties"), dict):
        whole["properties"] = {name: _typed(inner) for name, inner in properties.items()}
    if isinstance(items := whole.get("items"), dict):
        whole["items"] = _typed(items)
    if isinstance(alternatives := whole.get("anyOf"), list):
        whole["anyOf"] = [_typed(inner) for inner in alternatives]
    return whole
