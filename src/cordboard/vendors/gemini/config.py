"""The sections of Gemini: Live and `streamGenerateContent`, by Google's own names in snake case.

Source of Live: the types of google-genai 3.4 (`LiveConnectConfig` and its parts) and Google's pages
on the Live API. A setting that is left out is not sent: the service's own default counts.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pydantic import Field, model_validator

from cordboard.config.patterns import API_VERSION, HARM_CATEGORY, LANGUAGE_TAG
from cordboard.config.section import Section
from cordboard.config.sections.language_model import ModelBrain, Temperature, TopP
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.vendors.gemini.models import live_model

StartSensitivity: TypeAlias = Literal["START_SENSITIVITY_HIGH", "START_SENSITIVITY_LOW"]
EndSensitivity: TypeAlias = Literal["END_SENSITIVITY_HIGH", "END_SENSITIVITY_LOW"]
ActivityHandling: TypeAlias = Literal["START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"]
TurnCoverage: TypeAlias = Literal[
    "TURN_INCLUDES_ONLY_ACTIVITY",
    "TURN_INCLUDES_ALL_INPUT",
    "TURN_INCLUDES_AUDIO_ACTIVITY_AND_ALL_VIDEO",
]
FunctionBehavior: TypeAlias = Literal["by_timeout", "blocking", "non_blocking", "by_effects"]


class AutomaticActivityDetection(Section):
    """Gemini's detection of the caller's turns."""

    disabled: Literal[False] = Field(
        False,
        description="Always false: without Gemini's own detection it would not know the end of "
        "the caller's turn.",
    )
    start_of_speech_sensitivity: StartSensitivity | None = Field(
        None, description="Sensitivity for the beginning of speech."
    )
    end_of_speech_sensitivity: EndSensitivity | None = Field(
        None, description="Sensitivity for the end of speech."
    )
    prefix_padding_ms: int | None = Field(
        None, ge=0, le=5_000, description="Speech of this length counts as begun."
    )
    silence_duration_ms: int | None = Field(
        None, ge=0, le=10_000, description="Silence of this length ends a turn."
    )


class RealtimeInputConfig(Section):
    """Gemini's handling of the caller's input."""

    automatic_activity_detection: AutomaticActivityDetection = Field(
        default_factory=lambda: AutomaticActivityDetection(),
        description="Gemini's detection of the caller's turns.",
    )
    activity_handling: ActivityHandling | None = Field(
        None, description="Whether the caller's speech cuts the answer. Left out: it does."
    )
    turn_coverage: TurnCoverage | None = Field(
        None, description="Content of the caller's turn: speech alone, or all sound."
    )


class ContextWindowCompression(Section):
    """Keeps long conversations within the model's context; without it an audio-only call ends after
    15 minutes."""

    enabled: bool = Field(True, description="Whether old turns are dropped when it gets long.")
    trigger_tokens: int | None = Field(
        None, ge=1_000, le=2_000_000, description="Size that triggers it. Left out: Gemini's own."
    )
    target_tokens: int | None = Field(
        None,
        ge=500,
        le=2_000_000,
        description="Size that is kept (`sliding_window.target_tokens`). Left out: half of it.",
    )


class Proactivity(Section):
    """The model's right to keep silent."""

    proactive_audio: bool = Field(
        False,
        description="Whether it may leave speech unanswered that is not meant for it; only with "
        "`api_version: v1alpha`. gemini-3.8-live always may.",
    )


class ThinkingConfig(Section):
    """`thinking_config:` of Gemini."""

    thinking_level: Literal["minimal", "low", "medium", "high", "xhigh"] | None = Field(
        None, description="Amount of thinking before the answer."
    )
    thinking_budget: int | None = Field(
        None, ge=-1, description="Tokens to think with, for older models; 0 = none, -1 = as needed."
    )


class SafetySetting(Section):
    """One category of harm and the level from which it is blocked."""

    category: str = Field(pattern=HARM_CATEGORY, description="Such as `HARM_CATEGORY_HARASSMENT`.")
    threshold: Literal[
        "BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"
    ] = Field(description="Level from which it is blocked.")


