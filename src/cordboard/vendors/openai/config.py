"""The sections of OpenAI: Realtime, transcription, speech, Chat Completions and Responses.

Names, defaults and limits of Realtime are those of OpenAI's own session object (openai 3.54,
`types/realtime/realtime_session_create_request.py`). Its audio formats are fixed: a telephone's
G.711 both ways, and audio answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from cordboard.config.patterns import LANGUAGE, ToolName
from cordboard.config.section import Section
from cordboard.config.sections.language_model import Effort, ModelBrain, Temperature, TopP
from cordboard.config.sections.model_ends import OPENAI_MODEL_ENDS
from cordboard.config.sections.parts import part_type
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.config.sections.service import Keyterms, Service

_REALTIME_VOICE_MODEL = "gpt-realtime-2.1-mini"
_SPEECH_MODEL = "gpt-4o-mini-tts"
_FASTEST_REALTIME = 1.5


def _kind_of_turns(value: object) -> str | None:
    return part_type(value) or "server_vad"


class InputTranscription(Section):
    """The model that transcribes the caller's words, for the record and the engine's questions. The
    realtime model itself hears the sound."""

    model: str = Field("gpt-transcribe", min_length=1, description="The transcription model.")
    language: str | None = Field(
        None, min_length=2, max_length=8, description="The caller's language (ISO 639-1): `en`."
    )
    languages: tuple[Annotated[str, Field(min_length=2, max_length=8)], ...] = Field(
        (), max_length=20, description="Possible languages, for models that take several."
    )
    prompt: str | None = Field(
        None, max_length=4_000, description="Guides the model's spelling and style."
    )
    keywords: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        (), max_length=200, description="Words to expect, for models that take them."
    )


class NoiseReduction(Section):
    """Filters the caller's sound before it is heard."""

    type: Literal["near_field", "far_field"] = Field(
        "near_field", description="`near_field`: handsets, headsets; `far_field`: hands-free."
    )
    strength: float | None = Field(None, ge=0, le=10, description="OpenAI's own if left out (1).")


class ServerVad(Section):
    """The caller's turn ends after a fixed silence."""

    type: Literal["server_vad"] = Field("server_vad", description="The kind of turn detection.")
    threshold: float = Field(0.5, ge=0, le=1, description="Loudness threshold of speech.")
    prefix_padding_ms: int = Field(
        300, ge=0, le=5_000, description="Sound from before the speech that the model hears too."
    )
    silence_duration_ms: int = Field(
        500, ge=20, le=10_000, description="Silence that ends the caller's turn."
    )
    idle_timeout_ms: int | None = Field(
        None,
        ge=5_000,
        le=30_000,
        description="The model speaks after this much silence of the caller; left out: never.",
    )
    interrupt_response: bool = Field(
        True, description="OpenAI stops its answer by itself when the caller speaks."
    )


class SemanticVad(Section):
    """The caller's turn ends when the words say so."""

    type: Literal["semantic_vad"] = Field(description="The kind of turn detection.")
    eagerness: Literal["low", "medium", "high", "auto"] = Field(
        "auto", description="`low` waits for up to 8 s, `medium` and `auto` 4 s, `high` 2 s."
    )
    interrupt_response: bool = Field(
        True, description="OpenAI stops its answer by itself when the caller speaks."
    )


class Reasoning(Section):
    """Settings of models that think before they speak."""

    effort: Literal["minimal", "low", "medium", "high", "xhigh"] = Field(
        description="Amount of thinking."
    )


class TokenLimits(Section):
    """The largest size of a conversation."""

    post_instructions: int = Field(
        ge=100, le=1_000_000, description="Tokens of the conversation, without instructions."
    )


class RetentionRatio(Section):
    """The kept part of a conversation that has become too long."""

    type: Literal["retention_ratio"] = Field("retention_ratio", description="The kind.")
    retention_ratio: float = Field(ge=0, le=1, description="Kept share of the conversation.")
    token_limits: TokenLimits | None = Field(None, description="OpenAI's own if left out.")


class ChosenFunction(Section):
    """One tool that the model must use."""

    type: Literal["function"] = Field("function", description="The kind of choice.")
    name: ToolName = Field(description="The tool's name.")


TurnDetection = Annotated[
    Annotated[ServerVad, Tag("server_vad")] | Annotated[SemanticVad, Tag("semantic_vad")],
    Discriminator(_kind_of_turns),
]
MaxOutputTokens = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]


