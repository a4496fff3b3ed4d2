"""The `cordboard` command.

Exit status: 0 success, 1 a problem of the configuration, the machine or the call (one message),
2 a wrong command line. Each command imports its modules when it runs, so that `--help` is
instant.
"""

from __future__ import annotations

import sys

import typer

from cordboard.cli import (
    accounts,
    call,
    calls,
    campaign,
    chat,
    check,
    cluster,
    config,
    demo,
    dial,
    doctor,
    drain,
    elevenlabs,
    emulate,
    history,
    import_,
    mcp,
    mcp_server,
    privacy,
    reload,
    run,
    tools,
    version,
)
from cordboard.errors import CordboardError

app = typer.Typer(
    help="Cordboard: voice agents that answer telephone calls.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, demo, call, dial, chat, emulate, check, doctor, reload, tools, version):
    app.command()(module.command)
    app.registered_commands[-1].name = module.__name__.rpartition(".")[2]
app.command("forget")(privacy.forget)
app.command("drain")(drain.drain)
app.command("undrain")(drain.undrain)
app.command("mcp-server")(mcp_server.command)
app.add_typer(calls.app, name="calls")
app.add_typer(campaign.app, name="campaign")
app.add_typer(cluster.app, name="cluster")
app.add_typer(history.app, name="history")
app.add_typer(privacy.app, name="privacy")
app.add_typer(config.app, name="config")
app.add_typer(mcp.app, name="mcp")
app.add_typer(accounts.users, name="users")
app.add_typer(accounts.audit, name="audit")
app.add_typer(elevenlabs.app, name="elevenlabs")
app.add_typer(import_.app, name="import")


def main() -> None:
    """Entry point: errors that the user can mend are one message, never a traceback."""
    try:
        app()
    except CordboardError as error:
        print(f"cordboard: {error}", file=sys.stderr)
        raise SystemExit(1) from None
