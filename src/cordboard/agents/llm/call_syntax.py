"""The notations in which models write tool calls as text, once a notation is complete. Pure.

Sources: the chat templates of the model families, as the tool parsers of vLLM 0.10 to 0.31 and
llama.cpp's `common/chat` document them. Names that the toolbox does not have are returned too: the
desk refuses them, and the model hears of it as of any other refused call.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from cordboard.agent_api.language_model import ToolWish
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject

MOST_NAME = 64
MOST_CALLS = 64
"""Most tool calls of one notation; further ones are ignored."""
MOST_PYTHON = 8_192
"""Most characters that are read as Python: it takes some 30 us for each call in a list."""
_NAMES = ("name", "function", "tool", "tool_name", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "params")
_TAG = r"<(?:\w+:|\uff5cDSML\uff5c)?"
_CLOSE = r"</(?:\w+:|\uff5cDSML\uff5c)?"
_FUNCTION = re.compile(
    rf"{_TAG}(?:function|invoke)(?:=|\s+name=)[\"']?([\w.:/-]++)[^<>]{{0,200}}>(.*?)"
    rf"(?:{_CLOSE}(?:function|invoke)>|(?={_TAG}(?:function|invoke)[=\s])|(\Z))",
    re.DOTALL,
)
_PARAMETER = re.compile(
    rf"{_TAG}parameter(?:=|\s+name=)[\"']?([\w.-]++)[^<>]{{0,200}}>(.*?)"
    rf"(?:{_CLOSE}parameter>|(?={_TAG}parameter[=\s])|\Z)",
    re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>([^<]*+)</arg_key>\s*+<arg_value>((?:[^<]|<(?!arg_key>|/arg_value>))*+)"
    r"(?:</arg_value>|\Z)"
)
_CHILD = re.compile(r"<([\w.-]+)>")
_LEADING_NAME = re.compile(r"\s*([\w.:/-]+)\s*(?=<arg_key>|\(|\Z)")
_MARKS = re.compile(
    r"<[|\uff5c][^<>]*[|\uff5c]>|\[CALL_ID\]\s*\w+|\[[A-Z_/]+\]|</?\w+>|```\w*|(?:\bfunction|\bcall)[\s:]"
)
"""Text between two JSON values that is not a name."""
_LAST_NAME = re.compile(r"(?<![\w.:/-])([\w.:/-]++)[\s(]*+\Z")
_INDEX = re.compile(r":\d+\Z")
_QUOTED_NAME = re.compile(r'"(?:name|function|tool|tool_name)"\s*:\s*"([\w.:/-]+)"')
_QUOTED_ARGUMENTS = re.compile(r'"(?:arguments|parameters|args|input)"\s*:')
CUT = "{"
"""Arguments of a call that reached the answer's longest length before they were complete. They are
not JSON, so that no tool runs with half of them, and the model hears of it."""
_JSON = json.JSONDecoder(strict=False)
_JSON_PROBLEMS = (ValueError, RecursionError)


class CallSyntax:
    """Finds the tool calls in complete notations, for one toolbox."""

    def __init__(self, tools: Iterable[ProviderTool]) -> None:
        self._types: dict[str, Mapping[str, Any]] = {
            tool.name: (tool.parameters or {}).get("properties") or {} for tool in tools
        }

    def call(self, name: str, arguments: str) -> ToolWish:
        """Return a call. A name may have a prefix, such as `functions.`, or a number."""
        name = _INDEX.sub("", name)
        if name not in self._types:
            last = re.split(r"[.:/]", name)[-1]
            name = last if last in self._types else re.sub(r"[^\w-]", "_", name)[:MOST_NAME]
        return ToolWish("", name, arguments or "{}")

    def calls_in(self, text: str, *, cut: bool = False) -> list[ToolWish]:
        """Return the calls in the contents of a notation. `cut`: the answer reached its longest
        length, so unbalanced JSON is not completed."""
        functions = [*_FUNCTION.finditer(text)]
        if functions:
            return [
                self.tagged_call(found[1], found[2], cut=cut and found[3] is not None)
                for found in functions[:MOST_CALLS]
            ]
        found = [*self._json_calls(text, cut)][:MOST_CALLS]
        return found or self._plain_calls(text, cut)

    def call_of(self, value: Any, *, named: bool = True) -> ToolWish | None:
        """Return the call that a JSON object describes. `named`: a name alone is a call without
        arguments, even of a tool that the toolbox does not have."""
        if not isinstance(value, dict):
            return None
        inner = value.get("function", value.get("function_call"))
        if isinstance(inner, dict):
            return self.call_of(inner, named=named)
        name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
        given = next((key for key in _ARGUMENTS if key in value), None)
        if name is None:
            ((name, inner),) = value.items() if len(value) == 1 else ((None, None),)
            known = name in self._types and isinstance(inner, dict)
            return self.call(name, _dumped(inner)) if known and name else None
        if not name or ("properties" in object_or_empty(value.get("parameters"))):
            return None  # a declaration, not a call
        if given is None and not (named or name in self._types):
            return None
        arguments = value.get(given) if given else None
        return self.call(name, arguments if isinstance(arguments, str) else _dumped(arguments))

    def json_calls(self, text: str, *, cut: bool) -> list[ToolWish] | None:
        """Return the calls in a JSON text that nothing marks as a call; None if there are none."""
        value = decoded(text, cut=cut)
        if value is not None:
            values = value if isinstance(value, list) else _unfolded(value)
            calls = [call for one in values if (call := self.call_of(one, named=False))]
            declared = any(_is_declaration(one) for one in values)
            return calls[:MOST_CALLS] if calls or declared else None
        name = _QUOTED_NAME.search(text)
        return [self.call(name[1], text)] if name and _QUOTED_ARGUMENTS.search(text) else None

    def arguments_in(self, text: str, *, cut: bool) -> str:
        """Return the arguments written after a tool's name: JSON, or Python's keywords."""
        text = text.strip()
        if not text:
            return CUT if cut else "{}"
        value = decoded(text, cut=cut) if text.startswith("{") else python_keywords(text)
        return text if value is None else _dumped(value)

    def _json_calls(self, text: str, cut: bool) -> Iterator[ToolWish]:
        end = 0
        for start, stop, value in _json_values(text, cut=cut):
            before = _LAST_NAME.search(_MARKS.sub(" ", text[end:start]))
            end = stop
            if value is None:
                name = _QUOTED_NAME.search(text, start) or before
                if name:
                    yield self.call(name[1], text[start:stop])
            elif isinstance(value, dict) and before:
                yield self.call(before[1], _dumped(value))
            else:
                for one in value if isinstance(value, list) else _unfolded(value):
                    call = self.call_of(one)
                    if call is not None:
                        yield call

    def _plain_calls(self, text: str, cut: bool) -> list[ToolWish]:
        """Return calls without JSON: `name`, `name(key="value")`, and GLM's pairs of tags."""
        leading = _LEADING_NAME.match(text)
        if cut:
            return [self.call(leading[1], CUT)] if leading and leading[1] in self._types else []
        if leading and (pairs := _PAIR.findall(text)):
            return [self.call(leading[1], self._typed(leading[1], pairs))]
        calls = python_calls(text)
        if calls:
            return [self.call(name, _dumped(arguments)) for name, arguments in calls]
        bare = _MARKS.sub(" ", text).strip()
        return [self.call(bare, "{}")] if bare in self._types else []

    def tagged_call(self, name: str, body: str, *, cut: bool) -> ToolWish:
        """Return the call whose arguments stand between two tags: JSON, or a tag for each."""
        text = body.strip()
        if text.startswith("{"):
            return self.call(name, self.arguments_in(text, cut=cut))
        if cut:
            return self.call(name, CUT)
        pairs = _PARAMETER.findall(body) or _children(body)
        return self.call(name, self._typed(name, pairs))

    def _typed(self, name: str, pairs: Iterable[tuple[str, str]]) -> str:
        """Return the arguments that were written between tags: texts, unless the tool expects
        something else that the text can be read as."""
        types = self._types.get(self.call(name, "").name, {})
        given: JsonObject = {}
        for key, text in pairs:
            value = text.strip()
            kind = object_or_empty(types.get(key.strip())).get("type")
            known = None if kind == "string" else decoded(value)
            given[key.strip()] = value if known is None else known
        return _dumped(given)


