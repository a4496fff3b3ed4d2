"""Parses megabytes of JSON in a worker thread without blocking the event loop. Pure.

A parser in C holds the GIL from its first byte to its last: 5 MB of small objects block every
thread for 30 to 500 ms (orjson, pydantic; measured), even if another thread parses them. Here a
cheap traversal cuts the text at the commas of its larger containers into pieces of about 64 kB;
each is parsed separately (1 ms), and the GIL is free in between. The result is the same.

Too deep or too many containers are refused: they are useless for a phone call, and the garbage
collector would have to visit each of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

PIECE_BYTES = 64 * 1024
MAX_DEPTH = 200
"""The same limit as pydantic's own parser (jiter)."""
MAX_CONTAINERS = 250_000

_TOKEN = re.compile(rb'"[^"\\]{0,200}+"|["{}\[\],]')
"""Matches a short plain string as a whole, or one character that matters outside strings."""
_COMMA, _QUOTE, _BRACE, _BRACKET, _BACKSLASH = b',"{[\\'


class _Next(Enum):
    """The required beginning of the unparsed rest of a container."""

    ANYTHING = "the first member, or the end"
    MEMBER = "a member: a comma went before"
    COMMA = "a comma, or the end"


@dataclass(slots=True)
class _Container:
    """An open container."""

    start: int
    """Position of its opening bracket."""
    rest: int
    """Position of its unparsed rest."""
    name: slice
    """The last string before it: its name, if it is in an object."""
    made: dict[str, Any] | list[Any]
    """Its parsed members."""
    next: _Next = _Next.ANYTHING

    def parse(self, members: bytes) -> None:
        """Parse `members`, without a surrounding comma, and add them."""
        if self.next is _Next.COMMA:
            raise ValueError("a comma is missing")
        if isinstance(self.made, list):
            parsed = orjson.loads(b"[" + members + b"]")
            self.made.extend(parsed)
        else:
            parsed = orjson.loads(b"{" + members + b"}")
            self.made.update(parsed)
        if not parsed:
            raise ValueError("a member is missing")

    def comma(self, text: bytes, at: int) -> None:
        """Process a comma between two members at `at`."""
        if self.next is _Next.COMMA:
            if text[self.rest : at].strip():
                raise ValueError("a comma is missing")
        elif at - self.rest >= PIECE_BYTES:
            self.parse(text[self.rest : at])
        else:
            return
        self.rest, self.next = at + 1, _Next.MEMBER

    def put(self, text: bytes, child: _Container, end: int) -> None:
        """Add the members before a large child, then the child, which ends before `end`."""
        self.parse(text[self.rest : child.start] + b"null")
        if isinstance(self.made, list):
            self.made[-1] = child.made
        else:
            self.made[orjson.loads(text[child.name])] = child.made
        self.rest, self.next = end, _Next.COMMA

    def finish(self, text: bytes, at: int) -> None:
        """Parse the rest before the closing bracket at `at`."""
        left = text[self.rest : at].strip()
        if left or self.next is _Next.MEMBER:
            self.parse(left)


def parse_large(text: bytes) -> Any:
    """Return the value of a JSON text. Raises `ValueError`."""
    if len(text) <= PIECE_BYTES or text.lstrip()[:1] not in {b"{", b"["}:
        return orjson.loads(text)
    stack: list[_Container] = []
    containers = 0
    name = slice(0, 0)
    end = 0
    while token := _TOKEN.search(text, end):
        at, end = token.span()
        kind = text[at]
        if kind == _QUOTE:
            if end == at + 1:
                end = _string_end(text, end)
            name = slice(at, end)
        elif kind == _COMMA:
            stack[-1].comma(text, at)
        elif kind in {_BRACE, _BRACKET}:
            containers += 1
            if containers > MAX_CONTAINERS or len(stack) >= MAX_DEPTH:
                raise ValueError("it is too deep or has too many parts")
            stack.append(_Container(at, at + 1, name, {} if kind == _BRACE else []))
        else:
            done = stack.pop()
            if kind != (ord("}") if isinstance(done.made, dict) else ord("]")):
                raise ValueError("its brackets do not match")
            if not stack:
                done.finish(text, at)
                if text[at + 1 :].strip():
                    raise ValueError("something follows its end")
                return done.made
            if at - done.start >= PIECE_BYTES:
                done.finish(text, at)
                stack[-1].put(text, done, at + 1)
    raise ValueError("it ends too early")


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
