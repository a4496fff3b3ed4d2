"""What the schema allows at a place in the file, in plain words.

`Shape` walks the JSON Schema of `Config`; error messages (`config.explain`) and the reference in
the docs (`config.reference`) are both made from it, so they always say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from cordboard.config.patterns import PATTERNS_IN_WORDS
from cordboard.config.schema import Config
from cordboard.config.yaml_document import KeyPath

Kinds: TypeAlias = Callable[[KeyPath], str]
"""Tells of which kind the section at a path is, where it may be of several (`kind: http`)."""


@cache
def _schema_of_file() -> Mapping[str, Any]:
    return Config.model_json_schema()


def _of_any_kind(path: KeyPath) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The schema of one value."""

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any]

    @classmethod
    def of_file(cls) -> Shape:
        """The shape of the whole file."""
        schema = _schema_of_file()
        return cls(schema, schema["$defs"])

    def _sub(self, schema: Mapping[str, Any]) -> Shape:
        return Shape(schema, self.definitions)

    def resolved(self) -> Shape:
        """Itself, or what it refers to."""
        reference = self.schema.get("$ref")
        if reference is None:
            return self
        return self._sub(self.definitions[reference.rsplit("/", 1)[1]]).resolved()

    def alternatives(self) -> list[Shape]:
        """The shapes a value may have, without `null`; just itself when there is one."""
        here = self.resolved()
        branches = here.schema.get("anyOf") or here.schema.get("oneOf")
        if branches is None:
            return [] if here.schema.get("type") == "null" else [here]
        return [shape for branch in branches for shape in here._sub(branch).alternatives()]

    def kinds(self) -> dict[str, Shape]:
        """Of a section that is of one of several kinds, each kind's own; else empty."""
        key = self.kind_key
        if not key:
            return {}
        return {str(shape.keys()[key].schema["const"]): shape for shape in self.alternatives()}

    @property
    def kind_key(self) -> str:
        """The key that says of which kind such a section is; empty for any other."""
        if "oneOf" not in self.resolved().schema:
            return ""
        tables = [shape.keys() for shape in self.alternatives()]
        telling = (
            name
            for name in tables[0]
            if all(name in keys and "const" in keys[name].schema for keys in tables)
        )
        return next(telling, "")

    def at(self, path: KeyPath, kinds: Kinds = _of_any_kind) -> Shape | None:
        """The shape of the value at `path`; None where nothing is allowed."""
        return self._at(path, 0, kinds)

    def _at(self, path: KeyPath, depth: int, kinds: Kinds) -> Shape | None:
        if depth == len(path):
            return self
        kind = self.kinds().get(kinds(path[:depth])) if path[:depth] else None
        for shape in (kind or self).alternatives():
            inner = shape._step(path[depth])
            found = inner._at(path, depth + 1, kinds) if inner is not None else None
            if found is not None:
                return found
        return None

    def _step(self, part: str | int) -> Shape | None:
        if isinstance(part, int):
            return self._sub(self.schema["items"]) if "items" in self.schema else None
        keys = self.keys()
        if part in keys:
            return keys[part]
        entry = self.entry()
        return entry[1] if entry else None

    def keys(self) -> dict[str, Shape]:
        """The fixed keys of a section, of all alternatives together."""
        return {
            name: self._sub(schema)
            for shape in self.alternatives()
            for name, schema in shape.schema.get("properties", {}).items()
        }

    def required(self) -> set[str]:
        """The keys of a section that have no default."""
        return {name for shape in self.alternatives() for name in shape.schema.get("required", ())}

    def entry(self) -> tuple[str, Shape] | None:
        """Of a mapping with names of the operator's choice: the names in words, and the values."""
        for shape in self.alternatives():
            for pattern, schema in shape.schema.get("patternProperties", {}).items():
                return _pattern_in_words(pattern), self._sub(schema)
            schema = shape.schema.get("additionalProperties")
            if isinstance(schema, Mapping):
                return "a text", self._sub(schema)
            if schema is True:
                return "a text", self._sub({})
        return None

    @property
    def secret(self) -> bool:
        return any(shape.schema.get("format") == "password" for shape in self.alternatives())

    @property
    def description(self) -> str:
        """What the value is for: the words of the key, else those of the section it holds."""
        own = self.schema.get("description")
        return str(own or self.resolved().schema.get("description", ""))

    def choices(self) -> list[str]:
        """The words a value is to be chosen from; empty when it is not such a choice."""
        found: list[str] = []
        for shape in self.alternatives():
            constant = shape.schema.get("const")
            found += shape.schema.get("enum", [] if constant is None else [constant])
        return found

    def expected(self) -> str:
        """What a value here must be: `a whole number from 0 to 65535`, `true or false`, ..."""
        words = [shape._expected_alone() for shape in self.alternatives()]
        return " or ".join(dict.fromkeys(words)) or "nothing"

    def _expected_alone(self) -> str:
        schema = self.schema
        choices = self.choices()
        if choices:
            listed = ", ".join(map(str, choices))
            return listed if len(choices) == 1 else f"one of {listed}"
        match schema.get("type"):
            case "string" if "pattern" in schema:
                return _pattern_in_words(schema["pattern"])
            case "string":
                return "a path" if schema.get("format") == "path" else "a text"
            case "boolean":
                return "true or false"
            case "integer":
                return "a whole number" + self._range()
            case "number":
                return "a number" + self._range()
            case "array":
                return f"a list{self._size()}"
            case "object":
                return f"a mapping (key: value lines){self._size()}"
        return "any value"

    def _range(self) -> str:
        low, high = self.schema.get("minimum"), self.schema.get("maximum")
        if low is not None and high is not None:
            return f" from {low} to {high}"
        if low is not None:
            return f" of at least {low}"
        return "" if high is None else f" of at most {high}"

    def _size(self) -> str:
        least = self.schema.get("minItems") or self.schema.get("minProperties")
        if not least:
            return ""
        return f" with at least {least} {'entry' if least == 1 else 'entries'}"


def _pattern_in_words(pattern: str) -> str:
    return PATTERNS_IN_WORDS.get(pattern, f"a text of the form {pattern}")
