"""Parses megabytes of JSON in a worker thread without blocking the event loop. Pure.

A parser in C holds the GIL from its first byte to its last: 5 MB of small objects block every
thread for 30 to 500 ms (orjson, pydantic; measured), even if another thread parses them. The
standard library's parser in Python, which `json` keeps beside the one in C, gives way every 5 ms:
6 MB take 1.3 s in a worker, and the event loop waits 20 ms at most (measured). The result is that
of orjson.

Too deep or too many containers are refused: they are useless for a phone call, and the garbage
collector would have to visit each of them.
"""

from __future__ import annotations

import json
import json.scanner
import re
from collections.abc import Callable
from typing import Any

import orjson

SMALL_BYTES = 64 * 1024
"""A text up to this length is parsed by orjson: it takes 1 ms at most."""
MAX_CONTAINERS = 250_000

_TOKEN = re.compile(rb'"[^"\\]{0,200}+"|["{}\[\],]')
"""Matches a short plain string as a whole, or one character that matters outside strings."""
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)", re.DOTALL)
"""Matches an escape in a string; the group is half a pair, which stands for no character."""
_COMMA, _QUOTE, _BRACE, _BRACKET, _BACKSLASH = b',"{[\\'


def parse_large(text: bytes) -> Any:
    """Return the value of a JSON text. Raises `ValueError`."""
    if len(text) <= SMALL_BYTES:
        return orjson.loads(text)
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise ValueError("half a character is escaped")
    try:
        return _decoder().decode(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _decoder() -> Any:
    """Return a decoder that runs in Python and counts containers."""
    # Numbers as orjson reads them: large ones are floats, for it cannot write large integers.
    decoder: Any = json.JSONDecoder(
        parse_int=orjson.loads, parse_float=orjson.loads, parse_constant=orjson.loads
    )
    containers = 0

    def counted(parse: Callable[..., Any]) -> Callable[..., Any]:
        def take(*rest: Any) -> Any:
            nonlocal containers
            containers += 1
            if containers > MAX_CONTAINERS:
                raise ValueError("it has too many parts")
            return parse(*rest)

        return take

    decoder.parse_object = counted(decoder.parse_object)
    decoder.parse_array = counted(decoder.parse_array)
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder


def shallow(text: bytes, depth: int) -> bytes:
    """Replace each container below `depth` levels by `null`. Raises `ValueError`."""
    pieces: list[bytes] = []
    level = rest = end = 0
    while token := _TOKEN.search(text, end):
        at, end = token.span()
        kind = text[at]
        if kind == _QUOTE:
            if end == at + 1:
                end = _string_end(text, end)
        elif kind in {_BRACE, _BRACKET}:
            level += 1
            if level == depth + 1:
                pieces += [text[rest:at], b"null"]
        elif kind != _COMMA:
            if level == depth + 1:
                rest = end
            level -= 1
    return b"".join([*pieces, text[rest:]]) if level == 0 else b""


def _string_end(text: bytes, begin: int) -> int:
    """Return the position after the closing quote of the string that begins at `begin`."""
    while (quote := text.find(b'"', begin)) >= 0:
        before = quote
        while text[before - 1] == _BACKSLASH:
            before -= 1
        if (quote - before) % 2 == 0:
            return quote + 1
        begin = quote + 1
    raise ValueError("a string has no end")
