"""The file of one ledger: created once, never reopened, and intact despite disk failures.

If a line cannot be written, it waits in memory, and so do later lines, until the disk accepts them:
the file continues at exactly the byte where it stopped. If too many bytes wait, lines are lost and
replaced by `ledger.gap`; the newest line is always kept, so a ledger ends with its `call.ended`.
Only the writer's thread accesses the private attributes.

Where `privacy.encryption` is on, each line is one record of an encrypted file (`sealed_file`).
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
from cordboard.privacy.sealed_file import PLAIN, Seal, Vault

NOT_RECORDED = {"not_recorded": "nested too deep"}
"""Replaces an agent's data that JSON cannot express."""

KIND = "ledger"
"""Kind of an encrypted ledger."""
REFUSED_OFFERS = "refused.jsonl"
"""File of a day's refused offers, beside the ledgers."""
_PIECE = 65_536
"""Bytes per write."""

Write = Callable[[int, bytes], int]
"""A function like `os.write`."""


class LedgerFile:
    """One ledger and its lines that wait for the disk."""

    def __init__(self, path: Path, write: Write = os.write, vault: Vault = PLAIN) -> None:
        """`path` is its place, unless such a file already exists."""
        self._vault = vault
        self.seal = vault.new_call()
        """Encrypts the files of this call; None = they are plain."""
        self._head = b""
        self._seal: Seal | None = None
        if self.seal is not None:
            self._head, self._seal = self.seal.begin(KIND)
        self._taken = 0
        """Bytes of lines so far, before encryption."""
        self.path = path
        """Its place. Gets a number (`…-2.jsonl`) if the name is taken when the file is created."""
        self.finished = False
        """True if no further lines follow."""
        self._write_bytes = write
        self._descriptor: int | None = None
        self._waiting = bytearray()
        self._newest: tuple[int, bytes] | None = None
        """The last line and its time if there was no room for it; `_lost` counts lines before
        it."""
        self._lost = 0
        self._lost_since = 0

    @property
    def made(self) -> bool:
        """True if the file has been created."""
        return self._descriptor is not None

    @property
    def waiting(self) -> int:
        """Bytes that are not written yet."""
        return len(self._waiting)

    @property
    def unwritten(self) -> bool:
        """True if any line waits for the disk."""
        return bool(self._waiting) or self._newest is not None

    def take(self, line: bytes, at_ms: int, *, room: bool) -> None:
        """Keep a line until `write`. Without room only the newest one is kept."""
        if self._newest is not None:
            self._lost_since = self._lost_since if self._lost else self._newest[0]
            self._lost += 1
        elif room:
            self._put(line)
            return
        self._newest = at_ms, line

    def make(self) -> None:
        """Create the file. Raises `OSError`."""
        if self.seal is not None:
            self._vault.keep(self.seal)
        for path in _names(self.path):
            try:
                self._descriptor = private_files.create(path)
            except FileExistsError:
                if not path.parent.is_dir():
                    raise
                continue
            self.path = path
            self._waiting[:0] = self._head
            return

    def write(self) -> None:
        """Write the waiting lines. Raises `OSError`; unwritten lines keep waiting."""
        self._drain()
        if self._newest is None:
            return
        at_ms, line = self._newest
        if self._lost:
            gap = Gap(self._lost, self._lost_since)
            self._put(encode_event(at_ms, gap))
        self._put(line)
        self._newest, self._lost = None, 0
        self._drain()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _put(self, line: bytes) -> None:
        self._waiting += line if self._seal is None else self._seal.record(self._taken, line)
        self._taken += len(line)

    def _drain(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - `make` comes first
        while self._waiting:
            written = self._write_bytes(self._descriptor, bytes(self._waiting[:_PIECE]))
            del self._waiting[:written]


def encode_event(at_ms: int, event: LedgerEvent) -> bytes:
    """Return an event as a line of a ledger."""
    return encode_line({"at_ms": at_ms, "type": event.type, **event.fields()})


def encode_line(line: Mapping[str, Any]) -> bytes:
    """Return one line of JSON, for any content of its fields."""
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, integers over 64 bits, keys that are not strings
        return _encode_strange(line)


def _encode_strange(line: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(line, default=str, ensure_ascii=False, skipkeys=True)
    except (RecursionError, ValueError):  # nested too deep, or circular
        plain = {
            key: value if isinstance(value, (str, int, float)) else NOT_RECORDED
            for key, value in line.items()
        }
        text = json.dumps(plain, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def _names(path: Path) -> Iterator[Path]:
    """Yield the name of a ledger, then the names to try if it is taken."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
