"""The firewall of one call: facts for the policy, the caller's proofs, and the records of refusals.

It judges tool calls at the desk (`ToolGuard`), and transfers and keys at the line
(`calls.call_control`). Its state is the call's and ends with it: what the agent may have read of
others (taint), the results that the policy names as places of values, and the given proofs.

Taint is tracked only if the policy has rules for tools or destinations. A call is tainted from its
beginning by the descriptions of MCP tools and by `pre_call` results in its prompt, later by the
first answer of a tool; built-in tools and `trusted_tools` do not taint.
"""

from __future__ import annotations

import asyncio
import datetime
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog

from cordboard.calls import events
from cordboard.calls.call_usage import CallUsage, Leg, SpentOutlets
from cordboard.calls.ledger import Ledger
from cordboard.calls.outbound_order import CallbackBook
from cordboard.calls.resumption import CallSoFar, EarlierUses, refusal
from cordboard.config.schema import Config, Context
from cordboard.config.sections.outbound import Outbound
from cordboard.errors import (
    CallerNotVerified,
    CampaignRefused,
    LineError,
    LineGone,
    TransferFailed,
)
from cordboard.firewall.counts import Counts, Direction
from cordboard.firewall.numbers import read_number
from cordboard.firewall.policy import (
    ALLOWED,
    NO_PRICE,
    NOT_VERIFIED,
    TRANSFER,
    Act,
    By,
    Decision,
    DialAct,
    Facts,
    KeysAct,
    Policy,
    Proof,
    ToolAct,
    TransferAct,
)
from cordboard.observe.metrics import Metrics
from cordboard.tools.call_line import CallLine, KeysWanted, SecondPhoneAsk
from cordboard.tools.tool import Status, ToolAsk, ToolResult, ToolSpec

NEEDS_OPERATOR = (
    "It was not done, because a colleague must confirm the caller first; tell the caller so."
)
CALLER_GONE = "The caller has gone. It was not done."
PIN_SECONDS = 15.0
"""Seconds until the first key of a PIN."""
SAME_KEYS_SECONDS = 5.0
"""Pause after which keys no longer belong to those before: after it Asterisk takes an extension as
complete (`TIMEOUT(digit)`), and the menu of a machine has spoken in between."""
MOST_SENT_KEYS = 64
"""Sent keys that are remembered."""
_KEY_SECONDS, _WAIT_SECONDS = 0.2, 0.5
"""Length of a key with its pause, and of a `w`, as Asterisk sends them."""

log = structlog.get_logger()


def sentences(config: Config) -> Iterator[str]:
    """The questions for the PIN, and for the code at the caller's known number; the last words of
    calls whose caps are used up."""
    rules = config.firewall.used_up
    yield from (rules.warning, rules.goodbye if rules.end_after_ms is not None else "")
    if config.firewall.pin is not None:
        yield config.firewall.pin.prompt
    if config.firewall.callback is not None:
        yield config.firewall.callback.prompt


class SentLately:
    """The keys that were sent to the far side and may still be the beginning of the next ones."""

    def __init__(self) -> None:
        self._sendings: list[str] = []
        self._until = 0.0
        """Loop time at which the last of them has been sent: the line sends one after the other,
        and does not wait for them."""

    def before(self, at: float) -> tuple[str, ...]:
        """Return the sendings that count at this loop time, the oldest first."""
        if at - self._until > SAME_KEYS_SECONDS:
            self._sendings.clear()
        return tuple(self._sendings)

    def add(self, keys: str, at: float) -> None:
        """Note keys that are sent now."""
        pressed = keys.replace("w", "")
        waits = len(keys) - len(pressed)
        self._until = max(self._until, at) + len(pressed) * _KEY_SECONDS + waits * _WAIT_SECONDS
        if pressed:
            self._sendings.append(pressed)
        while sum(map(len, self._sendings)) > MOST_SENT_KEYS:
            self._sendings.pop(0)


