"""Decisions: what is shut by default, what opens it, and what says why."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cordboard.config.sections.firewall import Firewall
from cordboard.config.tools.entry import TransferDestination
from cordboard.firewall.counts import Used
from cordboard.firewall.policy import (
    Act,
    Decision,
    DialAct,
    Facts,
    IncomingAct,
    KeysAct,
    Policy,
    ToolAct,
    TransferAct,
)

MONDAY = datetime.datetime(2026, 11, 23, 10, 0, tzinfo=datetime.UTC)
TARGETS = {
    "sales": "6001",
    "queue": "support",
    "oslo": "+4722123456",
    "sweden": "+46812345678",
    "hotline": "+4782900000",
    "ship": "+8816123456",
    "police": "112",
}
NOBODY = Facts(MONDAY)


def policy(**rules: Any) -> Policy:
    destinations = {name: TransferDestination(target=to) for name, to in TARGETS.items()}
    return Policy(Firewall.model_validate(rules), destinations)


def rule(act: Act, facts: Facts = NOBODY, **rules: Any) -> str:
    """The rule that refuses; `ok` if none does."""
    decision = policy(**rules).decide(act, facts)
    return "ok" if decision.allowed else decision.rule


def used(**amounts: float) -> Facts:
    return Facts(MONDAY, "+4791234567", "demo", used=lambda _, __: Used(**amounts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("destination", "judged"),
    [
        ("sales", "ok"), ("queue", "ok"), ("oslo", "ok"), ("sweden", "ok"),
        ("hotline", "number.class"), ("ship", "number.class"), ("police", "number.class"),
        ("unheard_of", "destination"),
    ],
)  # fmt: skip
def test_by_default_configured_destinations_work_and_dangerous_classes_are_shut(
    destination: str, judged: str
) -> None:
    assert rule(TransferAct(destination)) == judged
    assert rule(TransferAct(destination, "operator")) == judged
    assert (
        bool(policy().static_problem(destination)) == (judged == "number.class")
        if destination in TARGETS
        else True
    )


def test_classes_countries_and_lists_open_and_shut() -> None:
    assert rule(TransferAct("hotline"), classes=["premium"]) == "ok"
    assert rule(TransferAct("hotline"), allow=["+4782900000"]) == "ok"
    assert rule(TransferAct("hotline"), allow=["+4782*"], deny=["+478290*"]) == "number.deny"
    assert rule(TransferAct("police"), classes=["emergency"]) == "ok"
    assert rule(TransferAct("sweden"), countries=["NO"]) == "number.country"
    assert rule(TransferAct("ship"), classes=["satellite"]) == "ok"
    assert rule(TransferAct("ship"), classes=["satellite"], countries=["NO"]) == "number.country"
    assert rule(TransferAct("sales"), deny=["6001"]) == "number.deny"


@pytest.mark.parametrize(
    ("number", "rules", "judged"),
    [
        ("+4722123456", {}, "number.country"),
        ("+4722123456", {"country": "NO"}, "ok"),
        ("22123456", {"country": "NO"}, "ok"),
        ("22123456", {}, "number.class"),
        ("+46812345678", {"country": "NO"}, "number.country"),
        ("+46812345678", {"country": "NO", "countries": ["SE"]}, "ok"),
        ("+4722123456", {"country": "NO", "countries": ["SE"]}, "number.country"),
        ("+4782900000", {"country": "NO"}, "number.class"),
        ("1881", {"country": "NO"}, "number.class"),
        ("112", {"country": "NO"}, "number.class"),
        ("+80012345678", {"country": "NO"}, "ok"),
        ("+4722123456;112", {"country": "NO"}, "number.unreadable"),
        ("*724722123456", {"country": "NO"}, "number.unreadable"),
        ("6001", {"country": "NO", "allow": ["6001"]}, "ok"),
    ],
)
def test_a_number_that_is_dialled_must_be_readable_open_and_of_an_allowed_country(
    number: str, rules: Mapping[str, Any], judged: str
) -> None:
    assert rule(DialAct(number), **rules) == judged


@pytest.mark.parametrize(
    ("keys", "judged"),
    [
        ("1", "ok"), ("1234#", "ok"), ("*", "ok"), ("#", "ok"), ("##", "ok"), ("1w2w3", "ok"),
        ("*72", "keys.code"), ("#31#4722123456", "keys.code"), ("*w72", "keys.code"),
        ("**9", "keys.code"), ("*21*82900000#", "keys.code"),
        ("w*72", "keys.code"), ("0047829w00000", "keys.number"), ("9*004782900000#", "keys.number"),
        ("82900000", "keys.number"),
        ("982900000", "keys.number"), ("0004782900000", "keys.number"),
        ("22123456", "ok"), ("", "keys.unreadable"),
        ("1,2", "keys.unreadable"), ("\u0661", "keys.unreadable"), ("12345678901", "keys.longest"),
    ],
)  # fmt: skip
def test_keys_are_no_codes_and_dial_no_shut_number(keys: str, judged: str) -> None:
    limit = {"longest": 10} if judged == "keys.longest" else {}
    assert rule(KeysAct(keys), country="NO", send_digits=limit) == judged


def test_a_code_can_be_opened_exactly() -> None:
    assert rule(KeysAct("*72"), send_digits={"codes": ["*72"]}) == "ok"
    assert rule(KeysAct("*721"), send_digits={"codes": ["*72"]}) == "keys.code"


CAPS = ("calls_per_hour", "calls_per_day", "minutes_per_day", "cost_per_day")


@pytest.mark.parametrize(
    ("cap", "amounts"),
    [*zip(CAPS, ({"calls_in_hour": 5}, {"calls": 5}, {"minutes": 5}, {"cost": 5}), strict=True)],
)
@pytest.mark.parametrize("scope", ["per_caller", "per_context", "total"])
def test_every_cap_of_every_scope_shuts_when_it_is_used_up(
    cap: str, amounts: dict[str, float], scope: str
) -> None:
    name = f"cap.{scope.removeprefix('per_')}"
    caps = {scope: {cap: 5}}
    assert rule(TransferAct("sales"), used(**amounts), outgoing=caps) == name
    assert rule(IncomingAct(), used(**amounts), incoming=caps) == name
    under = {key: value - 0.001 if key != "calls" else 4 for key, value in amounts.items()}
    assert rule(TransferAct("sales"), used(**under), outgoing=caps) == "ok"
    assert rule(IncomingAct(), used(**under), incoming=caps) == "ok"


@pytest.mark.parametrize(
    ("at", "judged"),
    [("23T07:59", "hours"), ("23T08:00", "ok"), ("23T16:00", "ok"), ("23T16:01", "hours"),
     ("28T10:00", "hours")],
)  # fmt: skip
def test_hours(at: str, judged: str) -> None:
    now = datetime.datetime.fromisoformat(f"2026-11-{at}:30+00:00")
    hours = [{"days": ["mon", "tue"], "from": "08:00", "to": "16:00"}]
    assert rule(TransferAct("sales"), Facts(now), outgoing={"hours": hours}) == judged
    guarded = {"refund": {"hours": hours}}
    assert rule(ToolAct("refund", {}), Facts(now), tools=guarded) == judged


@pytest.mark.parametrize(
    ("caller", "attestation", "rules", "judged"),
    [
        ("+4722999999", "", {}, "ok"),
        ("", "", {}, "ok"),
        ("", "", {"anonymous": False}, "caller.anonymous"),
        ("anonymous", "", {"anonymous": False}, "caller.anonymous"),
        ("+4722999999", "", {"block": ["+4722999999"]}, "caller.block"),
        ("4722999999", "", {"block": ["+472299*"]}, "caller.block"),
        ("+4722999998", "", {"block": ["+4722999999"]}, "ok"),
        ("+4722999999", "", {"block": ["+47*"], "allow": ["+4722999999"]}, "ok"),
        ("+4722999999", "", {"only_allowed": True}, "caller.not_allowed"),
        ("+4722999999", "", {"only_allowed": True, "allow": ["+47*"]}, "ok"),
        ("+4722999999", "B", {"attestation": "A"}, "caller.attestation"),
        ("+4722999999", "AB", {"attestation": "C"}, "caller.attestation"),
        ("+4722999999", "", {"attestation": "C"}, "caller.attestation"),
        ("+4722999999", "A", {"attestation": "B"}, "ok"),
    ],
)
def test_callers(caller: str, attestation: str, rules: Mapping[str, Any], judged: str) -> None:
    assert rule(IncomingAct(attestation), Facts(MONDAY, caller), incoming=rules) == judged


def needs(facts: Facts, **guarded: Any) -> tuple[str, ...]:
    rules = {"tools": {"refund": guarded}, "pin": {"from": "variables.PIN"}}
    decision = policy(**rules).decide(ToolAct("refund", {}), facts)
    assert decision.allowed, decision
    return decision.needs


def test_a_privileged_tool_needs_its_proof_and_in_a_tainted_call_a_yes() -> None:
    tainted = Facts(MONDAY, tainted="result:find_customer")
    proven = Facts(MONDAY, verified=frozenset({"pin"}))
    assert needs(NOBODY) == ()
    assert needs(NOBODY, step_up="pin") == ("pin",)
    assert needs(tainted, step_up="pin") == ("pin", "confirm")
    assert needs(proven, step_up="pin") == ()
    assert needs(proven, step_up="operator") == ("operator",)
    assert needs(Facts(MONDAY, verified=frozenset({"operator"})), step_up="pin") == ()
    assert needs(tainted, tainted="allow") == ()
    assert needs(Facts(MONDAY, tainted="result:x", confirmed=True)) == ()
    refuses = {"refund": {"tainted": "refuse"}}
    assert rule(ToolAct("refund", {}), tainted, tools=refuses) == "taint"
    assert rule(ToolAct("other", {}), tainted, tools=refuses) == "ok"


def test_a_destination_has_its_rules_at_the_tool_and_at_the_line() -> None:
    rules: dict[str, Any] = {
        "destinations": {"oslo": {"step_up": "pin"}},
        "pin": {"from": "variables.PIN"},
    }
    act = ToolAct("transfer", {"destination": "oslo"})
    assert policy(**rules).decide(act, NOBODY).needs == ("pin",)
    assert policy(**rules).decide(ToolAct("transfer", {"destination": "sales"}), NOBODY).needs == ()
    assert rule(TransferAct("oslo"), **rules) == "step_up"
    assert rule(TransferAct("oslo", "operator"), **rules) == "ok"
    assert rule(TransferAct("oslo", "engine"), **rules) == "ok"
    assert rule(TransferAct("oslo"), Facts(MONDAY, verified=frozenset({"pin"})), **rules) == "ok"


@pytest.mark.parametrize(
    ("endpoint", "judged"),
    [
        ("PJSIP/6001", "ok"),
        ("PJSIP/+4722123456@trunk", "ok"),
        ("PJSIP/+4782900000@trunk", "number.class"),
        ("PJSIP/trunk/sip:+4782900000@pbx.example.com", "number.class"),
        ("DAHDI/g1/82900000", "number.class"),
        ("PJSIP/112@trunk", "number.class"),
    ],
)
def test_the_channel_of_a_consultation_is_judged_too(endpoint: str, judged: str) -> None:
    desk = TransferDestination(target="6001", mode="attended", endpoint=endpoint)
    rules = Policy(Firewall.model_validate({"country": "NO"}), {"desk": desk})
    decision = rules.decide(TransferAct("desk"), NOBODY)
    assert (decision.rule or "ok") == judged
    assert (rules.static_problem("desk") == "") is (judged == "ok")


PLACES: Mapping[str, object] = {
    "caller_number": "+4791234567",
    "tools.find.phone": "22 12 34 56",
    "tools.find.phones": ["+4741234567", "+4782900000"],
    "pre_call.customer.id": 1234,
    "variables.EMPTY": "",
}


@pytest.mark.parametrize(
    ("value", "places", "judged"),
    [
        ("+4791234567", ["caller_number"], "ok"),
        ("0047 91 23 45 67", ["caller_number"], "ok"),
        ("+4791234568", ["caller_number"], "origin"),
        ("+4722123456", ["caller_number", "tools.find.phone"], "ok"),
        ("+4741234567", ["tools.find.phones"], "ok"),
        ("+4782900000", ["tools.find.phones"], "number.class"),
        ("+4722123456,1", ["tools.find.phone"], "origin"),
        ("", ["variables.EMPTY"], "origin"),
        ("", ["variables.MISSING"], "origin"),
        (None, ["variables.MISSING"], "origin"),
        (["+4791234567"], ["caller_number"], "origin"),
        ("+4722123456", [], "ok"),
    ],
)
def test_an_argument_must_be_the_value_of_a_place_that_the_policy_names(
    value: object, places: list[str], judged: str
) -> None:
    tools = {"call_back": {"arguments": {"to": {"from": places, "number": True}}}}
    facts = Facts(MONDAY, at=PLACES.get)
    assert rule(ToolAct("call_back", {"to": value}), facts, country="NO", tools=tools) == judged
    assert rule(ToolAct("call_back", {}), facts, country="NO", tools=tools) == "ok"


def test_values_that_are_no_texts_are_compared_too() -> None:
    tools = {"refund": {"arguments": {"account": {"from": ["pre_call.customer.id"]}}}}
    facts = Facts(MONDAY, at=PLACES.get)
    assert rule(ToolAct("refund", {"account": 1234}), facts, tools=tools) == "ok"
    assert rule(ToolAct("refund", {"account": "1234"}), facts, tools=tools) == "ok"
    assert rule(ToolAct("refund", {"account": 12345}), facts, tools=tools) == "origin"
    assert rule(ToolAct("refund", {"account": True}), facts, tools=tools) == "origin"


@given(st.text(max_size=40), st.sampled_from([None, "NO", "US"]))
def test_no_text_becomes_a_dialled_number_that_is_not_open(text: str, home: str | None) -> None:
    rules = policy(**({"country": home} if home else {}))
    decision: Decision = rules.decide(DialAct(text), NOBODY)
    if decision.allowed:
        assert re.fullmatch(r"\+?[0-9 ().-]+", text, re.ASCII)
        number = rules.caller(text)
        assert number.startswith(("+47", "+1", "+800"))
    else:
        assert not re.search(r"\d{3}", decision.say), "the model learns no number"
        assert not re.search(r"\d{3}", decision.why), "the ledger learns no number"
        assert decision.rule not in decision.say


@pytest.mark.parametrize(
    "rules",
    [
        {"pin": {"from": "tools.find.pin"}},
        {"pin": {"from": "caller_number"}},
        {"country": "Norway"},
        {"deny": ["+47-22"]},
        {"deny": ["*"]},
        {"classes": ["premum"]},
        {"tools": {"refund": {"arguments": {"to": {"from": ["words"]}}}}},
        {"outgoing": {"hours": [{"from": "17:00", "to": "08:00"}]}},
        {"send_digits": {"codes": ["&"]}},
        {"outgoing": {"per_caller": {"calls_per_hour": 0}}},
    ],
)
def test_a_mistake_is_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Firewall.model_validate(rules)
