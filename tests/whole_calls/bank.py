"""A bank that records its calls and asks for keys: what a call to it is, by whatever transport."""

from __future__ import annotations

import asyncio
import wave
from pathlib import Path
from typing import Any

import numpy as np

from cordboard.audio.resample import resample_pcm
from cordboard.calls.events import Answering, AudioEnded, Key, RecordingStarted, ToolAnswered
from cordboard_testkit.correlation import align, came_through
from cordboard_testkit.sip import PhoneCall
from cordboard_testkit.timeline import RATE, Samples

from .configuration import Change
from .conftest import Hotline

BANK = {
    "greeting": "Bank.",
    "tools": ["hangup_call", "collect_digits"],
    "recording": {"enabled": True, "consent": "This call is recorded.", "begin": "at_once"},
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


AGREED = {
    "disclosure": "I am a machine.",
    "greeting": "Good morning, this is the bank.",
    "recording": {"enabled": True, "consent": "This call is recorded."},
}
"""A context that records once the caller has heard that it does."""


def bank(media: str) -> Change:
    """A configuration with a bank whose sound comes by this transport."""

    def change(tree: dict[str, Any]) -> None:
        tree["contexts"] |= {"bank": BANK, "agreed": AGREED}
        tree["asterisk"]["media"] = media

    return change


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
) -> float:
    """What the phone said and heard is in the file. Return by how many seconds more it is apart
    there than it was at the phone.

    Only the distances can be compared: the phone's clock begins elsewhere. On a quiet machine they
    agree within 5 ms; on a busy one, each stall parts them further. For a thread: it computes for
    a second, and the engine is in the test's event loop.
    """
    assert came_through(question, left)
    assert came_through(line.heard_in_order(), right)
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
    return said.lag_seconds - spoken.lag_seconds - float(np.median(shifts))


async def keys_once_and_a_recording(hotline: Hotline) -> None:
    """Each key comes once, and what was said and heard is in the file, as far apart as it was at
    the phone: a stall of the machine parts it in one call, not in three."""
    for _ in range(3):
        apart = await _keys_and_a_recording(hotline)
        if abs(apart) < 0.5:
            return
    raise AssertionError(f"{apart} s apart")


async def _keys_and_a_recording(hotline: Hotline) -> float:
    """One call; return what `assert_as_at_the_phone` does."""
    caller = await hotline.dial("ctx-bank")
    await caller.greeted_to_the_end()
    began = await caller.say("Where is my order?")
    await caller.line.hear_speech(after=began)
    caller.line.press("11223#")
    answered = await caller.event(ToolAnswered)
    assert answered.status == "ok"
    call_id = await caller.call_id()

    def was_heard() -> bool | None:
        told = hotline.of(call_id)
        said = [i for i, e in enumerate(told) if isinstance(e, Answering) and "Order" in e.text]
        return any(isinstance(e, AudioEnded) for e in told[said[0] :]) or None if said else None

    await hotline.seen(was_heard, "the whole answer")
    await caller.line.hear_silence(700)
    caller.line.hangup()
    history = await caller.history()
    keys = "".join(e.key for name, _, e in hotline.events if name == call_id and type(e) is Key)
    assert keys == "11223#"
    assert any("Order 11223." in text for _, text in history.transcript()), history.transcript()

    await hotline.engine.calls_recorded()
    started = await caller.event(RecordingStarted)
    left, right = channels(hotline.folder / started.path, started.rate)
    question = await hotline.speech.say("Where is my order?")
    return await asyncio.to_thread(assert_as_at_the_phone, caller.line, question, left, right)