class CallFirewall:
    """The firewall of one call or written conversation."""

    def __init__(
        self,
        policy: Policy,
        counts: Counts,
        ledger: Ledger,
        metrics: Metrics,
        context_name: str,
        variables: Mapping[str, str],
        pre_call: Callable[[], Mapping[str, Any]],
        outbound: Outbound,
        now: Callable[[], datetime.datetime] | None = None,
        blocks: CallbackBook | None = None,
    ) -> None:
        """`variables`: `caller_number` and `called_number` as the line gives them, and the channel
        variables. `pre_call()` returns the data of its results by their names. `outbound` says how
        a number is reached. `now`: the policy's, if left out. `blocks` has the do-not-call list;
        None: there is none."""
        self._policy = policy
        self._counts = counts
        self._ledger = ledger
        self._metrics = metrics
        self._context_name = context_name
        self._variables = variables
        self._pre_call = pre_call
        self._outbound = outbound
        self._blocks = blocks
        self._now = now if now is not None else policy.now
        self.usage = CallUsage(policy, counts, ledger, metrics, context_name, self._now)
        """Counts the call, and all that leaves in it, for the caps."""
        self._caller = policy.caller(variables.get("caller_number", ""))
        rules = policy.rules
        self._trusted = frozenset(rules.trusted_tools)
        self._tracks = bool(rules.tools or rules.destinations)
        self._places = frozenset(
            place.split(".")[1] for place in rules.places if place.startswith("tools.")
        )
        """Tools whose results are places of values."""
        self._results: dict[str, Any] = {}
        self.tainted = ""
        """Source of the first text of third parties that the agent may have read; empty: none, or
        not tracked."""
        self._verified: set[str] = set()
        self._cleared: set[str] = set()
        """Destinations whose conditions the desk has met."""
        self._tries = 0
        self._calls = 0
        """Calls to the caller's known number."""
        self._one_at_a_time = asyncio.Lock()
        self._line: CallLine | None = None
        self._earlier = EarlierUses()
        self._sent = SentLately()

    def connect(self, line: CallLine, context: Context, specs: tuple[ToolSpec, ...]) -> None:
        """Connect the call's line; `specs` are the tools that its agent can see."""
        self._line = line
        if not self._tracks:
            return
        steps = (step.tool for step in context.pre_call if step.save_as is not None)
        first_result = next((tool for tool in steps if tool not in self._trusted), None)
        if first_result is not None:
            self.tainted = f"result:{first_result}"
            return
        offered = (spec.name for spec in specs if spec.kind == "mcp")
        described = next((name for name in offered if name not in self._trusted), None)
        if described is not None:
            self.tainted = f"description:{described}"

    def resume(self, so_far: CallSoFar, specs: tuple[ToolSpec, ...]) -> None:
        """Go on from another engine, after `connect`: taint, proofs, and the tool calls that must
        not be repeated."""
        # Where nothing was lost, a caller may want the same again, as within one engine.
        kept = so_far.is_unnoticed
        self._earlier = EarlierUses([use for use in so_far.uses if not (kept and use.done)])
        for proof in so_far.of_kind(events.CallerVerified):
            if proof.ok:
                self._verified.add(proof.proof)
            self._tries += proof.proof == "pin"
            self._calls += proof.proof == "callback"
        if not self._tracks:
            return
        kinds = {spec.name: spec.kind for spec in specs}
        for use in so_far.history.tools:
            if use.name in self._places and use.status == "ok":
                self._results[use.name] = use.sent
            is_ours = kinds.get(use.name) == "builtin" or use.name in self._trusted
            if not (self.tainted or is_ours or use.answered_ms is None):
                self.tainted = f"result:{use.name}"

    # At the desk.

    def check(self, ask: ToolAsk, spec: ToolSpec) -> Decision:
        """See `ToolGuard.check`."""
        decision = ALLOWED
        if self._policy.guards(spec.name):
            act = ToolAct(spec.name, ask.arguments)
            decision = self._judged(act, spec.name, ask.ask_id, ask.confirmed)
        earlier = self._earlier.like(ask, spec) if decision.allowed else None
        if earlier is None:
            return decision
        if self._earlier.may_be_confirmed(earlier, ask.turn):
            return replace(decision, needs=tuple(dict.fromkeys((*decision.needs, "confirm"))))
        self._refused("tool", "repeated", "it was asked for before", ask.name, ask.ask_id)
        return Decision(False, "repeated", say=refusal(earlier))

    async def verify(self, ask: ToolAsk, proof: Proof) -> ToolResult | None:
        """See `ToolGuard.verify`."""
        try:
            why = await self._proven(proof)
        except LineGone:
            return ToolResult(Status.CANCELLED, CALLER_GONE)
        if not why:
            return None
        self._refused("tool", "step_up", why, ask.name, ask.ask_id)
        say = NEEDS_OPERATOR if proof == "operator" else NOT_VERIFIED
        return ToolResult(Status.REFUSED, say, control={"retryable": False})

    def cleared(self, ask: ToolAsk) -> None:
        """See `ToolGuard.cleared`."""
        self._earlier.confirmed(ask)
        if ask.name == TRANSFER:
            self._cleared.add(str(ask.arguments.get("destination")))

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, result: ToolResult) -> None:
        """See `ToolGuard.answered`."""
        if not self._tracks or spec is None:
            return
        if spec.name in self._places and result.status is Status.OK:
            self._results[spec.name] = result.data
        if not self.tainted and spec.kind != "builtin" and spec.name not in self._trusted:
            self.tainted = f"result:{spec.name}"

    # At the line.

    async def prove_for(self, destination: str) -> None:
        """Have the caller, who chose a destination by a key, give the proofs that it needs. Raises
        `CallerNotVerified`, and `TransferFailed` if it is shut now; `LineGone`."""
        decision = self._policy.opens(TransferAct(destination, "caller"), self._facts())
        if not decision.allowed:
            self._refused("transfer", decision.rule, decision.why, destination, "")
            raise TransferFailed(f"the firewall refused it ({decision.rule}: {decision.why})")
        for need in decision.needs:
            if need == "confirm":
                continue
            why = await self._proven(need)
            if why:
                self._refused("transfer", "step_up", why, destination, "")
                raise CallerNotVerified(why, by_operator=need == "operator")

    def begin(
        self,
        direction: Direction,
        trunk: str,
        cost: Callable[[], float | None],
        outlets: SpentOutlets,
        *,
        resumed: bool = False,
    ) -> None:
        """Count the call for the caps, from its admission on. `cost()`: of its services.
        `resumed`: see `CallUsage.begin`."""
        number = read_number(self._caller, self._policy.rules.country)
        tariff = self._policy.tariff(direction, trunk, number)
        self.usage.begin(direction, self._caller, trunk, tariff, cost, outlets, resumed=resumed)

    def transfer(self, destination: str, by: By) -> Leg:
        """Judge a transfer, and count it if it is allowed: else calls that transfer at the same
        time would pass a cap together. Raises `TransferFailed` if it is refused."""
        confirmed = destination in self._cleared
        self._cleared.discard(destination)
        decision = self._judged(TransferAct(destination, by), destination, confirmed=confirmed)
        if not decision.allowed:
            raise TransferFailed(f"the firewall refused it ({decision.rule}: {decision.why})")
        trunk, tariff = self._policy.trunk_of(destination), self._policy.tariff_of(destination)
        return self.usage.leave(self._caller, trunk, tariff)

    def keys(self, keys: str) -> Decision:
        """Judge keys for the far side, together with those that were sent shortly before."""
        at = asyncio.get_running_loop().time()
        decision = self._judged(KeysAct(keys, self._sent.before(at)), "")
        if decision.allowed:
            self._sent.add(keys, at)
        return decision

    def reads(self, number: str) -> str:
        """Return a number as it counts (`Policy.caller`); empty if it cannot be read."""
        return self._policy.caller(number)

    def callback(self, number: str) -> bool:
        """Judge a number that the engine is asked to call later. Hours and caps are judged when it
        is called."""
        text, why = self._policy.dialled(number)
        rule, read = "number", read_number(text, self._policy.rules.country)
        dials = self._outbound.enabled  # else people call back
        if dials and not why and not self._policy.has_price(self._outbound.trunk, read):
            rule, why = "number.price", NO_PRICE
        if why:
            self._refused("callback", rule, why, "", "")
        return not why

    def confirmed_by(self, who: str) -> None:
        """Note that a person vouches for the caller."""
        self._verified.add("operator")
        self._ledger.record(events.CallerVerified("operator", True, who))

    # Inside.

    def _judged(self, act: Act, name: str, ask_id: str = "", confirmed: bool = False) -> Decision:
        decision = self._policy.decide(act, self._facts(confirmed=confirmed))
        if not decision.allowed:
            kind = _KINDS[type(act)]
            self._refused(kind, decision.rule, decision.why, name, ask_id)
        return decision

    def _facts(self, *, confirmed: bool = False) -> Facts:
        return Facts(
            self._now(),
            self._caller,
            self._context_name,
            self.tainted,
            frozenset(self._verified),
            confirmed,
            self._at,
            self.usage.used,
        )

    def _refused(self, act: str, rule: str, why: str, name: str, ask_id: str) -> None:
        self._metrics.calls.firewall_refused(act, rule)
        self._ledger.record(events.FirewallRefused(act, name, rule, why, ask_id))
        log.warning("firewall_refused", act=act, rule=rule, name=name)

    def _at(self, place: str) -> object:
        head, _, rest = place.partition(".")
        if not rest:
            return self._variables.get(head)
        if head == "variables":
            return self._variables.get(rest)
        name, _, path = rest.partition(".")
        found = self._results.get(name) if head == "tools" else self._pre_call().get(name)
        for part in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found

    async def _proven(self, proof: Proof) -> str:
        """Have the caller prove who they are, unless they have; return the reason of a failure.
        Raises `LineGone`."""
        async with self._one_at_a_time:
            if self._verified & {proof, "operator"}:
                return ""
            if proof == "operator":
                return "no operator has confirmed the caller"
            try:
                return await (self._pin() if proof == "pin" else self._callback())
            except LineGone:
                raise
            except LineError as error:
                return f"the caller cannot be asked: {error}"

    async def _pin(self) -> str:
        """Ask for the PIN until it is right or the tries are used up; return the reason of a
        failure. Raises `LineError`."""
        pin, line = self._policy.rules.pin, self._line
        if pin is None or line is None:
            return "no PIN is configured"
        right = str(self._at(pin.from_) or "")
        if not (right.isascii() and right.isdecimal() and len(right) == pin.digits):
            return "the place of the PIN holds none"
        while self._tries < pin.tries:
            line.check_may_ask(secret=True)
            self._tries += 1
            line.say(pin.prompt)
            wanted = KeysWanted(pin.digits, "#", first_timeout=PIN_SECONDS, secret=True, kept=False)
            entered = (await line.collect_keys(wanted)).keys
            ok = hmac.compare_digest(entered.encode(), right.encode())
            self._ledger.record(events.CallerVerified("pin", ok))
            if ok:
                self._verified.add("pin")
                return ""
        return "all tries for the PIN are used up"

    async def _callback(self) -> str:
        """Call the caller's known number, and ask at that phone for a code that only the caller
        heard; return the reason of a failure. Raises `LineError`."""
        rules, line = self._policy.rules.callback, self._line
        if rules is None or line is None:
            return "no call-back is configured"
        number = self._policy.caller(str(self._at(rules.from_) or ""))
        if not number:
            return "the place of the number holds none"
        if self._calls >= rules.calls:
            return "all calls to the caller's number are used up"
        if why := await self._blocked(number):
            return why
        trunk = self._outbound.trunk
        allowed = judge_dialling(self._policy, self._counts, number, trunk, self._context_name)
        if not allowed.allowed:
            return f"the number may not be called: {allowed.why}"
        line.check_may_ask()
        self._calls += 1
        read = read_number(number, self._policy.rules.country)
        leg = self.usage.leave(number, trunk, self._policy.tariff("out", trunk, read))
        code = "".join(secrets.choice("0123456789") for _ in range(rules.digits))
        wanted = KeysWanted(
            rules.digits, "#", first_timeout=PIN_SECONDS, secret=True, kept=False, early=False
        )
        told, ways = rules.told.replace("{code}", ", ".join(code)), self._outbound
        ask = SecondPhoneAsk(
            number, ways.endpoint_of(number), (ways.caller_name, ways.caller_id),
            rules.ring_ms / 1000, told, rules.prompt, wanted, lambda: self.usage.answered(leg),
        )  # fmt: skip
        ok = False
        try:
            ok = hmac.compare_digest((await line.ask_at(ask)).keys.encode(), code.encode())
        finally:
            self.usage.ended(leg)
            self._ledger.record(events.CallerVerified("callback", ok))
        if not ok:
            return "a wrong code, or none, was entered"
        self._verified.add("callback")
        return ""

    async def _blocked(self, number: str) -> str:
        """Return why the do-not-call list keeps a number from being called; empty if it does
        not."""
        try:
            blocked = self._blocks is not None and await self._blocks.is_blocked(number)
        except CampaignRefused as error:  # in doubt no number is called
            log.error("do_not_call_list_not_read", error=str(error))
            return "the do-not-call list cannot be read"
        return "the number is on the do-not-call list" if blocked else ""


_KINDS: Mapping[type, str] = {ToolAct: "tool", TransferAct: "transfer", KeysAct: "keys"}


def judge_dialling(
    policy: Policy, counts: Counts, number: str, trunk: str, context_name: str
) -> Decision:
    """Judge a call that the engine wants to make, by this trunk. The callee is the
    caller of its caps."""
    now = policy.now()
    facts = Facts(
        now,
        policy.caller(number),
        context_name,
        used=lambda direction, scope, name: counts.used(direction, scope, name, now),
    )
    return policy.decide(DialAct(number, trunk), facts)
