"""The JSON Schema that a provider accepts in the parameters of a tool, as data.

A `SchemaProfile` stands in the `limits.py` of its vendor, with the source of its rules. Where a
service's rule is not published, the profile takes the narrower reading: a constraint that is only
told in the description costs little, a refused tool list costs the call. The caps on bytes are our
own: no provider names one, all have reports of too large lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

STRUCTURE = ("type", "description", "enum", "properties", "required", "items")
INCLUSIVE_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_OTHER_BOUNDS = (
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
    *("minProperties", "maxProperties"),
)
JSON_SCHEMA = frozenset(
    {
        *(*STRUCTURE, *INCLUSIVE_BOUNDS, *_OTHER_BOUNDS),
        *("anyOf", "additionalProperties", "patternProperties", "pattern", "format", "default"),
    }
)
_STRING_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6"),
        *("uuid", "uri"),
    }
)


@dataclass(frozen=True, slots=True)
class SchemaProfile:
    """What one provider accepts. The root is a plain object with `properties` for all of them."""

    name: str
    keywords: frozenset[str]
    """Keywords that may appear; all else is said another way, told in words, or dropped."""
    one_type: bool = False
    """Each schema states exactly one type, or alternatives; False: also several or none."""
    null: Literal["type", "flag", "none"] = "type"
    """How "or null" is said: as a type, as `nullable: true`, or not at all."""
    anyof_alone: bool = False
    """No other keyword may stand beside `anyOf`, not even the description."""
    string_enums: bool = False
    """An enum may only hold strings that are not empty."""
    formats: frozenset[str] = _STRING_FORMATS
    plain_patterns: bool = False
    """Patterns without look-around and back references only (RE2)."""
    parameter_names: re.Pattern[str] = field(default=re.compile(r"(?s).*\Z"))
    names_below_root: bool = True
    """Whether `parameter_names` counts for properties of inner objects too."""
    known_required: bool = False
    """`required` may only list what `properties` describes, and is not empty."""
    omit_empty: bool = False
    """A tool without parameters is declared without a schema."""
    describe_all: bool = False
    """Each value needs a description."""
    max_description: int = 1024
    """Characters of one description, the tool's or a parameter's."""
    max_tools: int | None = None
    """Tools in one list; None = no limit known."""
    max_bytes: int = 256 * 1024
    """Of the whole list as JSON."""


PLAIN = SchemaProfile("plain", JSON_SCHEMA)
"""Any JSON Schema whose root is a plain object: for providers that name no narrower rule."""
