"""Nothing that an MCP server has started outlives it, nor the engine that started the server.

Each server gets an environment variable, its mark, which everything it starts inherits, also what
makes a session of its own and so escapes the end of the server's process group:

    CORDBOARD_SERVER=<boot id>:<PID namespace>:<engine's PID>:<its start time>:<number of the life>

`end_marked` ends what carries one life's mark. `sweep_orphans` ends what carries the mark of an
engine that no longer lives, for servers of an engine that was killed outright. Processes of other
users, boots, PID namespaces and of living engines are never touched. A process that clears its
environment is not found. Off Linux both do nothing. They read /proc and wait: call them in threads.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import structlog

MARK = "CORDBOARD_SERVER"
GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
KILL_SECONDS = 2.0
_ROUNDS = 5
"""How often what has meanwhile been forked is looked for."""

_PROC = Path("/proc")
_lives = count(1)

log = structlog.get_logger()


def new_mark() -> str:
    """The mark of a server's life that begins now, or an empty text off Linux."""
    engine = _this_engine(os.getpid())
    return f"{engine}:{next(_lives)}" if engine else ""


def sweep_orphans() -> list[int]:
    """End what killed engines have left behind; returns the process ids. For a thread."""
    spared = _ancestry()

    def orphaned(pid: int, mark: str) -> bool:
        engine = mark.rpartition(":")[0]
        return pid not in spared and _is_of_this_machine(engine) and not _lives_on(engine)

    ended = _end_all(orphaned)
    if ended:
        log.warning("mcp_orphans_ended", pids=ended)
    return ended


def end_marked(mark: str) -> list[int]:
    """End everything that carries this very mark; returns the process ids. For a thread."""
    return _end_all(lambda pid, found: found == mark) if mark else []


@cache
def _this_engine(pid: int) -> str:
    """The part of a mark that names the engine; `pid` is ours (another one after a fork)."""
    started = _start_time(pid)
    where = _place()
    return f"{where}:{pid}:{started}" if where and started else ""


def _place() -> str:
    """This boot and PID namespace, outside of which a process id means nothing."""
    if sys.platform != "linux":
        return ""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return ""
    return f"{boot}:{namespace}"


def _is_of_this_machine(engine: str) -> bool:
    place = _place()
    return bool(place) and engine.startswith(f"{place}:") and engine.count(":") == 3


def _lives_on(engine: str) -> bool:
    pid, _, started = engine.split(":", 2)[2].partition(":")
    return not pid.isdigit() or _start_time(int(pid)) == started


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot; empty when it does not live (any more)."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]


def _ancestry() -> set[int]:
    """Ourselves and what we run under: never an orphan, whatever mark we were started with."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found


def _marked() -> Iterator[tuple[int, str]]:
    """Our user's processes that carry a mark."""
    user = os.getuid()
    wanted = f"{MARK}=".encode()
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if entry.stat().st_uid == user and (mark := _mark_of(int(entry.name), wanted)):
                yield int(entry.name), mark


def _mark_of(pid: int, wanted: bytes) -> str:
    environment = (_PROC / str(pid) / "environ").read_bytes()
    if wanted not in environment:
        return ""
    for variable in environment.split(b"\0"):
        if variable.startswith(wanted):
            return variable[len(wanted) :].decode("ascii", "replace")
    return ""


def _end_all(chosen: Callable[[int, str], bool]) -> list[int]:
    """End the chosen processes, and those they have forked meanwhile."""
    if sys.platform != "linux":
        return []
    ended: list[int] = []
    for _ in range(_ROUNDS):
        handles = dict(_handles(lambda pid, mark: pid not in ended and chosen(pid, mark)))
        if not handles:
            break
        ended.extend(handles.values())
        try:
            _signal(handles, signal.SIGTERM)
            _wait(handles, GRACE_SECONDS)
            _signal(handles, signal.SIGKILL)
            _wait(handles, KILL_SECONDS)
        finally:
            for handle in handles:
                os.close(handle)
    return ended


def _handles(chosen: Callable[[int, str], bool]) -> Iterator[tuple[int, int]]:
    """A pidfd and the id of each chosen process; a pidfd cannot come to mean another process."""
    wanted = f"{MARK}=".encode()
    for pid, mark in list(_marked()):
        if not chosen(pid, mark):
            continue
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                same = _mark_of(pid, wanted) == mark
            except OSError:
                same = False
            if same:
                yield handle, pid
            else:
                os.close(handle)


def _signal(handles: dict[int, int], number: signal.Signals) -> None:
    for handle in handles:
        with suppress(OSError):
            signal.pidfd_send_signal(handle, number)


def _wait(handles: dict[int, int], seconds: float) -> None:
    """Wait until all have ended, at most for so long."""
    living = set(handles)
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for handle in living:
        poll.register(handle, select.POLLIN)  # a pidfd is readable once its process has ended
    while living and (left := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(left * 1000):
            poll.unregister(handle)
            living.discard(handle)
