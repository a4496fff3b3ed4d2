"""The board and the alert rules of `monitoring/` use series that calls leave."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from ruamel.yaml import YAML

from cordboard.errors import CallRefused
from cordboard.observe.metrics import Metrics

from .configuration import REPOSITORY
from .conftest import http_get

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to every series."""
VARIABLES = {"$instance": ".*", "$window": "15m", "$quantile": "0.95"}
"""The board's, as it shows them at first."""


class Expression(NamedTuple):
    """A PromQL expression, and where it stands."""

    place: str
    text: str


def of_the_board() -> Iterator[Expression]:
    board = json.loads((REPOSITORY / "monitoring" / "grafana-board.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            yield Expression(f"{panel['title']} {target['refId']}", text)


def of_the_rules() -> Iterator[Expression]:
    rules = YAML(typ="safe").load(REPOSITORY / "monitoring" / "alerts.yaml")
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        yield Expression(rule.get("alert") or rule["record"], rule["expr"])


def recorded(name: str) -> str:
    """The series behind one that the rules record: `x_total` of `x:increase15m`."""
    return re.sub(r":increase\d+m$", "_total", name)


def unknown(expression: Expression, labels: dict[str, set[str]]) -> Iterator[str]:
    """The names and labels of an expression that no series of `labels` has."""
    names = {recorded(name) for name in re.findall(r"\b(?:ai_agent_[\w:]+|up)\b", expression.text)}
    yield from names - labels.keys()
    known = set().union(*(labels.get(name, ()) for name in names))
    for group in re.findall(r"by \(([^)]*)\)", expression.text):
        yield from set(group.split(", ")) - known
    for name, matchers in re.findall(r"([\w:]+)\{([^}]*)\}", expression.text):
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        yield from used - labels.get(recorded(name), set())


def rarities(metrics: Metrics) -> None:
    """Report what no ordinary call has. The rest of the series comes from the call."""
    metrics.costs.cost("demo", "cloud", "EUR", 0.25)
    metrics.conversations.agent_trouble("reconnected")
    metrics.conversations.barge_in_reaction(0.2)
    metrics.conversations.silence("filler", 1.1)
    metrics.internal_error("call")
    metrics.media.rtp_events("lost", 2)
    metrics.post_call.step("failed")
    metrics.tools.called("mcp_gone_find", "timeout", 3.0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline):
    """An engine that takes one call at a time."""

    def one_at_a_time(tree):
        tree["calls"]["max_calls"] = 1

    async with open_hotline(one_at_a_time) as hotline:
        yield hotline


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def samples(shared_hotline):
    """The page of metrics after a call with a tool, beside which another caller was refused."""
    hotline = shared_hotline
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    with pytest.raises(CallRefused):
        await (await hotline.dial("careful")).line.answered()
    await caller.ask("What are the opening times?")
    caller.line.hangup()
    assert [tool.name for tool in (await caller.history()).tools] == ["opening_times"]
    await hotline.idle()
    rarities(hotline.engine.view.series)
    _, page = await http_get(hotline.engine.http_port, "/metrics")
    families = text_string_to_metric_families(page.decode())
    return [sample for family in families for sample in family.samples]


async def test_every_name_and_label_is_that_of_a_series(samples):
    labels = {sample.name: OF_PROMETHEUS | sample.labels.keys() for sample in samples}
    labels["up"] = OF_PROMETHEUS
    expressions = [*of_the_board(), *of_the_rules()]
    problems = {e.place: [*unknown(e, labels)] for e in expressions}
    assert {place: names for place, names in problems.items() if names} == {}


def series(sample: Sample) -> dict[str, str]:
    """A sample for promtool: a gauge stays, a counter has grown to it within an hour."""
    told = {"job": "cordboard", "instance": "one", **sample.labels}
    labels = ", ".join(f"{name}={json.dumps(value)}" for name, value in told.items())
    grows = re.search(r"_(total|bucket|count|sum)$", sample.name)
    values = f"0+{sample.value / 60!r}x60" if grows else f"{sample.value!r}x60"
    return {"series": f"{sample.name}{{{labels}}}", "values": values}


async def test_every_panel_shows_something(samples, promtool, tmp_path):
    """PromQL that Prometheus evaluates to a number, not only text that looks like it."""
    case = {
        "interval": "1m",
        "input_series": [series(sample) for sample in samples],
        "promql_expr_test": [
            {
                "expr": f"max(({text}) >= bool 0)",
                "eval_time": "60m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
            for _, text in of_the_board()
        ],
    }
    path = tmp_path / "board_test.yaml"
    path.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [case]}))
    command = [promtool, "test", "rules", str(path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('sum by (instance, tool) (ai_agent_tool_calls_total{status="ok"})', []),
        ('sum by (toll) (ai_agent_tool_calls_total{status="ok"})', ["toll"]),
        ('ai_agent_tool_calls:increase15m{state=~"ok|error"} > 0', ["state"]),
        ("rate(ai_agent_tool_cals_total[5m])", ["ai_agent_tool_cals_total"]),
    ],
)
async def test_a_name_or_label_that_is_not_there_is_found(text, found):
    labels = {"ai_agent_tool_calls_total": {"instance", "tool", "status"}}
    assert [*unknown(Expression("", text), labels)] == found
