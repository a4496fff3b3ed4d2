"""`cordboard mcp-server`: an MCP server over the running engine, for an operator's assistant."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Address of the admin port. Default: the file's.")
    ] = "",
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve HTTP there, at /mcp, instead of stdio; each request has a key of its own.",
        ),
    ] = "",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --http: name of a proxy before it; repeatable."),
    ] = None,
) -> None:
    """Serve read-only MCP tools about calls, waits and the configuration.

    They ask the admin port (`admin.ui`) with an API key: by stdio that in CORDBOARD_API_KEY, by
    HTTP that in the header `Authorization: Bearer`. They see what the key may see.
    """
    if not url:
        from cordboard.cli.running_engine import admin_ui

        url = admin_ui(config, os.environ).address
    arguments = ["--url", url]
    if http:
        arguments += ["--http", http]
    for each in name or []:
        arguments += ["--name", each]
    # -P: the folder in which an assistant starts it is not trusted
    program = [sys.executable, "-P", "-m", "cordboard.mcp_servers.engine", *arguments]
    os.execv(sys.executable, program)  # noqa: S606 - a program of ours
