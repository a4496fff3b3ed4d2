"""`cordboard tools`: every tool of every kind, with the reason of those not offered."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, run_async
from cordboard.errors import EngineUnreachable, NotThere
from cordboard.generation.tool_arrow import as_columns, as_structs, needs_pyarrow, read_tools

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.generation.tool_listing import ToolListing


class Format(StrEnum):
    """Output format of the tools."""

    TABLE = "table"
    JSON = "json"
    ARROW = "arrow"
    ARROW_STRUCT = "arrow-struct"

    @property
    def is_arrow(self) -> bool:
        return self in (Format.ARROW, Format.ARROW_STRUCT)


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[
        str | None, typer.Option("--context", "-C", help="Only the tools of this context.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", "-p", help="Also in the form of this type of provider (JSON)."),
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
            "--aside", help="Read the file and start its servers, even if an engine is running."
        ),
    ] = False,
    table: Annotated[
        Path | None, typer.Option("--input", "-i", help="Read this Arrow file instead.")
    ] = None,
) -> None:
    """Show all tools: kind, origin, effects, approval, and why one is not offered.

    The running engine answers; without one, the MCP servers are started aside, for this alone.
    """
    form = form or (Format.JSON if provider else Format.TABLE)
    if provider and form is not Format.JSON:
        raise typer.BadParameter("--provider goes with --format json")
    if form.is_arrow and output is None and sys.stdout.isatty():
        raise typer.BadParameter("arrow is binary; write it to a file: --output tools.arrow")
    if form.is_arrow or table is not None:
        needs_pyarrow()  # before anything is started
    answer: dict[str, Any] | None
    if table is not None:
        if context or provider:
            raise typer.BadParameter("--input goes without --context and --provider")
        answer = _from_table(table)
    else:
        answer = None if aside else _from_engine(config, context, provider)
    if answer is None:
        answer = _from_file(config, context, provider)
    _show(answer, form, output)


def _from_table(path: Path) -> dict[str, Any]:
    try:
        return {"context": None, "tools": read_tools(path.read_bytes())}
    except OSError as error:
        raise NotThere(f"{path} cannot be read: {error.strerror or error}") from None


def _from_engine(config: Path, context: str | None, provider: str | None) -> dict[str, Any] | None:
    """Return the running engine's answer; None without an engine."""
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
    """Start the needed servers, list the tools, and end the servers."""
    from cordboard.cli.aside import generation_aside
    from cordboard.generation.tool_listing import list_tools

    async with generation_aside(loaded) as generation:
        return list_tools(loaded.config, generation.fleet, generation.catalogue, context)


def _show(answer: dict[str, Any], form: Format, output: Path | None) -> None:
    from cordboard.cli.screen import all_tools_table, indented_json, terminal

    match form:
        case Format.ARROW:
            content = as_columns(answer["tools"])
        case Format.ARROW_STRUCT:
            content = as_structs(answer["tools"])
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
    if form.is_arrow:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        print(content.decode(), end="")
