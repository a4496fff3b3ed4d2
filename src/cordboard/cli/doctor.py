"""`cordboard doctor`: checks an installation step by step, and prints the lines that mend it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    load_config,
    require_test_kit,
    run_async,
)

if TYPE_CHECKING:
    from cordboard.api.administration_view import Step

_INDENT = " " * 9


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    freepbx: Annotated[
        bool, typer.Option("--freepbx", help="Print the dialplan for FreePBX's file.")
    ] = False,
    test_call: Annotated[
        str,
        typer.Option(
            metavar="CONTEXT",
            help="Place a simulated call to this context too, to an engine of its own; services "
            "that it uses cost as in any call.",
        ),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print the steps as one object.")] = False,
) -> None:
    """Check the set-up: Asterisk, its modules, ports, voices, disk and clock.

    Each line says what was found, and below it what mends it, ready to paste. Nothing is changed,
    and an engine may run meanwhile. Exit status 1 when a step is bad.
    """
    from cordboard.cli.screen import print_json
    from cordboard.config.load import ConfigSource
    from cordboard.observe.logging import configure
    from cordboard.runtime.setup_check import check_setup

    secrets = configure(json=False, level="CRITICAL")  # the steps say it all
    source = ConfigSource(config, os.environ, register_secrets=secrets.register)
    steps = asyncio.run(check_setup(source, _ready(config), freepbx=freepbx))
    if not json:
        for step in steps:
            _print(step)
    if test_call and steps[0].state != "bad":
        steps.append(_test_call(config, test_call))
        if not json:
            _print(steps[-1])
    if json:
        print_json({"steps": [asdict(step) for step in steps]})
    if any(step.state == "bad" for step in steps):
        raise typer.Exit(1)


def _ready(config: Path) -> Mapping[str, Any] | None:
    """Return `/ready` of the engine that runs with this file; None if there is none."""
    from cordboard.cli.running_engine import READ_SECONDS, running_engine
    from cordboard.errors import ConfigError, EngineUnreachable

    try:
        status, body = running_engine(config, os.environ).answer("GET", "/ready", READ_SECONDS)
    except (ConfigError, EngineUnreachable):
        return None  # the step `config` or `ports` says more
    return body if status in (200, 503) and isinstance(body, dict) else None


def _print(step: Step) -> None:
    lines = step.said.splitlines() or [""]
    print(f"{step.state:<8} {step.what}: {lines[0]}")
    for line in lines[1:]:
        print(f"{_INDENT}{line}")
    if step.fix is not None:
        print(f"{_INDENT}-> {step.fix.text}")
        for line in step.fix.copy.splitlines():
            print(f"{_INDENT}   {line}".rstrip())


def _test_call(path: Path, context: str) -> Step:
    """Place a call as `cordboard call` does."""
    from cordboard.api.administration_view import Fix, Step
    from cordboard.cli.call import Lines, all_answered, call_own
    from cordboard.errors import CordboardError
    from cordboard.runtime.setup_check import TEST_WORDS

    what = "test call"
    try:
        require_test_kit()
        config = load_config(path).config
        if context not in config.contexts:
            raise CordboardError(f"there is no context {context!r}")
        lines = Lines((TEST_WORDS,), ())
        placed = run_async(call_own(config, context, lines, "audiosocket", quiet=True))
    except CordboardError as error:
        return Step("test-call", "bad", what, str(error))
    if not all_answered(placed, lines):
        fix = Fix("The ledger of the newest call says why", "cordboard calls list")
        return Step("test-call", "bad", what, f"{context} gave no answer", fix)
    *_, (_, answer) = placed.history.transcript()
    return Step("test-call", "ok", what, f"{context} answered: {answer}")