class OpenAIRealtimeProvider(RealtimeProvider):
    """OpenAI Realtime: hears and speaks by itself. It repeats given words nearly, but not reliably,
    word for word, so fillers are the engine's unless `slow_response` says otherwise."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai_realtime"] = Field(description="The kind of provider.")
    model: str = Field(
        "gpt-realtime-2.1", min_length=1, max_length=200, description="The Realtime model."
    )
    voice: str = Field(
        "marin",
        min_length=1,
        max_length=200,
        description="`marin`, `cedar`, `alloy`, `ash`, `ballad`, `coral`, `echo`, `sage`, "
        "`shimmer`, `verse`, or the id of a voice of your own (`voice_…`).",
    )
    speed: float = Field(1.0, ge=0.25, le=1.5, description="Speed of speech.")
    greeting: Literal["provider", "engine"] = Field(
        "provider",
        description="Voice of the greeting: `provider` = the model, nearly word for word; "
        "`engine` = the engine's own voice, exactly and at once.",
    )
    transcription: InputTranscription = Field(
        InputTranscription(), description="Transcription of the caller's words."
    )
    noise_reduction: NoiseReduction | None = Field(
        None, description="Filters the caller's sound; left out: none."
    )
    turn_detection: TurnDetection = Field(
        ServerVad(),
        description="Detection of the end of the caller's turn; `type` names the method.",
    )
    max_output_tokens: MaxOutputTokens = Field(
        "inf", description="Tokens of one answer, sound and tool calls included: 1 to 4096 or inf."
    )
    reasoning: Reasoning | None = Field(
        None, description="Only for models that reason; left out: the model's own."
    )
    parallel_tool_calls: bool | None = Field(
        None, description="Only for models that reason; left out: the model's own."
    )
    tool_choice: Literal["auto", "none", "required"] | ChosenFunction = Field(
        "auto",
        description="`auto`, `none`, `required`, or a section that names one tool. The last two "
        "count for the first answer to a turn of the caller: after a tool's result it is `auto`.",
    )
    truncation: Literal["auto", "disabled"] | RetentionRatio = Field(
        "auto", description="Handling of a conversation that is too long for the model."
    )

    @property
    def paid_models(self) -> tuple[str, ...]:
        return self.model, self.transcription.model


class ResponsesReasoning(Section):
    """`reasoning:` of OpenAI's Responses."""

    effort: Effort | None = Field(None, description="Amount of reasoning before the answer.")
    mode: str | None = Field(None, description="`standard` or `pro`.")


class TextSettings(Section):
    """`text:` of OpenAI's Responses."""

    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="Length of the answers."
    )


class Delegation(Section):
    """The Responses model that does the tasks which the talking model delegates: it calls the
    tools."""

    model: str = Field("gpt-5.4-mini", min_length=1, description="The model of Responses.")
    reasoning: ResponsesReasoning | None = Field(None, description="The model's reasoning.")
    text: TextSettings | None = Field(None, description="Form of its answers.")
    max_output_tokens: int | None = Field(
        None, ge=16, description="Most tokens of one answer, those of reasoning included."
    )
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be called at once."
    )
    service_tier: Literal["auto", "default", "flex", "priority"] | None = Field(
        None, description="Service tier that is paid for."
    )


class OpenAILiveProvider(RealtimeProvider):
    """OpenAI Live (GPT-Live): a model that listens and speaks at the same time, and delegates tasks
    to a Responses model. It cannot be held to given words, so fillers are the engine's."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai_live"] = Field(description="The kind of provider.")
    model: str = Field("gpt-live-1", min_length=1, max_length=200, description="The Live model.")
    voice: str = Field(
        "marin",
        min_length=1,
        max_length=200,
        description="`marin`, `cedar`, `alloy`, `beacon`, `gleam`, `willow`, ..., or the id of a "
        "voice of your own (`voice_…`).",
    )
    instructions: str | None = Field(
        None,
        max_length=16_000,
        description="Manner of speech and when to delegate; follows the context's prompt. Left "
        "out: short sentences, and each task is delegated.",
    )
    greeting: Literal["provider", "engine"] = Field(
        "provider",
        description="Voice of the greeting: `provider` = the model, in about these words; "
        "`engine` = the engine's own voice, exactly and at once.",
    )
    delegation: Delegation = Field(
        Delegation(), description="The model that does the tasks and calls the tools."
    )

    @property
    def paid_models(self) -> tuple[str, ...]:
        return self.model, self.delegation.model


class OpenAIStt(Service):
    """OpenAI's transcription of whole utterances (`/v1/audio/transcriptions`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai"] = Field(description="The kind of recogniser.")
    model: str = Field("gpt-transcribe", min_length=1, description="OpenAI's `model`.")
    language: str = Field(
        "en",
        pattern=LANGUAGE,
        description="OpenAI's `language` (ISO-639-1); empty: detected, which takes longer.",
    )
    prompt: str = Field(
        "", max_length=2_000, description="OpenAI's `prompt`: the topic of the conversation."
    )
    keywords: Keyterms = Field(
        (), description="Names and words of the domain, as they should be written (`keywords`)."
    )
    temperature: float | None = Field(None, ge=0, le=1, description="OpenAI's `temperature`.")


