"""`cordboard mcp ...`: the MCP servers of a running engine, or of a configuration file."""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from cordboard.cli import mcp_accept
from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, run_async
from cordboard.errors import EngineRefused, EngineUnreachable

if TYPE_CHECKING:
    from cordboard.cli.running_engine import RunningEngine

WAIT_SECONDS = 60.0
"""Longest wait of `start` and `restart` for a ready server."""
_LOOK_SECONDS = 0.2
_UNDER_WAY = {"starting", "restarting"}

app = typer.Typer(help="MCP servers: inspect, test, accept, restart.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ServerArgument = Annotated[str, typer.Argument(help="A name under mcp.servers.")]


@app.command("status")
def status(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show the servers of the running engine: state, tools, restarts, last errors."""
    from cordboard.cli.screen import print_json, status_table, terminal, trouble_lines

    answer = _engine(config).get("/mcp/status")
    if json:
        print_json(answer)
        return
    if not answer["servers"]:
        print("the running engine has no MCP servers")
        return
    console = terminal()
    console.print(status_table(answer["servers"], datetime.datetime.now(datetime.UTC)))
    for line in trouble_lines(answer["servers"]):
        console.print(line, soft_wrap=True)


@app.command("tools")
def tools(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show the tools of the running engine's servers: their names, or why not offered."""
    from cordboard.cli.screen import print_json, terminal, tools_table

    answer = _engine(config).get("/mcp/tools")
    if json:
        print_json(answer)
    elif not answer["tools"]:
        print("the MCP servers of the running engine have listed no tools")
    else:
        terminal().print(tools_table(answer["tools"]))


@app.command("test")
def tried(
    server: ServerArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    aside: Annotated[
        bool,
        typer.Option("--aside", help="Start it here, from the file, even if an engine is running."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Request a handshake and the tools from one server.

    The running engine does this; without one the server is started aside, for this test alone. Exit
    status 1 when the test fails.
    """
    from cordboard.cli.screen import print_json, report_lines

    report = None if aside else _tested_by_engine(config, server)
    if report is None:
        report = _tested_aside(config, server)
    if json:
        print_json(report)
    else:
        print("\n".join(report_lines(report)))
    if not report["ok"]:
        raise typer.Exit(1)


app.command("accept")(mcp_accept.command)


@app.command("restart")
def restart(
    server: ServerArgument, config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False
) -> None:
    """Restart a server of the running engine and wait until it is ready.

    Exit status 1 when it is not ready.
    """
    _move(_engine(config), server, "restart", "ready", json=json)


@app.command("start")
def start(
    server: ServerArgument, config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False
) -> None:
    """Start a server of the running engine that is stopped or was given up, and wait for it."""
    _move(_engine(config), server, "start", "ready", json=json)


@app.command("stop")
def stop(
    server: ServerArgument, config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False
) -> None:
    """Stop a server of the running engine until it is started again."""
    _move(_engine(config), server, "stop", "stopped", json=json)


def _engine(config: Path) -> RunningEngine:
    from cordboard.cli.running_engine import running_engine

    return running_engine(config, os.environ)


def _tested_by_engine(config: Path, server: str) -> dict[str, Any] | None:
    """Return the running engine's report; None without an engine, or if the server is unknown."""
    engine = _engine(config)
    try:
        report: dict[str, Any] = engine.post(f"/mcp/test/{quote(server, safe='')}")
    except EngineUnreachable:
        print("no engine is running; the server is started aside", file=sys.stderr)
        return None
    except EngineRefused as error:
        if error.status in (401, 403):
            words = f"{error}; or have the server started aside: --aside"
            raise EngineRefused(words, error.status) from None
        if error.status != 404:
            raise
        print("the running engine does not know it; it is started aside", file=sys.stderr)
        return None
    return report


def _tested_aside(config: Path, server: str) -> dict[str, Any]:
    loaded = load_config(config)
    known = loaded.config.mcp.servers
    if server not in known:
        raise mcp_accept.unknown_server(server, known)

    from cordboard.cli.aside import quiet, try_servers

    quiet(loaded)
    report = run_async(try_servers({server: known[server]}))[server]
    return {
        "server": server,
        "ok": report.ok,
        "error": report.error,
        "took_ms": report.took_ms,
        "protocol": report.protocol,
        "tools": list(report.tools),
        "stderr": list(report.stderr),
    }


def _move(engine: RunningEngine, server: str, what: str, wanted: str, *, json: bool) -> None:
    from cordboard.cli.screen import print_json, trouble_lines

    state = engine.post(f"/mcp/servers/{quote(server, safe='')}/{what}")
    deadline = time.monotonic() + WAIT_SECONDS
    while state["state"] in _UNDER_WAY and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        servers = engine.get("/mcp/status")["servers"]
        state = next((each for each in servers if each["server"] == server), state)
    if json:
        print_json(state)
    else:
        print(f"{server} is {state['state']}" + (f", pid {state['pid']}" if state["pid"] else ""))
        if state["state"] != wanted:
            print("\n".join(trouble_lines([state])), file=sys.stderr)
    if state["state"] != wanted:
        raise typer.Exit(1)
