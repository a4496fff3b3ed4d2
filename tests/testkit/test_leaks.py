"""The leak check finds what is left, names it, and is content when it is gone."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from pathlib import Path

import pytest

from cordboard_testkit.leaks import LeakSnapshot


async def test_everything_left_is_named(tmp_path: Path) -> None:
    before = LeakSnapshot.take(tmp_path)
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="left-thread")
    thread.start()
    task = asyncio.create_task(asyncio.Event().wait())
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    (tmp_path / "left.txt").write_text("x")
    with socket.socket(), pytest.raises(AssertionError) as caught:
        await before.assert_nothing_left(timeout=0)
    message = str(caught.value)
    for name in ("left-thread", "Event.wait", "python", "socket", "left.txt"):
        assert name in message

    child.kill()
    await child.wait()
    task.cancel()
    release.set()
    (tmp_path / "left.txt").unlink()
    await before.assert_nothing_left()