class OpenAITts(Service):
    """OpenAI's speech synthesis: a Realtime model that reads given words aloud, or, for other
    models, `/v1/audio/speech`, as compatible services have it."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai"] = Field(description="The kind of voice.")
    model: str = Field(
        "",
        description="The model, or the name of an Azure deployment. Left out: "
        "`gpt-realtime-2.1-mini`, or `gpt-4o-mini-tts` by `speech`.",
    )
    interface: Literal["realtime", "speech"] | None = Field(
        None,
        description="`realtime` = a Realtime model reads the words; `speech` = `/audio/speech`, "
        "whose models OpenAI ends on 2027-01-06. Left out: `realtime` for a model whose name "
        "begins with `gpt-realtime`, and without `model` and `base_url`.",
    )
    voice: str = Field(
        "marin",
        min_length=1,
        description="OpenAI's `voice`: a name, or the id of a voice of your own (`voice_...`).",
    )
    instructions: str = Field(
        "", max_length=4_096, description="OpenAI's `instructions`: style of speech."
    )
    speed: float = Field(
        1.0, ge=0.25, le=4.0, description="OpenAI's `speed`; over Realtime at most 1.5."
    )

    @property
    def chosen_model(self) -> str:
        return self.model or (_REALTIME_VOICE_MODEL if self.over_realtime else _SPEECH_MODEL)

    @property
    def over_realtime(self) -> bool:
        if self.interface is not None:
            return self.interface == "realtime"
        return self.model.startswith("gpt-realtime") or not (self.model or self.base_url)

    @property
    def paid_models(self) -> tuple[str, ...]:
        return (self.chosen_model,)

    @model_validator(mode="after")
    def _not_too_fast(self) -> Self:
        if self.over_realtime and self.speed > _FASTEST_REALTIME:
            raise ValueError(f"speed: over Realtime at most {_FASTEST_REALTIME}")
        return self


LOCAL_COLD_START_MS = 60_000


class OpenAIChatBrain(ModelBrain):
    """Chat Completions, by OpenAI or any service that speaks like it (Ollama, vLLM, llama.cpp).

    With a `base_url` no key is needed.
    """

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai_chat"] = Field(description="The kind of brain.")
    model: str = Field("gpt-5.4-mini", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    max_completion_tokens: int | None = Field(
        None, ge=1, description="Most tokens of one answer, those of reasoning included."
    )
    max_tokens: int | None = Field(
        None, ge=1, description="The same for services that do not know `max_completion_tokens`."
    )
    reasoning_effort: Effort | None = Field(
        None, description="Amount of reasoning before the answer."
    )
    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="Length of the answers."
    )
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be called at once."
    )
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = Field(
        None, description="Service tier that is paid for."
    )

    cold_start_ms: int | None = Field(
        None,
        ge=0,
        le=600_000,
        description="In place of `first_token_ms`, for a server that has not answered for four "
        "minutes: it may have to load its model. Such a server also reads the prompts ahead, at "
        "start-up. 0 = neither. Left out: 60000 with a `base_url` and no `api_key`, otherwise 0.",
    )

    @property
    def needs_key(self) -> bool:
        """A service of your own needs no key."""
        return self.base_url is None and super().needs_key


class OpenAIResponsesBrain(ModelBrain):
    """OpenAI's Responses."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    domain: ClassVar[str] = "openai.com"
    model_ends: ClassVar[Mapping[str, str]] = OPENAI_MODEL_ENDS

    type: Literal["openai_responses"] = Field(description="The kind of brain.")
    model: str = Field("gpt-5.4-mini", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    max_output_tokens: int | None = Field(
        None, ge=16, description="Most tokens of one answer, those of reasoning included."
    )
    reasoning: ResponsesReasoning | None = Field(None, description="The model's reasoning.")
    text: TextSettings | None = Field(None, description="Form of the answers.")
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be called at once."
    )
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = Field(
        None, description="Service tier that is paid for."
    )
    store: bool = Field(False, description="Whether OpenAI keeps the answers.")
