"""A media in another format: sound, time, marks and the end of an answer, on a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import numpy as np
import pytest

from cordboard.audio import g711, transcoder
from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.audio.transcoder import Transcoder
from cordboard.calls.media import transcode
from cordboard.calls.media.transcode import TranscodedMedia, understood
from cordboard.telephony.outgoing import OutgoingAudio
from cordboard_testkit.virtual_time import virtual_time

SLIN_24K = AudioFormat("slin", 24_000)
FORMATS = [ULAW_8K, ALAW_8K, SLIN_8K, SLIN_16K, SLIN_24K]
PAIRS = [(inner, outer) for inner in FORMATS for outer in FORMATS if inner != outer]


def coded(samples: np.ndarray, audio_format: AudioFormat) -> bytes:
    pcm = samples.astype("<i2").tobytes()
    laws = {"ulaw": g711.linear_to_ulaw, "alaw": g711.linear_to_alaw}
    return laws.get(audio_format.encoding, bytes)(pcm)


def samples(sound: bytes, audio_format: AudioFormat) -> np.ndarray:
    laws = {"ulaw": g711.ulaw_to_linear, "alaw": g711.alaw_to_linear}
    return np.frombuffer(laws.get(audio_format.encoding, bytes)(sound), "<i2").astype(float)


def tone(audio_format: AudioFormat, ms: int = 500, hertz: int = 700) -> bytes:
    at = np.arange(audio_format.rate * ms // 1000) / audio_format.rate
    return coded(8000 * np.sin(2 * np.pi * hertz * at), audio_format)


class Line:
    """A paced media, as those of telephony are; the caller speaks by `say`."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format
        self._outgoing = OutgoingAudio(audio_format)
        self._pacer = Pacer(asyncio.get_running_loop())
        self._pacer.register(self)
        self.played = bytearray()
        self._sent: Callable[[bytes], None] | None = None
        self._audio: Callable[[bytes], None] | None = None
        self.keys: Callable[[str], None] | None = None
        self.ends: Callable[[str], None] | None = None
        for name in ("write", "mark", "hold", "resume", "flush"):
            setattr(self, name, getattr(self._outgoing, name))

    def tick(self, count: int) -> None:
        for _ in range(count):
            frame = self._outgoing.frame()
            self.played += frame
            if self._sent is not None:
                self._sent(frame)
        self._outgoing.settle()

    @property
    def heard_ms(self) -> int:
        return self._outgoing.heard_ms

    @property
    def queued_ms(self) -> int:
        return self._outgoing.queued_ms

    def on_audio(self, callback):
        self._audio = callback

    def on_sent(self, callback):
        self._sent = callback

    def on_dtmf(self, callback):
        self.keys = callback

    def on_hold(self, callback):
        self.holds = callback

    def on_closed(self, callback):
        self.ends = callback

    async def close(self) -> None:
        self._pacer.unregister(self)

    def say(self, sound: bytes) -> None:
        for start in range(0, len(sound), self.format.frame_bytes):
            self._audio(sound[start : start + self.format.frame_bytes])


