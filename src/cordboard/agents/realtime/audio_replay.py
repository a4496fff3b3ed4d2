"""What the caller said lately, for another connection to hear: the lost one told nothing of it.

Frames are kept while there is a voice, and a little before and after it, so that what is heard
again is the caller's words and not the time that the service was silent. Pure bookkeeping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cordboard.audio.voice_trace import BETWEEN, VoiceTrace
from cordboard.speech.caller_sound import FRAME, LEAD, CallerSound

KEPT = round(15.0 / FRAME)
"""Frames; of a longer utterance, the beginning is lost."""


class AudioReplay:
    """One call's. `keep` and `pass_on` are called for each frame: cheap."""

    def __init__(self) -> None:
        self._sound = CallerSound(KEPT)
        self._before: deque[bytes] = deque(maxlen=LEAD)
        """The last frames without a voice."""
        self._kept = 0
        self._began_at: float | None = None
        self._utterance = 0
        """How many frames had been kept when it began."""

    def keep(self, frame: bytes, now: float, trace: VoiceTrace, same: Callable[[], bool]) -> None:
        """One more frame, which `trace` has heard. `same`: whether a voice that begins now goes on
        with what no service has understood yet."""
        last = trace.last_voice_at
        if last is None or now - last > BETWEEN:
            self._before.append(frame)
            return
        if trace.began_at != self._began_at:
            self._began_at = trace.began_at
            for earlier in self._before:
                self._sound.keep(earlier)
            self._kept += len(self._before)
            self._before.clear()
            if not same():
                self._utterance = self._kept
        self._sound.keep(frame)
        self._kept += 1

    def lost(self, *, unheard: bool) -> None:
        """The connection is gone. `unheard`: and with it the last utterance."""
        if unheard:
            self._sound.utterance_begins((self._kept - self._utterance) * FRAME)
        self._sound.nobody_listens()

    def accepted(self) -> None:
        """There is another one: what it has to hear comes before what the caller says now."""
        self._sound.somebody_listens()

    def pass_on(self, frame: bytes, hear: Callable[[bytes], None]) -> None:
        """Have the service hear this frame, after those that it has missed."""
        self._sound.pass_on(frame, hear)
