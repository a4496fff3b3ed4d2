"""The humans to whom callers are handed, all of them at one phone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from cordboard.calls.events import TransferStep
from cordboard.errors import CallOver
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.voice_line import VoiceLine

from .conftest import Caller, Hotline


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
