"""`cordboard dial NUMBER`: the running engine calls a number."""

from __future__ import annotations

import os
import time
import uuid
from typing import Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption

_LOOK = 0.5
"""Seconds between two looks at a live call."""


def command(
    number: Annotated[str, typer.Argument(help="Such as +4722000000, or as in firewall.country.")],
    context: Annotated[str, typer.Option("--context", help="The context that talks.")],
    config: ConfigOption = DEFAULT_CONFIG,
    message: Annotated[
        str, typer.Option("--message", help="Left to a voicemail. Default: it is hung up on.")
    ] = "",
    purpose: Annotated[
        str,
        typer.Option(
            "--purpose", help="Why, for a call-screening service. Default: the context's."
        ),
    ] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", help="Keys for a menu; once for each of its steps."),
    ] = None,
    variable: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of a declared variable.")
    ] = None,
    despite_block: Annotated[
        str,
        typer.Option(
            "--despite-block", help="Why a number on the do-not-call list is called all the same."
        ),
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when the call has ended.")
    ] = True,
) -> None:
    """Have the running engine call a number, if `firewall` of the configuration allows it.

    Exit status 1 when the call was not answered.
    """
    from cordboard.cli.running_engine import running_engine

    variables = {}
    for given in variable or []:
        name, sign, value = given.partition("=")
        if not sign:
            raise typer.BadParameter(f"--set {given}: expected NAME=VALUE")
        variables[name] = value
    engine = running_engine(config, os.environ)
    call_id = str(uuid.uuid4())
    wanted = {
        "number": number,
        "context": context,
        "message": message,
        "purpose": purpose,
        "keys": keys or [],
        "variables": variables,
        "call_id": call_id,
        "despite_block": despite_block,
    }
    engine.post("/calls", wanted)
    print(f"call {call_id}", flush=True)
    if not wait:
        return
    while (state := engine.get(f"/calls/{call_id}"))["state"] == "live":
        time.sleep(_LOOK)  # the engine is another process: there is no event to wait for
    parts = [state["outcome"], state["answer"], state["reason"]]
    print(", ".join(dict.fromkeys(part for part in parts if part)))
    if state["outcome"] != "answered":
        raise typer.Exit(1)
