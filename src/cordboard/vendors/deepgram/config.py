"""The sections of Deepgram: Voice Agent, the streaming recognisers and the voices.

`listen`, `think` and `speak` of the agent look as in Deepgram's own Settings message (deepgram-sdk
7.17, `agent/v1/types/agent_v1settings*.py`), so its documentation applies to them. Its audio
formats are fixed: a telephone's G.711 both ways. Prompt, greeting and functions come from the
context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, SecretStr, Tag, model_validator

from cordboard.config.patterns import SECURE_URL
from cordboard.config.section import Section
from cordboard.config.sections.model_ends import (
    ANTHROPIC_MODEL_ENDS,
    OPENAI_MODEL_ENDS,
    end_in,
)
from cordboard.config.sections.parts import part_type
from cordboard.config.sections.realtime import RealtimeProvider, SlowResponse
from cordboard.config.sections.service import Keyterms, Service

FLUX_VOICE = "flux-"
"""Prefix of the names of the voices of speech family `v2`."""
_ThinkType: TypeAlias = Literal[
    "open_ai", "anthropic", "google", "groq", "nvidia", "aws_bedrock", "deepgram"
]
_REASONING: tuple[_ThinkType, ...] = ("open_ai", "groq", "deepgram")
_ONLY_V1 = ("language", "smart_format")
_ONLY_V2 = ("language_hints", "eot_threshold", "eager_eot_threshold", "eot_timeout_ms")
_MODEL_ENDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "open_ai": ("openai.com", OPENAI_MODEL_ENDS),
    "anthropic": ("anthropic.com", ANTHROPIC_MODEL_ENDS),
}
"""Vendor of a model that Deepgram uses → its domain, and the announced ends of its models."""
_Term = Annotated[str, Field(min_length=1, max_length=200)]


class DeepgramEndpoint(Section):
    """A model or voice that Deepgram reaches with your own account."""

    url: str = Field(
        pattern=SECURE_URL, description="Its address: `https://…`, or `wss://…` for voices."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Headers that Deepgram sends, such as `authorization`."
    )


class DeepgramListenProvider(Section):
    """A recogniser: Flux, which also decides the end of the caller's turn, or Nova and its like."""

    version: Literal["v1", "v2"] = Field("v2", description="`v2` = Flux; `v1` = Nova and its like.")
    type: Literal["deepgram"] = Field("deepgram", description="Whose recogniser.")
    model: str | None = Field(
        None,
        min_length=1,
        description="The recogniser; left out: `flux-general-en` (`v2`), `nova-3` (`v1`). "
        "`flux-general-multi` knows several languages.",
    )
    keyterms: tuple[_Term, ...] = Field((), max_length=100, description="Words to expect.")
    language: str | None = Field(
        None, min_length=2, description="`v1`: the caller's language: `en`, `de`, ... or `multi`."
    )
    smart_format: bool | None = Field(
        None, description="`v1`: numbers, dates, ... are written as one writes them."
    )
    language_hints: tuple[_Term, ...] = Field(
        (), max_length=20, description="`v2`: languages to expect, for `flux-general-multi`."
    )
    eot_threshold: float | None = Field(
        None,
        ge=0.5,
        le=1,
        description="`v2`: certainty needed for the end of a turn (Deepgram's own: 0.7).",
    )
    eager_eot_threshold: float | None = Field(
        None,
        ge=0.3,
        le=0.9,
        description="`v2`: certainty needed to begin the answer early.",
    )
    eot_timeout_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="`v2`: silence that always ends a turn (Deepgram's own: 5000).",
    )

    @model_validator(mode="after")
    def _settings_of_its_version(self) -> Self:
        for name in _ONLY_V2 if self.version == "v1" else _ONLY_V1:
            if getattr(self, name) not in (None, ()):
                raise ValueError(f"{name}: version {self.version} of the recogniser takes none")
        return self

    @property
    def recogniser(self) -> str:
        """The model, named or default."""
        return self.model or {"v1": "nova-3", "v2": "flux-general-en"}[self.version]


