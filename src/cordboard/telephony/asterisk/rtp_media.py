"""One RTP stream each way as the media of one call (implements `media_path.LineMedia`).

Each arriving frame goes straight to the call by a function call. Each outgoing frame is sent at a
tick of the shared pacer, silence when nothing is queued: the stream is never interrupted, its
timestamps never jump.

Only packets from the address that Asterisk named are heard. All others, and unusable ones, are
counted by a fixed word (`counts`) and dropped; they never end the call.

Dead peers: a phone on hold sends nothing, and then neither does Asterisk, so silence is no sign.
Our packet every 20 ms is answered by ICMP when Asterisk has closed its port; `REFUSALS` such
answers in a row are a loss. `idle_seconds` is the last resort.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import structlog

from cordboard.audio import g711
from cordboard.audio.format import AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.telephony.asterisk import rtp
from cordboard.telephony.asterisk.rtp_codings import TIMESTAMP_STEP, RtpCoding
from cordboard.telephony.asterisk.rtp_jitter import JitterBuffer
from cordboard.telephony.asterisk.rtp_ports import MAX_DATAGRAM, Address, RtpPorts
from cordboard.telephony.line_media import ArrivalMeter, PacedMedia

log = structlog.get_logger()

FLOOD_SECONDS = 1.0
"""Leeway of arriving audio over real time; the excess is dropped."""
REFUSALS = 3
UNSENDABLE_TICKS = 100
"""Frames in a row that cannot be sent (2 s) are a loss."""
FIRST_PACKET_SECONDS = 5.0
"""Time without any packet from the start after which the log gives advice."""
_FULL = (errno.ENOBUFS, errno.EAGAIN, errno.EWOULDBLOCK)


FADE_MS = 60
"""ITU-T G.711 appendix I fades over 60 ms as well."""


class Concealer:
    """Conceals lost frames of a stream: the last frame is repeated, fading to silence in 60
    ms. Pure. Only a lost frame costs more than keeping the last one at hand.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._last = audio_format.silence()
        self._faded_ms = FADE_MS

    def heard(self, frame: bytes) -> None:
        """Note a received frame."""
        self._last = frame
        self._faded_ms = 0

    def conceal(self) -> bytes:
        """Return a substitute for a lost frame, of the last frame's length."""
        size = len(self._last)
        duration = self._format.duration_ms(size)
        begin, self._faded_ms = self._faded_ms, self._faded_ms + int(duration)
        if begin >= FADE_MS:
            return self._format.silence(duration)
        samples = np.frombuffer(self._to_linear(self._last), "<i2").astype(np.float32)
        at = begin + np.arange(len(samples), dtype=np.float32) * (duration / len(samples))
        faded = samples * np.clip(1 - at / FADE_MS, 0, 1)
        return self._from_linear(faded.astype("<i2").tobytes())

    def _to_linear(self, frame: bytes) -> bytes:
        if self._format.encoding == "ulaw":
            return g711.ulaw_to_linear(frame)
        return g711.alaw_to_linear(frame) if self._format.encoding == "alaw" else frame

    def _from_linear(self, pcm: bytes) -> bytes:
        if self._format.encoding == "ulaw":
            return g711.linear_to_ulaw(pcm)
        return g711.linear_to_alaw(pcm) if self._format.encoding == "alaw" else pcm


