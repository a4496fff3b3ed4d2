"""What the services would refuse, as strict checkers of a tool's parameters.

Written from their published types and error texts, without the profiles: what the sanitiser lets
through by mistake is found here. Each gives the complaints; an empty list is a schema it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

JSON_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def children(node: dict[str, Any], place: str) -> Iterator[tuple[Any, str]]:
    for keyword in ("properties", "patternProperties"):
        for name, child in node.get(keyword, {}).items():
            yield child, f"{place}.{name}"
    for keyword in ("items", "additionalProperties"):
        if keyword in node and node[keyword] not in (True, False):
            yield node[keyword], f"{place}[{keyword}]"
    for number, child in enumerate(node.get("anyOf", ())):
        yield child, f"{place}|{number}"


def walk(
    node: Any, place: str, rules: Callable[[dict[str, Any], str], Iterator[str]]
) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{place}: not an object: {node!r}"
        return
    yield from (f"{place}: {complaint}" for complaint in rules(node, place))
    if len(node.get("description", "")) > 1024:
        yield f"{place}: description too long"
    for child, where in children(node, place):
        yield from walk(child, where, rules)


def unknown(node: dict[str, Any], known: str) -> Iterator[str]:
    for keyword in node.keys() - set(known.split()):
        yield f"unknown name {keyword!r}: cannot find field"


def plain_root(root: Any) -> Iterator[str]:
    if not isinstance(root, dict) or root.get("type") != "object":
        yield "schema must be of type object"
    elif not isinstance(root.get("properties"), dict):
        yield "object schema missing properties"
    elif {"anyOf", "oneOf", "allOf", "enum", "not"} & root.keys():
        yield "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"


def _json_schema(node: dict[str, Any], place: str) -> Iterator[str]:
    yield from unknown(
        node,
        "type description enum properties required items anyOf additionalProperties "
        "patternProperties pattern format default minimum maximum exclusiveMinimum "
        "exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems "
        "minProperties maxProperties",
    )
    types = node.get("type", [])
    types = [types] if isinstance(types, str) else types
    if not set(types) <= JSON_TYPES or ("type" in node and not types):
        yield f"bad type {types}"
    if "array" in types and "items" not in node:
        yield "array schema missing items"
    if "enum" in node and not node["enum"]:
        yield "empty enum"


def openai(root: Any) -> list[str]:
    return [*plain_root(root), *walk(root, "", _json_schema)]


def anthropic(root: Any) -> list[str]:
    pattern = "^[a-zA-Z0-9_.-]{1,64}$"
    keys = [key for key in root.get("properties", {}) if not re.fullmatch(pattern[1:-1], key)]
    return [*openai(root), *(f"property keys should match {pattern}: {key!r}" for key in keys)]


def _one_type(node: dict[str, Any], types: set[str]) -> Iterator[str]:
    if "anyOf" in node:
        if not node["anyOf"]:
            yield "empty anyOf"
    elif not isinstance(node.get("type"), str) or node["type"] not in types:
        yield f"type must be specified, and one: {node.get('type')!r}"
    if node.get("type") == "array" and "items" not in node:
        yield "items: missing field"
    if "required" in node and not node["required"]:
        yield "required: should be non-empty"
    if "properties" in node and place_of_missing(node):
        yield f"required: property is not defined: {place_of_missing(node)}"
    if "required" in node and "properties" not in node:
        yield "required without properties"
    if "enum" in node and not node["enum"]:
        yield "enum: should be non-empty"
    if "pattern" in node and re.search(r"\(\?[=!<]|\\[1-9]", node["pattern"]):
        yield "pattern: not RE2"


def place_of_missing(node: dict[str, Any]) -> list[str]:
    return [name for name in node.get("required", ()) if name not in node["properties"]]


def _gemini(node: dict[str, Any], place: str) -> Iterator[str]:
    yield from unknown(
        node,
        "type format description nullable enum items properties required minItems maxItems "
        "minProperties maxProperties minLength maxLength pattern minimum maximum anyOf",
    )
    if "anyOf" in node and len(node) > 1:
        yield "when using any_of, it must be the only field set"
    yield from _one_type(node, JSON_TYPES - {"null"})
    if "properties" in node and not node["properties"]:
        yield "properties: should be non-empty for OBJECT type"
    for name in node.get("properties", {}):
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            yield f"invalid property name {name!r}"
    if "enum" in node and (
        node["type"] != "string"
        or not all(isinstance(value, str) and value for value in node["enum"])
    ):
        yield "enum: only non-empty strings"
    formats = {
        "string": {"date-time", "enum"},
        "number": {"float", "double"},
        "integer": {"int32", "int64"},
    }
    if "format" in node and node["format"] not in formats.get(node["type"], ()):
        yield f"format {node['format']!r} not supported for {node['type']}"


def gemini(root: Any) -> list[str]:
    return [] if root is None else [*plain_root(root), *walk(root, "", _gemini)]


def _deepgram(node: dict[str, Any], place: str) -> Iterator[str]:
    yield from unknown(
        node,
        "type format description enum items properties required minItems maxItems minLength "
        "maxLength pattern minimum maximum anyOf",
    )
    yield from _one_type(node, JSON_TYPES)


def deepgram(root: Any) -> list[str]:
    return [*plain_root(root), *walk(root, "", _deepgram)]


def _elevenlabs(node: dict[str, Any], place: str) -> Iterator[str]:
    yield from unknown(node, "type description enum items properties required")
    yield from _one_type(node, JSON_TYPES - {"null"})
    if place and not node.get("description"):
        yield "must set one of: description, dynamic_variable, constant_value"
    if "enum" in node and node["type"] != "string":
        yield "enum: strings only"


def elevenlabs(root: Any) -> list[str]:
    return [*plain_root(root), *walk(root, "", _elevenlabs)]


CHECKERS: dict[str, Callable[[Any], list[str]]] = {
    "openai_realtime": openai,
    "openai_chat": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "deepgram": deepgram,
    "elevenlabs": elevenlabs,
}
