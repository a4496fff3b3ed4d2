"""Is a sound that the echo guard cannot explain a voice, or an echo it has lost? Pure.

The guard is blind for 400 ms whenever sound was lost, or came late, on its way to the caller: the
echo then comes back displaced, and no filter fits it. But a line that has just returned an echo
continues to do so, as loud as before, and a caller's mouth is nearer to the microphone than the
telephone's loudspeaker is. So a sound no louder than the known echo of this line is doubted for as
long as the guard may be blind; a louder or longer sound is a voice. A caller softer than the echo
is heard about 0.3 s later.

Found in replayed calls with 23 sentences of the agent (none of the held-out half), -20 dB of echo,
and up to one frame in a hundred late by up to 0.1 s: 18 of 460 sentences were cut by their own
echo, with this rule none; of 772 answers of the guard that such a sound was a voice, 95 % were
about sounds at most 1.6 dB louder than the loudest echo before them. 48 interruptions over an echo
of -20 dB hold the agent as before: 20 ms later in the middle (108 ms), after 153 ms at the latest.

One per call; used by `cordboard.speech.turns.echo_watch`.
"""

from __future__ import annotations

from cordboard.audio.levels import SILENCE_DBFS

SURELY_EXPLAINED = 0.9
"""Share of a sound that the guard must explain before the echo level is learned from it."""
LOUDER_DB = 3.0
"""A sound that exceeds the known echo by this much is a voice at once."""
FADES_DB = 2.0
"""Decibels per second by which the expected echo fades while none is heard."""
BLIND = 0.4
"""Longest sound, in seconds, that is doubted: the length of the stretch that the guard fits its
filter to."""
REGAINED = 0.25
"""Seconds of doubt regained in each second in which the guard sees clearly."""
_LONGEST_STEP = 0.12
"""Longest time in seconds for which one answer of the guard is valid."""


class EchoDoubt:
    """The known echo of one line."""

    def __init__(self) -> None:
        self._level = SILENCE_DBFS
        self._doubted = 0.0
        self._at: float | None = None

    def explained(self, dbfs: float, share: float, now: float) -> None:
        """Note that a sound of this level was an echo; `share` (0..1) is the part the guard
        explains."""
        self.seen(now)
        if share >= SURELY_EXPLAINED:
            self._level = max(self._level, dbfs)

    def seen(self, now: float) -> None:
        """Note that the guard saw clearly at `now` (seconds): an echo, or only the line's noise."""
        self._doubted = max(0.0, self._doubted - REGAINED * self._pass(now))

    def doubts(self, dbfs: float, now: float) -> bool:
        """True if a sound of this level that the guard cannot explain must be taken for echo."""
        step = min(self._pass(now), _LONGEST_STEP)
        if dbfs > self._level + LOUDER_DB or self._doubted >= BLIND:
            return False
        self._doubted += step
        return True

    def _pass(self, now: float) -> float:
        """Return the seconds since the last answer; the known echo fades a little meanwhile."""
        passed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = max(SILENCE_DBFS, self._level - FADES_DB * passed)
        return passed
