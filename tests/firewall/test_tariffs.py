"""Prices of trunks: which tariff fits, and what a call costs by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.sections.firewall import Firewall, Tariff
from cordboard.firewall.numbers import Number, read_number
from cordboard.firewall.tariffs import Meter, tariff_for

TARIFFS = Firewall.model_validate(
    {
        "tariffs": [
            {"direction": "in", "trunks": ["PJSIP/free"], "classes": ["mobile"], "per_minute": 5},
            {"trunks": ["PJSIP/acme"], "countries": ["SE"], "per_minute": 4},
            {"trunks": ["PJSIP/acme"], "classes": ["mobile"], "per_minute": 3},
            {"trunks": ["PJSIP/acme"], "per_minute": 1},
            {"classes": ["fixed"], "per_minute": 2},
        ]
    }
).tariffs


@pytest.mark.parametrize(
    ("direction", "trunk", "number", "price"),
    [
        ("out", "PJSIP/acme", "+46701234567", 4),
        ("out", "PJSIP/acme", "+4791234567", 3),
        ("out", "PJSIP/acme", "+4722123456", 1),
        ("out", "PJSIP/other", "+4722123456", 2),
        ("out", "", "+4722123456", 2),
        ("out", "PJSIP/other", "+4791234567", None),
        ("in", "PJSIP/free", "+4791234567", 5),
        ("in", "PJSIP/free", "+4722123456", None),
        ("in", "PJSIP/acme", "+4791234567", None),
        ("in", "PJSIP/free", "", None),
    ],
)
def test_the_first_tariff_that_fits_counts(
    direction: Any, trunk: str, number: str, price: float | None
) -> None:
    found = tariff_for(TARIFFS, direction, trunk, read_number(number, None))
    assert (found.per_minute if found is not None else None) == price


def test_an_extension_costs_nothing() -> None:
    assert tariff_for(TARIFFS, "out", "PJSIP/acme", Number("6001", "extension")) is None


@pytest.mark.parametrize(
    ("tariff", "seconds", "cost"),
    [
        ({"per_minute": 6, "step_ms": 60_000}, 0, 6),
        ({"per_minute": 6, "step_ms": 60_000}, 59.9, 6),
        ({"per_minute": 6, "step_ms": 60_000}, 60, 6),
        ({"per_minute": 6, "step_ms": 60_000}, 60.1, 12),
        ({"per_minute": 6}, 30, 3),
        ({"per_minute": 6}, 30.5, 3.1),
        ({"connection": 0.5, "per_minute": 6}, 10, 1.5),
        ({"connection": 0.5}, 600, 0.5),
    ],
)
def test_each_begun_step_is_paid_and_the_connection_once(
    tariff: dict[str, float], seconds: float, cost: float
) -> None:
    meter = Meter(Tariff.model_validate(tariff), answered_at=1_000_000_000.0)
    assert meter.cost(1_000_000_000 + seconds) == pytest.approx(cost)


def test_before_the_answer_and_without_a_tariff_nothing_is_paid() -> None:
    assert Meter(Tariff(connection=1, per_minute=1)).cost(1e9) == 0
    assert Meter(None, answered_at=0).cost(1e9) == 0


@given(
    st.lists(st.floats(0.1, 3_600), min_size=1, max_size=20),
    st.sampled_from([1_000, 6_000, 30_000, 60_000]),
    st.floats(0, 1),
)
def test_many_short_calls_never_cost_less_than_a_long_one(
    parts: list[float], step_ms: int, connection: float
) -> None:
    tariff = Tariff(per_minute=1, step_ms=step_ms, connection=connection)
    alone = Meter(tariff, 0.0).cost(sum(parts))
    assert sum(Meter(tariff, 0.0).cost(part) for part in parts) >= alone - 1e-6


@given(st.lists(st.floats(0, 10_000), max_size=20))
def test_a_cost_never_falls(times: list[float]) -> None:
    meter = Meter(Tariff(per_minute=0.3, step_ms=6_000), 5.0)
    costs = [meter.cost(at) for at in sorted(times)]
    assert costs == sorted(costs)
