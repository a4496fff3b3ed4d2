"""Place outbound calls: check the request, ask the policy, keep the limit, remember the end.

Every way to place a call comes through here: the API, the terminal, campaigns. A single call is on
the disk before its number is dialled, so that its id is known to the next engine, too; campaigns
write down their attempts themselves.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import structlog

from cordboard.calls.call_firewall import judge_dialling
from cordboard.calls.outbound_order import (
    OutboundOrder,
    OutboundResult,
    keys_problem,
)
from cordboard.config.schema import Config, Context
from cordboard.errors import CampaignRefused, LineError, OutboundRefused
from cordboard.firewall.counts import Counts
from cordboard.firewall.numbers import Number, read_number
from cordboard.firewall.policy import Decision, Facts, KeysAct, Policy

log = structlog.get_logger()

MOST_RESULTS = 1_000
"""Ends of calls that are remembered; the oldest is dropped for a new one."""
MOST_MESSAGE = 1_000
"""Characters of a message."""
MOST_STEPS = 20
MOST_REASON = 200
"""Characters of the reason to call a blocked number."""
MOST_PURPOSE = 500
"""Characters of a call's purpose."""
WRITE_SECONDS = 3.0
"""Time at the stop for writing the ends of calls."""

Found = TypeVar("Found")

Place = Callable[[OutboundOrder, Callable[[OutboundResult], None]], None]
"""Offers the call; returns at once, and reports its end. Raises `LineError`."""
IsBlocked = Callable[[str], Awaitable[bool]]
"""Returns True if a number in E.164 is on the do-not-call list. Raises `CampaignRefused`."""


@dataclass(frozen=True, slots=True)
class CallWanted:
    """A request for one call."""

    number: str
    """In E.164 with its plus sign, or as it is dialled within `firewall.country`."""
    context: str
    message: str = ""
    """Spoken to a voicemail; empty: the engine hangs up on a voicemail."""
    keys: tuple[str, ...] = ()
    """Keys for a menu, step by step."""
    variables: Mapping[str, str] = field(default_factory=dict)
    call_id: str = ""
    """A UUID; the same one again is the same call. Empty: a new one."""
    consent: str = ""
    """Spoken to a human before the greeting."""
    despite_block: str = ""
    """Reason to call the number although it is on the do-not-call list; empty: it is not called."""
    purpose: str = ""
    """Said to a screening service after `outbound.introduction`; empty: the context's."""


class CallBook(Protocol):
    """The single calls on the disk (`cordboard.outbound.placed`). Each method raises
    `CampaignRefused` if the file cannot be used."""

    async def begin(self, call_id: str, context: str) -> bool:
        """Write that a call is placed now, for a context. False if it was placed before."""

    async def drop(self, call_id: str) -> None:
        """Write that this engine has not dialled it: the id is free again."""

    async def finish(self, result: OutboundResult) -> None:
        """Write how it ended."""

    async def find(self, call_id: str) -> OutboundResult | None:
        """Return how it ended; None while it lives in another engine. A call without an end, whose
        engine does not live, is `interrupted`. Raises `KeyError` if it was never placed."""

    async def context_of(self, call_id: str) -> str:
        """Return its context; empty if an earlier version has placed it. Raises `KeyError`."""

    async def close(self) -> None:
        """Let others know that this engine has no more calls. Idempotent."""


@dataclass(frozen=True, slots=True)
class NumberJudged:
    """A number, judged as if it were called now."""

    number: Number | None
    """None if it cannot be read."""
    decision: Decision
    """The telephone firewall's decision."""
    blocked: bool
    """True if it is on the do-not-call list."""


