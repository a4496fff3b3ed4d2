"""Peaks of a recording, and any range of its sound."""

from __future__ import annotations

import errno
import io
import stat
import threading
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard import private_files
from cordboard.audio.g711 import linear_to_ulaw, ulaw_to_linear
from cordboard.audio.wav import WavHeader, read_stereo
from cordboard.errors import AudioFileError
from cordboard.history import playback
from cordboard.history.playback import (
    PEAK_BYTES,
    PER_SECOND,
    Playback,
    RangeNotSatisfiable,
    StereoFile,
    Track,
    make_peaks,
    parse_range,
    read_peaks,
)
from cordboard.privacy import sealed_file
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import Seal, Vault


def record(path: Path, frames: int, *, ulaw: bool = False, rate: int = 8000) -> Path:
    """Write a recording of noise that gets louder; the agent is half as loud."""
    noise = (
        np.random.default_rng(1).uniform(-1, 1, (frames, 2))
        * np.linspace(0, 32767, frames)[:, None]
    )
    pcm = (noise * (1, 0.5)).astype("<i2").tobytes()
    header = WavHeader("ulaw" if ulaw else "slin", rate, {"day": "2026-11-20"})
    path.write_bytes(header.encode(frames) + (linear_to_ulaw(pcm) if ulaw else pcm))
    return path


def both(path: Path, rate: int = 8000) -> np.ndarray:  # type: ignore[type-arg]
    left, right = read_stereo(path, rate)
    return np.stack((np.frombuffer(left, "<i2"), np.frombuffer(right, "<i2")), axis=1)


@pytest.mark.parametrize("ulaw", [False, True])
@pytest.mark.parametrize("rate", [8000, 16000, 11025])
def test_peaks_are_the_least_and_greatest_sample_of_each_20_ms(
    tmp_path: Path, ulaw: bool, rate: int
) -> None:
    frames = 61 * rate + 77  # more than one piece, and a last one that is not whole
    path = record(tmp_path / "a.wav", frames, ulaw=ulaw, rate=rate)
    sound = both(path, rate)
    peaks = np.frombuffer(read_peaks(path, 0, 10**9), np.int8).reshape(-1, 2, 2)
    assert len(peaks) == 61 * PER_SECOND + 1
    for number in (0, 1, 1500, 2999, 3000, 3049):
        stretch = sound[number * rate // PER_SECOND : (number + 1) * rate // PER_SECOND]
        assert (peaks[number, :, 0] == stretch.min(axis=0) >> 8).all(), number
        assert (peaks[number, :, 1] == stretch.max(axis=0) >> 8).all(), number


def test_peaks_are_kept_beside_the_recording_until_it_grows(tmp_path: Path) -> None:
    path = record(tmp_path / "a.wav", 8000)
    assert len(read_peaks(path, 0, 1000)) == PER_SECOND * PEAK_BYTES
    kept = tmp_path / "a.peaks"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    marked = kept.read_bytes()[:16] + b"\x11" * PER_SECOND * PEAK_BYTES
    kept.write_bytes(marked)
    assert read_peaks(path, 0, 20) == b"\x11" * PEAK_BYTES, "it was read from the file"
    record(path, 16000)
    assert len(read_peaks(path, 0, 10_000)) == 2 * PER_SECOND * PEAK_BYTES
    kept.write_bytes(b"junk")
    assert len(read_peaks(path, 500, 1000)) == PER_SECOND * PEAK_BYTES // 2
    assert read_peaks(path, 5000, 6000) == b""


@pytest.mark.parametrize("track", ["both", "caller", "agent"])
@pytest.mark.parametrize("ulaw", [False, True])
def test_the_whole_is_a_pcm_file_that_players_read(
    tmp_path: Path, track: Track, ulaw: bool
) -> None:
    path = record(tmp_path / "a.wav", 1000, ulaw=ulaw)
    with StereoFile.open(path) as opened:
        playback = Playback(opened, track)
        content = playback.read(0, playback.size)
    assert len(content) == playback.size
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getframerate(), file.getsampwidth()) == (8000, 2)
        found = np.frombuffer(file.readframes(5000), "<i2").reshape(-1, file.getnchannels())
    expected = both(path)
    side = {"both": slice(None), "caller": slice(0, 1), "agent": slice(1, 2)}[track]
    assert (found == expected[:, side]).all()


@given(begin=st.integers(0, 2100), length=st.integers(0, 2100), data=st.data())
def test_any_range_is_the_same_part_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, begin: int, length: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "ranges.wav"
    if not path.exists():
        record(path, 500, ulaw=True)
    with StereoFile.open(path) as file:
        playback = Playback(file, data.draw(st.sampled_from(["both", "agent"])))
        whole = playback.read(0, playback.size)
        assert playback.read(begin, begin + length) == whole[begin : begin + length]


def test_peaks_of_a_running_call_are_made_again_when_the_header_has_followed(
    tmp_path: Path,
) -> None:
    """The recorder writes sound first, then the header: at last the file's size is the same."""
    path = record(tmp_path / "a.wav", 16_000)
    whole = path.read_bytes()
    behind = WavHeader("slin", 8000, {"day": "2026-11-20"}).encode(8_000)
    path.write_bytes(behind + whole[len(behind) :])
    assert len(read_peaks(path, 0, 10_000)) == PER_SECOND * PEAK_BYTES
    path.write_bytes(whole)
    assert len(read_peaks(path, 0, 10_000)) == 2 * PER_SECOND * PEAK_BYTES


