"""The two ends of a simulated caller's audio: outgoing speech and incoming audio.

Both are shared by two threads: the test's event loop fills the mouth and reads the ear; the media
thread takes frames from the mouth and gives frames to the ear.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from cordboard_testkit.room import Room
from cordboard_testkit.timeline import FRAME_SAMPLES, RATE, Samples, Track

SILENT_FRAME: Samples = np.zeros(FRAME_SAMPLES, np.int16)
SILENT_FRAME.flags.writeable = False


class Mouth:
    """Speech to be sent in 20 ms frames, keys to be pressed, and the audio that was sent."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.track = Track()
        self.finished_at: float | None = None
        """Time at which the last sample of the last utterance was sent; None while there is
        more."""
        self.room: Room | None = None
        """Echo and noise at the microphone; None: neither."""
        self._changed = changed
        self._lock = threading.Lock()
        self._speech: deque[Samples] = deque()
        self._keys: deque[str] = deque()

    def say(self, samples: Samples) -> None:
        """Queue speech after the queued speech. Starts with the next frame."""
        if len(samples):
            with self._lock:
                self._speech.append(samples)
                self.finished_at = None

    def stop(self) -> None:
        """Fall silent: drop the speech that has not been sent."""
        with self._lock:
            self._speech.clear()

    def press(self, keys: str) -> None:
        self._keys.extend(keys)

    def next_key(self) -> str | None:
        return self._keys.popleft() if self._keys else None

    def next_frame(self) -> Samples:
        """The next 160 samples to send: speech, padded to a whole frame, or silence."""
        with self._lock:
            if not self._speech:
                return SILENT_FRAME
            head = self._speech[0]
            frame = head[:FRAME_SAMPLES]
            if len(head) > FRAME_SAMPLES:
                self._speech[0] = head[FRAME_SAMPLES:]
            else:
                self._speech.popleft()
        if len(frame) < FRAME_SAMPLES:
            frame = np.pad(frame, (0, FRAME_SAMPLES - len(frame)))
        return frame

    def picked_up(self, at: float, frame: Samples) -> Samples:
        """Return `frame`, sent at `at`, with the room's echo and noise."""
        return frame if self.room is None else self.room.picked_up(at, frame)

    def sent(self, at: float, frame: Samples) -> None:
        """Record that a frame left at `at`."""
        self.track.append(at, frame)
        if frame is SILENT_FRAME:
            return
        with self._lock:
            if not self._speech:
                self.finished_at = at + len(frame) / RATE
        self._changed()


class Ear:
    """Incoming audio with its arrival times, and keys."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.track = Track()
        self.keys: list[str] = []
        self.room: Room | None = None
        self._changed = changed

    def hear(self, at: float, samples: Samples) -> None:
        """Take a frame that arrived at `at`."""
        before = self.track.last_loud_at
        frame = self.track.append(at, samples)
        if self.room is not None:
            self.room.played(frame)
        if self.track.last_loud_at != before:
            self._changed()

    def hear_key(self, key: str) -> None:
        self.keys.append(key)
        self._changed()
