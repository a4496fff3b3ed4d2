"""The JSON Schema features that a provider accepts in the parameters of a tool, as data.

A `SchemaProfile` stands in the `limits.py` of its vendor, with the source of its rules. Where a
service's rule is not published, the profile assumes the narrower one: a constraint that appears
only in the description costs little, a refused tool list costs the call. The limits in bytes are
our own: no provider documents one, all have reports of lists that were too large.
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
    """The features that one provider accepts. For all, the root is an object with `properties`."""

    name: str
    keywords: frozenset[str]
    """Accepted keywords; others are expressed differently, described in words, or dropped."""
    one_type: bool = False
    """True: each schema has exactly one type, or alternatives. False: also several or none."""
    null: Literal["type", "flag", "none"] = "type"
    """The form of "or null": as a type, as `nullable: true`, or none."""
    anyof_alone: bool = False
    """True if no other keyword may stand beside `anyOf`, not even the description."""
    string_enums: bool = False
    """True if an enum may only contain non-empty strings."""
    formats: frozenset[str] = _STRING_FORMATS
    plain_patterns: bool = False
    """True if patterns must not use look-around or back references (RE2)."""
    parameter_names: re.Pattern[str] = field(default=re.compile(r"(?s).*\Z"))
    names_below_root: bool = True
    """True if `parameter_names` also applies to properties of inner objects."""
    known_required: bool = False
    """True if `required` may only list names in `properties`, and must not be empty."""
    omit_empty: bool = False
    """True if a tool without parameters is declared without a schema."""
    describe_all: bool = False
    """True if each value needs a description."""
    max_description: int = 1024
    """Maximum characters of one description, the tool's or a parameter's."""
    max_tools: int | None = None
    """Maximum tools in one list; None = no known limit."""
    max_bytes: int = 256 * 1024
    """Maximum bytes of the whole list as JSON."""


PLAIN = SchemaProfile("plain", JSON_SCHEMA)
"""Any JSON Schema whose root is a plain object: for providers that name no narrower rule."""