class GeminiLiveProvider(RealtimeProvider):
    """Gemini Live: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    domain: ClassVar[str] = "googleapis.com"
    key_header: ClassVar[tuple[str, str]] = ("x-goog-api-key", "")

    type: Literal["gemini_live"] = Field(description="The kind of provider.")
    api_version: str = Field(
        "v1beta",
        pattern=API_VERSION,
        description="Version in the address: `v1beta`, `v1alpha`, `v1`. Google documents the Live "
        "API for `v1beta`.",
    )
    model: str = Field("gemini-3.8-live", min_length=1, description="Google's `model`.")
    voice_name: str = Field(
        "", max_length=100, description="Google's `voice_name`, such as `Kore`. Empty: the model's."
    )
    language_code: str = Field(
        "",
        pattern=LANGUAGE_TAG,
        description="Google's `language_code` of the speech. Native-audio models choose the "
        "language by themselves and close the call (1007) when it is set.",
    )
    temperature: float | None = Field(None, ge=0, le=2, description="Google's `temperature`.")
    top_p: float | None = Field(None, ge=0, le=1, description="Google's `top_p`.")
    top_k: int | None = Field(None, ge=1, le=1_000, description="Google's `top_k`.")
    max_output_tokens: int | None = Field(
        None, ge=1, le=65_536, description="Google's `max_output_tokens`, of one answer."
    )
    realtime_input_config: RealtimeInputConfig = Field(
        default_factory=lambda: RealtimeInputConfig(),
        description="Handling of the caller's input.",
    )
    context_window_compression: ContextWindowCompression = Field(
        default_factory=lambda: ContextWindowCompression(),
        description="Keeps long conversations within the model's context.",
    )
    session_resumption: bool = Field(
        True, description="Whether a lost connection resumes its session, by Gemini's handle."
    )
    function_behavior: FunctionBehavior = Field(
        "by_timeout",
        description="Whether the model waits for a tool. `blocking`: it waits, and for at most ten "
        "seconds does not hear the caller; `non_blocking`: the conversation continues, and the "
        "model may answer without the result; `by_effects`: it waits for tools that change "
        "something; `by_timeout`: for those, and for all others whose `timeout_ms` is at most ten "
        "seconds.",
    )
    data: Literal["when_needed", "allow"] = Field(
        "when_needed",
        description="Data of a tool's result, which the model is given beside its message, in 8 kB "
        "at most. `when_needed`: only if the message says nothing of it, because the tool has "
        "neither `speech_field` nor `speech_template` and its result is no text; `allow`: always.",
    )
    proactivity: Proactivity = Field(
        default_factory=lambda: Proactivity(), description="Whether the model may keep silent."
    )
    thinking_config: ThinkingConfig | None = Field(
        None,
        description="The model's thinking. gemini-3.8-live takes none; "
        "gemini-3.8-live-extended-thinking needs a level: left out, `low`.",
    )
    safety_settings: tuple[SafetySetting, ...] = Field(
        default=(), description="Google's `safety_settings`. None: the service's own."
    )

    @model_validator(mode="after")
    def _no_language_of_native_audio(self) -> GeminiLiveProvider:
        if self.language_code and "native-audio" in self.model:
            raise ValueError(f"{self.model} takes no language_code: it would close each call")
        return self

    @model_validator(mode="after")
    def _thinking_of_its_model(self) -> GeminiLiveProvider:
        if self.thinking_config is not None and live_model(self.model).thinking == "refused":
            raise ValueError(f"thinking_config: {self.model} takes none, it would close each call")
        return self

    @model_validator(mode="after")
    def _proactivity_of_its_version(self) -> GeminiLiveProvider:
        if self.proactivity.proactive_audio and self.api_version != "v1alpha":
            given = f"api_version {self.api_version}"
            raise ValueError(f"proactivity: expected api_version v1alpha, {given} refuses it")
        return self


class GeminiBrain(ModelBrain):
    """Gemini's `streamGenerateContent`."""

    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    domain: ClassVar[str] = "googleapis.com"
    key_header: ClassVar[tuple[str, str]] = ("x-goog-api-key", "")

    type: Literal["gemini"] = Field(description="The kind of brain.")
    model: str = Field("gemini-3.8-flash", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    top_k: int | None = Field(None, ge=1, description="Number of tokens to sample from.")
    max_output_tokens: int | None = Field(
        None, ge=1, description="Most tokens of one answer, those of thinking included."
    )
    thinking_config: ThinkingConfig | None = Field(None, description="The model's thinking.")
