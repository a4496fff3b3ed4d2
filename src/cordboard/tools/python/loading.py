"""Loads the functions that the configuration names.

`load_functions` imports modules: it runs the operator's own code, for as long as that takes, and
belongs in a thread. A module is imported once per engine process, as usual in Python: a reload of
the configuration finds new functions, but changed code needs a restart.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import structlog

from cordboard.config.tools.entry import PythonTool, ToolEntry
from cordboard.errors import SchemaRefused
from cordboard.tools.python.signature import Signature, description_of, read_signature
from cordboard.tools.python.threads import FunctionThreads

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Function:
    """A function that can be a tool."""

    entry_point: str
    call: Callable[..., Any] = field(repr=False)
    signature: Signature
    description: str
    is_async: bool
    threads: FunctionThreads = field(repr=False)
    """The threads in which it runs if it is not async."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A function that cannot be a tool."""

    reason: str


Functions: TypeAlias = Mapping[str, Function | Unusable]
"""Functions by entry point."""


def load_functions(tools: Mapping[str, ToolEntry], earlier: Functions | None = None) -> Functions:
    """Load all functions that tools of `kind: python` name. Blocks.

    Functions found in `earlier` stay the same objects, with the threads that may hang in them.
    """
    wanted = dict.fromkeys(
        entry.function for entry in tools.values() if isinstance(entry, PythonTool)
    )
    known = earlier or {}
    return {
        entry_point: found
        if isinstance(found := known.get(entry_point), Function)
        else _load(entry_point)
        for entry_point in wanted
    }


def _load(entry_point: str) -> Function | Unusable:
    module_name, _, name = entry_point.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(
            f"{error.name}."
        ):
            return Unusable(f"there is no module {error.name} where the engine runs")
        log.warning("python_tool_import_failed", function=entry_point, exc_info=error)
        return Unusable(f"its module cannot be imported: {type(error).__name__}: {error}"[:300])
    found = getattr(module, name, None)
    if found is None:
        return Unusable(f"the module {module_name} has no function {name}")
    if not callable(found):
        return Unusable(f"{name} in the module {module_name} is not a function")
    is_async = inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(
        getattr(found, "__call__", None)  # noqa: B004 - an object that is called
    )
    try:
        signature = read_signature(found)
    except SchemaRefused as error:
        return Unusable(str(error))
    if signature.run and not is_async:
        return Unusable(
            f"its parameter {signature.run} is a ToolRun, which only an `async def` function can "
            "use: it runs only in the engine's own thread"
        )
    threads = FunctionThreads(entry_point)
    return Function(entry_point, found, signature, description_of(found), is_async, threads)
