"""`cordboard cluster ...`: the engines of a cluster and their calls, read from its bus. Needs no
running engine."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli import cluster_config
from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    load_config,
    run_async,
    set_up_log,
)
from cordboard.errors import BusAway, NotThere

if TYPE_CHECKING:
    from cordboard.cluster.orders import Obeyed, Order
    from cordboard.cluster.survey import Survey
    from cordboard.config.sections.cluster import Cluster
    from cordboard.config.sections.privacy import Encryption

_LOOK = 1.0
"""Seconds between two looks at the calls that are left."""
_GONE_LOOKS = 5
"""Looks in a row without an engine's lease after which the engine is gone, or without the bus after
which that is told. While the servers choose a leader, the bus is away for some seconds; all leases
have expired then, and those of living engines come back within two seconds."""

app = typer.Typer(help="Several engines: who is there, who has which call.", no_args_is_help=True)
app.add_typer(cluster_config.app, name="config")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("status")
def status(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Say how many engines and calls there are, and how much room. Exit status 1 when the bus
    cannot be reached, or calls have no engine."""
    from cordboard.cli.screen import print_json

    found = _look(config)
    free = sum(engine.free_slots for engine in found.engines)
    draining = [engine.instance for engine in found.engines if engine.draining]
    if json:
        print_json(
            {
                "engines": len(found.engines),
                "draining": draining,
                "calls": len(found.calls),
                "free_slots": free,
                "without_engine": [call.call_id for call in found.orphans],
            }
        )
    else:
        print(f"{len(found.engines)} engines, {len(found.calls)} calls, room for {free} more")
        for instance in draining:
            print(f"{instance} drains")
        if found.orphans:
            print(f"{len(found.orphans)} calls have no engine: {_ids(found)}")
    if found.orphans:
        raise typer.Exit(1)


@app.command("nodes")
def nodes(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """List the engines that are alive."""
    from cordboard.cli.screen import engines_table, print_json, terminal

    engines = [asdict(engine) for engine in _look(config).engines]
    if json:
        print_json(engines)
    else:
        terminal().print(engines_table(engines))


@app.command("calls")
def calls(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """List the live calls of all engines."""
    from cordboard.cli.screen import owned_calls_table, print_json, terminal

    records = [asdict(call) for call in _look(config).calls]
    if json:
        print_json(records)
    else:
        terminal().print(owned_calls_table(records))


NodeArgument = Annotated[str, typer.Argument(help="Its name, as in `cluster.node`.")]


@app.command("drain")
def drain(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    hand_over: Annotated[
        bool,
        typer.Option("--hand-over", help="Hand its calls over, each in a pause of speech."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the last call has left or ended.")
    ] = False,
) -> None:
    """Have a node take no new calls: they go to the others, and its own end where they are, or are
    handed over. A restart or `undrain` ends it; the end of this command does not. Exit status 1
    when the drain was ended before the last call."""
    order: Order = "hand_over" if hand_over else "drain"
    obeyed = _order(config, node, order)
    if wait:
        _wait(config, obeyed)


@app.command("undrain")
def undrain(node: NodeArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Have a node take calls again. What it has not handed over yet stays."""
    _order(config, node, "undrain")


def _order(config: Path, node: str, order: Order) -> Obeyed:
    from cordboard.cluster.survey import order_node

    obeyed = run_async(order_node(_section(config)[0], node, order))
    _print(obeyed)
    return obeyed


def _print(obeyed: Obeyed) -> None:
    does = "takes no new calls" if obeyed.draining else "takes calls"
    moving = f", {obeyed.moving} of them to be handed over" if obeyed.moving else ""
    print(f"{obeyed.instance} {does}; {obeyed.calls} left{moving}", flush=True)


def _wait(config: Path, obeyed: Obeyed) -> None:
    """Print the state whenever it has changed, until no call is left. Raises `BusAway` if the bus
    stays away."""
    away = gone = 0
    while obeyed.calls:
        time.sleep(_LOOK)  # the engine is another process: there is no event to wait for
        try:
            engines = {engine.instance: engine for engine in _look(config).engines}
        except BusAway:
            away, gone = away + 1, 0
            if away == _GONE_LOOKS:
                raise
            continue
        found = engines.get(obeyed.instance)
        away, gone = 0, gone + 1 if found is None else 0
        if gone == _GONE_LOOKS:
            print(f"{obeyed.instance} has left the cluster")
            return
        if found is None:
            continue
        if not found.draining:
            print("cordboard: the drain was ended before the last call", file=sys.stderr)
            raise typer.Exit(1)
        if found.live_calls != obeyed.calls:
            obeyed = replace(obeyed, calls=found.live_calls, moving=0)
            _print(obeyed)


def _look(config: Path) -> Survey:
    from cordboard.cluster.survey import survey

    found = run_async(survey(*_section(config)))
    for problem in found.unreadable:
        print(f"cordboard: warning: {problem}", file=sys.stderr)
    return found


def _section(config: Path) -> tuple[Cluster, Encryption]:
    loaded = load_config(config)
    set_up_log("error", loaded)
    if loaded.config.cluster is None:
        raise NotThere(f"{config} has no section `cluster`: the engine is alone")
    return loaded.config.cluster, loaded.config.privacy.encryption


def _ids(found: Survey) -> str:
    return ", ".join(call.call_id for call in found.orphans)
