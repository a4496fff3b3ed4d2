"""An emulated ElevenLabs workspace: agents and their tools, as its HTTP interface keeps them.

Fields, ranges and enumerations are those of the SDK's types (version 2.78). A change is merged
into the stored object; invalid changes are refused, as by the service, with 422 and their place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from cordboard.tools.tool import JsonObject
from cordboard_testkit.emulators.http_service import Refused

FORMATS = (
    *("pcm_8000", "pcm_16000", "pcm_22050", "pcm_24000", "pcm_44100", "pcm_48000"),
    "ulaw_8000",
)
CLIENT_EVENTS = frozenset(
    {
        *("conversation_initiation_metadata", "asr_initiation_metadata", "ping", "audio"),
        *("interruption", "user_transcript", "tentative_user_transcript", "agent_response"),
        *("agent_response_correction", "client_tool_call", "mcp_tool_call", "client_error"),
        *("mcp_connection_status", "agent_tool_request", "agent_tool_response"),
        *("agent_tool_response_full_payload", "agent_response_metadata", "vad_score"),
        *("agent_chat_response_part", "guardrail_triggered", "dtmf_request"),
        *("agent_response_complete", "context_usage", "internal_turn_probability"),
        "internal_tentative_agent_response",
    }
)
DEFAULT_EVENTS = (
    *("audio", "interruption", "agent_response", "user_transcript", "ping"),
    *("agent_response_correction", "client_tool_call", "conversation_initiation_metadata"),
    "tentative_user_transcript",
)
PERMITS_ALL: JsonObject = {
    "agent": {"first_message": True, "language": True, "prompt": {"prompt": True, "llm": True}},
    "tts": {"voice_id": True, "stability": True, "speed": True, "similarity_boost": True},
}
PERMITS_NOTHING: JsonObject = {
    "agent": {"first_message": False, "language": False, "prompt": {"prompt": False, "llm": False}},
    "tts": {"voice_id": False, "stability": False, "speed": False, "similarity_boost": False},
}
VOICE = "cjVigY5qzO86Huf0OWal"

_AGENT_KEYS = frozenset(
    {
        *("conversation_config", "platform_settings", "workflow", "name", "tags", "procedures"),
        "version_description",
    }
)
_CONFIG_KEYS = frozenset({"asr", "turn", "tts", "conversation", "language_presets", "vad", "agent"})
_TOOL_FIELDS: Mapping[str, Any] = {
    "response_timeout_secs": 20,
    "disable_interruptions": False,
    "interruption_mode": "allow",
    "force_pre_tool_speech": False,
    "pre_tool_speech": "auto",
    "assignments": [],
    "tool_call_sound": None,
    "tool_call_sound_behavior": "auto",
    "tool_error_handling_mode": "auto",
    "parameters": None,
    "expects_response": False,
    "dynamic_variables": {"dynamic_variable_placeholders": {}},
    "execution_mode": "immediate",
}
_CHOICES = {
    "pre_tool_speech": ("auto", "force", "off"),
    "tool_error_handling_mode": ("auto", "summarized", "passthrough", "hide"),
    "execution_mode": ("immediate", "post_tool_speech", "async"),
    "interruption_mode": ("allow", "disable_during_tool", "disable_during_tool_and_turn"),
}
_LITERALS = ("string", "integer", "number", "boolean")
_SOURCES = {"dynamic_variable": "", "constant_value": None, "is_omitted": False}


class Workspace:
    """All agents and tools of one account."""

    def __init__(self) -> None:
        self.agents: dict[str, JsonObject] = {}
        self.tools: dict[str, JsonObject] = {}
        self._ids = itertools.count(1)

    def agent(self, agent_id: str) -> JsonObject:
        """Raises `Refused` (404)."""
        if agent_id not in self.agents:
            raise Refused(404, f"Document with id {agent_id} not found.", "document_not_found")
        return self.agents[agent_id]

    def client_tools(self, agent_id: str) -> dict[str, JsonObject]:
        """The client tools of an agent, by name."""
        prompt = self.agents[agent_id]["conversation_config"]["agent"]["prompt"]
        configs = [self.tools[tool_id]["tool_config"] for tool_id in prompt["tool_ids"]]
        return {config["name"]: config for config in configs if config["type"] == "client"}

    def patch_agent(self, agent_id: str, body: Any) -> JsonObject:
        agent = self.agent(agent_id)
        _known(body, _AGENT_KEYS, "body")
        config = body.get("conversation_config") or {}
        _known(config, _CONFIG_KEYS, "body.conversation_config")
        _format(config.get("asr"), "user_input_audio_format", "asr")
        _format(config.get("tts"), "agent_output_audio_format", "tts")
        events = (config.get("conversation") or {}).get("client_events") or ()
        for event in events:
            if event not in CLIENT_EVENTS:
                raise _invalid("conversation_config.conversation.client_events", f"no {event!r}")
        prompt = (config.get("agent") or {}).get("prompt") or {}
        if "tools" in prompt and "tool_ids" in prompt:
            raise _invalid("conversation_config.agent.prompt", "both tools and tool_ids")
        for tool_id in prompt.get("tool_ids") or ():
            if tool_id not in self.tools:
                raise _invalid("conversation_config.agent.prompt.tool_ids", f"no tool {tool_id!r}")
        changed = {key: value for key, value in body.items() if key != "version_description"}
        _lay_over(agent, changed)
        agent["metadata"]["updated_at_unix_secs"] += 1
        return agent

    def create_tool(self, body: Any) -> JsonObject:
        config = checked_tool(body)
        tool_id = f"tool_{next(self._ids):04d}"
        self.tools[tool_id] = {
            "id": tool_id,
            "tool_config": config,
            "access_info": {
                "is_creator": True,
                "creator_name": "Emulator",
                "creator_email": "emulator@example.com",
                "role": "admin",
            },
            "usage_stats": {"total_calls": 0, "avg_latency_secs": 0.0},
            "response_mocks": [],
        }
        return self.tools[tool_id]

    def tool(self, tool_id: str) -> JsonObject:
        if tool_id not in self.tools:
            raise Refused(404, f"Document with id {tool_id} not found.", "document_not_found")
        return self.tools[tool_id]

    def update_tool(self, tool_id: str, body: Any) -> JsonObject:
        tool = self.tool(tool_id)
        tool["tool_config"] = checked_tool(body)
        return tool

    def delete_tool(self, tool_id: str) -> None:
        self.tool(tool_id)
        for agent in self.agents.values():
            if tool_id in agent["conversation_config"]["agent"]["prompt"]["tool_ids"]:
                raise Refused(409, f"Tool {tool_id} is used by an agent", "tool_in_use")
        del self.tools[tool_id]


def new_agent(
    agent_id: str,
    *,
    sound: str = "ulaw_8000",
    permits: Mapping[str, Any] = PERMITS_ALL,
    events: tuple[str, ...] = DEFAULT_EVENTS,
    first_message: str = "",
    auth: bool = True,
) -> JsonObject:
    """An agent as the service answers it."""
    return {
        "agent_id": agent_id,
        "name": "Emulated agent",
        "conversation_config": {
            "asr": {
                "quality": "high",
                "provider": "elevenlabs",
                "user_input_audio_format": sound,
                "keywords": [],
            },
            "turn": {"turn_timeout": 7.0, "silence_end_call_timeout": -1, "mode": "turn"},
            "tts": {
                "model_id": "eleven_flash_v2",
                "voice_id": VOICE,
                "agent_output_audio_format": sound,
                "stability": 0.5,
                "speed": 1.0,
                "similarity_boost": 0.8,
            },
            "conversation": {
                "text_only": False,
                "max_duration_seconds": 600,
                "client_events": list(events),
            },
            "language_presets": {},
            "vad": {"background_voice_detection": False},
            "agent": {
                "first_message": first_message,
                "language": "en",
                "dynamic_variables": {"dynamic_variable_placeholders": {}},
                "prompt": {
                    "prompt": "You are a helpful assistant.",
                    "llm": "gemini-2.5-flash",
                    "temperature": 0.0,
                    "max_tokens": -1,
                    "tool_ids": [],
                    "knowledge_base": [],
                },
            },
        },
        "metadata": {"created_at_unix_secs": 1_700_000_000, "updated_at_unix_secs": 1_700_000_000},
        "platform_settings": {
            "auth": {"enable_auth": auth, "allowlist": []},
            "overrides": {
                "conversation_config_override": deepcopy(dict(permits)),
                "custom_llm_extra_body": False,
            },
        },
        "tags": [],
    }


def checked_tool(body: Any) -> JsonObject:
    """Return a client tool's configuration with the defaults filled in. Raises `Refused`
    (422)."""
    _known(body, frozenset({"tool_config", "response_mocks"}), "body")
    config = body.get("tool_config")
    _known(config, frozenset({"type", "name", "description", *_TOOL_FIELDS}), "body.tool_config")
    if config.get("type") != "client":
        raise _invalid("tool_config.type", "only client tools are emulated")
    name, description = config.get("name"), config.get("description")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise _invalid("tool_config.name", "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
    if not isinstance(description, str) or not description:
        raise _invalid("tool_config.description", "Field required")
    for field, allowed in _CHOICES.items():
        if field in config and config[field] not in allowed:
            raise _invalid(f"tool_config.{field}", f"expected one of {allowed}")
    seconds = config.get("response_timeout_secs", 20)
    if not isinstance(seconds, int) or not (seconds == -1 or 1 <= seconds <= 120):
        raise _invalid("tool_config.response_timeout_secs", "from 1 to 120, or -1")
    whole = {"type": "client", "name": name, "description": description, **_TOOL_FIELDS, **config}
    if whole["parameters"] is not None:
        whole["parameters"] = _schema(whole["parameters"], "tool_config.parameters", root=True)
    return deepcopy(whole)


def _schema(schema: Any, where: str, *, root: bool = False) -> JsonObject:
    if not isinstance(schema, dict):
        raise _invalid(where, "Input should be a valid dictionary")
    kind = schema.get("type")
    if root and kind != "object":
        raise _invalid(f"{where}.type", "Input should be 'object'")
    if kind == "object":
        return _object(schema, where)
    if kind == "array":
        _known(schema, frozenset({"type", "description", "items", *_SOURCES}), where)
        _described(schema, where)
        return {**_SOURCES, **schema, "items": _schema(schema.get("items"), f"{where}.items")}
    if kind not in _LITERALS:
        raise _invalid(f"{where}.type", f"expected one of {(*_LITERALS, 'object', 'array')}")
    extra = {"enum", "is_system_provided", "allowed_values"}
    _known(schema, frozenset({"type", "description", *extra, *_SOURCES}), where)
    _described(schema, where)
    options = schema.get("enum")
    if options is not None and (
        kind != "string" or not all(isinstance(option, str) for option in options)
    ):
        raise _invalid(f"{where}.enum", "only texts of a string")
    return {"enum": None, "is_system_provided": False, **_SOURCES, **schema}


def _object(schema: JsonObject, where: str) -> JsonObject:
    known = {"type", "description", "required", "properties", "required_constraints", *_SOURCES}
    _known(schema, frozenset(known), where)
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in properties:
            raise _invalid(f"{where}.required", f"no property {name!r}")
    inner = {name: _schema(one, f"{where}.{name}") for name, one in properties.items()}
    return {"description": "", "required": [], **schema, "properties": inner}


def _described(schema: JsonObject, where: str) -> None:
    if not schema.get("description"):
        raise _invalid(where, "must set one of: description, dynamic_variable, constant_value")


def _known(value: Any, allowed: frozenset[str], where: str) -> None:
    if not isinstance(value, dict):
        raise _invalid(where, "Input should be a valid dictionary")
    for name in value:
        if name not in allowed:
            raise _invalid(f"{where}.{name}", "Extra inputs are not permitted")


def _format(section: Any, key: str, where: str) -> None:
    if isinstance(section, dict) and key in section and section[key] not in FORMATS:
        raise _invalid(f"conversation_config.{where}.{key}", f"expected one of {FORMATS}")


def _lay_over(base: JsonObject, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        there = base.get(name)
        if isinstance(there, dict) and isinstance(value, dict):
            _lay_over(there, value)
        else:
            base[name] = deepcopy(value)


def _invalid(place: str, why: str) -> Refused:
    return Refused(422, why, place)
