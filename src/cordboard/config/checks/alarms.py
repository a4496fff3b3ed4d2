"""Checks of `alarms`: names must exist, and measures of calls need the index of calls."""

from __future__ import annotations

from collections.abc import Iterator

from cordboard.config.alarms import ALARM, ALARM_FACTS, AlarmRule
from cordboard.config.checks.tools import ToolNames, check_step
from cordboard.config.explain import suggestion
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]
_STAGES = ("total", "vad", "endpoint", "stt", "brain", "tts", "wire")
_WITHOUT_KEYS = (
    "calls", "containment", "abandonment", "turns", "interruptions", "cost_per_contained",
    "answer_wait", "tool_time", "duration",
)  # fmt: skip


def check_alarms(names: ToolNames, document: Document) -> Problems:
    """Yield all problems in `alarms`."""
    alarms = names.config.alarms
    for name, rule in alarms.rules.items():
        yield from _rule(names, rule, ("alarms", "rules", name), document)
    if alarms.tool is not None:
        place: KeyPath = ("alarms", "tool")
        yield from check_step(names, alarms.tool, {ALARM: ALARM_FACTS}, place, document)


def _rule(names: ToolNames, rule: AlarmRule, place: KeyPath, document: Document) -> Problems:
    config = names.config
    if rule.context is not None and rule.context not in config.contexts:
        hint = suggestion(rule.context, config.contexts)
        yield document.problem((*place, "context"), f"there is no context {rule.context}{hint}")
    if rule.server is not None and rule.server not in config.mcp.servers:
        hint = suggestion(rule.server, config.mcp.servers)
        yield document.problem((*place, "server"), f"there is no MCP server {rule.server}{hint}")
    if rule.is_of_calls and not config.calls.index.enabled:
        words = f"{rule.measure} needs the index of calls; set `calls.index.enabled: true`"
        yield document.problem((*place, "measure"), words)
    if rule.of and rule.measure in _WITHOUT_KEYS:
        yield document.problem((*place, "of"), f"{rule.measure} is not separated by anything")
    if rule.of and rule.measure == "wait" and rule.of not in _STAGES:
        words = f"there is no stage {rule.of}; expected one of {', '.join(_STAGES)}"
        yield document.problem((*place, "of"), words)
