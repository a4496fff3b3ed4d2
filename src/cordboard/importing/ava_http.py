"""HTTP tools of AVA, before, during and after calls, as tools of `kind: http` and steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cordboard.config.remote_url import inner_problem, is_loopback, literal_address
from cordboard.importing.ava_keys import AFTER_THE_CALL, VARIABLES
from cordboard.importing.result import Imported, Part

_DIFFERENT: Mapping[str, str] = {
    "call_duration": "call_duration is in milliseconds",
    "summary": "summary is the whole transcript: no model sums it up",
}
_KEYS = {
    "timeout_ms": "timeout_ms",
    "max_response_size_bytes": "max_bytes",
    "error_message": "error_messages.error",
}
_OPTIONAL = ("query", "effects", "result", "parameters")
"""Keys that an entry has only with a value."""
_INDEX = re.compile(r"\[(\d+)\]")
_NAME = re.compile(r"\$\$|\$\{[^}]{0,1000}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\{([A-Za-z_][A-Za-z0-9_]*)\}')
_DEEPEST = 20
"""Nesting of a body that is kept as JSON; the configuration's own limit is 50 for the whole."""

Filler = Callable[[str], str]
"""Returns a text of theirs, with our placeholders."""


@dataclass(frozen=True, slots=True)
class HttpTool:
    """A tool of AVA, as steps of contexts use it."""

    ours: str
    """Its name here."""
    phase: str
    everywhere: bool
    """True for every context that does not switch it off (`is_global`)."""
    outputs: tuple[str, ...]
    """Output variables of a tool before the call."""
    arguments: dict[str, str]
    """Arguments of the step of a tool after the call."""


def read_http_tool(
    tool: Part, ours: str, phase: str, result: Imported
) -> tuple[HttpTool, dict[str, Any]]:
    """Return a tool for steps, and its entry under `tools`."""
    tool.skip(("kind", "phase", "enabled", "summary_max_words", "summary_prompt"))
    tool.skip(("generate_summary", "hold_audio_threshold_ms"))
    place = f"tools.{tool.path[-1]}"
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

    def filled(text: str) -> str:
        return _filled(text, variable)

    method = tool.text("method").upper() or ("GET" if phase == "pre_call" else "POST")
    entry = {"kind": "http", **tool.copy(("description",)), "method": method}
    entry["url"] = filled(tool.text("url"))
    if _is_private(entry["url"]):
        entry["allow_private"] = True
        result.changed.append((place, "it may reach your own network, as in AVA: `allow_private`"))
    entry["query"] = {key: filled(str(value)) for key, value in _items(tool, "query_params")}
    _read_headers(tool, entry, filled)
    if method not in ("GET", "HEAD"):
        _read_body(tool, entry, filled, place, result)
    entry["effects"] = "read_only" if phase == "pre_call" else ""
    paths = entry["result"] = _paths(tool, result)
    entry |= tool.copy(_KEYS)
    if not tool.truth("return_raw_json", default=False):
        tool.skip(("response_body_max_chars",))
    waits = "the greeting waits in silence, at most `pre_call_timeout_ms`"
    tool.leave({"hold_audio_file": waits})
    result.changed += [(place, words) for key, words in _DIFFERENT.items() if key in arguments]
    entry["parameters"] = parameters | {key: {} for key in arguments}
    everywhere = tool.truth("is_global", default=False)
    tool.rest("no counterpart in tools of `kind: http`")
    step = HttpTool(ours, phase, everywhere, tuple(paths), arguments)
    return step, {key: value for key, value in entry.items() if value or key not in _OPTIONAL}


def _parameters(tool: Part) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for parameter in tool.list_of_parts("parameters"):
        if name := parameter.text("name"):
            parameters[name] = parameter.copy(("type", "description", "enum", "default"))
            if not parameter.truth("required", default=False):
                parameters[name]["required"] = False
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


def _read_headers(tool: Part, entry: dict[str, Any], filled: Filler) -> None:
    for name, value in _items(tool, "headers"):
        text = str(value)
        if name.lower() == "content-type" and "json" in text.lower():
            continue
        template = filled(text)
        plain = template == _doubled(text) or "${" in text
        section = "headers" if plain else "header_templates"
        entry.setdefault(section, {})[name] = text if plain else template


def _read_body(
    tool: Part, entry: dict[str, Any], filled: Filler, place: str, result: Imported
) -> None:
    template = tool.text("body_template") or tool.text("payload_template")
    content_type = tool.text("content_type") or "application/json"
    if not template:
        return
    # `{name}` outside of texts is quoted, which keeps the value's type.
    quoted = _JSON_TOKEN.sub(lambda found: f'"{found[0]}"' if found[1] else found[0], template)
    try:
        entry["body"] = _in_texts(json.loads(quoted), filled, _DEEPEST)
    except (ValueError, RecursionError):
        entry |= {"text": filled(template), "content_type": content_type}
        result.changed.append((place, "its body is no JSON: it is sent as a text"))


def _paths(tool: Part, result: Imported) -> dict[str, str]:
    paths: dict[str, str] = {}
    for output, path in _items(tool, "output_variables"):
        if isinstance(path, str) and "[*]" not in path:
            paths[output] = _INDEX.sub(r".\1", path).lstrip(".")
            continue
        reason = "a path with [*] has no counterpart; nearest: the list itself"
        result.left.append((f"tools.{tool.path[-1]}.output_variables.{output}", reason))
    return paths


def _filled(text: str, names: Callable[[str], str | None]) -> str:
    """Return a text that is sent with our names; all other braces are literal."""
    pieces, end = [], 0
    for found in _NAME.finditer(text):
        name = names(found[1]) if found[1] else None
        pieces.append(_doubled(text[end : found.start()]))
        kept = found[0] if found[1] is None else _doubled(found[0])
        pieces.append(kept if name is None else f"{{{name}}}")
        end = found.end()
    return "".join([*pieces, _doubled(text[end:])])


def _in_texts(value: Any, filled: Filler, depth: int) -> Any:
    """Return JSON with its texts filled. Raises `ValueError` if it is nested too deep."""
    if isinstance(value, str):
        return filled(value)
    if not depth:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {key: _in_texts(inner, filled, depth - 1) for key, inner in value.items()}
    return [_in_texts(v, filled, depth - 1) for v in value] if isinstance(value, list) else value


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
