"""Reading `ai-agent.yaml`: from a path to a checked `Config`, or to a list of all that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.config.schema import Config
from cordboard.errors import ConfigProblem


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that can be used."""

    config: Config
    path: Path
    problems: tuple[ConfigProblem, ...] = ()
    """What is wrong without being fatal; the engine runs without those parts."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that must never be printed; for `observe.logging`."""


def load(path: Path, environ: Mapping[str, str]) -> LoadedConfig:
    """Read, expand and check the file. Raises `ConfigError` with every problem at once."""
    raise NotImplementedError
