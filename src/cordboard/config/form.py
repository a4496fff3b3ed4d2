"""The schema of the configuration for forms: JSON Schema, with all that a form needs to render a
key by its type alone.

Added to each key: `order` (its place in the section), `expected` (the allowed values in words),
`unit`, `secret`, `reference` (the part of the file whose names it takes), `inherits` (the key at
the top of the file whose value counts if it is not set), and `placeholders` (name and meaning of
each call variable that a text may use in braces); to each section with kinds: `kind_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from cordboard.config.plugins import Plugins, installed
from cordboard.config.shape import Shape

UNITS: Mapping[str, str] = {
    "_ms": "ms",
    "_seconds": "s",
    "_minutes": "min",
    "_hours": "h",
    "_days": "d",
    "_kib": "KiB",
    "_per_minute": "1/min",
}
"""Unit of a number by the end of its key."""


@cache
def form_schema(plugins: Plugins | None = None) -> Mapping[str, Any]:
    """Return the JSON Schema (2020-12) of the file with these parts; default: the installed ones.
    Not to be changed."""
    shape = Shape.of_file(plugins or installed())
    found = _annotated(shape.schema, shape)
    assert isinstance(found, dict)  # noqa: S101 - as the schema is one
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _annotated(schema: Any, within: Shape) -> Any:
    if isinstance(schema, list):
        return [_annotated(item, within) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        name: _annotated(item, within) for name, item in schema.items() if name != "properties"
    }
    if "properties" in schema:
        found["properties"] = {
            name: _key(name, order, Shape(value, within.definitions))
            for order, (name, value) in enumerate(schema["properties"].items())
        }
    kind_key = Shape(schema, within.definitions).kind_key if "oneOf" in schema else ""
    return {**found, "kind_key": kind_key} if kind_key else found


def _key(name: str, order: int, shape: Shape) -> dict[str, Any]:
    found: dict[str, Any] = {**_annotated(shape.schema, shape), "order": order}
    found["description"] = shape.description
    found["expected"] = shape.expected()
    is_number = any(
        each.schema.get("type") in ("integer", "number") for each in shape.alternatives()
    )
    unit = next((unit for end, unit in UNITS.items() if f"_{name}".endswith(end)), "")
    if unit and is_number:
        found["unit"] = unit
    if shape.secret:
        found["secret"] = True
    return found
