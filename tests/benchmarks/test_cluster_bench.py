"""The arithmetic of the benchmark `cluster`: its parts need Asterisk, and minutes."""

from __future__ import annotations

import importlib
import inspect
from collections import Counter

from bench import cluster, cluster_cost, cluster_kills, cluster_placement
from bench.report import Report


def met(report: Report) -> dict[str, bool]:
    return {target.name.partition(":")[2].strip(): target.met for target in report.targets}


def test_every_part_can_be_run_alone() -> None:
    for module in cluster.PARTS.values():
        measure = importlib.import_module(module).measure
        assert list(inspect.signature(measure).parameters) == ["progress", "options", "report"]


def test_a_call_that_two_adopted_and_one_that_ordered_twice_are_seen() -> None:
    found = cluster_kills.Kills(2, 4, [2.0, 2.5, 3.5, 2.1], Counter({1: 3, 2: 1}), 0)
    found.orders.update(["one", "two", "two"])
    report = Report("cluster")
    cluster_kills._fill(report, found)
    assert list(met(report).values()) == [True, False, False, False]


def test_kills_that_nobody_survives_are_a_result_too() -> None:
    report = Report("cluster")
    cluster_kills._fill(report, cluster_kills.Kills(1, 2, [], Counter({0: 2}), 0))
    assert list(met(report).values()) == [False, True, True]


def test_costs_are_compared_round_by_round() -> None:
    report = Report("cluster")
    costs = {("turns", "alone"): [0.002, 0.004, 0.003], ("turns", "in a cluster"): [0.00309] * 3}
    costs |= {("echo", "alone"): [0.001, 0.0011], ("echo", "in a cluster"): [0.006, 0.0061]}
    idle = {(agent, "alone"): [0.0] * 3 for agent in cluster_cost.AGENTS}
    idle |= {(agent, "in a cluster"): [0.005] * 3 for agent in cluster_cost.AGENTS}
    cluster_cost._fill(report, costs, {key: idle[key][: len(costs[key])] for key in costs})
    assert [round(target.value, 3) for target in report.targets] == [3, 0]
    assert all(target.met for target in report.targets)


def test_the_way_in_is_judged_by_what_it_adds() -> None:
    report = Report("cluster")
    ways = dict(zip(cluster_placement.WAYS, ([0.005] * 100, [0.015] * 99 + [0.5]), strict=True))
    cluster_placement._fill(report, ways)
    [target] = report.targets
    assert target.value < 20
