"""How long a silence ends this turn? From what is known of the pause; pure.

The words and the melody are two witnesses. Where they agree the answer is quick or patient; where
they do not, or one is missing, it lies between. A whole answer to what was asked, dictation and a
dangling word need no second witness: the model is known to misjudge one-word answers, and a list of
digits falls at the end of every group.
"""

from __future__ import annotations

from cordboard.agents.pipeline.text_clues import TextClue
from cordboard.agents.pipeline.turn_profiles import TurnProfile


def silence_for(
    profile: TurnProfile, clue: TextClue | None, odds: float | None, learned_ms: int = 0
) -> int:
    """Milliseconds of silence that end the turn.

    `clue` is None while the draft is not there, `odds` (probability that the turn is over) is None
    while the model has not answered, or there is none. `learned_ms` is this caller's.
    """
    if clue is TextClue.COMPLETE:
        return profile.complete_silence_ms
    return _without_learning(profile, clue, odds) + min(learned_ms, profile.most_learned_ms)


def _without_learning(profile: TurnProfile, clue: TextClue | None, odds: float | None) -> int:
    if clue is TextClue.DICTATION:
        return profile.dictation_silence_ms
    if clue is TextClue.DANGLING:
        return profile.unfinished_silence_ms
    if odds is None or clue is TextClue.NOTHING:
        return profile.silence_ms
    if odds >= profile.finished_above:
        return profile.silence_ms if clue is None else profile.finished_silence_ms
    if odds >= profile.unfinished_below or clue is TextClue.MURMUR:
        return profile.silence_ms
    if clue is TextClue.SENTENCE:
        return profile.doubtful_silence_ms
    return profile.unfinished_silence_ms
