"""The caller's recent audio, replayed to a new connection when the lost one reported no words of
it.

Frames are kept while there is a voice, and a little before and after it, so that the replay
contains the caller's words and not the time for which the service was silent. Pure bookkeeping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cordboard.audio.voice_trace import BETWEEN, VoiceTrace
from cordboard.speech.caller_sound import FRAME, LEAD, CallerSound

KEPT = round(15.0 / FRAME)
"""Frames that are kept; a longer utterance loses its beginning."""


class AudioReplay:
    """The kept audio of one call. `keep` and `pass_on` are called for each frame: cheap."""

    def __init__(self) -> None:
        self._sound = CallerSound(KEPT)
        self._before: deque[bytes] = deque(maxlen=LEAD)
        """The last frames without a voice."""
        self._kept = 0
        self._began_at: float | None = None
        self._utterance = 0
        """Number of frames kept when the utterance began."""

    def keep(self, frame: bytes, now: float, trace: VoiceTrace, same: Callable[[], bool]) -> None:
        """Keep one more frame, which `trace` has heard. `same`: True if a voice that begins now
        continues an utterance that no service has understood yet."""
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
        """Note that the connection is gone. `unheard`: the last utterance was lost with it."""
        if unheard:
            self._sound.utterance_begins((self._kept - self._utterance) * FRAME)
        self._sound.nobody_listens()

    def accepted(self) -> None:
        """Note that a new connection is ready: it hears the kept frames before the live ones."""
        self._sound.somebody_listens()

    def pass_on(self, frame: bytes, hear: Callable[[bytes], None]) -> None:
        """Give the service the frames it has missed, then this one."""
        self._sound.pass_on(frame, hear)
