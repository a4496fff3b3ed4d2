"""Codings of audio in the RTP that Asterisk's ExternalMedia channels speak.

There is no SDP: Asterisk accepts only static payload types (up to 34) and silently drops the rest
(asterisk 22 chan_rtp.c; measured on 22.10.1). Hence no `slin16`: it would arrive, as type 118, but
Asterisk would drop all that we send as 118. Wideband is G.722, both ways.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cordboard.audio import g722
from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.errors import MediaError

Convert = Callable[[bytes], bytes]
TIMESTAMP_STEP = 160
"""20 ms of the 8 kHz clock that all codings have, G.722 too (RFC 3551 section 4.5.2)."""


def _same(sound: bytes) -> bytes:
    return sound


def _swapped(sound: bytes) -> bytes:
    """Convert network byte order to ours, or back."""
    samples = array.array("h", sound)
    samples.byteswap()
    return samples.tobytes()


@dataclass(frozen=True, slots=True)
class RtpCoding:
    """One of them."""

    name: str
    """Asterisk's name."""
    payload_type: int
    format: AudioFormat
    """Format inside the engine."""
    unit_bytes: int
    """Unit of a payload; its length is a multiple of this."""
    decoder: Callable[[], Convert]
    """Makes the converter of one stream from payload to `format`."""
    encoder: Callable[[], Convert]
    """Makes the converter of one stream from `format` to payload."""


ULAW = RtpCoding("ulaw", 0, ULAW_8K, 1, lambda: _same, lambda: _same)
ALAW = RtpCoding("alaw", 8, ALAW_8K, 1, lambda: _same, lambda: _same)
SLIN = RtpCoding("slin", 10, SLIN_8K, 2, lambda: _swapped, lambda: _swapped)
"""Asterisk's own use of type 10: big-endian, 8 kHz, one channel (measured)."""
G722 = RtpCoding(
    "g722", 9, SLIN_16K, 1, lambda: g722.Decoder().decode, lambda: g722.Encoder().encode
)
CODINGS = {coding.name: coding for coding in (ULAW, ALAW, SLIN, G722)}


def choose(formats: Sequence[AudioFormat], codec: str = "auto") -> RtpCoding:
    """Return the coding for the first of `formats` that can be carried; if there is none, u-law.

    `codec` is `asterisk.codec`; a name fixes the coding. Raises `MediaError` for an unusable
    codec.
    """
    if codec != "auto":
        coding = CODINGS.get(codec)
        if coding is None:
            raise MediaError(
                f"asterisk.codec {codec} cannot be used with asterisk.media: rtp, because Asterisk "
                f"drops what it is sent in it; use one of {', '.join(CODINGS)}"
            )
        if coding is G722 and not g722.installed():
            raise MediaError(
                "asterisk.codec g722 needs the package G722: pip install 'cordboard[g722]'"
            )
        return coding
    usable = [coding for coding in CODINGS.values() if coding is not G722 or g722.installed()]
    for wanted in formats:
        for coding in usable:
            if coding.format == wanted:
                return coding
    return ULAW
