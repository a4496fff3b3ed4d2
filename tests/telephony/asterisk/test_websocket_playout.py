"""What is sent ahead, and what is known of how far it was played, against an Asterisk on paper.

`PaperAsterisk` keeps a queue and plays 20 ms of it at every tick as `chan_websocket.c` does (and as
the tests with the real one show): marks are reported in the tick that plays what is behind them, a
flush forgets sound and marks but not a pause, more than 1000 frames are dropped, and what is no
multiple of a frame loses its remainder.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.telephony.asterisk.websocket_playout import FRAME_SECONDS, RemotePlayout

FORMATS = [ULAW_8K, ALAW_8K, SLIN_8K, SLIN_16K]
STEP = 0.001
TICK_PHASE = 0.0137  # of Asterisk's clock against ours


class PaperAsterisk:
    """The far side of a `RemotePlayout`, and the hand that moves the clock."""

    def __init__(self, audio_format: AudioFormat = ULAW_8K, **settings: float) -> None:
        self.format = audio_format
        self.now = 100.0
        self.queue: deque[bytes | int] = deque()
        self.played = bytearray()
        self.paused = False
        self.longest_queue = 0
        self.longest_message = 0
        self.flow: list[bool] = []
        self.shown = bytearray()
        self.frozen = False
        """Whether Asterisk's clock stands, while the time goes on."""
        self._full = False
        self._next_tick = self.now + TICK_PHASE
        self._next_pace = self.now + 0.02
        self.playout = RemotePlayout(audio_format, self, **settings)

    # AsteriskQueue

    def send_sound(self, frames: bytes) -> None:
        size = self.format.frame_bytes
        assert len(frames) % size == 0, "Asterisk throws the remainder away"
        self.longest_message = max(self.longest_message, len(frames))
        for start in range(0, len(frames), size):
            if self.frames < 1000:
                self.queue.append(frames[start : start + size])
        self.longest_queue = max(self.longest_queue, self.frames)
        if self.frames >= 900 and not self._full:
            self._full = True
            self._tell(True)

    def send_mark(self, mark: int) -> None:
        self.queue.append(mark)

    def send_flush(self) -> None:
        self.queue.clear()

    def send_pause(self) -> None:
        self.paused = True
        self.playout.paused(self.frames)

    def send_continue(self) -> None:
        self.paused = False

    # The clock

    @property
    def frames(self) -> int:
        return sum(isinstance(each, bytes) for each in self.queue)

    @property
    def played_ms(self) -> int:
        return len(self.played) // self.format.bytes_per_ms

    def run(self, seconds: float) -> None:
        """Let time pass, in steps of a millisecond."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            if self.now >= self._next_tick:
                self._next_tick += FRAME_SECONDS
                if not self.frozen:
                    self._tick()
            if self.now >= self._next_pace:
                self._next_pace += FRAME_SECONDS
                self.playout.tick(self.now)
                self.playout.show(self.now, 1, self.shown.extend)

    def _tick(self) -> None:
        if self.paused:
            return
        reports = []
        if self._full and self.frames < 800:
            self._full = False
            self._tell(False)
        while self.queue and isinstance(self.queue[0], int):
            mark = self.queue.popleft()
            assert isinstance(mark, int)
            reports.append(mark)
        if self.queue:
            frame = self.queue.popleft()
            assert isinstance(frame, bytes)
            self.played += frame
        for mark in reports:
            self.playout.processed(mark, self.now)

    def _tell(self, stop: bool) -> None:
        self.flow.append(stop)
        self.playout.blocked = stop

    # What the tests do

    def write(self, pcm: bytes) -> None:
        self.playout.write(pcm, self.now)

    def mark(self, fired: list[float]) -> None:
        self.playout.mark(lambda: fired.append(self.now))

    @property
    def heard_ms(self) -> int:
        return self.playout.heard_ms(self.now)

    @property
    def queued_ms(self) -> int:
        return self.playout.queued_ms(self.now)


def sound(ms: int, audio_format: AudioFormat = ULAW_8K, seed: int = 0) -> bytes:
    """No byte of it is one of silence."""
    size = ms * audio_format.bytes_per_ms
    return bytes(1 + (seed + index * 7) % 100 for index in range(size))


@pytest.mark.parametrize("audio_format", FORMATS, ids=lambda f: f"{f.encoding}{f.rate}")
def test_long_sound_is_played_to_the_last_byte_and_counted_truly(audio_format):
    asterisk = PaperAsterisk(audio_format)
    asterisk.write(sound(7000, audio_format))
    while asterisk.played_ms < 7000:
        asterisk.run(0.007)
        assert abs(asterisk.heard_ms - asterisk.played_ms) <= 20
        assert asterisk.heard_ms + asterisk.queued_ms == 7000
    assert bytes(asterisk.played) == sound(7000, audio_format)
    assert asterisk.longest_message <= 64_000, "65,535 and more would end the call"
    assert asterisk.frames == 0


def test_not_all_of_a_long_sound_is_in_asterisk():
    asterisk = PaperAsterisk()
    asterisk.write(sound(30_000))
    asterisk.run(31)
    assert bytes(asterisk.played) == sound(30_000)
    assert asterisk.longest_queue <= 250
    assert asterisk.flow == []


def test_when_asterisk_says_stop_nothing_is_sent_and_nothing_is_lost():
    asterisk = PaperAsterisk(ahead_seconds=60)
    for _ in range(25):
        asterisk.write(sound(1000))
    assert asterisk.flow == [True]
    assert asterisk.longest_queue < 1000, "what is more would be dropped"
    asterisk.run(26)
    assert asterisk.flow[:2] == [True, False]
    assert bytes(asterisk.played) == sound(1000) * 25


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 60)), max_size=12))
def test_pieces_of_any_length_come_out_once_and_in_order(pieces):
    """Each piece is some bytes, and a pause in ms after it."""
    asterisk, written = PaperAsterisk(SLIN_8K), b""
    for size, pause_ms in pieces:
        piece = bytes(1 + (len(written) + index) % 250 for index in range(size))
        asterisk.write(piece)
        written += piece
        asterisk.run(pause_ms / 1000)
    asterisk.run(1.0)
    whole = len(written) // 2 * 2
    # No byte of the sound is 0: what is, was filled in.
    assert bytes(byte for byte in asterisk.played if byte) == written[:whole]
    assert asterisk.heard_ms == whole // 16
    assert asterisk.queued_ms == (1 if len(written) % 2 else 0)


def test_marks_fire_with_the_frame_behind_them_and_the_last_one_when_all_is_played():
    asterisk, sentence, end = PaperAsterisk(), [], []
    asterisk.write(sound(333))
    asterisk.mark(sentence)
    asterisk.write(sound(450))
    asterisk.mark(end)
    started_at = asterisk.now
    while not sentence:
        asterisk.run(STEP)
    assert asterisk.played_ms == 340, "the first sample of the second sentence is in this frame"
    while not end:
        asterisk.run(STEP)
    assert asterisk.played_ms == 800
    assert asterisk.heard_ms == 783
    assert 0.78 <= end[0] - started_at <= 0.85


def test_a_mark_with_nothing_behind_it_waits_for_its_sound_or_fires_alone():
    asterisk, fired = PaperAsterisk(), []
    asterisk.mark(fired)
    asterisk.write(sound(100))
    assert fired == []
    asterisk.run(0.02)
    assert fired
    assert asterisk.played_ms == 20
    asterisk.run(1)
    alone = []
    asterisk.mark(alone)
    asterisk.run(0.05)
    assert alone


@given(st.integers(20, 900), st.integers(1, 700))
def test_a_flush_takes_back_all_that_is_not_heard(before_ms, written_ms):
    asterisk, fired = PaperAsterisk(), []
    asterisk.write(sound(written_ms))
    asterisk.run(before_ms / 1000)
    asterisk.mark(fired)
    asterisk.write(sound(1000, seed=5))
    asterisk.run(0.15)
    fired_before = len(fired)
    heard = asterisk.playout.flush(asterisk.now)
    played = bytes(asterisk.played)
    assert abs(heard - sum(byte != 0xFF for byte in played) // 8) <= 20
    assert asterisk.queued_ms == 0
    asterisk.run(0.5)
    assert bytes(asterisk.played) == played
    assert asterisk.heard_ms == heard
    assert len(fired) == fired_before, "a mark that was taken back never fires"
    again = []
    asterisk.mark(again)
    asterisk.write(sound(200, seed=9))
    asterisk.run(0.4)
    assert again
    assert bytes(asterisk.played) == played + sound(200, seed=9)
    assert asterisk.heard_ms == heard + 200


@given(st.integers(1, 1200), st.integers(0, 400))
def test_a_hold_keeps_every_sample_and_its_count_is_exact(before_ms, held_ms):
    asterisk = PaperAsterisk()
    asterisk.write(sound(1000))
    asterisk.run(before_ms / 1000)
    asterisk.playout.hold(asterisk.now)
    asterisk.playout.hold(asterisk.now)  # harmless
    played = asterisk.played_ms
    assert asterisk.heard_ms == played
    asterisk.write(sound(300, seed=3))
    asterisk.run(held_ms / 1000)
    assert asterisk.played_ms == played
    assert asterisk.heard_ms == played
    assert asterisk.queued_ms == 1300 - played
    asterisk.playout.resume(asterisk.now)
    while asterisk.played_ms < 1300:
        asterisk.run(0.003)
        assert abs(asterisk.heard_ms - asterisk.played_ms) <= 20
    assert bytes(asterisk.played) == sound(1000) + sound(300, seed=3)


def test_after_a_flush_in_a_hold_new_sound_is_heard():
    asterisk = PaperAsterisk()
    asterisk.write(sound(1000))
    asterisk.run(0.3)
    asterisk.playout.hold(asterisk.now)
    asterisk.run(0.2)
    assert asterisk.playout.flush(asterisk.now) == asterisk.played_ms
    played = bytes(asterisk.played)
    asterisk.write(sound(100, seed=4))
    asterisk.run(0.3)
    assert bytes(asterisk.played) == played + sound(100, seed=4)


def test_a_mark_that_was_flushed_is_of_no_account_when_its_report_comes_late():
    asterisk = PaperAsterisk()
    asterisk.write(sound(1000))
    asterisk.run(0.1)
    heard = asterisk.playout.flush(asterisk.now)
    for number in range(12):
        asterisk.playout.processed(number, asterisk.now)
    asterisk.playout.processed(10**12, asterisk.now)
    assert asterisk.heard_ms == heard


def test_while_asterisk_stands_still_nothing_counts_as_heard_beyond_the_next_mark():
    asterisk = PaperAsterisk()
    asterisk.write(sound(3000))
    asterisk.run(0.5)
    asterisk.frozen = True
    played = asterisk.played_ms
    asterisk.run(1.0)
    assert asterisk.heard_ms <= played + 100
    asterisk.frozen = False
    asterisk.run(0.15)
    assert abs(asterisk.heard_ms - asterisk.played_ms) <= 20


def test_what_goes_to_the_caller_is_shown_frame_by_frame():
    asterisk = PaperAsterisk()
    asterisk.run(0.1)
    asterisk.write(sound(500))
    asterisk.run(0.3)
    asterisk.playout.hold(asterisk.now)
    asterisk.run(0.2)
    asterisk.playout.resume(asterisk.now)
    asterisk.run(0.6)
    assert len(asterisk.shown) == 60 * 160, "a frame for every 20 ms"
    assert bytes(byte for byte in asterisk.shown if byte != 0xFF) == sound(500)
    assert bytes(asterisk.shown[: 5 * 160]) == ULAW_8K.silence(100)
    asterisk.write(sound(1000, seed=3))
    asterisk.run(0.25)
    asterisk.playout.flush(asterisk.now)
    asterisk.run(0.3)
    told = bytes(byte for byte in asterisk.shown if byte != 0xFF)
    heard = asterisk.heard_ms - 500
    assert told == sound(500) + sound(1000, seed=3)[: heard * 8], "what was flushed is not shown"


def pass_through(asterisk: PaperAsterisk, seconds: float, voice: bytes) -> None:
    """Write 20 ms every 20 ms, as a call that is passed on."""
    for _ in range(round(seconds / 0.02)):
        asterisk.write(voice)
        asterisk.run(0.02)


QUIET = ULAW_8K.silence()


def test_the_delay_that_a_stall_leaves_is_taken_back_in_a_silence():
    asterisk = PaperAsterisk()
    pass_through(asterisk, 0.5, sound(20))
    asterisk.run(0.3)
    for _ in range(15):
        asterisk.write(sound(20))
    pass_through(asterisk, 3.0, sound(20))
    assert asterisk.queued_ms >= 280, "nothing of speech is left out"
    pass_through(asterisk, 1.0, QUIET)
    assert asterisk.queued_ms <= 60
    heard_before = asterisk.heard_ms + asterisk.queued_ms
    pass_through(asterisk, 1.0, sound(20, seed=1))
    assert asterisk.queued_ms <= 60
    assert asterisk.heard_ms + asterisk.queued_ms == heard_before + 1000


def test_the_pauses_of_speech_that_is_sent_ahead_stay_as_they_are():
    asterisk = PaperAsterisk()
    speech = (sound(600) + ULAW_8K.silence(400)) * 4
    for start in range(0, len(speech), 1600):  # 200 ms at a time, twice as fast as played
        asterisk.write(speech[start : start + 1600])
        asterisk.run(0.1)
    asterisk.run(4)
    assert bytes(asterisk.played) == speech


def test_speech_that_comes_in_small_pieces_faster_than_played_keeps_its_pauses():
    asterisk = PaperAsterisk()
    speech = (sound(600) + ULAW_8K.silence(400)) * 4
    for start in range(0, len(speech), 160):
        asterisk.write(speech[start : start + 160])
        asterisk.run(0.012)
    asterisk.run(4)
    assert bytes(asterisk.played) == speech
