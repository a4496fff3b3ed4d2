"""How sound is coded in the RTP that Asterisk's ExternalMedia channels speak.

There is no SDP: Asterisk takes what comes back by static payload types only (up to 34) and drops
the rest without a word (asterisk 22 chan_rtp.c; measured on 22.10.1). Hence no `slin16`: it would
arrive, as type 118, but nothing that we send as 118 would be heard. Wideband is G.722, both ways.
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
"""20 ms of the 8 kHz clock that all of them have, G.722 too (RFC 3551 section 4.5.2)."""


def _same(sound: bytes) -> bytes:
    return sound


def _swapped(sound: bytes) -> bytes:
    """Network byte order to ours, or back."""
    samples = array.array("h", sound)
    samples.byteswap()
    return samples.tobytes()


@dataclass(frozen=True, slots=True)
class RtpCoding:
    """One of them."""

    name: str
    """What Asterisk calls it."""
    payload_type: int
    format: AudioFormat
    """What it is inside the engine."""
    unit_bytes: int
    """A payload is a whole number of these."""
    decoder: Callable[[], Convert]
    """Makes one stream's way from a payload to the format."""
    encoder: Callable[[], Convert]
    """Makes one stream's way from the format to a payload."""


ULAW = RtpCoding("ulaw", 0, ULAW_8K, 1, lambda: _same, lambda: _same)
ALAW = RtpCoding("alaw", 8, ALAW_8K, 1, lambda: _same, lambda: _same)
SLIN = RtpCoding("slin", 10, SLIN_8K, 2, lambda: _swapped, lambda: _swapped)
"""Asterisk's own use of type 10: big-endian, 8 kHz, one channel (measured)."""
G722 = RtpCoding(
    "g722", 9, SLIN_16K, 1, lambda: g722.Decoder().decode, lambda: g722.Encoder().encode
)
CODINGS = {coding.name: coding for coding in (ULAW, ALAW, SLIN, G722)}


def choose(formats: Sequence[AudioFormat], codec: str = "auto") -> RtpCoding:
    """The coding for the first of `formats` that can be carried; for none of them, u-law.

    `codec` is `asterisk.codec`: a name leaves no choice. Raises `MediaError` for one that cannot
    be used.
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
