"""Tokens that a command prints, for services whose keys live for an hour (Google Cloud, Entra).

    gcloud auth print-access-token

The command runs for the first request, and again in the background before the token ends, so that
no caller waits for it. It inherits the environment; its output is never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import structlog

from cordboard.net.failures import RequestFailed

RUN_SECONDS = 20.0
"""Time after which a command that has not ended is killed."""
RENEW_SHARE = 0.7
"""Share of a token's life after which its successor is fetched."""
MOST_BYTES = 65_536

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
        self._lock = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """Return a token that is valid. Raises `RequestFailed` of kind `auth`."""
        age = asyncio.get_running_loop().time() - self._fetched
        if age >= self._seconds:
            await self._fetch()
        elif age >= RENEW_SHARE * self._seconds and self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
        return self._token

    def forget(self) -> None:
        """Drop the token, because the service has refused it."""
        self._fetched = float("-inf")

    async def close(self) -> None:
        """Stop a command that is running. Idempotent."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            await asyncio.wait((renewing,))

    async def _renew(self) -> None:
        try:
            await self._run()
        except RequestFailed as error:
            log.warning("token_not_renewed", reason=str(error))
        finally:
            self._renewing = None

    async def _fetch(self) -> None:
        """Run the command once for all requests that wait for it."""
        async with self._lock:
            if asyncio.get_running_loop().time() - self._fetched >= self._seconds:
                await self._run()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began, name = loop.time(), self._command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            words = error.strerror or str(error)
            raise self._failed(f"the token command {name} cannot be started: {words}") from error
        try:
            async with asyncio.timeout(RUN_SECONDS):
                out, err = await process.communicate()
        except TimeoutError:
            words = f"the token command {name} has not ended within {RUN_SECONDS:g} s"
            raise self._failed(words) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            last = err.decode(errors="replace").strip().rpartition("\n")[2]
            shown = "".join(c if c.isprintable() else " " for c in last)[:200]
            raise self._failed(f"the token command {name} failed ({process.returncode}): {shown}")
        token = out[:MOST_BYTES].decode(errors="replace").strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise self._failed(f"the token command {name} did not print a token")
        self._token, self._fetched = token, began

    @staticmethod
    def _failed(words: str) -> RequestFailed:
        return RequestFailed(words, "auth", again=False)
