"""Converts tools for a provider: name, description and a schema in the provider's own language.

Code that opens a session with a provider (an agent, a brain) converts the specs of its call's
toolbox into `ProviderTool`s with the provider's profile. Pure functions: nothing is fetched or
modified, and the same spec gives the same tool. Arguments are still checked against the *original*
schema (`cordboard.tools.schema`): constraints that a provider's language cannot express are
described to the model in words, and the desk refuses arguments that violate them.

A converted schema has only keywords of the profile, accepts at least what the original accepts as
far as the profile can express it, and converts to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from cordboard.errors import ConfigProblem
from cordboard.tools.schema.inlining import Inliner
from cordboard.tools.schema.rewriting import Rewriter
from cordboard.tools.schema.words import described
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, ToolSpec

MAX_NOTES = 20
"""Maximum notes of one tool."""
_NAMED = 10
"""Maximum names in one message."""


@dataclass(frozen=True, slots=True)
class ProviderTool:
    """A tool in the form in which it is declared to a provider."""

    name: str
    description: str
    parameters: JsonObject | None
    """None: the provider expects a tool without parameters to have no schema."""
    notes: tuple[str, ...] = ()
    """The changes, for the operator; at most `MAX_NOTES` and one."""
    cannot_give: tuple[str, ...] = ()
    """Required parameters whose names the provider does not accept: no call can be valid."""

    def declared(self) -> JsonObject:
        """Return name, description and parameters, to measure and to show them."""
        whole: JsonObject = {"name": self.name, "description": self.description}
        if self.parameters is not None:
            whole["parameters"] = self.parameters
        return whole


def for_provider(spec: ToolSpec, profile: SchemaProfile) -> ProviderTool:
    """Convert one tool for a provider."""
    inliner, rewriter = Inliner(spec.parameters), Rewriter(profile)
    parameters: JsonObject | None = rewriter.root(inliner.plain())
    notes = [*inliner.notes, *rewriter.notes]
    if parameters is not None and profile.omit_empty and not parameters["properties"]:
        parameters = None
    description = described(spec.description, (), profile.max_description)
    if len(spec.description) > profile.max_description:
        notes.append(f"the tool's description was cut to {profile.max_description} characters")
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [f"and {len(notes) - MAX_NOTES} more"]
    return ProviderTool(
        spec.name, description, parameters, tuple(notes), tuple(rewriter.cannot_give)
    )


def for_provider_list(
    specs: Iterable[ToolSpec], profile: SchemaProfile
) -> tuple[tuple[ProviderTool, ...], tuple[ConfigProblem, ...]]:
    """Convert the tools of a call for a provider; return them and the problems.

    Tools keep their order, up to the provider's limits; each tool that is left out is named in a
    problem. No problem is fatal.
    """
    kept: list[ProviderTool] = []
    problems: list[ConfigProblem] = []
    too_many: list[str] = []
    too_large: list[str] = []
    seen: set[str] = set()
    size = 2
    for spec in specs:
        if spec.name in seen:
            problems.append(_problem(f"the tool name {spec.name!r} appears twice"))
            continue
        seen.add(spec.name)
        if profile.max_tools is not None and len(kept) >= profile.max_tools:
            too_many.append(spec.name)
            continue
        tool = for_provider(spec, profile)
        if tool.cannot_give:
            names = ", ".join(map(repr, tool.cannot_give))
            problems.append(
                _problem(
                    f"{spec.name} is not offered to {profile.name}: it requires {names[:200]}, "
                    "and the provider does not accept such parameter names"
                )
            )
            continue
        added = len(orjson.dumps(tool.declared())) + 1
        if size + added > profile.max_bytes:
            too_large.append(spec.name)
            continue
        size += added
        kept.append(tool)
    if too_many:
        reason = f"it accepts {profile.max_tools} tools"
        problems.append(_problem(_left(too_many, profile, reason)))
    if too_large:
        reason = f"the list would be longer than {profile.max_bytes} bytes"
        problems.append(_problem(_left(too_large, profile, reason)))
    return tuple(kept), tuple(problems)


def _left(names: list[str], profile: SchemaProfile, reason: str) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"not offered to {profile.name}, {reason}: {', '.join(names[:_NAMED])}{more}"


def _problem(message: str) -> ConfigProblem:
    return ConfigProblem(message, fatal=False)
