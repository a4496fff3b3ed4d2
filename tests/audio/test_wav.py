"""WAV files in and out."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from cordboard.audio.wav import read_mono, write_mono, write_stereo
from cordboard.errors import AudioFileError


def test_mono_comes_back_as_written(tmp_path: Path) -> None:
    pcm = np.arange(-400, 400).astype("<i2").tobytes()
    write_mono(tmp_path / "a.wav", pcm, 8000)
    assert read_mono(tmp_path / "a.wav") == (pcm, 8000)


def test_another_rate_keeps_the_duration(tmp_path: Path) -> None:
    write_mono(tmp_path / "a.wav", bytes(2 * 44100), 44100)
    pcm, rate = read_mono(tmp_path / "a.wav", rate=8000)
    assert (len(pcm), rate) == (16000, 8000)


def test_the_shorter_side_of_a_stereo_file_is_filled_with_silence(tmp_path: Path) -> None:
    left, right = np.full(100, 7, "<i2").tobytes(), np.full(60, 9, "<i2").tobytes()
    write_stereo(tmp_path / "s.wav", left, right, 8000)
    with wave.open(str(tmp_path / "s.wav")) as file:
        frames = np.frombuffer(file.readframes(200), "<i2").reshape(-1, 2)
    assert frames[:, 0].tolist() == [7] * 100
    assert frames[:, 1].tolist() == [9] * 60 + [0] * 40


def test_stereo_is_mixed_to_one_channel(tmp_path: Path) -> None:
    write_stereo(tmp_path / "s.wav", b"\x0a\x00" * 10, b"\x14\x00" * 10, 8000)
    assert read_mono(tmp_path / "s.wav")[0] == b"\x0f\x00" * 10


def test_unusable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not audio")
    with wave.open(str(tmp_path / "eight.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(b"\x80" * 8)
    for name, complaint in (("text", "WAV"), ("eight", "8 bit"), ("missing", "WAV")):
        with pytest.raises(AudioFileError, match=complaint) as caught:
            read_mono(tmp_path / f"{name}.wav")
        assert f"{name}.wav" in str(caught.value)
