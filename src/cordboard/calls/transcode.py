"""A call's media in another format, where the transport can carry none that the agent understands.

    media = understood(await offer.media(agent.formats), agent.formats)

Most calls need none of it: when the transport speaks one of the agent's formats, `understood` gives
back the very media, and G.711 goes from end to end untouched. Otherwise each frame is converted as
it passes, in a function call: the laws of G.711 by table, the rate by `audio.resample`, which looks
3 ms ahead at 8 kHz and less at higher rates. That is all that it delays.

Time is the same on both sides, so `heard_ms` and marks are the transport's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cordboard.audio import g711
from cordboard.audio.format import AudioFormat
from cordboard.audio.resample import Resampler, to_floats, to_pcm
from cordboard.calls.offer import Media


def understood(media: Media, formats: Sequence[AudioFormat]) -> Media:
    """The media in one of `formats`: itself if it can be, else converted to the first of them."""
    return media if media.format in formats else TranscodedMedia(media, formats[0])


class Transcoder:
    """One stream's way from one format to another."""

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source = source
        self._target = target
        self._resampler = (
            Resampler(source.rate, target.rate) if source.rate != target.rate else None
        )
        self._half_sample = b""
        self._held = 0.0

    def convert(self, sound: bytes) -> bytes:
        """The next piece; what is certain of it by now. Half a sample waits for the rest."""
        if self._source.bytes_per_sample == 2:
            sound = self._half_sample + sound
            whole = len(sound) & ~1
            sound, self._half_sample = sound[:whole], sound[whole:]
        pcm = _to_linear(sound, self._source)
        if self._resampler is not None:
            before = self._source.duration_ms(len(sound))
            pcm = to_pcm(self._resampler.process(to_floats(pcm)))
            self._held += before - len(pcm) / (2 * self._target.rate / 1000)
        return _from_linear(pcm, self._target)

    def settle(self) -> None:
        """Put the silence in that the resampler wants to look ahead on.

        From then on each piece gives as much as it has, exactly; it is a few ms late.
        """
        if self._resampler is not None:
            self._resampler.process(np.zeros(self._resampler.lookahead, np.float32))

    def finish(self) -> bytes:
        """What is held back; afterwards the stream begins anew."""
        self._half_sample = b""
        self._held = 0.0
        if self._resampler is None:
            return b""
        return _from_linear(to_pcm(self._resampler.flush()), self._target)

    @property
    def held_ms(self) -> float:
        """How much sound is held back."""
        return max(0.0, self._held)


class TranscodedMedia:
    """Another media in the format `format` (implements `calls.offer.Media`)."""

    def __init__(self, media: Media, audio_format: AudioFormat) -> None:
        self._media = media
        self._format = audio_format
        self._out = Transcoder(audio_format, media.format)
        self._fresh = False
        """Whether something was written since the last frame went out."""
        self._on_sent: Callable[[bytes], None] | None = None
        self._heard = Transcoder(media.format, audio_format)
        self._heard.settle()
        self._sent_back = Transcoder(media.format, audio_format)
        self._sent_back.settle()
        media.on_sent(self._sent)

    @property
    def format(self) -> AudioFormat:
        return self._format

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._media.on_audio(lambda sound: callback(self._heard.convert(sound)))

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._media.on_dtmf(callback)

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._on_sent = callback

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._media.on_closed(callback)

    def write(self, pcm: bytes) -> None:
        self._fresh = True
        self._media.write(self._out.convert(pcm))

    def mark(self, callback: Callable[[], None]) -> None:
        # The last few ms before it may still be in the resampler: less than a frame, no matter.
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
        """A frame is out. When nothing follows, what is held back is the end of the sound."""
        if self._fresh:
            self._fresh = False
        elif self._out.held_ms and not self._media.queued_ms:
            self._media.write(self._out.finish())
        if self._on_sent is not None:
            self._on_sent(self._sent_back.convert(frame))


def _to_linear(sound: bytes, audio_format: AudioFormat) -> bytes:
    if audio_format.encoding == "ulaw":
        return g711.ulaw_to_linear(sound)
    return g711.alaw_to_linear(sound) if audio_format.encoding == "alaw" else sound


def _from_linear(pcm: bytes, audio_format: AudioFormat) -> bytes:
    if audio_format.encoding == "ulaw":
        return g711.linear_to_ulaw(pcm)
    return g711.linear_to_alaw(pcm) if audio_format.encoding == "alaw" else pcm
