"""How long must a voice over the agent's be silent to be over? Pure.

Two witnesses say when a voice is silent: the loudness of the sound, at once, and the voice
detector, some 140 ms late. Where they disagree it is either the end of a word, of which the
detector will know in a moment, or the closure of a `k`, `t` or `p` within one: faint sound that the
detector still takes for speech. Taken for noise, such a voice is talked over by the agent, which
then has to stop again. Used by `cordboard.speech.turns.state_machine`.
"""

from __future__ import annotations

from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import TextClue


def silence_to_be_over(
    profile: TurnProfile, probability: float, doubtful: TextClue | None = None
) -> int:
    """Milliseconds of silence after which it is over.

    `probability`: what the detector made of the last window. `doubtful`: what was understood of the
    voice, if not surely: then it is worth while to wait and see.
    """
    sure = probability >= profile.closure_above
    silence = profile.closure_ms if sure else profile.voice_over_ms
    if doubtful is None:
        return silence
    if doubtful is TextClue.MURMUR:
        return max(silence, profile.murmur_over_ms)
    return max(silence, profile.words_over_ms)
