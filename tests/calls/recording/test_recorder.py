"""Recordings: two tracks on one clock, what is muted in them, the files, and deleting them."""

from __future__ import annotations

import asyncio
import datetime
import errno
import os
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.audio.g711 import ulaw_to_linear
from cordboard.audio.wav import WavHeader, read_comment
from cordboard.calls import events
from cordboard.calls.recording import writer as recording_writer
from cordboard.calls.recording.recorder import Recorder
from cordboard.calls.recording.retention import sweep
from cordboard.calls.recording.writer import RecordingFile, RecordingWriter
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent

FRAME = 320
CALLER, AGENT = b"\x11\x11", b"\x22\x22"


def stereo(path: Path) -> np.ndarray:
    """The samples of a 16 bit stereo file, a column for each channel."""
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (2, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)


# --- the tracks ----------------------------------------------------------------------------


class Tape:
    """A recorder, and a clock of the test's own."""

    def __init__(self, audio_format: AudioFormat = SLIN_8K, hold_back: float = 0.0) -> None:
        self.left, self.right = bytearray(), bytearray()
        self.recorder = Recorder(audio_format, 50.0, self._keep, hold_back)

    def _keep(self, left: bytes, right: bytes) -> None:
        assert len(left) == len(right)
        self.left += left
        self.right += right

    def frames(self, begin: float, count: int, sound: bytes = CALLER, delay: float = 0.0) -> float:
        """Caller frames that end every 20 ms from `begin` (call time) on; when the last ended."""
        for number in range(count):
            at = 50 + begin + 0.02 * (number + 1) + delay
            self.recorder.hear_caller(sound * (FRAME // 2), at)
        return begin + 0.02 * count

    def finish(self, at: float) -> None:
        self.recorder.hand_over(50 + at, last=True)

    def heard_at(self, sound: bytes = CALLER) -> list[tuple[float, float]]:
        """From when to when (s) the caller's channel has this sound."""
        wanted = np.frombuffer(sound, "<i2")[0]
        is_on = np.concatenate(([0], np.frombuffer(self.left, "<i2") == wanted, [0])).astype(int)
        edges = np.flatnonzero(np.diff(is_on))
        return [(a / 8000, b / 8000) for a, b in edges.reshape(-1, 2)]


def test_sound_is_where_it_was_in_time() -> None:
    tape = Tape()
    tape.frames(0.0, 50)
    tape.frames(3.0, 50)
    tape.finish(5.0)
    assert len(tape.left) == 5 * 16_000
    assert tape.heard_at() == [(0.0, pytest.approx(1.0)), pytest.approx((3.0, 4.0))]
    assert not any(tape.right)


@given(st.lists(st.floats(0, 0.09), min_size=300, max_size=300))
def test_frames_that_come_unevenly_leave_no_holes(delays: list[float]) -> None:
    tape = Tape()
    at = 0.0
    for number, delay in enumerate(delays):
        at = max(at, 0.02 * (number + 1) + delay)  # in order
        tape.recorder.hear_caller(CALLER * (FRAME // 2), 50 + at)
    tape.finish(7.0)
    stretches = tape.heard_at()
    assert stretches[0][0] <= 0.1
    assert sum(end - begin for begin, end in stretches) >= 6.0 - 0.1
    assert abs(stretches[-1][1] - 6.0) <= 0.1


def test_a_short_gap_is_a_gap() -> None:
    """60 ms in which nothing was sent: what follows is at its place at once."""
    tape = Tape()
    tape.frames(0.0, 50)
    tape.frames(1.06, 50, b"\x55\x55")
    tape.finish(3.0)
    ((begin, end),) = tape.heard_at(b"\x55\x55")
    assert (begin, end) == pytest.approx((1.06, 2.06), abs=0.001)


def test_frames_that_a_busy_engine_hands_over_late_are_at_their_place() -> None:
    tape = Tape()
    tape.frames(0.0, 50)
    for _ in range(7):  # 140 ms' worth in a bunch
        tape.recorder.hear_caller(b"\x55\x55" * (FRAME // 2), 50 + 1.14)
    tape.frames(1.14, 50)
    tape.finish(3.0)
    assert tape.heard_at(b"\x55\x55") == [pytest.approx((1.0, 1.14))]


def test_a_flood_after_a_stall_does_not_shift_what_follows() -> None:
    tape = Tape()
    tape.frames(0.0, 50)
    for _ in range(100):  # two seconds' worth at once
        tape.recorder.hear_caller(CALLER * (FRAME // 2), 53.0)
    tape.frames(3.0, 150)
    tape.frames(6.0, 50, b"\x55\x55")
    tape.finish(8.0)
    ((begin, _),) = tape.heard_at(b"\x55\x55")
    assert begin == pytest.approx(6.0, abs=0.02)


def test_what_was_said_before_it_was_known_to_be_secret_is_muted() -> None:
    tape = Tape(hold_back=3.0)
    tape.frames(0.0, 250)
    tape.recorder.hand_over(55.0)
    tape.recorder.mute(53.0, None)
    tape.frames(5.0, 50)
    tape.recorder.unmute(56.5)
    tape.frames(6.0, 50)
    tape.finish(7.0)
    assert tape.heard_at() == [(0.0, 3.0), (6.5, 7.0)]


def test_a_pause_silences_both_and_the_clock_goes_on() -> None:
    tape = Tape()
    tape.frames(0.0, 50)
    for number in range(150):
        tape.recorder.hear_agent(AGENT * (FRAME // 2), 50 + 0.02 * (number + 1))
    tape.recorder.pause(50.5)
    tape.recorder.hand_over(50.9)
    tape.frames(1.0, 50)
    tape.recorder.resume(51.5)
    tape.frames(2.0, 50)
    tape.finish(3.0)
    assert tape.heard_at() == [(0.0, 0.5), (1.5, 3.0)]
    loud = np.frombuffer(tape.right, "<i2") != 0
    assert (loud[:4000].all(), loud[4000:12000].any(), loud[12000:].all()) == (True, False, True)


# --- the files -----------------------------------------------------------------------------


def file_in(folder: Path, name: str = "a", encoding: Any = "slin", source: Any = SLIN_8K) -> Any:
    return RecordingFile(
        folder / "2026-11-21" / f"{name}.wav", WavHeader(encoding, source.rate, {}), source
    )


@pytest.mark.parametrize("source", [SLIN_8K, SLIN_16K, ULAW_8K, ALAW_8K])
def test_both_channels_are_written_whatever_the_line_carries(
    tmp_path: Path, source: AudioFormat
) -> None:
    writer, file = RecordingWriter(), file_in(tmp_path, source=source)
    quiet = source.silence(500)
    loud = b"\x00\x10" * (len(quiet) // 2)
    writer.write(file, quiet, loud)
    writer.write(file, loud, quiet)
    writer.finish(file)
    writer.close()
    samples = stereo(file.path)
    assert len(samples) == source.rate
    half = source.rate // 2
    assert np.abs(samples[:half, 0]).max() <= 8
    assert np.abs(samples[:half, 1]).max() > 100
    assert np.abs(samples[half:, 0]).max() > 100
    assert np.abs(samples[half:, 1]).max() <= 8
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_u_law_files_are_half_as_long(tmp_path: Path) -> None:
    writer, file = RecordingWriter(), file_in(tmp_path, encoding="ulaw")
    sound = np.arange(-4000, 4000, dtype="<i2").tobytes()
    writer.write(file, sound, bytes(16000))
    writer.close()
    raw = file.path.read_bytes()
    riff, size, _, _, _, code, channels, rate = struct.unpack("<4sI4s4sIHHI", raw[:28])
    assert (riff, size, code, channels, rate) == (b"RIFF", len(raw) - 8, 7, 2, 8000)
    data = raw[raw.index(b"data") + 8 :]
    assert len(data) == 16000
    decoded = np.frombuffer(ulaw_to_linear(data[::2]), "<i2")
    assert np.abs(decoded - np.frombuffer(sound, "<i2")).max() <= 140


def test_a_file_plays_while_it_is_written(tmp_path: Path) -> None:
    """As it would be if the program were killed now."""
    writer, file = RecordingWriter(), file_in(tmp_path)
    for seconds in (1, 2):
        writer.write(file, bytes(16000), bytes(16000))
        writer.flush()
        assert len(stereo(file.path)) == seconds * 8000
    writer.close()


def test_a_full_disk_costs_only_what_it_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[float] = []
    writer, file = RecordingWriter(lost.append), file_in(tmp_path)
    one, two, three = (struct.pack("<h", n) * 8000 for n in (1000, 2000, 3000))
    writer.write(file, one, one)
    writer.flush()
    real = os.pwrite
    budget = 5000

    def full(descriptor: int, data: bytes, at: int) -> int:
        nonlocal budget
        if budget == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken, budget = min(budget, len(data)), budget - min(budget, len(data))
        return real(descriptor, data[:taken], at)

    monkeypatch.setattr(recording_writer.os, "pwrite", full)
    writer.write(file, two, two)
    writer.flush()
    assert "No space left" in writer.trouble
    assert len(stereo(file.path)) == 8000, "still a whole file"
    monkeypatch.setattr(recording_writer.os, "pwrite", real)
    writer.write(file, three, three)
    writer.close()
    assert (lost, file.dropped, writer.trouble) == ([1.0], 8000, "")
    samples = stereo(file.path)[:, 0]
    assert [samples[4000], samples[12000], samples[20000]] == [1000, 0, 3000]
    assert len(samples) == 24000


def test_a_slow_disk_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "MOST_WAITING", 40_000)
    lost: list[float] = []
    writer, file = RecordingWriter(lost.append), file_in(tmp_path)
    monkeypatch.setattr(writer, "_start", lambda: None)  # a thread that never gets to it
    for number in (1, 2, 3, 4):
        sound = struct.pack("<h", 1000 * number) * 4000
        writer.write(file, sound, sound)
    assert lost == [0.5, 0.5]
    monkeypatch.undo()
    writer.finish(file)
    writer.close()
    assert file.dropped == 8000
    assert set(stereo(file.path)[:, 0]) == {1000, 2000}


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    writer, file = RecordingWriter(), file_in(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text("mine")
    writer.write(file, bytes(16000), bytes(16000))
    writer.close()
    assert file.path.read_text() == "mine"
    assert "exists" in writer.trouble.lower()


# --- deleting ------------------------------------------------------------------------------


def recorded(folder: Path, day: str, context: str, keep_days: int) -> Path:
    comment = {"call_id": "x", "context": context, "day": day, "keep_days": keep_days}
    path = folder / day / f"{context}-{keep_days}.wav"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(WavHeader("slin", 8000, comment).encode(0))
    return path


def test_recordings_are_deleted_when_their_time_is_over(tmp_path: Path) -> None:
    today = datetime.date(2026, 11, 21)
    old = recorded(tmp_path, "2026-11-10", "demo", 30)
    just = recorded(tmp_path, "2026-11-11", "demo", 30)
    for_ever = recorded(tmp_path, "2020-01-01", "archive", 1)
    gone_context = recorded(tmp_path, "2026-11-01", "former", 10)
    assert sweep(tmp_path, {"demo": 10, "archive": 0}, today) == 2
    assert (old.exists(), just.exists()) == (False, True)
    assert (for_ever.exists(), gone_context.exists()) == (True, False)


def test_only_files_of_the_engine_are_deleted(tmp_path: Path) -> None:
    mine = recorded(tmp_path, "2020-01-01", "demo", 1)
    with wave.open(str(mine.with_name("foreign.wav")), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(100))
    mine.with_name("broken.wav").write_bytes(b"RIFF")
    mine.with_name("mine.jsonl").write_text("{}")
    copied = tmp_path / "2020-01-02" / "copy.wav"
    copied.parent.mkdir()
    copied.write_bytes(mine.read_bytes())
    linked = mine.with_name("link.wav")
    linked.symlink_to(mine)
    assert sweep(tmp_path, {"demo": 1}, datetime.date(2026, 11, 21)) == 1
    assert not mine.exists()
    left = {path.name for path in tmp_path.rglob("*.*")}
    assert left == {"foreign.wav", "broken.wav", "mine.jsonl", "copy.wav", "link.wav"}


@given(st.binary(max_size=300))
def test_any_file_can_be_looked_at(start: bytes) -> None:
    assert read_comment(b"RIFF\x00\x00\x00\x00WAVE" + start) is None


# --- whole calls ---------------------------------------------------------------------------

RECORDED = {"recording": {"enabled": True}, "tools": ["collect_digits", "pause_recording"]}


def only_recording(tmp_path: Path) -> np.ndarray:
    (path,) = tmp_path.glob("*/*.wav")
    return stereo(path)


async def hang_up(stage: CallStage) -> None:
    assert stage.line.media is not None
    stage.line.media.break_off("caller_hangup")


def test_a_call_is_recorded_from_the_greeting_to_the_end(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        assert stage.line.media is not None
        await stage.line.media.say(CALLER * 8000)
        await hang_up(stage)

    stage = play_call(tmp_path, FakeAgent, scenario, context=RECORDED)
    samples = only_recording(tmp_path)
    (started,), (stopped,) = (
        stage.of(events.RecordingStarted),
        stage.of(events.RecordingStopped),
    )
    assert (tmp_path / started.path).exists()
    assert stopped.dropped_ms == 0
    assert len(samples) == pytest.approx(8 * stopped.duration_ms, abs=8)
    assert np.count_nonzero(samples[:, 0]) == 8000
    played = stage.line.media.played if stage.line.media else b""
    assert np.count_nonzero(samples[:, 1]) == np.count_nonzero(np.frombuffer(bytes(played), "<i2"))
    began = next(x["at_ms"] for x in stage.lines() if x["type"] == "agent.audio_started")
    first = int(np.flatnonzero(samples[:, 1])[0]) / 8
    assert abs(first - began) <= 20


def test_contexts_are_not_recorded_unless_they_say_so(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        assert not stage.call.line.pause_recording()
        assert not stage.call.line.resume_recording()
        await hang_up(stage)

    play_call(tmp_path, FakeAgent, scenario)
    assert not list(tmp_path.glob("*/*.wav"))


def test_words_of_consent_come_before_the_greeting(tmp_path: Path) -> None:
    context = {"recording": {"enabled": True, "consent": "This call is recorded."}}

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        await hang_up(stage)

    stage = play_call(tmp_path, FakeAgent, scenario, context=context)
    assert stage.agent.session.greeting == "This call is recorded. Good morning."


def test_nothing_is_kept_before_the_key_of_consent(tmp_path: Path) -> None:
    context = {"recording": {"enabled": True, "consent_key": "1"}, "tools": []}

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        media = stage.line.media
        assert media is not None
        await media.say(CALLER * 8000)
        media.press("2")
        assert not stage.of(events.RecordingStarted)
        assert stage.call.recording == "asking"
        media.press("1")
        assert stage.call.recording == "on"
        await media.say(b"\x33\x33" * 8000)
        media.press("1")
        await hang_up(stage)

    stage = play_call(tmp_path, FakeAgent, scenario, context=context)
    assert len(stage.of(events.RecordingStarted)) == 1
    assert set(only_recording(tmp_path)[:, 0]) <= {0, 0x3333}
    assert stage.agent.keys == ["2", "1"], "the key of consent is not for the agent"


def test_the_ledger_says_that_the_key_of_consent_was_not_pressed(tmp_path: Path) -> None:
    context = {"recording": {"enabled": True, "consent_key": "1"}, "tools": []}

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        await hang_up(stage)

    stage = play_call(tmp_path, FakeAgent, scenario, context=context)
    assert len(stage.of(events.RecordingDeclined)) == 1
    assert not list(tmp_path.glob("*/*.wav"))


def test_a_call_is_paused_and_goes_on(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        media = stage.line.media
        assert media is not None
        for word in (b"\x11\x11", b"\x22\x22", b"\x33\x33"):
            await media.say(word * 8000)
            paused = stage.call.line.pause_recording if word == b"\x11\x11" else None
            assert (paused or stage.call.line.resume_recording)()
            assert stage.call.recording == ("paused" if paused else "on")
        await hang_up(stage)

    stage = play_call(tmp_path, FakeAgent, scenario, context=RECORDED)
    left = only_recording(tmp_path)[:, 0]
    lengths = [np.count_nonzero(left == word) for word in (0x1111, 0x2222, 0x3333)]
    assert lengths == pytest.approx([8000, 0, 8000], abs=4)
    assert len(stage.of(events.RecordingPaused)) == len(stage.of(events.RecordingResumed)) == 1


def test_two_calls_of_one_name_have_two_files(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        await hang_up(stage)

    for _ in range(2):
        play_call(tmp_path, FakeAgent, scenario, context=RECORDED)
    assert len(list(tmp_path.glob("*/*.wav"))) == 2
