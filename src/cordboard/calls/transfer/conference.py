"""An operator's phone as a third party of a call: called, asked, joined, gone.

    ringing ──▶ asked (──▶ told) ──▶ joined ──▶ over
       └──────────┴───────────┴── not answered, declined, a voicemail ──▶ over

Caller and agent go on all the time. The person who answers is asked in sound that the others do not
hear, and joins only by pressing 1, so a voicemail never joins. A caller and a human, whom no agent
can tell, hear a notice before the operator hears them. The conference is over when the operator
hangs up, when the call ends, and when the caller is transferred.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import structlog

from cordboard.agent_api.tts import Voice
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.calls.offer import (
    Guest,
    GuestEvent,
    LineControl,
    PartyAnswered,
    PartyGone,
    PartyKey,
    PartyRings,
)
from cordboard.calls.transfer.aside import speak_aside
from cordboard.calls.transfer.consultation import outcome_of
from cordboard.calls.transfer.destination import briefing_of, target_of
from cordboard.config.tools.entry import BRIEFING_AGAIN, TransferDestination
from cordboard.errors import LineError, LineGone

log = structlog.get_logger()

NOTICE_LIMIT = 30.0
"""Longest time for the notice to caller and human."""
ASK_AGAIN = 8.0
"""Seconds for the key, from the end of the question until it is asked again."""
AgentPart: TypeAlias = Literal["talks", "quiet"]
"""The agent's part in a conference."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ConferenceParts:
    """The call, as a conference sees it."""

    control: LineControl
    ledger: Ledger
    voice: Voice | None
    """The agent's voice, or the engine's. None: the question is not spoken."""
    answered: Callable[[], None]
    """Called when the phone is answered."""
    notice: str
    """Spoken to those who talk before the guest joins; empty: none is, or the agent says it."""
    joined: Callable[[], None]
    """Called when the guest hears the others, and is heard."""


class Conference:
    """One guest of one call."""

    def __init__(self, parts: ConferenceParts, name: str, destination: TransferDestination) -> None:
        """`name`: the name of the destination, which is the operator's phone."""
        loop = asyncio.get_running_loop()
        self._parts = parts
        self._name = name
        self._destination = destination
        self._guest: Guest | None = None
        self._rang = self._has_joined = False
        self._answered: asyncio.Future[None] = loop.create_future()
        self._decided: asyncio.Future[bool] = loop.create_future()
        self._over: asyncio.Future[str] = loop.create_future()
        """Reason of the end."""
        self._cause = PartyGone()

    @property
    def guest(self) -> Guest | None:
        """The guest, once they have joined."""
        return self._guest if self._has_joined else None

    def end(self, why: str) -> None:
        """End it. Idempotent."""
        if not self._over.done():
            self._over.set_result(why)

    async def run(self) -> None:
        """Hold the conference to its end; nothing of it is left then. Raises `LineError` if the
        guest has not joined."""
        if self._parts.notice and self._parts.voice is None:
            raise LineError("not joined: there is no voice for conference.notice")
        target = target_of(self._name, self._destination)
        guest = self._guest = self._parts.control.invite(target, self._take)
        why = ""
        try:
            self._step("ringing")
            await guest.dial()
            await self._within(self._answered, target.ring_seconds, "no_answer")
            self._step("asked")
            await self._ask(guest)
            await self._tell_those_who_talk(guest)
            await guest.join()
            self._has_joined = True
            self._step("joined")
            self._parts.joined()
            await asyncio.wait((self._over,))
        except LineError as error:
            why = str(error)
            raise
        finally:
            self._has_joined = False
            self.end("the call is over")
            await guest.close()
            self._step("over", why or self._over.result())

    async def _ask(self, guest: Guest) -> None:
        """Ask whether they join. Raises `LineError` if they do not."""
        asking = asyncio.ensure_future(self._question(guest))
        try:
            seconds = self._destination.briefing_ms / 1000
            joins = await self._within(self._decided, seconds, "machine", asking)
        finally:
            asking.cancel()
            await asyncio.wait((asking,))
        if not joins:
            raise LineError("not joined: declined")

    async def _question(self, guest: Guest) -> None:
        """Speak the question twice. Returns when there is nothing left to wait for."""
        voice = self._parts.voice
        for words in (briefing_of(self._destination, ""), BRIEFING_AGAIN):
            if voice is not None:
                try:
                    await speak_aside(guest.aside(), voice, words)
                except LineGone:
                    return
                except LineError as error:  # the key counts all the same
                    log.warning("conference_question_failed", error=str(error))
            await asyncio.wait((self._decided, self._over), timeout=ASK_AGAIN)

    async def _tell_those_who_talk(self, guest: Guest) -> None:
        """Have the notice spoken. Raises `LineError` if it was not heard: the guest does not join
        then."""
        notice, voice = self._parts.notice, self._parts.voice
        if not notice or voice is None:
            return
        telling = asyncio.ensure_future(speak_aside(guest.aloud(), voice, notice))
        try:
            await self._within(telling, NOTICE_LIMIT, "the notice was not heard")
        finally:
            telling.cancel()
            await asyncio.wait((telling,))
        self._step("told")

    async def _within(
        self,
        wanted: asyncio.Future[Result],
        seconds: float,
        late: str,
        asking: asyncio.Future[None] | None = None,
    ) -> Result:
        """Wait for an act of the guest. `late`: the outcome if it does not come in time, or not
        before `asking` has ended. Raises `LineError`."""
        ends = (asking,) if asking is not None else ()
        await asyncio.wait(
            (wanted, self._over, *ends), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if wanted.done():
            return wanted.result()
        if not self._over.done():
            raise LineError(f"not joined: {late}")
        raise LineError(f"not joined: {self._over.result()}")

    def _take(self, event: GuestEvent) -> None:
        match event:
            case PartyRings():
                self._rang = True
            case PartyAnswered():
                self._parts.answered()
                if not self._answered.done():
                    self._answered.set_result(None)
            case PartyKey(key):
                if key in ("1", "2") and self._answered.done() and not self._decided.done():
                    self._decided.set_result(key == "1")
            case PartyGone(cause, status):
                if self._has_joined:
                    self.end("they have hung up")
                elif self._answered.done():
                    self.end("declined")
                else:
                    self.end(outcome_of(cause, status, rang=self._rang)[0])

    def _step(self, step: str, detail: str = "") -> None:
        self._parts.ledger.record(events.ConferenceStep(self._name, step, detail))
