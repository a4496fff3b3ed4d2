"""`cordboard reload`: makes the running engine read the changed file."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption
from cordboard.errors import ConfigProblem


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    json: Annotated[bool, typer.Option("--json", help="Print the engine's answer.")] = False,
) -> None:
    """Make the running engine read its configuration again.

    New calls get the changes; live ones continue unchanged. A file with errors changes nothing.
    Exit status 1 when it was not accepted.
    """
    from cordboard.cli.running_engine import WORK_SECONDS, running_engine
    from cordboard.cli.screen import print_json

    engine = running_engine(config, os.environ)
    status, report = engine.answer("POST", "/reload", WORK_SECONDS)
    if status != 422:
        engine.taken(status, report)
    if json:
        print_json(report)
    else:
        _print(report)
    if not report["applied"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    for found in report["problems"]:
        problem = ConfigProblem(
            found["message"], found["key"], found["file"], found["line"], found["fatal"]
        )
        print(problem.labelled(), file=sys.stderr)
    if not report["applied"]:
        print("cordboard: the file is not in order; nothing has changed", file=sys.stderr)
        return
    for key in report["changed"]:
        print(f"changed   {key}")
    for waiting in report["deferred"]:
        print(f"deferred  {waiting['what']}, until {waiting['until']}")
    if not report["changed"] and not report["deferred"]:
        print("nothing has changed")
    print(f"generation {report['generation']}")
