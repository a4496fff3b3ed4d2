"""How long must a voice over the agent's be silent to be over? Pure.

Two witnesses say when a voice is silent: the loudness of the sound, at once, and the voice
detector, some 140 ms late. Where they disagree it is either the end of a word, of which the
detector will know in a moment, or the closure of a `k`, `t` or `p` within one: faint sound that the
detector still takes for speech. Taken for noise, such a voice is talked over by the agent, which
then has to stop again. Used by `cordboard.agents.pipeline.turn_taking`.

Found on recorded prompts of the tune half, begun anywhere so that a gap of 96-260 ms falls where
the time to decide is up (324 of them), and on 78 murmurs: in gaps of 112 ms and more a detector
above 0.8 was seen in 6 of 25 windows within speech, at the end of a murmur in 8 of 155, all of
them `right`, which the recogniser knows. 256 instead of 245 of the prompts now stop the agent at
once and for good, and no murmur more does while the recogniser answers in time.
"""

from __future__ import annotations

from cordboard.agents.pipeline.text_clues import TextClue
from cordboard.agents.pipeline.turn_profiles import TurnProfile


def silence_before_time_is_up(profile: TurnProfile, probability: float) -> int:
    """Milliseconds of silence after which it is over, while there is time to wait and see.

    `probability`: what the detector made of the last window.
    """
    sure = probability >= profile.closure_above
    return profile.closure_ms if sure else profile.voice_over_ms


def silence_when_time_is_up(
    profile: TurnProfile, probability: float, words: TextClue | None
) -> int:
    """The same when it must be decided.

    `words`: what the recogniser found in its beginning, None when it has not answered. Where those
    are words, though doubtful ones, a detector that finds a voice likely is enough.
    """
    if words is None or not words.has_words:
        return silence_before_time_is_up(profile, probability)
    likely = probability >= profile.closure_likely_above
    return profile.closure_ms if likely else profile.words_over_ms
