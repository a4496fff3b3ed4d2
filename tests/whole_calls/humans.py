"""The humans to whom callers are handed, all of them at one phone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

import numpy as np

from cordboard.calls.events import TransferStep
from cordboard.errors import CallOver
from cordboard_testkit.correlation import share_heard
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.timeline import RATE, Samples
from cordboard_testkit.voice_line import VoiceLine

from .conftest import Caller, Hotline

AMONG_OTHERS = 0.6
"""Likeness of a sound that is heard while others speak."""
TIMES = 3
"""How often a sound is made that stalls of a busy machine have torn."""


def noise(seed: int, seconds: int = 2) -> Samples:
    """Bursts of noise, of 200 ms each."""
    sound = np.random.default_rng(seed).normal(0, 4000, seconds * RATE).clip(-30000, 30000)
    sound[(np.arange(seconds * RATE) // 1600) % 2 == 1] = 0
    return sound.astype(np.int16)


async def is_heard(
    line: VoiceLine, sound: Samples, others: Sequence[VoiceLine], alike: float = 0.9
) -> None:
    """Whoever is at `line` makes a sound that all others hear."""
    since = time.monotonic()
    for _ in range(TIMES):
        line.say(sound)
        await line.said()
        await asyncio.gather(*(other.hear_silence(300) for other in others))
        heard = [await other.brought(sound, since=since, alike=alike) for other in others]
        if all(heard):
            return
    raise AssertionError(f"not heard by all others: {heard}")


async def hear_each_other(seed: int, *lines: VoiceLine, alike: float = 0.9) -> None:
    """Each makes a sound of their own (`noise(10 * seed + number)`) that all others hear."""
    for number, line in enumerate(lines):
        others = [other for other in lines if other is not line]
        await is_heard(line, noise(10 * seed + number), others, alike)


def kept_a_part(sound: Samples, recording: Samples) -> bool:
    """True if a recording has this sound, among others. Asterisk's spy drops what comes late, so a
    part of it is enough."""
    return share_heard(sound, recording, piece_ms=20, alike=AMONG_OTHERS) > 0.3


@contextlib.asynccontextmanager
async def explained(caller: Caller) -> AsyncIterator[None]:
    """A failure tells what happened in the caller's call."""
    try:
        yield
    except (AssertionError, TimeoutError, CallOver) as error:
        events = "\n  ".join(map(str, caller.hotline.of(await caller.call_id())[-30:]))
        raise AssertionError(f"{error}; the call's last events:\n  {events}") from error


class Humans:
    """The phone of all humans; it answers nothing by itself. Calls are told apart by caller."""

    def __init__(self, name: str) -> None:
        self.phone = SipPhone(name, answers=False)

    def calls_for(self, caller: Caller) -> list[IncomingCall]:
        """The calls to the human about this caller, in their order."""
        calls = [call for call in self.phone.calls.values() if isinstance(call, IncomingCall)]
        return [call for call in calls if call.caller.user == caller.number]

    async def rings_for(self, caller: Caller) -> IncomingCall:
        """The first call to the human about this caller."""
        async with explained(caller):
            await until(lambda: bool(self.calls_for(caller)))
        return self.calls_for(caller)[0]


async def step(caller: Caller, name: str) -> None:
    """Until the transfer is at this step."""
    call_id = await caller.call_id()

    def look() -> bool | None:
        steps = [e.step for e in caller.hotline.of(call_id) if isinstance(e, TransferStep)]
        return True if name in steps else None

    await caller.hotline.seen(look, f"the step {name}")


async def hears(hotline: Hotline, line: VoiceLine, words: str, since: float = 0.0) -> str:
    """Until these words have been heard since a moment, however long the voice pauses on a busy
    machine. Return all that was heard since."""
    after, heard = since, ""
    while words not in heard:
        try:
            await line.hear_speech(after=after)
        except TimeoutError:
            raise AssertionError(f"{words!r} was not heard: {heard!r}") from None
        await line.hear_silence(700)
        after = line.heard_segments()[-1].end
        parts = line.utterances_heard(since)
        heard = " ".join([await hotline.speech.understand(part) for part in parts])
    return heard
