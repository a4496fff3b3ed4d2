"""The lockfile's way as an operator goes it: an engine that runs, and commands beside it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cordboard_testkit.free_ports import free_port
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.patience import PATIENCE

from .commands import PROGRAM, typed

TOKEN = "correct-horse"


async def cordboard(*arguments: str) -> tuple[int, str]:
    """A command beside the engine."""
    done = await asyncio.to_thread(typed, *arguments, TOKEN=TOKEN)
    return done.status, done.out


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[str]:
    """The configuration of an engine that runs, with one server of which nothing is accepted."""
    path = tmp_path / "agent.yaml"
    server = {"command": [sys.executable, str(FAULTY_SERVER)], "tools": [{"name": "echo"}]}
    config = {
        "health": {"port": free_port()},
        "admin": {"token": "${TOKEN}"},
        "audiosocket": {"port": 0},
        "reload": {"watch": False},
        "calls": {"directory": str(tmp_path / "calls")},
        "contexts": {"demo": {"tools": ["mcp_shop_echo"]}},
        "mcp": {"lock": "enforce", "servers": {"shop": server}},
    }
    path.write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "run",
        "-c",
        str(path),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TOKEN": TOKEN},
    )
    assert process.stderr is not None
    seen = b""
    async with asyncio.timeout(PATIENCE):
        while b"mcp_server_ready" not in seen:
            line = await process.stderr.readline()
            assert line, seen.decode()
            seen += line
    draining = asyncio.create_task(process.stderr.read())
    yield str(path)
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.wait(), PATIENCE)
    await draining


async def test_what_was_not_accepted_is_quarantined_until_it_is(file: str) -> None:
    status, shown = await cordboard("mcp", "status", "-c", file)
    assert status == 0
    assert "1 quarantined" in shown
    _, shown = await cordboard("mcp", "tools", "-c", file)
    assert "no: " in shown.splitlines()[1]
    status, shown = await cordboard("mcp", "accept", "shop", "--yes", "-c", file)
    assert status == 0
    assert "mcp:shop:echo (new)" in shown
    assert await cordboard("reload", "-c", file) == (0, "changed   mcp.lock_file\ngeneration 1\n")
    _, shown = await cordboard("mcp", "tools", "--json", "-c", file)
    assert [tool["offered"] for tool in json.loads(shown)["tools"]] == [True]
    status, shown = await cordboard("mcp", "restart", "shop", "-c", file)
    assert status == 0
    assert shown.startswith("shop is ready, pid ")
