"""The policy: from an act and the facts of its call to a decision.

    decision = policy.decide(TransferAct("sales", by="agent"), facts)
    decision.allowed, decision.rule, decision.why, decision.say, decision.needs

Deterministic and pure: the same act and the same facts give the same decision. It has no clock and
knows no call. Rules are judged in the order of docs/firewall.md, and the first one that refuses
counts. `why` is for the ledger and contains no number; `say` is for the model: it reveals neither
the rule nor a limit.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from cordboard.config.sections.firewall import (
    Caps,
    Firewall,
    GuardedAct,
    GuardedArgument,
    OpenHours,
    Tariff,
)
from cordboard.config.tools.entry import TransferDestination
from cordboard.firewall.counts import NOTHING_USED, Direction, Scope, Used
from cordboard.firewall.numbers import (
    SHORT,
    Number,
    caller_of,
    matches,
    read_endpoint,
    read_number,
    read_target,
)
from cordboard.firewall.tariffs import tariff_for

Proof: TypeAlias = Literal["pin", "callback", "operator"]
"""A proof of who the caller is."""
Need: TypeAlias = Literal[Proof, "confirm"]
By: TypeAlias = Literal["agent", "caller", "operator", "engine"]
"""Origin of an act: the agent or a tool; the caller, by a key of the context's menu; a person on
the admin page; the engine itself."""

REFUSED = "This cannot be done in this call; tell the caller so and do not try it again."
"""The one sentence for the model about every refusal."""
NOT_VERIFIED = "It was not done, because the caller could not be verified; tell the caller so."
NO_PRICE = "no tariff has a price for it on this trunk"
TRANSFER = "transfer"
"""The tool whose argument `destination` names a destination."""
_CODE = re.compile(r"[*#][0-9A-D]")
"""Keys that a telephone system may take for a code, wherever they stand. A `*` or `#` alone, or at
the end of digits, is a key of a menu."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class ToolAct:
    """A tool call. Its arguments are valid against the tool's schema."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TransferAct:
    """A transfer to a configured destination."""

    destination: str
    by: By = "agent"


@dataclass(frozen=True, slots=True)
class KeysAct:
    """Keys for the far side."""

    keys: str
    before: tuple[str, ...] = ()
    """Sendings that the far side may take for the beginning of `keys`, the oldest first. They were
    allowed."""


@dataclass(frozen=True, slots=True)
class DialAct:
    """A call that the engine makes. `Facts.caller` is then the callee."""

    number: str
    trunk: str = ""
    """The trunk by which it leaves (`config.trunks`)."""


@dataclass(frozen=True, slots=True)
class IncomingAct:
    """An offered call."""

    attestation: str = ""
    """STIR/SHAKEN: A, B or C; anything else counts as none."""
    trunk: str = ""
    """The trunk by which it came; empty if unknown."""


Act: TypeAlias = ToolAct | TransferAct | KeysAct | DialAct | IncomingAct


def _nothing(place: str) -> None:
    """No place holds a value."""


UsedOf: TypeAlias = Callable[[Direction, Scope, str], Used]
"""Returns the usage of a scope so far; the name is a caller, a context or a trunk."""


def _unused(direction: Direction, scope: Scope, name: str) -> Used:
    return NOTHING_USED


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of a call at the moment of an act."""

    now: datetime.datetime
    """Local time."""
    caller: str = ""
    """The caller's number as the line gives it; empty if withheld."""
    context: str = ""
    tainted: str = ""
    """Source of the first text of third parties that the agent may have read, such as
    `result:find_customer`; empty: none."""
    verified: frozenset[str] = frozenset()
    """Proofs that the caller has given: `pin`, `operator`."""
    confirmed: bool = False
    """True if the caller has said yes to exactly this act, asked by the engine."""
    at: Callable[[str], object] = _nothing
    """Returns the value at a place; None if there is none."""
    used: UsedOf = _unused


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of the policy."""

    allowed: bool
    rule: str = ""
    """Name of the rule that refuses."""
    why: str = ""
    """Reason in words, for the ledger; without a number."""
    say: str = ""
    """Sentence for the model."""
    needs: tuple[Need, ...] = ()
    """Conditions that must be met first; empty unless allowed."""


class Scoped(NamedTuple):
    """The caps of one scope."""

    scope: Scope
    name: str
    caps: Caps


@dataclass(frozen=True, slots=True)
class Spent:
    """How far the nearest cap of a day's minutes or cost is used up."""

    share: float = 0.0
    """1 and more: used up."""
    rule: str = ""
    why: str = ""


