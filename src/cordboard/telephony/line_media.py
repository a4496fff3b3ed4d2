"""The parts shared by all media of a line: callbacks, end, and limits of arriving data.

`LineMediaBase` holds the callbacks of `calls.offer.Media` and reports the end to the call once.
`PacedMedia` adds the outgoing side of a transport whose clock is ours (AudioSocket, RTP).
`ArrivalMeter` distinguishes a flood from audio that catches up after a stall.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from cordboard.audio.format import AudioFormat
from cordboard.telephony.outgoing import OutgoingAudio

Ending = Literal[
    "caller_hangup",  # the caller hung up (or the network did for them)
    "hangup",  # we ended the line
    "transferred",  # the caller is elsewhere in the PBX now, and no longer ours
    "media_lost",  # the audio broke while the line was still there
    "handed_over",  # another engine has the caller now, by agreement
    "fenced",  # other engines have replaced this one, and may have its callers
    "asterisk_lost",  # Asterisk went away, and the caller with it
    "trial_over",  # the trial that the call from a browser ran on has ended
]
"""Reason why a line or its media ended: the words that `Media.on_closed` passes to the call."""

IDLE_SECONDS = 300.0
"""Longest silence of Asterisk: a phone on hold or muted sends nothing for minutes."""
FLOOD_SECONDS = 10.0
"""Leeway of arriving audio over real time. Asterisk may catch up after a stall by that much."""
MESSAGES_PER_SECOND = 2_000
"""Limit above which messages of any kind are a flood: Asterisk sends 50 audio messages a second,
100 for a phone with packets of 10 ms, and may catch up with `FLOOD_SECONDS` of them; the marks of
chan_websocket make 50."""


class LineMediaBase(ABC):
    """The callbacks of one call and the end of its media. Part of a `media_path.LineMedia`."""

    def __init__(self) -> None:
        self._on_audio: Callable[[bytes], None] | None = None
        self._on_dtmf: Callable[[str], None] | None = None
        self._on_hold: Callable[[bool], None] | None = None
        self._on_sent: Callable[[bytes], None] | None = None
        self._on_closed: Callable[[str], None] | None = None
        self._on_lost: Callable[[str], None] | None = None
        self._ending: Ending | None = None
        self._closing = False
        self._in_use = True
        """True until the media has ended or the call closes it."""
        self.idle_seconds = IDLE_SECONDS
        """Time for which Asterisk may send nothing at all before the media counts as lost."""

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._on_audio = callback

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._on_dtmf = callback

    def on_hold(self, callback: Callable[[bool], None]) -> None:
        self._on_hold = callback

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._on_sent = callback

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._on_closed = callback
        if self._ending is not None:
            callback(self._ending)

    def caller_holds(self, on: bool) -> None:
        """Report to the call that the caller has put it on hold, or is back."""
        if self._on_hold is not None:
            self._on_hold(on)

    def end(self, reason: Ending) -> None:
        """Report, once, the end of the media or line to the call; stop the audio both ways."""
        if not self._in_use:
            return
        self._ending, self._in_use = reason, False
        self._on_audio = self._on_dtmf = self._on_hold = self._on_sent = None
        self._stop_sound()
        if self._on_closed is not None:
            self._on_closed(reason)

    def _begin_closing(self) -> None:
        """Stop all callbacks: the call closes the media."""
        self._closing, self._in_use = True, False
        self._on_audio = self._on_dtmf = self._on_hold = self._on_sent = self._on_closed = None

    def _tell_lost(self, problem: str) -> None:
        """Report the loss of the transport to the line, once, unless the media is over anyway."""
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None and self._in_use:
            on_lost(problem)

    @abstractmethod
    def _stop_sound(self) -> None:
        """Send nothing more, and drop queued audio."""


class PacedMedia(LineMediaBase):
    """Media whose playout clock is the engine's pacer: audio waits here for its tick."""

    def __init__(self, audio_format: AudioFormat) -> None:
        super().__init__()
        self._outgoing = OutgoingAudio(audio_format)

    def write(self, pcm: bytes) -> None:
        if self._in_use:
            self._outgoing.write(pcm)

    def mark(self, callback: Callable[[], None]) -> None:
        if self._in_use:
            self._outgoing.mark(callback)

    def hold(self) -> None:
        self._outgoing.hold()

    def resume(self) -> None:
        self._outgoing.resume()

    def flush(self) -> int:
        return self._outgoing.flush()

    @property
    def heard_ms(self) -> int:
        return self._outgoing.heard_ms

    @property
    def queued_ms(self) -> int:
        return self._outgoing.queued_ms


class ArrivalMeter:
    """Measures arrivals on one transport against real time. `now` is loop seconds."""

    def __init__(self, now: float, flood_seconds: float = FLOOD_SECONDS) -> None:
        self._flood_seconds = flood_seconds
        self._sound_until = now
        """Loop time at which the received audio would end if played on arrival."""
        self._second_from = now
        self._count = 0
        self._count_before = 0
        """Messages that arrived before the present second."""

    def takes_sound(self, seconds: float, now: float) -> bool:
        """Count `seconds` of audio; return False if that exceeds real time and the leeway."""
        begin = self._sound_until
        if begin < now:
            begin = now  # a silence earns no leeway
        until = begin + seconds
        if until > now + self._flood_seconds:
            return False
        self._sound_until = until
        return True

    def takes_messages(self, count: int, now: float) -> bool:
        """Note that `count` messages have arrived in all; return False in a flood."""
        if now - self._second_from >= 1.0:
            self._count_before, self._second_from = self._count, now
        self._count = count
        return count - self._count_before <= MESSAGES_PER_SECOND
