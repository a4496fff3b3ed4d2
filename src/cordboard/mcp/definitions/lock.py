"""The accepted definition of each MCP tool, its file, and the comparison of a listed tool with it.

A server may change a tool's description and parameters at any time, also after the operator has
reviewed them. A `Lock` pins a SHA-256 of each definition as agents receive it, and the definition
itself, so that a change can be shown.

The file (`mcp.lock_file`, by default `mcp.lock` beside the configuration) is meant to be kept under
version control: JSON, sorted, one value per line. Only `cordboard mcp accept` writes it, never a
running engine. For a server without an entry, nothing has been accepted yet.

    {"version": 1, "servers": {"aviation": {"get_atis": {"sha256": "...", "definition": {...}}}}}

All functions for the file except `diff` block on the disk: call them in a thread.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cordboard.errors import ConfigError, ConfigProblem, LockChanged
from cordboard.mcp.definitions.definition import ListedTool, fingerprint_of, read_tool
from cordboard.mcp.definitions.diff import MAX_LINES, definition_diff, heading
from cordboard.tools.tool import JsonObject


class Standing(StrEnum):
    """Result of comparing a listed tool with the accepted one."""

    SAME = "same"
    NEW = "new"
    """The server has an entry, but without this tool."""
    CHANGED = "changed"
    GONE = "gone"
    """Accepted, but no longer listed."""
    UNKNOWN = "unknown"
    """No tools of this server have been accepted yet."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One accepted definition."""

    sha256: str
    definition: JsonObject


@dataclass(frozen=True, slots=True)
class Judgement:
    """The comparison of one tool with the lock."""

    standing: Standing
    accepted: JsonObject = field(default_factory=dict)
    """The accepted definition; empty unless the tool has changed."""
    listed: JsonObject = field(default_factory=dict)
    """The definition as listed now; empty unless the tool has changed."""

    def diff(self, limit: int = MAX_LINES) -> tuple[str, ...]:
        """Return the differences of a changed tool: lines `- path: value`, `+ path: value`."""
        return tuple(definition_diff(self.accepted, self.listed, limit))


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that has been accepted: server → tool → `Pin`."""

    servers: Mapping[str, Mapping[str, Pin]] = field(default_factory=dict)
    problem: ConfigProblem | None = None
    """Problem of an existing but unreadable file; nothing counts as accepted then."""
    changed: frozenset[str] = frozenset()
    """The servers whose entries differ from the file's (`save_lock` writes only these)."""

    def judge(self, server: str, tool: types.Tool) -> Judgement:
        """Compare a listed tool with the lock."""
        pins = self.servers.get(server)
        if pins is None:
            return Judgement(Standing.UNKNOWN)
        pin = pins.get(tool.name)
        if pin is None:
            return Judgement(Standing.NEW)
        listed = read_tool(tool)
        if not listed.refusal and listed.fingerprint == pin.sha256:
            return Judgement(Standing.SAME)
        return Judgement(Standing.CHANGED, pin.definition, listed.definition)

    def pinned(self, server: str, tool: str) -> ListedTool | None:
        """Return a tool as it was accepted; None if it was not."""
        pin = self.servers.get(server, {}).get(tool)
        return read_tool(pin.definition) if pin is not None else None

    def gone(self, server: str, listing: Iterable[types.Tool]) -> tuple[str, ...]:
        """Return the names of accepted tools that the server no longer lists."""
        listed = {tool.name for tool in listing}
        return tuple(name for name in self.servers.get(server, ()) if name not in listed)

    def accepted(self, server: str, listing: Iterable[types.Tool]) -> Lock:
        """Return a lock with this listing instead of the server's earlier entry; others stay."""
        tools = [read_tool(tool) for tool in listing]
        pins = {
            tool.name: Pin(tool.fingerprint, tool.definition) for tool in tools if not tool.refusal
        }
        return replace(
            self,
            servers={**self.servers, server: pins},
            changed=self.changed | {server},
        )

    def forgotten(self, server: str) -> Lock:
        """Return a lock without the server's entry; others stay."""
        servers = {name: pins for name, pins in self.servers.items() if name != server}
        return replace(self, servers=servers, changed=self.changed | {server})


def diff(old: Lock, new: Lock) -> str:
    """Return the differences between two locks as text for people."""
    lines: list[str] = []
    for server in sorted({*old.servers, *new.servers}):
        before, after = old.servers.get(server, {}), new.servers.get(server, {})
        for tool in sorted({*before, *after}):
            was, now = before.get(tool), after.get(tool)
            if was is not None and now is not None and was.sha256 == now.sha256:
                continue
            standing = "changed" if was and now else "new" if now else "gone"
            lines.append(heading(server, tool, standing))
            lines += definition_diff(was.definition if was else {}, now.definition if now else {})
    return "\n".join(lines)


