"""The sections of ElevenLabs: Agents and the voices.

An agent lives at ElevenLabs, with its tools, its language model and its sound formats; `cordboard
elevenlabs sync` writes the needs of a configuration there. The agent must permit the settings that
a call changes (`overrides` and those below); the sync command configures that too. Names and ranges
are of the service's AsyncAPI document (`ConversationConfigClientOverride`) and of the types of its
SDK, version 2.78.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from cordboard.config.patterns import LANGUAGE, VOICE_ID, VariableName
from cordboard.config.section import Section
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.config.sections.service import Service

ContextText: TypeAlias = Literal["prompt", "first_message"]
"""The texts of a context that may be sent with each call."""
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]


class ElevenLabsAgentVoice(Section):
    """The agent's speech, where it differs from the settings at ElevenLabs. The agent must permit
    each."""

    voice_id: _Id | None = Field(None, description="The voice.")
    stability: float | None = Field(
        None, ge=0, le=1, description="Lower: livelier; higher: more even."
    )
    speed: float | None = Field(None, ge=0.7, le=1.2, description="Speed; 1 = the voice's own.")
    similarity_boost: float | None = Field(
        None, ge=0, le=1, description="Similarity to the original voice."
    )


class ElevenLabsAgentProvider(RealtimeProvider):
    """ElevenLabs Agents: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("ELEVENLABS_API_KEY",)
    domain: ClassVar[str] = "elevenlabs.io"
    key_header: ClassVar[tuple[str, str]] = ("xi-api-key", "")

    type: Literal["elevenlabs_agent"] = Field(description="The kind of provider.")
    agent_id: _Id = Field(description="The agent at ElevenLabs: `agent_...`.")
    requires_auth: bool = Field(
        True,
        description="Each call begins with a signed address, for which the key is needed; `false`: "
        "the agent is public.",
    )
    branch_id: _Id | None = Field(None, description="The branch of the agent, if not its main one.")
    environment: _Id | None = Field(
        None, description="The environment at ElevenLabs. Left out: `production`."
    )
    overrides: tuple[ContextText, ...] = Field(
        ("prompt", "first_message"),
        description="Texts of the context sent with each call instead of the agent's own: "
        "`prompt`, `first_message` (the greeting). The agent must permit it. Without "
        "`first_message` the engine's voice greets, and the agent should have no first message.",
    )
    llm: str | None = Field(
        None,
        min_length=1,
        description="The language model, by ElevenLabs' name. The agent must permit it. Left out: "
        "the agent's own.",
    )
    language: str | None = Field(
        None,
        min_length=2,
        max_length=8,
        description="The language spoken, such as `de`. The agent must permit it. Left out: the "
        "agent's own.",
    )
    tts: ElevenLabsAgentVoice = Field(
        ElevenLabsAgentVoice(), description="Its speech. Left out: the agent's settings."
    )
    dynamic_variables: dict[VariableName, str | int | float | bool] = Field(
        default_factory=dict,
        description="Values for the `{{places}}` in the agent's own texts.",
    )
    call_variables: tuple[VariableName, ...] = Field(
        (),
        description="Variables of the call that are sent as dynamic variables too, such as "
        "`caller_number`; empty text where the call has none.",
    )

    queue: Literal["wait", "leave"] = Field(
        "wait",
        description="When the agent is at its limit of conversations and queues the caller: `wait` "
        "= the caller hears the queue's music until the agent is free or gives up; `leave` = the "
        "context's `fallback` takes over at once.",
    )

    @property
    def needs_key(self) -> bool:
        return self.requires_auth

    @property
    def paid_models(self) -> tuple[str, ...]:
        """The price is the same for all agents."""
        return ("agent",)


class ElevenLabsTts(Service):
    """ElevenLabs' streaming speech synthesis (`/v1/text-to-speech/{voice}/stream`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("ELEVENLABS_API_KEY",)
    domain: ClassVar[str] = "elevenlabs.io"
    key_header: ClassVar[tuple[str, str]] = ("xi-api-key", "")

    type: Literal["elevenlabs"] = Field(description="The kind of voice.")
    voice_id: str = Field(
        "JBFqnCBsd6RMkjVDRZzb",
        pattern=VOICE_ID,
        description="ElevenLabs' `voice_id`.",
    )
    model_id: str = Field("eleven_flash_v2_5", min_length=1, description="ElevenLabs' `model_id`.")
    language_code: str = Field(
        "", pattern=LANGUAGE, description="ElevenLabs' `language_code`; empty: by the text."
    )
    stability: float | None = Field(
        None, ge=0, le=1, description="Of `voice_settings`. Left out: as the voice has it stored."
    )
    similarity_boost: float | None = Field(None, ge=0, le=1, description="Of `voice_settings`.")
    style: float | None = Field(None, ge=0, le=1, description="Of `voice_settings`.")
    speed: float | None = Field(None, ge=0.7, le=1.2, description="Of `voice_settings`.")
    use_speaker_boost: bool | None = Field(None, description="Of `voice_settings`.")
    apply_text_normalization: Literal["auto", "on", "off"] | None = Field(
        None, description="ElevenLabs' `apply_text_normalization`."
    )
    seed: int | None = Field(None, ge=0, le=4_294_967_295, description="ElevenLabs' `seed`.")

    @property
    def paid_models(self) -> tuple[str, ...]:
        return (self.model_id,)
