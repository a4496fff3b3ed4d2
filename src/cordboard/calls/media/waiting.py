"""Media of a caller who comes later: the agent starts on it while another engine has the caller.

Until `connect` no sound passes; afterwards callbacks go to the caller's media directly, so that a
frame costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable

from cordboard.audio.format import AudioFormat
from cordboard.calls.offer import Media


class WaitingMedia:
    """Implements `calls.offer.Media`. Use once."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format
        self._media: Media | None = None
        self._on_audio: Callable[[bytes], None] | None = None
        self._on_sent: Callable[[bytes], None] | None = None
        self._on_dtmf: Callable[[str], None] | None = None
        self._on_hold: Callable[[bool], None] | None = None
        self._on_closed: Callable[[str], None] | None = None

    def connect(self, media: Media) -> None:
        """Connect the caller, whose media have the same format."""
        self._media = media
        if self._on_audio is not None:
            media.on_audio(self._on_audio)
        if self._on_sent is not None:
            media.on_sent(self._on_sent)
        if self._on_dtmf is not None:
            media.on_dtmf(self._on_dtmf)
        if self._on_hold is not None:
            media.on_hold(self._on_hold)
        if self._on_closed is not None:
            media.on_closed(self._on_closed)

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._on_audio = callback
        if self._media is not None:
            self._media.on_audio(callback)

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._on_sent = callback
        if self._media is not None:
            self._media.on_sent(callback)

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._on_dtmf = callback
        if self._media is not None:
            self._media.on_dtmf(callback)

    def on_hold(self, callback: Callable[[bool], None]) -> None:
        self._on_hold = callback
        if self._media is not None:
            self._media.on_hold(callback)

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._on_closed = callback
        if self._media is not None:
            self._media.on_closed(callback)

    def write(self, pcm: bytes) -> None:
        """Send sound to the caller; dropped as long as there is none."""
        if self._media is not None:
            self._media.write(pcm)

    def mark(self, callback: Callable[[], None]) -> None:
        if self._media is not None:
            self._media.mark(callback)

    def hold(self) -> None:
        if self._media is not None:
            self._media.hold()

    def resume(self) -> None:
        if self._media is not None:
            self._media.resume()

    def flush(self) -> int:
        return self._media.flush() if self._media is not None else 0

    @property
    def heard_ms(self) -> int:
        return self._media.heard_ms if self._media is not None else 0

    @property
    def queued_ms(self) -> int:
        return self._media.queued_ms if self._media is not None else 0

    async def close(self) -> None:
        if self._media is not None:
            await self._media.close()