class RtpMedia(PacedMedia):
    """The media of one call."""

    def __init__(self, ports: RtpPorts, coding: RtpCoding, pacer: Pacer) -> None:
        """Raises `MediaError` when no port is free. Call `direct` before `claim`."""
        super().__init__(coding.format)
        self._loop = asyncio.get_running_loop()
        self._pacer = pacer
        self._coding = coding
        self._totals = ports.counts
        self.counts: Counter[str] = Counter()
        """Packets dropped or concealed, by a fixed word."""
        self._socket = ports.open(self)
        self._peer: Address = ("", 0)
        self._jitter = JitterBuffer(self._note)
        self._concealer = Concealer(coding.format)
        self._decode = coding.decoder()
        self._encode = coding.encoder()
        self._silence = coding.format.silence()
        self._packets = rtp.Packetiser(
            coding.payload_type,
            TIMESTAMP_STEP,
            ssrc=random.getrandbits(32),
            sequence=random.getrandbits(16),
            timestamp=random.getrandbits(32),
        )
        self._was_silent = True
        self._heard_at = 0.0
        self._arrivals = ArrivalMeter(0.0, FLOOD_SECONDS)
        # All codings have 8 or 16 bytes per millisecond: one unit for each tick of their clock.
        self._bytes_per_second = coding.unit_bytes * 8000
        self._claimed_at = 0.0
        self._nothing_came = True
        self._refusals = 0
        self._unsent = 0

    # For the path.

    @property
    def port(self) -> int:
        """Our UDP port."""
        return self._socket.port

    def direct(self, peer: Address) -> None:
        """Set Asterisk's address: packets are accepted from it and sent to it only."""
        self._peer = peer

    # media_path.LineMedia

    def claim(self, on_lost: Callable[[str], None]) -> None:
        self._on_lost = on_lost
        self._claimed_at = self._heard_at = self._loop.time()
        self._pacer.register(self, self._pacer_failed)
        self._socket.listen()

    def abort(self) -> None:
        self._stop_sound()

    def take_key(self, key: str) -> None:
        """Hand on a key from ARI, its only source: this stream carries none (measured)."""
        if self._on_dtmf is not None:
            self._on_dtmf(key)

    # calls.offer.Media

    @property
    def format(self) -> AudioFormat:
        return self._coding.format

    async def close(self) -> None:
        if self._closing:
            return
        self._begin_closing()
        self._stop_sound()
        if self.counts:
            log.info("rtp_quality", port=self.port, **self.counts)

    # audio.pacer.Outlet

    def tick(self, count: int) -> None:
        """Send the frames that are due."""
        now = self._loop.time()
        self._socket.refresh()
        if self._jitter.waiting:
            self._hand_on(self._jitter.expire(now))
        if now - self._heard_at > self.idle_seconds:
            self._lose(f"no packet from Asterisk for {self.idle_seconds:g} s")
            return
        if self._nothing_came and now - self._claimed_at > FIRST_PACKET_SECONDS:
            self._nothing_came = False
            log.warning("rtp_nothing_came", port=self.port, expected_from=self._peer, **self.counts)
        for _ in range(count):
            frame = self._outgoing.frame()
            silent = frame == self._silence
            packet = self._packets.packet(
                self._encode(frame), marker=self._was_silent and not silent
            )
            self._was_silent = silent
            self._send(packet)
            if self._on_sent is not None:
                self._on_sent(frame)
        self._outgoing.settle()

    # rtp_ports.Receiver

    def datagram(self, data: bytes, source: Address) -> None:
        if source != self._peer:
            self._note("stranger")
            return
        if len(data) > MAX_DATAGRAM:
            self._note("too_long")
            return
        packet = rtp.parse(data)
        if isinstance(packet, rtp.Malformed):
            self._note("malformed")
            return
        now = self._heard_at = self._loop.time()
        self._nothing_came = False
        self._refusals = 0
        payload = packet.payload
        if packet.payload_type != self._coding.payload_type:
            self._note("payload_type")
            packet = packet._replace(payload=b"")  # unusable, but not lost
        elif len(payload) % self._coding.unit_bytes:
            self._note("payload_length")
            packet = packet._replace(payload=b"")
        elif not self._arrivals.takes_sound(len(payload) / self._bytes_per_second, now):
            self._note("flood")
            packet = packet._replace(payload=b"")
        self._hand_on(self._jitter.push(packet, now))

    def refused(self) -> None:
        self._note("refused")
        self._refusals += 1
        if self._refusals >= REFUSALS:
            self._lose("Asterisk has closed its RTP port")

    def flooded(self) -> None:
        self._note("flood")

    def broken(self, error: Exception) -> None:
        self._note("broken")
        self._lose(f"receiving failed: {error!r}")

    # Inside.

    def _hand_on(self, payloads: Sequence[bytes | None]) -> None:
        for payload in payloads:
            if self._on_audio is None or payload == b"":
                continue
            if payload is None:
                self._note("concealed")
                frame = self._concealer.conceal()
            else:
                frame = self._decode(payload)
                self._concealer.heard(frame)
            self._on_audio(frame)

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet, self._peer)
        except ConnectionRefusedError:
            return  # the answer to an earlier packet; `refused` handles it
        except OSError as error:
            self._note("send_full" if error.errno in _FULL else "send_failed")
            self._unsent += 1
            if self._unsent == UNSENDABLE_TICKS:
                self._lose(f"nothing can be sent to Asterisk: {error}")
        else:
            self._unsent = 0

    def _note(self, word: str, count: int = 1) -> None:
        self.counts[word] += count
        self._totals[word] += count

    def _pacer_failed(self, error: Exception) -> None:
        self._lose(f"sending failed: {error!r}")

    def _lose(self, problem: str) -> None:
        """Report the loss of the media; the line finds the word for it."""
        self._stop_sound()
        self._tell_lost(problem)

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self._socket.close()
        self._outgoing.flush()
