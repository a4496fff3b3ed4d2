"""Decisions: what is shut by default, what opens it, and what says why."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cordboard.config.sections.firewall import Firewall
from cordboard.config.tools.entry import TransferDestination
from cordboard.firewall.counts import Counts, Used
from cordboard.firewall.policy import (
    NO_PRICE,
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
    channel = "PJSIP/+4722123456@acme"
    destinations["desk"] = TransferDestination(target="6002", mode="attended", endpoint=channel)
    destinations["through"] = TransferDestination(target="6003", trunk="PJSIP/acme")
    return Policy(Firewall.model_validate(rules), destinations)


def rule(act: Act, facts: Facts = NOBODY, **rules: Any) -> str:
    """The rule that refuses; `ok` if none does."""
    decision = policy(**rules).decide(act, facts)
    return "ok" if decision.allowed else decision.rule


def used(**amounts: float) -> Facts:
    return Facts(MONDAY, "+4791234567", "demo", used=lambda *_: Used(**amounts))  # type: ignore[arg-type]


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
        ("w*72", "keys.code"), ("1*72", "keys.code"), ("12##9", "keys.code"), ("1#w5", "keys.code"),
        ("*A", "keys.code"), ("1*", "ok"), ("12#*", "ok"),
        ("0047829w00000", "keys.number"), ("9*004782900000#", "keys.code"),
        ("004782900000#", "keys.number"), ("82900000", "keys.number"),
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
    assert rule(KeysAct("1*72"), send_digits={"codes": ["*72"]}) == "keys.code"
    assert rule(KeysAct("*72", ("1",)), send_digits={"codes": ["*72"]}) == "ok"
    assert rule(KeysAct("1", ("*72",)), send_digits={"codes": ["*72"]}) == "keys.code"


@pytest.mark.parametrize(
    ("sendings", "judged"),
    [
        (("*", "72"), "keys.code"), (("*", "w", "72"), "keys.code"),
        (("1", "*", "72"), "keys.code"),
        (("##", "004782", "900000"), "keys.code"), (("1234#", "5"), "keys.code"),
        (("47829", "00000"), "keys.number"), (("1", "829", "00000"), "keys.number"),
        (tuple("004782900000"), "keys.number"),
        (("1", "2", "1234#"), "ok"), (("1", "22123456"), "ok"), (("1", "*"), "ok"),
        (("w", "w"), "ok"),
    ],
)  # fmt: skip
def test_keys_are_judged_with_those_sent_before(sendings: tuple[str, ...], judged: str) -> None:
    *before, last = sendings
    assert rule(KeysAct(last, tuple(before)), country="NO") == judged


def test_keys_sent_before_are_not_counted_as_keys_of_one_sending() -> None:
    assert rule(KeysAct("12", ("12",)), send_digits={"longest": 2}) == "ok"


CAPS = {
    "calls_per_hour": {"calls_in_hour": 5},
    "calls_per_day": {"calls": 5},
    "minutes_per_day": {"minutes": 5},
    "cost_per_day": {"cost": 5},
    "calls_per_minute": {"calls_in_minute": 5},
    "live_calls": {"live": 5},
}


@pytest.mark.parametrize(("cap", "amounts"), [*CAPS.items()])
@pytest.mark.parametrize("scope", ["per_caller", "per_context", "per_trunk", "total"])
def test_every_cap_of_every_scope_shuts_when_it_is_used_up(
    cap: str, amounts: dict[str, float], scope: str
) -> None:
    name = f"cap.{scope.removeprefix('per_')}"
    caps = {scope: {cap: 5}}
    comes = IncomingAct(trunk="PJSIP/acme")
    assert rule(TransferAct("desk"), used(**amounts), outgoing=caps) == name
    assert rule(comes, used(**amounts), incoming=caps) == name
    under = {k: v - 0.001 if k not in ("calls", "live") else 4 for k, v in amounts.items()}
    assert rule(TransferAct("desk"), used(**under), outgoing=caps) == "ok"
    assert rule(comes, used(**under), incoming=caps) == "ok"


@pytest.mark.parametrize(("cap", "amounts"), [*CAPS.items()])
@pytest.mark.parametrize("number", ["", "anonymous", "+4791234567"])
def test_callers_without_a_number_are_not_busy_for_each_other(
    cap: str, amounts: dict[str, float], number: str
) -> None:
    """They share what a day and an hour allow; that several of them call at once is no flood."""
    facts = Facts(MONDAY, number, used=lambda *_: Used(**amounts))  # type: ignore[arg-type]
    at_once = cap in ("live_calls", "calls_per_minute") and not number.startswith("+")
    for scope in ("per_context", "per_caller"):
        judged = rule(IncomingAct(), facts, incoming={scope: {cap: 5}})
        free = at_once and scope == "per_caller"
        assert judged == ("ok" if free else f"cap.{scope.removeprefix('per_')}")


USED_BY = {"PJSIP/acme": 3, "PJSIP/other": 9}


def by_trunk(direction: str, scope: str, name: str) -> Used:
    return Used(live=USED_BY.get(name, 0) if scope == "trunk" else 0)


@pytest.mark.parametrize(
    ("trunk", "rules", "judged"),
    [
        ("PJSIP/acme", {"incoming": {"per_trunk": {"live_calls": 3}}}, "cap.trunk"),
        ("PJSIP/acme", {"incoming": {"per_trunk": {"live_calls": 4}}}, "ok"),
        ("PJSIP/other", {"incoming": {"per_trunk": {"live_calls": 4}}}, "cap.trunk"),
        ("PJSIP/new", {"incoming": {"per_trunk": {"live_calls": 4}}}, "ok"),
        ("", {"incoming": {"per_trunk": {"live_calls": 1}}}, "ok"),
        ("PJSIP/acme", {"trunks": {"PJSIP/acme": {"incoming": {"live_calls": 3}}}}, "cap.trunk"),
        ("PJSIP/other", {"trunks": {"PJSIP/acme": {"incoming": {"live_calls": 3}}}}, "ok"),
        ("PJSIP/acme", {"trunks": {"PJSIP/acme": {"outgoing": {"live_calls": 1}}}}, "ok"),
        (  # its own caps win, what it has none of is that of each trunk
            "PJSIP/other",
            {
                "incoming": {"per_trunk": {"live_calls": 4}},
                "trunks": {"PJSIP/other": {"incoming": {"live_calls": 20}}},
            },
            "ok",
        ),
        (
            "PJSIP/other",
            {
                "incoming": {"per_trunk": {"live_calls": 4}},
                "trunks": {"PJSIP/other": {"incoming": {"calls_per_minute": 20}}},
            },
            "cap.trunk",
        ),
        (  # a known caller is taken despite all caps, but the trunk's
            "PJSIP/acme",
            {"incoming": {"allow": ["+47*"], "per_trunk": {"live_calls": 3}}},
            "cap.trunk",
        ),
    ],
)
def test_a_trunk_has_caps_of_its_own(trunk: str, rules: dict[str, Any], judged: str) -> None:
    facts = Facts(MONDAY, "+4791234567", "demo", used=by_trunk)
    assert rule(IncomingAct(trunk=trunk), facts, **rules) == judged


@pytest.mark.parametrize(
    ("act", "judged"),
    [
        (DialAct("+4722123456", "PJSIP/acme"), "cap.trunk"),
        (DialAct("+4722123456", "PJSIP/new"), "ok"),
        (TransferAct("desk"), "cap.trunk"),
        (TransferAct("desk", "operator"), "cap.trunk"),
        (TransferAct("through"), "cap.trunk"),
        (TransferAct("sales"), "ok"),
    ],
)
def test_what_leaves_counts_on_the_trunk_of_its_dial_string(act: Act, judged: str) -> None:
    facts = Facts(MONDAY, "+4791234567", "demo", used=by_trunk)
    caps = {"PJSIP/acme": {"outgoing": {"live_calls": 3}}}
    assert rule(act, facts, country="NO", trunks=caps) == judged


TARIFFS = [
    {"trunks": ["PJSIP/acme"], "classes": ["mobile"], "per_minute": 2},
    {"trunks": ["PJSIP/acme"], "countries": ["NO"], "per_minute": 1},
    {"direction": "in", "classes": ["toll_free"], "per_minute": 9},
]


def test_a_destination_without_a_price_is_known_from_the_configuration() -> None:
    shut = {name for name in (*TARGETS, "desk", "through") if problem(name, tariffs=TARIFFS)}
    assert shut == {"oslo", "sweden", "hotline", "ship", "police"}
    assert problem("oslo", tariffs=TARIFFS) == NO_PRICE
    anywhere = [*TARIFFS, {"countries": ["NO"], "per_minute": 3}]
    assert not problem("oslo", tariffs=anywhere)


def problem(destination: str, **rules: Any) -> str:
    return policy(**rules).static_problem(destination)


@pytest.mark.parametrize(
    ("act", "judged"),
    [
        (DialAct("+4791234567", "PJSIP/acme"), "ok"),
        (DialAct("+4722123456", "PJSIP/acme"), "ok"),
        (DialAct("+46812345678", "PJSIP/acme"), "number.price"),
        (DialAct("+4722123456", "PJSIP/other"), "number.price"),
        (DialAct("+4722123456"), "number.price"),
        (DialAct("112", "PJSIP/acme"), "ok"),
        (TransferAct("sales"), "ok"),
        (TransferAct("desk"), "ok"),
        (TransferAct("oslo"), "number.price"),
    ],
)
def test_with_tariffs_a_number_without_a_price_is_shut(act: Act, judged: str) -> None:
    """Else a call through another trunk would cost nothing that counts."""
    rules = {"classes": ["fixed", "mobile", "emergency"], "countries": ["NO", "SE"]}
    assert rule(act, NOBODY, country="NO", tariffs=TARIFFS, **rules) == judged
    only_in = [tariff for tariff in TARIFFS if "direction" in tariff]
    assert rule(act, NOBODY, country="NO", tariffs=only_in, **rules) == "ok"


def test_the_day_begins_in_the_zone_of_the_policy() -> None:
    assert policy(zone="Asia/Tokyo").now().utcoffset() == datetime.timedelta(hours=9)
    assert policy().now().tzinfo is not None


def test_the_nearest_cap_of_minutes_and_cost_is_told() -> None:
    rules = policy(
        outgoing={"per_context": {"minutes_per_day": 10, "live_calls": 1}},
        trunks={"PJSIP/acme": {"outgoing": {"cost_per_day": 4}}},
        incoming={"allow": ["+4791234567"], "total": {"minutes_per_day": 1}},
    )

    def spent(direction: Any, trunk: str, **amounts: Any) -> tuple[float, str]:
        used = lambda *_: Used(**amounts)  # noqa: E731
        found = rules.spent(direction, "+4791234567", "demo", trunk, used)
        return found.share, found.rule

    assert spent("out", "PJSIP/acme", minutes=5, cost=3, live=9) == (0.75, "cap.trunk")
    assert spent("out", "", minutes=5, cost=3) == (0.5, "cap.context")
    assert spent("out", "PJSIP/acme", minutes=15, cost=4) == (1.5, "cap.context")
    assert spent("in", "PJSIP/acme", minutes=15) == (0, ""), "the caller is in `allow`"


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
    assert rule(TransferAct("oslo", "caller"), **rules) == "step_up"
    tainted = Facts(MONDAY, tainted="result:x", verified=frozenset({"pin"}))
    assert rule(TransferAct("oslo", "caller"), tainted, **rules) == "ok"
    assert rule(TransferAct("oslo"), tainted, **rules) == "step_up", "an agent needs a yes"
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
        {"trunks": {"acme": {}}},
        {"trunks": {"PJSIP/a b": {}}},
        {"trunks": {"PJSIP/acme": {"outgoing": {"live_calls": 0}}}},
        {"trunks": {"PJSIP/acme": {"outgoing": {"cost_per_day": -1}}}},
        {"tariffs": [{"per_minute": -1}]},
        {"tariffs": [{"step_ms": 0}]},
        {"tariffs": [{"countries": ["norway"]}]},
        {"incoming": {"capped": "drop"}},
        {"used_up": {"warn_at_percent": 101}},
        {"zone": "Europe/Olso"},
    ],
)
def test_a_mistake_is_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Firewall.model_validate(rules)


@pytest.fixture
def oslo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in Oslo."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Oslo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("oslo")
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-06-01"])
@pytest.mark.parametrize("zone", ["", "Europe/Oslo"])
def test_a_day_begins_at_midnight_also_when_the_clock_changes(day: str, zone: str) -> None:
    here = policy(**({"zone": zone} if zone else {})).now().tzinfo
    midnight = datetime.datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Oslo"))
    counts = Counts()
    for minutes in (-30, 0, 30):
        began = midnight.astimezone(datetime.UTC) + datetime.timedelta(minutes=minutes)
        counts.end(live := counts.begin("in", "", "demo", began.astimezone(here)), began)
        assert live.began == began.timestamp()
    for hours in range(1, 23):
        now = midnight.astimezone(datetime.UTC) + datetime.timedelta(hours=hours)
        there = now.astimezone(here)
        assert (there.timestamp(), f"{there:%Y-%m-%d}") == (now.timestamp(), day)
        assert there.replace(tzinfo=None) == now.astimezone(midnight.tzinfo).replace(tzinfo=None)
        assert counts.used("in", "total", "", there).calls == 2
