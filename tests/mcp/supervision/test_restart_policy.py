from __future__ import annotations

import pytest

from cordboard.config.mcp import McpRestart
from cordboard.mcp.supervision.life import RestartPolicy


def policy(chance: float = 0.0, **settings: object) -> RestartPolicy:
    return RestartPolicy(McpRestart.model_validate(settings), lambda: chance)


def test_the_pause_doubles_up_to_the_longest() -> None:
    restarts = policy(max_restarts=9, backoff_ms=1_000, max_backoff_ms=10_000)
    assert [restarts.pause(now, 0) for now in range(6)] == [1, 2, 4, 8, 10, 10]


def test_chance_only_shortens_a_pause_and_by_a_fifth_at_most() -> None:
    assert policy(chance=1.0, backoff_ms=1_000).pause(0, 0) == pytest.approx(0.8)
    longest = policy(chance=0.5, backoff_ms=60_000, max_backoff_ms=30_000)
    assert longest.pause(0, 0) == pytest.approx(27)


def test_it_is_given_up_after_so_many_restarts() -> None:
    restarts = policy(max_restarts=2)
    assert [restarts.pause(now, 0) is None for now in range(4)] == [False, False, True, True]


def test_no_restart_at_all() -> None:
    assert policy(max_restarts=0).pause(0, 0) is None
    assert policy(enabled=False).pause(0, 1e9) is None


def test_what_is_older_than_the_window_is_forgiven() -> None:
    restarts = policy(max_restarts=2, window_ms=10_000, backoff_ms=1_000)
    assert restarts.pause(0, 0) == 1
    assert restarts.pause(5, 0) == 2
    assert restarts.pause(10.5, 0) == 2, "the first is forgiven: one failure counts, not two"
    assert restarts.pause(11, 0) is None


def test_a_healthy_spell_forgives_everything() -> None:
    restarts = policy(max_restarts=2, healthy_ms=60_000, backoff_ms=1_000)
    assert [restarts.pause(0, 0), restarts.pause(1, 0)] == [1, 2]
    assert restarts.pause(2, 60) == 1
    assert restarts.pause(3, 59.9) == 2


def test_many_failures_are_no_overflow() -> None:
    restarts = policy(max_restarts=100_000, window_ms=10**9, max_backoff_ms=30_000)
    assert [restarts.pause(now, 0) for now in range(5_000)][-1] == 30
