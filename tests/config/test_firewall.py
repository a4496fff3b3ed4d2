"""What a person is told about a wrong firewall: the key, its line, and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import LoadedConfig, read
from cordboard.errors import ConfigError
from cordboard.runtime.doors import channel_variables

FILE = """\
contexts:
  demo: {{pre_call: [{{tool: find_customer, save_as: customer}}]}}
tools:
  transfer: {{destinations: {{sales: {{target: "6001"}}}}}}
  find_customer: {{kind: http, url: "https://x.example/a"}}
  refund: {{kind: http, url: "https://x.example/b"}}
firewall:
{rules}
"""


def load(rules: str) -> LoadedConfig:
    lines = "\n".join(f"  {line}" for line in rules.strip().splitlines())
    return read(FILE.format(rules=lines), Path("a.yaml"), {})


def test_all_keys() -> None:
    config = load("""
country: "NO"
classes: [fixed, mobile, premium]
countries: ["NO", SE]
allow: ["+4781000000"]
deny: ["+4782*"]
outgoing: {hours: [{days: [mon], from: "08:00", to: "16:00"}], per_caller: {calls_per_day: 5}}
send_digits: {longest: 20, codes: ["*72"]}
incoming: {block: ["+4722*"], attestation: B, total: {cost_per_day: 10}, wordless_after_ms: 60000}
trusted_tools: [find_customer]
tools:
  refund: {step_up: pin, arguments: {account: {from: [tools.find_customer.a, pre_call.customer.b]}}}
destinations:
  sales: {step_up: operator, tainted: refuse}
pin: {from: variables.CUSTOMER_PIN, digits: 6, tries: 2}
""").config
    assert config.firewall.has_caps
    assert channel_variables(config) == {"CUSTOMER_PIN", "CORDBOARD_ATTESTATION"}
    assert not load("country: SE").config.firewall.has_caps


def test_trunks_and_prices() -> None:
    rules = """
zone: Europe/Oslo
trunks: {PJSIP/trunk: {incoming: {live_calls: 20}, outgoing: {cost_per_day: 5}}}
tariffs:
  - {trunks: [PJSIP/trunk], classes: [mobile], countries: [SE], per_minute: 0.1, step_ms: 60000}
  - {direction: in, trunks: [PJSIP/freephone], connection: 0.01}
