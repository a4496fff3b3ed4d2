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
from typing import Any

import structlog

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.config.schema import Config, Context
from cordboard.config.sections.outbound import Outbound
from cordboard.errors import LineError, LineGone
from cordboard.firewall.counts import Counts, Direction, Scope, Used
from cordboard.firewall.policy import (
    ALLOWED,
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

log = structlog.get_logger()


def sentences(config: Config) -> Iterator[str]:
    """The questions for the PIN, and for the code at the caller's known number."""
    if config.firewall.pin is not None:
        yield config.firewall.pin.prompt
    if config.firewall.callback is not None:
        yield config.firewall.callback.prompt


def local_now() -> datetime.datetime:
    """Return the local time with its zone."""
    return datetime.datetime.now().astimezone()


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
        now: Callable[[], datetime.datetime] = local_now,
    ) -> None:
        """`variables`: `caller_number` and `called_number` as the line gives them, and the channel
        variables. `pre_call()` returns the data of its results by their names. `outbound` says how
        a number is reached."""
        self._policy = policy
        self._counts = counts
        self._ledger = ledger
        self._metrics = metrics
        self._context_name = context_name
        self._variables = variables
        self._pre_call = pre_call
        self._outbound = outbound
        self._now = now
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
        """The first words of others that the agent may have read; empty: none, or not tracked."""
        self._verified: set[str] = set()
        self._cleared: set[str] = set()
        """Destinations for which the desk has got everything that they need."""
        self._tries = 0
        self._calls = 0
        """Calls to the caller's known number."""
        self._one_at_a_time = asyncio.Lock()
        self._line: CallLine | None = None

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

    # At the desk.

    def check(self, ask: ToolAsk, spec: ToolSpec) -> Decision:
        """See `ToolGuard.check`."""
        if not self._policy.guards(spec.name):
            return ALLOWED
        return self._judged(ToolAct(spec.name, ask.arguments), spec.name, ask.ask_id, ask.confirmed)

    async def verify(self, ask: ToolAsk, proof: Proof) -> ToolResult | None:
        """See `ToolGuard.verify`."""
        async with self._one_at_a_time:
            if self._verified & {proof, "operator"}:
                return None
            if proof != "operator":
                try:
                    why = await (self._pin() if proof == "pin" else self._callback())
                except LineGone:
                    return ToolResult(Status.CANCELLED, CALLER_GONE)
                except LineError as error:
                    why = f"the caller cannot be asked: {error}"
                say = NOT_VERIFIED
            else:
                why, say = "no operator has confirmed the caller", NEEDS_OPERATOR
        if not why:
            return None
        self._refused("tool", "step_up", why, ask.name, ask.ask_id)
        return ToolResult(Status.REFUSED, say, control={"retryable": False})

    def cleared(self, ask: ToolAsk) -> None:
        """See `ToolGuard.cleared`."""
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

    def transfer(self, destination: str, by: By) -> Decision:
        """Judge a transfer, and count it if it is allowed: else calls that transfer at the same
        time would pass a cap together."""
        confirmed = destination in self._cleared
        self._cleared.discard(destination)
        decision = self._judged(TransferAct(destination, by), destination, confirmed=confirmed)
        if decision.allowed:
            self._counts.act("out", self._caller, self._context_name, self._now())
        return decision

    def keys(self, keys: str) -> Decision:
        """Judge keys for the far side."""
        return self._judged(KeysAct(keys), "")

    def reads(self, number: str) -> str:
        """Return a number in E.164 where it can be read so."""
        return self._policy.caller(number)

    def callback(self, number: str) -> bool:
        """Judge a number that the engine is asked to call later; its hours and caps count then."""
        why = self._policy.dialled(number)[1]
        if why:
            self._refused("callback", "number", why, "", "")
        return not why

    def confirmed_by(self, who: str) -> None:
        """Note that a person vouches for the caller."""
        self._verified.add("operator")
        self._ledger.record(events.CallerVerified("operator", True, who))

    # Inside.

    def _judged(self, act: Act, name: str, ask_id: str = "", confirmed: bool = False) -> Decision:
        facts = Facts(
            self._now(),
            self._caller,
            self._context_name,
            self.tainted,
            frozenset(self._verified),
            confirmed,
            self._at,
            self._used,
        )
        decision = self._policy.decide(act, facts)
        if not decision.allowed:
            kind = _KINDS[type(act)]
            self._refused(kind, decision.rule, decision.why, name, ask_id)
        return decision

    def _refused(self, act: str, rule: str, why: str, name: str, ask_id: str) -> None:
        self._metrics.calls.firewall_refused(act, rule)
        self._ledger.record(events.FirewallRefused(act, name, rule, why, ask_id))
        log.warning("firewall_refused", act=act, rule=rule, name=name)

    def _used(self, direction: Direction, scope: Scope) -> Used:
        names = {"caller": self._caller, "context": self._context_name, "total": ""}
        return self._counts.used(direction, scope, names[scope], self._now())

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
        """Call the number that is known of the caller, and ask there for a code that only the
        caller heard; return the reason of a failure. Raises `LineError`."""
        rules, line = self._policy.rules.callback, self._line
        if rules is None or line is None:
            return "no call-back is configured"
        number = self._policy.caller(str(self._at(rules.from_) or ""))
        if not number:
            return "the place of the number holds none"
        if self._calls >= rules.calls:
            return "all calls to the caller's number are used up"
        now = self._now()
        allowed = judge_dialling(self._policy, self._counts, number, self._context_name, now)
        if not allowed.allowed:
            return f"the number may not be called: {allowed.why}"
        self._calls += 1
        self._counts.act("out", number, self._context_name, now)
        code = "".join(secrets.choice("0123456789") for _ in range(rules.digits))
        wanted = KeysWanted(rules.digits, "#", first_timeout=PIN_SECONDS, secret=True, kept=False)
        told, ways = rules.told.replace("{code}", ", ".join(code)), self._outbound
        ask = SecondPhoneAsk(
            number, ways.endpoint_of(number), (ways.caller_name, ways.caller_id),
            rules.ring_ms / 1000, told, rules.prompt, wanted,
        )  # fmt: skip
        ok = False
        try:
            ok = hmac.compare_digest((await line.ask_at(ask)).keys.encode(), code.encode())
        finally:
            self._ledger.record(events.CallerVerified("callback", ok))
        if not ok:
            return "a wrong code, or none, was entered"
        self._verified.add("callback")
        return ""


_KINDS: Mapping[type, str] = {ToolAct: "tool", TransferAct: "transfer", KeysAct: "keys"}


def judge_dialling(
    policy: Policy, counts: Counts, number: str, context_name: str, now: datetime.datetime
) -> Decision:
    """Judge a call that the engine wants to make. The callee is the caller of its caps."""
    callee = policy.caller(number)
    names = {"caller": callee, "context": context_name, "total": ""}
    facts = Facts(
        now,
        callee,
        context_name,
        used=lambda direction, scope: counts.used(direction, scope, names[scope], now),
    )
    return policy.decide(DialAct(number), facts)
