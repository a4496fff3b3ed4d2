"""Hands the live calls of this engine to others, one by one, each in a pause of speech.

    a pause ── take ──> another engine makes call and agent ready ── ready ──> still quiet?
        agreed: it claims the record and moves the caller       not: the next pause

The record decides who has a call, as in an adoption. Whatever fails, the caller stays: an engine
that has agreed and still has the caller after `LEAVE_SECONDS` claims the record back. Asterisk says
whether it has them: the caller may have left while its events did not come. The other side gives up
before that (`call_taker.COME_SECONDS`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from cordboard.calls.call import Call, CallState
from cordboard.calls.speech_pause import LOOK_SECONDS, Patience, Rest, pause_of_speech
from cordboard.cluster.adoption import plan
from cordboard.cluster.member import Member
from cordboard.cluster.wire import CallRecord, HandOverAnswer, HandOverStep
from cordboard.errors import BusAway, ClusterError

log = structlog.get_logger()

AT_ONCE = 4
"""Calls that are made ready elsewhere at the same time, at most: each costs the other engine the
start of an agent."""
STORED_SECONDS = 1.5
"""Longest wait for the bus to have the whole ledger of a call."""
READY_SECONDS = 20.0
"""Longest time for the other engine to make a call ready."""
LEAVE_SECONDS = 3.0
"""Time after which a caller who was to leave has stayed."""
AGAIN_SECONDS = 0.5
"""Pause after an attempt that came to nothing."""
AVOID_SECONDS = 5.0
"""Time for which an engine that did not take a call is not asked for it again."""
_SHORT = 0.02
SPOKE = "they speak again"


class Books(Protocol):
    """The records of the live calls."""

    def record_of(self, call_id: str) -> CallRecord | None:
        """Return the record of a call that another engine could take over."""

    def hand_to(self, call_id: str, instance: str) -> None:
        """Note in a record which instance the call is being handed to; empty: none."""

    @property
    def reaches_callers(self) -> bool:
        """True if Asterisk would tell now that a caller has left."""

    async def is_with(self, call_id: str, instance: str) -> bool:
        """Return True if the caller of a live call is with another instance. Waits until Asterisk
        has answered."""

    def let_go(self, call_id: str) -> None:
        """End a call here whose caller is with another engine."""


@dataclass(slots=True)
class _Move:
    """An attempt to hand one call over."""

    target: str
    lines: int
    least: Rest
    """The rest that the call has to keep until the caller leaves."""
    agreed: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    failed: asyncio.Future[str] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class CallGiver:
    """One per engine."""

    def __init__(
        self,
        member: Callable[[], Member],
        calls: Callable[[], Mapping[str, Call]],
        books: Books,
        internal_error: Callable[[str], None],
    ) -> None:
        self._member = member
        self._calls = calls
        self._books = books
        self._internal_error = internal_error
        self._patience: Patience | None = None
        self._running: asyncio.Task[None] | None = None
        self._giving: dict[str, asyncio.Task[None]] = {}
        self._moves: dict[str, _Move] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    @property
    def moving(self) -> int:
        """Number of the calls that leave as soon as they can."""
        return len(self._movable()) if self._running is not None else 0

    def begin(self, seconds: float | None = None) -> None:
        """Hand over all calls that can be, until `cancel`. Returns at once. `seconds`: time until
        the engine ends; None: it has time."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._running is None:
            log.warning("hand_over_begins", calls=len(self._movable()), seconds=seconds)
            self._running = loop.create_task(self._run(), name="hand over")
            self._patience = None
        if self._patience is None or seconds is not None:
            self._patience = Patience.of(now, None if seconds is None else now + seconds)

    def cancel(self) -> None:
        """Hand over no more calls. A caller who is on their way goes. Idempotent."""
        running, self._running = self._running, None
        if running is None:
            return
        running.cancel()
        log.warning("hand_over_ends", calls=len(self._movable()))
        for call_id, task in tuple(self._giving.items()):
            move = self._moves.get(call_id)
            if move is None or not move.agreed.done():
                task.cancel()
                if move is not None and not move.failed.done():  # agree with no engine now
                    move.failed.set_result("nothing is handed over any more")

    async def close(self) -> None:
        """Stop, after the last call."""
        self.cancel()
        tasks = tuple(self._giving.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def ended(self, call_id: str) -> None:
        """Note that a call has ended here, whatever the reason."""
        task = self._giving.get(call_id)
        if task is not None:
            task.cancel()

    # From the other engines.

    def ready(self, step: HandOverStep) -> HandOverAnswer:
        """Answer an engine that has made a call ready: may its caller come?"""
        move, call = self._moves.get(step.call_id), self._calls().get(step.call_id)
        if move is None or call is None or move.target != step.sender or move.failed.done():
            return HandOverAnswer(False, "this call is not handed over, or not any more")
        changed = self._member().events.stored(step.call_id) != move.lines
        why = ""
        if call.rest < move.least or (changed and move.least > Rest.SPEECH):
            why = SPOKE
        elif not self._books.reaches_callers:
            why = "it would not learn that the caller has left"
        if why:
            move.failed.set_result(why)
            return HandOverAnswer(False, why)
        if not move.agreed.done():
            move.agreed.set_result(None)
        return HandOverAnswer(True)

    def failed(self, step: HandOverStep) -> None:
        """Note that an engine has given a call up."""
        move = self._moves.get(step.call_id)
        if move is not None and move.target == step.sender and not move.failed.done():
            move.failed.set_result(step.why or "it failed there")

    # The work.

    def _movable(self) -> list[str]:
        """Return the calls that another engine could take over. Outbound ones stay: their campaign
        waits for the result here."""
        return [
            call_id
            for call_id, call in self._calls().items()
            if call.offer.outbound is None
            and _is_live(call)
            and self._books.record_of(call_id) is not None
        ]

    async def _run(self) -> None:
        while True:
            for call_id in self._movable():
                if call_id not in self._giving:
                    task = asyncio.get_running_loop().create_task(self._guarded(call_id))
                    self._giving[call_id] = task
                    task.add_done_callback(partial(self._is_over, call_id))
            await asyncio.sleep(AGAIN_SECONDS)  # a call may still come: it was on its way

    async def _guarded(self, call_id: str) -> None:
        try:
            await self._give(call_id)
        except Exception as error:  # task border: the call stays here
            log.exception("hand_over_failed", call_id=call_id, error=repr(error))
            self._internal_error("hand_over")
            await asyncio.sleep(AVOID_SECONDS)
        finally:
            self._moves.pop(call_id, None)
            self._books.hand_to(call_id, "")

    def _is_over(self, call_id: str, _: asyncio.Task[None]) -> None:
        """Note that a call is not being handed over any more; it may not even have begun."""
        self._giving.pop(call_id, None)

    async def _give(self, call_id: str) -> None:
        """Hand one call over, however many attempts it takes."""
        loop = asyncio.get_running_loop()
        avoided: dict[str, float] = {}
        told = ""
        while (
            self._running is not None
            and (call := self._calls().get(call_id)) is not None
            and _is_live(call)
        ):
            least = await pause_of_speech(lambda call=call: call.rest, self._least)  # type: ignore[misc]
            if self._places.locked():
                await asyncio.sleep(LOOK_SECONDS)
                continue
            async with self._places:
                target = self._target(call_id, [k for k, v in avoided.items() if v > loop.time()])
                why = await self._try(call, target, least) if target else "no engine has room"
            if not why:
                log.info("call_handed_over", call_id=call_id, instance=target)
                return
            if why != told:
                log.info("call_stays", call_id=call_id, instance=target, why=why)
                told = why
            if why != SPOKE and target:
                avoided[target] = loop.time() + AVOID_SECONDS
            await asyncio.sleep(AGAIN_SECONDS)

    def _least(self, now: float) -> Rest:
        return self._patience.least(now) if self._patience is not None else Rest.QUIET

    def _target(self, call_id: str, avoided: list[str]) -> str:
        """Return the engine that is to have the call; empty if none has room."""
        record, others = self._books.record_of(call_id), self._member().roster.others
        if record is None:
            return ""
        able = [
            each for each in others.values() if each.free_slots > 0 and each.instance not in avoided
        ]
        return next(iter(plan([record], able)[call_id]), "")

    async def _try(self, call: Call, target: str, least: Rest) -> str:
        """Hand a call to an engine, now. Return why it stays here; empty: the caller has left."""
        call_id, member = call.call_id, self._member()
        self._books.hand_to(call_id, target)
        lines = await self._stored(call_id)
        if lines is None:
            return "the bus does not have all of it"
        if call.rest < least:
            return SPOKE
        move = self._moves[call_id] = _Move(target, lines, least)
        try:
            step = HandOverStep("take", call_id, member.instance, lines)
            try:
                answer = await member.talk.tell(target, step)
            except (BusAway, ClusterError) as error:
                return str(error)
            if not answer.agreed:
                return answer.why or "it refuses"
            either: set[asyncio.Future[Any]] = {move.agreed, move.failed}
            await asyncio.wait(either, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not move.agreed.done():
                return move.failed.result() if move.failed.done() else "it is not ready in time"
            return await self._leaves(call, move)
        finally:
            self._moves.pop(call_id, None)

    async def _leaves(self, call: Call, move: _Move) -> str:
        """Wait until the caller has left. Return why they have not; empty if they have."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while _is_live(call) and not move.failed.done():  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_SHORT)
        if not _is_live(call):
            return ""
        if await self._books.is_with(call.call_id, move.target):
            self._books.let_go(call.call_id)
            return ""
        await self._keep(call)
        return move.failed.result() if move.failed.done() else "the caller has not left"

    async def _keep(self, call: Call) -> None:
        """Have the record say that the caller is here: they have not left."""
        call_id, member = call.call_id, self._member()
        while _is_live(call) and self._books.record_of(call_id) is not None:
            try:
                found = await member.records.keep(call_id)
                if found is None:
                    member.records.forget(call_id)  # it is written anew below
                elif found.former != member.instance:
                    log.warning("call_claimed_back", call_id=call_id, instance=found.former)
                # Only now: a write before would show that another engine has the call.
                self._books.hand_to(call_id, "")
                return
            except BusAway as error:
                log.debug("hand_over_waits", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    async def _stored(self, call_id: str) -> int | None:
        """Return the number of lines of a call's ledger, when the bus has them and its record."""
        member = self._member()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORED_SECONDS):
                while True:
                    lines = member.events.stored(call_id)
                    if lines is not None and member.records.is_written(call_id):
                        return lines
                    await asyncio.sleep(_SHORT)
        return None


def _is_live(call: Call) -> bool:
    return call.state not in (CallState.ENDING, CallState.RECORDED)
