"""Decides if an untrusted JSON Schema may be compiled, and for values of which depth.

Pure, and without recursion into parts that are not yet known to be bounded. The author of the
schema may also be the author of the values that it checks (an MCP server's output schema and its
results), so both the work of compiling and the work of one check are bounded here:

- size, nesting, references (local ones only), number and length of patterns;
- sub-schemas that one value has to pass, with all local references followed (`allOf` of two
  references to an `allOf` of two references ...);
- the same for nested values: ten alternatives that each lead to the schema itself one level down
  are 10^8 checks for a value eight levels deep. Such a schema (a filter language, say) is not
  refused, but it checks shallow values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from cordboard.errors import SchemaRefused
from cordboard.tools.tool import JsonObject

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_EXPANSION = 20_000
"""Maximum sub-schemas that one value may have to pass."""
MAX_VALUE_DEPTH = 16
"""Maximum levels of a value that is checked, for any schema."""
MAX_PATTERNS = 32
"""Maximum different patterns in a schema. One may take 1.2 ms to compile within the size limit of
`cordboard.tools.schema`, and blocks everything else meanwhile (jsonschema-rs 0.60, measured)."""
MAX_PATTERN_LENGTH = 1_000
_LONGEST_CHAIN = 400
"""Maximum steps of the traversal; well within Python's recursion limit."""

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_SINGLE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_ONE_OF_PROPERTIES = ("additionalProperties", "unevaluatedProperties")
_ONE_OF_ITEMS = ("items", "additionalItems", "unevaluatedItems")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_LEADING_ON = frozenset(
    {
        *(*_IN_PLACE_LISTS, *_IN_PLACE_SINGLE, *_IN_PLACE_MAPS),
        *(*_ONE_OF_PROPERTIES, *_ONE_OF_ITEMS, *_REFERENCES),
        *("properties", "patternProperties", "propertyNames", "prefixItems", "contains"),
    }
)
"""Keywords with sub-schemas; a schema without any of them counts as one check."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The limits for values that a schema may check."""

    depth: int
    """Levels of nesting of a value; a flat object has two."""
    work: int
    """Maximum sub-schemas that one part of such a value may have to pass."""


