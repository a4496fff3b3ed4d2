"""`cordboard tools`: every tool of every kind, and what is not offered and why."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from cordboard.cli.event_loop import run_async
from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config
from cordboard.errors import EngineUnreachable, NotThere

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.generation.tool_listing import ToolListing


class Format(StrEnum):
    """How the tools are printed."""

    TABLE = "table"
    JSON = "json"
    ARROW = "arrow"


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[
        str | None, typer.Option("--context", "-C", help="Only what this context lists.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", "-p", help="Also as this provider is given them (JSON)."),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: table; json with --provider."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write there instead of printing.")
    ] = None,
    aside: Annotated[
        bool,
        typer.Option(
            "--aside", help="Look at the file and start its servers, even if an engine is running."
        ),
    ] = False,
) -> None:
    """Show all tools: kind, origin, effects, approval, and why one is not offered.

    The running engine tells; without one, the MCP servers are started aside, for this look alone.
    """
    form = form or (Format.JSON if provider else Format.TABLE)
    if provider and form is not Format.JSON:
        raise typer.BadParameter("--provider goes with --format json")
    if form is Format.ARROW and output is None and sys.stdout.isatty():
        raise typer.BadParameter("arrow is binary; write it to a file: --output tools.arrow")
    if form is Format.ARROW:
        from cordboard.cli.tools_arrow import needs_pyarrow

        needs_pyarrow()  # before anything is started
    answer = None if aside else _from_engine(config, context, provider)
    if answer is None:
        answer = _from_file(config, context, provider)
    _show(answer, form, output)


def _from_engine(config: Path, context: str | None, provider: str | None) -> dict[str, Any] | None:
    """The running engine's answer; None when there is none."""
    from cordboard.cli.running_engine import running_engine

    asked = {"context": context, "provider": provider}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    try:
        answer: dict[str, Any] = running_engine(config, os.environ).get(f"/tools?{query}")
    except EngineUnreachable:
        print("no engine is running; the MCP servers are started aside", file=sys.stderr)
        return None
    return answer


def _from_file(config: Path, context: str | None, provider: str | None) -> dict[str, Any]:
    from cordboard.agent_api.provider import tool_user
    from cordboard.cli.aside import quiet
    from cordboard.config.plugins import installed

    loaded = load_config(config)
    if context is not None and context not in loaded.config.contexts:
        known = ", ".join(loaded.config.contexts)
        raise NotThere(f"there is no context {context!r}; known: {known}")
    profile = tool_user(installed(), provider).schemas if provider is not None else None
    quiet(loaded)
    return run_async(_listed(loaded, context)).as_json(provider, profile)


async def _listed(loaded: LoadedConfig, context: str | None) -> ToolListing:
    """Start what is needed, look, and end it."""
    from cordboard.cli.aside import generation_aside
    from cordboard.generation.tool_listing import list_tools

    async with generation_aside(loaded) as generation:
        return list_tools(loaded.config, generation.fleet, generation.catalogue, context)


def _show(answer: dict[str, Any], form: Format, output: Path | None) -> None:
    from cordboard.cli.screen import all_tools_table, indented_json, terminal

    match form:
        case Format.ARROW:
            from cordboard.cli.tools_arrow import as_arrow

            content = as_arrow(answer["tools"])
        case Format.JSON:
            content = indented_json(answer) + b"\n"
        case _:
            console = terminal()
            with console.capture() as captured:
                console.print(all_tools_table(answer["tools"]))
            content = captured.get().encode()
    if output is not None:
        output.write_bytes(content)
        return
    if form is Format.ARROW:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        print(content.decode(), end="")