class DeepgramListen(Section):
    """The recogniser of the agent."""

    provider: DeepgramListenProvider = Field(
        DeepgramListenProvider(), description="The recogniser."
    )


class BedrockCredentials(Section):
    """Credentials of AWS, which Deepgram uses for Bedrock."""

    type: Literal["iam", "sts"] = Field(description="`iam` = long-lived, `sts` = temporary.")
    region: str = Field(min_length=1, description="AWS region, such as `eu-central-1`.")
    access_key_id: SecretStr = Field(description="Access key.")
    secret_access_key: SecretStr = Field(description="Secret of the access key.")
    session_token: SecretStr | None = Field(None, description="Session token, for `sts`.")


class DeepgramThinkProvider(Section):
    """A language model."""

    type: _ThinkType = Field("open_ai", description="Whose model.")
    model: str = Field("gpt-5.4-mini", min_length=1, description="The model.")
    version: str | None = Field(None, description="Of its interface; Deepgram's own if left out.")
    temperature: float | None = Field(None, ge=0, le=2, description="Randomness of its words.")
    reasoning_mode: Literal["none", "minimal", "low", "medium", "high"] | None = Field(
        None, description="Amount of reasoning; `open_ai`, `groq`, `deepgram` only."
    )
    voice_prompt_opt_out: bool | None = Field(
        None, description="`deepgram` only: send the prompt without Deepgram's own words before it."
    )

    credentials: BedrockCredentials | None = Field(
        None, description="`aws_bedrock` only: your account at AWS."
    )

    @model_validator(mode="after")
    def _settings_of_its_type(self) -> Self:
        given = self.model_fields_set
        if "type" in given and self.type != "open_ai" and "model" not in given:
            raise ValueError(f"model: missing; the model of {self.type} must be named")
        if self.reasoning_mode is not None and self.type not in _REASONING:
            raise ValueError(f"reasoning_mode: {self.type} takes none")
        if self.voice_prompt_opt_out is not None and self.type != "deepgram":
            raise ValueError(f"voice_prompt_opt_out: {self.type} takes none")
        if self.credentials is not None and self.type != "aws_bedrock":
            raise ValueError(f"credentials: {self.type} takes none")
        return self


class DeepgramThink(Section):
    """The language model of the agent."""

    provider: DeepgramThinkProvider = Field(
        DeepgramThinkProvider(), description="The language model."
    )
    endpoint: DeepgramEndpoint | None = Field(
        None, description="Address of the model, if it is used with your own account."
    )
    context_length: Literal["max"] | Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Characters of the conversation that are kept, or `max`; with `endpoint` only.",
    )

    @model_validator(mode="after")
    def _length_of_your_own(self) -> Self:
        if self.context_length is not None and self.endpoint is None:
            raise ValueError("context_length: it counts with an `endpoint` only")
        if self.provider.type == "aws_bedrock" and self.endpoint is None:
            raise ValueError("endpoint: missing; Deepgram reaches Bedrock in your own account only")
        return self


class DeepgramVoice(Section):
    """A voice of Deepgram's: Aura, or Flux."""

    type: Literal["deepgram"] = Field("deepgram", description="Whose voice.")
    version: Literal["v1", "v2"] | None = Field(
        None, description="`v1` = Aura, `v2` = Flux; left out: as the name of the voice says."
    )
    model: str = Field("aura-2-thalia-en", min_length=1, description="The voice.")
    speed: float | None = Field(None, ge=0.7, le=1.5, description="Speed of speech; 1 = usual.")
    expressivity: int | None = Field(
        None, ge=-2, le=2, description="Flux only: from calm (-2) to lively (2)."
    )


class ElevenLabsAgentVoice(Section):
    """A voice of ElevenLabs, named by `endpoint.url`."""

    type: Literal["eleven_labs"] = Field(description="Whose voice.")
    model_id: str = Field("eleven_turbo_v2_5", min_length=1, description="The model.")
    language: str | None = Field(None, description="The language of the answers.")


