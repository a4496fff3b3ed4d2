"""The messages that Gemini Live accepts from its clients, field by field, and its refusals.

Written from google-genai 3.4 (`types.py`, `_live_converters.py`) and from reports on closed
sessions. Field names may be camel or snake case, as Google's JSON allows; an unknown name
closes the connection with 1007 (`Unknown name`), and so does a value of the wrong kind. Messages
that parse but are invalid are refused by `objection`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

EXTENDED_THINKING = "gemini-3.8-live-extended-thinking"
OLDER = frozenset(
    {"gemini-2.5-flash-native-audio-preview-12-2025", "gemini-3.1-flash-live-preview"}
)
"""Models that wait for a tool unless it is declared `NON_BLOCKING`."""
MODELS = frozenset({"gemini-3.8-live", EXTENDED_THINKING, *OLDER})
VOICES = frozenset(
    {
        *("Zephyr", "Puck", "Charon", "Kore", "Fenrir", "Leda", "Orus", "Aoede", "Callirrhoe"),
        *("Autonoe", "Enceladus", "Iapetus", "Umbriel", "Algieba", "Despina", "Erinome"),
        *("Algenib", "Rasalgethi", "Laomedeia", "Achernar", "Alnilam", "Schedar", "Gacrux"),
        *("Pulcherrima", "Achird", "Zubenelgenubi", "Vindemiatrix", "Sadachbia", "Sadaltager"),
        "Sulafat",
    }
)
MAX_TOOL_RESPONSE = 32_768
"""Bytes of one message with results; larger ones are among the reported causes of 1011."""
MAX_DECLARATIONS = 512
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MIME = re.compile(r"audio/pcm(;rate=\d+)?")


class Refused(Exception):
    """The connection is closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Blob(_Message):
    data: str
    mime_type: str


class FunctionCallPart(_Message):
    id: str | None = None
    name: str
    args: dict[str, Any] = {}


class FunctionResponse(_Message):
    id: str | None = None
    name: str
    response: dict[str, Any]
    will_continue: bool | None = None
    scheduling: Literal["SILENT", "WHEN_IDLE", "INTERRUPT"] | None = None


class Part(_Message):
    text: str | None = None
    inline_data: Blob | None = None
    function_call: FunctionCallPart | None = None
    function_response: FunctionResponse | None = None


class Content(_Message):
    role: Literal["user", "model"] | None = None
    parts: list[Part]


class Schema(_Message):
    type: Literal["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"] | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    nullable: bool | None = None
    enum: list[str] | None = None
    items: Schema | None = None
    properties: dict[str, Schema] | None = None
    required: list[str] | None = None
    any_of: list[Schema] | None = None
    property_ordering: list[str] | None = None
    default: Any = None
    example: Any = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None


class FunctionDeclaration(_Message):
    name: str
    description: str | None = None
    parameters: Schema | None = None
    parameters_json_schema: dict[str, Any] | None = None
    response: Schema | None = None
    response_json_schema: dict[str, Any] | None = None
    behavior: Literal["BLOCKING", "NON_BLOCKING"] | None = None


class Tool(_Message):
    function_declarations: list[FunctionDeclaration] | None = None
    google_search: dict[str, Any] | None = None
    code_execution: dict[str, Any] | None = None
    url_context: dict[str, Any] | None = None


class PrebuiltVoice(_Message):
    voice_name: str


class VoiceConfig(_Message):
    prebuilt_voice_config: PrebuiltVoice | None = None


class SpeechConfig(_Message):
    voice_config: VoiceConfig | None = None
    language_code: str | None = None


class GenerationConfig(_Message):
    response_modalities: list[Literal["AUDIO", "TEXT"]] = ["AUDIO"]
    speech_config: SpeechConfig | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    media_resolution: str | None = None
    thinking_config: dict[str, Any] | None = None
    enable_affective_dialog: bool | None = None


class ActivityDetection(_Message):
    disabled: bool = False
    start_of_speech_sensitivity: (
        Literal["START_SENSITIVITY_HIGH", "START_SENSITIVITY_LOW"] | None
    ) = None
    end_of_speech_sensitivity: Literal["END_SENSITIVITY_HIGH", "END_SENSITIVITY_LOW"] | None = None
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None


