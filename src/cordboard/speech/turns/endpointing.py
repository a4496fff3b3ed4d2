"""The silence that ends a turn, chosen from the facts known about the pause; pure.

Words and melody are two witnesses. A complete answer to the question, dictation and a dangling word
need no second witness: the model misjudges one-word answers and numbers, whose melody it cannot
know. Otherwise the melody decides between three waits; for a single word it counts only when it
says that the turn is over. A caller who was seen to pause within turns gets a longer wait
(`LearnedPause`).
"""

from __future__ import annotations

from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import TextClue

MARGIN_MS = 150
"""Milliseconds by which the silence exceeds the longest pause seen."""
FORGOTTEN = 0.75
"""Share of the learned time that remains after each turn that ended correctly."""
CUT_OFF_MS = 1_500
"""A caller who resumes within this time after the last word had only paused: the turn was cut."""
_LEAST_MS = 20
_TOO_SHORT_FOR_MELODY = (TextClue.ONE_WORD, TextClue.MURMUR)


def silence_for(
    profile: TurnProfile, clue: TextClue | None, odds: float | None, learned_ms: int = 0
) -> int:
    """Milliseconds of silence that end the turn.

    `clue` is None while there is no draft, `odds` (probability that the turn is over) is None while
    the model has not answered, or there is none. `learned_ms` is the learned extra for this caller;
    only a third of it counts where the turn sounds over.
    """
    if clue is TextClue.COMPLETE:
        return profile.complete_silence_ms
    silence = _without_learning(profile, clue, odds)
    learned = min(learned_ms, profile.most_learned_ms)
    return silence + (learned // 3 if silence == profile.finished_silence_ms else learned)


def _without_learning(profile: TurnProfile, clue: TextClue | None, odds: float | None) -> int:
    if clue is TextClue.DICTATION:
        return profile.dictation_silence_ms
    if clue is TextClue.DANGLING:
        return profile.unfinished_silence_ms
    if odds is None:
        return profile.silence_ms
    if odds >= profile.finished_above and clue is not TextClue.NOTHING:
        return profile.silence_ms if clue is None else profile.finished_silence_ms
    if clue in _TOO_SHORT_FOR_MELODY:
        return profile.silence_ms
    if odds < profile.unfinished_below:
        return profile.unfinished_silence_ms
    return profile.doubtful_silence_ms


class LearnedPause:
    """One caller's habit: milliseconds on top of the profile's `silence_ms`."""

    def __init__(self, silence_ms: int, most_ms: int) -> None:
        self._silence_ms = silence_ms
        self._most_ms = most_ms
        self._extra_ms = 0.0

    @property
    def extra_ms(self) -> int:
        return int(self._extra_ms)

    def resumed(self, pause_ms: int) -> None:
        """Note that the caller resumed after `pause_ms` of silence, within a turn or right after
        it."""
        wanted = min(pause_ms + MARGIN_MS - self._silence_ms, self._most_ms)
        self._extra_ms = max(self._extra_ms, wanted)

    def turn_ended(self) -> None:
        """Note that a turn is over; its pauses weigh less in the next ones."""
        self._extra_ms *= FORGOTTEN
        if self._extra_ms < _LEAST_MS:
            self._extra_ms = 0.0