__all__ = [
    "Judgement",
    "Lock",
    "Standing",
    "diff",
    "load_lock",
    "save_lock",
    "try_load_lock",
]

VERSION = 1
MAX_FILE_BYTES = 64 * 1024 * 1024
_NEW_FILE_MODE = 0o644


def load_lock(path: Path) -> Lock:
    """Return the lock in that file; an empty one if the file does not exist.

    Raises `ConfigError` with file and line if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise _damaged(path, f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise _damaged(path, f"has more than {MAX_FILE_BYTES} bytes")
    return _parse(data, path)


def try_load_lock(path: Path) -> Lock:
    """Like `load_lock`, but an unreadable file gives a lock with a `problem`."""
    try:
        return load_lock(path)
    except ConfigError as error:
        return Lock(problem=replace(error.problems[0], fatal=False))


def save_lock(path: Path, lock: Lock, seen: Lock | None = None) -> None:
    """Write the entries that `lock` has changed; all others stay as they are in the file now.

    Atomic: readers see the old file or the new one, also after a power cut. Concurrent writers wait
    for each other. The file keeps its mode. Raises `LockChanged` if the file's entries of these
    servers are no longer those of `seen` (None: they may be any), and `ConfigError`.
    """
    path = path.resolve()
    try:
        with _alone_in(path.parent):
            present = load_lock(path)
            for name in lock.changed:
                if seen is not None and present.servers.get(name) != seen.servers.get(name):
                    raise LockChanged(f"the accepted tools of {name} have changed meanwhile")
            servers = {
                name: pins for name, pins in present.servers.items() if name not in lock.changed
            }
            servers |= {name: lock.servers[name] for name in lock.changed if name in lock.servers}
            _replace_file(path, _text(servers))
    except OSError as error:
        raise _damaged(path, f"cannot be written: {error.strerror}") from error


# --- the file ------------------------------------------------------------------------------


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    definition: dict[str, Any]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    version: int
    servers: dict[str, dict[str, _Entry]]


def _parse(data: bytes, path: Path) -> Lock:
    try:
        raw = json.loads(data, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _damaged(path, f"is not JSON: {error.msg}", error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"is not JSON: {error}") from error
    if isinstance(raw, dict) and isinstance(raw.get("version"), int) and raw["version"] > VERSION:
        raise _damaged(path, f"has version {raw['version']}; this engine knows {VERSION}", 1)
    try:
        file = _File.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = [str(part) for part in first["loc"]]
        words = f"has a wrong entry at {'.'.join(place) or 'the top'}: {first['msg']}"
        raise _damaged(path, words, _line_of(data, place)) from error
    servers: dict[str, dict[str, Pin]] = {}
    for server, tools in file.servers.items():
        servers[server] = {}
        for tool, entry in tools.items():
            if _fingerprint(entry.definition) != entry.sha256:
                words = f"was altered: servers.{server}.{tool}.sha256 is not that of its definition"
                line = _line_of(data, ["servers", server, tool, "sha256"])
                raise _damaged(path, words, line)
            servers[server][tool] = Pin(entry.sha256, entry.definition)
    return Lock(servers)


def _fingerprint(definition: dict[str, Any]) -> str:
    try:
        return fingerprint_of(definition)
    except TypeError:  # numbers and texts that no definition can contain
        return ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} appears twice")
    return found


def _line_of(data: bytes, place: list[str]) -> int | None:
    """Return the 1-based line of the deepest key of `place` found in a file written by `_text`."""
    lines = data.decode("utf-8", "replace").splitlines()
    found, number = None, 0
    for depth, key in enumerate(place, start=1):
        start = f"{' ' * depth}{json.dumps(key, ensure_ascii=False)}:"
        while number < len(lines) and not lines[number].startswith(start):
            number += 1
        if number == len(lines):
            break
        found = number + 1
    return found


def _text(servers: Mapping[str, Mapping[str, Pin]]) -> str:
    whole = {
        "version": VERSION,
        "servers": {
            server: {
                tool: {"sha256": pin.sha256, "definition": pin.definition}
                for tool, pin in pins.items()
            }
            for server, pins in servers.items()
        },
    }
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Block other writers of this directory. Leaves no lock file behind."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)  # the rename itself
    finally:
        os.close(descriptor)


def _replace_file(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
            _take_over(path, descriptor)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _take_over(path: Path, descriptor: int) -> None:
    """Copy owner and mode of the old file to the new one."""
    try:
        old = path.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, _NEW_FILE_MODE)
        return
    with suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o7777)


def _damaged(path: Path, words: str, line: int | None = None) -> ConfigError:
    message = f"the MCP lockfile {words}"
    return ConfigError([ConfigProblem(message, key="mcp.lock_file", file=str(path), line=line)])
