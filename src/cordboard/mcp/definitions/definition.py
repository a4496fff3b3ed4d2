"""One tool as a server lists it, parsed tolerantly and made safe to show to an agent. Pure.

A listing comes from outside: a tool that is malformed or hostile is refused with a reason, the
other tools are offered. An agent never receives text that the operator cannot see:

- descriptions, and titles and descriptions inside schemas, lose invisible characters (format,
  bidirectional, tags, variation selectors, fillers, controls) and are cut to `MAX_DESCRIPTION`;
- where such a character cannot be removed because the server would notice (the tool's name,
  parameter names, enum values), the tool is refused. Exceptions are the few invisible characters
  that some scripts need (joiners, one at a time);
- schemas pass `cordboard.tools.schema`: size, depth, references, patterns, cost of a check.

Parsing a malicious listing may take some hundred ms: do it off the event loop.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any

import mcp_types as types
import orjson
from pydantic import PrivateAttr, ValidationError

from cordboard.errors import SchemaRefused
from cordboard.mcp.printable import printable
from cordboard.tools.schema.checker import ArgumentChecker, Checker, compile_schema
from cordboard.tools.schema.safety import MAX_SCHEMA_DEPTH, depth_of
from cordboard.tools.tool import JsonObject

MAX_NAME = 128
"""Characters; SEP-986, the MCP specification's rule for tool names."""
MAX_DESCRIPTION = 1024
"""Characters; OpenAI's limit for a function's description."""
MAX_REASON = 300

_TEXTS = ("title", "description", "$comment")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("default", "const", "enum", "examples", "required", "dependentRequired")

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point: invisible on screen, but models read them."""
_NEEDED_IN_WRITING = "\u200c\u200d\u200e\u200f\ufe0e\ufe0f"
"""Joiners, direction marks and the two variation selectors of emoji."""
_INVISIBLE = re.compile(f"[{_IGNORABLE}]")
_HIDING = re.compile(
    f"(?![{_NEEDED_IN_WRITING}])[{_IGNORABLE}]|[{_NEEDED_IN_WRITING}]{{3}}|[\x7f-\x9f]"
)


class ListedTool(types.Tool):
    """A listed tool, cleaned, with compiled schemas; or refused. Made by `read_tool`."""

    _refusal: str = PrivateAttr("")
    _fingerprint: str = PrivateAttr("")
    _arguments: ArgumentChecker | None = PrivateAttr(None)
    _output: Checker | None = PrivateAttr(None)
    _output_refusal: str = PrivateAttr("")

    @property
    def refusal(self) -> str:
        """Reason of the refusal; empty when the tool can be offered."""
        return self._refusal

    @property
    def fingerprint(self) -> str:
        """SHA-256 of `definition`, in hex digits; empty when refused."""
        return self._fingerprint

    @property
    def arguments(self) -> ArgumentChecker | None:
        """The checker of its arguments; None when refused."""
        return self._arguments

    @property
    def output(self) -> Checker | None:
        """The checker of its structured results; None without a usable output schema."""
        return self._output

    @property
    def output_refusal(self) -> str:
        """Reason why its output schema is ignored; empty when it is used or when there is none."""
        return self._output_refusal

    @property
    def definition(self) -> JsonObject:
        """Everything that an agent may see and the engine relies on; the lockfile pins it."""
        return definition_of(self)

    def __eq__(self, other: object) -> bool:
        """True if the definitions are the same, regardless of when they were read."""
        if not isinstance(other, ListedTool):
            return NotImplemented
        mine = (self.name, self._refusal, self._fingerprint)
        return mine == (other.name, other._refusal, other._fingerprint)

    @classmethod
    def refused(cls, name: str, reason: str) -> ListedTool:
        """Return a tool that is not offered."""
        tool = cls(name=name, input_schema={"type": "object"})
        tool._refusal = printable(reason, MAX_REASON)
        return tool

    @classmethod
    def read(cls, raw: JsonObject) -> ListedTool:
        """Parse a well-formed definition. Raises `SchemaRefused` or `ValidationError`."""
        schema = _clean_schema(raw["inputSchema"], "inputSchema")
        output, output_refusal = _read_output(raw.get("outputSchema"))
        tool = cls(
            name=raw["name"],
            title=_clean_or_none(raw.get("title")),
            description=_clean_or_none(raw.get("description")),
            input_schema=schema if "type" in schema else {"type": "object", **schema},
            output_schema=output,
            annotations=_read_annotations(raw.get("annotations")),
        )
        tool._arguments = ArgumentChecker(tool.input_schema)
        if output is not None:
            try:
                tool._output = compile_schema(output, root_is_object=False)
            except SchemaRefused as error:
                output_refusal = str(error)
        tool._output_refusal = output_refusal
        tool._fingerprint = fingerprint_of(tool.definition)
        return tool


def read_tool(raw: Any, position: int = 0) -> ListedTool:
    """Parse entry `position` of a listing; one that cannot be offered has a `refusal`."""
    nameless = f"(tool {position + 1})"
    if isinstance(raw, ListedTool):
        return raw
    if isinstance(raw, types.Tool):
        raw = raw.model_dump(by_alias=True, exclude_none=True, mode="json")
    if not isinstance(raw, dict):
        return ListedTool.refused(nameless, f"it is {_kind(raw)}, expected an object")
    name = raw.get("name")
    if not isinstance(name, str):
        return ListedTool.refused(nameless, f"its name is {_kind(name)}, expected a text")
    if not name.strip():
        return ListedTool.refused(nameless, "its name is empty")
    problem = _name_problem(name)
    if problem:
        return ListedTool.refused(shown_name(name), problem)
    if "inputSchema" not in raw:
        return ListedTool.refused(name, "it has no inputSchema")
    description = raw.get("description")
    if description is not None and not isinstance(description, str):
        return ListedTool.refused(name, f"its description is {_kind(description)}, expected a text")
    try:
        return ListedTool.read(raw)
    except SchemaRefused as error:
        return ListedTool.refused(name, str(error))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return ListedTool.refused(name, f"it has the wrong shape: {first['msg']}")


def definition_of(tool: types.Tool) -> JsonObject:
    """Return what the lockfile pins of a tool, under the names of the MCP specification."""
    wanted = {"name", "description", "input_schema", "output_schema", "annotations"}
    return tool.model_dump(by_alias=True, exclude_none=True, mode="json", include=wanted)


def fingerprint_of(definition: JsonObject) -> str:
    """SHA-256 of a definition in canonical JSON (sorted keys, no spaces), in hex digits."""
    return hashlib.sha256(orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)).hexdigest()


def clean_description(text: str) -> str:
    """Return the visible text only, capped."""
    if len(text) <= MAX_DESCRIPTION and text.isascii() and text.isprintable():
        return text.strip()
    head = _INVISIBLE.sub("", text[: 8 * MAX_DESCRIPTION])
    visible = "".join(
        character
        for character in head
        if character in "\n\t"
        or unicodedata.category(character) not in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    ).strip()
    return visible if len(visible) <= MAX_DESCRIPTION else visible[: MAX_DESCRIPTION - 1] + "…"


def shown_name(name: str) -> str:
    """Return a tool's name for logs and pages: visible characters only, capped."""
    return printable(_INVISIBLE.sub("", name[: 2 * MAX_NAME]), MAX_NAME) or "(nameless)"