class OutboundCalls:
    """The outbound calls of one engine."""

    def __init__(
        self,
        config: Callable[[], Config],
        place: Place,
        policy: Callable[[], Policy],
        counts: Counts,
        is_blocked: IsBlocked,
        book: CallBook,
    ) -> None:
        """`config` and `policy` return those in force; `counts` are of the firewall's caps;
        `is_blocked` looks into the do-not-call list; `book` has the single calls."""
        self._config = config
        self.campaigns = config().outbound.campaigns
        """The campaigns' file: that of the start, also after a reload."""
        self._place = place
        self._policy = policy
        self._counts = counts
        self._is_blocked = is_blocked
        self._book = book
        self._one_at_a_time = asyncio.Lock()
        """Held while a single call is placed: a request that comes twice finds the first one's."""
        self._writing: set[asyncio.Task[None]] = set()
        self._unwritten: dict[str, Callable[[], Awaitable[None]]] = {}
        """Call id → what the book is to have of its end. If the disk refuses, it is written before
        the next look into the book."""
        self._one_writes = asyncio.Lock()
        self._live: dict[str, asyncio.Future[OutboundResult]] = {}
        self._results: dict[str, OutboundResult] = {}

    @property
    def live(self) -> int:
        """Number of calls that are being placed or talk."""
        return len(self._live)

    @property
    def contexts(self) -> list[str]:
        """Names of the contexts that can talk."""
        return list(self._config().contexts)

    @property
    def room(self) -> int:
        """Number of calls that may be placed now."""
        section = self._config().outbound
        return max(0, section.max_calls - self.live) if section.enabled else 0

    async def close(self) -> None:
        """Wait until the ends of the calls are written."""
        if self._unwritten:
            self._write_soon()
        if self._writing:
            await asyncio.wait(self._writing, timeout=WRITE_SECONDS)
        await self._book.close()

    async def place(self, wanted: CallWanted, *, written: bool = False) -> str:
        """Place a call and return its id. It goes on by itself. `written`: the call is on the disk
        already, as a campaign's attempt, and was not placed before. Raises `OutboundRefused`."""
        call_id = _uuid(wanted.call_id)
        if written:
            order, despite = await self._order(wanted, call_id)
            with self._seat(call_id):
                self._dial(order, self._finished, despite)
            return call_id
        async with self._one_at_a_time:
            known = call_id in self._live or call_id in self._results
            if not known and not (wanted.call_id and await self._was_placed(call_id)):
                await self._place_single(wanted, call_id)
        return call_id

    async def _place_single(self, wanted: CallWanted, call_id: str) -> None:
        order, _ = await self._order(wanted, call_id)
        with self._seat(call_id):
            beginning = asyncio.create_task(self._book.begin(call_id, wanted.context))
            try:
                if not await self._on_disk(asyncio.shield(beginning)):
                    raise OutboundRefused("busy", "another engine is placing this call")
                # Meanwhile others may have used its cap up, or have blocked its number.
                _, despite = await self._allowed(wanted)
                self._dial(order, self._single_finished, despite)
            except BaseException:  # also a cancellation: nothing was dialled, the id is free again
                self._unwritten[call_id] = partial(self._take_back, beginning, call_id)
                await asyncio.shield(self._write_soon())
                raise

    async def _take_back(self, beginning: asyncio.Task[bool], call_id: str) -> None:
        await asyncio.wait((beginning,))  # its thread goes on when the request is given up
        await self._book.drop(call_id)

    async def _order(self, wanted: CallWanted, call_id: str) -> tuple[OutboundOrder, str]:
        """Return the order of a call that may be placed now, and why although its number is
        blocked. Raises `OutboundRefused`."""
        config = self._config()
        context = self._check(wanted, config)
        number, despite = await self._allowed(wanted)
        section = config.outbound
        if not self.room:
            message = f"{section.max_calls} outbound calls are live (outbound.max_calls)"
            raise OutboundRefused("busy", message)
        order = OutboundOrder(
            call_id,
            number,
            wanted.context,
            section.endpoint_of(number),
            section.caller_id,
            section.caller_name,
            section.ring_ms / 1000,
            wanted.message,
            f"{section.introduction} {wanted.purpose or context.purpose}".strip(),
            wanted.keys,
            dict(wanted.variables),
            wanted.consent,
            section.trunk,
        )
        return order, despite

    async def _allowed(self, wanted: CallWanted) -> tuple[str, str]:
        """Return the number in E.164, if it may be called now, and why although it is blocked.
        Raises `OutboundRefused`."""
        blocked = await self._blocked(self._policy().caller(wanted.number))
        number = self._judge(wanted)
        if blocked and not wanted.despite_block:
            why = "the number is on the do-not-call list; a reason is needed to call it"
            raise OutboundRefused("do_not_call", why)
        return number, wanted.despite_block if blocked else ""

    @contextmanager
    def _seat(self, call_id: str) -> Iterator[None]:
        """Count a call among the live ones; not any more if it cannot be placed."""
        self._live[call_id] = asyncio.get_running_loop().create_future()
        try:
            yield
        except BaseException:
            del self._live[call_id]
            raise

    def _dial(
        self, order: OutboundOrder, finished: Callable[[OutboundResult], None], despite: str
    ) -> None:
        try:
            self._place(order, finished)
        except LineError as error:
            raise OutboundRefused("no_line", str(error)) from error
        log.info(
            "outbound_call_placed",
            call_id=order.call_id,
            context=order.context,
            despite_block=despite,
        )

    async def judge(self, number: str, context: str) -> NumberJudged:
        """Judge a number now, without a call. Raises `OutboundRefused` if the do-not-call list
        cannot be read."""
        policy = self._policy()
        decision = self._dialling(policy, number, context)
        read = read_number(number, policy.rules.country)
        blocked = await self._blocked(read.text) if read is not None else False
        return NumberJudged(read, decision, blocked)

    async def state(self, call_id: str) -> OutboundResult | None:
        """Return how a call ended; None while it lives. Raises `KeyError` for an unknown one, and
        `OutboundRefused` if the disk cannot be read."""
        if call_id in self._live:
            return None
        if call_id in self._results:
            return self._results[call_id]
        return await self._on_disk(self._find(call_id))

    async def context_of(self, call_id: str) -> str:
        """Return the context of a single call. Raises `KeyError` for an unknown one, and
        `OutboundRefused` if the disk cannot be read."""
        return await self._on_disk(self._book.context_of(call_id))

    async def ended(self, call_id: str) -> OutboundResult:
        """Wait for the end of a call of this engine. Raises `KeyError` for an unknown one."""
        live = self._live.get(call_id)
        return await asyncio.shield(live) if live is not None else self._results[call_id]

    async def _was_placed(self, call_id: str) -> bool:
        try:
            await self._on_disk(self._find(call_id))
        except KeyError:
            return False
        return True

    async def _find(self, call_id: str) -> OutboundResult | None:
        await self._write_rest()
        return await self._book.find(call_id)

    async def _on_disk(self, work: Awaitable[Found]) -> Found:
        try:
            return await work
        except CampaignRefused as error:  # in doubt nothing is called twice
            raise OutboundRefused("no_store", str(error)) from error

    async def _blocked(self, number: str) -> bool:
        try:
            return await self._is_blocked(number)
        except CampaignRefused as error:  # in doubt no number is called
            raise OutboundRefused("no_list", f"the do-not-call list: {error}") from error

    def _single_finished(self, result: OutboundResult) -> None:
        self._finished(result)
        self._unwritten[result.call_id] = partial(self._book.finish, result)
        self._write_soon()

    def _write_soon(self) -> asyncio.Task[None]:
        writing = asyncio.create_task(self._try_to_write(), name="end of an outbound call")
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return writing

    async def _try_to_write(self) -> None:
        try:
            await self._write_rest()
        except CampaignRefused as error:
            calls = list(self._unwritten)
            log.error("outbound_end_not_written", call_ids=calls[:10], error=str(error))

    async def _write_rest(self) -> None:
        """Write the ends that are not in the book yet. Raises `CampaignRefused`."""
        async with self._one_writes:
            while self._unwritten:
                call_id, write = next(iter(self._unwritten.items()))
                await write()
                del self._unwritten[call_id]

    def _finished(self, result: OutboundResult) -> None:
        live = self._live.pop(result.call_id, None)
        self._results[result.call_id] = result
        if len(self._results) > MOST_RESULTS:
            del self._results[next(iter(self._results))]
        if live is not None and not live.done():
            live.set_result(result)

    def _judge(self, wanted: CallWanted) -> str:
        """Return the number in E.164. Raises `OutboundRefused` where the firewall refuses it."""
        policy = self._policy()
        decision = self._dialling(policy, wanted.number, wanted.context)
        for step in wanted.keys if decision.allowed else ():
            decision = policy.decide(KeysAct(step), Facts(policy.now()))
            if not decision.allowed:
                break
        if not decision.allowed:
            reason = "not_now" if is_for_now(decision) else "not_allowed"
            of_number = decision.rule == "cap.caller"  # the callee is the caller of its caps
            text = f"{decision.rule}: {decision.why}"
            raise OutboundRefused(reason, text, of_number=of_number)
        return policy.caller(wanted.number)

    def _dialling(self, policy: Policy, number: str, context: str) -> Decision:
        trunk = self._config().outbound.trunk
        return judge_dialling(policy, self._counts, number, trunk, context)

    def _check(self, wanted: CallWanted, config: Config) -> Context:
        """Check a request before the policy sees it, and return its context. Raises
        `OutboundRefused`."""
        if not config.outbound.enabled:
            raise OutboundRefused("off", "outbound calls are off (outbound.enabled)")
        context = config.contexts.get(wanted.context)
        if context is None:
            raise OutboundRefused("unknown_context", "there is no such context")
        strange = [name for name in wanted.variables if name not in context.variables]
        problem = keys_problem(wanted.keys)
        if strange:
            declared = ", ".join(context.variables) or "none"
            problem = f"variables: {strange[0][:64]!r} is not declared; declared are: {declared}"
        elif len(wanted.message) > MOST_MESSAGE or len(wanted.keys) > MOST_STEPS:
            problem = f"message: at most {MOST_MESSAGE} characters; keys: at most {MOST_STEPS}"
        elif len(wanted.despite_block) > MOST_REASON:
            problem = f"despite_block: at most {MOST_REASON} characters"
        elif len(wanted.purpose) > MOST_PURPOSE:
            problem = f"purpose: at most {MOST_PURPOSE} characters"
        elif any(len(value) > MOST_MESSAGE for value in wanted.variables.values()):
            problem = f"variables: at most {MOST_MESSAGE} characters each"
        if problem:
            raise OutboundRefused("bad_request", problem)
        return context


def is_for_now(decision: Decision) -> bool:
    """True for a refusal that ends by itself: by hours, or by a cap."""
    return decision.rule == "hours" or decision.rule.startswith("cap.")


def _uuid(text: str) -> str:
    """Return the id in its canonical form, or a new one. Raises `OutboundRefused`."""
    if not text:
        return str(uuid.uuid4())
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise OutboundRefused("bad_request", "call_id: expected a UUID") from None
