"""A file with a mistake in its firewall changes nothing, whatever else it changes."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.config.load import read
from cordboard.config.schema import Config
from cordboard.errors import ConfigError
from cordboard.firewall.counts import Used
from cordboard.firewall.policy import Act, DialAct, Facts, IncomingAct, Policy, TransferAct
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.observe.degradation import Degradation
from cordboard.runtime.reload import Reloader

MONDAY = datetime.datetime(2026, 11, 23, 10, 0, tzinfo=datetime.UTC)
ACME = "PJSIP/acme"
DESTINATIONS = {
    "oslo": {"target": "+4722123456", "trunk": ACME},
    "boss": {"target": "6001"},
    "desk": {"target": "6002", "mode": "attended", "endpoint": "PJSIP/+4722123456@acme"},
}
ACTS: tuple[Act, ...] = (
    *(TransferAct(name, by) for name in DESTINATIONS for by in ("agent", "caller", "operator")),
    *(DialAct(number, trunk) for number in ("+4722123456", "+4791234567", "+46812345678")
      for trunk in ("PJSIP/trunk", ACME, "")),
    *(IncomingAct(trunk=trunk) for trunk in (ACME, "PJSIP/trunk", "")),
)  # fmt: skip
CAPS = st.fixed_dictionaries(
    {},
    optional={
        "live_calls": st.integers(1, 4),
        "calls_per_minute": st.integers(1, 4),
        "minutes_per_day": st.integers(1, 4),
        "cost_per_day": st.integers(1, 4),
    },
)
RULES = st.fixed_dictionaries(
    {"country": st.just("NO"), "countries": st.sampled_from([["NO"], ["NO", "SE"]])},
    optional={
        "zone": st.sampled_from(["Europe/Oslo", "America/New_York"]),
        "trunks": st.dictionaries(
            st.just(ACME),
            st.fixed_dictionaries({}, optional={"incoming": CAPS, "outgoing": CAPS}),
        ),
        "incoming": st.fixed_dictionaries(
            {}, optional={"per_trunk": CAPS, "per_caller": CAPS, "allow": st.just(["+4791*"])}
        ),
        "outgoing": st.fixed_dictionaries({}, optional={"per_trunk": CAPS, "total": CAPS}),
        "tariffs": st.lists(
            st.fixed_dictionaries(
                {"per_minute": st.integers(0, 3)},
                optional={
                    "trunks": st.sampled_from([[ACME], ["PJSIP/trunk"]]),
                    "classes": st.sampled_from([["mobile"], ["fixed"]]),
                    "countries": st.sampled_from([["NO"], ["SE"]]),
                },
            ),
            max_size=2,
        ),
        "destinations": st.just({"boss": {"step_up": "operator"}}),
    },
)
MISTAKES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"trunks": {"acme": {"outgoing": {"live_calls": 9}}}},
        {"trunks": {ACME: {"outgoing": {"live_cals": 9}}}},
        {"trunks": {ACME: {"outgoing": {"live_calls": -1}}}},
        {"trunks": {"PJSIP/acne": {"outgoing": {"live_calls": 9}}}},
        {"tariffs": [{"trunks": ["PJSIP/acne"], "per_minute": 1}]},
        {"tariffs": [{"per_minute": "free"}]},
        {"tariffs": [{"countries": ["XX"]}]},
        {"tariffs": {"per_minute": 1}},
        {"used_up": {"end_after_ms": -1}},
        {"used_up": {"warn_at": 50}},
        {"zone": "Oslo"},
        {"incoming": {"capped": "hang_up"}},
        {"incoming": {"per_trunk": {"live_calls": 0}}},
        {"outgoing": {"per_trunk": []}},
    ]
)
USED = st.builds(
    Used,
    calls_in_minute=st.integers(0, 5),
    live=st.integers(0, 5),
    minutes=st.integers(0, 5),
    cost=st.integers(0, 5),
)


def text(rules: dict[str, Any]) -> str:
    tree = {
        "contexts": {"demo": {"tools": ["transfer"]}},
        "tools": {"transfer": {"destinations": DESTINATIONS}},
        "outbound": {"enabled": True},
        "prices": {"currency": "NOK"},
        "firewall": rules,
    }
    return json.dumps(tree)


def config(rules: dict[str, Any]) -> Config:
    return read(text(rules), Path("ai-agent.yaml"), {}).config


def allowed(policy: Policy, used: Used) -> set[Act]:
    facts = Facts(MONDAY, "+4722999999", "demo", used=lambda *_: used)
    return {act for act in ACTS if policy.decide(act, facts).allowed}


async def no_models(_: Config) -> None:
    return None


@settings(max_examples=60)
@given(before=RULES, after=RULES, mistake=st.one_of(st.none(), MISTAKES), used=USED)
def test_nothing_is_allowed_that_neither_policy_allows(
    before: dict[str, Any], after: dict[str, Any], mistake: dict[str, Any] | None, used: Used
) -> None:
    async def reload() -> tuple[set[Act], set[Act], set[Act]]:
        reloader = Reloader(config(before), ServerPool(), no_models, Degradation(), Path())
        await reloader.begin()
        earlier = reloader.generation
        old, new = allowed(earlier.policy, used), set[Act]()
        if mistake is not None:
            with pytest.raises(ConfigError) as caught:
                config({**after, **mistake})
            mistakes = [each for each in caught.value.problems if each.fatal]
            assert mistakes
            for problem in mistakes:
                assert problem.key.startswith("firewall.")
                assert problem.line is not None
            assert reloader.generation is earlier
        else:
            changed = config(after)
            await reloader.succeed(changed)
            new = allowed(Policy(changed.firewall, changed.destinations), used)
        now = allowed(reloader.generation.policy, used)
        assert allowed(earlier.policy, used) == old, "calls keep the policy that they began with"
        await reloader.close()
        return old, new, now

    old, new, now = asyncio.run(reload())
    assert now == (old if mistake is not None else new)
