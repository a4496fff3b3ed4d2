"""Options that several commands share, and their two first steps: configuration and log."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.errors import ExtraMissing

if TYPE_CHECKING:
    from cordboard.config.load import LoadedConfig
    from cordboard.errors import ConfigProblem
    from cordboard.observe.logging import SecretFilter

DEFAULT_CONFIG = Path("config/ai-agent.yaml")

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The configuration file.", show_default=True)
]
LogLevelOption = Annotated[
    str, typer.Option("--log-level", help="debug, info, warning or error.", show_default=True)
]


def load_config(path: Path) -> LoadedConfig:
    """Read the file; problems that are not fatal are printed. Raises `ConfigError`."""
    from cordboard.config.load import load

    loaded = load(path, os.environ)
    for problem in loaded.problems:
        print_warning(problem)
    return loaded


def require_test_kit() -> None:
    """Raise `ExtraMissing` unless the distribution `cordboard-testkit` is installed."""
    if importlib.util.find_spec("cordboard_testkit") is None:
        raise ExtraMissing(
            "this command needs the test kit, which is not installed: install the "
            "distribution cordboard-testkit (from a checkout: pip install ./testkit)"
        )


def print_warning(problem: ConfigProblem) -> None:
    """Print a problem that does not keep the engine from running."""
    print(f"cordboard: warning: {problem}", file=sys.stderr)


def set_up_log(level: str, loaded: LoadedConfig, *, json: bool = False) -> SecretFilter:
    """Log to standard error, with the configuration's secrets masked; others can be added."""
    from cordboard.observe.logging import configure

    if level.lower() not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{level!r} is not one of debug, info, warning, error")
    return configure(json=json, level=level.upper(), secrets=loaded.secrets)
