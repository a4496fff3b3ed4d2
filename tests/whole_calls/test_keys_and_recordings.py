"""Keys and recordings of real calls: what the phone pressed and said, what is left on disk."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import pytest_asyncio

from cordboard.calls.events import (
    AnnouncementHeard,
    Key,
    RecordingStarted,
    RecordingStopped,
    ToolAnswered,
)
from cordboard_testkit.correlation import came_through
from cordboard_testkit.timeline import RATE, Samples

from .bank import AGREED, assert_as_at_the_phone, bank, channels, keys_once_and_a_recording
from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

PIN = "918273645"
"""So long that no time or number in a ledger is like it."""
together = SideBySide()


def tone(seconds: float = 0.2) -> Samples:
    """The two tones of a 4 (ITU-T Q.23), as a phone makes them that sends keys as sound."""
    at = np.arange(int(seconds * RATE)) / RATE
    sound = 6000 * (np.sin(2 * np.pi * 770 * at) + np.sin(2 * np.pi * 1209 * at))
    return np.concatenate((sound, np.zeros(RATE // 10))).astype(np.int16)


def tones_in(sound: np.ndarray) -> list[float]:
    """When (s) there are the two tones of a 4, looked at in windows of 50 ms."""
    size = RATE // 20
    windows = sound[: len(sound) // size * size].reshape(-1, size).astype(float)
    at = np.arange(size) / RATE
    share = []
    for hertz in (770, 1209):
        power = np.abs(windows @ np.exp(-2j * np.pi * hertz * at)) ** 2 * 2 / size
        share.append(power / np.maximum((windows**2).sum(axis=1), 1e4))
    return [float(n) * 0.05 for n in np.flatnonzero((share[0] > 0.2) & (share[1] > 0.2))]


async def test_the_tones_of_a_key_are_told_from_other_sound() -> None:
    noise = np.random.default_rng(1).normal(0, 4000, RATE)
    assert len(tones_in(tone(0.5))) >= 9
    assert tones_in(noise) == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline):
    async with open_hotline(bank("audiosocket"), settled=False) as hotline:
        yield hotline


@together
async def test_each_key_comes_once_and_the_call_is_recorded(hotline):
    await keys_once_and_a_recording(hotline)


@together
async def test_a_secret_is_nowhere_and_the_rest_of_the_call_is_recorded(hotline):
    caller = await hotline.dial("ctx-bank")
    await caller.greeted_to_the_end()
    line = caller.line
    line.say(tone())  # a control: outside of a secret it can be heard in the recording
    await line.said()
    began = await caller.say("What is my account balance?")
    await line.hear_speech(after=began)
    for key in PIN:
        line.say(tone())
        line.press(key)
        await line.said()
    await line.hear_keys(0)
    assert (await caller.event(ToolAnswered)).status == "ok"
    await line.hear_silence(700)
    line.hangup()
    history = await caller.history()
    call_id = await caller.call_id()
    ledger = next(hotline.folder.glob(f"*/{call_id}.jsonl"))
    started = await caller.event(RecordingStarted)
    stopped = await caller.event(RecordingStopped)
    await hotline.engine.calls_recorded()
    begin_ms = next(at for name, at, e in hotline.events if e is started)

    # The keys are in no text.
    events = [e for name, _, e in hotline.events if name == call_id]
    assert [(e.key, e.secret) for e in events if isinstance(e, Key)] == [("*", True)] * len(PIN)
    assert PIN not in ledger.read_text()
    assert PIN not in repr(events) + repr(hotline.log)
    assert any("I have 9 digits" in text for _, text in history.transcript())

    # Nor in the sound, though their tones were sent: only the control is there.
    left, right = channels(hotline.folder / started.path)
    sent = tones_in(line.spoken())
    assert len(sent) >= 5 * 3, "the phone sent the tones of the control and of each key"
    heard = tones_in(left)
    assert heard, "the control"
    asked_ms = next(
        at for name, at, e in hotline.events if name == call_id and e.type == "tool.asked"
    )
    assert max(heard) < (asked_ms - begin_ms) / 1000

    # Both channels are what was said and heard, on the clock of the call.
    assert len(left) / 8 == pytest.approx(stopped.duration_ms, abs=20)
    question = await hotline.speech.say("What is my account balance?")
    # Its end is silence: keys pressed so shortly before the question for them would be secret too.
    await asyncio.to_thread(assert_as_at_the_phone, line, question[: 3 * RATE // 10], left, right)


@together
async def test_the_recording_begins_when_the_caller_has_heard_of_it(hotline):
    caller = await hotline.dial("ctx-agreed")
    await caller.greeted_to_the_end()
    caller.line.hangup()
    await caller.history()
    call_id = await caller.call_id()
    told = [(e, at) for name, at, e in hotline.events if name == call_id]
    heard = [(e.kind, at) for e, at in told if isinstance(e, AnnouncementHeard)]
    assert [kind for kind, _ in heard] == ["disclosure", "consent"]
    (begun,) = [at for e, at in told if isinstance(e, RecordingStarted)]
    (first,) = [at for e, at in told if e.type == "agent.audio_started"]
    assert first + 500 < heard[0][1] < heard[1][1] <= begun
    await hotline.engine.calls_recorded()
    started = await caller.event(RecordingStarted)
    _, right = channels(hotline.folder / started.path, started.rate)
    greeting = await hotline.speech.say(AGREED["greeting"])
    consent = await hotline.speech.say(AGREED["recording"]["consent"])
    assert await asyncio.to_thread(came_through, greeting, right)
    assert not await asyncio.to_thread(came_through, consent, right)
