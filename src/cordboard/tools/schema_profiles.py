"""The JSON Schema features that each provider accepts in the parameters of a tool, as data.

Sources: the OpenAPI and SDK types of openai, anthropic, google-genai 3.4, deepgram-sdk and
elevenlabs, and answers of their services in public reports. Where a service's rule is not
published, the profile assumes the narrower one: a constraint that appears only in the description
costs little, a refused tool list costs the call.

- OpenAI (Realtime and Chat, not strict): any JSON Schema whose root is a plain object; an array
  needs `items`; 128 tools; descriptions of 1024 characters.
- Anthropic: JSON Schema 2020-12 with a plain object as root; names of its properties
  `[a-zA-Z0-9_.-]{1,64}` ("Property keys should match pattern").
- Gemini (`parameters`, the OpenAPI subset): one type each and `nullable`, enums of non-empty
  strings, few formats, `anyOf` without other keywords, an object without properties left out
  ("should be non-empty for OBJECT type"); 512 declarations.
- Deepgram: an object in OpenAI's style that it passes on to the configured model.
- ElevenLabs: an object language of its own: one type each, no alternatives, each value described.

The limits in bytes are our own: no provider documents one, all have reports of lists that were too
large.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

_STRUCTURE = ("type", "description", "enum", "properties", "required", "items")
_INCLUSIVE_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_OTHER_BOUNDS = (
    *("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"),
    *("minProperties", "maxProperties"),
)
_JSON_SCHEMA = frozenset(
    {
        *(*_STRUCTURE, *_INCLUSIVE_BOUNDS, *_OTHER_BOUNDS),
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


OPENAI_REALTIME = SchemaProfile("openai_realtime", _JSON_SCHEMA, max_tools=128)
OPENAI_CHAT = SchemaProfile("openai_chat", _JSON_SCHEMA, max_tools=128)
ANTHROPIC = SchemaProfile(
    "anthropic",
    _JSON_SCHEMA,
    parameter_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z"),
    names_below_root=False,
)
GEMINI = SchemaProfile(
    "gemini",
    frozenset(
        {
            *(*_STRUCTURE, *_INCLUSIVE_BOUNDS, "minProperties", "maxProperties"),
            *("anyOf", "nullable", "pattern", "format"),
        }
    ),
    one_type=True,
    null="flag",
    anyof_alone=True,
    string_enums=True,
    formats=frozenset({"date-time", "float", "double", "int32", "int64"}),
    plain_patterns=True,
    parameter_names=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z"),
    known_required=True,
    omit_empty=True,
    max_tools=512,
    max_bytes=64 * 1024,
)
DEEPGRAM = SchemaProfile(
    "deepgram",
    frozenset({*_STRUCTURE, *_INCLUSIVE_BOUNDS, "anyOf", "pattern", "format"}),
    one_type=True,
    plain_patterns=True,
    known_required=True,
    max_tools=128,
    max_bytes=128 * 1024,
)
ELEVENLABS = SchemaProfile(
    "elevenlabs",
    frozenset(_STRUCTURE),
    one_type=True,
    null="none",
    string_enums=True,
    formats=frozenset(),
    known_required=True,
    describe_all=True,
)
PROFILES = {
    profile.name: profile
    for profile in (OPENAI_REALTIME, OPENAI_CHAT, ANTHROPIC, GEMINI, DEEPGRAM, ELEVENLABS)
}
