"""Starts a child process that dies with this one: a killed test run leaves nothing behind."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


async def start_child(
    command: Sequence[str],
    *,
    folder: Path,
    output: Path,
    environment: dict[str, str] | None = None,
) -> asyncio.subprocess.Process:
    """Start `command` in `folder`, both its outputs appended to the file `output`.

    The kernel kills the child when the thread that started it ends (`PR_SET_PDEATHSIG`); start it
    from the thread that runs the event loop for the whole test.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    with output.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=environment,
            preexec_fn=die_with_parent,
        )
