"""Is a sound that the echo guard cannot explain somebody's voice, or an echo it has lost? Pure.

The guard is blind for 400 ms whenever sound was lost, or came late, on its way to the caller: the
echo then comes back displaced, which no filter fits. But a line that has just returned an echo
goes on doing so, as loud as before, and a caller's mouth is nearer to the microphone than the
telephone's loudspeaker is. So what is no louder than the echo known of this line is doubted for as
long as the guard may be blind; whatever is louder, or lasts, is a voice. A caller softer than the
echo is heard about 0.3 s later.

Found in replayed calls with 23 sentences of the agent (none of the held-out half), -20 dB of echo,
and up to one frame in a hundred coming late, by up to 0.1 s: 18 of 460 were cut by their own echo,
with this rule none; of 772 answers of the guard that such a sound was a voice, 95 % were about
sounds at most 1.6 dB louder than the loudest echo before them. 48 interruptions over an echo of
-20 dB hold the agent as before, 20 ms later in the middle (108 ms), at the latest after 153 ms.

One per call; used by `cordboard.speech.turns.echo_watch`.
"""

from __future__ import annotations

from cordboard.audio.levels import SILENCE_DBFS

SURELY_EXPLAINED = 0.9
"""The level of an echo is learned from a sound of which the guard explains so much."""
LOUDER_DB = 3.0
"""By how much a sound must exceed the known echo to be a voice at once."""
FADES_DB = 2.0
"""A second: for so long as an echo has not been heard it is less to be expected."""
BLIND = 0.4
"""Seconds of sound that are doubted; as long as the stretch the guard fits its filter to."""
REGAINED = 0.25
"""Seconds of doubt that are regained in each second in which the guard sees clearly."""
_LONGEST_STEP = 0.12
"""Seconds for which one answer of the guard stands, at most."""


class EchoDoubt:
    """What is known of one line's echo."""

    def __init__(self) -> None:
        self._level = SILENCE_DBFS
        self._doubted = 0.0
        self._at: float | None = None

    def explained(self, dbfs: float, share: float, now: float) -> None:
        """A sound of this level was an echo; the guard explains so much of it (0..1)."""
        self.seen(now)
        if share >= SURELY_EXPLAINED:
            self._level = max(self._level, dbfs)

    def seen(self, now: float) -> None:
        """The guard saw clearly at this time (seconds): an echo, or only the line's noise."""
        self._doubted = max(0.0, self._doubted - REGAINED * self._pass(now))

    def doubts(self, dbfs: float, now: float) -> bool:
        """Whether a sound of this level that the guard cannot explain is to be taken for echo."""
        step = min(self._pass(now), _LONGEST_STEP)
        if dbfs > self._level + LOUDER_DB or self._doubted >= BLIND:
            return False
        self._doubted += step
        return True

    def _pass(self, now: float) -> float:
        """Seconds since the last answer; meanwhile the echo was forgotten a little."""
        passed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = max(SILENCE_DBFS, self._level - FADES_DB * passed)
        return passed
