"""Rewrites a plain schema (`cordboard.tools.schema.inlining`) in the language of one provider.

The result is not narrower than the original, as far as the provider's language allows; where it
must be (one type each, no null), the notes say so. Dropped constraints are put in words into the
description.
"""

from __future__ import annotations

import math
import re
from typing import Any

from cordboard.tools.schema.alternatives import alternatives, collapsed, only
from cordboard.tools.schema.merging import WORDS, Contradiction, both, distinct, either
from cordboard.tools.schema.words import described, said
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject

MAX_REWRITTEN = 40_000
"""Maximum sub-schemas of one tool; parts beyond it may have any shape."""
_BEYOND_RE2 = re.compile(r"\(\?[=!<]|\\[1-9]|\(\?P=")
_BOUNDS = ("minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems")
_MORE_BOUNDS = ("uniqueItems", "minProperties", "maxProperties")
_FORMAT_OF = {"int32": "integer", "int64": "integer", "float": "number", "double": "number"}
_EXCLUSIVE = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class Rewriter:
    """Rewrites the parameters of one tool; `notes` lists the changes."""

    def __init__(self, profile: SchemaProfile) -> None:
        self._profile = profile
        self._left = MAX_REWRITTEN
        self.notes: dict[str, None] = {}
        self.cannot_give: list[str] = []
        """Required parameters at the root whose names the provider does not allow."""

    def root(self, plain: JsonObject) -> JsonObject:
        """Rewrite the parameters: a plain object with `properties`."""
        if "anyOf" in plain:
            self.notes["alternatives at the root became one object"] = None
        whole = only(either(plain), "object")
        if "enum" in plain:
            self.notes["values at the root appear only in the description"] = None
            whole.pop("enum", None)
            whole[WORDS] = [*whole.get(WORDS, []), said("enum", plain["enum"])]
        written = self._written(whole, "object", "", "")
        return {"type": "object", "properties": {}} | written

    def _schema(self, plain: JsonObject, name: str, place: str) -> JsonObject:
        self._left -= 1
        if self._left < 0:
            self.notes["too large: the rest has only types"] = None
            return self._bare(plain, name)
        if self._profile.one_type:
            return self._with_one_type(plain, name, place)
        types = plain.get("type")
        kind = types[0] if types and len(types) == 1 else types
        written = self._written(plain, kind, name, place)
        if "anyOf" in plain:
            branches = distinct(self._schema(part, name, place) for part in plain["anyOf"])
            if len(branches) == 1:  # they differed only in what the language cannot express
                outer = {key: value for key, value in plain.items() if key != "anyOf"}
                return self._schema(_narrowed(outer, plain["anyOf"][0]), name, place)
            written["anyOf"] = branches
        return written

    def _bare(self, plain: JsonObject, name: str) -> JsonObject:
        """Return only the type, for parts beyond the limits."""
        types = plain.get("type", [])
        if self._profile.one_type:
            types = [next((kind for kind in types if kind != "null"), "string")]
        written: JsonObject = {"type": types if len(types) > 1 else types[0]} if types else {}
        if "array" in types:
            written["items"] = {"type": "string"} if self._profile.one_type else {}
            if self._profile.describe_all:
                written["items"]["description"] = "item"
        self._describe(written, "", [], name)
        return written

    def _with_one_type(self, plain: JsonObject, name: str, place: str) -> JsonObject:
        profile = self._profile
        split = alternatives(plain)
        if split.guessed:
            self.notes[f"no type stated{place}"] = None
        nullable, choices = split.nullable, split.choices
        if "anyOf" not in profile.keywords and len(choices) > 1:
            self.notes[f"alternatives became one{place}"] = None
            choices = [collapsed(choices)]
        if nullable and profile.null == "none":
            self.notes[f"null cannot be expressed{place}"] = None
        outer = {key: plain[key] for key in split.outer if key in plain}
        if len(choices) == 1:
            choices = [_described_by(outer, choices[0])]
        elif profile.anyof_alone:
            choices = [_described_by(outer, choices[0]), *choices[1:]]
        branches = distinct(
            [self._written(choice, choice["type"][0], name, place) for choice in choices]
        )
        if nullable and profile.null == "flag":
            branches[0]["nullable"] = True
        elif nullable and profile.null == "type" and {"type": "null"} not in branches:
            branches.append({"type": "null"})
        if len(branches) == 1:
            return branches[0]
        whole: JsonObject = {"anyOf": branches}
        if not profile.anyof_alone and len(choices) > 1:
            self._describe(whole, outer.get("description", ""), outer.get(WORDS, []), name)
        elif not profile.anyof_alone and "description" in branches[0]:
            whole["description"] = branches[0].pop("description")
        return whole

    def _written(
        self, plain: JsonObject, kind: str | list[str] | None, name: str, place: str
    ) -> JsonObject:
        """Rewrite one schema without its alternatives, of one type (or as many as allowed)."""
        written: JsonObject = {} if kind is None else {"type": kind}
        words: list[str] = list(plain.get(WORDS, []))
        for keyword in _BOUNDS + _MORE_BOUNDS:
            if keyword in plain:
                self._put(keyword, plain[keyword], written, words, place)
        for exclusive, inclusive in _EXCLUSIVE:
            if exclusive in plain:
                self._bound(exclusive, inclusive, plain, written, words)
        self._values(plain, kind, written, words, place)
        self._text(plain, written, words, place)
        if "default" in plain and plain["default"] is not None:
            self._put("default", plain["default"], written, words, place)
        if "items" in plain or kind == "array" or (isinstance(kind, list) and "array" in kind):
            written["items"] = self._schema(plain.get("items", {}), "item", f"{place} [items]")
        self._object(plain, written, words, place)
        self._describe(written, plain.get("description", ""), words, name)
        return written

    def _put(
        self, keyword: str, value: Any, written: JsonObject, words: list[str], place: str
    ) -> None:
        if keyword in self._profile.keywords:
            written[keyword] = value
        else:
            words.append(said(keyword, value))
            self.notes[f"`{keyword}` appears only in the description{place}"] = None

    def _bound(
        self,
        exclusive: str,
        inclusive: str,
        plain: JsonObject,
        written: JsonObject,
        words: list[str],
    ) -> None:
        number = plain[exclusive]
        if exclusive in self._profile.keywords:
            written[exclusive] = number
            return
        lower = exclusive == "exclusiveMinimum"
        if plain.get("type") == ["integer"]:
            number = math.floor(number) + 1 if lower else math.ceil(number) - 1
        elif inclusive not in plain or (number >= plain[inclusive]) is lower:
            words.append(said(exclusive, number))
        if inclusive not in self._profile.keywords:
            words.append(said(inclusive, number) if plain.get("type") == ["integer"] else "")
        elif inclusive in written:
            written[inclusive] = (max if lower else min)(written[inclusive], number)
        else:
            written[inclusive] = number

    def _values(
        self,
        plain: JsonObject,
        kind: str | list[str] | None,
        written: JsonObject,
        words: list[str],
        place: str,
    ) -> None:
        if "enum" not in plain:
            return
        values = plain["enum"]
        if self._profile.string_enums and (kind != "string" or not all(values)):
            words.append(said("enum", values))
            self.notes[f"`enum` appears only in the description{place}"] = None
        else:
            written["enum"] = list(values)

    def _text(self, plain: JsonObject, written: JsonObject, words: list[str], place: str) -> None:
        pattern, form = plain.get("pattern"), plain.get("format")
        if pattern is not None:
            if self._profile.plain_patterns and _BEYOND_RE2.search(pattern):
                words.append(said("pattern", pattern))
                self.notes[f"`pattern` appears only in the description{place}"] = None
            else:
                self._put("pattern", pattern, written, words, place)
        if form is not None:
            of_type = not self._profile.one_type or written.get("type") == _FORMAT_OF.get(
                form, "string"
            )
            if of_type and form in self._profile.formats and "format" in self._profile.keywords:
                written["format"] = form
            else:
                words.append(said("format", form))
                self.notes[f"`format` {form[:40]} appears only in the description{place}"] = None

    def _object(self, plain: JsonObject, written: JsonObject, words: list[str], place: str) -> None:
        profile = self._profile
        properties = dict(plain.get("properties", {}))
        required = list(plain.get("required", ()))
        rest = plain.get("additionalProperties")
        if profile.known_required:
            properties |= {name: rest or {} for name in required if name not in properties}
        refused = {
            name for name in properties.keys() | set(required) if not self._name(name, place)
        }
        if refused:
            self.notes[f"not accepted as names: {', '.join(sorted(refused))[:200]}{place}"] = None
            if not place:
                self.cannot_give = [name for name in required if name in refused]
            properties = {name: part for name, part in properties.items() if name not in refused}
            required = [name for name in required if name not in refused]
            rest = None
        if properties or ("properties" in plain and not profile.known_required):
            written["properties"] = {
                name: self._schema(
                    part, name or "value", f"{place}.{name}" if place else f" at {name}"
                )
                for name, part in properties.items()
            }
        if required:
            written["required"] = required
        patterns = plain.get("patternProperties")
        if patterns:
            if "patternProperties" in profile.keywords:
                written["patternProperties"] = {
                    name: self._schema(part, name, f"{place} [{name}]")
                    for name, part in patterns.items()
                }
            else:
                words.append(said("names match", list(patterns)))
                self.notes[f"`patternProperties` appears only in the description{place}"] = None
        if rest is None:
            return
        if "additionalProperties" in profile.keywords:
            written["additionalProperties"] = rest and self._schema(rest, "", f"{place} [others]")
        elif rest:
            words.append("also other names")
            self.notes[f"`additionalProperties` appears only in the description{place}"] = None

    def _name(self, name: str, place: str) -> bool:
        if place and not self._profile.names_below_root:
            return True
        return self._profile.parameter_names.match(name) is not None

    def _describe(self, written: JsonObject, description: str, words: list[str], name: str) -> None:
        text = described(description, words, self._profile.max_description)
        if not text and self._profile.describe_all and name:
            text = name.replace("_", " ").strip()[: self._profile.max_description] or "value"
        if text:
            written["description"] = text
        if len(description) > self._profile.max_description:
            self.notes["a description was cut"] = None


def _narrowed(plain: JsonObject, branch: JsonObject) -> JsonObject:
    try:
        return both(plain, branch)
    except Contradiction:
        return plain


def _described_by(outer: JsonObject, choice: JsonObject) -> JsonObject:
    """Return a choice with the description and words of the schema that it replaces."""
    texts = [part["description"] for part in (outer, choice) if "description" in part]
    words = [*outer.get(WORDS, []), *choice.get(WORDS, [])]
    whole = dict(choice)
    if texts:
        whole["description"] = ". ".join(dict.fromkeys(texts))
    if words:
        whole[WORDS] = words
    return whole
