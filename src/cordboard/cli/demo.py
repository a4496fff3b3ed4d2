"""`cordboard demo`: a spoken call in one command, from greeting to goodbye."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    LogLevelOption,
    load_config,
    require_test_kit,
    run_async,
    set_up_log,
)

if TYPE_CHECKING:
    from cordboard.config.schema import Config
    from cordboard_testkit.simulated_call import PlacedCall

CONTEXT = "demo"
ATIS = "mcp_aviation_atis_get_atis"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the demo's caller, and the tool call that must follow from it."""

    says: str
    tool: str
    arguments: Mapping[str, Any]
    interrupts_after: float | None = None
    """Seconds into the agent's answer after which the line is spoken, over its voice."""


SCRIPT = (
    Step("Hello. What is the ATIS for Copenhagen Kastrup?", ATIS, {"icao": "EKCH"}),
    Step("And the weather at kilo juliett foxtrot kilo, please.", ATIS, {"icao": "KJFK"}),
    Step("Thank you very much. Goodbye.", "hangup_call", {}, interrupts_after=7.0),
)


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    via: Annotated[
        Literal["audiosocket", "sip"],
        typer.Option(help="audiosocket: straight to the engine; sip: through a real Asterisk."),
    ] = "audiosocket",
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("var/demo"),
    log_level: LogLevelOption = "error",
) -> None:
    """Start the engine, place one spoken call to it, and show the conversation.

    Needs no network and no key. Leaves a stereo recording, the ledger and a picture of the call;
    `cordboard calls` has it too.
    Exit status 0 only if every request of the caller was understood, looked up and spoken.
    """
    require_test_kit()
    loaded = load_config(config)
    set_up_log(log_level, loaded)
    begun = time.monotonic()
    failures = run_async(_demo(loaded.config, via, output, begun))
    if failures:
        raise typer.Exit(1)


async def _demo(
    config: Config, via: Literal["audiosocket", "sip"], output: Path, begun: float
) -> list[str]:
    from rich.console import Console

    from cordboard.cli.live import LivePrinter, latency_table
    from cordboard_testkit.caller_voice import render_script
    from cordboard_testkit.simulated_call import bench, make_folder, save, voice_of

    console = Console(highlight=False, soft_wrap=True, width=max(110, Console().width))
    printer = LivePrinter(console)

    def progress(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - begun:7.2f} s[/] [dim]{text}[/]")

    progress("starting")
    await asyncio.to_thread(make_folder, output)
    folder = config.calls.directory
    async with bench(config, CONTEXT, via, folder, printer.take, progress) as place:
        spoken = await render_script(voice_of(place.engine), [step.says for step in SCRIPT])
        script = [
            replace(line, interrupts_after=step.interrupts_after)
            for line, step in zip(spoken, SCRIPT, strict=True)
        ]
        placed = await place.place(CONTEXT, script, on_line=printer.caller_says)
    printer.finish()
    console.print()
    console.print(latency_table(placed.history))
    for what, path in save(placed, output):
        console.print(f"{what:12} {path}")
    failures = verdict(placed)
    console.print()
    for failure in failures:
        console.print(f"[red]FAILED[/]  {failure}")
    if not failures:
        console.print(f"[green]The call went right.[/] ({time.monotonic() - begun:.1f} s in all)")
    return failures


def verdict(placed: PlacedCall) -> list[str]:
    """Return everything that went wrong; empty when the call went right."""
    history, failures = placed.history, []
    asked = [(use.name, dict(use.arguments), use.status) for use in history.tools]
    wanted = [(step.tool, dict(step.arguments), "ok") for step in SCRIPT]
    if [(name, status) for name, _, status in asked] != [(name, s) for name, _, s in wanted]:
        failures.append(f"the tools called were {asked}, expected {wanted}")
    for (name, arguments, _), (_, expected, _) in zip(asked, wanted, strict=False):
        if expected.items() - arguments.items():
            failures.append(f"{name} was asked with {arguments}, expected {expected}")
    for use in history.tools:
        spoken = " ".join(" ".join(turn.answer) for turn in history.caller_turns)
        if use.name == ATIS and use.message not in spoken:
            failures.append(f"the answer of {use.name} was not spoken: {use.message!r}")
    failures += [
        f"the caller got no answer to {exchange.text!r}"
        for exchange in placed.record.exchanges
        if exchange.answered_at is None
    ]
    if not any(turn.interrupted for turn in history.turns.values()):
        failures.append("the caller could not interrupt the agent")
    if len(placed.record.exchanges) != len(SCRIPT):
        failures.append("the call ended before the caller had said everything")
    if (history.outcome, history.reason) != ("completed", "agent_hangup"):
        failures.append(f"the call ended as {history.outcome} ({history.reason})")
    failures += [f"trouble: {trouble}" for trouble in history.troubles]
    return failures
