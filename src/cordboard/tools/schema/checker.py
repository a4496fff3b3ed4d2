"""Checks a tool call's arguments against the tool's own JSON Schema.

MCP servers control their schemas, so a schema is untrusted. It is compiled once, when the tool is
found, and refused then (`SchemaRefused`) if it is not a valid schema, refers to anything outside
itself, or could block the event loop (`cordboard.tools.schema.safety`). No `$ref` is ever fetched.
Patterns run in linear time; those that cannot (look-ahead, back references) run with a step limit.

For arguments that do not fit, the checker returns texts that help a model to correct them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jsonschema_rs
import orjson

from cordboard.config.secrets import looks_secret
from cordboard.errors import SchemaRefused
from cordboard.tools.schema.safety import MAX_VALUE_DEPTH, Reach, depth_of, examine, weight_of
from cordboard.tools.tool import JsonObject

_SHARED_WORD = 16
"""Characters; longer texts are hardly ever repeated in schemas."""
MAX_ARGUMENT_BYTES = 256 * 1024
MAX_PROBLEMS = 5
MAX_PROBLEM_LENGTH = 240
MAX_WORK = 2_000_000
"""Sub-schemas visited in one check, over all parts of the value: about 60 ms (measured with
jsonschema-rs 0.60; a tool call of a phone conversation needs a few dozen)."""
MAX_DESCRIBED_WORK = 5_000
"""The same limit when the problems must be described, which takes 17 µs each (measured)."""

MAX_COMPILING = 0.005
"""Seconds that compiling may take during a call, on the event loop."""

Kind = jsonschema_rs.ValidationErrorKind
IsSecret = Callable[[str], bool]
"""Returns True for a field name whose value must not be repeated."""
_PATTERN_BYTES = 256 * 1024
_BACKTRACK_LIMIT = 10_000
_BACKTRACKING_COSTS = 50
"""Cost of a pattern with a step limit, in plain sub-schemas."""


class Validator(Protocol):
    """A compiled schema."""

    def is_valid(self, instance: Any) -> bool: ...

    def iter_errors(self, instance: Any) -> Iterator[jsonschema_rs.ValidationError]: ...


def compile_schema(schema: JsonObject, root_is_object: bool = True) -> Checker:
    """Compile an untrusted schema. Raises `SchemaRefused`.

    A hostile schema may take some hundred ms: compile schemas of servers off the event loop.
    """
    reach = examine(schema, root_is_object)
    return Checker(*_compile(schema, reach), reach.depth)


class Checker:
    """A compiled schema that only checks values it can check quickly. Made by `compile_schema`."""

    __slots__ = ("_depth", "_per_part", "_validator")

    def __init__(self, validator: Validator, per_part: int, depth: int) -> None:
        self._validator = validator
        self._per_part = per_part
        self._depth = depth

    def too_much(self, value: Any, depth: int | None = None) -> str:
        """Return why a value is not checked; empty if it can be. `depth`: its depth, if known."""
        if (depth_of(value, self._depth) if depth is None else depth) > self._depth:
            return f"nested deeper than {self._depth} levels"
        if self._is_more(value, MAX_WORK, text=64):
            return "more than can be checked against the schema"
        return ""

    def is_valid(self, value: Any) -> bool:
        """True if a value that is not `too_much` fits."""
        return self._validator.is_valid(value)

    def problems(self, value: Any, secret: IsSecret = looks_secret) -> Iterator[str]:
        """Yield the problems of a value that is not `too_much`, as short texts."""
        if self._is_more(value, MAX_DESCRIBED_WORK, text=10_000):
            yield "they do not fit the schema"
            return
        for error in self._validator.iter_errors(value):
            yield _describe(error, secret)

    def _is_more(self, value: Any, work: int, text: int) -> bool:
        parts = work // self._per_part + 1  # the smallest object is one part and is checked
        return weight_of(value, parts, text) > parts


class ArgumentChecker:
    """Checks arguments; `problems` is empty if they fit.

    A compiled schema of 1 kB takes 12 kB of memory (measured), and most tools of a large catalogue
    are never called. So a schema that compiles quickly is not kept compiled, but compiled again for
    the first arguments.
    """

    __slots__ = ("_compiled", "_schema")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema. Raises `SchemaRefused`."""
        began = time.perf_counter()
        compiled = compile_schema(schema)
        is_slow = time.perf_counter() - began > MAX_COMPILING
        _share_words(schema)
        self._compiled = compiled if is_slow else None
        self._schema = schema

    @property
    def _checker(self) -> Checker:
        if self._compiled is None:
            self._compiled = compile_schema(self._schema)
        return self._compiled

    def problems(self, arguments: JsonObject, secret: IsSecret = looks_secret) -> list[str]:
        """Return the problems of the arguments, at most `MAX_PROBLEMS` texts; empty if they fit.

        The texts do not repeat the values of fields that are `secret`.
        """
        too_much = self._too_much(arguments)
        if too_much:
            return [too_much]
        if self._checker.is_valid(arguments):
            return []
        found: list[str] = []
        for problem in self._checker.problems(arguments, secret):
            if len(found) == MAX_PROBLEMS:
                found.append("and more")
                break
            found.append(problem)
        return found

    def _too_much(self, arguments: JsonObject) -> str:
        depth = depth_of(arguments, MAX_VALUE_DEPTH)
        if depth > MAX_VALUE_DEPTH:
            return f"the arguments are nested deeper than {MAX_VALUE_DEPTH} levels"
        try:
            size = len(orjson.dumps(arguments))
        except TypeError as error:
            return f"the arguments are not JSON: {error}"
        if size > MAX_ARGUMENT_BYTES:
            return f"the arguments are longer than {MAX_ARGUMENT_BYTES} bytes"
        too_much = self._checker.too_much(arguments, depth)
        return f"the arguments are {too_much}" if too_much else ""


