"""The values that the schema allows at a place in the file, in plain words.

`Shape` walks the JSON Schema of `Config`; error messages (`config.explain`) and the reference in
the docs (`config.reference`) are both made from it, so they always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from cordboard.config.chosen import MARK
from cordboard.config.patterns import PATTERNS_IN_WORDS
from cordboard.config.plugins import Plugins, installed
from cordboard.config.providers import BRAINS, RECOGNISERS, VOICES
from cordboard.config.schema import AGENTS, Config
from cordboard.config.tools.entry import TOOLS
from cordboard.config.yaml_document import KeyPath

_CHOSEN = (AGENTS, RECOGNISERS, BRAINS, VOICES, TOOLS)
Kinds: TypeAlias = Callable[[KeyPath], str]
"""Returns the kind of the section at a path, where several are possible (`kind: http`)."""


@cache
def _schema_of_file(plugins: Plugins) -> Mapping[str, Any]:
    """Return the JSON schema of `Config`, with the sections of the installed parts in it."""
    sections = {each.role: each.sections(plugins) for each in _CHOSEN}
    models: list[type[BaseModel]] = [Config]
    models += [section for known in sections.values() for section in known.values()]
    references, whole = models_json_schema([(m, "validation") for m in dict.fromkeys(models)])
    choices = {
        role: [references[section, "validation"] for section in known.values()]
        for role, known in sections.items()
    }
    found: dict[str, Any] = {role: {"oneOf": known} for role, known in choices.items()}
    found |= {"transport": {"type": "string", "enum": [*plugins.transports()]}}
    schema: Mapping[str, Any] = _with_choices({**references[Config, "validation"], **whole}, found)
    return schema


def _with_choices(value: Any, choices: Mapping[str, Any]) -> Any:
    """Return a schema with the choices in the place of each mark."""
    if isinstance(value, list):
        return [_with_choices(item, choices) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _with_choices(item, choices) for key, item in value.items()}
    return found | choices[value[MARK]] if MARK in value else found


def _of_any_kind(path: KeyPath) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The schema of one value."""

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any]

    @classmethod
    def of_file(cls, plugins: Plugins | None = None) -> Shape:
        """Return the shape of the whole file, with these parts; default: the installed ones."""
        schema = _schema_of_file(plugins or installed())
        return cls(schema, schema["$defs"])

    def _sub(self, schema: Mapping[str, Any]) -> Shape:
        return Shape(schema, self.definitions)

    def resolved(self) -> Shape:
        """Return itself, or the shape that it refers to."""
        reference = self.schema.get("$ref")
        if reference is None:
            return self
        return self._sub(self.definitions[reference.rsplit("/", 1)[1]]).resolved()

    def alternatives(self) -> list[Shape]:
        """Return the possible shapes of a value, without `null`; itself if there is only one."""
        here = self.resolved()
        branches = here.schema.get("anyOf") or here.schema.get("oneOf")
        if branches is None:
            return [] if here.schema.get("type") == "null" else [here]
        return [shape for branch in branches for shape in here._sub(branch).alternatives()]

    def kinds(self) -> dict[str, Shape]:
        """Return kind → shape for a section with kinds; empty for any other."""
        key = self.kind_key
        if not key:
            return {}
        return {str(shape.keys()[key].schema["const"]): shape for shape in self.alternatives()}

    @property
    def names_kind(self) -> bool:
        """True if pydantic names the kind in the places of errors: not for installed sections."""
        return bool(self.kinds()) and MARK not in self.schema

    @property
    def kind_key(self) -> str:
        """The key that names the kind of such a section; empty for any other."""
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
        """Return the shape of the value at `path`; None if no value is allowed there."""
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
        """Return the fixed keys of a section, of all alternatives together."""
        return {
            name: self._sub(schema)
            for shape in self.alternatives()
            for name, schema in shape.schema.get("properties", {}).items()
        }

    def required(self) -> set[str]:
        """Return the keys of a section that have no default."""
        return {name for shape in self.alternatives() for name in shape.schema.get("required", ())}

    def entry(self) -> tuple[str, Shape] | None:
        """Return, for a mapping with names of the operator's choice, the names in words and the
        shape of the values."""
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
        """Purpose of the value: the description of the key, else of its section."""
        own = self.schema.get("description")
        return str(own or self.resolved().schema.get("description", ""))

    def choices(self) -> list[str]:
        """Return the allowed words; empty when the value is not such a choice."""
        found: list[str] = []
        for shape in self.alternatives():
            constant = shape.schema.get("const")
            found += shape.schema.get("enum", [] if constant is None else [constant])
        return found

    def expected(self) -> str:
        """Return the expected value in words: `a whole number from 0 to 65535`, `true or false`."""
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
