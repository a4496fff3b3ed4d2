"""Checks of `firewall`: tools, destinations, results and countries that it names must exist, since
a rule for a mistyped name would guard nothing."""

from __future__ import annotations

from collections.abc import Iterator

from cordboard.config.call_phases import saved_names
from cordboard.config.checks.tools import ToolNames, provided
from cordboard.config.explain import suggestion
from cordboard.config.sections.firewall import Caps, GuardedAct
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]
_HERE = "firewall"


def check_firewall(names: ToolNames, document: Document) -> Problems:
    """Yield all problems in `firewall`."""
    config = names.config
    rules = config.firewall
    for number, tool in enumerate(rules.trusted_tools):
        yield from provided(names, tool, (_HERE, "trusted_tools", number), document)
    for name in rules.destinations:
        if name not in config.destinations:
            words = f"there is no tools.transfer destination {name}"
            words += suggestion(name, config.destinations)
            yield document.problem((_HERE, "destinations", name), words)
    for tool, guarded in rules.tools.items():
        yield from provided(names, tool, (_HERE, "tools", tool), document)
        for argument, each in guarded.arguments.items():
            place: KeyPath = (_HERE, "tools", tool, "arguments", argument, "from")
            for number, value in enumerate(each.from_):
                yield from _place(names, value, (*place, number), document)
    for proof in (rules.pin, rules.callback):
        if proof is not None:
            kept = "pin" if proof is rules.pin else "callback"
            yield from _place(names, proof.from_, (_HERE, kept, "from"), document)
    yield from _proofs(names, document)
    yield from _trunks(names, document)
    yield from _unpriced(names, document)
    yield from _countries(names, document)
    if config.outbound.enabled and not (rules.country or rules.countries or rules.allow):
        words = "no number could be called: set `firewall.country`, `countries` or `allow`"
        yield document.problem(("outbound", "enabled"), words)


def _proofs(names: ToolNames, document: Document) -> Problems:
    """Yield the acts whose proof the file does not say how to get."""
    rules, outbound = names.config.firewall, names.config.outbound
    acts: list[tuple[str, str, GuardedAct]] = [
        *(("tools", name, act) for name, act in rules.tools.items()),
        *(("destinations", name, act) for name, act in rules.destinations.items()),
    ]
    for kind, name, act in acts:
        words = ""
        if act.step_up == "pin" and rules.pin is None:
            words = "pin needs `firewall.pin`, which names the place of the right one"
        elif act.step_up == "callback" and rules.callback is None:
            words = "callback needs `firewall.callback`, which names the place of the number"
        elif act.step_up == "callback" and not outbound.enabled:
            words = "callback needs `outbound.enabled`: the engine may place no calls"
        if words:
            yield document.problem((_HERE, kind, name, "step_up"), words)


def _place(names: ToolNames, value: str, place: KeyPath, document: Document) -> Problems:
    head, *rest = value.split(".")
    if head == "tools":
        yield from provided(names, rest[0], place, document)
    elif head == "pre_call":
        steps = (context.pre_call for context in names.config.contexts.values())
        saved = {name for each in steps for name in saved_names(each)}
        if rest[0] not in saved:
            words = f"no context saves a pre_call result as {rest[0]}"
            yield document.problem(place, words + suggestion(rest[0], saved))


def _trunks(names: ToolNames, document: Document) -> Problems:
    """Yield trunks by which nothing leaves, although they have rules for that, and prices without
    a currency."""
    config = names.config
    rules = config.firewall
    if rules.tariffs and not config.prices.currency:
        yield document.problem((_HERE, "tariffs"), "prices want a currency: set `prices.currency`")
    trunks = {config.outbound.trunk}
    trunks |= {destination.leaves_by for destination in config.destinations.values()}
    named: list[tuple[KeyPath, str]] = [
        ((_HERE, "trunks", name, "outgoing"), name)
        for name, trunk in rules.trunks.items()
        if trunk.outgoing != Caps()
    ]
    named += [
        ((_HERE, "tariffs", number, "trunks", place), name)
        for number, tariff in enumerate(rules.tariffs)
        if tariff.direction == "out"
        for place, name in enumerate(tariff.trunks)
    ]
    for key, name in named:
        if name not in trunks:
            words = f"nothing leaves by {name}: `outbound.endpoint` and no destination names it"
            yield document.problem(key, words + suggestion(name, filter(None, trunks)))


def _unpriced(names: ToolNames, document: Document) -> Problems:
    """Yield the destinations with an international number that leave by a trunk without prices:
    the firewall refuses transfers to them, also those of `on_failure`."""
    config = names.config
    tariffs = [tariff for tariff in config.firewall.tariffs if tariff.direction == "out"]
    if not tariffs or any(not tariff.trunks for tariff in tariffs):
        return
    priced = {name for tariff in tariffs for name in tariff.trunks}
    for name, destination in config.destinations.items():
        trunk = destination.leaves_by
        if trunk in priced or not destination.target.startswith("+"):
            continue
        words = f"`firewall.tariffs` has no price on {trunk}"
        if not trunk:
            words = "`firewall.tariffs` has prices by trunk; say by which `trunk` it leaves"
        place = ("tools", "transfer", "destinations", name)
        yield document.problem(place, f"{words}: it will be refused (number.price)", fatal=False)


def _countries(names: ToolNames, document: Document) -> Problems:
    rules = names.config.firewall
    places: list[tuple[KeyPath, str]] = [
        ((_HERE, "countries", number), code) for number, code in enumerate(rules.countries or ())
    ]
    places += [
        ((_HERE, "tariffs", number, "countries", place), code)
        for number, tariff in enumerate(rules.tariffs)
        for place, code in enumerate(tariff.countries)
    ]
    if rules.country is not None:
        places.append(((_HERE, "country"), rules.country))
    if places:
        from phonenumbers import SUPPORTED_REGIONS  # 50 ms, only where countries are named

        for place, code in places:
            if code not in SUPPORTED_REGIONS:
                yield document.problem(place, f"there is no country {code}")
