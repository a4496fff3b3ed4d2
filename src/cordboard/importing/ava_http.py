"""HTTP tools of AVA, before, during and after calls, as tools of `kind: http` and steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cordboard.config.remote_url import inner_problem, is_loopback, literal_address
from cordboard.importing.ava_keys import AFTER_THE_CALL, VARIABLES
from cordboard.importing.placeholders import data, json_body
from cordboard.importing.result import Imported, Part

PHASES: Mapping[str, str] = {
    "generic_http_lookup": "pre_call",
    "in_call_http_lookup": "in_call",
    "generic_webhook": "post_call",
}
"""`kind` → phase."""

_DIFFERENT: Mapping[str, str] = {
    "call_duration": "call_duration is in milliseconds",
    "summary": "summary is the whole transcript: no model sums it up",
}
_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(slots=True)
class HttpTools:
    """The tools of all phases by AVA's names."""

    names: dict[str, str] = field(default_factory=dict)
    """AVA's name → ours."""
    phases: dict[str, str] = field(default_factory=dict)
    everywhere: list[str] = field(default_factory=list)
    """Tools of every context that does not switch them off (`is_global`)."""
    outputs: dict[str, list[str]] = field(default_factory=dict)
    """Tool before the call → its output variables."""
    arguments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Tool after the call → the arguments of its step."""


def read_http_tool(
    name: str, tool: Part, ours: str, tools: HttpTools, result: Imported, default: str = ""
) -> None:
    """Add one tool to `tools` and to `result`; `default` is its phase without a `kind`."""
    phase = PHASES.get(tool.text("kind"), default)
    tool.skip(("phase", "enabled", "summary_max_words", "summary_prompt"))
    place = f"tools.{name}"
    arguments: dict[str, str] = {}
    parameters = _parameters(tool)

    def variable(found: str) -> str | None:
        if found in parameters:
            return found
        if found in VARIABLES:
            return f"call.{VARIABLES[found]}"
        if phase == "post_call" and found in AFTER_THE_CALL:
            arguments[found] = f"{{call.{AFTER_THE_CALL[found]}}}"
            return found
        result.changed.append((place, f"{{{found}}} has no counterpart and is sent as it stands"))
        return None

    method = tool.text("method").upper() or ("GET" if phase == "pre_call" else "POST")
    entry = {
        "kind": "http",
        **tool.copy(("description",)),
        "method": method,
        "url": data(tool.text("url"), variable),
    }
    if _is_private(entry["url"]):
        entry["allow_private"] = True
        result.changed.append((place, "it may reach your own network, as in AVA: `allow_private`"))
    query = {key: data(str(value), variable) for key, value in _items(tool, "query_params")}
    if query:
        entry["query"] = query
    _read_headers(tool, entry, variable)
    if method not in ("GET", "HEAD"):
        _read_body(tool, entry, variable, place, result)
    if phase == "pre_call":
        entry["effects"] = "read_only"
    _read_answer(name, tool, entry, tools, result)
    tool.skip(("generate_summary",))
    result.changed += [(place, words) for key, words in _DIFFERENT.items() if key in arguments]
    parameters |= {key: {} for key in arguments}
    if parameters:
        entry["parameters"] = parameters
    if tool.truth("is_global", default=False):
        tools.everywhere.append(name)
    tool.rest("no counterpart in tools of `kind: http`")
    tools.names[name], tools.phases[name], tools.arguments[name] = ours, phase, arguments
    result.tree["tools"][ours] = entry


def _parameters(tool: Part) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for parameter in tool.list_of_parts("parameters"):
        name = parameter.text("name")
        if not name:
            continue
        schema: dict[str, Any] = parameter.copy(("type", "description", "enum", "default"))
        if not parameter.truth("required", default=False):
            schema["required"] = False
        parameters[name] = schema
    return parameters


def _items(tool: Part, key: str) -> list[tuple[str, Any]]:
    value = tool.get(key)
    return list(value.items()) if isinstance(value, dict) else []


def _is_private(url: str) -> bool:
    """True if the URL leads to a network of one's own, as AVA allows and we do not by default."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = literal_address(host)
    except ValueError:
        return False
    inner = inner_problem(address) if address is not None else is_loopback(host)
    return bool(inner) or parts.scheme == "http"


def _read_headers(tool: Part, entry: dict[str, Any], variable: Callable[[str], str | None]) -> None:
    for name, value in _items(tool, "headers"):
        text = str(value)
        if name.lower() == "content-type" and "json" in text.lower():
            continue
        filled = data(text, variable)
        plain = filled == text.replace("{", "{{").replace("}", "}}") or "${" in text
        section = "headers" if plain else "header_templates"
        entry.setdefault(section, {})[name] = text if plain else filled


def _read_body(
    tool: Part,
    entry: dict[str, Any],
    variable: Callable[[str], str | None],
    place: str,
    result: Imported,
) -> None:
    template = tool.text("body_template") or tool.text("payload_template")
    content_type = tool.text("content_type")
    if not template:
        return
    try:
        entry["body"] = json_body(template, variable)
    except ValueError:
        entry["text"] = data(template, variable)
        entry["content_type"] = content_type or "application/json"
        result.changed.append((place, "its body is no JSON: it is sent as a text"))


def _read_answer(
    name: str, tool: Part, entry: dict[str, Any], tools: HttpTools, result: Imported
) -> None:
    paths: dict[str, str] = {}
    for output, path in _items(tool, "output_variables"):
        if not isinstance(path, str) or "[*]" in path:
            reason = "a path with [*] has no counterpart; nearest: the list itself"
            result.left.append((f"tools.{name}.output_variables.{output}", reason))
        else:
            paths[output] = _INDEX.sub(r".\1", path).lstrip(".")
    if paths:
        entry["result"] = paths
    tools.outputs[name] = list(paths)
    entry |= tool.copy({"timeout_ms": "timeout_ms", "max_response_size_bytes": "max_bytes"})
    if tool.text("error_message"):
        entry["error_messages"] = {"error": tool.text("error_message")}
    if not tool.truth("return_raw_json", default=False):
        tool.skip(("response_body_max_chars",))
    tool.leave("hold_audio_file", "the greeting waits in silence, at most `pre_call_timeout_ms`")
    tool.skip(("hold_audio_threshold_ms",))