class CartesiaVoiceId(Section):
    """The choice of a Cartesia voice."""

    mode: str = Field("id", description="Kind of the name.")
    id: str = Field(min_length=1, description="The voice's id.")


class CartesiaVoice(Section):
    """A voice of Cartesia."""

    type: Literal["cartesia"] = Field(description="Whose voice.")
    model_id: str = Field(min_length=1, description="The model, such as `sonic-3`.")
    voice: CartesiaVoiceId = Field(description="Which voice.")
    language: str | None = Field(None, description="The language of the answers.")
    volume: float | None = Field(None, ge=0, description="Volume.")


class OpenAIAgentVoice(Section):
    """A voice of OpenAI's interface. OpenAI's own models of this interface end on 2027-01-06;
    compatible services have others."""

    type: Literal["open_ai"] = Field(description="Whose voice.")
    model: str = Field(min_length=1, description="The model.")
    voice: str = Field("alloy", min_length=1, description="Which voice.")


class DeepgramSpeak(Section):
    """The voice of the agent."""

    provider: Annotated[
        Annotated[DeepgramVoice, Tag("deepgram")]
        | Annotated[ElevenLabsAgentVoice, Tag("eleven_labs")]
        | Annotated[CartesiaVoice, Tag("cartesia")]
        | Annotated[OpenAIAgentVoice, Tag("open_ai")],
        Discriminator(part_type),
    ] = Field(DeepgramVoice(), description="The voice; `type` names its vendor.")
    endpoint: DeepgramEndpoint | None = Field(
        None, description="Address of the voice, if it is used with your own account."
    )


