"""`{placeholders}` of AVA, which stay as written when they are unknown, as ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_PLAIN = re.compile(
    r"\$\$|\$\{[^}]{0,1000}\}|\{(\s*[A-Za-z_][\w.-]*(?: +[\w.-]+)*\s*(?:\|[^{}|]*)?)\}"
)
"""All that our prompts take for a placeholder, but not `${VARIABLE}`."""
_NAME = re.compile(r"\$\$|\$\{[^}]{0,1000}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DEEPEST = 20
"""Nesting of a body that is kept as JSON; the configuration's own limit is 50 for the whole."""
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\{([A-Za-z_][A-Za-z0-9_]*)\}')


def prompt(text: str, names: Mapping[str, str], unknown: Callable[[str], None]) -> str:
    """Return a prompt with our names; unknown placeholders are literal, as AVA speaks them."""

    def ours(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        if found[1] in names:
            return f"{{{names[found[1]]}}}"
        unknown(found[1])
        return f"{{{found[0]}}}"

    return _PLAIN.sub(ours, text)


def data(text: str, names: Callable[[str], str | None]) -> str:
    """Return a text that is sent with our names; all other braces are literal."""
    pieces, end = [], 0
    for found in _NAME.finditer(text):
        pieces.append(_doubled(text[end : found.start()]))
        if found[1] is None:
            pieces.append(found[0])
        else:
            name = names(found[1])
            pieces.append(_doubled(found[0]) if name is None else f"{{{name}}}")
        end = found.end()
    return "".join([*pieces, _doubled(text[end:])])


def json_body(text: str, names: Callable[[str], str | None]) -> Any:
    """Return a JSON body; `{name}` outside of texts is quoted, which keeps the value's type. Raises
    `ValueError`."""
    quoted = _JSON_TOKEN.sub(lambda found: f'"{{{found[1]}}}"' if found[1] else found[0], text)
    try:
        return _in_texts(json.loads(quoted), names, _DEEPEST)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _in_texts(value: Any, names: Callable[[str], str | None], depth: int) -> Any:
    if isinstance(value, str):
        return data(value, names)
    if not depth:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return {key: _in_texts(inner, names, depth - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_texts(inner, names, depth - 1) for inner in value]
    return value


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
