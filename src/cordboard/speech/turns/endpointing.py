"""How long a silence ends this turn? From what is known of the pause; pure.

The words and the melody are two witnesses. A whole answer to what was asked, dictation and a
dangling word need no second one: the model misjudges one-word answers and numbers, whose melody it
cannot know. Else the melody decides between three waits; of a single word it is believed only when
it says that this is all. A caller who was seen to pause within turns is waited for longer
(`LearnedPause`).
"""

from __future__ import annotations

from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import TextClue

MARGIN_MS = 150
"""The silence is made longer than the pause that was seen by so much."""
FORGOTTEN = 0.75
"""What is left of the learned time after each turn that ended as it should."""
CUT_OFF_MS = 1_500
"""A caller who speaks again so soon after the last word had only paused: the turn was cut."""
_LEAST_MS = 20
_TOO_SHORT_FOR_MELODY = (TextClue.ONE_WORD, TextClue.MURMUR)


def silence_for(
    profile: TurnProfile, clue: TextClue | None, odds: float | None, learned_ms: int = 0
) -> int:
    """Milliseconds of silence that end the turn.

    `clue` is None while the draft is not there, `odds` (probability that the turn is over) is None
    while the model has not answered, or there is none. `learned_ms` is this caller's; a third of it
    where the turn sounds over.
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
    """One caller's habit, in milliseconds on top of the profile's `silence_ms`."""

    def __init__(self, silence_ms: int, most_ms: int) -> None:
        self._silence_ms = silence_ms
        self._most_ms = most_ms
        self._extra_ms = 0.0

    @property
    def extra_ms(self) -> int:
        return int(self._extra_ms)

    def resumed(self, pause_ms: int) -> None:
        """The caller went on after so much silence within a turn, or right after its end."""
        wanted = min(pause_ms + MARGIN_MS - self._silence_ms, self._most_ms)
        self._extra_ms = max(self._extra_ms, wanted)

    def turn_ended(self) -> None:
        """A turn is over; its pauses weigh less in the next ones."""
        self._extra_ms *= FORGOTTEN
        if self._extra_ms < _LEAST_MS:
            self._extra_ms = 0.0