class DeepgramAgentProvider(RealtimeProvider):
    """Deepgram Voice Agent: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)
    domain: ClassVar[str] = "deepgram.com"
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Token ")

    type: Literal["deepgram_agent"] = Field(description="The kind of provider.")
    slow_response: SlowResponse = Field(
        "provider",
        description="Voice of the fillers while a tool is slow: `provider` = Deepgram, with the "
        "agent's own voice; `engine` = the engine's voice; `off` = no fillers.",
    )
    language: str | None = Field(
        None,
        min_length=2,
        description="Of the whole agent, as older accounts want it; not with Flux. Better said in "
        "`listen` and `speak`.",
    )
    listen: DeepgramListen = Field(DeepgramListen(), description="The recogniser.")
    think: DeepgramThink = Field(DeepgramThink(), description="The language model.")
    think_fallbacks: tuple[DeepgramThink, ...] = Field(
        (),
        max_length=5,
        description="Models that Deepgram asks in turn when the first one fails.",
    )
    speak: DeepgramSpeak = Field(DeepgramSpeak(), description="The voice.")
    speak_fallbacks: tuple[DeepgramSpeak, ...] = Field(
        (),
        max_length=5,
        description="Voices that Deepgram uses in turn when the first one fails.",
    )
    tags: tuple[_Term, ...] = Field(
        (), max_length=20, description="Tags of the session, for Deepgram's own reports."
    )
    experimental: bool | None = Field(None, description="Deepgram's experimental features.")
    mip_opt_out: bool | None = Field(
        None, description="Keep the calls out of Deepgram's Model Improvement Program."
    )

    @property
    def paid_models(self) -> tuple[str, ...]:
        return (self.think.provider.model,)

    @property
    def ending_models(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        thinking, speaking = (
            (self.think, *self.think_fallbacks),
            (self.speak, *self.speak_fallbacks),
        )
        parts: tuple[DeepgramThink | DeepgramSpeak, ...] = (*thinking, *speaking)
        for part in parts:
            domain, ends = _MODEL_ENDS.get(part.provider.type, ("", {}))
            model = getattr(part.provider, "model", "")
            host = urlsplit(part.endpoint.url).hostname or "" if part.endpoint else domain
            if f".{host}".endswith(f".{domain}") and (day := end_in(ends, model)):
                found[model] = day
        return found

    @model_validator(mode="after")
    def _language_once(self) -> Self:
        if self.language is not None and self.listen.provider.version == "v2":
            raise ValueError("language: not with Flux; use listen.provider.language_hints")
        return self


class DeepgramStt(Service):
    """Deepgram's streaming recogniser (`/v1/listen`).

    Its encoding and sample rate are those of the line; `interim_results` is always on.
    """

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)
    domain: ClassVar[str] = "deepgram.com"
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Token ")

    type: Literal["deepgram"] = Field(description="The kind of recogniser.")
    model: str = Field("nova-3", min_length=1, description="Deepgram's `model`.")
    language: str = Field(
        "en", min_length=1, description="Deepgram's `language`: a BCP-47 tag, or `multi`."
    )
    keyterms: Keyterms = Field(
        (), description="Names and words of the domain, as they should be written (`keyterm`)."
    )
    smart_format: bool = Field(
        True, description="Deepgram's `smart_format`: numbers, dates and the like as one writes."
    )
    punctuate: bool = Field(True, description="Deepgram's `punctuate`.")
    numerals: bool = Field(False, description="Deepgram's `numerals`: digits for number words.")
    profanity_filter: bool = Field(False, description="Deepgram's `profanity_filter`.")
    endpointing: int = Field(
        300,
        ge=0,
        le=60_000,
        description="Deepgram's `endpointing`: milliseconds of silence after which it finalizes by "
        "itself; 0 = never. The engine decides the end of the turn independently.",
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")


class DeepgramFluxStt(Service):
    """Deepgram Flux (`/v2/listen`): it also decides the end of the caller's turn."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)
    domain: ClassVar[str] = "deepgram.com"
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Token ")

    type: Literal["deepgram_flux"] = Field(description="The kind of recogniser.")
    model: str = Field(
        "flux-general-en",
        min_length=1,
        description="Deepgram's `model`: `flux-general-en` or `flux-general-multi`.",
    )
    language_hints: tuple[str, ...] = Field(
        (), max_length=20, description="Deepgram's `language_hint`: for `flux-general-multi`."
    )
    keyterms: Keyterms = Field(
        (), description="Names and words of the domain, as they should be written (`keyterm`)."
    )
    eot_threshold: float | None = Field(
        None,
        ge=0.5,
        le=1.0,
        description="Deepgram's `eot_threshold`: certainty needed for the end of the turn. Left "
        "out: Deepgram's default, 0.7.",
    )
    eager_eot_threshold: float | None = Field(
        None,
        ge=0.3,
        le=0.9,
        description="Deepgram's `eager_eot_threshold`: certainty needed for an early verdict. Left "
        "out: no early verdicts.",
    )
    eot_timeout_ms: int | None = Field(
        None,
        ge=500,
        le=60_000,
        description="Deepgram's `eot_timeout_ms`: silence after which the turn is over in any "
        "case. Left out: Deepgram's default, 5000.",
    )
    end_of_turn: Literal["service", "engine"] = Field(
        "service",
        description="Decides the end of the caller's turn: `service` = Flux, and the "
        "engine only if Flux says nothing for long; `engine` = as with all other recognisers.",
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")

    @model_validator(mode="after")
    def _eager_is_earlier(self) -> Self:
        eager, sure = self.eager_eot_threshold, self.eot_threshold
        if eager is not None and eager > (0.7 if sure is None else sure):
            raise ValueError("eager_eot_threshold: expected at most eot_threshold (left out: 0.7)")
        return self


class DeepgramTts(Service):
    """Deepgram's streaming speech synthesis (`/v1/speak`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)
    domain: ClassVar[str] = "deepgram.com"
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Token ")

    type: Literal["deepgram"] = Field(description="The kind of voice.")
    model: str = Field(
        "aura-2-thalia-en", min_length=1, description="Deepgram's `model`: it names the voice."
    )
    speed: float | None = Field(
        None, ge=0.7, le=1.5, description="Deepgram's `speed`. Not for all languages."
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")
