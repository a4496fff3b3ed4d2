"""Evaluates `when`, the condition of a workflow step, on the run's values. Pure; never raises.

A comparison with a missing value is always false, except `exists: false`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordboard.config.templates import read_json_template, read_path
from cordboard.config.tools.workflow_tool import Condition
from cordboard.tools.templates import MISSING, fill_json, look_up


def holds(condition: Condition, scope: Mapping[str, Any]) -> bool:
    """True if every part of the condition holds."""
    if condition.path is not None:
        value = look_up(scope, read_path(condition.path))
        said = condition.compared.items()
        if not all(_is_so(value, key, _wanted(wanted, scope)) for key, wanted in said):
            return False
    if condition.ok is not None and not _was_ok(condition.ok, scope):
        return False
    return (
        all(holds(inner, scope) for inner in condition.all)
        and (not condition.any or any(holds(inner, scope) for inner in condition.any))
        and not any(holds(inner, scope) for inner in condition.none)
    )


def _wanted(value: Any, scope: Mapping[str, Any]) -> Any:
    """Return the value to compare with; it may contain placeholders."""
    if isinstance(value, tuple):
        return [_wanted(item, scope) for item in value]
    return fill_json(read_json_template(value), scope)


def _was_ok(step: str, scope: Mapping[str, Any]) -> bool:
    return bool(scope["steps"].get(step, {}).get("ok"))


def _is_so(value: Any, key: str, wanted: Any) -> bool:
    if key == "exists":
        return bool(wanted) is (value is not MISSING and value is not None)
    if value is MISSING or wanted is MISSING:
        return False
    match key:
        case "equals":
            return _same(value, wanted)
        case "not_equals":
            return not _same(value, wanted)
        case "in":
            return any(_same(value, item) for item in wanted)
        case "greater":
            return _comparable(value, wanted) and bool(value > wanted)
    return _comparable(value, wanted) and bool(value < wanted)


def _same(value: Any, other: Any) -> bool:
    """Compare as in JSON: true is not 1, but 1 is 1.0."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _comparable(value: Any, other: Any) -> bool:
    if isinstance(value, bool) or isinstance(other, bool):
        return False
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return numbers or (isinstance(value, str) and isinstance(other, str))
