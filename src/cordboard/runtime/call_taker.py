"""Takes the calls that living engines hand over: see `call_giver`, the other side.

Call and agent are made from the call's story on the bus while its caller is still there, and the
offer's media are opened. Last of all the caller is asked for, the record is claimed, and they are
moved into the bridge that waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.call import STAYED, Call
from cordboard.calls.offer import HandOver, Media, MediaOpener, Offer, ResumedCall
from cordboard.calls.resumption import MOVED
from cordboard.cluster.call_records import Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.member import Member, Standing
from cordboard.cluster.wire import HandOverAnswer, HandOverStep
from cordboard.errors import BusAway, CallerStays, ClusterError, CordboardError, LineGone
from cordboard.telephony.asterisk.control import AsteriskLine
from cordboard.telephony.asterisk.shared import KeptCall
from cordboard.telephony.asterisk.source import AsteriskSource

log = structlog.get_logger()

COME_SECONDS = 1.0
"""Time within which the caller has to be moved after the other engine has agreed: later it may have
claimed the call back (`call_giver.LEAVE_SECONDS`)."""
LATE_SECONDS = 2.0
"""Time after which the other engine may have claimed the call back of a caller who comes at last: a
slow Asterisk has moved them late."""
RETRY_SECONDS = 0.5
READS = 5
READ_SECONDS = 0.1
"""Attempts to read a story, and the pause between two: a server may be behind."""


class CallTaker:
    """One per engine."""

    def __init__(
        self,
        member: Callable[[], Member],
        source: Callable[[], AsteriskSource | None],
        calls: Callable[[], Mapping[str, Call]],
        standing: Callable[[], Standing],
        adopted: MutableMapping[str, tuple[Claimed, Story]],
        internal_error: Callable[[str], None],
    ) -> None:
        """`adopted` gets claim and story of each call whose caller comes, before its first
        line."""
        self._member = member
        self._source = source
        self._calls = calls
        self._standing = standing
        self._adopted = adopted
        self._internal_error = internal_error
        self._expected: dict[str, str] = {}
        """The engines that have the callers of the calls that are being made ready."""
        self._claimed: set[str] = set()
        """Those of them whose record may be this engine's."""
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, step: HandOverStep) -> HandOverAnswer:
        """Answer an engine that wants to hand a call over. It is made ready then."""
        call_id, now, source = step.call_id, self._standing(), self._source()
        waiting = sum(each not in self._calls() for each in self._expected)
        if now.draining or now.free_slots <= waiting:
            return HandOverAnswer(False, "it has no room")
        if source is None or not source.ready or self._member().lease.state != "held":
            return HandOverAnswer(False, "it is not connected")
        if call_id in self._expected or call_id in self._calls():
            return HandOverAnswer(False, "an earlier attempt has not ended there")
        self._expected[call_id] = step.sender
        self._spawn(self._make_ready(step, source))
        return HandOverAnswer(True)

    def gone(self, instance: str) -> None:
        """Give up the calls of an engine that has died: they are adopted as all of its calls."""
        for call_id in [each for each, sender in self._expected.items() if sender == instance]:
            if (call := self._calls().get(call_id)) is not None:
                call.end(MOVED, STAYED)

    def is_rid_of(self, call_id: str) -> bool:
        """Return True if nothing is here of a call that was to come from an engine that is dead
        now; else have it end."""
        call = self._calls().get(call_id)
        if call is not None:
            call.end(MOVED, STAYED)
        return call is None and call_id not in self._expected

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _make_ready(self, step: HandOverStep, source: AsteriskSource) -> None:
        """Offer the call, whose agent starts then. A task border."""
        try:
            await self._offer(step, source)
        except CordboardError as error:
            self._give_up(step, str(error))
        except Exception as error:  # task border: the caller is fine where they are
            log.exception("call_not_taken", call_id=step.call_id, error=repr(error))
            self._internal_error("hand_over")
            self._give_up(step, "an internal error")

    async def _offer(self, step: HandOverStep, source: AsteriskSource) -> None:
        """Raises `CordboardError`."""
        member, call_id = self._member(), step.call_id
        record = await member.records.find(call_id)
        if (
            record is None
            or record.owner != step.sender
            or record.handing_over_to != member.instance
        ):
            raise CallerStays("its record does not say so")
        story = await self._story(step)
        hand_over = HandOver(failed=partial(self._give_up, step))
        resumed = ResumedCall(
            story.lines,
            step.sender,
            record.epoch,
            record.context,
            record.provider,
            silence_ms=0,
            hand_over=hand_over,
        )

        asked_at: list[float] = []

        async def agree() -> None:
            asked_at.append(asyncio.get_running_loop().time())
            claimed = await self._claim(step)
            hand_over.epoch = claimed.epoch
            self._adopted[call_id] = claimed, story

        def complete(offer: Offer) -> Offer:
            opener = self._opener(step, offer, story, hand_over, asked_at)
            return replace(offer, resumed=resumed, media=opener)

        kept = KeptCall(
            call_id,
            step.sender,
            record.caller_channel,
            record.caller_number,
            record.caller_name,
            record.called_number,
            record.variables,
        )
        await source.adopt(kept, at_once=False, complete=complete, agree=agree)

    async def _story(self, step: HandOverStep) -> Story:
        """Return the call so far. Raises `BusAway` and `CallerStays`."""
        for _ in range(READS):
            story = await self._member().events.read(step.call_id)
            if len(story.lines) >= step.lines:
                return story
            await asyncio.sleep(READ_SECONDS)
        raise CallerStays("the bus does not have all of it")

    def _opener(
        self,
        step: HandOverStep,
        offer: Offer,
        story: Story,
        hand_over: HandOver,
        asked_at: Sequence[float],
    ) -> MediaOpener:
        """Return what has the caller come, when the agent is ready. `asked_at` gets the loop time
        at which they are asked for."""

        async def come(formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
            line, gone = offer.control, False
            try:
                media = await offer.media(formats)
            except LineGone:
                gone = True
                raise
            finally:
                hand_over.came = isinstance(line, AsteriskLine) and not line.is_expected
                if hand_over.came:
                    self._expected.pop(step.call_id, None)
                    self._claimed.discard(step.call_id)
                else:
                    self._adopted.pop(step.call_id, None)
                    claimed = step.call_id in self._claimed
                    if gone and claimed and self._member().lease.state == "held":
                        self._member().records.remove(step.call_id)  # no engine can go on with it
                        self._claimed.discard(step.call_id)
            if asyncio.get_running_loop().time() - asked_at[0] > LATE_SECONDS:
                await self._claim_again(step, story, hand_over)
            return media

        return come

    async def _claim_again(self, step: HandOverStep, story: Story, hand_over: HandOver) -> None:
        """Claim a call whose caller has come so late that the other engine may have claimed it
        back."""
        try:
            claimed = await self._member().records.claim(step.call_id, step.sender)
        except BusAway as error:
            log.warning("late_call_not_claimed", call_id=step.call_id, error=str(error))
            return
        if claimed is not None:
            hand_over.epoch = claimed.epoch
            self._adopted[step.call_id] = claimed, story

    async def _claim(self, step: HandOverStep) -> Claimed:
        """Ask for the caller, and claim the record. Raises `CallerStays`."""
        member, loop = self._member(), asyncio.get_running_loop()
        if self._standing().draining:
            raise CallerStays("it takes no calls any more")
        try:
            ready = HandOverStep("ready", step.call_id, member.instance, step.lines)
            answer = await member.talk.tell(step.sender, ready)
            if not answer.agreed:
                raise CallerStays(answer.why)
            agreed = loop.time()
            self._claimed.add(step.call_id)
            claimed = await member.records.claim(step.call_id, step.sender, handed_over=True)
        except (BusAway, ClusterError) as error:
            raise CallerStays(str(error)) from error
        if claimed is None:
            raise CallerStays("the call is another engine's, or over")
        if loop.time() - agreed > COME_SECONDS or member.lease.state != "held":
            raise CallerStays("it has taken too long")
        return claimed

    def _give_up(self, step: HandOverStep, why: str) -> None:
        """Tell the owner that the call stays there."""
        if step.call_id in self._expected:
            log.info("call_not_taken", call_id=step.call_id, instance=step.sender, why=why)
            self._spawn(self._return(step, why))

    async def _return(self, step: HandOverStep, why: str) -> None:
        """Let a call be its owner's again. One that has died meanwhile cannot claim it back, and
        no engine would look for its caller here."""
        call_id, member = step.call_id, self._member()
        while call_id in self._claimed:
            try:
                await member.records.give_back(call_id, step.sender)
                self._claimed.discard(call_id)
                member.adopt_again(step.sender)
            except BusAway as error:
                log.debug("hand_over_waits", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
        if self._expected.pop(call_id, None) is not None:
            await self._tell(step, why)

    async def _tell(self, step: HandOverStep, why: str) -> None:
        """Best effort: the owner waits for a limited time only."""
        member = self._member()
        failed = HandOverStep("failed", step.call_id, member.instance, why=why)
        try:
            await member.talk.tell(step.sender, failed)
        except (BusAway, ClusterError) as error:
            log.debug("hand_over_not_told", error=str(error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
