"""Names that our schema takes, for those of another system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cordboard.importing.result import Imported

_ILLEGAL: Mapping[str, tuple[str, int]] = {
    "context": (r"[^a-z0-9_-]+", 63),
    "provider": (r"[^a-z0-9_-]+", 63),
    "destination": (r"[^a-z0-9_-]+", 63),
    "server": (r"[^a-z0-9_]+", 41),
    "tool": (r"[^a-z0-9_]+", 64),
}
"""Kind of name → characters that it may not have, and its greatest length."""


@dataclass(slots=True)
class Names:
    """AVA's names and ours, by their kind."""

    result: Imported
    _kinds: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, str]:
        """Return AVA's name → ours."""
        return self._kinds.setdefault(kind, {})

    def renamed(self, kind: str, place: str, name: str) -> str:
        """Return a free name of ours for a name of theirs, and report a change."""
        illegal, longest = _ILLEGAL[kind]
        plain = re.sub(illegal, "_", name.strip().lower()).strip("_-") or kind
        plain = plain if plain[0].isalpha() else f"{kind[0]}_{plain}"
        if kind in ("server", "tool"):
            plain = re.sub("_+", "_", plain)
        plain = plain[:longest]
        new, number = plain, 2
        taken = set(self.of(kind).values())
        while new in taken:
            new = f"{plain[: longest - len(str(number)) - 1]}_{number}"
            number += 1
        if new != name:
            self.result.changed.append((place, f"the {kind} {name} is called {new}"))
        self.of(kind)[name] = new
        return new
