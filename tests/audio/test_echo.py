"""Our own voice coming back, and callers who really speak, on recorded speech over u-law."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from cordboard.audio.echo import EchoGuard

Floats = NDArray[np.float32]
Carried = Callable[[Floats], bytes]

RATE = 8000
SECONDS = 3
ECHO = 0.8
"""What this much is explained of is an echo; the engine may draw its line at 0.7."""


@dataclass
class Room:
    """A telephone whose microphone hears its loudspeaker, at random but the same every time."""

    speech: list[Floats]
    carried: Carried
    chance: np.random.Generator

    def talk(self, half: int) -> Floats:
        """Three seconds of speech. The two halves share no sentence."""
        voices = self.speech[half::2]
        parts: list[Floats] = []
        while sum(map(len, parts)) < SECONDS * RATE:
            parts += [voices[self.chance.integers(len(voices))], np.zeros(800, np.float32)]
        return np.concatenate(parts)[: SECONDS * RATE]

    def echo(self, sent: Floats, db: float, delay_ms: float) -> Floats:
        """What comes back of ``sent``: narrowed to a telephone's band, reflected, late, weaker."""
        frequency = np.fft.rfftfreq(512, 1 / RATE)
        gain = 1 / (1 + np.exp((self.chance.uniform(200, 350) - frequency) / 30))
        gain /= 1 + np.exp((frequency - self.chance.uniform(3000, 3500)) / 60)
        telephone = np.roll(np.fft.irfft(gain, 512), 24)[:128]
        reflections = np.zeros(64)
        reflections[0] = 1
        reflections[self.chance.integers(1, 64, 5)] += self.chance.normal(0, 0.25, 5)
        back = np.convolve(np.convolve(sent, telephone), reflections)
        late = np.concatenate((np.zeros(int(delay_ms * RATE / 1000)), back))[: len(sent)]
        strength = np.sqrt(np.dot(sent, sent) / np.dot(late, late)) * 10 ** (db / 20)
        return (late * strength).astype(np.float32)

    def line_noise(self) -> Floats:
        """-70 dBFS."""
        return self.chance.normal(0, 10, SECONDS * RATE).astype(np.float32)


@pytest.fixture
def room(speech: list[Floats], over_the_line: Carried) -> Room:
    return Room(speech, over_the_line, np.random.default_rng(11))


def frames(pcm: bytes) -> Iterator[bytes]:
    for at in range(0, len(pcm) - 319, 320):
        yield pcm[at : at + 320]


def asked(sent: bytes, heard: bytes) -> EchoGuard:
    """A guard that has been through both, frame by frame."""
    guard = EchoGuard()
    for out, back in zip(frames(sent), frames(heard), strict=True):
        guard.sent(out)
        guard.heard(back)
    return guard


def loud(samples: Floats, rms: float) -> bool:
    """Whether there is sound in the last 200 ms, which are judged."""
    return float(np.std(samples[-1600:])) > rms


@pytest.mark.parametrize("db", [-6, -12, -20, -30])
def test_an_echo_is_known_at_any_level_and_delay(room: Room, db: int) -> None:
    shares = []
    for delay_ms in np.linspace(20, 500, 24):
        sent = room.talk(0)
        echo = room.echo(sent, db, float(delay_ms))
        if loud(echo, 40):
            heard = room.carried(echo + room.line_noise())
            shares.append(asked(room.carried(sent), heard).explained())
    assert len(shares) >= 10
    assert np.median(shares) > 0.93
    assert sum(share >= ECHO for share in shares) >= 0.9 * len(shares)


