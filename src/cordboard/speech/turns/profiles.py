"""The parameters of turn-taking, and the three sets of them that a context chooses from.

`docs/turn-taking.md` says how each number was found. A context may replace single numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cordboard.config.conversation import TurnProfileName, TurnTaking


@dataclass(frozen=True, slots=True)
class TurnProfile:
    """All parameters of `cordboard.speech.turns.state_machine`; the defaults are `balanced`."""

    # Voice activity.
    voiced_above: float = 0.5
    """Probability from which a window counts as speech (Silero's own default)."""
    unvoiced_below: float = 0.35
    """Probability below which it counts as silence; between the two nothing changes."""
    start_ms: int = 64
    """Voice for this long starts a turn; one 32 ms window alone is a click."""
    pause_ms: int = 64
    """Silence for this long is a pause: recogniser and turn model start on the sound so far."""
    quiet_pause_ms: int = 96
    """One unvoiced window is a pause when the sound itself has been faint for this long."""
    longest_ms: int = 28_000
    """A turn is cut here: the recogniser's window holds 30 s."""

    # The silence that ends a turn, counted from the last audible sample.
    complete_silence_ms: int = 250
    """Silence after a complete answer to the question (`yes`, four letters)."""
    finished_silence_ms: int = 480
    """Silence after a voice that sounds finished."""
    silence_ms: int = 540
    """Silence if the melody is unknown or says nothing: after one word."""
    doubtful_silence_ms: int = 860
    """Silence if the model is unsure about the voice, or no words were understood."""
    unfinished_silence_ms: int = 1_250
    """Silence after words that plainly continue (`the weather for`), or a voice that plainly
    continues."""
    dictation_silence_ms: int = 1_100
    """Silence between groups of dictated digits or spelled letters."""
    continuer_ms: int = 960
    """A turn that is still open after this gets a continuer ("go on"): the line is not silent for
    longer than 1.2 s, and the caller keeps the floor. 0 = never."""
    most_continuers: int = 2
    """Most continuers in one turn."""
    finished_above: float = 0.95
    """Probability from which the end-of-turn model says yes. The model says more the longer the
    silence is: of the finished sentences 72-79 % are above 0.9 some 80-120 ms after their end, of
    cut ones 13-17 %; after 400 ms it is 87 and 43 %, so it runs once, as soon as the pause is
    noticed. With 0.95 instead of 0.9, 21 of 90 pauses of the tune half are cut instead of 28, and
    the median answer comes 6 ms later (replayed)."""
    unfinished_below: float = 0.06
    """Probability below which it says no: 5 % of finished sentences, 33 % of cut ones."""
    most_learned_ms: int = 400
    """Most by which a caller who pauses long can prolong the silences: `complete` not at all,
    `finished` by a third of it."""

    # A voice over the agent's speech.
    overlap_sure_above: float = 0.85
    """One window with this probability holds the agent's speech; less sure ones need
    `overlap_start_ms`."""
    overlap_start_ms: int = 64
    overlap_unknown_ms: int = 96
    """Voice of this length holds the speech while an echo of the agent is not yet ruled out; ruling
    it out takes some ms."""
    decide_ms: int = 288
    """Time on hold after which the voice is classified, if possible: nine windows, the last within
    0.3 s."""
    overlap_doubt_ms: int = 352
    """Extra time on hold while the voice may be a murmur or an interruption: it is not over, and
    its words are unsure. The agent is silent anyway. Of 212 murmurs 96 % are let pass, with 0 it is
    80 %; of 208 phrases all but one stop the agent for good, with 0 all but five (replayed, with
    answers of the recogniser after 65 ms)."""
    ask_before_ms: int = 128
    """The recogniser is first asked for words this long before the decision: it needs about 100 ms,
    and works better the more of the voice it hears."""
    words_every_ms: int = 64
    """The recogniser is asked again when this much voice has been added while the decision is open:
    one that answers within this time is asked twice before the decision."""
    words_doubt_every_ms: int = 224
    """The interval of these requests while a first hold is in doubt, and when the voice falls
    silent. Each recognition costs some 55 ms of a processor; for a voice long enough for doubtful
    words the last answer comes in time."""
    short_voice_ms: int = 300
    """A voice that is over after less than this, with doubtful words in it, is let pass. With 450
    ms one or two more murmurs in a hundred are let pass, and so are ten words like "Operator." or
    "Cancel.", which the recogniser never writes with certainty."""
    murmur_lasts_ms: int = 450
    """A voice that still sounds at the decision is not a murmur if it has lasted this long."""
    voice_over_ms: int = 80
    """Silence after which a voice over the agent's speech is taken to be over, while on hold."""
    murmur_over_ms: int = 112
    """Silence after which the voice is over if the recogniser believes, without being sure, that it
    was a murmur."""
    words_over_ms: int = 208
    """Silence after which the voice is over if the recogniser believes, without being sure, that
    there were words."""
    closure_ms: int = 208
    """Silence after which the voice is over while the detector is sure of the voice; see
    `cordboard.speech.turns.interruption`."""
    closure_above: float = 0.95
    """Probability from which the detector is sure of the voice."""
    hold_again_ms: int = 600
    """A voice that continues for this long after it was let pass holds the speech once more."""
    syllables_apart_ms: int = 320
    """A noise that was let pass and is surely a voice again within this time was a syllable."""
    most_holds: int = 2
    """After this many holds only words stop the agent: the line is noisy, or another person
    talks."""
    aside_silence_ms: int = 400
    """Silence that ends speech beside the agent's which did not stop it."""


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
    """Return a context's profile with the numbers it replaces."""
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
