"""The Grafana board and the alert rules of `monitoring/`: their form, and what the rules do.

Their metrics are compared with those of a call in `tests/whole_calls/test_watched_calls.py`.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
RULES = ROOT / "monitoring" / "alerts.yaml"
RULE_TESTS = Path(__file__).with_name("alerts_test.yaml")
BOARD: dict[str, Any] = json.loads((ROOT / "monitoring" / "grafana-board.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
UNITS = {"none", "s", "percentunit"}
"""Grafana's words for a number, seconds, and a share of 1."""


def yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def alerts() -> list[dict[str, Any]]:
    rules = [rule for group in yaml(RULES)["groups"] for rule in group["rules"]]
    return [rule for rule in rules if "alert" in rule]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_has_its_unit_and_a_sentence(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert re.fullmatch(r"[A-Z].{20,}\.", panel["description"])
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for target in panel["targets"]:
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
            grouped = re.search(r"by \(([^)]*)\)", target["expr"])
            assert grouped is None or label in grouped[1].split(", "), "the legend has its label"


def test_panels_are_beside_one_another() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = [
        (x, y)
        for grid in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(taken) == len(set(taken)), "no two panels overlap"
    assert all(0 <= x < 24 for x, _ in taken), "Grafana has 24 columns"


def test_every_variable_of_the_board_is_declared_and_used() -> None:
    declared = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(itertools.chain(*re.findall(r"\$(\w+)|\$\{(\w+)\}", json.dumps(PANELS))))
    assert used - {""} == declared


def test_rules_and_panels_select_words_that_the_pages_promise() -> None:
    pages = (ROOT / "docs" / "observing.md").read_text() + (ROOT / "docs" / "load.md").read_text()
    expressions = [rule["expr"] for group in yaml(RULES)["groups"] for rule in group["rules"]]
    expressions += [target["expr"] for panel in PANELS for target in panel["targets"]]
    found = re.findall(r'(\w+)\s*(?:=~|!=|=)\s*"([^"$]+)"', " ".join(expressions))
    words = {word for _, values in found for word in values.split("|")}
    assert {"cordboard", "bare_budget", "ledger", "total"} <= words
    assert [word for word in sorted(words) if f"`{word}`" not in pages] == []


def test_the_pages_that_annotations_name_exist() -> None:
    told = RULES.read_text() + json.dumps(BOARD)
    pages = set(re.findall(r"docs/[\w-]+\.md", told))
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []


def test_prometheus_accepts_the_rules(promtool: str) -> None:
    command = [promtool, "check", "rules", "--lint-fatal", str(RULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_must_and_only_then(promtool: str) -> None:
    command = [promtool, "test", "rules", str(RULE_TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_firing() -> None:
    expected = [
        sample["labels"]
        for group in yaml(RULE_TESTS)["tests"]
        for case in group["promql_expr_test"]
        for sample in case["exp_samples"]
    ]
    fired = set(re.findall(r'alertname="(\w+)"', " ".join(expected)))
    assert fired == {rule["alert"] for rule in alerts()}
    assert {rule["labels"]["severity"] for rule in alerts()} == {"critical", "warning"}
