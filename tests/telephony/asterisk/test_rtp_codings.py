"""What is chosen to go over the wire, and what fills the place of a lost frame."""

from __future__ import annotations

import numpy as np
import pytest

from cordboard.audio import g711, g722
from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.errors import MediaError
from cordboard.telephony.asterisk.rtp_codings import CODINGS, choose
from cordboard.telephony.asterisk.rtp_media import Concealer

SLIN_24K = AudioFormat("slin", 24_000)


@pytest.mark.parametrize(
    ("formats", "codec", "name"),
    [
        ((ULAW_8K, SLIN_16K), "auto", "ulaw"),
        ((ALAW_8K,), "auto", "alaw"),
        ((SLIN_8K,), "auto", "slin"),
        ((SLIN_24K, SLIN_16K, ULAW_8K), "auto", "g722"),
        ((SLIN_24K,), "auto", "ulaw"),
        ((), "auto", "ulaw"),
        ((ULAW_8K,), "g722", "g722"),
        ((SLIN_16K,), "alaw", "alaw"),
    ],
)
def test_the_agents_favourite_that_asterisk_takes_back_is_chosen(formats, codec, name):
    assert choose(formats, codec).name == name


def test_slin16_is_refused_with_the_reason():
    with pytest.raises(MediaError, match=r"slin16 cannot be used.*g722"):
        choose((SLIN_16K,), "slin16")


def test_without_the_codec_wideband_is_not_chosen_and_not_obeyed(monkeypatch):
    monkeypatch.setattr(g722, "installed", lambda: False)
    assert choose((SLIN_16K, SLIN_8K)).name == "slin"
    with pytest.raises(MediaError, match="pip install"):
        choose((), "g722")


@pytest.mark.parametrize("name", ["ulaw", "alaw", "slin"])
def test_there_and_back_is_the_same(name):
    coding = CODINGS[name]
    sound = bytes(range(256)) * 2
    assert coding.decoder()(coding.encoder()(sound)) == sound


def test_slin_is_big_endian_on_the_wire():
    assert CODINGS["slin"].encoder()(b"\x01\x02\x03\x04") == b"\x02\x01\x04\x03"


@pytest.mark.parametrize("name", list(CODINGS))
def test_a_frame_is_20_ms_of_the_clock(name):
    coding = CODINGS[name]
    assert len(coding.encoder()(coding.format.silence())) == 160 * coding.unit_bytes


def linear(frame: bytes, audio_format: AudioFormat) -> np.ndarray:
    if audio_format == ULAW_8K:
        frame = g711.ulaw_to_linear(frame)
    elif audio_format == ALAW_8K:
        frame = g711.alaw_to_linear(frame)
    return np.frombuffer(frame, "<i2").astype(float)


@pytest.mark.parametrize("audio_format", [ULAW_8K, ALAW_8K, SLIN_8K, SLIN_16K])
def test_lost_frames_fade_to_silence_in_60_ms(audio_format):
    at = np.arange(audio_format.rate // 50)
    sound = (9000 * np.sin(2 * np.pi * 400 * at / audio_format.rate)).astype("<i2").tobytes()
    if audio_format == ULAW_8K:
        sound = g711.linear_to_ulaw(sound)
    elif audio_format == ALAW_8K:
        sound = g711.linear_to_alaw(sound)
    concealer = Concealer(audio_format)
    concealer.heard(sound)
    frames = [concealer.conceal() for _ in range(5)]
    assert {len(frame) for frame in frames} == {audio_format.frame_bytes}
    levels = [linear(frame, audio_format).std() for frame in frames]
    assert 9000 / 2**0.5 > levels[0] > levels[1] > levels[2] > 0
    assert frames[3] == frames[4] == audio_format.silence()
    last = linear(frames[2], audio_format)
    assert abs(last[-8:]).max() < 9000 * 0.03
    concealer.heard(sound)
    assert concealer.conceal() == frames[0], "a frame that came ends the fade"


def test_before_any_sound_a_lost_frame_is_silence():
    assert Concealer(ULAW_8K).conceal() == ULAW_8K.silence()
