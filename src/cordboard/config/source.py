"""The source of a running engine's configuration, so that it can be read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.config.load import LoadedConfig, load


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A file and the environment that fills its `${VARIABLES}`; its `${file:...}` are read again
    with it."""

    path: Path
    environ: Mapping[str, str]
    digests: Mapping[Path, str] = field(default_factory=dict)
    """Digests of the files in force (`LoadedConfig.digests`); they reveal a file that has changed
    since it was read."""
    register_secrets: Callable[[frozenset[str]], None] = lambda _: None
    """Receives values that must never be printed, before anything is done with them."""

    def load(self) -> LoadedConfig:
        """Read the file. Blocks on the disk: call it in a thread. Raises `ConfigError`."""
        loaded = load(self.path, self.environ)
        self.register_secrets(loaded.secrets)
        return loaded
