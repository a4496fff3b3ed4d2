"""Converts a tool's JSON Schema to a plain one: no references, no `allOf`, valid keywords only.

Schemas come from outside, so their shape is not trusted: local references are inlined (up to a
depth and a number of sub-schemas), cycles end in the bare type of their target, references to other
documents are never followed, and keywords with values of the wrong type are ignored.

The plain form accepts everything that the schema accepts, and sometimes more: constraints that it
cannot express (`not`, `if`, `dependentRequired` ...) are kept in words under `WORDS`. In the plain
form `type` is a list, `const` an `enum`, `oneOf` an `anyOf`, a tuple a list of its alternatives;
`false` appears only under `additionalProperties`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard
from urllib.parse import unquote

import orjson

from cordboard.tools.schema.merging import WORDS, Contradiction, both, distinct, same
from cordboard.tools.schema.safety import at_pointer, depth_of
from cordboard.tools.schema.words import said
from cordboard.tools.tool import JsonObject

MAX_DEPTH = 32
"""Levels of a value that are described; deeper parts may have any shape."""
MAX_STEPS = 64
"""Maximum nesting of sub-schemas, including those for the same part of a value."""
MAX_INLINED = 10_000
"""Maximum number of sub-schemas that replace references."""
MAX_VALUE_LEVELS = 16
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")

_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ONLY_TOLD = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("contains", "minContains", "maxContains", "propertyNames", "contentEncoding"),
)
_FORGOTTEN = ("$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems")
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")
"""In these drafts, keywords beside a `$ref` are ignored."""


class Inliner:
    """Makes one schema plain; `notes` lists what could not be kept."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_INLINED
        draft = root.get("$schema")
        self._lone_references = isinstance(draft, str) and any(old in draft for old in _OLD_DRAFTS)
        self.notes: dict[str, None] = {}

    def plain(self) -> JsonObject:
        """Return the plain form of the whole schema; `{}` if nothing can be expressed."""
        return self._schema(self._root, _Place()) or {}

    def _schema(self, node: Any, place: _Place) -> JsonObject | None:
        """Return a plain sub-schema; None if no value can be valid under it."""
        if node is False:
            return None
        if not isinstance(node, dict):
            return {}
        if place.references:
            self._left -= 1
        if place.level > MAX_DEPTH or place.steps > MAX_STEPS or self._left < 0:
            self.notes["nested too deeply: its inner parts may have any shape"] = None
            return _outline(node)
        if place.steps and isinstance(node.get("$id"), str):
            self.notes["a part with an `$id` of its own: left open"] = None
            return _outline(node)
        reference = node.get("$ref")
        if isinstance(reference, str) and self._lone_references:
            node = {key: node[key] for key in ("$ref", "description") if key in node}
        return self._joined(node, place, self._own(node, place))

    def _joined(self, node: JsonObject, place: _Place, plain: JsonObject) -> JsonObject | None:
        """Add the constraints of `$ref`, `allOf`, `oneOf` and `anyOf`."""
        parts: list[JsonObject | None] = []
        if isinstance(node.get("$ref"), str):
            parts.append(self._referred(node["$ref"], place))
        parts += [self._schema(part, place.same()) for part in _list(node.get("allOf"))]
        for keyword in ("anyOf", "oneOf"):
            if isinstance(node.get(keyword), list) and node[keyword]:
                parts.append(self._alternatives(_list(node[keyword]), place))
        if "oneOf" in node:
            self.notes["`oneOf` became `anyOf`"] = None
        for part in parts:
            if part is None:
                return None
            try:
                plain = both(plain, part)
            except Contradiction:
                self.notes["parts that contradict each other: the first counts"] = None
        return plain

    def _alternatives(self, nodes: list[Any], place: _Place) -> JsonObject | None:
        branches = [self._schema(node, place.same()) for node in nodes]
        kept = distinct(branch for branch in branches if branch is not None)
        if not kept:
            return None
        return {"anyOf": kept} if len(kept) > 1 else kept[0]

    def _referred(self, reference: str, place: _Place) -> JsonObject | None:
        target = self._target(reference)
        if target is None:
            self.notes[f"the reference {reference[:80]!r} leads nowhere here: left open"] = None
            return {}
        if reference in place.references:
            self.notes["a recursive schema: cut at its first repetition"] = None
            return _outline(target) if isinstance(target, dict) else {}
        return self._schema(target, place.through(reference))

    def _target(self, reference: str) -> Any:
        """Return the target of a local reference; None for all others."""
        if not reference.startswith("#"):
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            found = list(_named(self._root, pointer))
            return found[0] if len(found) == 1 else None
        return at_pointer(self._root, pointer)

    def _own(self, node: JsonObject, place: _Place) -> JsonObject:
        """Convert the keywords that do not need other parts of the schema."""
        plain: JsonObject = {}
        for keyword in ("description", "pattern", "format"):
            if isinstance(node.get(keyword), str) and node[keyword]:
                plain[keyword] = node[keyword]
        _take_types(node, plain)
        _take_values(node, plain)
        _take_numbers(node, plain)
        if isinstance(node.get("required"), list):
            plain["required"] = _texts(node["required"])
        self._take_properties(node, plain, place)
        self._take_items(node, plain, place)
        words = [said(keyword, node[keyword]) for keyword in _ONLY_TOLD if keyword in node]
        if any(words):
            plain[WORDS] = [*plain.get(WORDS, []), *filter(None, words)]
        for keyword in (*_ONLY_TOLD, *_FORGOTTEN):
            if keyword in node:
                self.notes[f"`{keyword}` is not kept"] = None
        return plain

    def _take_properties(self, node: JsonObject, plain: JsonObject, place: _Place) -> None:
        for keyword in ("properties", "patternProperties"):
            if isinstance(node.get(keyword), dict):
                schemas = {
                    str(name): self._schema(schema, place.below())
                    for name, schema in node[keyword].items()
                }
                # Properties that can never be valid are left out.
                plain[keyword] = {k: schema for k, schema in schemas.items() if schema is not None}
        if "additionalProperties" in node:
            rest = self._schema(node["additionalProperties"], place.below())
            if rest is None or rest:
                plain["additionalProperties"] = False if rest is None else rest

    def _take_items(self, node: JsonObject, plain: JsonObject, place: _Place) -> None:
        first, rest = node.get("prefixItems"), node.get("items")
        if isinstance(rest, list):  # up to draft 2019-09
            first, rest = rest, node.get("additionalItems")
        tuple_of = first if isinstance(first, list) else []
        after = {} if rest is None else self._schema(rest, place.below())
        if not tuple_of:
            if after is None:
                plain["maxItems"] = 0
            elif rest is not None:
                plain["items"] = after
            return
        if after is None:
            plain["maxItems"] = min(plain.get("maxItems", len(tuple_of)), len(tuple_of))
        kinds = [self._schema(item, place.below()) for item in tuple_of]
        if after is not None and plain.get("maxItems", len(tuple_of) + 1) > len(tuple_of):
            kinds.append(after)
        kept = distinct([kind for kind in kinds if kind is not None])
        if {} in kept or not kept:
            plain["items"] = {}
        else:
            plain["items"] = {"anyOf": kept} if len(kept) > 1 else kept[0]
        plain[WORDS] = [*plain.get(WORDS, []), f"a fixed order of {len(tuple_of)} items"]
        self.notes["a tuple became a list of any of its parts"] = None


