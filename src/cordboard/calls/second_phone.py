"""Asks for keys at another telephone, while the caller hears hold music.

    tell the caller ──▶ hold ──▶ dial ──▶ answered ──▶ prompt ──▶ keys ──▶ hang up there ──▶ back
                          └──────── busy, no answer, anyone hangs up ────────────────────▶ back

It works like the consultation of a transfer, but never connects the two phones. The agent's voice
asks at the other phone, and only keys are an answer, so a voicemail gives none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from cordboard.agent_api.speech import Speech
from cordboard.calls.conversation import Conversation
from cordboard.calls.dtmf import Dtmf
from cordboard.calls.offer import (
    CallerGone,
    LineControl,
    PartyAnswered,
    PartyEvent,
    PartyGone,
    SecondLeg,
    TransferTarget,
)
from cordboard.errors import LineError, LineGone
from cordboard.tools.call_line import KeysCollected, SecondPhoneAsk

ANSWER_MARGIN = 2.0
"""Seconds after `ring_seconds` for the event that the phone has not answered."""
NAME = "second_phone"
"""Name of the consultation, in place of the destination of a transfer."""

Result = TypeVar("Result")


class SecondPhone:
    """One call to another telephone, and its question."""

    def __init__(self, control: LineControl, conversation: Conversation, keys: Dtmf) -> None:
        self._control = control
        self._conversation = conversation
        self._keys = keys
        self._answered = asyncio.Event()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when either party is gone; empty: it is the caller."""

    async def ask(self, ask: SecondPhoneAsk) -> KeysCollected:
        """See `CallLine.ask_at`. Nothing of the second call is left when it returns or raises."""
        await self._conversation.tell(ask.told)
        if self._conversation.floor.ending:
            raise LineGone("the call is ending")
        target = TransferTarget(
            NAME, "number", ask.number, "", endpoint=ask.endpoint, ring_seconds=ask.ring_seconds,
            shown=ask.shown,
        )  # fmt: skip
        leg = self._control.consult(target, self._party)
        self._conversation.consult(True)
        try:
            return await self._consult(leg, ask)
        finally:
            await self._part(leg)
            self._conversation.consult(False)

    async def _consult(self, leg: SecondLeg, ask: SecondPhoneAsk) -> KeysCollected:
        await leg.hold()
        await leg.dial()
        try:
            async with asyncio.timeout(ask.ring_seconds + ANSWER_MARGIN):
                await self._unless_over(self._answered.wait())
        except TimeoutError:
            raise LineError("the other telephone was not answered") from None
        ask.answered()
        await leg.brief()
        self._conversation.speech.say(Speech(ask.prompt, "approval"))
        return await self._unless_over(self._keys.collect(ask.wanted))

    async def _part(self, leg: SecondLeg) -> None:
        """Hang up the other phone, and bring the caller back."""
        try:
            await leg.drop()
            await leg.back()
        except LineError:
            """A party is gone: closing the leg removes what is left."""
        finally:
            await leg.close()

    async def _unless_over(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work, unless a party goes. Raises `LineError`."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._over), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        why = self._over.result()
        raise LineError(why) if why else LineGone("the caller has gone")

    def _party(self, event: PartyEvent) -> None:
        if isinstance(event, PartyAnswered):
            self._answered.set()
        elif isinstance(event, PartyGone | CallerGone) and not self._over.done():
            here = isinstance(event, CallerGone)
            self._over.set_result("" if here else "the other telephone has hung up")
