"""Outgoing audio of a call. No sockets, no clock.

Where the engine itself must pace it, a media transport writes the call's audio into an
`OutgoingAudio` and takes one frame out of it at every tick of the pacer. Only this class counts the
audio that the caller has heard, to the sample. Where the far side owns the clock, `HeardFrames`
keeps the sent audio until it has been heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cordboard.audio.format import AudioFormat

_SHOWN_BEHIND_FRAMES = 2
"""Frames that `HeardFrames` may lag behind the heard audio before it shows more than one a tick."""


class OutgoingAudio:
    """A queue of samples with marks in it. Counts written audio, never filled-in silence."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._frame_bytes = audio_format.frame_bytes
        self._bytes_per_ms = audio_format.bytes_per_ms
        self._bytes_per_sample = audio_format.bytes_per_sample
        self._silence = audio_format.silence()
        self._queue = bytearray()
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        self._taken = 0
        self._held = False

    def write(self, pcm: bytes) -> None:
        """Append audio of any length, even half a sample (the rest is expected to follow)."""
        self._queue += pcm

    def mark(self, callback: Callable[[], None]) -> None:
        """Call back from `settle` once the audio before the mark is out.

        A mark with audio behind it fires with the first frame of that audio; one without audio
        behind it fires with the last frame before it (or with the next frame, if all is out).
        """
        self._marks.append((self._taken + len(self._queue), callback))

    def frame(self) -> bytes:
        """Take the next 20 ms out, filled up with silence if there is too little."""
        if self._held:
            return self._silence
        queue = self._queue
        size = min(len(queue), self._frame_bytes)
        size -= size % self._bytes_per_sample
        if size == 0:
            return self._silence
        frame = bytes(queue[:size])
        del queue[:size]
        self._taken += size
        return frame if size == self._frame_bytes else frame + self._silence[size:]

    def settle(self) -> None:
        """Fire the marks that the taken frames have reached. Call it when they are sent."""
        marks = self._marks
        while marks and self._reached(marks[0][0]):
            marks.popleft()[1]()

    def _reached(self, position: int) -> bool:
        if position < self._taken:
            return True
        # Half a sample that waits for its other half does not delay a mark.
        return len(self._queue) < self._bytes_per_sample and position == self._taken + len(
            self._queue
        )

    def hold(self) -> None:
        """Return silence and keep the queue, until `resume` or `flush`."""
        self._held = True

    def resume(self) -> None:
        """Continue at the exact sample."""
        self._held = False

    def flush(self) -> int:
        """Drop audio not yet taken, and the marks in it. Returns `heard_ms`. Ends a hold."""
        self._held = False
        self._queue.clear()
        self._marks.clear()
        return self.heard_ms

    @property
    def heard_ms(self) -> int:
        """Milliseconds of written audio that have been taken."""
        return self._taken // self._bytes_per_ms

    @property
    def queued_ms(self) -> int:
        """Milliseconds of written audio not yet taken; rounded up, so 0 means none."""
        return -(-len(self._queue) // self._bytes_per_ms)


class HeardFrames:
    """The frames that the caller hears, where the far side owns the playout clock.

    Positions are bytes of all audio added so far; audio that was cut does not count.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self._frame_bytes = audio_format.frame_bytes
        self._silence = audio_format.silence()
        self._audio = bytearray()
        """Audio from `_shown` on."""
        self._shown = 0

    def add(self, sound: bytes) -> None:
        """Append audio that was sent to the far side."""
        self._audio += sound

    def cut(self, position: int) -> None:
        """Drop the audio from this position on: it will not be heard."""
        del self._audio[max(0, position - self._shown) :]
        self._shown = min(self._shown, position)

    def show(self, position: int, count: int, callback: Callable[[bytes], None]) -> None:
        """Hand `count` frames of what is heard up to `position` to `callback`: audio, or silence.

        Hands on more when it lags behind.
        """
        size = self._frame_bytes
        behind = (position - self._shown) // size - _SHOWN_BEHIND_FRAMES
        for _ in range(max(count, behind)):
            heard = min(position - self._shown, len(self._audio))
            if heard <= 0 or heard < min(size, len(self._audio)):
                callback(self._silence)
                continue
            frame = bytes(self._audio[:size])
            del self._audio[:size]
            self._shown += len(frame)
            callback(frame if len(frame) == size else frame + self._silence[len(frame) :])
