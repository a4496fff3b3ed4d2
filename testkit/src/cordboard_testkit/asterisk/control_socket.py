"""Runs commands on Asterisk's own control socket (`run/asterisk.ctl`), without a child process.

The protocol is that of `asterisk -rx` (Asterisk 22, main/asterisk.c `ast_remotecontrol`): the
server greets with one line, commands end with a NUL byte, and `cli quit after <command>` makes it
close the connection when the output is complete.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from cordboard.errors import KitError
from cordboard_testkit.patience import PATIENCE

_GREETING_END = b"\n"


async def run_command(control_socket: Path, command: str, timeout: float = PATIENCE) -> str:
    """Run one command and return its output. Raises `KitError` when Asterisk does not answer."""
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_unix_connection(str(control_socket))
            try:
                await reader.readuntil(_GREETING_END)
                writer.write(f"cli quit after {command}".encode() + b"\0")
                await writer.drain()
                output = await reader.read()
            finally:
                writer.close()
    except (OSError, asyncio.IncompleteReadError) as problem:
        raise KitError(f"Asterisk does not answer on {control_socket}: {problem}") from problem
    except TimeoutError as problem:
        raise KitError(f"Asterisk did not finish `{command}` in {timeout} s") from problem
    return output.replace(b"\0", b"").decode(errors="replace")
