"""The verdict on a configuration's text before it is put into force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cordboard.config.changes import Change, changes_with_effect
from cordboard.config.load import read
from cordboard.config.plugins import Plugins
from cordboard.config.schema import Config
from cordboard.errors import ConfigError, ConfigProblem


@dataclass(frozen=True, slots=True)
class Review:
    """The verdict on one text."""

    problems: tuple[ConfigProblem, ...]
    """Each with line, column and end, as far as its place is known; in the order of the text."""
    changes: tuple[Change, ...] = ()
    """Differences from the running configuration; empty if the text cannot be used."""
    usable: bool = False
    """True if an engine could run with it."""


def review(
    text: str,
    running: Config,
    path: Path,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
) -> Review:
    """Check a text as the engine would when it loads it, and compare it with the configuration in
    force. Changes nothing; never raises for a text.

    `path` is the file that the text is for: its relative `${file:...}` are read. Takes as long as
    loading (`config.load`): call it in a thread.
    """
    try:
        loaded = read(text.removeprefix("\ufeff"), path, environ, plugins)
    except ConfigError as error:
        return Review(tuple(error.problems))
    return Review(loaded.problems, changes_with_effect(running, loaded.config), usable=True)
