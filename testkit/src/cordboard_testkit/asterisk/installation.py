"""Finds the Asterisk of this machine: its launcher, its modules and its data folder.

Two layouts are known. *Extracted*: a folder made by `scripts/install-asterisk` whose launcher
`asterisk` starts the binary with the folder's own dynamic loader; modules and data are inside it.
*System*: a distribution's package in the standard folders.

Called by `AsteriskInstance`; nothing here starts a process.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from cordboard.errors import AsteriskMissing

_MODULE_FOLDERS = (
    "lib/*-linux-gnu/asterisk/modules",
    "lib64/asterisk/modules",
    "lib/asterisk/modules",
)
_DATA_FOLDERS = ("usr/share/asterisk", "var/lib/asterisk", "usr/local/var/lib/asterisk")


@dataclass(frozen=True, slots=True)
class AsteriskInstallation:
    """The three places that a configuration of Asterisk must know."""

    launcher: Path
    """The program to execute; it takes the arguments of `asterisk`."""
    modules: Path
    """The folder of the `.so` modules (`astmoddir`)."""
    data: Path
    """The folder with `documentation/` and `sounds/` (`astdatadir`)."""


def find_asterisk() -> AsteriskInstallation:
    """Find Asterisk: `CORDBOARD_ASTERISK`, then the cache folder, then PATH.

    The cache folder is `CORDBOARD_CACHE`, or `.cache` in the working folder or one above it.
    Raises `AsteriskMissing` with the command that installs one.
    """
    named = os.environ.get("CORDBOARD_ASTERISK")
    if named:
        launcher = Path(named).expanduser()
        if not launcher.is_file():
            raise AsteriskMissing(f"CORDBOARD_ASTERISK names {named}, which is not a file")
        return describe(launcher)
    for folder in _cache_folders():
        launcher = folder / "asterisk" / "asterisk"
        if launcher.is_file():
            return describe(launcher)
    on_path = shutil.which("asterisk") or shutil.which("asterisk", path="/usr/sbin:/usr/local/sbin")
    if on_path:
        return describe(Path(on_path))
    raise AsteriskMissing(
        "no Asterisk on this machine; run `scripts/install-asterisk`, "
        "or name one with CORDBOARD_ASTERISK=/path/to/asterisk"
    )


def describe(launcher: Path) -> AsteriskInstallation:
    """Find the modules and data that belong to a launcher. Raises `AsteriskMissing`."""
    launcher = launcher.resolve()
    extracted = launcher.parent if (launcher.parent / "usr/share/asterisk").is_dir() else None
    root = extracted or Path("/")
    modules = _first(
        [path for pattern in _MODULE_FOLDERS for path in sorted(root.glob(f"usr/{pattern}"))]
        + sorted(root.glob("usr/local/lib/asterisk/modules"))
    )
    data = _first(
        [root / name for name in _DATA_FOLDERS if (root / name / "documentation").is_dir()]
    )
    if modules is None or data is None:
        missing = "modules" if modules is None else "documentation (core-en_US.xml)"
        raise AsteriskMissing(
            f"{launcher} has no {missing} under {root}; run `scripts/install-asterisk`"
        )
    return AsteriskInstallation(launcher, modules, data)


def _cache_folders() -> list[Path]:
    named = os.environ.get("CORDBOARD_CACHE")
    if named:
        return [Path(named).expanduser()]
    here = Path.cwd()
    return [folder / ".cache" for folder in (here, *here.parents)]


def _first(paths: list[Path]) -> Path | None:
    return paths[0] if paths else None
