"""Deepgram Voice Agent: the Settings message, from the configuration and the call.

Pure. deepgram-sdk 7.17 calls the message `AgentV1Settings`. The service refuses unknown fields, so
only configured fields are sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, SecretStr

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agents.extra_settings import with_extra
from cordboard.audio.format import AudioFormat
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.provider_schema import for_provider_list
from cordboard.tools.tool import Effects, JsonObject, ToolSpec
from cordboard.vendors.deepgram.config import (
    FLUX_VOICE,
    DeepgramAgentProvider,
    DeepgramEndpoint,
    DeepgramListen,
    DeepgramSpeak,
    DeepgramThink,
    DeepgramVoice,
)
from cordboard.vendors.deepgram.limits import DEEPGRAM

_ENCODINGS = {"ulaw": "mulaw", "alaw": "alaw", "slin": "linear16"}


def settings_message(
    settings: DeepgramAgentProvider,
    session: AgentSession,
    *,
    history: tuple[Said, ...],
    calls: Iterable[JsonObject] = (),
    greeting: str,
) -> JsonObject:
    """Return the whole message.

    `history`: the conversation so far, for `agent.context`. `calls`: functions that ran for the
    model since the end of `history`, in the form of `History` messages. `greeting`: empty = none.
    """
    agent: JsonObject = {
        "listen": _listen(settings.listen),
        "think": _think(settings.think, session),
        "speak": _speak(settings.speak),
    }
    if settings.language is not None:
        agent["language"] = settings.language
    if messages := _context(history, tuple(calls)):
        agent["context"] = {"messages": messages}
    if greeting:
        agent["greeting"] = greeting
    message: JsonObject = {"type": "Settings", "audio": _audio(session.format), "agent": agent}
    if settings.tags:
        message["tags"] = list(settings.tags)
    for name in ("experimental", "mip_opt_out"):
        if (value := getattr(settings, name)) is not None:
            message[name] = value
    message = with_extra(message, settings.extra)
    agent = message["agent"]
    if settings.think_fallbacks:
        others = [_think(think, session) for think in settings.think_fallbacks]
        agent["think"] = [agent["think"], *others]
    if settings.speak_fallbacks:
        agent["speak"] = [agent["speak"], *map(_speak, settings.speak_fallbacks)]
    return message


def _audio(audio_format: AudioFormat) -> JsonObject:
    sound = {"encoding": _ENCODINGS[audio_format.encoding], "sample_rate": audio_format.rate}
    return {"input": sound, "output": {**sound, "container": "none"}}


def _listen(listen: DeepgramListen) -> JsonObject:
    return {"provider": {**_given(listen.provider), "model": listen.provider.recogniser}}


def _think(think: DeepgramThink, session: AgentSession) -> JsonObject:
    said: JsonObject = {"provider": _given(think.provider)}
    if think.provider.credentials is not None:
        credentials = think.provider.credentials.model_dump(exclude_none=True)
        said["provider"]["credentials"] = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in credentials.items()
        }
    if think.endpoint is not None:
        said["endpoint"] = _endpoint(think.endpoint)
    if think.context_length is not None:
        said["context_length"] = think.context_length
    functions = _functions(session.toolbox)
    said["prompt"] = f"{session.prompt}\n\n{DATA_NOTE}" if functions else session.prompt
    if functions:
        said["functions"] = functions
    return said


def _speak(speak: DeepgramSpeak) -> JsonObject:
    provider = _given(speak.provider)
    if isinstance(speak.provider, DeepgramVoice) and speak.provider.model.startswith(FLUX_VOICE):
        provider.setdefault("version", "v2")
    said: JsonObject = {"provider": provider}
    if speak.endpoint is not None:
        said["endpoint"] = _endpoint(speak.endpoint)
    return said


def _endpoint(endpoint: DeepgramEndpoint) -> JsonObject:
    headers = {name: value.get_secret_value() for name, value in endpoint.headers.items()}
    return {"url": endpoint.url, "headers": headers}


def _functions(toolbox: tuple[ToolSpec, ...]) -> list[JsonObject]:
    """Return the functions. A function without an endpoint runs here. A destructive one waits until
    the end of the caller's turn is certain; the others may be requested early, and cancelled."""
    effects = {spec.name: spec.effects for spec in toolbox}
    tools, _ = for_provider_list(toolbox, DEEPGRAM)
    functions = []
    for tool in tools:
        function = tool.declared()
        if effects[tool.name] is not Effects.READ_ONLY:
            function["defer_until_eot"] = True
        functions.append(function)
    return functions


def _context(history: tuple[Said, ...], calls: tuple[JsonObject, ...]) -> list[JsonObject]:
    said: list[JsonObject] = [
        {
            "type": "History",
            "role": "user" if entry.who == "caller" else "assistant",
            "content": entry.text,
        }
        for entry in history
        if entry.text
    ]
    if calls:
        said.append({"type": "History", "function_calls": list(calls)})
    return said


def _given(section: BaseModel) -> JsonObject:
    """Return the configured values as JSON, under Deepgram's own names, without empty lists."""
    values: JsonObject = section.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in values.items() if value != []}
