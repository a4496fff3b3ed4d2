"""Kinds of tools from plug-ins: the descriptor, and the tools that a configuration has of them.

    TOOLS = (ToolType("dice", DiceTool, make_dice),)

A tool of a plug-in stands under `tools:` with `kind: dice` and has the keys of every tool besides
its own; the desk treats it as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from cordboard.config.chosen import BrokenTool
from cordboard.config.plugins import Plugins, failure_of, installed
from cordboard.config.sections.tool import ToolSection
from cordboard.errors import ConfigProblem, ToolError
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.tool import JsonObject, Tool, ToolResult, ToolRun, ToolSpec

AnySection = TypeVar("AnySection", bound=ToolSection)
SectionClass: TypeAlias = type[AnySection]


@dataclass(frozen=True, slots=True)
class ToolType(Generic[AnySection]):
    """One kind of tool."""

    type: str
    """The `kind` in the configuration: the name of the entry point, or begins with it and `_`."""
    section: SectionClass[AnySection]
    """The settings, with `kind: Literal[...]`."""
    make: Callable[[str, AnySection], Tool]
    """Makes the tool of an exposed name, at once. Called for each configuration, in any thread.
    The operator's rules are applied to its spec afterwards. May raise `ToolError`."""
    role: Literal["tool"] = "tool"


@dataclass(frozen=True, slots=True)
class RuledTool:
    """A tool under the operator's rules."""

    tool: Tool
    spec: ToolSpec

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        return await self.tool.run(arguments, run)


def plugin_tools(
    tools: Mapping[str, ToolSection], plugins: Plugins | None = None
) -> tuple[tuple[Tool, ...], tuple[ConfigProblem, ...]]:
    """The tools of kinds from plug-ins, and the reasons why some are not offered."""
    made: list[Tool] = []
    problems: list[ConfigProblem] = []
    for name, result in _each(tools, plugins or installed()):
        if isinstance(result, str):
            words = f"the tool {name} is not offered: {result}"
            problems.append(ConfigProblem(words, key=f"tools.{name}.kind", fatal=False))
        else:
            made.append(result)
    return tuple(made), tuple(problems)


def _each(tools: Mapping[str, ToolSection], plugins: Plugins) -> Iterator[tuple[str, Tool | str]]:
    for name, section in tools.items():
        if isinstance(section, BrokenTool):
            yield name, section.problem
        elif ("tool", section.kind) in plugins.descriptors:
            yield name, _made(name, section, plugins)


def _made(name: str, section: ToolSection, plugins: Plugins) -> Tool | str:
    """The tool, or the reason why there is none."""
    source = plugins.sources.get(("tool", section.kind))
    descriptor: Any = plugins.descriptors["tool", section.kind]
    try:
        tool = descriptor.make(name, section)
        if not isinstance(tool, Tool) or not isinstance(tool.spec, ToolSpec):
            return f"{source}: make of {section.kind} gives a {type(tool).__name__}, no Tool"
        spec = replace(tool.spec, name=name, kind=section.kind)
    except ToolError as error:
        return f"{source}: {error}"
    except Exception as error:  # noqa: BLE001 - border of a plug-in: its code may raise anything
        return failure_of(source, f"make of {section.kind}", error)
    return RuledTool(tool, apply_rules(spec, section))
