"""When a voice was last heard: quick, and never fooled by the line's own noise."""

from __future__ import annotations

import numpy as np
import pytest

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw
from cordboard.audio.voice_trace import VoiceTrace


def frame(audio_format: AudioFormat, peak: int) -> bytes:
    times = np.arange(audio_format.rate // 50) / audio_format.rate
    pcm = (peak * np.sin(2 * np.pi * 200 * times)).astype("<i2").tobytes()
    if audio_format.encoding == "slin":
        return pcm
    return linear_to_ulaw(pcm) if audio_format.encoding == "ulaw" else linear_to_alaw(pcm)


@pytest.mark.parametrize("audio_format", [ULAW_8K, ALAW_8K, SLIN_8K, SLIN_16K])
def test_the_last_voice_is_known_to_the_frame(audio_format: AudioFormat) -> None:
    trace = VoiceTrace(audio_format)
    for number in range(100):
        peak = 6000 if 20 <= number < 60 else 60
        trace.hear(frame(audio_format, peak), number * 0.02)
    assert trace.last_voice_at == pytest.approx(59 * 0.02)


@pytest.mark.parametrize("audio_format", [ULAW_8K, ALAW_8K, SLIN_8K, SLIN_16K])
def test_a_noisy_line_is_not_a_voice(audio_format: AudioFormat) -> None:
    trace = VoiceTrace(audio_format)
    for number in range(200):
        trace.hear(frame(audio_format, 600), number * 0.02)
    assert trace.last_voice_at is None
    trace.hear(frame(audio_format, 8000), 5.0)
    assert trace.last_voice_at == 5.0


def test_a_line_that_sends_nothing_is_silent() -> None:
    trace = VoiceTrace(ULAW_8K)
    trace.hear(b"", 1.0)
    trace.hear(ULAW_8K.silence(), 1.0)
    assert trace.last_voice_at is None
