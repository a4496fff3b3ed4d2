"""A Python function as a `Tool`.

An `async def` function runs on the event loop, among the calls: it must not block (the loop's
watchdog names the line if it does). Any other function runs in threads of its own, where it may
block; a run that hangs is answered by the timeout, and after several hanging runs the function is
not called any more.

Return values: a string is the message, a `ToolResult` is used as it is, everything else is data
(dictionaries, models, dataclasses, lists, numbers, None). Exceptions: the message of `ToolError`
and `ToolTimeout` is spoken to the caller; the desk logs all others and apologises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from cordboard.config.tools.entry import PythonTool as PythonToolConfig
from cordboard.config.tools.entry import ToolEntry
from cordboard.errors import ConfigProblem, ToolError
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.python.loading import Function, Functions, Unusable
from cordboard.tools.python.signature import problems_of
from cordboard.tools.python.threads import TooManyStuck
from cordboard.tools.tool import (
    NOT_AVAILABLE,
    Effects,
    JsonObject,
    Tool,
    ToolResult,
    ToolRun,
    ToolSpec,
    wrong_arguments,
)

log = structlog.get_logger()


class PythonTool:
    """One function under one exposed name."""

    def __init__(self, name: str, config: PythonToolConfig, function: Function) -> None:
        self._function = function
        spec = ToolSpec(
            name=name,
            kind="python",
            description=function.description or name.replace("_", " "),
            parameters=function.signature.parameters,
            origin=f"python:{function.entry_point}",
            # Only the operator knows the effects of a function.
            effects=Effects.DESTRUCTIVE,
        )
        self.spec = apply_rules(spec, config)

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Call the function. Raises what the function raises, and `ToolError` if too many runs
        hang."""
        function = self._function
        try:
            values = function.signature.read(arguments)
        except ValidationError as error:
            return wrong_arguments(self.spec.name, problems_of(error))
        if function.is_async:
            if function.signature.run:
                values[function.signature.run] = run
            try:
                return as_result(await function.call(**values))
            except SystemExit as error:  # would end the engine
                raise RuntimeError(f"the function tried to exit: {error}") from error
        try:
            result = await function.threads.run(partial(_called, function.call, values))
        except TooManyStuck:
            log.error(
                "python_tool_stuck",
                call_id=run.line.call_id,
                tool=self.spec.origin,
                threads=function.threads.stuck,
            )
            raise ToolError(self.spec.speech.errors.unavailable or NOT_AVAILABLE) from None
        assert isinstance(result, ToolResult)  # noqa: S101 - returned by `_called`
        return result


def as_result(value: Any) -> ToolResult:
    """Convert a function's return value. Raises `ValueError` if it is not JSON."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(message=value)
    return ToolResult(data=to_jsonable_python(value))


def _called(call: Callable[..., Any], values: Mapping[str, Any]) -> ToolResult:
    """Call the function; runs in a thread."""
    return as_result(call(**values))


def python_tools(
    tools: Mapping[str, ToolEntry], functions: Functions
) -> tuple[tuple[Tool, ...], tuple[ConfigProblem, ...]]:
    """Make the tools of `kind: python`; return them and the problems of those not offered."""
    made: list[Tool] = []
    problems: list[ConfigProblem] = []
    for name, entry in tools.items():
        if not isinstance(entry, PythonToolConfig):
            continue
        function = functions.get(entry.function)
        if isinstance(function, Function):
            made.append(PythonTool(name, entry, function))
        elif isinstance(function, Unusable):
            words = f"the tool {name} is not offered: {function.reason}"
            key = f"tools.{name}.function"
            problems.append(ConfigProblem(words, key=key, fatal=False))
    return tuple(made), tuple(problems)
