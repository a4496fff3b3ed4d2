"""The audit: who did what, when, from where. A file of JSON lines, in a chain of hashes.

`hash` of a line is the SHA-256 of the line without it, and `prev` the hash of the line before. So
no line can be changed, removed or inserted without changing all that follow; `verify` finds the
place. A file that was cut at its end is consistent: the engine's log has the last hash of each day,
and `cordboard audit verify` prints it.

A line is on the disk before its act happens. An act whose line cannot be written is refused; after
a crash the audit has an act too many rather than one too few. An act that then fails has a second
line, with `result: failed` and the number of the first.

At the first line of a month the file gets the name of the month before (`audit-2026-11.jsonl`), and
a new one goes on with the chain. Files that are older than they are kept are removed then.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_MOST_LOOKED = 20_000
"""Entries of one `read`, so that a filter that fits nothing does not read years of them."""
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
    via: Literal["session", "key", "link", "command", "node", ""] = ""
    """`node`: at another engine of the cluster, which the detail names."""
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
    """Number of the last line in order."""
    head: str
    """Its hash."""
    problem: str = ""
    """The first line that does not fit, and why; empty if all do."""
    first: int = 1
    """Number of the first line: greater than 1 once old files were removed."""


class AuditLog:
    """The file of one engine. Its methods block; several threads and processes may append."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        on_head: Callable[[int, str], None] = lambda seq, head: None,
        *,
        keep_months: int | None = None,
    ) -> None:
        """`clock` returns Unix seconds. `on_head` receives the number and hash of the last line of
        the past, at the first line of each day that this object writes. `keep_months`: whole months
        that are kept; None: all."""
        self.path = path
        self._clock = clock
        self._keep_months = keep_months
        self._on_head = on_head
        self._day = ""

    def append(self, entry: AuditEntry) -> int:
        """Write one line to the disk and return its number. Raises `StoreUnavailable`: the act must
        then not happen."""
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        try:
            private_files.make_folder(self.path.parent)
            with self._locked(at[:7]) as descriptor:
                end, seq, prev = _last(descriptor)
                if seq == 0:
                    seq, prev = _last_of(self._months())
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

    def read(
        self,
        limit: int,
        before: int | None = None,
        wanted: Callable[[Mapping[str, Any]], bool] = lambda entry: True,
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the last `limit` wanted entries, the newest first, and the number to read on from;
        0 when there are no older ones. `before`: only entries with smaller numbers. After 20,000
        entries it stops, perhaps with none. Raises `StoreUnavailable`."""
        found: list[dict[str, Any]] = []
        looked, last = 0, 0
        try:
            for path in (self.path, *reversed(self._months())):
                for entry in _entries_before(path, before):
                    if len(found) == limit or looked == _MOST_LOOKED:
                        return found, last
                    looked, last = looked + 1, int(entry["seq"])
                    if wanted(entry):
                        found.append(entry)
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"the audit {self.path} cannot be read: {error}") from error
        return found, 0

    def _months(self) -> list[Path]:
        return _months_of(self.path)

    @contextmanager
    def _locked(self, month: str) -> Iterator[int]:
        """Yield the file of the present month, locked."""
        while True:
            descriptor = private_files.open_lock(self.path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not self._was_renamed(descriptor) and not self._renamed(descriptor, month):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _was_renamed(self, descriptor: int) -> bool:
        """Return True if another process has begun a new file, while we waited for the lock."""
        try:
            present = self.path.stat()
        except FileNotFoundError:
            return True
        return present.st_ino != os.fstat(descriptor).st_ino

    def _renamed(self, descriptor: int, month: str) -> bool:
        """Give a file of an earlier month its name; remove files that are too old."""
        last = _last_month(descriptor)
        if not last or last >= month:
            return False
        os.ftruncate(descriptor, _last(descriptor)[0])  # half a line of a killed process
        self.path.rename(self.path.with_name(f"{self.path.stem}-{last}{self.path.suffix}"))
        if self._keep_months is not None:
            for path in self._months()[: -self._keep_months]:
                path.unlink()
        return True


def verify(path: Path) -> Verified:
    """Check every line of an audit, that of earlier months first. Raises `StoreUnavailable` when it
    cannot be read."""
    seq, prev, first = 0, _START, 1
    months = _months_of(path)
    try:
        for each in (*months, path) if path.exists() else months:
            with each.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if seq == 0:
                        seq, prev, first = _beginning(line)
                    problem = _problem(line, seq + 1, prev)
                    if problem:
                        place = f"line {number}" if each == path else f"{each.name}, line {number}"
                        return Verified(seq, prev, f"{place}: {problem}", first)
                    seq, prev = seq + 1, _hash_of(line)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror or error}") from error
    return Verified(seq, prev, first=first)


def _beginning(line: bytes) -> tuple[int, str, int]:
    """Return number and hash of the line before the first one, and the number of the first."""
    try:
        entry = orjson.loads(line)
        seq, prev = int(entry["seq"]), str(entry["prev"])
    except (ValueError, KeyError, TypeError):
        return 0, _START, 1
    return (seq - 1, prev, seq) if seq > 1 else (0, _START, 1)


def _months_of(path: Path) -> list[Path]:
    """Return the files of earlier months, the oldest first."""
    return sorted(path.parent.glob(f"{path.stem}-[0-9][0-9][0-9][0-9]-[0-9][0-9]{path.suffix}"))


def _last_of(months: Sequence[Path]) -> tuple[int, str]:
    """Return number and hash of the last line of earlier months."""
    if not months:
        return 0, _START
    descriptor = os.open(months[-1], os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _last(descriptor)[1:]
    finally:
        os.close(descriptor)


def _entries_before(path: Path, before: int | None) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file with smaller numbers, the newest first."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        end = file.seek(0, os.SEEK_END)
        if before is not None:
            end = _place_of(file.fileno(), end, before)
        for line in _backwards(file.fileno(), end):
            yield orjson.loads(line)


def _place_of(descriptor: int, end: int, seq: int) -> int:
    """Return the place of the first line with this number or a greater one, by halving."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        block = os.pread(descriptor, 2 * _LONGEST, middle - 1 if middle else 0)
        begin = 0 if middle == 0 else block.find(b"\n") + 1
        stop = block.find(b"\n", begin)
        place = (middle - 1 if middle else 0) + begin
        if stop < 0 or place >= high:  # no whole line begins here
            high = middle
        elif int(orjson.loads(block[begin:stop])["seq"]) < seq:
            low = place + (stop - begin) + 1
        else:
            high = middle
    return low


def _problem(line: bytes, seq: int, prev: str) -> str:
    if not line.endswith(b"\n"):
        return "it is not complete: a process was killed while it wrote, before its act happened"
    body, mark, end = line.rpartition(_HASH)
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "it is not JSON"
    if not mark or not isinstance(entry, dict):
        return "it has no hash"
    if end != hashlib.sha256(body + b"}").hexdigest().encode() + b'"}\n':  # and no key after it
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


def _last_month(descriptor: int) -> str:
    """Return the month of the last line, `2026-11`; empty without one."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    for line in _backwards(descriptor, size):
        return str(orjson.loads(line)["at"])[:7]
    return ""


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


def _backwards(descriptor: int, end: int) -> Iterator[bytes]:
    """Yield the whole lines before `end`, the last first."""
    rest = b""
    while end > 0:
        start = max(0, end - _LONGEST)
        block = os.pread(descriptor, end - start, start) + rest
        first = 0 if start == 0 else block.find(b"\n") + 1
        stop = block.rfind(b"\n") + 1
        while stop > first:
            begin = max(first, block.rfind(b"\n", 0, stop - 1) + 1)
            yield block[begin:stop]
            stop = begin
        if start > 0 and first == 0:
            raise ValueError("it has a line that is too long")
        rest, end = block[:first], start
