"""The result of an import while it grows, and a reader of foreign sections that loses nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import KeyPath, dotted

_NEEDED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-([^}]{0,1000}))?\}")
_ILLEGAL: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("context", "provider", "destination"), (r"[^a-z0-9_-]+", 63)),
    "server": (r"[^a-z0-9_]+", 41),
    "tool": (r"[^a-z0-9_]+", 64),
}
"""Kind of name → characters that it may not have, and its greatest length."""


@dataclass(slots=True)
class Imported:
    """Our configuration, and what is to be said about it."""

    tree: dict[str, Any] = field(default_factory=dict)
    comments: dict[KeyPath, str] = field(default_factory=dict)
    """Place in `tree` → comment above it."""
    taken: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)
    """Place, and how it differs now."""
    left: list[tuple[str, str]] = field(default_factory=list)
    """Place without a counterpart, and the reason with the nearest thing."""
    names: dict[str, dict[str, str]] = field(
        default_factory=lambda: {kind: {} for kind in _ILLEGAL}
    )
    """Kind → their name → ours."""

    def put(self, section: str, name: str, entry: Any, origin: str, about: str = "") -> None:
        """Write `section.name` below a comment about its origin, and report it."""
        place = (*section.split("."), name)
        above = self.tree
        for step in place[:-1]:
            above = above.setdefault(step, {})
        above[name] = entry
        self.comments[place] = f"From {origin}{about}."
        kind = entry.get("type") or entry.get("kind")
        self.taken.append(f"{origin} → {dotted(place)}{f' ({kind})' if kind else ''}")

    def renamed(self, kind: str, place: str, name: str) -> str:
        """Return a free name of ours for a name of theirs, and report a change."""
        illegal, longest = _ILLEGAL[kind]
        plain = re.sub(illegal, "_", name.strip().lower()).strip("_-") or kind
        plain = plain if plain[0].isalpha() else f"{kind[0]}_{plain}"
        if kind in ("server", "tool"):
            plain = re.sub("_+", "_", plain)
        new = plain = plain[:longest]
        number, taken = 2, set(self.names[kind].values())
        while new in taken:
            new = f"{plain[: longest - len(str(number)) - 1]}_{number}"
            number += 1
        if new != name:
            self.changed.append((place, f"the {kind} {name} is called {new}"))
        self.names[kind][name] = new
        return new


class Part:
    """A section of a foreign file. It remembers the keys that were read; `rest` reports others.

    A value of the wrong kind is reported and counts as missing, so readers need no checks.
    """

    def __init__(self, value: object, path: KeyPath, result: Imported) -> None:
        self.path = path
        self._result = result
        self._read: set[str] = set()
        self._inner: dict[str, set[str]] = {}
        self._values: dict[str, Any] = self._expected(path, value, dict, "a section") or {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def get(self, key: str) -> Any:
        """Return any value; None without one."""
        self._read.add(key)
        return self._values.get(key)

    def text(self, key: str) -> str:
        """Return a text, or a number as text."""
        value = self.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return str(self._expected((*self.path, key), value, str, "a text") or "")

    def truth(self, key: str, default: bool = True) -> bool:
        """Return a truth value, also one of YAML 1.1 (`yes`, `off`)."""
        value = _default_of(self.get(key))
        if isinstance(value, str) and value:
            return value.lower() in ("yes", "true", "on", "1")
        return bool(value) if isinstance(value, bool | int) else default

    def number(self, key: str) -> float | None:
        """Return a finite number, also one that is the default of a variable."""
        value = _default_of(self.get(key))
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if value is not None and not math.isfinite(number):
            self._wrong((*self.path, key), "a number")
        return number if math.isfinite(number) else None

    def values(self, key: str) -> list[Any]:
        """Return a list."""
        return self._expected((*self.path, key), self.get(key), list, "a list") or []

    def names(self, key: str) -> list[str]:
        """Return the texts of a list."""
        return [value for value in self.values(key) if isinstance(value, str)]

    def part(self, key: str) -> Part:
        """Return a section; an empty one without any."""
        return Part(self.get(key), (*self.path, key), self._result)

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Yield the named sections that were not read yet; null ones are skipped."""
        for name in [name for name in self._values if name not in self._read]:
            if self.get(name) is not None:
                yield name, self.part(name)

    def list_of_parts(self, key: str) -> list[Part]:
        """Return a list of sections."""
        return [Part(v, (*self.path, key, i), self._result) for i, v in enumerate(self.values(key))]

    def copy(self, keys: Mapping[str, str] | Iterable[str]) -> dict[str, Any]:
        """Return values under other keys; dots lead into sections, of both sides."""
        copied: dict[str, Any] = {}
        table = keys if isinstance(keys, Mapping) else {key: key for key in keys}
        for theirs, ours in table.items():
            section, dot, inner = theirs.partition(".")
            value = self.get(section)
            if dot:
                self._inner.setdefault(section, set()).add(inner)
                value = value.get(inner) if isinstance(value, dict) else None
            if value is None or value == "":
                continue
            *sections, last = ours.split(".")
            place = copied
            for name in sections:
                place = place.setdefault(name, {})
            place[last] = value
        return copied

    def leave(self, keys: Mapping[str, str]) -> None:
        """Report keys without a counterpart that are there: key → reason."""
        for key, reason in keys.items():
            if key in self:
                self._result.left.append((dotted((*self.path, key)), reason))
            self._read.add(key)

    def skip(self, keys: Iterable[str]) -> None:
        """Say nothing about keys that need no counterpart."""
        self._read.update(keys)

    def rest(self, reason: str = "unknown to this importer; see docs/from-ava.md") -> None:
        """Report the keys that were not read, in one line."""
        keys = [k for k, value in self._values.items() if k not in self._read and value is not None]
        for section, read in self._inner.items():
            value = self._values.get(section)
            inside = value if isinstance(value, dict) else {}
            keys += [f"{section}.{key}" for key in inside if key not in read]
        if keys:
            place = dotted((*self.path, keys[0]))
            self._result.left.append((", ".join([place, *keys[1:]]), reason))

    def _expected(self, path: KeyPath, value: object, kind: type, words: str) -> Any:
        if value is None or isinstance(value, kind):
            return value
        self._wrong(path, words)
        return None

    def _wrong(self, path: KeyPath, words: str) -> None:
        self._result.left.append((dotted(path) or "the file", f"expected {words}"))


def needed_variables(text: str) -> list[str]:
    """Return the variables without a default, in their order."""
    return list(dict.fromkeys(found[1] for found in _NEEDED.finditer(text) if found[1]))


def _default_of(value: Any) -> Any:
    """`${NAME:-320}` → `320`; a variable without a default counts as missing."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return found[1] or None if found else value