def _name_problem(name: str) -> str:
    if len(name) > MAX_NAME:
        return f"its name has {len(name)} characters, at most {MAX_NAME} are accepted"
    if _HIDING.search(name) or any(unicodedata.category(c) in {"Cc", "Cs"} for c in name):
        return f"its name hides characters: {name!a}"
    return ""


def _clean_or_none(text: object) -> str | None:
    return (clean_description(text) or None) if isinstance(text, str) else None


def _clean_schema(schema: Any, key: str) -> JsonObject:
    if not isinstance(schema, dict):
        raise SchemaRefused(f"its {key} is {_kind(schema)}, expected an object")
    if depth_of(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise SchemaRefused(f"its {key} is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    cleaned = _clean_node(schema)
    assert isinstance(cleaned, dict)  # noqa: S101  (for the type checker)
    try:
        text = orjson.dumps(cleaned).decode()
    except TypeError as error:
        raise SchemaRefused(f"its {key} is not JSON: {error}") from None
    hidden = _HIDING.search(text)
    if hidden:
        around = text[max(0, hidden.start() - 20) : hidden.end() + 20]
        raise SchemaRefused(f"its {key} hides characters: {around!a}")
    return cleaned


def _clean_node(node: Any) -> Any:
    """Return a schema with its texts cleaned; values that are not schemas stay unchanged."""
    if isinstance(node, list):
        return [_clean_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned: JsonObject = {}
    for key, value in node.items():
        if key in _TEXTS and isinstance(value, str):
            cleaned[key] = clean_description(value)
        elif key in _NAMED and isinstance(value, dict):
            cleaned[key] = {name: _clean_node(schema) for name, schema in value.items()}
        elif key in _VALUES:
            cleaned[key] = value
        else:
            cleaned[key] = _clean_node(value)
    return cleaned


def _read_output(raw: Any) -> tuple[JsonObject | None, str]:
    """Parse the output schema. It is optional, so an unusable one is only left out."""
    if raw is None:
        return None, ""
    try:
        return _clean_schema(raw, "outputSchema"), ""
    except SchemaRefused as error:
        return None, str(error)


def _read_annotations(raw: Any) -> types.ToolAnnotations | None:
    """Parse the hints. Malformed hints are ignored; the tool then counts as destructive."""
    if not isinstance(raw, dict):
        return None
    hints = {key: value for key, value in raw.items() if isinstance(value, bool)}
    try:
        return types.ToolAnnotations.model_validate(hints) if hints else None
    except ValidationError:
        return None


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return names.get(type(value), "a number")
