"""Settings of a conversation's manners: turns, silence, recording."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from cordboard.config.section import Section

KEY_OR_NONE = r"^[0-9*#]?$"
BargeIn: TypeAlias = Literal["off", "greeting_protected", "on"]
TurnProfileName: TypeAlias = Literal["quick", "balanced", "patient"]


class TurnTaking(Section):
    """End of the caller's turn, and interruptions. A number left out comes from the profile."""

    profile: TurnProfileName = Field(
        "balanced", description="How soon the agent answers: `quick`, `balanced` or `patient`."
    )
    silence_ms: int | None = Field(
        None, ge=150, le=5_000, description="Silence that ends a turn, without further evidence."
    )
    complete_silence_ms: int | None = Field(
        None, ge=100, le=5_000, description="The same after a complete answer."
    )
    finished_silence_ms: int | None = Field(
        None,
        ge=100,
        le=5_000,
        description="The same after words that end like a sentence, in a voice that ends like a "
        "turn.",
    )
    doubtful_silence_ms: int | None = Field(
        None,
        ge=150,
        le=5_000,
        description="The same when the words have ended but the voice sounds unfinished.",
    )
    unfinished_silence_ms: int | None = Field(
        None, ge=150, le=10_000, description="The same after clearly unfinished words."
    )
    dictation_silence_ms: int | None = Field(
        None, ge=150, le=10_000, description="The same within spelled letters or dictated digits."
    )
    overlap_doubt_ms: int | None = Field(
        None,
        ge=0,
        le=640,
        description="Time beyond 0.3 s for which the agent stays silent while a voice over its "
        "own may be a murmur or an interruption. 0 = decide within 0.3 s.",
    )
    learn_pauses: bool = Field(
        True, description="Whether to wait longer for a caller who pauses longer, within bounds."
    )
    turn_model: bool = Field(
        True,
        description="Whether to use the end-of-turn model (Smart Turn), when it is installed.",
    )


class Silence(Section):
    """Sentences for silence on one side or both."""

    filler_after_ms: int = Field(
        900,
        ge=0,
        description="Time after the caller's last word until a filler is spoken, if no answer has "
        "begun. 0 = never.",
    )
    fillers: tuple[str, ...] = Field(
        ("One moment.", "Let me see.", "Just a second."),
        description="These fillers, used in turns.",
    )
    continuers: tuple[str, ...] = Field(
        ("Yes?", "Go on."),
        description="Sentences, used in turns, about 1 s into the pause of a caller who does not "
        "sound finished; the caller keeps the floor. Empty = none.",
    )
    music_after_ms: int = Field(
        0,
        ge=0,
        description="Time that a tool, or `pre_call`, may work before the caller hears music in "
        "place of fillers. Only for calls by ARI. 0 = no music.",
    )
    music: str = Field(
        "default",
        min_length=1,
        description="That music: a class of Asterisk's musiconhold.conf, or `ringback` = a ringing "
        "tone, during which the caller is not heard.",
    )
    caller_after_ms: int = Field(
        10_000, ge=2_000, description="Silence on both sides before a re-prompt."
    )
    reprompts: tuple[str, ...] = Field(
        ("Are you still there?", "I cannot hear you. Please say something if you are there."),
        description="These re-prompts, used in order.",
    )
    goodbye: str = Field(
        "I still cannot hear you, so I will hang up now. Please call again. Goodbye.",
        description="Last sentence before hanging up; empty = never hang up for silence.",
    )
    after_hold: str = Field(
        "",
        description="Sentence for a caller who returns from hold, when no answer waits for them; "
        "empty = none.",
    )
    agent_after_ms: int = Field(
        15_000,
        ge=2_000,
        description="Time after which an agent that has not answered a turn has failed; running "
        "tools do not count.",
    )


class Listening(Section):
    """Listening to live calls by the admin port."""

    enabled: bool = Field(
        True, description="Whether people with the grant `listen` may hear calls of this context."
    )
    notice: str = Field(
        "",
        description="Sentence before the greeting of each call that may be listened to; empty = "
        "none.",
    )


class Conference(Section):
    """Operators who join live calls by a phone, as a third party."""

    enabled: bool = Field(
        True,
        description="Whether operators may join calls of this context, from the phone of a "
        "destination with `takeover`.",
    )
    notice: str = Field(
        "A colleague has joined the call.",
        max_length=300,
        description="Sentence that all of them hear when an operator joins; {name} is the "
        "destination's name. Nobody joins caller and human before they have heard it. Empty = "
        "none, where the law allows that.",
    )


class Recording(Section):
    """Recording of the calls' audio."""

    enabled: bool = Field(False, description="Whether calls of this context are recorded.")
    format: Literal["wav", "wav_ulaw"] = Field(
        "wav", description="Stereo, caller left, agent right: 16-bit linear, or u-law (half size)."
    )
    consent: str = Field(
        "", description="Sentence before the greeting when a call is recorded; empty = none."
    )
    consent_key: str = Field(
        "",
        pattern=KEY_OR_NONE,
        description="Record only after the caller has pressed this key; empty = from the start.",
    )
    begin: Literal["at_once", "consent_heard"] = Field(
        "consent_heard",
        description="When the recording begins if there is a `consent` sentence and no key: "
        "`consent_heard` = once the caller has heard it to its end; if it is interrupted, the call "
        "is not recorded (`barge_in: greeting_protected` prevents that). `at_once` = with the "
        "call.",
    )
    keep_days: int = Field(
        0, ge=0, description="Age at which recordings are deleted; 0 = kept forever."
    )

    @property
    def waits_for_consent(self) -> bool:
        """True if sound is kept only after the sentence of consent was heard."""
        return self.begin == "consent_heard" and bool(self.consent) and not self.consent_key


class Resume(Section):
    """Sentences with which a call goes on after its engine was lost (docs/cluster-calls.md)."""

    phrase: str = Field(
        "I am sorry, the line dropped for a moment. Please go on.",
        max_length=500,
        description="Spoken where the caller's last words were answered, or are not known.",
    )
    recall: str = Field(
        'I am sorry, the line dropped for a moment. You said: "{request}". Shall I go on with '
        "that?",
        max_length=500,
        description="Spoken where they were not answered; `{request}` stands for them.",
    )
    transfer: str = Field(
        "I am sorry, the line dropped for a moment, and I could not put you through. How can I "
        "help you?",
        max_length=500,
        description="Spoken where the caller was being transferred.",
    )
