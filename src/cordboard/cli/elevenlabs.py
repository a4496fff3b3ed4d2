"""`cordboard elevenlabs sync`: writes a configuration's needs into an agent at ElevenLabs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, run_async
from cordboard.errors import NotThere

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.config.schema import Config
    from cordboard.generation.tool_listing import ToolListing
    from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
    from cordboard.vendors.elevenlabs.sync_plan import Plan, Wanted

REQUEST_SECONDS = 30.0

app = typer.Typer(help="ElevenLabs: bring an agent up to date.", no_args_is_help=True)


@app.callback()
def _of_several() -> None:
    """Keep `sync` a command of its own though it is the only one."""


@app.command("sync")
def sync(
    provider: Annotated[str, typer.Argument(help="A name under providers.")],
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[
        str | None,
        typer.Option("--context", "-C", help="Only this context's tools; nothing is removed then."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")
    ] = False,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Write the context's prompt into the agent too.")
    ] = False,
    first_message: Annotated[
        bool, typer.Option("--first-message", help="Write the context's greeting too.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over tools of the same names that others made.")
    ] = False,
) -> None:
    """Write tools, audio formats, events and permissions into an ElevenLabs agent.

    The tools are those of all contexts that use the provider, as in the configuration file; MCP
    servers are started aside, for this inspection alone. Tools of others are not touched.
    """
    from cordboard.agents.making import key_of
    from cordboard.cli.aside import quiet

    loaded = load_config(config)
    settings = _provider(loaded.config, provider)
    contexts = _contexts(loaded.config, provider, context)
    key = key_of(settings, os.environ, f"provider {provider}")
    texts = _texts(loaded.config, contexts, prompt=prompt, first_message=first_message)
    quiet(loaded)
    listings = run_async(_listings(loaded, contexts))
    wanted = _wanted(settings, listings, texts, removes=context is None, adopts=adopt)
    greets = any(loaded.config.contexts[name].greeting for name in contexts)
    wanted = replace(wanted, engine_greets=greets)
    run_async(_bring_up_to_date(key, wanted, dry_run=dry_run))


@dataclass(frozen=True, slots=True)
class _Texts:
    prompt: str | None = None
    first_message: str | None = None


def _provider(config: Config, name: str) -> ElevenLabsAgentProvider:
    from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider

    ours = {
        known: settings
        for known, settings in config.providers.items()
        if isinstance(settings, ElevenLabsAgentProvider)
    }
    if name not in ours:
        known = ", ".join(ours) or "none"
        raise NotThere(f"no provider {name!r} is of type elevenlabs_agent; known: {known}")
    return ours[name]


def _contexts(config: Config, provider: str, only: str | None) -> list[str]:
    """Return the contexts whose calls may use that provider."""
    from cordboard.config.schema import chain_of

    if only is not None:
        if only not in config.contexts:
            known = ", ".join(config.contexts)
            raise NotThere(f"there is no context {only!r}; known: {known}")
        return [only]
    using = [
        name for name, context in config.contexts.items() if provider in chain_of(config, context)
    ]
    if not using:
        raise NotThere(f"no context uses provider {provider!r}; name one: --context")
    return using


def _texts(config: Config, contexts: list[str], *, prompt: bool, first_message: bool) -> _Texts:
    from cordboard.config.rules import placeholders

    if not (prompt or first_message):
        return _Texts()
    if len(contexts) != 1:
        told = ", ".join(contexts)
        raise typer.BadParameter(f"the texts of which context? --context is one of {told}")
    context = config.contexts[contexts[0]]
    for wanted, text, what in (
        (prompt, context.prompt, "prompt"),
        (first_message, context.greeting, "greeting"),
    ):
        if wanted and placeholders(text):
            names = ", ".join(placeholders(text))
            raise typer.BadParameter(
                f"the {what} has call variables ({names}), which only a call can fill in: "
                f"leave it to `overrides`"
            )
    return _Texts(context.prompt if prompt else None, context.greeting if first_message else None)


async def _listings(loaded: LoadedConfig, contexts: list[str]) -> dict[str, ToolListing]:
    from cordboard.cli.aside import generation_aside
    from cordboard.generation.tool_listing import list_tools

    async with generation_aside(loaded) as generation:
        return {
            name: list_tools(loaded.config, generation.fleet, generation.catalogue, name)
            for name in contexts
        }


def _wanted(
    settings: ElevenLabsAgentProvider,
    listings: Mapping[str, ToolListing],
    texts: _Texts,
    *,
    removes: bool,
    adopts: bool,
) -> Wanted:
    from cordboard.tools.payload import DATA_NOTE
    from cordboard.vendors.elevenlabs.sync_plan import Wanted

    specs = {spec.name: spec for listing in listings.values() for spec in listing.specs}
    missing = {
        row.name: row.why_not
        for listing in listings.values()
        for row in listing.rows
        if not row.offered and row.name not in specs
    }
    for name, why in missing.items():
        print(f"cordboard: warning: tool {name} is not offered now: {why}", file=sys.stderr)
    if missing and removes:
        print("cordboard: warning: so nothing is taken away this time", file=sys.stderr)
    prompt = texts.prompt
    if prompt is not None and specs:
        prompt = f"{prompt}\n\n{DATA_NOTE}"
    return Wanted(
        specs=tuple(specs.values()),
        settings=settings,
        prompt=prompt,
        first_message=texts.first_message,
        removes=removes and not missing,
        adopts=adopts,
    )


async def _bring_up_to_date(key: str, wanted: Wanted, *, dry_run: bool) -> None:
    from cordboard.vendors.elevenlabs.rest import ElevenLabsRest
    from cordboard.vendors.elevenlabs.sync import Sync

    settings = wanted.settings
    headers = settings.request_headers(key)
    async with ElevenLabsRest(settings.base_url, key, REQUEST_SECONDS, headers) as rest:
        sync = Sync(rest, wanted)
        plan = await sync.plan()
        print("\n".join(plan.lines()))
        if not dry_run:
            for problem in await sync.apply(plan):
                print(f"cordboard: warning: {problem}", file=sys.stderr)
        print(_outcome(plan, dry_run=dry_run))


def _outcome(plan: Plan, *, dry_run: bool) -> str:
    if plan.nothing:
        return "nothing is to be done"
    return "nothing was written (--dry-run)" if dry_run else "written, and read back"
