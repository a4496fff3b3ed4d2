"""Keys and recordings of real calls: what the phone pressed and said, what is left on disk."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from cordboard.audio.resample import resample_pcm
from cordboard.calls.events import Key, RecordingStarted, RecordingStopped, ToolAnswered
from cordboard.testing.correlation import align, share_heard
from cordboard.testing.sip import PhoneCall
from cordboard.testing.timeline import RATE, Samples

from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

PIN = "918273645"
"""So long that no time or number in a ledger is like it."""
BANK = {
    "greeting": "Bank.",
    "tools": ["hangup_call", "collect_digits"],
    "recording": {"enabled": True, "consent": "This call is recorded."},
    "rules": {
        "intents": {
            "balance": {
                "sentences": ["[please] [tell me] [what is] my (balance|account balance)"],
                "tool": "collect_digits",
                "arguments": {"prompt": "Your secret number, please.", "count": 9, "secret": True},
                "say": "I have {data.length} digits.",
            },
            "order": {
                "sentences": ["[please] [where is] my order"],
                "tool": "collect_digits",
                "arguments": {"prompt": "Enter the order number, then the hash key."},
                "say": "Order {data.digits}.",
            },
        }
    },
}
together = SideBySide()


def bank(media: str):
    def change(tree):
        tree["contexts"]["bank"] = BANK
        tree["asterisk"]["media"] = media

    return change


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


def channels(path: Path, rate: int = RATE) -> tuple[np.ndarray, np.ndarray]:
    """Both channels at 8 kHz."""
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, rate)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    left, right = (
        np.frombuffer(resample_pcm(side.tobytes(), rate, RATE), "<i2") for side in samples.T
    )
    return left, right


def assert_as_at_the_phone(
    line: PhoneCall, question: Samples, left: np.ndarray, right: np.ndarray
) -> None:
    """What the phone said and heard is in the file, and about as far apart as it was at the phone.

    Only the distances can be compared: the phone's clock begins elsewhere. On a quiet machine they
    agree within 5 ms; on a busy one, each stall parts them further.
    """
    assert share_heard(question, left, piece_ms=20) >= 0.8
    assert share_heard(line.heard_in_order(), right, piece_ms=20) >= 0.8
    whole = line.heard()
    spoken = align(question, line.spoken(), 60)
    said = align(question, left, 60)
    shifts = []
    for part in line.heard_segments():
        first = round((part.start - line.started_at()) * RATE)
        piece = whole[first : round((part.end - line.started_at()) * RATE)]
        if len(piece) < RATE // 2:
            continue
        found = align(piece, right, 60)
        shifts.append(found.lag_seconds - first / RATE)
    assert shifts, "the phone heard something"
    apart = said.lag_seconds - spoken.lag_seconds - float(np.median(shifts))
    assert abs(apart) < 0.5


async def test_the_tones_of_a_key_are_told_from_other_sound() -> None:
    noise = np.random.default_rng(1).normal(0, 4000, RATE)
    assert len(tones_in(tone(0.5))) >= 9
    assert tones_in(noise) == []


async def keys_once_and_a_recording(hotline):
    caller = await hotline.dial("ctx-bank")
    await caller.greeted_to_the_end()
    began = await caller.say("Where is my order?")
    await caller.line.hear_speech(after=began)
    caller.line.press("11223#")
    answered = await caller.event(ToolAnswered)
    assert answered.status == "ok"
    await caller.line.hear_silence(700)
    caller.line.hangup()
    history = await caller.history()
    call_id = await caller.call_id()
    keys = "".join(e.key for name, _, e in hotline.events if name == call_id and type(e) is Key)
    assert keys == "11223#"
    assert any("Order 11223." in text for _, text in history.transcript()), history.transcript()

    await hotline.engine.calls_recorded()
    started = await caller.event(RecordingStarted)
    left, right = channels(hotline.folder / started.path, started.rate)
    question = await hotline.speech.say("Where is my order?")
    assert_as_at_the_phone(caller.line, question, left, right)


@pytest.mark.parametrize("media", ["websocket", "rtp"])
async def test_every_transport_brings_each_key_once_and_can_be_recorded(open_hotline, media):
    async with open_hotline(bank(media), settled=False) as hotline:
        await keys_once_and_a_recording(hotline)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline):
    async with open_hotline(bank("audiosocket"), settled=False) as hotline:
        yield hotline


@together
async def test_audiosocket_does_so_too(hotline):
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
    assert_as_at_the_phone(line, question, left, right)
