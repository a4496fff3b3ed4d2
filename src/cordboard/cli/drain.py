"""`cordboard drain`, `cordboard undrain`: the running engine takes no new calls, or takes them
again."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption

if TYPE_CHECKING:
    from cordboard.cli.running_engine import RunningEngine

_LOOK = 1.0
"""Seconds between two looks at the calls that are left."""


def drain(
    config: ConfigOption = DEFAULT_CONFIG,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the last call has ended.")
    ] = False,
) -> None:
    """Have the running engine take no new calls; live ones go on to their end.

    `/ready` answers 503 meanwhile, so that a load balancer sends calls elsewhere. `cordboard
    undrain` or a restart ends it; the end of this command does not. Exit status 1 when the drain
    was ended before the last call.
    """
    from cordboard.cli.running_engine import running_engine

    engine = running_engine(config, os.environ)
    left = engine.post("/drain")["calls_left"]
    _print_left(left)
    if wait and left:
        _wait(engine, left)


def undrain(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Have the running engine take calls again, after `cordboard drain`."""
    from cordboard.cli.running_engine import running_engine

    running_engine(config, os.environ).post("/undrain")
    print("the engine takes calls again")


def _wait(engine: RunningEngine, left: int) -> None:
    """Print the number of calls whenever it has changed, until there are none."""
    while left:
        time.sleep(_LOOK)  # the engine is another process: there is no event to wait for
        health = engine.get("/health")
        if health["draining_since"] is None:
            print("cordboard: the drain was ended before the last call", file=sys.stderr)
            raise typer.Exit(1)
        if left != (left := len(health["active_calls"])):
            _print_left(left)


def _print_left(left: int) -> None:
    print(f"no new calls; {left} left" if left else "no new calls, and none left", flush=True)