def run(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    with virtual_time() as loop:
        loop.run_until_complete(scenario())


def in_virtual_time(scenario: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    def test() -> None:
        run(scenario)

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


def assert_same_tone(sound: np.ndarray, audio_format: AudioFormat, hertz: int = 700) -> None:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    peak = spectrum.argmax()
    assert peak * audio_format.rate / len(sound) == pytest.approx(hertz, abs=5)
    around = (spectrum[max(0, peak - 4) : peak + 5] ** 2).sum()
    assert around / (spectrum**2).sum() > 0.995
    assert sound.std() == pytest.approx(8000 / 2**0.5, rel=0.08)


@pytest.mark.parametrize(("inner", "outer"), PAIRS, ids=str)
def test_both_ways_carry_a_tone_in_whole_frames(inner, outer):
    async def scenario() -> None:
        line = Line(inner)
        media = TranscodedMedia(line, outer)
        heard: list[bytes] = []
        media.on_audio(heard.append)
        line.say(tone(inner))
        assert {len(frame) for frame in heard} == {outer.frame_bytes}
        assert len(heard) == 25
        assert_same_tone(samples(b"".join(heard[2:]), outer), outer)

        sent: list[bytes] = []
        media.on_sent(sent.append)
        media.write(tone(outer))
        await asyncio.sleep(0.7)
        begin = 40 * inner.bytes_per_ms
        assert_same_tone(samples(bytes(line.played[begin : begin * 11]), inner), inner)
        assert {len(frame) for frame in sent} == {outer.frame_bytes}
        assert_same_tone(samples(b"".join(sent[2:22]), outer), outer)
        assert media.queued_ms == 0
        assert media.heard_ms == 500
        await media.close()

    run(scenario)


def test_the_very_media_when_it_is_understood():
    class Any:
        format = ULAW_8K

    media = Any()
    assert understood(media, (SLIN_24K, ULAW_8K)) is media


@in_virtual_time
async def test_else_in_the_agents_favourite_format():
    media = understood(Line(SLIN_8K), (SLIN_24K, ULAW_8K))
    assert media.format == SLIN_24K
    await media.close()


def test_g711_from_end_to_end_converts_nothing(monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("something was converted")

    for module, name in [(g711, name) for name in dir(g711) if "_to_" in name] + [
        (transcode, "Transcoder"),
        (transcoder, "to_floats"),
    ]:
        monkeypatch.setattr(module, name, never)

    async def scenario() -> None:
        line = Line(ULAW_8K)
        media = understood(line, (ULAW_8K,))
        sound, heard = bytes(range(1, 161)) * 5, []
        media.on_audio(heard.append)
        line.say(sound)
        assert b"".join(heard) == sound
        media.write(sound)
        await asyncio.sleep(0.2)
        assert sound in bytes(line.played)
        await media.close()

    run(scenario)


@in_virtual_time
async def test_marks_heard_and_queued_are_the_lines():
    line = Line(SLIN_8K)
    media, marks = TranscodedMedia(line, SLIN_24K), []
    media.mark(lambda: marks.append("start"))
    media.write(tone(SLIN_24K, 200))
    media.mark(lambda: marks.append("end"))
    assert 200 <= media.queued_ms <= 202
    await asyncio.sleep(0.03)
    assert marks == ["start"]
    await asyncio.sleep(0.06)
    assert media.heard_ms == 80
    assert marks == ["start"]
    await asyncio.sleep(0.2)
    assert marks == ["start", "end"]
    assert (media.heard_ms, media.queued_ms) == (200, 0)
    await media.close()


@in_virtual_time
async def test_the_end_of_an_answer_is_not_held_back():
    line = Line(SLIN_16K)
    media = TranscodedMedia(line, SLIN_8K)
    click = np.zeros(1600)
    click[-4:] = 20_000  # in the part that the resampler waits with
    media.write(coded(click, SLIN_8K))
    await asyncio.sleep(0.4)
    heard = samples(bytes(line.played), SLIN_16K)
    assert np.abs(heard).max() > 15_000
    assert media.heard_ms == 200
    assert media.queued_ms == 0
    await media.close()


@in_virtual_time
async def test_a_stream_in_real_time_is_never_cut():
    """An agent that writes each frame just as the one before is sent."""
    line = Line(SLIN_8K)
    media = TranscodedMedia(line, SLIN_16K)
    sound = tone(SLIN_16K, 1000)
    for start in range(0, len(sound), 640):
        media.write(sound[start : start + 640])
        await asyncio.sleep(0.02)
    begin = line.format.bytes_for(100)
    assert_same_tone(samples(bytes(line.played[begin : 9 * begin]), SLIN_8K), SLIN_8K)
    await media.close()


@in_virtual_time
async def test_hold_goes_on_at_the_very_sample_and_flush_forgets():
    line = Line(SLIN_8K)
    media, marks = TranscodedMedia(line, SLIN_16K), []
    media.write(tone(SLIN_16K, 400))
    media.mark(lambda: marks.append("end"))
    await asyncio.sleep(0.1)
    media.hold()
    held = media.heard_ms
    await asyncio.sleep(0.2)
    assert media.heard_ms == held
    media.resume()
    await asyncio.sleep(0.05)
    heard = media.flush()
    assert heard == media.heard_ms == held + 40
    assert media.queued_ms == 0
    await asyncio.sleep(0.1)
    quiet = len(line.played)
    await asyncio.sleep(0.1)
    assert not any(line.played[quiet:])
    assert marks == []
    media.write(tone(SLIN_16K, 100))
    await asyncio.sleep(0.3)
    assert media.heard_ms == heard + 100
    await media.close()


@in_virtual_time
async def test_half_a_sample_waits_for_the_rest():
    line = Line(ULAW_8K)
    media = TranscodedMedia(line, SLIN_8K)
    sound = tone(SLIN_8K, 60)
    for start in range(0, len(sound), 7):
        media.write(sound[start : start + 7])
    await asyncio.sleep(0.1)
    assert g711.linear_to_ulaw(sound) in bytes(line.played)
    await media.close()


@in_virtual_time
async def test_keys_and_the_end_pass():
    line = Line(SLIN_8K)
    media, told = TranscodedMedia(line, SLIN_16K), []
    media.on_dtmf(told.append)
    media.on_closed(told.append)
    line.keys("5")
    line.ends("caller_hangup")
    assert told == ["5", "caller_hangup"]
    await media.close()


@pytest.mark.parametrize(("inner", "outer"), PAIRS, ids=str)
def test_a_piece_at_a_time_is_the_same_as_all_at_once(inner, outer):
    sound = tone(inner, 200)
    at_once, pieces = Transcoder(inner, outer), Transcoder(inner, outer)
    whole = at_once.convert(sound) + at_once.finish()
    cut = b"".join(pieces.convert(sound[start : start + 31]) for start in range(0, len(sound), 31))
    cut += pieces.finish()
    assert len(whole) == len(cut) == outer.bytes_for(200)
    assert np.abs(samples(whole, outer) - samples(cut, outer)).max() <= 300
    assert np.corrcoef(samples(whole, outer), samples(cut, outer))[0, 1] > 0.9999
