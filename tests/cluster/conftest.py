from __future__ import annotations

import pytest
from tests.cluster.nats_server import engines_have_time

from cordboard.cluster import nats_bus
from cordboard_testkit.patience import PATIENCE

REAL_LIMITS = ("test_real_leases", "test_events", "test_nats_bus")
"""Modules that test what an engine does when an answer is late."""


@pytest.fixture(autouse=True)
def patient_engines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late, and is not a bus that is away."""
    monkeypatch.setattr(nats_bus._next, "__defaults__", (PATIENCE,))
    if request.node.path.stem not in REAL_LIMITS:
        engines_have_time(monkeypatch)
