"""Turn offers into calls: admission, the live calls, and their orderly end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from cordboard.agent_api.agent import Agent
from cordboard.calls.bare_calls import BARE, BARE_BUDGET, BARE_BUSY, BARE_RATE, BareCalls
from cordboard.calls.binding import Binding, bind
from cordboard.calls.call import Call
from cordboard.calls.call_firewall import judge_dialling
from cordboard.calls.ending import STEP_LIMIT, give_back
from cordboard.calls.offer import Offer
from cordboard.calls.outbound_order import OutboundResult
from cordboard.calls.resumption import CallSoFar
from cordboard.calls.services import CallServices
from cordboard.config.schema import Config
from cordboard.errors import CordboardError, LineError
from cordboard.firewall.policy import ALLOWED, Decision, Facts, IncomingAct, Policy
from cordboard.generation.generation import Generation
from cordboard.observe.degradation import Degradation
from cordboard.observe.limited_log import LimitedLog

log = structlog.get_logger()


def farewell_of(grace: float) -> float:
    """Return the part of a grace period, at its end, that is for farewells."""
    return FAREWELL if grace >= 2 * FAREWELL else grace / 2


FAREWELL = 6.0
"""Seconds at the end of the grace period in which the remaining callers hear a farewell."""


ATTESTATION = "CORDBOARD_ATTESTATION"
"""Channel variable with the STIR/SHAKEN attestation of the caller's number; the dialplan sets
it."""
BLOCKED, CAPPED = "blocked", "capped"
BUSY, OVERLOADED, DRAINING = "busy", "overloaded", "draining"
CLUSTER_BUSY = "cluster_busy"
NO_AGENT, INTERNAL_ERROR = "no_agent", "internal_error"
DIALPLAN_STATUS: Mapping[str, str] = {
    BUSY: "busy",
    CLUSTER_BUSY: "busy",
    OVERLOADED: "busy",
    DRAINING: "unavailable",
    NO_AGENT: "unavailable",
    INTERNAL_ERROR: "unavailable",
    BARE_BUSY: "busy",
    BARE_RATE: "busy",
    BARE_BUDGET: "busy",
    BLOCKED: "unavailable",
    CAPPED: "busy",
}
"""Status for the dialplan, by reason: `busy` is temporary, `unavailable` may not be."""
IN_WORDS: Mapping[str, str] = {
    BUSY: "it has calls.max_calls calls",
    CLUSTER_BUSY: "all engines together have cluster.max_calls calls",
    OVERLOADED: "it is overloaded",
    DRAINING: "it is draining: it takes no new calls, because it stops or an operator says so",
    NO_AGENT: "no provider of the context can serve; `/ready` names the reason",
    INTERNAL_ERROR: "an internal error, which is in its log",
    BARE_BUSY: "it has as many calls without ARI as it takes (audiosocket.max_calls)",
    BARE_RATE: "too many calls without ARI began in a minute (audiosocket.calls_per_minute)",
    BARE_BUDGET: "the day's calls without ARI are used up (audiosocket.max_minutes_per_day, "
    "audiosocket.max_cost_per_day)",
    BLOCKED: "the firewall takes no calls of this caller (firewall.incoming)",
    CAPPED: "a cap of the firewall is used up (firewall.incoming)",
}
"""Reasons for a refusal, for people."""


def reason_to_refuse(
    *, draining: bool, live_calls: int, max_calls: int, degradation: Degradation
) -> str:
    """Return why the next caller cannot be admitted; empty if they can."""
    if draining:
        return DRAINING
    if live_calls >= max_calls:
        return BUSY
    return "" if degradation.admits_calls else OVERLOADED


@dataclass(frozen=True, slots=True)
class Aside:
    """A generation beside the one in force, for a test call."""

    generation: Generation
    open_agent: Callable[[Binding], Agent]
    """Opens an agent of this generation. Raises `AgentError`."""


async def turn_away(offer: Offer, status: str, internal_error: Callable[[str], None]) -> None:
    """Give a caller back to the dialplan and release the line. Failures are logged; unexpected ones
    are also counted (`internal_error(where)`).

    A refused call always returns to the dialplan, unanswered, with `CORDBOARD_STATUS` set to
    `status` (see docs/load.md for what the dialplan can do). Each reason is counted as
    `ai_agent_refused_offers_total{reason=...}`.
    """
    line = offer.control
    for step in (partial(give_back, line, status), line.release):
        try:
            async with asyncio.timeout(STEP_LIMIT):
                await step()
        except (LineError, TimeoutError) as error:
            log.error("refusal_failed", call_id=offer.call_id, error=repr(error))
        except Exception as error:  # task border: there is no better handler
            log.exception("refusal_failed", call_id=offer.call_id, error=repr(error))
            internal_error("refusal")


class CallRegistry:
    """All calls of one engine."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        open_agent: Callable[[Binding], Agent],
        services: CallServices,
        degradation: Degradation | None = None,
        *,
        has_ari: bool = False,
        cluster_is_full: Callable[[], bool] = lambda: False,
        canary: Callable[[Offer], Aside | None] = lambda offer: None,
    ) -> None:
        """`generation()` returns the one in force; a call keeps the one it starts with.
        `open_agent` raises `AgentError` when the provider is not ready. `canary` returns another
        generation for a share of the offers, after the one in force has admitted them.

        `degradation` says when the engine is too busy for new calls. `has_ari`: calls come by ARI
        too, and bare calls have a share beside them (`calls.bare_calls`). `cluster_is_full()`
        returns True if all engines together may take no further call.
        """
        self._generation = generation
        self._open_agent = open_agent
        self._services = services
        self._degradation = degradation or Degradation()
        self._cluster_is_full = cluster_is_full
        self._canary = canary
        self._calls: dict[str, Call] = {}
        self.bare = BareCalls(asyncio.get_running_loop().time, has_ari=has_ari)
        """The live calls that came without ARI."""
        self._bare_refused_log = LimitedLog("offer_refused")
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.draining_since: datetime | None = None
        """Wall-clock time at which an operator began to drain the engine; None if it takes
        calls."""
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def calls(self) -> Mapping[str, Call]:
        """The live calls by id."""
        return self._calls

    @property
    def accepting(self) -> bool:
        return not self._stopping and self.draining_since is None

    @property
    def overloaded(self) -> bool:
        """True if the engine is too busy for anything besides its calls."""
        return self._degradation.level > 0

    def begin_drain(self) -> None:
        """Take no new calls until `end_drain`; live ones go on. Idempotent."""
        if self.draining_since is None:
            self.draining_since = datetime.now().astimezone()
            log.warning("drain_begun", calls=len(self._calls))

    def end_drain(self) -> None:
        """Take calls again, unless the engine is stopping. Idempotent."""
        if self.draining_since is not None:
            self.draining_since = None
            log.warning("drain_ended", calls=len(self._calls))

    def offer(self, offer: Offer, aside: Aside | None = None) -> None:
        """Take an offer. Returns at once; the call runs in its own task. Only a test may run
        `aside`."""
        if aside is not None and offer.test is None:
            raise ValueError("a call that is not a test runs on the generation in force")
        task = asyncio.get_running_loop().create_task(self._serve(offer, aside))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until no call is live."""
        await self._idle.wait()

    async def drain(self, grace: float) -> None:
        """Take no more calls; let live ones finish within `grace` seconds, then end them.

        Towards the end of that time the remaining callers hear a farewell; every call ends with
        one, unless the grace period is too short for it.
        """
        self._stopping = True
        farewell = farewell_of(grace)
        if not await self._idle_within(grace - farewell):
            log.warning("calls_ended_by_shutdown", calls=len(self._calls))
            loop = asyncio.get_running_loop()
            for call in tuple(self._calls.values()):
                loop.call_soon(call.close_down)  # an agent that fails in it concerns no other call
            await self._idle_within(farewell)
        for call in tuple(self._calls.values()):
            call.end("shutdown", "engine_stopped")
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._bare_refused_log.close()

    async def _idle_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        return self._idle.is_set()

    async def _serve(self, offer: Offer, aside: Aside | None) -> None:
        """Task border of a call."""
        generation = self._generation() if aside is None else aside.generation
        open_agent = self._open_agent if aside is None else aside.open_agent
        resumed = offer.resumed
        refusal = "" if resumed else self._reason_to_refuse(offer, generation.config)
        if refusal:
            await self._refuse(offer, refusal)
            return
        try:
            binding = bind(offer, generation.config)
            decision = self._judged(offer, binding, generation.policy)
            if not decision.allowed:
                error = f"{decision.rule}: {decision.why}"
                if decision.rule.startswith("cap."):
                    status = generation.config.firewall.incoming.capped
                    await self._refuse(offer, CAPPED, error, status)
                else:
                    await self._refuse(offer, BLOCKED, error)
                return
            so_far = None
            if resumed is not None:
                now = datetime.now().astimezone()
                so_far = await asyncio.to_thread(CallSoFar.of, resumed, now)
            if aside is None and (canary := self._canary(offer)) is not None:
                generation, open_agent = canary.generation, canary.open_agent
                binding = bind(offer, generation.config)
            agent = open_agent(binding)
            call = Call(offer, binding, generation, agent, self._services, so_far)
        except CordboardError as error:
            await self._refuse(offer, NO_AGENT, str(error))
            return
        except Exception as error:  # task border: the caller must not be left waiting
            log.exception("offer_failed", call_id=offer.call_id)
            self._services.metrics.internal_error("offer")
            await self._refuse(offer, INTERNAL_ERROR, repr(error))
            return
        self._calls[offer.call_id] = call
        if offer.source == BARE:
            self.bare.begin(call)
        self._idle.clear()
        self._services.metrics.calls.started()
        try:
            await call.run()
        finally:
            if self._calls.get(offer.call_id) is call:  # it may have come back meanwhile
                del self._calls[offer.call_id]
            self.bare.end(call)
            if not self._calls:
                self._idle.set()

    def _judged(self, offer: Offer, binding: Binding, policy: Policy) -> Decision:
        """Return the firewall's decision about a caller, or about whom we call; tests by people are
        always allowed, and calls that another engine has admitted."""
        if offer.test is not None or offer.resumed is not None:
            return ALLOWED
        counts = self._services.counts
        if offer.outbound is not None:
            # Again: since it was placed, other calls may have used up a cap.
            order = offer.outbound.order
            decision = judge_dialling(
                policy, counts, order.number, order.trunk, binding.context_name
            )
            if not decision.allowed:
                self._services.metrics.calls.firewall_refused("outbound", decision.rule)
            return decision
        now = policy.now()
        facts = Facts(
            now,
            offer.caller_number,
            binding.context_name,
            used=lambda direction, scope, name: counts.used(direction, scope, name, now),
        )
        act = IncomingAct(offer.variables.get(ATTESTATION, "").strip(), offer.trunk)
        decision = policy.decide(act, facts)
        if not decision.allowed:
            self._services.metrics.calls.firewall_refused("incoming", decision.rule)
        return decision

    def _reason_to_refuse(self, offer: Offer, config: Config) -> str:
        """Return the reason to refuse an offer; empty when it is accepted. A bare call has a
        smaller share: it never costs a caller by ARI their place."""
        is_bare = offer.source == BARE
        refusal = reason_to_refuse(
            draining=not self.accepting,
            live_calls=0 if is_bare else len(self._calls) - len(self.bare),
            max_calls=config.calls.max_calls,
            degradation=self._degradation,
        )
        if not refusal and self._cluster_is_full():
            return CLUSTER_BUSY
        if refusal or not is_bare:
            return refusal
        if self.bare.has_ari and self._degradation.level > 0:
            return OVERLOADED
        return self.bare.reason_to_refuse(config, len(self._calls))

    async def _refuse(self, offer: Offer, reason: str, error: str = "", status: str = "") -> None:
        """Refuse a caller. A refused offer has no ledger: it is one line in the file of refused
        offers, logged and counted. `status`: the status for the dialplan, if it is not that of the
        reason."""
        self._services.metrics.calls.refused(reason)
        self._services.refused(offer, reason, error, datetime.now().astimezone())
        if offer.source == BARE:
            self._bare_refused_log.warn(reason, **({"error": error} if error else {}))
        else:
            log.warning("offer_refused", call_id=offer.call_id, reason=reason, error=error)
        if offer.resumed is not None and offer.resumed.hand_over is not None:
            offer.resumed.hand_over.failed(error or reason)
            await offer.control.release()  # the caller is with another engine, and stays there
            return
        status = status or DIALPLAN_STATUS[reason]
        await turn_away(offer, status, self._services.metrics.internal_error)
        if offer.outbound is not None:
            offer.outbound.finished(OutboundResult(offer.call_id, "refused", reason))
