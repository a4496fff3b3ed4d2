"""What a context may say about the manners of a conversation: turns, silence, recording."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from cordboard.config.section import Section

KEY_OR_NONE = r"^[0-9*#]?$"
BargeIn: TypeAlias = Literal["off", "greeting_protected", "on"]
TurnProfileName: TypeAlias = Literal["quick", "balanced", "patient"]


class TurnTaking(Section):
    """When the caller's turn is over, and whose it is. Each number left out is the profile's."""

    profile: TurnProfileName = Field(
        "balanced", description="How soon the agent answers: `quick`, `balanced` or `patient`."
    )
    silence_ms: int | None = Field(
        None, ge=150, le=5_000, description="Silence that ends a turn of which nothing is known."
    )
    complete_silence_ms: int | None = Field(
        None, ge=100, le=5_000, description="The same after what is a whole answer."
    )
    finished_silence_ms: int | None = Field(
        None,
        ge=100,
        le=5_000,
        description="The same after words that end as sentences do, in a voice that ends as turns "
        "do.",
    )
    doubtful_silence_ms: int | None = Field(
        None,
        ge=150,
        le=5_000,
        description="The same when the words have ended and the voice sounds as if it goes on.",
    )
    unfinished_silence_ms: int | None = Field(
        None, ge=150, le=10_000, description="The same after what plainly goes on."
    )
    dictation_silence_ms: int | None = Field(
        None, ge=150, le=10_000, description="The same within spelled letters or dictated digits."
    )
    overlap_doubt_ms: int | None = Field(
        None,
        ge=0,
        le=640,
        description="How much longer than 0.3 s the agent stays silent while a voice over its own "
        "may be a murmur or an interruption. 0 = that is decided within 0.3 s.",
    )
    learn_pauses: bool = Field(
        True, description="Whether to wait longer for a caller who pauses longer, within bounds."
    )
    turn_model: bool = Field(
        True,
        description="Whether to ask the end-of-turn model (Smart Turn), when it is installed.",
    )


class Silence(Section):
    """What is said when one side or both are silent."""

    filler_after_ms: int = Field(
        900,
        ge=0,
        description="After the caller's last word; when no answer has begun by then, a filler is "
        "said. 0 = never.",
    )
    fillers: tuple[str, ...] = Field(
        ("One moment.", "Let me see.", "Just a second."),
        description="What is said then, in turns.",
    )
    continuers: tuple[str, ...] = Field(
        ("Yes?", "Go on."),
        description="What is said about 1 s into the pause of a caller who does not sound "
        "finished, in turns; the caller keeps the floor. Empty = nothing.",
    )
    caller_after_ms: int = Field(
        10_000, ge=2_000, description="Silence on both sides before the caller is spoken to."
    )
    reprompts: tuple[str, ...] = Field(
        ("Are you still there?", "I cannot hear you. Please say something if you are there."),
        description="What is said then, one after the other.",
    )
    goodbye: str = Field(
        "I still cannot hear you, so I will hang up now. Please call again. Goodbye.",
        description="What is said at last, before hanging up; empty = never hang up for silence.",
    )
    agent_after_ms: int = Field(
        15_000,
        ge=2_000,
        description="An agent that has not answered a turn by then (running tools do not count) "
        "has failed.",
    )


class Recording(Section):
    """Whether the sound of calls is kept."""

    enabled: bool = Field(False, description="Whether calls of this context are recorded.")
    format: Literal["wav", "wav_ulaw"] = Field(
        "wav", description="Stereo, caller left, agent right: 16-bit linear or u-law (half of it)."
    )
    consent: str = Field(
        "", description="Said before the greeting when a call is recorded; empty = nothing is said."
    )
    consent_key: str = Field(
        "",
        pattern=KEY_OR_NONE,
        description="Record only after the caller has pressed this key; empty = at once.",
    )
    keep_days: int = Field(
        0, ge=0, description="Recordings older than this are deleted; 0 = kept for ever."
    )
