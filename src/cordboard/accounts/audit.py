"""The audit: who did what, when, from where. A file of JSON lines, in a chain of hashes.

`hash` of a line is the SHA-256 of the line without it, and `prev` the hash of the line before. So
no line can be changed, removed or inserted without changing all that follow; `verify` finds the
place. A file that was cut at its end is consistent: the engine's log has the last hash of each day,
and `cordboard audit verify` prints it.

A line is on the disk before its act happens. An act whose line cannot be written is refused; after
a crash the audit has an act too many rather than one too few. An act that then fails has a second
line, with `result: failed` and the number of the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from cordboard import private_files
from cordboard.errors import StoreUnavailable

_START = "0" * 64
"""`prev` of the first line."""
_HASH = b',"hash":"'
_LONGEST = 64 * 1024
"""Bytes of a line: fields are cut so that the last line is within this distance of the end."""
MOST_TEXT = 500
"""Characters of one text of an entry."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act, or a look at something personal."""

    who: str
    """A user's name, `key:` and the id of a key, `machine` for commands on the engine's machine."""
    action: str
    """Such as `call.hangup`."""
    on: str = ""
    """The call, user, key, server or tool that it was done to."""
    via: Literal["session", "key", "link", "command", ""] = ""
    client: str = ""
    """IP address; empty for a command."""
    role: str = ""
    context: str = ""
    """Context of the call or tool."""
    result: Literal["done", "refused", "failed"] = "done"
    """`done`: it was allowed, and began after this line was written."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: what was changed, why it was refused. Never a secret or words of a call."""
    request: str = ""
    """Id of the HTTP request, as in its answer."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of checking the chain."""

    lines: int
    """Lines in order, from the first."""
    head: str
    """Hash of the last of them."""
    problem: str = ""
    """The first line that does not fit, and why; empty if all do."""


class AuditLog:
    """The file of one engine. Its methods block; several threads and processes may append."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        on_head: Callable[[int, str], None] = lambda seq, head: None,
    ) -> None:
        """`clock` returns Unix seconds. `on_head` receives the number and hash of the last line of
        the past, at the first line of each day that this object writes."""
        self.path = path
        self._clock = clock
        self._on_head = on_head
        self._day = ""

    def append(self, entry: AuditEntry) -> int:
        """Write one line to the disk and return its number. Raises `StoreUnavailable`: the act must
        then not happen."""
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        try:
            private_files.make_folder(self.path.parent)
            with self._locked() as descriptor:
                end, seq, prev = _last(descriptor)
                if at[:10] != self._day:
                    self._day = at[:10]
                    self._on_head(seq, prev)
                seq += 1
                _write(descriptor, end, _line({"at": at, "seq": seq, **_cut(entry), "prev": prev}))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            message = f"the audit {self.path} cannot be written: {reason}"
            raise StoreUnavailable(message) from error
        return seq

    def read(self, limit: int, before: int | None = None) -> tuple[list[dict[str, Any]], int]:
        """Return the last `limit` entries, the newest first, and the place to read on from; 0 when
        there are no older ones. `before` is such a place. Raises `StoreUnavailable`."""
        found: list[dict[str, Any]] = []
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END) if before is None else before
                for start, line in _backwards(file.fileno(), end):
                    if len(found) == limit:
                        return found, end
                    end = start
                    found.append(orjson.loads(line))
        except FileNotFoundError:
            return [], 0
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"the audit {self.path} cannot be read: {error}") from error
        return found, 0

    @contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = private_files.open_lock(self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)


def verify(path: Path) -> Verified:
    """Check every line of an audit. Raises `StoreUnavailable` when it cannot be read."""
    seq, prev = 0, _START
    try:
        with path.open("rb") as file:
            for line in file:
                problem = _problem(line, seq + 1, prev)
                if problem:
                    return Verified(seq, prev, f"line {seq + 1}: {problem}")
                seq, prev = seq + 1, _hash_of(line)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror or error}") from error
    return Verified(seq, prev)


def _problem(line: bytes, seq: int, prev: str) -> str:
    if not line.endswith(b"\n"):
        return "it is not complete: a process was killed while it wrote, before its act happened"
    body, mark, _ = line.rpartition(_HASH)
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "it is not JSON"
    if not mark or not isinstance(entry, dict):
        return "it has no hash"
    if hashlib.sha256(body + b"}").hexdigest() != entry.get("hash"):
        return "it was changed: its hash is not that of its content"
    if entry.get("prev") != prev or entry.get("seq") != seq:
        return "it does not follow the line before: lines were removed, inserted or exchanged"
    return ""


def _line(entry: Mapping[str, Any]) -> bytes:
    body = orjson.dumps(entry)
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + _HASH + digest.encode() + b'"}\n'


def _hash_of(line: bytes) -> str:
    return line.rpartition(_HASH)[2][:64].decode("ascii")


def _cut(entry: AuditEntry) -> dict[str, Any]:
    """Return the fields with long texts cut, and without characters that are no text."""

    def cut(value: Any) -> Any:
        if isinstance(value, str):
            return value[:MOST_TEXT].encode("utf-8", "replace").decode()
        if isinstance(value, Mapping):
            return {cut(str(name)): cut(inner) for name, inner in [*value.items()][:30]}
        if isinstance(value, (list, tuple)):
            return [cut(inner) for inner in value[:50]]
        return value if isinstance(value, (int, float, bool, type(None))) else cut(str(value))

    return {name: cut(value) for name, value in asdict(entry).items()}


def _last(descriptor: int) -> tuple[int, int, str]:
    """Return the end of the last whole line, its number, and its hash. Raises `ValueError`."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    start = max(0, size - 2 * _LONGEST)
    tail = os.pread(descriptor, size - start, start)
    end = tail.rfind(b"\n") + 1  # after it: half a line of a process that was killed
    if end == 0:
        if start > 0:
            raise ValueError("its last line is too long")
        return 0, 0, _START
    line = tail[:end][tail.rfind(b"\n", 0, end - 1) + 1 :]
    return start + end, int(orjson.loads(line)["seq"]), _hash_of(line)


def _write(descriptor: int, end: int, line: bytes) -> None:
    """Write a line at `end`, whole or not at all, and onto the disk."""
    if len(line) > _LONGEST:
        raise ValueError("the entry is too long")
    try:
        os.ftruncate(descriptor, end)
        written = os.pwrite(descriptor, line, end)
        if written < len(line):
            os.pwrite(descriptor, line[written:], end + written)  # raises the reason
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _backwards(descriptor: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines before `end`, the last first, each with its place."""
    rest = b""
    while end > 0:
        start = max(0, end - _LONGEST)
        block = os.pread(descriptor, end - start, start) + rest
        first = 0 if start == 0 else block.find(b"\n") + 1
        stop = block.rfind(b"\n") + 1
        while stop > first:
            begin = max(first, block.rfind(b"\n", 0, stop - 1) + 1)
            yield start + begin, block[begin:stop]
            stop = begin
        if start > 0 and first == 0:
            raise ValueError("it has a line that is too long")
        rest, end = block[:first], start