class _Place:
    """Position in the schema: depth, and the references that led there."""

    __slots__ = ("level", "references", "steps")

    def __init__(
        self, level: int = 0, steps: int = 0, references: frozenset[str] = frozenset()
    ) -> None:
        self.level = level
        self.steps = steps
        self.references = references

    def below(self) -> _Place:
        return _Place(self.level + 1, self.steps + 1, self.references)

    def same(self) -> _Place:
        return _Place(self.level, self.steps + 1, self.references)

    def through(self, reference: str) -> _Place:
        return _Place(self.level, self.steps + 1, self.references | {reference})


def _outline(node: JsonObject) -> JsonObject:
    plain: JsonObject = {}
    if isinstance(node.get("description"), str) and node["description"]:
        plain["description"] = node["description"]
    _take_types(node, plain)
    return plain


def _take_types(node: JsonObject, plain: JsonObject) -> None:
    stated = node.get("type")
    listed = [stated] if isinstance(stated, str) else _list(stated)
    types = [kind for kind in TYPES if kind in listed]
    if types and node.get("nullable") is True and "null" not in types:  # OpenAPI's way
        types.append("null")
    if types:
        plain["type"] = types


def _take_values(node: JsonObject, plain: JsonObject) -> None:
    values = node.get("enum")
    kept = list(values) if isinstance(values, list) else []
    if "const" in node and (not kept or any(same(node["const"], value) for value in kept)):
        kept = [node["const"]]
    if kept and node.get("nullable") is True and None not in kept:
        kept.append(None)
    if kept and _is_json(kept):
        plain["enum"] = kept
    if "default" in node and _is_json(node["default"]):
        plain["default"] = node["default"]


def _take_numbers(node: JsonObject, plain: JsonObject) -> None:
    for keyword in _NUMBERS:
        number = node.get(keyword)
        if _is_number(number) and (keyword != "multipleOf" or number > 0):
            plain[keyword] = number
    for keyword in _COUNTS:
        count = node.get(keyword)
        if _is_number(count) and count >= 0 and count == int(count):
            plain[keyword] = int(count)
    if node.get("uniqueItems") is True:
        plain["uniqueItems"] = True


def _is_number(value: Any) -> TypeGuard[int | float]:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and -(2**63) <= value < 2**63
    )


def _is_json(value: Any) -> bool:
    """True if a value can be serialised: no number beyond 64 bits, not nested too deeply."""
    if depth_of(value, MAX_VALUE_LEVELS) > MAX_VALUE_LEVELS:
        return False
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(values: list[Any]) -> list[str]:
    return list(dict.fromkeys(value for value in values if isinstance(value, str)))


def _named(root: JsonObject, anchor: str) -> Iterator[JsonObject]:
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("$anchor") == anchor:
                yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
