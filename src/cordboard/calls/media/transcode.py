"""Converts a call's media to another format, if the transport has none that the agent supports.

    media = understood(await offer.media(agent.formats), agent.formats)

Most calls do not need this: if the transport supports one of the agent's formats, `understood`
returns the same media, and G.711 passes end to end unchanged. Otherwise each frame is converted as
it passes (`audio.transcoder`).

Time is the same on both sides, so `heard_ms` and marks are the transport's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.calls.offer import Media


def understood(media: Media, formats: Sequence[AudioFormat]) -> Media:
    """Return the media itself if it has one of `formats`, otherwise converted to the first one."""
    return media if media.format in formats else TranscodedMedia(media, formats[0])


class TranscodedMedia:
    """Presents another media in the format `format` (implements `calls.offer.Media`)."""

    def __init__(self, media: Media, audio_format: AudioFormat) -> None:
        self._media = media
        self.format = audio_format
        self._out = Transcoder(audio_format, media.format)
        self._fresh = False
        """True if sound was written since the last frame was sent."""
        self._on_sent: Callable[[bytes], None] | None = None
        self._heard = Transcoder(media.format, audio_format)
        self._heard.settle()
        self._sent_back = Transcoder(media.format, audio_format)
        self._sent_back.settle()
        media.on_sent(self._sent)

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._media.on_audio(lambda sound: callback(self._heard.convert(sound)))

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._media.on_dtmf(callback)

    def on_hold(self, callback: Callable[[bool], None]) -> None:
        self._media.on_hold(callback)

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._on_sent = callback

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._media.on_closed(callback)

    def write(self, pcm: bytes) -> None:
        self._fresh = True
        self._media.write(self._out.convert(pcm))

    def mark(self, callback: Callable[[], None]) -> None:
        # The last few ms before it may still be in the resampler: less than a frame, negligible.
        self._media.mark(callback)

    def hold(self) -> None:
        self._media.hold()

    def resume(self) -> None:
        self._media.resume()

    def flush(self) -> int:
        self._out.finish()
        self._fresh = False
        return self._media.flush()

    @property
    def heard_ms(self) -> int:
        return self._media.heard_ms

    @property
    def queued_ms(self) -> int:
        held = self._out.held_ms
        return self._media.queued_ms + (int(held) + 1 if held else 0)

    async def close(self) -> None:
        await self._media.close()

    def _sent(self, frame: bytes) -> None:
        """Handle a sent frame. If no more sound follows, write what the resampler holds back."""
        if self._fresh:
            self._fresh = False
        elif self._out.held_ms and not self._media.queued_ms:
            self._media.write(self._out.finish())
        if self._on_sent is not None:
            self._on_sent(self._sent_back.convert(frame))
