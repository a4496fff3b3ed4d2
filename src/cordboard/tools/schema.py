"""The check of a tool call's arguments against the tool's own JSON Schema.

MCP servers control their schemas, so a schema is material from outside: it is compiled once, when
the tool is found, and refused there (`SchemaRefused`) if it is no schema, names anything outside
itself, or is so large, deep or self-multiplying that a check could hold the event loop. No `$ref`
is ever fetched. Patterns run on an engine with a step limit.

Arguments that do not fit give texts written for a model that should mend them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import jsonschema_rs
import orjson

from cordboard.errors import SchemaRefused
from cordboard.tools.tool import JsonObject

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_EXPANSION = 20_000
"""Sub-schemas that one value may have to pass, all local references followed."""
MAX_ARGUMENT_DEPTH = 16
MAX_ARGUMENT_BYTES = 256 * 1024
MAX_PROBLEMS = 5
MAX_PROBLEM_LENGTH = 240

_BACKTRACK_LIMIT = 100_000

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_SINGLE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas",)


class Validator(Protocol):
    """A compiled schema."""

    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Iterator[jsonschema_rs.ValidationError]: ...


def compile_schema(schema: JsonObject) -> Validator:
    """Compile a schema from outside. Raises `SchemaRefused`."""
    _refuse_hostile(schema)
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse_retrieval,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).partition("\n")[0]
        raise SchemaRefused(f"not a usable JSON Schema: {reason[:MAX_PROBLEM_LENGTH]}") from None


class ArgumentChecker:
    """A compiled schema; `problems` is empty when the arguments fit."""

    __slots__ = ("_validator",)

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema. Raises `SchemaRefused`."""
        self._validator = compile_schema(schema)

    def problems(self, arguments: JsonObject) -> list[str]:
        """What is wrong with the arguments, at most `MAX_PROBLEMS` texts; empty when they fit."""
        too_much = _too_much(arguments)
        if too_much:
            return [too_much]
        if self._validator.is_valid(arguments):
            return []
        found: list[str] = []
        for error in self._validator.iter_errors(arguments):
            if len(found) == MAX_PROBLEMS:
                found.append("and more")
                break
            found.append(_describe(error))
        return found


def _describe(error: jsonschema_rs.ValidationError) -> str:
    path = ".".join(str(part) for part in error.instance_path)
    text = error.message
    if len(text) > MAX_PROBLEM_LENGTH:
        half = MAX_PROBLEM_LENGTH // 2
        text = f"{text[:half]} … {text[-half:]}"
    return f"{path}: {text}" if path else text


def _too_much(arguments: JsonObject) -> str:
    if _depth(arguments, MAX_ARGUMENT_DEPTH) > MAX_ARGUMENT_DEPTH:
        return f"the arguments are nested deeper than {MAX_ARGUMENT_DEPTH} levels"
    try:
        size = len(orjson.dumps(arguments))
    except TypeError as error:
        return f"the arguments are not JSON: {error}"
    if size > MAX_ARGUMENT_BYTES:
        return f"the arguments are longer than {MAX_ARGUMENT_BYTES} bytes"
    return ""


def _refuse_retrieval(uri: str) -> jsonschema_rs.JSONType:
    raise ValueError(f"references outside the schema are not followed ({uri[:80]})")


def _refuse_hostile(schema: JsonObject) -> None:
    if not isinstance(schema, dict):
        raise SchemaRefused(f"the schema is {type(schema).__name__}, expected an object")
    if _depth(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise SchemaRefused(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    try:
        size = len(orjson.dumps(schema))
    except TypeError as error:
        raise SchemaRefused(f"the schema is not JSON: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise SchemaRefused(f"the schema has {size} bytes, at most {MAX_SCHEMA_BYTES} are accepted")
    if schema.get("type", "object") != "object":
        raise SchemaRefused(f"the schema's root is of type {schema['type']!r}, expected 'object'")
    for node in _nodes(schema):
        reference = node.get("$ref", node.get("$dynamicRef"))
        if isinstance(reference, str) and not reference.startswith("#"):
            raise SchemaRefused(f"reference outside the schema: {reference[:80]!r}")
    _Expansion(schema).check()


class _Expansion:
    """Counts how many sub-schemas one value must pass: chains of `$ref` may multiply."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._cost: dict[int, int] = {}

    def check(self) -> None:
        for node in _nodes(self._root):
            if self._of(node, 0) > MAX_EXPANSION:
                raise SchemaRefused("the schema multiplies itself through its references")

    def _of(self, node: Any, depth: int) -> int:
        if not isinstance(node, dict):
            return 1
        known = self._cost.get(id(node))
        if known is not None:
            return known
        if depth > 4 * MAX_SCHEMA_DEPTH:
            raise SchemaRefused("the schema's references form a chain that is too long")
        self._cost[id(node)] = 1  # a circle in place is cut by the validator; count it once
        total = 1
        for child in self._in_place(node):
            total += self._of(child, depth + 1)
            if total > MAX_EXPANSION:
                break
        self._cost[id(node)] = total
        return total

    def _in_place(self, node: JsonObject) -> Iterator[Any]:
        for key in _IN_PLACE_LISTS:
            children = node.get(key)
            if isinstance(children, list):
                yield from children
        for key in _IN_PLACE_SINGLE:
            if key in node:
                yield node[key]
        for key in _IN_PLACE_MAPS:
            mapping = node.get(key)
            if isinstance(mapping, dict):
                yield from mapping.values()
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield self._target(reference)

    def _target(self, reference: str) -> Any:
        target: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            if part:
                name = part.replace("~1", "/").replace("~0", "~")
                target = target.get(name) if isinstance(target, dict) else None
        return target


def _nodes(schema: JsonObject) -> Iterator[JsonObject]:
    """Every object inside the schema, the root included, without recursion."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _depth(value: Any, limit: int) -> int:
    """Levels of nesting, counted no further than `limit + 1`, without recursion."""
    level = 0
    layer: list[Any] = [value]
    while layer and level <= limit:
        below: list[Any] = []
        for node in layer:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, (list, tuple)):
                below.extend(node)
        layer = below
        level += 1
    return level