def decoded(text: str, *, cut: bool = True) -> Any:
    """Return the JSON value of a text, None if it has none. Unless it is `cut`, missing closing
    braces at its end are added: small models forget them."""
    for end in ("",) if cut else ("", "}", "}}", "]", "}]", "}}]"):
        try:
            return _JSON.decode(text + end)
        except _JSON_PROBLEMS:
            continue
    return None


def python_calls(text: str) -> list[tuple[str, JsonObject]]:
    """Return the calls of a Python expression: `name(key="value")`, or a list of such calls."""
    if len(text) > MOST_PYTHON:
        return []
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_python_call(call) for call in calls]
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return []


def python_keywords(text: str) -> JsonObject | None:
    calls = python_calls(f"f({text})")
    return calls[0][1] if calls else None


def object_or_empty(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _python_call(call: ast.expr) -> tuple[str, JsonObject]:
    """Return name and arguments. Raises `ValueError` for anything but a call with keywords."""
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "print" and call.args:
        call = call.args[0]
    if not isinstance(call, ast.Call) or (call.args and not _one_object(call)):
        raise ValueError
    name = ast.unparse(call.func).removesuffix(".call")
    if call.args:
        return name, ast.literal_eval(call.args[0])
    return name, {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}


def _one_object(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Dict) and not call.keywords


def _json_values(text: str, *, cut: bool) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each object and list in the text; None ends them: what
    follows is not JSON."""
    at, misses = 0, 0
    while (found := re.compile(r"[{\[]").search(text, at)) is not None and misses < MOST_CALLS:
        start = found.start()
        try:
            value, at = _JSON.raw_decode(text, start)
        except _JSON_PROBLEMS:
            if text[start] == "[":
                at, misses = start + 1, misses + 1
                continue
            value, at = decoded(_MARKS.sub("", text[start:]).strip(), cut=cut), len(text)
        yield start, at, value


def _children(text: str) -> list[tuple[str, str]]:
    """Return name and contents of each `<name>…</name>`. Linear, whatever a model repeats."""
    pairs, at, unclosed = [], 0, set[str]()
    while (found := _CHILD.search(text, at)) is not None:
        name, at = found[1], found.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", at)
        if end < 0:
            unclosed.add(name)
        else:
            pairs.append((name, text[at:end]))
            at = end
    return pairs


def _unfolded(value: JsonObject) -> list[Any]:
    calls = value.get("tool_calls")
    return calls if isinstance(calls, list) else [value]


def _is_declaration(value: Any) -> bool:
    value = object_or_empty(value)
    value = object_or_empty(value.get("function")) or value
    return "name" in value and "properties" in object_or_empty(value.get("parameters"))


def _dumped(value: Any) -> str:
    try:
        return "{}" if value is None else orjson.dumps(value).decode()
    except TypeError:  # a literal of Python that JSON does not have
        return json.dumps(value, default=str, skipkeys=True)
