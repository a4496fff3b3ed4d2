"""Detect a caller who has finished and waits although the service has not reported it.

A service reports the end of the caller's turn; a stalled one never does, and the call would assume
that the caller is still speaking. So the engine listens for itself, by loudness alone: it needs no
model, and concludes only that the caller should hear something now. For a service that is only slow
nothing changes. Pure: the times come from the arguments.
"""

from __future__ import annotations

from cordboard.audio.voice_trace import VoiceTrace
from cordboard.speech.caller_sound import FRAME

UNTOLD = 4.0
"""Seconds without a voice after which a caller waits, if the service has not ended the turn. Turn
detections that are not configured to be patient decide within 4 s (semantic VAD, eagerness
auto)."""
NOTICED = 2.0
"""Seconds after which a caller waits, counted from the moment at which the service noticed the
voice, which may be later than the voice was there."""
AGAIN = 5.5
"""Seconds until the caller should hear something a second time: the first sentence was heard by
then, and the silence after it is no longer than between two fillers."""
A_WORD, SURELY_A_VOICE = 0.3, 1.0
"""Seconds of a voice. Less than a word is a click or a breath (a short "yes" has as much); a
working service would have noticed a voice that lasts as long as the second value."""


class UnansweredSpeech:
    """Unanswered speech of one call. Follows the trace of the caller's line."""

    def __init__(self, trace: VoiceTrace) -> None:
        self._trace = trace
        self._began_at: float | None = None
        """Start of the last voice, in loop seconds; None before the first one."""
        self._voiced = 0.0
        """Seconds of the last voice, without its part over the agent's own voice."""
        self._told = 0
        """Number of times for which the caller has been found to wait after the last voice."""
        self._ignored = False
        """The caller was found to wait before the service had noticed any voice: perhaps there was
        none."""

    def voice_heard(self, *, alone: bool) -> None:
        """Note that the trace has heard a frame with a voice; `alone`: the agent is not being
        heard."""
        if self._trace.began_at != self._began_at:
            self._began_at, self._voiced, self._told = self._trace.began_at, 0.0, 0
        if alone:
            self._voiced += FRAME

    def service_noticed(self) -> None:
        """Note that the service reports something of the caller, or answers: it is awake."""
        self._ignored = False

    def begins_anew(self) -> None:
        """Start anew: the service reports that the caller begins to speak."""
        self._told, self._ignored = 0, False

    def waits_since(self, now: float, noticed_at: float | None) -> float | None:
        """Return the time since which the caller waits; None if they do not, or if it was reported
        already. Each pause is reported twice. `noticed_at`: time at which the service noticed the
        voice, None if it did not. That may not be a voice, and is reported once until the service
        notices anything again; a certain voice is reported twice."""
        last = self._trace.last_voice_at
        if noticed_at is not None:
            later = noticed_at + NOTICED - UNTOLD
            last = later if last is None else max(last, later)
        elif self._voiced < (SURELY_A_VOICE if self._told else A_WORD) or (
            self._ignored and not self._told
        ):
            return None
        if last is None or self._told > 1 or now - last < UNTOLD + self._told * AGAIN:
            return None
        self._told += 1
        self._ignored = noticed_at is None
        return last