@pytest.mark.parametrize("db", [-20, -12])
@pytest.mark.parametrize("since_ms", [100, 200, 2000])
def test_somebody_who_speaks_over_the_echo_is_no_echo(room: Room, db: int, since_ms: int) -> None:
    shares = []
    for delay_ms in np.linspace(20, 500, 24):
        sent, caller = room.talk(0), room.talk(1)
        caller[: -since_ms * RATE // 1000] = 0
        echo = room.echo(sent, db, float(delay_ms))
        if loud(caller, 500) and loud(caller, 2 * float(np.std(echo[-1600:]))):
            heard = room.carried(echo + caller + room.line_noise())
            shares.append(asked(room.carried(sent), heard).explained())
    assert len(shares) >= 8
    assert np.median(shares) <= 0.2
    assert sum(share <= 0.4 for share in shares) >= 0.9 * len(shares)
    assert sorted(shares)[-2] < 0.7, "one in twenty may be a coincidence"


def test_somebody_who_speaks_while_we_do_without_any_echo(room: Room) -> None:
    shares = []
    for _ in range(24):
        sent, caller = room.talk(0), room.talk(1)
        if loud(caller, 500):
            guard = asked(room.carried(sent), room.carried(caller + room.line_noise()))
            shares.append(guard.explained())
    assert np.median(shares) <= 0.2
    assert max(shares) < 0.7


def test_nothing_sent_explains_nothing(room: Room) -> None:
    caller = room.talk(1)
    verdict = asked(bytes(2 * len(caller)), room.carried(caller + 500)).judge()
    assert verdict.explained == 0
    assert verdict.beyond_dbfs == verdict.heard_dbfs


def test_noise_and_keys_are_no_echo(room: Room) -> None:
    at = np.arange(SECONDS * RATE) / RATE
    key = (2000 * (np.sin(2 * np.pi * 852 * at) + np.sin(2 * np.pi * 1336 * at))).astype(np.float32)
    for sound in (key, room.line_noise() * 20):
        for _ in range(5):
            sent = room.carried(room.talk(0))
            assert asked(sent, room.carried(sound)).explained() < 0.3


def test_an_echo_in_the_noise_of_the_line_is_one_and_the_noise_stands_out_from_nothing(
    room: Room,
) -> None:
    chance = np.random.default_rng(5)
    verdicts = []
    for _ in range(20):
        sent = room.talk(0)
        noise = chance.normal(0, 32768 * 10 ** (-50 / 20), len(sent)).astype(np.float32)
        heard = room.carried(room.echo(sent, -14, 120) + noise)
        verdicts.append(asked(room.carried(sent), heard).judge())
        quiet = asked(room.carried(sent), room.carried(noise)).judge()
        assert not quiet.stands_out
    beyond = [verdict.explained for verdict in verdicts if verdict.stands_out]
    assert len(beyond) >= 10
    assert sorted(beyond)[len(beyond) // 10] >= 0.7


def test_a_silent_line_has_nothing_that_needs_a_caller(room: Room) -> None:
    verdict = asked(room.carried(room.talk(0)), bytes(2 * SECONDS * RATE)).judge()
    assert verdict.explained == 1
    assert verdict.heard_dbfs == verdict.beyond_dbfs == -100


def test_the_level_beyond_the_echo_and_its_delay(room: Room) -> None:
    sent = room.talk(0)
    while not loud(sent[:-2400], 1500):
        sent = room.talk(0)
    echo = room.echo(sent, -10, 300)
    verdict = asked(room.carried(sent), room.carried(echo + room.line_noise())).judge()
    assert verdict.delay_ms == pytest.approx(303, abs=8), "the telephone's own filter takes 3 ms"
    assert verdict.beyond_dbfs < verdict.heard_dbfs - 8
    caller = 3000 * np.sin(2 * np.pi * 440 / RATE * np.arange(len(echo))).astype(np.float32)
    over = asked(room.carried(sent), room.carried(echo + caller)).judge()
    assert over.beyond_dbfs == pytest.approx(20 * np.log10(3000 / 32768) - 3, abs=1.5)


def test_frames_may_come_early_late_and_in_bursts(room: Room) -> None:
    sent = room.talk(0)
    while not loud(sent[:-1600], 1500):
        sent = room.talk(0)
    echo = room.carried(room.echo(sent, -12, 200) + room.line_noise())
    guard = EchoGuard()
    late = list(frames(echo))
    for number, frame in enumerate(frames(room.carried(sent))):
        guard.sent(frame)
        if number % 3 == 2:
            for _ in range(3):
                guard.heard(late.pop(0))
    guard.sent(bytes(320))
    assert guard.explained() > ECHO


def test_pieces_of_any_length_are_remembered_in_order(room: Room) -> None:
    sent, whole = room.carried(room.talk(0)), EchoGuard()
    whole.sent(sent)
    whole.heard(sent)
    pieces = EchoGuard()
    at = 0
    while at < len(sent):
        size = 2 * int(room.chance.integers(0, 12000))
        pieces.sent(sent[at : at + size])
        pieces.heard(sent[at : at + size])
        at += size
    assert whole.judge() == pieces.judge()


@pytest.mark.parametrize("ms", [20, 100, 400, 5000])
def test_other_stretches_may_be_judged(room: Room, ms: int) -> None:
    sent = room.talk(0)
    echo = room.echo(sent, -12, 100) + room.line_noise()
    assert 0 <= asked(room.carried(sent), room.carried(echo)).explained(ms) <= 1


def test_it_works_at_16_khz(speech: list[Floats]) -> None:
    sent = np.repeat(speech[0][:16000], 2)
    guard = EchoGuard(16000)
    guard.sent(sent.astype("<i2").tobytes())
    guard.heard((np.roll(sent, 3200) * 0.2).astype("<i2").tobytes())
    assert guard.explained() > ECHO


def test_a_frame_costs_next_to_nothing() -> None:
    guard, frame = EchoGuard(), bytes(range(160)) * 2
    best = 1.0
    for _ in range(5):
        began = time.thread_time()
        for _ in range(1000):
            guard.sent(frame)
        best = min(best, (time.thread_time() - began) / 1000)
    assert best < 20e-6, "20 us would be ten times too much; it takes less than one"
