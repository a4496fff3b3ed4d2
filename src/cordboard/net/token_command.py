"""Tokens that a command prints, for services whose keys live for an hour (Google Cloud, Entra).

    gcloud auth print-access-token

The command runs for the first request, and again in the background before the token ends, so that
no caller waits for it. It inherits the environment. Its standard output is never logged; the last
line of its standard error is the reason of a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

import structlog

from cordboard.net.failures import RequestFailed

RUN_SECONDS = 20.0
"""Time after which a command that has not ended is killed, with all that it has started."""
RENEW_SHARE = 0.7
"""Share of a token's life after which its successor is fetched."""
MOST_BYTES = 65_536
"""Most bytes that it may print."""
KILL_SECONDS = 1.0
"""Time that a killed command has to end."""

log = structlog.get_logger()


class TokenCommand:
    """The current token of one service. Made without an event loop."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        """`seconds`: life of a token, from the run of the command."""
        self._command = tuple(command)
        self._seconds = seconds
        self._token = ""
        self._fetched = float("-inf")
        """Loop time of the last successful run."""
        self._running: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """Return a token that is valid. Raises `RequestFailed` of kind `auth`. The command runs
        once for all requests that wait for it, and goes on when they wait no longer."""
        loop = asyncio.get_running_loop()
        age = loop.time() - self._fetched
        if age >= RENEW_SHARE * self._seconds and self._running is None:
            self._running = loop.create_task(self._run(), name="token-command")
            self._running.add_done_callback(self._ended)
        if age >= self._seconds and self._running is not None:
            await asyncio.shield(self._running)
        return self._token

    def forget(self) -> bool:
        """Drop the token, because the service has refused it. False: there was none."""
        age = asyncio.get_running_loop().time() - self._fetched
        self._fetched = float("-inf")
        return age < self._seconds

    async def close(self) -> None:
        """Stop a command that is running. Idempotent."""
        running = self._running
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Task border: log a failure, because no request may be waiting for it."""
        self._running = None
        if task.cancelled():
            return
        match task.exception():
            case RequestFailed() as error:
                log.warning("token_not_fetched", reason=str(error))
            case Exception() as error:
                log.error("token_command_crashed", exc_info=error)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began, name, ended = loop.time(), self._command[0], False
        try:
            process = await _started(self._command)
        except OSError as error:
            words = error.strerror or str(error)
            raise self._failed(f"the token command {name} cannot be started: {words}") from error
        try:
            async with asyncio.timeout(RUN_SECONDS):
                out = await _printed(process.stdout)
                if len(out) == MOST_BYTES:
                    raise self._failed(f"the token command {name} prints too much")
                err = await _printed(process.stderr)
                await process.wait()
                ended = True
        except TimeoutError:
            words = f"the token command {name} has not ended within {RUN_SECONDS:g} s"
            raise self._failed(words) from None
        finally:
            if not ended:
                await _kill(process)
        if process.returncode:
            last = err.decode(errors="replace").strip().rpartition("\n")[2]
            shown = "".join(c if c.isprintable() else " " for c in last)[:200]
            raise self._failed(f"the token command {name} failed ({process.returncode}): {shown}")
        token = out.decode(errors="replace").strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise self._failed(f"the token command {name} did not print a token")
        self._token, self._fetched = token, began

    @staticmethod
    def _failed(words: str) -> RequestFailed:
        return RequestFailed(words, "auth", again=False)


async def _started(command: Sequence[str]) -> asyncio.subprocess.Process:
    """Start a command in a session of its own. One that was started just as this is cancelled is
    killed with its children: asyncio itself would kill it alone. Raises `OSError`."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _kill(await starting)
        raise


async def _printed(stream: asyncio.StreamReader | None) -> bytes:
    """Return what a command prints, `MOST_BYTES` at most."""
    assert stream is not None  # noqa: S101 - it was started with pipes
    try:
        return await stream.readexactly(MOST_BYTES)
    except asyncio.IncompleteReadError as ended:
        return ended.partial


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command that has not ended, with the programs that it has started.

    The rest of what they printed is read: asyncio keeps the pipes open until their end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILL_SECONDS):
            await process.communicate()
