"""Where a tool is offered: each context with each of its providers, or why not there.

May take long for thousands of tools: use it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cordboard.agent_api.provider import provider_of
from cordboard.config.plugins import Plugins
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config, chain_of
from cordboard.config.tools.entry import group_server
from cordboard.errors import NotThere
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.tools.provider_schema import for_provider, for_provider_list
from cordboard.tools.schema_profiles import PLAIN, SchemaProfile
from cordboard.tools.tool import ToolSpec

NOT_LISTED = "the context does not list it under `tools`"


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """A tool in one context, for one of its providers."""

    context: str
    provider: str
    offered: bool
    why_not: str
    """One sentence; empty when it is offered."""
    notes: tuple[str, ...] = ()
    """The changes of its schema for this provider."""


def tool_places(
    tool: ToolRow, config: Config, listings: Mapping[str, ToolListing], plugins: Plugins
) -> list[ToolPlace]:
    """Return the places of a tool in the contexts of these listings, in the order of the file."""
    return [
        place
        for context, listing in listings.items()
        for place in _in_context(tool, context, config, listing, plugins)
    ]


def why_not(
    tool: ToolRow,
    context: str,
    provider: str | None,
    config: Config,
    listing: ToolListing,
    plugins: Plugins,
) -> ToolPlace:
    """Return the place of a tool in a context for a provider; None: the context's first. Raises
    `NotThere` for a provider that the context does not use."""
    places = {each.provider: each for each in _in_context(tool, context, config, listing, plugins)}
    found = next(iter(places.values())) if provider is None else places.get(provider)
    if found is None:
        used = ", ".join(places)
        raise NotThere(f"the context {context} does not use such a provider; it uses {used}")
    return found


def _in_context(
    tool: ToolRow, context: str, config: Config, listing: ToolListing, plugins: Plugins
) -> Iterator[ToolPlace]:
    spec = next((spec for spec in listing.specs if spec.name == tool.name), None)
    why = "" if spec is not None else _why_not_listed(tool, listing)
    for name in chain_of(config, config.contexts[context]):
        if spec is None:
            yield ToolPlace(context, name, False, why)
            continue
        profile = _profile(name, config, plugins)
        refused = _refusal(spec, listing, profile)
        notes = () if refused else for_provider(spec, profile).notes
        yield ToolPlace(context, name, not refused, refused, notes)


def _why_not_listed(tool: ToolRow, listing: ToolListing) -> str:
    for row in listing.rows:
        whole_server = tool.server and group_server(row.name) == tool.server
        if not row.offered and (row.name == tool.name or whole_server):
            return row.why_not
    return NOT_LISTED


def _refusal(spec: ToolSpec, listing: ToolListing, profile: SchemaProfile) -> str:
    """Return why a provider does not get a tool that its context offers."""
    kept, problems = for_provider_list(listing.specs, profile)
    if any(each.name == spec.name for each in kept):
        return ""
    told = (each.message for each in problems if spec.name in each.message)
    return next(told, f"it is beyond the limits of {profile.name}")


def _profile(name: str, config: Config, plugins: Plugins) -> SchemaProfile:
    chosen = config.providers[name]
    if isinstance(chosen, PipelineProvider):
        found = provider_of(plugins, "llm", chosen.brain.type)
    else:
        found = provider_of(plugins, "agent", chosen.type)
    return found.schemas if found is not None else PLAIN