incoming: {capped: announcement, per_trunk: {calls_per_minute: 60}}
used_up: {warning: Soon., warn_at_percent: 80, end_after_ms: 0}
"""
    lines = "\n".join(f"  {line}" for line in rules.strip().splitlines())
    text = f"prices: {{currency: EUR}}\n{FILE.format(rules=lines)}"
    firewall = read(text, Path("a.yaml"), {}).config.firewall
    assert firewall.has_caps
    assert [tariff.step_ms for tariff in firewall.tariffs] == [60_000, 1_000]
    assert not load("used_up: {end_after_ms: 0}").config.firewall.has_caps
    with pytest.raises(ConfigError) as caught:
        read(text.replace("[PJSIP/trunk]", "[PJSIP/trunc]"), Path("a.yaml"), {})
    (problem,) = caught.value.problems
    assert problem.key == "firewall.tariffs[0].trunks[0]"
    assert "did you mean PJSIP/trunk" in problem.message


@pytest.mark.parametrize(
    ("rules", "line", "key", "expected"),
    [
        ("country: norway", 8, "firewall.country", "a country code (two capital letters"),
        ('country: "XX"', 8, "firewall.country", "there is no country XX"),
        ("countries:\n  - SE\n  - QQ", 10, "firewall.countries[1]", "there is no country QQ"),
        ("deny: ['+47 22']", 8, "firewall.deny[0]", "the beginning of numbers"),
        ("classes: [premum]", 8, "firewall.classes[0]", "premium"),
        ("trusted_tools: [find_custome]", 8, "firewall.trusted_tools[0]", "did you mean"),
        ("tools: {refnd: {}}", 8, "firewall.tools.refnd", "nothing provides the tool refnd"),
        ("destinations:\n  sale: {}", 9, "firewall.destinations.sale", "destination sale"),
        (
            "tools: {refund: {step_up: pin}}",
            8,
            "firewall.tools.refund.step_up",
            "pin needs `firewall.pin`",
        ),
        (
            "tools: {refund: {step_up: callback}}",
            8,
            "firewall.tools.refund.step_up",
            "callback needs `firewall.callback`",
        ),
        (
            "callback: {from: variables.NUMBER}\ntools: {refund: {step_up: callback}}",
            9,
            "firewall.tools.refund.step_up",
            "callback needs `outbound.enabled`",
        ),
        ("callback: {from: caller_number}", 8, "firewall.callback.from", "variables.NAME"),
        (
            "callback: {from: variables.NUMBER, told: Wait.}",
            8,
            "firewall.callback.told",
            "{code} once",
        ),
        ("tools: {refund: {step_up: password}}", 8, "firewall.tools.refund.step_up", "pin"),
        (
            "tools: {refund: {arguments: {to: {from: [words]}}}}",
            8,
            "firewall.tools.refund.arguments.to.from[0]",
            "caller_number, called_number",
        ),
        (
            "tools: {refund: {arguments: {to: {from: [pre_call.custmer.a]}}}}",
            8,
            "firewall.tools.refund.arguments.to.from[0]",
            "no context saves a pre_call result as custmer",
        ),
        ("pin: {from: tools.find_customer.pin}", 8, "firewall.pin.from", "variables.NAME"),
        ("trunks: {acme: {}}", 8, "firewall.trunks.acme", "a trunk as technology and endpoint"),
        (
            "trunks:\n  PJSIP/acme: {outgoing: {live_calls: 2}}",
            9,
            "firewall.trunks.PJSIP/acme.outgoing",
            "nothing leaves by PJSIP/acme",
        ),
        (
            "trunks: {PJSIP/acme: {incoming: {live_cals: 2}}}",
            8,
            "firewall.trunks.PJSIP/acme.incoming.live_cals",
            "live_calls",
        ),
        ("tariffs: [{per_minute: 1}]", 8, "firewall.tariffs", "set `prices.currency`"),
        ("zone: Europe/Olso", 8, "firewall.zone", "expected Europe/Oslo, say"),
        ("incoming: {capped: drop}", 8, "firewall.incoming.capped", "announcement"),
        ("incoming: {attestation: D}", 8, "firewall.incoming.attestation", "A"),
        ("outgoing: {per_callr: {}}", 8, "firewall.outgoing.per_callr", "per_caller"),
        (
            "outgoing:\n  hours:\n    - {from: '17:00', to: '08:00'}",
            10,
            "firewall.outgoing.hours[0].to",
            "after `from`",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(
    rules: str, line: int, key: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(rules)
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (line, key), problem
    assert expected in problem.message


TRANSFERS = """\
contexts:
  demo: {{on_failure: oslo}}
prices: {{currency: NOK}}
tools:
  transfer:
    destinations:
      oslo: {{target: "+4722123456"{trunk}}}
      desk: {{target: "6001"}}
outbound: {{endpoint: "PJSIP/{{number}}@acme"}}
firewall:
  country: "NO"
  tariffs: [{{{trunks}per_minute: 1}}]
"""


@pytest.mark.parametrize(
    ("trunk", "trunks", "told"),
    [
        ("", "trunks: [PJSIP/acme], ", True),
        (", trunk: PJSIP/other", "trunks: [PJSIP/acme], ", True),
        (", trunk: PJSIP/acme", "trunks: [PJSIP/acme], ", False),
        ("", "", False),
        ("", "direction: in, ", False),
    ],
)
def test_a_destination_whose_trunk_has_no_prices_is_told(
    trunk: str, trunks: str, told: bool
) -> None:
    """A caller whose agent fails would not reach it."""
    loaded = read(TRANSFERS.format(trunk=trunk, trunks=trunks), Path("a.yaml"), {})
    found = [each for each in loaded.problems if "tariffs" in each.message]
    assert [(each.line, each.key) for each in found] == (
        [(7, "tools.transfer.destinations.oslo")] if told else []
    )
