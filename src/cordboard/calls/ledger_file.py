"""The file of one ledger: made once, never opened again, and whole whatever the disk does.

A line that cannot be written waits in memory, and so do those after it, until the disk takes them:
the file goes on at the very byte where it stopped. When too much waits, lines are lost; in their
place stands `ledger.gap`, and the newest line is always kept, so a ledger ends with its
`call.ended`. Only the writer's thread touches what is private here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.calls.events import Gap, LedgerEvent

NOT_RECORDED = {"not_recorded": "nested too deep"}
"""Stands for what an agent made up that no JSON can hold."""

_PIECE = 65_536
"""Bytes that are written at once."""

Write = Callable[[int, bytes], int]
"""As `os.write`."""


class LedgerFile:
    """One ledger on its way to the disk."""

    def __init__(self, path: Path, write: Write = os.write) -> None:
        """`path`: its place, unless there is such a file already."""
        self.path = path
        """Where it is. Gets a number (`…-2.jsonl`) when the file is made and the name is taken."""
        self.finished = False
        """Nothing more comes."""
        self._write_bytes = write
        self._descriptor: int | None = None
        self._waiting = bytearray()
        self._newest: tuple[int, bytes] | None = None
        """The last line, when there was no room for it, with its time; `_lost` are before it."""
        self._lost = 0
        self._lost_since = 0

    @property
    def made(self) -> bool:
        """Whether the file is there."""
        return self._descriptor is not None

    @property
    def waiting(self) -> int:
        """Bytes that are not written yet."""
        return len(self._waiting)

    @property
    def unwritten(self) -> bool:
        """Whether any line waits for the disk."""
        return bool(self._waiting) or self._newest is not None

    def take(self, line: bytes, at_ms: int, *, room: bool) -> None:
        """Keep a line until `write`. Without room only the newest one is kept."""
        if self._newest is not None:
            self._lost_since = self._lost_since if self._lost else self._newest[0]
            self._lost += 1
        elif room:
            self._waiting += line
            return
        self._newest = at_ms, line

    def make(self) -> None:
        """Make the file. Raises `OSError`."""
        for path in _names(self.path):
            try:
                self._descriptor = private_files.create(path)
            except FileExistsError:
                if not path.parent.is_dir():
                    raise
                continue
            self.path = path
            return

    def write(self) -> None:
        """Write what waits. Raises `OSError`; what was not written goes on waiting."""
        self._drain()
        if self._newest is None:
            return
        at_ms, line = self._newest
        if self._lost:
            gap = Gap(self._lost, self._lost_since)
            self._waiting += encode_event(at_ms, gap)
        self._waiting += line
        self._newest, self._lost = None, 0
        self._drain()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _drain(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - `make` comes first
        while self._waiting:
            written = self._write_bytes(self._descriptor, bytes(self._waiting[:_PIECE]))
            del self._waiting[:written]


def encode_event(at_ms: int, event: LedgerEvent) -> bytes:
    """An event as a line of a ledger."""
    return encode_line({"at_ms": at_ms, "type": event.type, **event.fields()})


def encode_line(line: Mapping[str, Any]) -> bytes:
    """One line of JSON, whatever an agent or a phone line put into its fields."""
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, integers over 64 bits, keys that are no texts
        return _encode_strange(line)


def _encode_strange(line: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(line, default=str, ensure_ascii=False, skipkeys=True)
    except (RecursionError, ValueError):  # nested too deep, or in a circle
        plain = {
            key: value if isinstance(value, (str, int, float)) else NOT_RECORDED
            for key, value in line.items()
        }
        text = json.dumps(plain, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def _names(path: Path) -> Iterator[Path]:
    """The name of a ledger, and those that it gets when there is one of that name."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