ALLOWED = Decision(True)


def refused(rule: str, why: str, say: str = REFUSED) -> Decision:
    """Return a refusal."""
    return Decision(False, rule, why, say)


class _LocalZone(datetime.tzinfo):
    """The zone of the machine, for any day: `astimezone()` gives the offset of one moment, with
    which midnight is wrong on a day on which the clock changes."""

    def utcoffset(self, at: datetime.datetime | None, /) -> datetime.timedelta | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, at: datetime.datetime | None, /) -> None:
        """It is not known."""

    def tzname(self, at: datetime.datetime | None, /) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, at: datetime.datetime, /) -> datetime.datetime:
        local = at.replace(tzinfo=datetime.UTC).astimezone()
        here = local.replace(tzinfo=self)
        # Of an hour that comes twice, the second one has a fold.
        return here if here.utcoffset() == local.utcoffset() else here.replace(fold=1)


class Policy:
    """The policy of one configuration."""

    def __init__(
        self, rules: Firewall, destinations: Mapping[str, TransferDestination] | None = None
    ) -> None:
        self.rules = rules
        self._destinations = destinations or {}
        self._keys_codes = frozenset(rules.send_digits.codes)
        self._zone = ZoneInfo(rules.zone) if rules.zone else _LocalZone()
        self._trunk_caps: dict[tuple[Direction, str], Caps] = {}
        for name, trunk in rules.trunks.items():
            self._trunk_caps["in", name] = _merged(rules.incoming.per_trunk, trunk.incoming)
            self._trunk_caps["out", name] = _merged(rules.outgoing.per_trunk, trunk.outgoing)
        self._prices_leaving = any(tariff.direction == "out" for tariff in rules.tariffs)

    def now(self) -> datetime.datetime:
        """Return the present time in the policy's zone; without one, in that of the machine."""
        return datetime.datetime.now(self._zone)

    def decide(self, act: Act, facts: Facts) -> Decision:
        """Judge an act."""
        match act:
            case ToolAct():
                return self._tool(act, facts)
            case TransferAct():
                return self._transfer(act, facts)
            case KeysAct():
                return self._keys(act)
            case DialAct():
                return self._dial(act, facts)
            case IncomingAct():
                return self._incoming(act, facts)

    def guards(self, tool: str) -> bool:
        """Return True if `decide` may refuse a call of the tool."""
        return tool in self.rules.tools or (tool == TRANSFER and bool(self.rules.destinations))

    def caller(self, number: str) -> str:
        """Return the caller's number as it is counted (`caller_of`); empty if it cannot be read."""
        return caller_of(number, self.rules.country)

    def dialled(self, number: str) -> tuple[str, str]:
        """Return a number in E.164, and why it is never dialled; empty if it may be. Hours and caps
        are left to `decide`."""
        read = read_number(number, self.rules.country)
        decision = self._number(read, configured=False)
        return (read.text if read is not None else "", "" if decision.allowed else decision.why)

    def caps(self, direction: Direction, caller: str, context: str, trunk: str) -> Iterator[Scoped]:
        """Yield the scopes in which a call counts, with their caps. `caller` in the form that
        counts."""
        rules = self.rules.incoming if direction == "in" else self.rules.outgoing
        yield Scoped("caller", caller, rules.per_caller)
        yield Scoped("context", context, rules.per_context)
        if trunk:
            yield Scoped("trunk", trunk, self._trunk_caps.get((direction, trunk), rules.per_trunk))
        yield Scoped("total", "", rules.total)

    def spent(
        self, direction: Direction, caller: str, context: str, trunk: str, used: UsedOf
    ) -> Spent:
        """Return how far a live call's nearest cap of a day's minutes or cost is used up. The caps
        of callers in `incoming.allow` are those of their trunk."""
        nearest = Spent()
        for scope, name, caps in self._binding(direction, caller, context, trunk):
            for cap, amount in _SPENT:
                most = getattr(caps, cap)
                if most is None:
                    continue
                share = used(direction, scope, name).filled(amount, most)
                if share > nearest.share:
                    nearest = Spent(share, f"cap.{scope}", f"{cap} of this {scope}")
        return nearest

    def tariff(self, direction: Direction, trunk: str, number: Number | None) -> Tariff | None:
        """Return the tariff of a call with this number on the other side; None if it has none."""
        return tariff_for(self.rules.tariffs, direction, trunk, number)

    def has_price(self, trunk: str, number: Number | None) -> bool:
        """Return False for a number that may not be called by this trunk, because the tariffs have
        prices for others only."""
        if not self._prices_leaving or number is None:
            return True
        if number.kind in ("extension", "emergency"):
            return True
        return self.tariff("out", trunk, number) is not None

    def tariff_of(self, destination: str) -> Tariff | None:
        """Return the tariff of a transfer."""
        configured = self._destinations[destination]
        return self.tariff("out", configured.leaves_by, self._dialled(configured))

    def trunk_of(self, destination: str) -> str:
        """Return the trunk by which a transfer leaves; empty if none is known."""
        return self._destinations[destination].leaves_by

    def static_problem(self, name: str) -> str:
        """Return why a configured destination is never reached; empty if it can be."""
        decision = self._destination(name)
        if not decision.allowed:
            return decision.why
        configured = self._destinations[name]
        priced = self.has_price(configured.leaves_by, self._dialled(configured))
        return "" if priced else NO_PRICE

    # Tools.

    def _tool(self, act: ToolAct, facts: Facts) -> Decision:
        needs: tuple[Need, ...] = ()
        rules = self.rules.tools.get(act.tool)
        if rules is not None:
            decision = self._guarded(rules, facts)
            if not decision.allowed:
                return decision
            needs = decision.needs
            for name, argument in rules.arguments.items():
                if name in act.arguments:
                    decision = self._argument(name, argument, act.arguments[name], facts)
                    if not decision.allowed:
                        return decision
        if act.tool == TRANSFER:
            destination = self.rules.destinations.get(str(act.arguments.get("destination")))
            if destination is not None:
                decision = self._guarded(destination, facts)
                if not decision.allowed:
                    return decision
                needs = (*needs, *(need for need in decision.needs if need not in needs))
        return Decision(True, needs=needs) if needs else ALLOWED

    def _guarded(self, rules: GuardedAct, facts: Facts) -> Decision:
        if rules.hours and not is_open(rules.hours, facts.now):
            return refused("hours", "outside its hours")
        needs: list[Need] = []
        if rules.step_up != "none" and not facts.verified & {rules.step_up, "operator"}:
            needs.append(rules.step_up)
        if facts.tainted and not facts.confirmed:
            if rules.tainted == "refuse":
                return refused("taint", f"the call is tainted by {facts.tainted}")
            if rules.tainted == "confirm":
                needs.append("confirm")
        return Decision(True, needs=tuple(needs)) if needs else ALLOWED

    def _argument(self, name: str, rules: GuardedArgument, value: object, facts: Facts) -> Decision:
        home = self.rules.country
        if rules.from_:
            known = (facts.at(place) for place in rules.from_)
            if not any(_same(value, each, home) for each in known):
                places = ", ".join(rules.from_)
                return refused("origin", f"{name} is not the value of any of {places}")
        if rules.number:
            decision = self._number(read_number(value, home), configured=False)
            if not decision.allowed:
                return Decision(False, decision.rule, f"{name}: {decision.why}", decision.say)
        return ALLOWED

    # Numbers.

    def _transfer(self, act: TransferAct, facts: Facts) -> Decision:
        if act.destination not in self._destinations:
            return refused("destination", "no such destination is configured")
        if act.by in ("agent", "caller"):
            decision = self.opens(act, facts)
            if not decision.allowed:
                return decision
            if decision.needs:
                return refused("step_up", f"needs {' and '.join(decision.needs)}", NOT_VERIFIED)
        decision = self._destination(act.destination)
        if not decision.allowed:
            return decision
        configured = self._destinations[act.destination]
        return self._leaves(configured.leaves_by, self._dialled(configured), facts)

    def opens(self, act: TransferAct, facts: Facts) -> Decision:
        """Judge a transfer by the rules of its destination alone: hours, and what it needs. A key
        that the caller pressed needs no further yes, whatever the agent has read."""
        rules = self.rules.destinations.get(act.destination)
        if rules is None:
            return ALLOWED
        if act.by == "caller":
            facts = replace(facts, confirmed=True)
        return self._guarded(rules, facts)

    def _dial(self, act: DialAct, facts: Facts) -> Decision:
        number = read_number(act.number, self.rules.country)
        decision = self._number(number, configured=False)
        return decision if not decision.allowed else self._leaves(act.trunk, number, facts)

    def _dialled(self, configured: TransferDestination) -> Number:
        """Return the number that a transfer reaches: of its channel, else of its target."""
        home = self.rules.country
        dialled = read_endpoint(configured.endpoint, home)
        return dialled if dialled.is_full else read_target(configured.target, home)

    def _destination(self, name: str) -> Decision:
        """Judge every number that a configured destination dials: its target, and the channel that
        rings for a consultation."""
        configured, home = self._destinations[name], self.rules.country
        decision = self._number(read_target(configured.target, home), configured=True)
        if not decision.allowed:
            return decision
        return self._number(read_endpoint(configured.endpoint, home), configured=True)

    def _number(self, number: Number | None, *, configured: bool) -> Decision:
        """Judge a number. A configured one may be of any country unless `countries` says more."""
        if number is None:
            return refused("number.unreadable", "the number cannot be read")
        rules = self.rules
        if matches(number.text, rules.deny):
            return refused("number.deny", "the number is in `deny`")
        if number.kind == "extension" or matches(number.text, rules.allow):
            return ALLOWED
        if number.kind not in rules.classes:
            return refused("number.class", f"numbers of class {number.kind} are shut")
        allowed = rules.countries
        if allowed is None and not configured:
            allowed = (rules.country,) if rules.country is not None else ()
        if allowed is not None and number.is_full and not self._in(number, allowed):
            return refused("number.country", f"{number.country or 'no country'} is not allowed")
        return ALLOWED

    def _in(self, number: Number, countries: tuple[str, ...]) -> bool:
        if number.country:
            return number.country in countries
        return number.kind == "toll_free"  # +800 belongs to no country and costs nothing

    def _leaves(self, trunk: str, number: Number | None, facts: Facts) -> Decision:
        """Judge an outgoing act by price, hours and caps."""
        outgoing = self.rules.outgoing
        if not self.has_price(trunk, number):
            return refused("number.price", NO_PRICE)
        if outgoing.hours and not is_open(outgoing.hours, facts.now):
            return refused("hours", "outside the hours of `outgoing`")
        return self._within("out", trunk, facts)

    def _within(self, direction: Direction, trunk: str, facts: Facts) -> Decision:
        """Judge by caps."""
        caller = self.caller(facts.caller)
        for scope, name, caps in self._binding(direction, caller, facts.context, trunk):
            several = scope == "caller" and not name  # callers without a number are many
            used: Used | None = None
            for cap, amount in _CAPS[_AT_ONCE:] if several else _CAPS:
                most = getattr(caps, cap)
                if most is None:
                    continue
                used = used or facts.used(direction, scope, name)
                if used.filled(amount, most) >= 1:
                    return refused(f"cap.{scope}", f"{cap} of this {scope} is used up")
        return ALLOWED

    def _binding(
        self, direction: Direction, caller: str, context: str, trunk: str
    ) -> Iterator[Scoped]:
        """Yield the caps that bind a call: for callers in `incoming.allow` those of the trunk."""
        only_trunk = direction == "in" and self._is_listed(caller)
        for each in self.caps(direction, caller, context, trunk):
            if each.scope == "trunk" or not only_trunk:
                yield each

    def _is_listed(self, caller: str) -> bool:
        number = read_number(caller, self.rules.country)
        return number is not None and _listed(number, self.rules.incoming.allow)

    # Keys.

    def _keys(self, act: KeysAct) -> Decision:
        keys, rules = act.keys, self.rules
        if keys in self._keys_codes:
            return ALLOWED
        if not keys or any(key not in "0123456789*#ABCDw" for key in keys):
            return refused("keys.unreadable", "not only keys of a telephone")
        if len(keys) > rules.send_digits.longest:
            return refused("keys.longest", "more keys than `send_digits.longest`")
        joined = ["".join((*act.before[at:], keys)) for at in range(len(act.before) + 1)]
        joined = [each.replace("w", "") for each in joined]
        if _CODE.search(joined[0]):
            return refused(
                "keys.code", "a code of a telephone system that `send_digits.codes` lacks"
            )
        # A number may begin with any sending: the keys before it were for a menu.
        for run in dict.fromkeys(run for each in joined for run in _runs(each)):
            number = read_number(run, rules.country)
            if number is not None and number.is_full and number.kind != "unknown":
                decision = self._number(number, configured=True)
                if not decision.allowed:
                    return refused("keys.number", f"they dial: {decision.why}")
        return ALLOWED

    # Callers.

    def _incoming(self, act: IncomingAct, facts: Facts) -> Decision:
        rules = self.rules.incoming
        number = read_number(facts.caller, self.rules.country)
        if number is not None and _listed(number, rules.allow):
            return self._within("in", act.trunk, facts)
        if rules.only_allowed:
            return refused("caller.not_allowed", "the caller is not in `incoming.allow`")
        if number is None and not rules.anonymous:
            return refused("caller.anonymous", "the caller has no readable number")
        if number is not None and _listed(number, rules.block):
            return refused("caller.block", "the caller is in `incoming.block`")
        least = rules.attestation
        if least is not None and act.attestation not in _AT_LEAST[least]:
            return refused("caller.attestation", f"the attestation is less than {least}")
        return self._within("in", act.trunk, facts)