def test_a_recording_whose_header_is_behind_its_sound_is_played_as_far_as_it_says(
    tmp_path: Path,
) -> None:
    path = record(tmp_path / "a.wav", 1000)
    cut = path.read_bytes()
    path.write_bytes(cut[:-400])  # the header promises more than there is
    with StereoFile.open(path) as file:
        assert file.frames == 900
        assert len(make_peaks(file)) == 6 * PEAK_BYTES


@pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\0\0\0\0WAVE", b"x" * 1000])
def test_other_files_are_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(AudioFileError, match=r"a\.wav"):
        StereoFile.open(path)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=10-", (10, 100)),
        ("bytes=10-1000", (10, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("", None),
        ("bytes=-", None),
        ("bytes=5-2", None),
        ("bytes=0-1,5-6", None),
        ("items=0-1", None),
        ("bytes=a-b", None),
        ("bytes=\u0661-\u0662", None),
    ],
)
def test_a_range_header(header: str, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 100) == expected


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_outside_of_the_file_cannot_be_satisfied(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match="100 bytes"):
        parse_range(header, 100)


@given(st.text(max_size=30), st.integers(0, 1000))
def test_no_range_header_is_an_error_of_ours(header: str, size: int) -> None:
    try:
        found = parse_range(f"bytes={header}", size)
    except RangeNotSatisfiable:
        return
    assert found is None or 0 <= found[0] < found[1] <= size


def test_u_law_is_decoded_as_everywhere(tmp_path: Path) -> None:
    path = record(tmp_path / "a.wav", 10, ulaw=True)
    raw = path.read_bytes()[-20:]
    with StereoFile.open(path) as file:
        samples = file.samples(0, 10)
    assert samples.tobytes() == ulaw_to_linear(raw)


def test_peaks_are_shown_on_a_full_disk_and_to_several_people_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, found = record(tmp_path / "call.wav", 80_000), []
    with StereoFile.open(recording) as file:
        expected = make_peaks(file)

    def ask() -> None:
        for _ in range(100):
            recording.with_suffix(".peaks").unlink(missing_ok=True)
            found.append(read_peaks(recording, 0, 10_000))

    people = [threading.Thread(target=ask) for _ in range(4)]
    for each in people:
        each.start()
    for each in people:
        each.join()
    assert (len(found), set(found)) == (400, {expected})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recording.with_suffix(".peaks").unlink(missing_ok=True)
    monkeypatch.setattr(private_files, "replace", full)
    assert read_peaks(recording, 0, 10_000) == expected


def test_peaks_of_a_recording_that_was_erased_meanwhile_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record(tmp_path / "call.wav", 8_000)

    def erased(file: StereoFile) -> bytes:
        found = make_peaks(file)
        recording.unlink()
        return found

    monkeypatch.setattr(playback, "make_peaks", erased)
    assert read_peaks(recording, 0, 1_000)
    assert list(tmp_path.iterdir()) == []


def seal_recording(path: Path, keys: Path, seconds: int) -> Vault:
    """Encrypt a recording as the writer does: a record for each second, then its header."""
    vault = Vault(CallKeys(keys, bytes(32)), seals=True)
    seal = vault.new_call()
    assert seal is not None
    vault.keep(seal)
    begin, records = seal.begin("recording")
    pcm = np.random.default_rng(1).integers(-9000, 9000, (seconds, 16_000)).astype("<i2")
    head = WavHeader("slin", 8000, {"day": "2026-11-20"})
    at = len(head.encode(0))
    with path.open("wb") as file:
        file.write(begin)
        for number in range(seconds):
            file.write(records.record(at + number * 32_000, pcm[number].tobytes()))
            file.write(records.record(0, head.encode((number + 1) * 8000)))
    return vault


def test_a_range_of_a_long_encrypted_recording_decrypts_that_range_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seconds = tmp_path / "a.wav", 600
    vault = seal_recording(path, tmp_path / "keys", seconds)
    looks, opened, scan, decrypt = [], [], sealed_file._records, Seal.open

    def scanned(size: int, read: Callable[[int, int], bytes]) -> list[tuple[int, bytes, int, int]]:
        looks.append(size)
        return scan(size, read)

    def decrypted(self: Seal, offset: int, nonce: bytes, sealed: bytes) -> bytes:
        opened.append(offset)
        return decrypt(self, offset, nonce, sealed)

    monkeypatch.setattr(sealed_file, "_records", scanned)
    monkeypatch.setattr(Seal, "open", decrypted)
    with StereoFile.open(path, vault) as file:
        assert file.frames == seconds * 8000
        opened.clear()
        sound = Playback(file)
        assert len(sound.read(9_000_000, 9_100_000)) == 100_000
        assert 4 <= len(opened) <= 5, "a record is one second, 32,000 bytes"
        opened.clear()
        pieces = [sound.read(at, at + 131_072) for at in range(0, sound.size, 131_072)]
        assert sum(map(len, pieces)) == sound.size
        assert len(opened) <= seconds + len(pieces)
    assert len(looks) == 1, "the records are looked for once, not once for each piece"
