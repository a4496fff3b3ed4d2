"""Messages to an ElevenLabs agent, and readers of its messages. Pure.

The protocol follows the service's AsyncAPI document for agents (`agent.asyncapi.yaml` of its public
packages) and the messages of its Python SDK 2.78. Sound is sent as an object of one key and no
`type`; all other messages have a `type`, and a server event's content stands under its own key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agents.extra_settings import with_extra
from cordboard.audio.format import SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.tools.payload import DATA_NOTE, as_payload
from cordboard.tools.tool import JsonObject, Status, ToolReply
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.version import __version__

WANTED_FORMAT = "ulaw_8000"
"""The telephone's format: no conversion is needed."""
FORMATS: Mapping[str, AudioFormat] = {
    "ulaw_8000": ULAW_8K,
    "pcm_8000": SLIN_8K,
    "pcm_16000": SLIN_16K,
    "pcm_24000": AudioFormat("slin", 24_000),
    "pcm_48000": AudioFormat("slin", 48_000),
}
"""The service's usable formats. 22050 and 44100 Hz do not have a whole number of samples per ms."""
HISTORY_CHARACTERS = 12_000
"""Most characters of the conversation so far; the end counts."""

_TAG = re.compile(r"\[[a-z]+(?: [a-z]+)*\]")
"""A direction as the expressive voices write it."""
_DIRECTION = re.compile(r"\[[^\[\]]*\]|<[^<>]*>")
"""Unspoken markup: directions for the voice (`[whispers]`), a pause, a pronunciation."""

QUIET = frozenset(
    {
        *("agent_response_correction", "agent_chat_response_part"),
        *("agent_reasoning_response_part", "rich_content", "agent_tool_request", "vad_score"),
        *("agent_tool_response_full_payload", "mcp_tool_call", "mcp_connection_status"),
        *("asr_initiation_metadata", "agent_response_metadata", "guardrail_triggered"),
        *("dtmf_request", "context_usage", "internal_turn_probability"),
        *("internal_tentative_agent_response", "agent_typing", "external_agent_connected"),
        "external_agent_disconnected",
    }
)
"""Known events without consequence."""


def initiation(
    settings: ElevenLabsAgentProvider, session: AgentSession, *, greets: bool
) -> JsonObject:
    """Return the first message of a connection. `greets`: the greeting is still to be spoken."""
    agent: JsonObject = {}
    prompt: JsonObject = {}
    if "prompt" in settings.overrides:
        prompt["prompt"] = f"{session.prompt}\n\n{DATA_NOTE}" if session.toolbox else session.prompt
    if settings.llm is not None:
        prompt["llm"] = settings.llm
    if prompt:
        agent["prompt"] = prompt
    if "first_message" in settings.overrides:
        agent["first_message"] = session.greeting if greets else ""
    if settings.language is not None:
        agent["language"] = settings.language
    voice = settings.tts.model_dump(exclude_none=True)
    overridden = {name: part for name, part in (("agent", agent), ("tts", voice)) if part}
    variables: JsonObject = dict(settings.dynamic_variables)
    variables.update((name, session.variables.get(name, "")) for name in settings.call_variables)
    message: JsonObject = {
        "type": "conversation_initiation_client_data",
        "conversation_config_override": overridden,
        "dynamic_variables": variables,
        # Free text in the AsyncAPI document, an enum without us in the types of the REST interface.
        "source_info": {"source": "unknown", "version": __version__},
    }
    return with_extra(message, settings.extra)


def user_audio(sound: bytes) -> bytes:
    """Return one piece of the caller's sound."""
    return b'{"user_audio_chunk":"' + base64.b64encode(sound) + b'"}'


def tool_result(reply: ToolReply) -> bytes:
    """Return a tool's answer. A refusal is not marked as an error of the tool: the model must read
    the reason, and errors may be hidden from it (`tool_error_handling_mode`)."""
    failed = reply.status in (Status.ERROR, Status.TIMEOUT)
    return orjson.dumps(
        {
            "type": "client_tool_result",
            "tool_call_id": reply.ask_id,
            "result": payload_text(reply),
            "is_error": failed,
        }
    )


def tool_error(call_id: str, why: str) -> bytes:
    """Return the answer to a call that cannot be passed to the desk."""
    answer = {"tool_call_id": call_id, "result": why, "is_error": True}
    return orjson.dumps({"type": "client_tool_result", **answer})


def payload_text(reply: ToolReply) -> str:
    """Return a reply as the text that the model reads."""
    return orjson.dumps(as_payload(reply), default=str).decode()


def text_message(kind: str, text: str) -> bytes:
    """Return a `contextual_update` or `user_message`."""
    return orjson.dumps({"type": kind, "text": text.encode("utf-8", "replace").decode()})


def history_text(history: Iterable[Said]) -> str:
    """Return the conversation so far, in a form for the model; empty when there is none."""
    lines = [
        f"{'Caller' if said.who == 'caller' else 'You'}: {' '.join(said.text.split())}"
        for said in history
        if said.text.strip()
    ]
    if not lines:
        return ""
    text = "\n".join(lines)
    if len(text) > HISTORY_CHARACTERS:
        text = "…" + text[-HISTORY_CHARACTERS:]
    return (
        "This call has begun before you were connected to it. Do not greet again. "
        f"The conversation so far:\n{text}"
    )


def result_text(reply: ToolReply) -> str:
    """Return a tool's answer for a conversation that did not request it."""
    return (
        f"The tool {reply.name}, which you had asked for before the line to you was renewed, has "
        f"answered; do not run it again. Its answer: {payload_text(reply)}"
    )


def decoded(text: object) -> bytes | None:
    """Return the bytes of a Base64 text; None when it is malformed."""
    if not isinstance(text, str):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def part(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the content of an event; empty when there is none."""
    content = message.get(key)
    return content if isinstance(content, dict) else {}


def number(value: object) -> int | None:
    """Return an event's id; None when it has none. Some clients receive it as a text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) else None


def without_directions(text: str) -> str:
    """Return the agent's words without directions for its voice, such as `[laughs]`."""
    return " ".join(_TAG.sub(" ", text).split()) if "[" in text else text.strip()


def spoken_length(text: str) -> int:
    """Return the most characters of a text that can be spoken."""
    return len(" ".join(_DIRECTION.sub(" ", text).split()))


def words(value: object) -> str:
    """Return a text of the service, cleaned; empty when it is not a text."""
    return value.strip() if isinstance(value, str) else ""
