"""The messages that Deepgram Voice Agent accepts from its clients, field by field.

Written from deepgram-sdk 7.17 (`agent/v1/types`) and the service's documentation of November 2026.
Any other field is refused, as by the service (`UNPARSABLE_CLIENT_MESSAGE`); messages that
parse but are invalid are refused in `objections` (`INVALID_SETTINGS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_PROMPT_CHARACTERS = 25_000
"""Longest prompt for a managed model; the rest is cut, with a warning."""
_LISTEN_V1 = re.compile(r"nova-[23](-[a-z]+)?|nova|enhanced|base")
_LISTEN_V2 = re.compile(r"flux-general-(en|multi)")


def _voices(pattern: str, names: str) -> frozenset[str]:
    return frozenset(pattern.format(name) for name in names.split())


VOICES = {
    "v1": _voices(
        "aura-{}-en",
        "asteria luna stella athena hera orion arcas perseus angus orpheus helios zeus",
    )
    | _voices(
        "aura-2-{}-en",
        "amalthea andromeda apollo arcas aries asteria athena atlas aurora callista "
        "cora cordelia delia draco electra harmonia helena hera hermes hyperion iris "
        "janus juno jupiter luna mars minerva neptune odysseus ophelia orion orpheus "
        "pandora phoebe pluto saturn selene thalia theia vesta zeus",
    )
    | _voices(
        "aura-2-{}-es",
        "sirio nestor carina celeste alvaro diana aquila selena estrella javier",
    ),
    "v2": _voices(
        "flux-{}-en",
        "alexis bree brittany brooke bruce cliff cole colin conor donovan drew elise "
        "gemma haley hannah heather jack kai kelsey kit maeve marcelo marcus meena "
        "meghan miles naveen paige priya rufus sean sharon sienna tanner wade wes",
    ),
}
"""Of deepgram-sdk 7.17; the service may have more."""
MANAGED = {
    "open_ai": re.compile(r"gpt-(5(\.4)?(-mini|-nano)?|4\.1(-mini|-nano)?|4o(-mini)?)"),
    "anthropic": re.compile(r"[a-z]+(-[0-9a-z.]+)+"),
    "google": re.compile(r"gemini-(2\.0-flash|2\.0-flash-lite|2\.5-flash)"),
    "nvidia": re.compile(r"[a-z]+[-/a-z0-9.]+"),
    "groq": re.compile(r"openai/gpt-oss-20b"),
    "deepgram": re.compile(r"think-fast|phonellm-mini-alpha-2-fp8"),
}
_RATES = (8000, 16000, 24000, 32000, 44100, 48000)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AudioInput(_Strict):
    encoding: Literal[
        "linear16",
        "linear32",
        "flac",
        "alaw",
        "mulaw",
        "amr-nb",
        "amr-wb",
        "opus",
        "ogg-opus",
        "speex",
        "g729",
    ]
    sample_rate: int


class AudioOutput(_Strict):
    encoding: Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"] = "linear16"
    sample_rate: int = 24000
    bitrate: int | None = None
    container: Literal["none", "wav", "ogg"] = "wav"


class Audio(_Strict):
    input: AudioInput = AudioInput(encoding="linear16", sample_rate=24000)
    output: AudioOutput = AudioOutput()


class ListenV1(_Strict):
    version: Literal["v1"] = "v1"
    type: Literal["deepgram"]
    model: str = "nova-3"
    language: str | None = None
    keyterms: list[str] = []
    smart_format: bool = False


class ListenV2(_Strict):
    version: Literal["v2"]
    type: Literal["deepgram"]
    model: str
    language_hints: list[str] = []
    eot_threshold: float = 0.7
    eager_eot_threshold: float | None = None
    eot_timeout_ms: int = 5000
    keyterms: list[str] = []


class Listen(_Strict):
    provider: ListenV1 | ListenV2


class Endpoint(_Strict):
    url: str
    headers: dict[str, str] = {}


class FunctionEndpoint(Endpoint):
    method: str = "post"


class Function(_Strict):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    endpoint: FunctionEndpoint | None = None
    defer_until_eot: bool = False


class ThinkProvider(_Strict):
    type: Literal["open_ai", "anthropic", "google", "groq", "nvidia", "aws_bedrock", "deepgram"]
    model: str
    version: str | None = None
    temperature: float | None = None
    reasoning_mode: Literal["none", "minimal", "low", "medium", "high"] | None = None
    credentials: dict[str, str] | None = None
    voice_prompt_opt_out: bool | None = None


class Think(_Strict):
    provider: ThinkProvider
    endpoint: Endpoint | None = None
    functions: list[Function] = []
    prompt: str = ""
    context_length: Literal["max"] | float | None = None


class DeepgramSpeaks(_Strict):
    type: Literal["deepgram"]
    version: Literal["v1", "v2"] = "v1"
    model: str
    speed: float | None = None
    expressivity: int | None = None


class CartesiaVoice(_Strict):
    mode: str
    id: str


class OtherSpeaks(_Strict):
    type: Literal["eleven_labs", "cartesia", "open_ai", "aws_polly"]
    version: str | None = None
    model: str | None = None
    model_id: str | None = None
    voice: str | CartesiaVoice | None = None
    language: str | None = None
    language_code: str | None = None
    volume: float | None = None
    engine: str | None = None
    credentials: dict[str, str] | None = None


class Speak(_Strict):
    provider: DeepgramSpeaks | OtherSpeaks
    endpoint: Endpoint | None = None


class SaidBefore(_Strict):
    type: Literal["History"]
    role: Literal["user", "assistant"]
    content: str


class CalledBefore(_Strict):
    id: str
    name: str
    client_side: bool
    arguments: str
    response: str
    thought_signature: str | None = None


class CallsBefore(_Strict):
    type: Literal["History"]
    function_calls: list[CalledBefore]


class Context(_Strict):
    messages: list[SaidBefore | CallsBefore] = []


class Agent(_Strict):
    language: str | None = None
    context: Context | None = None
    listen: Listen = Listen(provider=ListenV1(type="deepgram"))
    think: Think | list[Think]
    speak: Speak | list[Speak] = []
    greeting: str = ""

    def thinks(self) -> list[Think]:
        return self.think if isinstance(self.think, list) else [self.think]

    def speaks(self) -> list[Speak]:
        return self.speak if isinstance(self.speak, list) else [self.speak]


class Flags(_Strict):
    history: bool = True


class Settings(_Strict):
    type: Literal["Settings"]
    tags: list[str] = []
    experimental: bool = False
    flags: Flags = Flags()
    mip_opt_out: bool = False
    audio: Audio
    agent: Agent


class KeepAlive(_Strict):
    type: Literal["KeepAlive"]


class InjectUserMessage(_Strict):
    type: Literal["InjectUserMessage"]
    content: Annotated[str, Field(min_length=1)]


class InjectAgentMessage(_Strict):
    type: Literal["InjectAgentMessage"]
    message: Annotated[str, Field(min_length=1)]
    behavior: Literal["default", "queue", "interrupt"] = "default"


class FunctionCallResponse(_Strict):
    type: Literal["FunctionCallResponse"]
    id: str
    name: str
    content: str


class UpdatePrompt(_Strict):
    type: Literal["UpdatePrompt"]
    prompt: str


ClientMessage: TypeAlias = (
    Settings
    | KeepAlive
    | InjectUserMessage
    | InjectAgentMessage
    | FunctionCallResponse
    | UpdatePrompt
)
READER: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="type")]
)
"""Raises `pydantic.ValidationError` for messages that the service would not accept."""


def objections(settings: Settings) -> Iterator[str]:
    """Return the errors of settings that parse."""
    agent = settings.agent
    if settings.audio.input.sample_rate not in _RATES:
        yield "audio.input.sample_rate is not supported"
    if settings.audio.output.encoding in ("mulaw", "alaw") and (
        settings.audio.output.sample_rate not in (8000, 16000)
        or settings.audio.output.container == "ogg"
    ):
        yield "audio.output: encoding, sample_rate and container do not fit together"
    yield from _of_listen(agent)
    for think in agent.thinks():
        yield from _of_think(think)
    for speak in agent.speaks():
        if isinstance(speak.provider, DeepgramSpeaks):
            if speak.provider.model not in VOICES[speak.provider.version]:
                yield f"agent.speak.provider.model {speak.provider.model!r} does not exist"
            if speak.provider.speed is not None and not 0.7 <= speak.provider.speed <= 1.5:
                yield "agent.speak.provider.speed is out of range"
        elif speak.endpoint is None:
            yield "agent.speak.endpoint is required for this provider"


def _of_listen(agent: Agent) -> Iterator[str]:
    listen = agent.listen.provider
    if isinstance(listen, ListenV1):
        if not _LISTEN_V1.fullmatch(listen.model):
            yield f"agent.listen.provider.model {listen.model!r} does not exist"
        return
    if not _LISTEN_V2.fullmatch(listen.model):
        yield f"agent.listen.provider.model {listen.model!r} does not exist"
    if agent.language is not None:
        yield "agent.language is not supported with this listen provider"
    if listen.language_hints and listen.model != "flux-general-multi":
        yield "language_hints are supported with flux-general-multi only"
    if not 0.5 <= listen.eot_threshold <= 1:
        yield "eot_threshold is out of range"
    if listen.eager_eot_threshold is not None and not 0.3 <= listen.eager_eot_threshold <= 0.9:
        yield "eager_eot_threshold is out of range"


def _of_think(think: Think) -> Iterator[str]:
    known = MANAGED.get(think.provider.type)
    if think.endpoint is None:
        if known is None or not known.fullmatch(think.provider.model):
            yield f"agent.think.provider.model {think.provider.model!r} is not managed"
        if think.context_length is not None:
            yield "agent.think.context_length needs a custom endpoint"
    if think.provider.temperature is not None and not 0 <= think.provider.temperature <= 2:
        yield "agent.think.provider.temperature is out of range"
    if think.provider.credentials is not None and think.provider.type != "aws_bedrock":
        yield "agent.think.provider.credentials are not supported for this provider"
    names = [function.name for function in think.functions]
    if len(names) != len(set(names)):
        yield "a function is there twice"
    for function in think.functions:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function.name):
            yield f"function {function.name!r}: not a name"
        if function.parameters is not None and function.parameters.get("type") != "object":
            yield f"function {function.name!r}: parameters must be an object"
        if _has_default(function.parameters):
            yield f"function {function.name!r}: default is not supported"


def _has_default(schema: Any) -> bool:
    """True if any schema within has a default (a property named `default` does not count)."""
    if isinstance(schema, list):
        return any(map(_has_default, schema))
    if not isinstance(schema, dict):
        return False
    inner = [value for key, value in schema.items() if key not in ("properties", "enum")]
    properties = schema.get("properties")
    inner += list(properties.values()) if isinstance(properties, dict) else []
    return "default" in schema or any(map(_has_default, inner))
