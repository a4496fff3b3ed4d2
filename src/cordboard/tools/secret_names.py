"""Finds the names of secret fields, whose values must not be repeated anywhere.

A field is secret by its name (`password`, `api_key`, `door_pin`), by the operator's
`secret_arguments`, or by `secret: true` beside a property in the tool's schema, at any depth and
behind local references. Pure; one traversal per tool, and the result is kept with the tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from cordboard.config.secrets import looks_secret
from cordboard.tools.schema.safety import at_pointer
from cordboard.tools.tool import JsonObject, ToolSpec

_OF_PROPERTIES: Final = ("additionalProperties", "unevaluatedProperties")
_MAPS: Final = ("patternProperties", "dependentSchemas")
_NO_SCHEMAS: Final = frozenset(
    {"$defs", "definitions", "enum", "const", "default", "examples", "required"}
)
"""Keywords that do not describe the value, or are visited where they are referred to."""
_MAX_NODES: Final = 20_000
"""Far more nodes than an accepted schema has (`cordboard.tools.schema.safety`)."""


@dataclass(frozen=True, slots=True)
class SecretNames:
    """The names under which a tool's arguments contain secrets."""

    names: frozenset[str] = frozenset()
    everything: bool = False
    """True if properties of unknown names may be secret; then all are treated as secret."""

    def covers(self, name: str) -> bool:
        """True if the value under that name, with everything in it, is secret."""
        return self.everything or name in self.names or looks_secret(name)


NO_NAMES: Final = SecretNames()
"""For a tool that does not exist: only names that look secret are."""


def secret_names(spec: ToolSpec) -> SecretNames:
    """Return a tool's secrets, from the operator's settings and its schema."""
    walk = _Walk(spec.parameters)
    walk.schema()
    names = spec.secret_arguments | walk.names
    return SecretNames(frozenset(names), walk.everything) if names or walk.everything else NO_NAMES


class _Walk:
    """Visits every sub-schema, with the name of the property it describes (empty = the root)."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._waiting: list[tuple[Any, str]] = [(root, "")]
        self._followed: set[tuple[str, str]] = set()
        self.names: set[str] = set()
        self.everything = False

    def schema(self) -> None:
        for _ in range(_MAX_NODES):
            if not self._waiting:
                return
            self._node(*self._waiting.pop())
        self.everything = True  # too large to visit completely

    def _node(self, node: Any, owner: str) -> None:
        if isinstance(node, list):
            self._waiting.extend((item, owner) for item in node)
            return
        if not isinstance(node, dict):
            return
        if node.get("secret") is True:
            self._secret(owner)
        for word, inner in node.items():
            if word == "properties" and isinstance(inner, dict):
                self._waiting.extend((value, name) for name, value in inner.items())
            elif word in _MAPS and isinstance(inner, dict):
                owned = "*" if word == "patternProperties" else owner
                self._waiting.extend((value, owned) for value in inner.values())
            elif word == "$ref" and isinstance(inner, str):
                self._follow(inner, owner)
            elif word in _OF_PROPERTIES:
                self._waiting.append((inner, "*"))
            elif word not in _NO_SCHEMAS and isinstance(inner, (dict, list)):
                self._waiting.append((inner, owner))

    def _secret(self, owner: str) -> None:
        if owner in ("", "*"):
            self.everything = True
        else:
            self.names.add(owner)

    def _follow(self, reference: str, owner: str) -> None:
        if not reference.startswith("#/") or (reference, owner) in self._followed:
            return
        self._followed.add((reference, owner))
        self._waiting.append((at_pointer(self._root, unquote(reference[1:])), owner))
