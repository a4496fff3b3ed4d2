"""A voice over the agent's speech: the end of the voice, and the meaning of its first words. Pure.

Two witnesses say when a voice is silent: the loudness of the sound, at once, and the voice
detector, some 140 ms late. Where they disagree it is either the end of a word, which the detector
will notice in a moment, or the closure of a `k`, `t` or `p` within a word: faint sound that the
detector still takes for speech. If such a voice is taken for noise, the agent talks over it and
then has to stop again.

A quarter of a second of speech is little for a recogniser. Two things make it useful: it is primed
with typical backchannels, and its text counts only from a certain confidence; below that, the voice
is heard out (`TurnProfile.overlap_doubt_ms`). The numbers were found on the first 180-450 ms of 25
recorded human prompts and of 29 synthetic murmurs and words.
"""

from __future__ import annotations

from cordboard.agent_api.stt import Transcript
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import (
    TextClue,
    begins_with_murmur,
    clue_of,
    may_become_murmur,
)

OVERLAP_HINTS = ("Uh-huh.", "Mm-hmm.", "Okay.", "Yeah.", "Hmm.", "Stop.", "Wait.", "What?")
"""Prompt for the recogniser. Without it the recogniser wrote nothing for 250 ms of speech in 11 of
25 prompts, and "It has." for "uh-huh"; with it, something in 25 of 25, and "Uh-huh."."""
WORDS_SURE = 0.4
"""Confidence from which words count alone. Hums and `uh-huh` are written as "No." or "In hand."
with up to 0.37; a real "stop", "wait", "no" of the same length has 0.48 and more."""
LONG_WORDS_SURE = 0.2
"""Confidence from which words count alone in a voice that has lasted longer than a murmur does."""
LONG_MS = 500
MURMUR_SURE = 0.25
"""Below this confidence a text is not a murmur: the beginnings of "your" and "all" are written as
"Yeah." and "Uh-huh." too."""
MURMUR_CERTAIN = 0.45
"""Confidence from which a text is surely a murmur. Between `MURMUR_SURE` and this the voice is
heard out: if it continues, it is not a murmur. Of 28 beginnings of phrases that were written as
murmurs, two had more."""
CHANGED_MIND = 0.6
"""A voice that was once heard as a murmur becomes something else only with this confidence. Without
this rule 91 instead of 99 % of the murmurs are let pass (replayed)."""


def judge_words(
    transcript: Transcript, voice_ms: int, *, complete: bool, murmured: bool = False
) -> tuple[TextClue, bool]:
    """Return the clue, and whether it is sure. `TurnTaker.learn_words` decides about an unsure clue
    by the length of the voice.

    `voice_ms`: length of the voice. `complete`: the dialogue takes the text for an answer to its
    question; then even `yeah` is one. `murmured`: the beginning of the same voice was taken for a
    murmur.
    """
    text, confidence = transcript.text, transcript.confidence
    clue = clue_of(text, complete=complete)
    if clue is TextClue.NOTHING:
        return clue, False
    if clue is TextClue.MURMUR:
        if confidence < MURMUR_SURE:
            return TextClue.NOTHING, False
        return clue, confidence >= MURMUR_CERTAIN
    if may_become_murmur(text):
        return TextClue.BEGINNING, True
    if murmured and not begins_with_murmur(text) and confidence < CHANGED_MIND:
        return TextClue.MURMUR, False
    return clue, confidence >= (LONG_WORDS_SURE if voice_ms >= LONG_MS else WORDS_SURE)


def silence_to_be_over(
    profile: TurnProfile, probability: float, doubtful: TextClue | None = None
) -> int:
    """Return the milliseconds of silence after which the voice is over.

    `probability`: the detector's result for the last window. `doubtful`: the clue if it is not
    sure; then it is worth waiting longer.
    """
    sure = probability >= profile.closure_above
    silence = profile.closure_ms if sure else profile.voice_over_ms
    if doubtful is None:
        return silence
    if doubtful is TextClue.MURMUR:
        return max(silence, profile.murmur_over_ms)
    return max(silence, profile.words_over_ms)