def _compile(schema: JsonObject, reach: Reach) -> tuple[Validator, int]:
    """Return the compiled schema and the maximum cost of one part of a value."""
    try:
        linear = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES)
        return _validator(schema, linear), reach.work
    except ValueError:
        limited = jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_BYTES
        )
    try:
        return _validator(schema, limited), reach.work * _BACKTRACKING_COSTS
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).partition("\n")[0]
        raise SchemaRefused(f"not a usable JSON Schema: {reason[:MAX_PROBLEM_LENGTH]}") from None


def _validator(
    schema: JsonObject, patterns: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> Validator:
    return jsonschema_rs.validator_for(
        schema, retriever=_refuse_retrieval, pattern_options=patterns
    )


def _describe(error: jsonschema_rs.ValidationError, secret: IsSecret) -> str:
    """Return path, expectation and value; without the value for a field named as a secret."""
    path = ".".join(str(part) for part in error.instance_path)
    text = _said(error, secret)
    if len(text) > MAX_PROBLEM_LENGTH:
        half = MAX_PROBLEM_LENGTH // 2
        text = f"{text[:half]} … {text[-half:]}"
    return f"{path}: {text}" if path else text


def _said(error: jsonschema_rs.ValidationError, secret: IsSecret) -> str:
    kind = error.kind
    if isinstance(kind, (Kind.AnyOf, Kind.OneOfNotValid)):
        why = dict.fromkeys(_said(branch[0], secret) for branch in kind.context if branch)
        return f"it fits none of the alternatives: {', or '.join(why)}"
    if isinstance(kind, Kind.FalseSchema):
        return "it must not be given"
    if isinstance(kind, (Kind.Required, Kind.AdditionalProperties)):
        return error.message  # names only
    if _is_secret(error, secret):
        limit = kind.value if isinstance(kind.value, (str, int, float)) else ""
        return f"the value does not fit {kind.name} {limit}".rstrip()
    return error.message


def _is_secret(error: jsonschema_rs.ValidationError, secret: IsSecret) -> bool:
    """True if the value, or a part of it, belongs to a field named as a secret."""
    waiting: list[Any] = [{str(part): None for part in error.instance_path}, error.instance]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if any(map(secret, node)):
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _refuse_retrieval(uri: str) -> jsonschema_rs.JSONType:
    raise ValueError(f"references outside the schema are not followed ({uri[:80]})")


def _share_words(schema: JsonObject) -> None:
    """Replace short texts by equal ones that others use too; nothing else changes.

    A parsed schema of 1 kB takes 3.7 kB, a sixth of that for "string", "object" and their like,
    which a parser makes anew each time (CPython 3.11, measured).
    """
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        places = node.items() if isinstance(node, dict) else enumerate(node)
        for place, value in places:
            if type(value) is str and len(value) <= _SHARED_WORD:
                node[place] = sys.intern(value)
            elif isinstance(value, (dict, list)):
                waiting.append(value)
