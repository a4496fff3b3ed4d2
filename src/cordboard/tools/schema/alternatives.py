"""Splits a plain schema into alternatives of exactly one type each, for languages that require it.

`anyOf` beside other keywords becomes alternatives that each contain those keywords too; several
types become one alternative each, with the keywords that apply to it; null is reported separately.
A schema without a type gets the type that its keywords apply to, or all types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cordboard.tools.schema.merging import WORDS, Contradiction, both, either
from cordboard.tools.tool import JsonObject

MAX_CHOICES = 64
"""Maximum alternatives of one schema; beyond it they are not split."""
_ABOUT: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": (
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "format",
    ),
    "array": ("items", "minItems", "maxItems", "uniqueItems"),
    "object": (
        *("properties", "required", "patternProperties", "additionalProperties"),
        *("minProperties", "maxProperties"),
    ),
}
_ABOUT["integer"] = _ABOUT["number"]
_TYPED = frozenset(keyword for keywords in _ABOUT.values() for keyword in keywords)
_SCALARS: tuple[JsonObject, ...] = tuple(
    {"type": [kind]} for kind in ("string", "number", "boolean")
)


@dataclass(slots=True)
class Alternatives:
    """The alternatives of one schema."""

    choices: list[JsonObject]
    """At least one; each with a `type` of one entry, never null, and no `anyOf`."""
    nullable: bool
    """True if null is allowed too."""
    outer: frozenset[str]
    """The keys among description and words that are not part of the choices."""
    guessed: bool = False
    """True if no type was stated."""


def alternatives(plain: JsonObject) -> Alternatives:
    """Split a plain schema into its alternatives."""
    if "anyOf" in plain:
        return _of_branches(plain)
    types = _types(plain)
    guessed = "type" not in plain and "enum" not in plain
    if not types:
        return Alternatives(
            [*(dict(kind) for kind in _SCALARS), {"type": ["object"]}, _any_list()],
            True,
            frozenset(("description", WORDS)),
            True,
        )
    nullable = "null" in types and ("enum" not in plain or None in plain["enum"])
    kinds = [kind for kind in types if kind != "null"]
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    several = len(kinds) > 1
    choices = [choice for kind in kinds if (choice := only(plain, kind, not several))]
    if not choices:  # only null, or values that no type allows
        return Alternatives([only({**plain, "enum": []}, "string")], nullable, frozenset())
    outer = frozenset(("description", WORDS)) if several else frozenset[str]()
    return Alternatives(choices, nullable, outer, guessed)


def collapsed(choices: list[JsonObject]) -> JsonObject:
    """Merge several choices into one, for a language without alternatives."""
    kinds = list(dict.fromkeys(choice["type"][0] for choice in choices))
    if kinds == ["object"]:
        return {**either({"anyOf": choices}), "type": ["object"]}
    kind = "string" if "string" in kinds else kinds[0]
    chosen = [choice for choice in choices if choice["type"] == [kind]]
    others = [other for other in kinds if other != kind]
    words = [f"or {' or '.join(others)}"] if others else []
    if len(chosen) == 1:
        return {**chosen[0], WORDS: [*chosen[0].get(WORDS, []), *words]}
    merged: JsonObject = {"type": [kind], WORDS: words}
    if all("enum" in choice for choice in chosen):
        merged["enum"] = [value for choice in chosen for value in choice["enum"]]
    texts = [choice["description"] for choice in chosen if "description" in choice]
    if texts:
        merged["description"] = "; or ".join(dict.fromkeys(texts))
    return merged


def _of_branches(plain: JsonObject) -> Alternatives:
    shared = {key: plain[key] for key in plain if key not in ("anyOf", "description", WORDS)}
    choices: list[JsonObject] = []
    nullable = guessed = False
    for branch in plain["anyOf"]:
        try:
            split = alternatives(both(branch, shared))
        except Contradiction:
            continue
        nullable = nullable or split.nullable
        guessed = guessed or split.guessed
        if not split.choices or _is_null(branch):
            continue
        told = {key: branch[key] for key in split.outer if key in branch}
        choices += [{**told, **split.choices[0]}, *split.choices[1:]]
    if len(choices) > MAX_CHOICES or not choices:
        kept = alternatives(shared) if choices or not nullable else None
        choices = kept.choices if kept else [{"type": ["string"]}]
    return Alternatives(choices, nullable, frozenset(("description", WORDS)), guessed)


def _is_null(branch: JsonObject) -> bool:
    return bool(branch.get("type") == ["null"] or branch.get("enum") == [None])


def _types(plain: JsonObject) -> list[str]:
    if "type" in plain:
        return list(plain["type"])
    if "enum" in plain:
        return list(dict.fromkeys(_type_of(value) for value in plain["enum"]))
    return [
        kind
        for kind in ("string", "number", "array", "object")
        if _TYPED & plain.keys() & {*_ABOUT[kind]}
    ][:1]


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def only(plain: JsonObject, kind: str, alone: bool = True) -> JsonObject:
    """Return the part of a schema that applies to one type; `{}` if no value of that type fits.

    `alone`: the part also gets the description and words of the whole.
    """
    about = {*_ABOUT.get(kind, ()), "default", *(("description", WORDS) if alone else ())}
    part: JsonObject = {"type": [kind]}
    part |= {keyword: value for keyword, value in plain.items() if keyword in about}
    if plain.get("enum"):
        values = [value for value in plain["enum"] if _fits(value, kind)]
        if not values:
            return {}
        part["enum"] = values
    return part


def _fits(value: Any, kind: str) -> bool:
    is_type = _type_of(value)
    if kind == "number":
        return is_type in ("integer", "number")
    if kind == "integer":
        return is_type == "integer" or (is_type == "number" and value.is_integer())
    return is_type == kind


def _any_list() -> JsonObject:
    return {
        "type": ["array"],
        "items": {"anyOf": [*(dict(kind) for kind in _SCALARS), {"type": ["object"]}]},
    }
