"""Whether the caller has finished and waits, though the service has not told so: it may never.

A service tells when the caller's turn is over; one that has stalled does not, and the call would
take the caller to be speaking still. So the engine listens for itself, by loudness alone: no model
is needed, and nothing is concluded from it but that the caller should hear something now. A service
that is only slow goes on as if nothing had been said. Pure: the clock is whoever's that asks.
"""

from __future__ import annotations

from cordboard.audio.voice_trace import VoiceTrace
from cordboard.speech.caller_sound import FRAME

UNTOLD = 4.0
"""Seconds without a voice after which a caller whose turn nobody has ended is taken to wait. Turn
detections that are not set to be patient decide within 4 s (semantic VAD, eagerness auto)."""
NOTICED = 2.0
"""The same after the service has noticed a voice, which may be later than it was there."""
AGAIN = 5.5
"""Seconds until they should hear something a second time: what was said the first time was heard by
then, and the silence after it is no longer than between two fillers."""
A_WORD, SURELY_A_VOICE = 0.3, 1.0
"""Seconds of a voice: less than a word is a click or a breath (a short "yes" has as much); what
lasts so long, a service that works would have noticed."""


class UnansweredSpeech:
    """One call's. Follows the trace of the caller's line."""

    def __init__(self, trace: VoiceTrace) -> None:
        self._trace = trace
        self._began_at: float | None = None
        """When the voice began of which these are told:"""
        self._voiced = 0.0
        """Seconds of it, what was said over the agent's own voice left out."""
        self._told = 0
        """How often the caller has been taken to wait after it."""
        self._ignored = False
        """That was so, and the service had not noticed any voice: perhaps there was none."""

    def voice_heard(self, *, alone: bool) -> None:
        """The trace has heard a frame with a voice; `alone`: the agent is not being heard."""
        if self._trace.began_at != self._began_at:
            self._began_at, self._voiced, self._told = self._trace.began_at, 0.0, 0
        if alone:
            self._voiced += FRAME

    def service_noticed(self) -> None:
        """The service tells something of the caller, or answers: it is awake."""
        self._ignored = False

    def begins_anew(self) -> None:
        """The service says that the caller begins to speak: what they say is waited for anew."""
        self._told, self._ignored = 0, False

    def waits_since(self, now: float, noticed_at: float | None) -> float | None:
        """Since when the caller waits; None: they do not, or it has been told. It is told twice of
        each pause. `noticed_at`: when the service noticed that they speak, None where it did not:
        that may be no voice, and is told once until it notices anything again; what surely is one,
        twice."""
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
