"""`cordboard tools`: every tool of every kind, with the reason of those not offered."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, run_async
from cordboard.errors import EngineUnreachable, ExtraMissing, NotThere

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.generation.tool_listing import ToolListing


_TEXTS = ("name", "kind", "origin", "server", "effects", "approval", "description")
_CHOICES = frozenset({"kind", "effects", "approval"})


class Format(StrEnum):
    """Output format of the tools."""

    TABLE = "table"
    JSON = "json"
    ARROW = "arrow"


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[
        str | None, typer.Option("--context", "-C", help="Only the tools of this context.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option("--provider", "-p", help="Also in this provider's form (JSON)."),
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
) -> None:
    """Show all tools: kind, origin, effects, approval, and why one is not offered.

    The running engine answers; without one, the MCP servers are started aside, for this alone.
    """
    form = form or (Format.JSON if provider else Format.TABLE)
    if provider and form is not Format.JSON:
        raise typer.BadParameter("--provider goes with --format json")
    if form is Format.ARROW and output is None and sys.stdout.isatty():
        raise typer.BadParameter("arrow is binary; write it to a file: --output tools.arrow")
    if form is Format.ARROW:
        needs_pyarrow()  # before anything is started
    answer = None if aside else _from_engine(config, context, provider)
    if answer is None:
        answer = _from_file(config, context, provider)
    _show(answer, form, output)


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


# --- as an Arrow table, for pandas, Polars, DuckDB, KNIME ------------------------------------


def needs_pyarrow() -> None:
    """Raise `ExtraMissing` without pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ExtraMissing(
            "--format arrow needs the extra `arrow`, which is not installed;"
            " pip install 'cordboard[arrow]', or take --format json"
        ) from None


def as_arrow(tools: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the tools as one record batch in the Arrow IPC stream format. Raises `ExtraMissing`.

    `parameters` is JSON Schema as a text; `kind`, `effects` and `approval` are dictionary-encoded.
    """
    needs_pyarrow()
    import pyarrow as pa

    rows = [tool for tool in tools if "name" in tool]
    choice = pa.dictionary(pa.int8(), pa.string())
    columns: dict[str, Any] = {
        name: pa.array(
            [_text(row[name]) for row in rows], choice if name in _CHOICES else pa.string()
        )
        for name in _TEXTS
    }
    parameters = [json.dumps(row["parameters"]) for row in rows]
    columns["parameters"] = pa.array(parameters, pa.string())
    columns["offered"] = pa.array([bool(row["offered"]) for row in rows], pa.bool_())
    columns["why_not"] = pa.array([_text(row["why_not"]) for row in rows], pa.string())
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _text(value: Any) -> str:
    """Return a text fit for UTF-8: servers write what they want."""
    return str(value).encode("utf-8", "replace").decode()