def examine(schema: JsonObject, root_is_object: bool = True) -> Reach:
    """Return the limits for a schema. Raises `SchemaRefused`."""
    if not isinstance(schema, dict):
        raise SchemaRefused(f"the schema is {type(schema).__name__}, expected an object")
    if depth_of(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise SchemaRefused(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    try:
        size = len(orjson.dumps(schema))
    except TypeError as error:
        raise SchemaRefused(f"the schema is not JSON: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise SchemaRefused(f"the schema has {size} bytes, at most {MAX_SCHEMA_BYTES} are accepted")
    if root_is_object and schema.get("type", "object") != "object":
        raise SchemaRefused(f"the schema's root is of type {schema['type']!r}, expected 'object'")
    anchors = _anchors_and_references(schema)
    _refuse_many_patterns(schema)
    return _Expansion(schema, anchors).reach()


def depth_of(value: Any, limit: int) -> int:
    """Return the levels of nesting, counted up to `limit + 1`, without recursion."""
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


def weight_of(value: Any, limit: int, text: int = 64) -> int:
    """Return the number of values inside a value, counted little further than `limit`.

    A string counts once more for every `text` characters in it.
    """
    weight = 0
    waiting: list[Any] = [value]
    while waiting and weight <= limit:
        node = waiting.pop()
        weight += 1
        if isinstance(node, str):
            weight += len(node) // text
        elif isinstance(node, dict):
            waiting.extend(node.values())
            weight += sum(map(len, node)) // text
        elif isinstance(node, (list, tuple)):
            waiting.extend(node)
    return weight


def _anchors_and_references(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the schema's anchors; refuse references that lead, or could lead, out of it."""
    anchors: dict[str, JsonObject] = {}
    for node in _nodes(schema):
        for key in _REFERENCES:
            reference = node.get(key)
            if isinstance(reference, str) and not reference.startswith("#"):
                raise SchemaRefused(f"reference outside the schema: {reference[:80]!r}")
        if node is not schema and isinstance(node.get("$id"), str):
            raise SchemaRefused("a part of the schema has an `$id` of its own")
        for key in ("$anchor", "$dynamicAnchor"):
            name = node.get(key)
            if isinstance(name, str):
                anchors.setdefault(name, node)
    return anchors


def _refuse_many_patterns(schema: JsonObject) -> None:
    patterns: set[str] = set()
    for node in _nodes(schema):
        pattern, keyed = node.get("pattern"), node.get("patternProperties")
        if isinstance(pattern, str):
            patterns.add(pattern)
        if isinstance(keyed, dict):
            patterns.update(keyed)
    if len(patterns) > MAX_PATTERNS:
        raise SchemaRefused(
            f"the schema has {len(patterns)} patterns, at most {MAX_PATTERNS} are accepted"
        )
    longest = max(map(len, patterns), default=0)
    if longest > MAX_PATTERN_LENGTH:
        raise SchemaRefused(
            f"a pattern has {longest} characters, at most {MAX_PATTERN_LENGTH} are accepted"
        )


class _Expansion:
    """Counts the sub-schemas that a value must pass: references may multiply."""

    def __init__(self, root: JsonObject, anchors: dict[str, JsonObject]) -> None:
        self._root = root
        self._anchors = anchors
        self._known: dict[tuple[int, int], int] = {}

    def reach(self) -> Reach:
        for node in _nodes(self._root):
            if self._faced(node, 0, 0) > MAX_EXPANSION:
                raise SchemaRefused("the schema multiplies itself through its references")
        work = 1
        for below in range(1, MAX_VALUE_DEPTH):
            more = self._faced(self._root, below, 0)
            if more > MAX_EXPANSION:
                if below == 1:
                    raise SchemaRefused("the schema multiplies itself through its references")
                return Reach(below, work)
            work = more
        return Reach(MAX_VALUE_DEPTH, work)

    def _faced(self, node: Any, below: int, chain: int) -> int:
        """Return the sub-schemas for a value with `below` levels under it, along its worst path."""
        if not isinstance(node, dict) or _LEADING_ON.isdisjoint(node):
            return 1
        key = (id(node), below)
        known = self._known.get(key)
        if known is not None:
            return known
        if chain > _LONGEST_CHAIN:
            raise SchemaRefused("the schema's references form a chain that is too long")
        self._known[key] = 1  # the validator cuts a cycle in place; count it once
        total = 1
        for child in self._in_place(node):
            total += self._faced(child, below, chain + 1)
            if total > MAX_EXPANSION:
                break
        if below and total <= MAX_EXPANSION:
            total += max(
                self._child(*_for_a_property(node), below, chain),
                self._child(*_for_an_item(node), below, chain),
            )
        self._known[key] = total
        return total

    def _child(self, one_of: list[Any], all_of: list[Any], below: int, chain: int) -> int:
        """Return the sub-schemas for a part of the value: the worst of `one_of`, plus all of
        `all_of`."""
        worst = 0
        for schema in one_of:
            worst = max(worst, self._faced(schema, below - 1, chain + 1))
        for schema in all_of:
            worst += self._faced(schema, below - 1, chain + 1)
            if worst > MAX_EXPANSION:
                break
        return worst

    def _in_place(self, node: JsonObject) -> list[Any]:
        children: list[Any] = [node[key] for key in _IN_PLACE_SINGLE if key in node]
        for key in _IN_PLACE_LISTS:
            several = node.get(key)
            if isinstance(several, list):
                children.extend(several)
        for key in _IN_PLACE_MAPS:
            mapping = node.get(key)
            if isinstance(mapping, dict):
                children.extend(mapping.values())
        for key in _REFERENCES:
            reference = node.get(key)
            if isinstance(reference, str):
                children.append(self._target(reference))
        return children

    def _target(self, reference: str) -> Any:
        pointer = unquote(reference.removeprefix("#"))
        if pointer in self._anchors:
            return self._anchors[pointer]
        return at_pointer(self._root, pointer)


def at_pointer(root: Any, pointer: str) -> Any:
    """Return the part of a schema that a JSON pointer (RFC 6901) leads to; None if there is
    none."""
    start, *parts = pointer.split("/")
    target = None if start else root
    for part in parts:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            index = int(name) if name.isascii() and name.isdigit() else len(target)
            target = target[index] if index < len(target) else None
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target


def _for_a_property(node: JsonObject) -> tuple[list[Any], list[Any]]:
    named, keyed = node.get("properties"), node.get("patternProperties")
    one_of = [node[key] for key in _ONE_OF_PROPERTIES if key in node]
    one_of += named.values() if isinstance(named, dict) else ()
    all_of = [node["propertyNames"]] if "propertyNames" in node else []
    all_of += keyed.values() if isinstance(keyed, dict) else ()
    return one_of, all_of


def _for_an_item(node: JsonObject) -> tuple[list[Any], list[Any]]:
    one_of: list[Any] = []
    for key in (*_ONE_OF_ITEMS, "prefixItems"):
        schemas = node.get(key)
        one_of += schemas if isinstance(schemas, list) else [schemas]
    return one_of, [node["contains"]] if "contains" in node else []


def _nodes(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield every object inside the schema, including the root, without recursion."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
