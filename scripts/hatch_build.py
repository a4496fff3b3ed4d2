"""The build hook of the wheel: it must contain the interface, built from the sources beside it.

`CORDBOARD_WITHOUT_ADMIN_UI=1` builds a wheel without it. An editable install needs none: it takes
whatever `make admin-ui` leaves in its place.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASSETS = Path("src/cordboard/admin/assets")
SOURCES = Path("admin-ui")
LEFT_OUT = "CORDBOARD_WITHOUT_ADMIN_UI"


class AdminUiHook(BuildHookInterface):
    """Found by hatch as the only hook of this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise `RuntimeError` if the interface is missing or older than its sources."""
        fault = fault_of(Path(self.root))
        if version != "editable" and fault and os.environ.get(LEFT_OUT) != "1":
            raise RuntimeError(
                f"the interface {fault}: run make admin-ui, or set {LEFT_OUT}=1 for a package "
                "without it"
            )


def fault_of(root: Path) -> str:
    """Return what is wrong with the built interface; empty if it may be shipped."""
    stamp = root / ASSETS / "sources.sha256"
    if not stamp.exists():
        return "is not built"
    has_sources = (root / SOURCES / "src").is_dir()  # an image's build has the assets alone
    if has_sources and stamp.read_text().strip() != hash_of_sources(root):
        return "is older than its sources"
    return ""


def hash_of_sources(root: Path) -> str:
    """Return the hash that `scripts/install-admin-ui --build` leaves with the assets."""
    folder = root / SOURCES
    files = [file for part in ("src", "public") for file in (folder / part).rglob("*")]
    files += [file for file in folder.glob("[!.]*.*") if file.name != "biome.json"]
    names = sorted(file.relative_to(root).as_posix() for file in files if file.is_file())
    lines = [
        f"{hashlib.sha256((root / name).read_bytes()).hexdigest()}  {name}\n" for name in names
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
