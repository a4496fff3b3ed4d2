"""Which names stand for something secret: fields of arguments whose values are repeated nowhere.

By the name itself (`password`, `api_key`, `door_pin`), by the operator's `secret_arguments`, and by
`secret: true` beside a property in the tool's schema, at any depth and behind local references.
Pure; one walk for each tool, kept with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cordboard.config.secrets import looks_secret
from cordboard.tools.tool import JsonObject, ToolSpec

_OF_PROPERTIES: Final = ("additionalProperties", "unevaluatedProperties")
_MAPS: Final = ("patternProperties", "dependentSchemas")
_NO_SCHEMAS: Final = frozenset(
    {"$defs", "definitions", "enum", "const", "default", "examples", "required"}
)
"""Not about a value, or looked at where they are referred to."""
_MAX_NODES: Final = 20_000
"""Far more than a schema has that may be compiled (`cordboard.tools.schema.safety`)."""


@dataclass(frozen=True, slots=True)
class SecretNames:
    """The names under which a tool's arguments hold secrets."""

    names: frozenset[str] = frozenset()
    everything: bool = False
    """Properties of any name may be secret: all of them are taken to be."""

    def covers(self, name: str) -> bool:
        """Whether the value under that name is secret, with all that is in it."""
        return self.everything or name in self.names or looks_secret(name)


NO_NAMES: Final = SecretNames()
"""Of a tool that does not exist: only what looks secret is."""


def secret_names(spec: ToolSpec) -> SecretNames:
    """The secrets of a tool by the operator's word and its schema."""
    walk = _Walk(spec.parameters)
    walk.schema()
    names = spec.secret_arguments | walk.names
    return SecretNames(frozenset(names), walk.everything) if names or walk.everything else NO_NAMES


class _Walk:
    """Every sub-schema, each with the name of the property that it is about (empty = the root)."""

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
        self.everything = True  # too large to be known

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
        node: Any = self._root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        self._waiting.append((node, owner))
