"""Place outbound calls: check the request, ask the policy, keep the limit, remember the end.

Every way to place a call comes through here: the API, the terminal, campaigns.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from cordboard.calls.call_firewall import judge_dialling, local_now
from cordboard.calls.outbound_order import (
    OutboundOrder,
    OutboundResult,
    keys_problem,
)
from cordboard.config.schema import Config
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

Place = Callable[[OutboundOrder, Callable[[OutboundResult], None]], None]
"""Offers the call; returns at once, and reports its end. Raises `LineError`."""
IsBlocked = Callable[[str], Awaitable[bool]]
"""Looks a number in E.164 up in the do-not-call list. Raises `CampaignRefused`."""


@dataclass(frozen=True, slots=True)
class CallWanted:
    """A request for one call."""

    number: str
    """In E.164 with its plus sign, or as in `firewall.country`."""
    context: str
    message: str = ""
    """For a voicemail; empty: it is hung up on."""
    keys: tuple[str, ...] = ()
    """For a menu, step by step."""
    variables: Mapping[str, str] = field(default_factory=dict)
    call_id: str = ""
    """A UUID; the same one again is the same call. Empty: a new one."""
    consent: str = ""
    """Spoken to a human before the greeting."""
    despite_block: str = ""
    """Reason to call the number although it is on the do-not-call list; empty: it is not called."""


@dataclass(frozen=True, slots=True)
class NumberJudged:
    """A number, judged as if it were called now."""

    number: Number | None
    """None if it cannot be read."""
    decision: Decision
    """Of the telephone firewall."""
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
    ) -> None:
        """`config` and `policy` return those in force; `counts` are of the firewall's caps;
        `is_blocked` looks into the do-not-call list."""
        self._config = config
        self._place = place
        self._policy = policy
        self._counts = counts
        self._is_blocked = is_blocked
        self._live: dict[str, asyncio.Future[OutboundResult]] = {}
        self._results: dict[str, OutboundResult] = {}

    @property
    def live(self) -> int:
        """Number of calls that are being placed or talk."""
        return len(self._live)

    @property
    def room(self) -> int:
        """Number of calls that may be placed now."""
        section = self._config().outbound
        return max(0, section.max_calls - self.live) if section.enabled else 0

    async def place(self, wanted: CallWanted) -> str:
        """Place a call and return its id. It goes on by itself. Raises `OutboundRefused`."""
        call_id = _uuid(wanted.call_id)
        if self._knows(call_id):
            return call_id
        config = self._config()
        self._check(wanted, config)
        blocked = await self._blocked(self._policy().caller(wanted.number))
        if self._knows(call_id):  # the same request came twice
            return call_id
        number = self._judge(wanted)
        if blocked and not wanted.despite_block:
            why = "the number is on the do-not-call list; a reason is needed to call it"
            raise OutboundRefused("do_not_call", why)
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
            section.introduction,
            wanted.keys,
            dict(wanted.variables),
            wanted.consent,
        )
        self._live[call_id] = asyncio.get_running_loop().create_future()
        try:
            self._place(order, self._finished)
        except LineError as error:
            del self._live[call_id]
            raise OutboundRefused("no_line", str(error)) from error
        log.info(
            "outbound_call_placed",
            call_id=call_id,
            context=wanted.context,
            despite_block=wanted.despite_block if blocked else "",
        )
        return call_id

    async def judge(self, number: str, context: str) -> NumberJudged:
        """Judge a number now, without a call. Raises `OutboundRefused` if the do-not-call list
        cannot be read."""
        policy = self._policy()
        decision = judge_dialling(policy, self._counts, number, context, local_now())
        read = read_number(number, policy.rules.country)
        blocked = await self._blocked(read.text) if read is not None else False
        return NumberJudged(read, decision, blocked)

    def state(self, call_id: str) -> OutboundResult | None:
        """Return how a call ended; None while it lives. Raises `KeyError` for an unknown one."""
        return None if call_id in self._live else self._results[call_id]

    async def ended(self, call_id: str) -> OutboundResult:
        """Wait for the end of a call. Raises `KeyError` for an unknown one."""
        live = self._live.get(call_id)
        return await asyncio.shield(live) if live is not None else self._results[call_id]

    def _knows(self, call_id: str) -> bool:
        return call_id in self._live or call_id in self._results

    async def _blocked(self, number: str) -> bool:
        try:
            return await self._is_blocked(number)
        except CampaignRefused as error:  # in doubt no number is called
            raise OutboundRefused("no_list", f"the do-not-call list: {error}") from error

    def _finished(self, result: OutboundResult) -> None:
        live = self._live.pop(result.call_id, None)
        self._results[result.call_id] = result
        if len(self._results) > MOST_RESULTS:
            del self._results[next(iter(self._results))]
        if live is not None and not live.done():
            live.set_result(result)

    def _judge(self, wanted: CallWanted) -> str:
        """Return the number in E.164. Raises `OutboundRefused` where the firewall refuses it."""
        policy, now = self._policy(), local_now()
        decision = judge_dialling(policy, self._counts, wanted.number, wanted.context, now)
        for step in wanted.keys if decision.allowed else ():
            decision = policy.decide(KeysAct(step), Facts(now))
            if not decision.allowed:
                break
        if not decision.allowed:
            reason = "not_now" if is_for_now(decision) else "not_allowed"
            raise OutboundRefused(reason, f"{decision.rule}: {decision.why}")
        return policy.caller(wanted.number)

    def _check(self, wanted: CallWanted, config: Config) -> None:
        """Raise `OutboundRefused` for a request that no policy needs to see."""
        if not config.outbound.enabled:
            raise OutboundRefused("off", "outbound calls are off (outbound.enabled)")
        context = config.contexts.get(wanted.context)
        if context is None:
            known = ", ".join(config.contexts)
            raise OutboundRefused("unknown_context", f"no such context; there are: {known}")
        strange = [name for name in wanted.variables if name not in context.variables]
        problem = keys_problem(wanted.keys)
        if strange:
            declared = ", ".join(context.variables) or "none"
            problem = f"variables: {strange[0][:64]!r} is not declared; declared are: {declared}"
        elif len(wanted.message) > MOST_MESSAGE or len(wanted.keys) > MOST_STEPS:
            problem = f"message: at most {MOST_MESSAGE} characters; keys: at most {MOST_STEPS}"
        elif len(wanted.despite_block) > MOST_REASON:
            problem = f"despite_block: at most {MOST_REASON} characters"
        elif any(len(value) > MOST_MESSAGE for value in wanted.variables.values()):
            problem = f"variables: at most {MOST_MESSAGE} characters each"
        if problem:
            raise OutboundRefused("bad_request", problem)


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
