"""One server process: started in a process group of its own, watched, and ended without leftovers.

- The command is resolved first, so that a missing program gives one clear message. `python` and
  `python3` mean this engine's own interpreter when they run a module of ours (`-m cordboard.…`) or
  when PATH has no such program; otherwise PATH decides.
- The environment is a short allow-list plus the operator's variables; it contains none of our keys.
- The child dies with the engine if util-linux' `setpriv --pdeathsig` exists (the kernel ties this
  to the spawning thread, so spawn from the thread that runs the event loop until the end).
- Death is detected on the process itself, not on its pipes, which a grandchild may hold open.
- `stop` closes stdin, waits, sends SIGTERM to the group, waits, sends SIGKILL. When the leader dies
  for any reason, the rest of its group is killed; `stop` also ends processes that have left the
  group for a session of their own (`cordboard.mcp.stdio.orphans`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cordboard.errors import McpCommandMissing, McpError
from cordboard.mcp.cancellation import see_through
from cordboard.mcp.stdio.orphans import MARK, end_marked, new_mark

INHERITED_VARIABLES = (
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
INHERITED_PREFIX = "LC_"
READ_BYTES = 256 * 1024
KILL_SECONDS = 2.0
"""Only a process stuck in the kernel survives SIGKILL for this many seconds."""
OWN_PACKAGE = "cordboard"


@dataclass(frozen=True, slots=True)
class Launch:
    """The command, environment and working directory of a server."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


class ServerProcess:
    """A running server process. Made by `spawn`; the caller of `spawn` must `stop` it."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str = "") -> None:
        """`mark` identifies everything that the server starts (`orphans`)."""
        self._popen = popen
        self._mark = mark
        self._loop = asyncio.get_running_loop()
        self._outputs: list[asyncio.ReadTransport] = []
        self.pid = popen.pid
        """The process id; also the id of its process group and session."""
        self.exited = asyncio.Event()
        """Set when the leader has died and the rest of its group has been killed."""
        self.stdout = asyncio.StreamReader(limit=READ_BYTES)
        self.stderr = asyncio.StreamReader(limit=READ_BYTES)
        self.stdin: asyncio.StreamWriter
        self._input: _InputProtocol
        self._input_transport: asyncio.WriteTransport

    @classmethod
    async def spawn(cls, launch: Launch) -> ServerProcess:
        """Start the server. Raises `McpCommandMissing` or `McpError`."""
        mark = new_mark()
        env = child_environment(launch.env) | ({MARK: mark} if mark else {})
        argv = resolve(launch.command, env)
        if launch.cwd is not None and not launch.cwd.is_dir():
            raise McpCommandMissing(f"the working directory {str(launch.cwd)!r} does not exist")
        setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
        guard = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        try:
            # Blocks for about 1 ms, as every spawn does, and longer if others have just been
            # spawned (`spawn_turns`). Not the loop's own subprocess: uvloop 0.23 leaks copies of
            # the pipes into the child, which then never closes its output.
            popen = subprocess.Popen(  # noqa: ASYNC220
                [*guard, *argv],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=launch.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise McpError(f"cannot start {argv[0]!r}: {error}") from error
        process = cls(popen, mark)
        process._watch()
        try:
            await see_through(process._connect())
        except asyncio.CancelledError:  # the caller will never have the process to stop it
            await see_through(process.stop(0))
            raise
        return process

    @property
    def returncode(self) -> int | None:
        """Exit status, negative signal number, or None while it runs."""
        return self._popen.returncode

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to all processes that are still in the server's group."""
        if self._popen.returncode is None:  # else the id may belong to another process by now
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def wait_exit(self, seconds: float) -> bool:
        """True if the leader dies within `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    async def stop(self, grace: float) -> None:
        """End the server and everything it has started; idempotent.

        Takes at most `grace` and `KILL_SECONDS`, and as long again for processes that left its
        group.
        """
        self.stdin.close()
        if not await self.wait_exit(grace / 2):
            self.signal_group(signal.SIGTERM)
            if not await self.wait_exit(grace / 2):
                self.signal_group(signal.SIGKILL)
                await self.wait_exit(KILL_SECONDS)
        await asyncio.to_thread(end_marked, self._mark)
        for output in self._outputs:
            output.close()
        if not self._input.lost:
            self._input_transport.abort()

    async def _connect(self) -> None:
        """Connect the pipes to streams."""
        popen, loop = self._popen, self._loop
        for stream, pipe in ((self.stdout, popen.stdout), (self.stderr, popen.stderr)):
            reading, _ = await loop.connect_read_pipe(
                partial(asyncio.StreamReaderProtocol, stream), pipe
            )
            self._outputs.append(reading)
        self._input_transport, self._input = await loop.connect_write_pipe(
            _InputProtocol, popen.stdin
        )
        self.stdin = asyncio.StreamWriter(self._input_transport, self._input, None, loop)

    def _watch(self) -> None:
        """Arrange that `_died` is called when the leader dies, by a pidfd if available."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            waiter = threading.Thread(target=self._wait_in_thread, daemon=True)
            waiter.start()
            return
        self._loop.add_reader(descriptor, self._pidfd_ready, descriptor)

    def _pidfd_ready(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._died()

    def _wait_in_thread(self) -> None:
        with suppress(ChildProcessError, RuntimeError):  # RuntimeError: the loop is closed
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self._loop.call_soon_threadsafe(self._died)

    def _died(self) -> None:
        self.signal_group(signal.SIGKILL)  # while the dead leader still holds the group's id
        self._popen.wait()
        self.exited.set()


def child_environment(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the allow-listed part of our environment plus the operator's variables."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED_VARIABLES or name.startswith(INHERITED_PREFIX)
    }
    return {**inherited, **declared}


def resolve(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the command with its program as a path. Raises `McpCommandMissing`."""
    program, *arguments = command
    if program in {"python", "python3"} and _runs_own_module(arguments):
        return [sys.executable, *arguments]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None and program in {"python", "python3"}:
        found = sys.executable
    if found is None:
        where = "is not an executable file" if "/" in program else "was not found on PATH"
        raise McpCommandMissing(f"the command {program!r} {where}")
    return [found, *arguments]


def exit_text(returncode: int | None) -> str:
    """Return how a process ended, in words."""
    if returncode is None:
        return "closed its output"
    if returncode < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-returncode).name}"
    return f"exited with status {returncode}"


def _runs_own_module(arguments: Sequence[str]) -> bool:
    with suppress(ValueError, IndexError):
        module = arguments[arguments.index("-m") + 1]
        return module == OWN_PACKAGE or module.startswith(f"{OWN_PACKAGE}.")
    return False


class _InputProtocol(asyncio.StreamReaderProtocol):
    """The flow control of a `StreamWriter`; its reader is never used."""

    def __init__(self) -> None:
        super().__init__(asyncio.StreamReader())
        self.lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost = True