class RealtimeInputConfig(_Message):
    automatic_activity_detection: ActivityDetection = ActivityDetection()
    activity_handling: Literal["START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"] | None = None
    turn_coverage: (
        Literal[
            "TURN_INCLUDES_ONLY_ACTIVITY",
            "TURN_INCLUDES_ALL_INPUT",
            "TURN_INCLUDES_AUDIO_ACTIVITY_AND_ALL_VIDEO",
        ]
        | None
    ) = None


class SessionResumption(_Message):
    handle: str | None = None


class SlidingWindow(_Message):
    target_tokens: int | None = None


class Compression(_Message):
    trigger_tokens: int | None = None
    sliding_window: SlidingWindow | None = None


class Transcribed(_Message):
    language_codes: list[str] | None = None
    custom_vocabulary: list[str] | None = None


class Proactivity(_Message):
    proactive_audio: bool | None = None
    proactive_video: bool | None = None


class HistoryConfig(_Message):
    initial_history_in_client_content: bool = False


class SafetySetting(_Message):
    category: Annotated[str, Field(pattern=r"^HARM_CATEGORY_")]
    threshold: Literal[
        "BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"
    ]


class Setup(_Message):
    model: str
    generation_config: GenerationConfig = GenerationConfig()
    system_instruction: Content | None = None
    tools: list[Tool] = []
    realtime_input_config: RealtimeInputConfig = RealtimeInputConfig()
    session_resumption: SessionResumption | None = None
    context_window_compression: Compression | None = None
    input_audio_transcription: Transcribed | None = None
    output_audio_transcription: Transcribed | None = None
    proactivity: Proactivity | None = None
    history_config: HistoryConfig = HistoryConfig()
    safety_settings: list[SafetySetting] = []
    labels: dict[str, str] | None = None

    def declarations(self) -> Iterator[FunctionDeclaration]:
        for tool in self.tools:
            yield from tool.function_declarations or ()


class ClientContent(_Message):
    turns: list[Content] = []
    turn_complete: bool = False


class RealtimeInput(_Message):
    audio: Blob | None = None
    audio_stream_end: bool | None = None
    text: str | None = None
    activity_start: dict[str, Any] | None = None
    activity_end: dict[str, Any] | None = None


class ToolResponse(_Message):
    function_responses: Annotated[list[FunctionResponse], Field(min_length=1)]


class ClientMessage(_Message):
    setup: Setup | None = None
    client_content: ClientContent | None = None
    realtime_input: RealtimeInput | None = None
    tool_response: ToolResponse | None = None


def read(message: Any) -> ClientMessage:
    """Return a message as the service parses it. Raises `Refused`."""
    if not isinstance(message, dict):
        raise Refused(1007, "Request contains an invalid argument.")
    try:
        parsed = ClientMessage.model_validate(message)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][:-1])
        name = first["loc"][-1] if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            words = f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}'"
        else:
            words = f"Invalid value at '{place}' ({name}): {first['msg']}"
        raise Refused(1007, words[:120]) from None
    if len(parsed.model_fields_set) != 1:
        raise Refused(1007, "Exactly one of the message's fields must be set.")
    return parsed


