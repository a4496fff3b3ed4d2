"""Merges plain schemas: both at once (`allOf`), or either (alternatives as one object).

"Plain" is the form made by `cordboard.tools.schema.inlining`: no references, no `allOf`, types as
lists, `anyOf` as the only alternative. A merge that cannot be exact becomes wider, never narrower:
the result accepts every value that both (or either) accept. The inputs are not modified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import lcm
from typing import Any

import orjson

from cordboard.tools.schema.words import said
from cordboard.tools.tool import JsonObject

WORDS = "\0words"
"""Key of a plain schema: constraints expressed in words, a list of texts."""
_NOT_COMPARED = 10_000
"""Number of pairs of enum values beyond which enums are not intersected."""


class Contradiction(Exception):
    """No value can be valid under both schemas."""


def both(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return a schema for values valid under both. Raises `Contradiction`."""
    joined = dict(first)
    for keyword, other in second.items():
        if keyword not in first:
            joined[keyword] = other
        elif keyword in _JOINED:
            joined[keyword] = _JOINED[keyword](first[keyword], other)
        elif not same(first[keyword], other) and keyword not in ("description", "default"):
            # Only one pattern, format or set of alternatives can be kept.
            word = said(keyword, other) if keyword in ("pattern", "format", "multipleOf") else ""
            joined[WORDS] = _all_of(joined.get(WORDS, []), [word] if word else [])
    if not joined.get(WORDS, True):
        del joined[WORDS]
    return joined


def either(schema: JsonObject) -> JsonObject:
    """Merge the alternatives (`anyOf`) of an object schema, for places that allow none."""
    branches = [branch for branch in schema.get("anyOf", ()) if may_be(branch, "object")]
    outer = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
    if not branches:
        return outer
    branches = [either(branch) for branch in branches]
    united: JsonObject = {"properties": _united_properties(branches)}
    required = [
        name
        for name in branches[0].get("required", ())
        if all(name in branch.get("required", ()) for branch in branches[1:])
    ]
    if required:
        united["required"] = required
    if all(_closed(branch) for branch in branches):
        united["additionalProperties"] = False
    united[WORDS] = _sets(branches, required)
    try:
        return both(outer, united)
    except Contradiction:
        return outer


def may_be(schema: JsonObject, kind: str) -> bool:
    """True if the schema's type allows this kind of value."""
    types = schema.get("type")
    return types is None or kind in types or (kind == "integer" and "number" in types)


def distinct(schemas: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the schemas in order, without duplicates."""
    kept: dict[bytes, JsonObject] = {}
    for schema in schemas:
        try:
            key = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # nested too deeply to be serialised
            key = str(id(schema)).encode()
        kept.setdefault(key, schema)
    return list(kept.values())


def same(first: Any, second: Any) -> bool:
    """True for equal JSON values: 1 equals 1.0 but not true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            same(value, second[key]) for key, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def _united_properties(branches: list[JsonObject]) -> JsonObject:
    names = dict.fromkeys(name for branch in branches for name in branch.get("properties", ()))
    united: JsonObject = {}
    for name in names:
        schemas: list[JsonObject] = []
        for branch in branches:
            if name in branch.get("properties", {}):
                schema = branch["properties"][name]
            elif _closed(branch):
                continue
            else:
                schema = {}
            schemas.append(schema)
        schemas = distinct(schemas)
        if len(schemas) == 1:
            united[name] = schemas[0]
        elif {} in schemas:  # one alternative allows anything here: mention it in words only
            united[name] = _told(next(schema for schema in schemas if schema))
        else:
            united[name] = {"anyOf": schemas}
    return united


def _told(schema: JsonObject) -> JsonObject:
    words = [" or ".join(schema["type"])] if "type" in schema else []
    words += [
        said(keyword, schema[keyword]) for keyword in ("enum", "pattern") if keyword in schema
    ]
    kept: JsonObject = {WORDS: _all_of(words, schema.get(WORDS, []))}
    if "description" in schema:
        kept["description"] = schema["description"]
    return kept


def _sets(branches: list[JsonObject], required: list[str]) -> list[str]:
    """Describe in words which further properties belong together."""
    sets = [
        " with ".join(name for name in branch.get("required", ()) if name not in required)
        for branch in branches
    ]
    return [f"needs {', or '.join(dict.fromkeys(sets))}"] if all(sets) else []


def _closed(branch: JsonObject) -> bool:
    return branch.get("additionalProperties") is False and "patternProperties" not in branch


def _types(first: list[str], second: list[str]) -> list[str]:
    """Return the common types, in the order of `first`; an integer is a number, too."""
    kept: list[str] = []
    for kind in first:
        if kind in second or (kind == "integer" and "number" in second):
            kept.append(kind)
        elif kind == "number" and "integer" in second and "integer" not in first:
            kept.append("integer")
    if not kept:
        raise Contradiction
    return kept


def _enums(first: list[Any], second: list[Any]) -> list[Any]:
    if len(first) * len(second) > _NOT_COMPARED:
        return first
    kept = [value for value in first if any(same(value, other) for other in second)]
    if not kept:
        raise Contradiction
    return kept


def _all_of(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _maps(first: JsonObject, second: JsonObject) -> JsonObject:
    joined = first | second
    for name in first.keys() & second.keys():
        try:
            joined[name] = both(first[name], second[name])
        except Contradiction:
            joined[name] = first[name]
    return joined


def _rest(first: JsonObject | bool, second: JsonObject | bool) -> JsonObject | bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return False
    return _items(first, second)


def _items(first: JsonObject, second: JsonObject) -> JsonObject:
    try:
        return both(first, second)
    except Contradiction:  # only an empty list or object is valid then
        return first


def _multiples(first: float, second: float) -> float:
    if isinstance(first, int) and isinstance(second, int):
        common = lcm(first, second)
        return common if common < 2**53 else first
    return first


_JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _enums,
    "required": _all_of,
    WORDS: _all_of,
    "properties": _maps,
    "patternProperties": _maps,
    "additionalProperties": _rest,
    "items": _items,
    "uniqueItems": lambda first, second: first or second,
    "multipleOf": _multiples,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