def is_open(hours: tuple[OpenHours, ...], now: datetime.datetime) -> bool:
    """Return True if the local time is within one of the stretches."""
    day, time = _DAYS[now.weekday()], f"{now:%H:%M}"
    return any(day in each.days and each.from_ <= time <= each.to for each in hours)


_SPENT: tuple[tuple[str, str], ...] = (("minutes_per_day", "minutes"), ("cost_per_day", "cost"))
"""Caps that a live call uses up, with the amounts of `Used`."""
_CAPS: tuple[tuple[str, str], ...] = (
    ("live_calls", "live"),
    ("calls_per_minute", "calls_in_minute"),
    ("calls_per_hour", "calls_in_hour"),
    ("calls_per_day", "calls"),
    *_SPENT,
)
_AT_ONCE = 2
"""Of these, the first are about calls at the same time."""


def _merged(each: Caps, own: Caps) -> Caps:
    """Return a trunk's own caps, and those of each trunk where it has none."""
    return each.model_copy(update=own.model_dump(exclude_none=True))


_AT_LEAST: Mapping[str, tuple[str, ...]] = {"A": ("A",), "B": ("A", "B"), "C": ("A", "B", "C")}


def _listed(caller: Number, patterns: tuple[str, ...]) -> bool:
    """Return True if a pattern matches the caller's number; lines give it with or without `+`."""
    text = caller.text
    return matches(text, patterns) or (not caller.is_full and matches(f"+{text}", patterns))


def _same(value: object, known: object, home: str | None) -> bool:
    """Return True if an argument is the value of a place: the same text, or the same number."""
    if isinstance(known, (list, tuple)):
        return any(_same(value, each, home) for each in known)
    if isinstance(value, bool) or isinstance(known, bool):
        return value is known
    if not isinstance(value, (str, int, float)) or not isinstance(known, (str, int, float)):
        return False
    if str(value) == str(known):
        return str(known) != ""
    one, other = read_number(value, home), read_number(known, home)
    return one is not None and other is not None and one.is_full and one.text == other.text


def _runs(keys: str) -> list[str]:
    """Return the runs of digits that are long enough to be a number of a numbering plan, also
    without a 0 or 9 in front, which get an outside line of many telephone systems."""
    for key in "*#ABCD":
        keys = keys.replace(key, " ")
    runs = keys.split()
    runs += [run[1:] for run in runs if run[0] in "09"]
    return [run for run in runs if len(run) > SHORT]