def check_setup(setup: Setup, version: str) -> None:
    """Check a message that parses. Raises `Refused` if it is invalid in this version of the API."""
    name = setup.model.removeprefix("models/")
    if name == setup.model or name not in MODELS:
        words = f"{setup.model} is not found for API version {version}, or is not supported"
        raise Refused(1008, words[:120])
    if setup.proactivity is not None and version != "v1alpha":
        raise Refused(
            1007, "Invalid JSON payload received. Unknown name \"proactivity\" at 'setup'"
        )
    if setup.proactivity is not None and setup.proactivity.proactive_audio is False:
        raise Refused(1007, f"proactive_audio cannot be turned off for {name}.")
    config = setup.generation_config
    if config.response_modalities != ["AUDIO"]:
        raise Refused(1007, "The requested combination of response modalities is not supported.")
    speech = config.speech_config
    if speech is not None and speech.language_code is not None:
        raise Refused(1007, f"Unsupported language code for model {name}")
    voice = speech.voice_config if speech is not None else None
    if voice is not None and voice.prebuilt_voice_config is not None:
        chosen = voice.prebuilt_voice_config.voice_name
        if chosen not in VOICES:
            raise Refused(1007, f"Requested voice {chosen[:40]} is not available for model {name}")
    declarations = list(setup.declarations())
    _check_abilities(name, config, declarations)
    if len(declarations) > MAX_DECLARATIONS:
        raise Refused(1007, "Too many function declarations.")
    names = [declaration.name for declaration in declarations]
    if len(set(names)) != len(names):
        raise Refused(1007, "Duplicate function declaration found.")
    for declaration in declarations:
        _check_declaration(declaration)


def _check_abilities(
    name: str, config: GenerationConfig, declarations: list[FunctionDeclaration]
) -> None:
    """Raises `Refused` for what this model cannot do."""
    if config.enable_affective_dialog:
        raise Refused(1007, f"Not supported by {name}.")
    if config.thinking_config is not None and name == "gemini-3.8-live":
        raise Refused(1007, f"Thinking is not supported by {name}.")
    if name != EXTENDED_THINKING:
        return
    if not (config.thinking_config or {}).get("thinkingLevel"):
        raise Refused(1007, f"{name} needs a thinking level.")
    if any(declaration.behavior == "BLOCKING" for declaration in declarations):
        raise Refused(1007, f"BLOCKING functions are not supported by {name}.")


def waits_for(declaration: FunctionDeclaration, model: str) -> bool:
    """True if this model waits for this function."""
    if declaration.behavior is None:
        return model.removeprefix("models/") in OLDER
    return declaration.behavior == "BLOCKING"


def closes_exchange(model: str) -> bool:
    """True if a session of this model is stuck after it was resumed in the middle of a call."""
    return model.removeprefix("models/") not in OLDER


def check_blob(blob: Blob) -> None:
    """Raises `Refused` for data that is not audio."""
    if not _MIME.fullmatch(blob.mime_type):
        raise Refused(1007, f"Unsupported mime type {blob.mime_type[:60]}")
    if blob.mime_type != "audio/pcm;rate=16000":
        raise Refused(1007, "Sound must be 16 kHz here: other rates are unverified.")


def _check_declaration(declaration: FunctionDeclaration) -> None:
    if not _NAME.fullmatch(declaration.name):
        raise Refused(1007, f"Invalid function name {declaration.name[:60]!r}")
    if declaration.parameters is not None:
        if declaration.parameters_json_schema is not None:
            raise Refused(1007, "parameters and parametersJsonSchema exclude each other.")
        if declaration.parameters.type != "OBJECT" or not declaration.parameters.properties:
            words = "parameters.properties: should be non-empty for OBJECT type"
            raise Refused(1007, words)
        _check_schema(declaration.parameters, declaration.name)


def _check_schema(schema: Schema, place: str) -> None:
    if schema.required is not None and not schema.required:
        raise Refused(1008, f"{place[:60]}.required: must not be empty.")
    if schema.type == "ARRAY" and schema.items is None:
        raise Refused(1007, f"{place[:60]}.items: missing field.")
    if schema.enum is not None and (schema.type != "STRING" or "" in schema.enum):
        raise Refused(1007, f"{place[:60]}.enum: only allowed for STRING type, no empty values.")
    if schema.required is not None and not set(schema.required) <= set(schema.properties or {}):
        raise Refused(1007, f"{place[:60]}.required: property is not defined.")
    for name, inner in (schema.properties or {}).items():
        if not _PARAMETER.fullmatch(name):
            raise Refused(1007, f"{place[:60]}.properties: invalid name {name[:40]!r}")
        _check_schema(inner, f"{place}.{name}")
    if schema.items is not None:
        _check_schema(schema.items, f"{place}.items")
    for inner in schema.any_of or ():
        _check_schema(inner, f"{place}.anyOf")
