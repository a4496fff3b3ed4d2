"""`cordboard mcp accept`: shows the present definitions of the servers' tools, and pins them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, run_async
from cordboard.errors import CordboardError

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.config.mcp import McpServer
    from cordboard.mcp.trial import TestReport


def command(
    servers: Annotated[
        list[str] | None,
        typer.Argument(help="Names under mcp.servers. Default: all that are enabled."),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Start the servers aside, show how their tools differ from mcp.lock, and accept them.

    Needs no running engine. Without names, servers that are no longer in the file are forgotten.
    Exit status 1 when a server could not be inspected, or you did not confirm.
    """
    from cordboard.cli.aside import quiet, try_servers
    from cordboard.mcp.definitions.acceptance import accept_listings, differences
    from cordboard.mcp.definitions.lock import load_lock, save_lock

    loaded = load_config(config)
    quiet(loaded)
    chosen = _chosen(loaded, servers or [])
    path = lock_path(loaded)
    old = load_lock(path)
    trials = run_async(try_servers(chosen))
    for server, trial in trials.items():
        _tell_what_is_left_out(server, trial)
    listings = {server: trial.listing for server, trial in trials.items() if trial.ok}
    new = accept_listings(old, listings, None if servers else loaded.config.mcp.servers)
    if new.changed:
        print("\n".join(differences(old, new)))
        if not yes:
            typer.confirm(f"\nAccept this into {path}?", abort=True)
        save_lock(path, new, old)
        how = "an engine that watches its file takes it; otherwise: cordboard reload"
        print(f"{path} is written; {how}")
    elif any(trial.ok for trial in trials.values()) or not trials:
        print(f"{path}: nothing has changed")
    if not all(trial.ok for trial in trials.values()):
        raise typer.Exit(1)


def lock_path(loaded: LoadedConfig) -> Path:
    """Return the path of a configuration's lockfile: beside it by default."""
    return loaded.path.parent / loaded.config.mcp.lock_file


def unknown_server(server: str, known: Mapping[str, object]) -> CordboardError:
    """Return the error for a name that is not under `mcp.servers`."""
    return CordboardError(f"there is no MCP server {server!r}; known: {', '.join(known) or 'none'}")


def _chosen(loaded: LoadedConfig, names: Sequence[str]) -> dict[str, McpServer]:
    known = loaded.config.mcp.servers
    for name in names:
        if name not in known:
            raise unknown_server(name, known)
    if names:
        return {name: known[name] for name in names}
    return {name: server for name, server in known.items() if server.enabled}


def _tell_what_is_left_out(server: str, trial: TestReport) -> None:
    from cordboard.mcp.definitions.definition import read_tool
    from cordboard.mcp.printable import printable

    if not trial.ok:
        print(f"cordboard: {server} cannot be looked at: {trial.error}", file=sys.stderr)
        for line in trial.stderr[-5:]:
            print(f"  {server} | {printable(line)}", file=sys.stderr)
    for position, listed in enumerate(trial.listing):
        tool = read_tool(listed, position)
        if tool.refusal:
            words = f"{server}: {tool.name} is never offered: {tool.refusal}"
            print(f"cordboard: {words}", file=sys.stderr)
