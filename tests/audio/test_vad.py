"""The voice activity bank, with a model whose answers show exactly what it was given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.audio.vad import Floats, VoiceActivityBank

WINDOW = 256


class TellingModel:
    """Answers with the first new sample of each window; the state counts windows and checks that
    each window continues the one before (the context is its end). Can be held up."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.batches: list[int] = []
        self.failure: Exception | None = None

    def judge(self, windows: Floats, states: Floats) -> tuple[Floats, Floats]:
        self.entered.set()
        assert self.go.wait(60)
        if self.failure is not None:
            raise self.failure
        assert windows.shape[1] == 288
        self.batches.append(len(windows))
        later = states.copy()
        for i, window in enumerate(windows):
            if states[0, i, 0]:
                np.testing.assert_array_equal(states[1, i, :32], window[:32])
            else:
                assert not window[:32].any()
            later[0, i, 0] += 1
            later[1, i, :32] = window[-32:]
        return windows[:, 32], later


@pytest.fixture
def model() -> TellingModel:
    return TellingModel()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
async def bank(
    model: TellingModel, executor: ThreadPoolExecutor
) -> AsyncIterator[VoiceActivityBank]:
    bank = VoiceActivityBank(model, executor)
    yield bank
    model.go.set()
    bank.close()


class Listener:
    """Collects a stream's results and can wait for a number of them."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, int]] = []
        self.failed: list[Exception] = []
        self.changed = asyncio.Event()

    def probability(self, probability: float, end: int) -> None:
        self.heard.append((probability, end))
        self.changed.set()

    def failure(self, error: Exception) -> None:
        self.failed.append(error)
        self.changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.heard) + len(self.failed) < count:
                self.changed.clear()
                await self.changed.wait()


def ramp(start: int, windows: float) -> bytes:
    return (np.arange(start, start + int(windows * WINDOW)) % 30000 + 1).astype("<i2").tobytes()


def expected(start: int, windows: int) -> list[tuple[float, int]]:
    return [(((start + n * WINDOW) % 30000 + 1) / 32768, (n + 1) * WINDOW) for n in range(windows)]


async def test_frames_of_any_size_become_windows_in_order(bank: VoiceActivityBank) -> None:
    listener = Listener()
    stream = bank.open(listener.probability)
    audio = ramp(0, 100)
    for at in range(0, len(audio), 320):
        stream.feed(audio[at : at + 320])
        await asyncio.sleep(0)
    await listener.until(100)
    assert listener.heard == expected(0, 100)


async def test_windows_that_come_meanwhile_share_one_batch(
    bank: VoiceActivityBank, model: TellingModel
) -> None:
    listeners = [Listener() for _ in range(20)]
    streams = [bank.open(listener.probability) for listener in listeners]
    model.go.clear()
    streams[0].feed(ramp(0, 1))
    await asyncio.to_thread(model.entered.wait, 60)
    for n, stream in enumerate(streams[1:], 1):
        stream.feed(ramp(100 * n, 1 + (n % 3)))
    assert bank.waiting_windows == sum(1 + n % 3 for n in range(1, 20))
    model.go.set()
    for n, listener in enumerate(listeners[1:], 1):
        await listener.until(1 + n % 3)
        assert listener.heard == expected(100 * n, 1 + n % 3)
    assert model.batches == [1, 19, 13, 6]


async def test_streams_fed_one_after_the_other_share_one_batch(
    model: TellingModel, executor: ThreadPoolExecutor
) -> None:
    bank = VoiceActivityBank(model, executor, gather=0.2)
    listeners = [Listener() for _ in range(12)]
    streams = [bank.open(listener.probability) for listener in listeners]
    for stream in streams[:11]:
        stream.feed(ramp(0, 1))
        await asyncio.sleep(0)
    await listeners[0].until(1)
    assert model.batches == [11], "the twelfth is silent; the others wait for it no longer"
    bank.close()


async def test_when_all_streams_are_there_nobody_waits(
    model: TellingModel, executor: ThreadPoolExecutor
) -> None:
    bank = VoiceActivityBank(model, executor, gather=3600)
    listeners = [Listener() for _ in range(12)]
    streams = [bank.open(listener.probability) for listener in listeners]
    for stream in streams:
        stream.feed(ramp(0, 1))
        await asyncio.sleep(0)
    await listeners[0].until(1)
    assert model.batches == [12]
    bank.close()


async def test_a_stream_closed_while_its_window_waits_leaves_the_others_theirs(
    model: TellingModel, executor: ThreadPoolExecutor
) -> None:
    bank = VoiceActivityBank(model, executor, gather=0.05)
    listeners = [Listener() for _ in range(3)]
    streams = [bank.open(listener.probability) for listener in listeners]
    streams[0].feed(ramp(0, 1))
    streams[1].feed(ramp(0, 1))
    streams[0].close()
    await listeners[1].until(1)
    assert model.batches == [1]
    assert listeners[0].heard == []
    bank.close()


async def test_a_new_stream_knows_nothing_of_the_one_whose_place_it_takes(
    bank: VoiceActivityBank,
) -> None:
    """The model of this test refuses a first window after another stream's."""
    for turn in range(30):
        listeners = [Listener() for _ in range(1 + turn % 7)]
        streams = [bank.open(listener.probability, listener.failure) for listener in listeners]
        for n, (stream, listener) in enumerate(zip(streams, listeners, strict=True)):
            stream.feed(ramp(100 * n, 3))
            await listener.until(3)
            assert listener.heard == expected(100 * n, 3)
        for stream in streams:
            stream.close()
            stream.close()
    assert bank.open_streams == 0


