"""The numbers behind turn-taking, and the three sets of them that a context chooses from.

`docs/turn-taking.md` says how each number was found. A context may replace single numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cordboard.config.conversation import TurnProfileName, TurnTaking


@dataclass(frozen=True, slots=True)
class TurnProfile:
    """All numbers of `cordboard.speech.turns.state_machine`; the defaults are `balanced`."""

    # What is voice.
    voiced_above: float = 0.5
    """Probability from which a window counts as speech (Silero's own default)."""
    unvoiced_below: float = 0.35
    """Probability under which it counts as silence; between the two nothing changes."""
    start_ms: int = 64
    """Voice for this long starts a turn; one 32 ms window alone is a click."""
    pause_ms: int = 64
    """Silence for this long is a pause: recogniser and turn model start on what they have."""
    quiet_pause_ms: int = 96
    """The same in one unvoiced window, when the sound itself has been faint for so long."""
    longest_ms: int = 28_000
    """A turn is cut here: the recogniser's window holds 30 s."""

    # How long a silence ends a turn, counted from the last sample that can be heard.
    complete_silence_ms: int = 250
    """After a whole answer to what was asked (`yes`, four letters)."""
    finished_silence_ms: int = 480
    """In a voice that ends as turns do."""
    silence_ms: int = 540
    """When the melody is not known, or tells nothing: after one word."""
    doubtful_silence_ms: int = 860
    """In a voice of which the model is not sure; when no words were understood."""
    unfinished_silence_ms: int = 1_250
    """After words that plainly go on (`the weather for`), or in a voice that plainly does."""
    dictation_silence_ms: int = 1_100
    """Between groups of dictated digits or spelled letters."""
    continuer_ms: int = 960
    """A turn that is still open then is encouraged ("go on"): the line is not silent for longer
    than 1.2 s, and the caller keeps the floor. 0 = never."""
    most_continuers: int = 2
    """In one turn."""
    finished_above: float = 0.95
    """What the end-of-turn model must say for a yes. It says more the longer the silence: of the
    finished sentences 72-79 % are above 0.9 some 80-120 ms after their end, of cut ones 13-17 %;
    after 400 ms it is 87 and 43 %, so it is asked once, as soon as the pause is noticed. With 0.95
    instead of 0.9, 21 of 90 pauses of the tune half are cut instead of 28, and the median answer
    comes 6 ms later (replayed)."""
    unfinished_below: float = 0.06
    """And for a no: 5 % of finished sentences, 33 % of cut ones."""
    most_learned_ms: int = 400
    """By how much a caller who pauses long can prolong the silences: `complete` not at all,
    `finished` by a third of it."""

    # A voice over the agent's.
    overlap_sure_above: float = 0.85
    """One window this sure holds the agent's speech; less sure ones need `overlap_start_ms`."""
    overlap_start_ms: int = 64
    overlap_unknown_ms: int = 96
    """The same while it is not known whether the voice is our own echo: that takes some ms."""
    decide_ms: int = 288
    """After so long on hold it is decided, if it can be: nine windows, the last within 0.3 s."""
    overlap_doubt_ms: int = 352
    """And so much longer while it may still be either: a voice that is not over, of which the words
    are not sure. The agent is silent anyway. Of 212 murmurs 96 % are let pass, with 0 it
    is 80 %; of 208 phrases all but one stop the agent for good, with 0 all but five (replayed, with
    answers of the recogniser after 65 ms)."""
    ask_before_ms: int = 128
    """The recogniser is first asked for words so long before that: it needs about 100 ms, and the
    more of the voice it hears the better; ..."""
    words_every_ms: int = 64
    """... and again when so much has been added, while the matter is open: one that answers within
    this time is heard twice before it is decided."""
    words_doubt_every_ms: int = 224
    """The same while a first hold is in doubt, and when the voice falls silent. Each time costs
    some 55 ms of a processor; the last answer comes in time, of a voice that is long enough for
    doubtful words."""
    short_voice_ms: int = 300
    """A voice that is over after less than this, with doubtful words in it, is let pass. With 450
    ms one or two murmurs of a hundred more are, and ten words like "Operator." or "Cancel.", of
    which the recogniser is never sure."""
    murmur_lasts_ms: int = 450
    """What still sounds when the time is up is no murmur if it has lasted for so long."""
    voice_over_ms: int = 80
    """Silence after which a voice over the agent's is taken to be over, while on hold."""
    murmur_over_ms: int = 112
    """The same where the recogniser believes, without being sure, that it was a murmur, ..."""
    words_over_ms: int = 208
    """... or words."""
    closure_ms: int = 208
    """The same while the detector is sure of the voice;
    `cordboard.speech.turns.interruption`."""
    closure_above: float = 0.95
    """It is sure."""
    hold_again_ms: int = 600
    """A voice that goes on for so long after it was let pass holds the speech once more."""
    syllables_apart_ms: int = 320
    """A noise that was let pass and is surely a voice again within this time was a syllable."""
    most_holds: int = 2
    """A third time only words stop the agent: the line is noisy, or somebody else is talking."""
    aside_silence_ms: int = 400
    """Silence that ends what was said beside the agent's speech without stopping it."""


PROFILES: Mapping[TurnProfileName, TurnProfile] = {
    "quick": TurnProfile(
        complete_silence_ms=200,
        finished_silence_ms=300,
        silence_ms=420,
        doubtful_silence_ms=640,
        unfinished_silence_ms=1_000,
        dictation_silence_ms=900,
    ),
    "balanced": TurnProfile(),
    "patient": TurnProfile(
        complete_silence_ms=350,
        finished_silence_ms=800,
        silence_ms=1_000,
        doubtful_silence_ms=1_300,
        unfinished_silence_ms=2_000,
        dictation_silence_ms=1_800,
    ),
}


def profile_of(settings: TurnTaking) -> TurnProfile:
    """A context's profile with the numbers it replaces."""
    numbers = {
        name: value
        for name in (
            "complete_silence_ms",
            "finished_silence_ms",
            "silence_ms",
            "doubtful_silence_ms",
            "unfinished_silence_ms",
            "dictation_silence_ms",
            "overlap_doubt_ms",
        )
        if (value := getattr(settings, name)) is not None
    }
    if not settings.learn_pauses:
        numbers["most_learned_ms"] = 0
    return replace(PROFILES[settings.profile], **numbers)
