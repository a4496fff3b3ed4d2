"""`cordboard check`: is the configuration in order? Starts nothing."""

from __future__ import annotations

import sys

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption
from cordboard.errors import ConfigError


def command(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Check the configuration without starting anything.

    Every problem is one line: file, line, key, what is wrong and what was expected. Warnings do
    not keep the engine from running. Exit status 1 when it could not run.
    """
    from cordboard.cli.options import load_config

    try:
        loaded = load_config(config)
    except ConfigError as error:
        for problem in error.problems:
            print(problem.labelled(), file=sys.stderr)
        count = sum(problem.fatal for problem in error.problems)
        print(f"{config}: {count} problem{'s' if count > 1 else ''}", file=sys.stderr)
        raise typer.Exit(1) from None
    contexts = ", ".join(loaded.config.contexts)
    print(f"{config}: in order. Contexts: {contexts}.")
