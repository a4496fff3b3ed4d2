"""Finds remains of a call: tasks, threads, child processes, file handles, files, channels.

    before = LeakSnapshot.take()
    ...  # calls
    await before.assert_nothing_left()
    await assert_line_clean(asterisk)

Reads `/proc`, hence Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cordboard_testkit.asterisk.instance import AsteriskInstance
from cordboard_testkit.patience import PATIENCE

_POLL = 0.05  # seconds between two checks while cleanup is still running
# Threads that a library starts once and keeps, for any number of calls.
_KEPT_THREADS = ("asyncio_", "ThreadPoolExecutor", "asyncio-waitpid")


@dataclass(frozen=True, slots=True)
class LeakSnapshot:
    """All resources of this process at one moment, by readable names."""

    tasks: Counter[str]
    threads: Counter[str]
    children: Counter[str]
    handles: Counter[str]
    """Open files, pipes and sockets by kind or path."""
    files: Counter[str]
    """The contents of the watched folder."""
    folder: Path | None = None

    @classmethod
    def take(cls, folder: Path | None = None) -> LeakSnapshot:
        """Take a snapshot; inside a running event loop. `folder`: where no files may be left."""
        gc.collect()  # a socket in unreachable garbage has no owner
        current = asyncio.current_task()
        tasks = (task for task in asyncio.all_tasks() if task is not current)
        threads = (thread.name for thread in threading.enumerate())
        return cls(
            tasks=Counter(_task_name(task) for task in tasks),
            threads=Counter(name for name in threads if not name.startswith(_KEPT_THREADS)),
            children=Counter(_children()),
            handles=Counter(_handles()),
            files=Counter(str(path) for path in folder.rglob("*")) if folder else Counter(),
            folder=folder,
        )

    def left_by(self, later: LeakSnapshot) -> list[str]:
        """Return the resources that only `later` has, one line each; empty = no leak."""
        lines = []
        for kind in ("tasks", "threads", "children", "handles", "files"):
            more: Counter[str] = getattr(later, kind) - getattr(self, kind)
            lines += [f"{kind}: {count} x {name}" for name, count in sorted(more.items())]
        return lines

    async def assert_nothing_left(self, timeout: float = PATIENCE) -> None:
        """Wait until no resource is left since this snapshot. Raises `AssertionError` naming it."""
        deadline = time.monotonic() + timeout
        while left := self.left_by(LeakSnapshot.take(self.folder)):
            if time.monotonic() > deadline:
                raise AssertionError("left behind:\n  " + "\n  ".join(left))
            await asyncio.sleep(_POLL)


async def assert_line_clean(asterisk: AsteriskInstance, timeout: float = PATIENCE) -> None:
    """Wait until Asterisk has no channel and no bridge. Raises `AssertionError` naming them."""
    deadline = time.monotonic() + timeout
    while left := [*await asterisk.channels(), *await asterisk.bridges()]:
        if time.monotonic() > deadline:
            raise AssertionError("left in Asterisk:\n  " + "\n  ".join(left))
        await asyncio.sleep(_POLL)


def _task_name(task: asyncio.Task[object]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", None) or repr(coroutine)


def _children() -> list[str]:
    found: list[str] = []
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread or the child ended while we looked
            children = (thread / "children").read_text().split()
            found += [f"{child} {Path(f'/proc/{child}/comm').read_text()}" for child in children]
    return found


def _handles() -> list[str]:
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            target = str(handle.readlink())
        except OSError:  # closed while we looked
            continue
        # Inode numbers mean nothing to a reader and differ each time.
        found.append(target.split(":[")[0] if ":[" in target else target)
    return found
