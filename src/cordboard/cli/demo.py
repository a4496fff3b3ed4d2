"""`cordboard demo`: a spoken call in one command, from greeting to goodbye."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
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
    from rich.console import Console

    from cordboard.config.load import LoadedConfig
    from cordboard.config.sections.admin import AdminUi
    from cordboard_testkit.simulated_call import PlacedCall

CONTEXT = "demo"
PERSON = "demo"
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
    `cordboard calls` has it too. In a terminal it goes on until Enter, and prints a link to the
    interface, which shows the call.
    Exit status 0 only if every request of the caller was understood, looked up and spoken.
    """
    require_test_kit()
    loaded = load_config(config)
    set_up_log(log_level, loaded)
    begun = time.monotonic()
    with _interface(loaded, via) as shown:
        failures = run_async(_demo(loaded, via, output, begun, shown))
    if failures:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Interface:
    """The admin port of the demo."""

    loaded: LoadedConfig
    settings: AdminUi
    token: str
    """Of the link for its only person."""


@contextlib.contextmanager
def _interface(loaded: LoadedConfig, via: str) -> Iterator[_Interface | None]:
    """Make a person and a configuration for the interface, gone at the end; None if the output is
    no terminal, or if the interface is not built."""
    from cordboard.accounts.rights import EVERYWHERE, Grant, Role
    from cordboard.accounts.store import Accounts
    from cordboard.admin.page import ASSETS, INDEX
    from cordboard.config.sections.admin import AdminUi
    from cordboard.errors import ConfigError, EditRefused

    if not (sys.stdin.isatty() and sys.stdout.isatty() and (ASSETS / INDEX).exists()):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cordboard-demo-") as name:
        folder = Path(name)
        accounts = Accounts(folder / "admin")
        accounts.add(PERSON, Role.ADMIN, [*Grant], EVERYWHERE)
        token = accounts.reset(PERSON)
        accounts.close()
        try:
            copy = _copied(loaded, folder, via)
        except (ConfigError, EditRefused):  # it has files beside it, or cannot be edited by parts
            settings = AdminUi(enabled=True, port=0, data=folder / "admin", edit="off")
            yield _Interface(loaded, settings, token)
        else:
            yield _Interface(copy, copy.config.admin.ui, token)


def _copied(loaded: LoadedConfig, folder: Path, via: str) -> LoadedConfig:
    """Return a copy of the configuration with all that the demo runs differently, so that the
    interface shows no other change than those of its user, and records the call. Raises
    `ConfigError` and `EditRefused`."""
    from cordboard.config.edit.apply import apply
    from cordboard.config.edit.edits import Set
    from cordboard.config.load import load
    from cordboard_testkit.simulated_call import CALLS_PER_MINUTE

    door: dict[str, Any] = {"port": 0, "calls_per_minute": CALLS_PER_MINUTE}
    if via == "audiosocket":
        door["context"] = CONTEXT
    edits = [
        Set(("health",), {"port": 0}),
        Set(("audiosocket",), door),
        Set(("admin", "ui"), {"enabled": True, "port": 0, "data": str(folder / "admin")}),
    ]
    if CONTEXT in loaded.config.contexts:
        edits.append(Set(("contexts", CONTEXT, "recording", "enabled"), True))
    text = loaded.path.read_text("utf-8")
    copy = folder / loaded.path.name
    copy.write_text(apply(text, edits, str(loaded.path)), "utf-8")
    return load(copy, os.environ)


async def _demo(
    loaded: LoadedConfig,
    via: Literal["audiosocket", "sip"],
    output: Path,
    begun: float,
    shown: _Interface | None,
) -> list[str]:
    from rich.console import Console

    from cordboard.cli.live import LivePrinter
    from cordboard.config.load import ConfigSource
    from cordboard_testkit.caller_voice import render_script
    from cordboard_testkit.simulated_call import bench, make_folder, save, voice_of

    console = Console(highlight=False, soft_wrap=True, width=max(110, Console().width))
    printer = LivePrinter(console)

    def progress(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - begun:7.2f} s[/] [dim]{text}[/]")

    progress("starting")
    await asyncio.to_thread(make_folder, output)
    source = None
    if shown is not None:
        loaded = shown.loaded
        source = ConfigSource(loaded.path, os.environ, loaded.digests, loaded.content)
    async with bench(
        loaded.config,
        *(CONTEXT, via, loaded.config.calls.directory, printer.take, progress),
        page=None if shown is None else shown.settings,
        source=source,
    ) as place:
        spoken = await render_script(voice_of(place.engine), [step.says for step in SCRIPT])
        script = [
            replace(line, interrupts_after=step.interrupts_after)
            for line, step in zip(spoken, SCRIPT, strict=True)
        ]
        placed = await place.place(CONTEXT, script, on_line=printer.caller_says)
        printer.finish()
        failures = verdict(placed)
        _report(console, placed, save(placed, output), failures, time.monotonic() - begun)
        if shown is not None:
            call = f"calls/{placed.history.call_id}#link={shown.token}"
            console.print(f"\nThe call in the interface (the link works once, for {PERSON!r}):")
            console.print(f"  http://127.0.0.1:{place.engine.admin_port}/{call}")
            if shown.settings.edit == "file":
                console.print("What you publish there changes a copy of the configuration.")
            console.print("Enter ends the demo.")
            await _enter()
    return failures


def _report(
    console: Console,
    placed: PlacedCall,
    files: list[tuple[str, Path]],
    failures: list[str],
    seconds: float,
) -> None:
    from cordboard.cli.live import latency_table

    console.print()
    console.print(latency_table(placed.history))
    for what, path in files:
        console.print(f"{what:12} {path}")
    console.print()
    for failure in failures:
        console.print(f"[red]FAILED[/]  {failure}")
    if not failures:
        console.print(f"[green]The call went right.[/] ({seconds:.1f} s in all)")


async def _enter() -> None:
    """Wait for Enter, the end of the input, or Ctrl-C, which is a regular end, too."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), typed.set)
    try:
        await typed.wait()
        os.read(sys.stdin.fileno(), 4096)  # else the shell would run the line
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.uncancel() > 0:
            raise
    finally:
        loop.remove_reader(sys.stdin.fileno())


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
