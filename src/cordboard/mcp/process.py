"""One server process: started in a process group of its own, watched, and ended without leftovers.

- The command is resolved first, so that a missing program is one clear message. `python` and
  `python3` mean this engine's own interpreter when they run a module of ours (`-m cordboard.…`),
  or when no such program is on PATH; otherwise what PATH says.
- The environment is a short allow-list plus what the operator declared; no key of ours is in it.
- The child dies with the engine where util-linux' `setpriv --pdeathsig` exists (the kernel ties
  this to the spawning thread, so spawn from the thread that runs the loop for good).
- Death is noticed from the process itself, not from its pipes, which a grandchild may hold open.
- `stop` closes stdin, waits, sends SIGTERM to the group, waits, and always ends with SIGKILL to the
  group, even when the leader went by itself.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.errors import McpCommandMissing, McpError

INHERITED_VARIABLES = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
READ_BYTES = 256 * 1024
KILL_SECONDS = 2.0
"""Only a process stuck in the kernel outlives SIGKILL for so long."""
OWN_PACKAGE = "cordboard"


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


class ServerProcess:
    """A running server. Made by `spawn`; whoever spawns it must `stop` it."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self.pid = transport.get_pid()
        self.exited = protocol.exited
        """Set when the leader has died."""
        stdin, stdout, stderr = protocol.stdin, protocol.stdout, protocol.stderr
        if stdin is None or stdout is None or stderr is None:
            raise McpError("the server process has no pipes")
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr

    @classmethod
    async def spawn(cls, launch: Launch) -> ServerProcess:
        """Start the server. Raises `McpCommandMissing` or `McpError`."""
        env = child_environment(launch.env)
        argv = resolve(launch.command, env)
        if launch.cwd is not None and not launch.cwd.is_dir():
            raise McpCommandMissing(f"the working directory {str(launch.cwd)!r} does not exist")
        setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
        guard = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Protocol(loop),
                *guard,
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                cwd=launch.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise McpError(f"cannot start {argv[0]!r}: {error}") from error
        return cls(transport, protocol)

    @property
    def returncode(self) -> int | None:
        """Exit status, negative signal number, or None while it runs."""
        return self._transport.get_returncode()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to everything the server has started that is still in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def wait_exit(self, seconds: float) -> bool:
        """Whether the leader dies within that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    async def stop(self, grace: float) -> None:
        """End the server and all of its group; takes at most `grace` and `KILL_SECONDS`."""
        self.stdin.close()
        if not await self.wait_exit(grace / 2):
            self.signal_group(signal.SIGTERM)
            await self.wait_exit(grace / 2)
        self.signal_group(signal.SIGKILL)
        await self.wait_exit(KILL_SECONDS)
        self._transport.close()


def child_environment(declared: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed part of our environment, and what the operator declared on top."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return {**inherited, **declared}


def resolve(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The command with its program as a path. Raises `McpCommandMissing`."""
    program, *arguments = command
    if program in {"python", "python3"} and _runs_own_module(arguments):
        return [sys.executable, *arguments]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None and program in {"python", "python3"}:
        found = sys.executable
    if found is None:
        where = "is no executable file" if "/" in program else "was not found on PATH"
        raise McpCommandMissing(f"the command {program!r} {where}")
    return [found, *arguments]


def exit_text(returncode: int | None) -> str:
    """How a process ended, in words."""
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


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """asyncio's own pipe readers, and an event for the death that does not wait for the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=READ_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
