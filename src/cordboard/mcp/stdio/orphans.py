"""Ends the processes that an MCP server has started when the server or its engine ends.

Each server gets an environment variable, its mark. All its child processes inherit the mark, also
those that start a session of their own and so escape the end of the server's process group:

    CORDBOARD_SERVER=<boot id>:<PID namespace>:<engine's PID>:<its start time>:<number of the life>

`end_marked` ends the processes with the mark of one life. `sweep_orphans` ends processes with the
mark of an engine that no longer runs, for servers of an engine that was killed outright. Processes
of other users, boots, PID namespaces and of running engines are never touched. A process that
clears its environment is not found. On systems other than Linux both do nothing. They read /proc
and wait: call them in threads.
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
"""Seconds between SIGTERM and SIGKILL."""
KILL_SECONDS = 2.0
_ROUNDS = 5
"""Maximum searches for processes that were forked in the meantime."""

_PROC = Path("/proc")
_lives = count(1)

log = structlog.get_logger()


def new_mark() -> str:
    """Return the mark of a server's life that begins now; empty on systems other than Linux."""
    engine = _this_engine(os.getpid())
    return f"{engine}:{next(_lives)}" if engine else ""


def sweep_orphans() -> list[int]:
    """End the processes that killed engines have left; return their ids. Run it in a thread."""
    spared = _ancestry()

    def orphaned(pid: int, mark: str) -> bool:
        engine = mark.rpartition(":")[0]
        return pid not in spared and _is_of_this_machine(engine) and not _lives_on(engine)

    ended = _end_all(orphaned)
    if ended:
        log.warning("mcp_orphans_ended", pids=ended)
    return ended


def end_marked(mark: str) -> list[int]:
    """End all processes with exactly this mark; return their ids. Run it in a thread."""
    return _end_all(lambda pid, found: found == mark) if mark else []


@cache
def _this_engine(pid: int) -> str:
    """Return the engine's part of a mark; `pid` is our own (it changes after a fork)."""
    started = _start_time(pid)
    where = _place()
    return f"{where}:{pid}:{started}" if where and started else ""


def _place() -> str:
    """Return boot id and PID namespace; a process id is only unique within these."""
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
    """Return a process's start time in ticks since boot; empty if it does not run."""
    try:
        fields = _stat(pid)
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]


def _stat(pid: int) -> list[str]:
    """Return the state of a process and the fields after it. Raises `OSError`."""
    line = (_PROC / str(pid) / "stat").read_text(errors="replace")  # its name may be any bytes
    return line.rpartition(")")[2].split()


def _ancestry() -> set[int]:
    """Return our own id and our ancestors': never orphans, whichever mark they carry."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = int(_stat(pid)[1])
        except OSError:
            break
    return found


def _marked() -> Iterator[tuple[int, str]]:
    """Yield this user's processes that carry a mark."""
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
    """End the chosen processes, and those they have forked in the meantime."""
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
    """Yield a pidfd and the id of each chosen process; a pidfd cannot refer to another process."""
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
    """Wait until all have ended, for at most `seconds`."""
    living = set(handles)
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for handle in living:
        poll.register(handle, select.POLLIN)  # a pidfd is readable once its process has ended
    while living and (left := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(left * 1000):
            poll.unregister(handle)
            living.discard(handle)