@settings(max_examples=25, deadline=None)
@given(plan=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 700), st.booleans()), max_size=60))
def test_no_window_is_lost_or_swapped_whatever_the_order(
    plan: list[tuple[int, int, bool]],
) -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            bank = VoiceActivityBank(TellingModel(), executor)
            listeners = [Listener() for _ in range(4)]
            streams = [bank.open(listener.probability) for listener in listeners]
            fed = [0] * 4
            for who, samples, breathe in plan:
                streams[who].feed(ramp(who * 5000 + fed[who], samples / WINDOW))
                fed[who] += samples
                if breathe:
                    await asyncio.sleep(0)
            for who, listener in enumerate(listeners):
                await listener.until(fed[who] // WINDOW)
                assert listener.heard == expected(who * 5000, fed[who] // WINDOW)
            bank.close()

    asyncio.run(run())


async def test_a_stream_closed_while_its_window_is_judged_hears_nothing(
    bank: VoiceActivityBank, model: TellingModel
) -> None:
    closed, other = Listener(), Listener()
    stream, second = bank.open(closed.probability), bank.open(other.probability)
    model.go.clear()
    stream.feed(ramp(0, 1))
    second.feed(ramp(0, 1))
    stream.feed(ramp(0, 2))
    await asyncio.to_thread(model.entered.wait, 60)
    stream.close()
    stream.feed(ramp(0, 2))
    model.go.set()
    await other.until(1)
    assert closed.heard == []
    assert bank.open_streams == 1


async def test_a_stream_may_close_itself_from_its_callback(bank: VoiceActivityBank) -> None:
    heard: list[int] = []
    other = Listener()

    def first_only(probability: float, end: int) -> None:
        heard.append(end)
        stream.close()

    stream, second = bank.open(first_only), bank.open(other.probability)
    stream.feed(ramp(0, 3))
    second.feed(ramp(0, 5))
    await other.until(5)
    assert heard == [WINDOW]


async def test_a_callback_that_raises_ends_its_own_stream_only(bank: VoiceActivityBank) -> None:
    bad, good = Listener(), Listener()

    def raises(probability: float, end: int) -> None:
        raise KeyError("bug in one call")

    broken = bank.open(raises, bad.failure)
    fine = bank.open(good.probability)
    broken.feed(ramp(0, 1))
    fine.feed(ramp(0, 2))
    await good.until(2)
    await bad.until(1)
    assert isinstance(bad.failed[0], KeyError)
    assert broken.closed
    assert not fine.closed


async def test_a_model_that_fails_is_reported_and_later_streams_work(
    bank: VoiceActivityBank, model: TellingModel
) -> None:
    first, later = Listener(), Listener()
    model.failure = RuntimeError("out of memory")
    bank.open(first.probability, first.failure).feed(ramp(0, 1))
    await first.until(1)
    assert [str(error) for error in first.failed] == ["out of memory"]
    model.failure = None
    bank.open(later.probability, later.failure).feed(ramp(0, 1))
    await later.until(1)
    assert later.heard == expected(0, 1)


async def test_a_closed_bank_opens_nothing(bank: VoiceActivityBank) -> None:
    bank.close()
    with pytest.raises(RuntimeError, match="closed"):
        bank.open(lambda probability, end: None)
