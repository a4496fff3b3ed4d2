"""What servers leave behind is found by its mark and ended; nothing else is touched."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mcp.conftest import Start, faulty, gone, until

from cordboard.errors import McpUnavailable
from cordboard.mcp.stdio.orphans import MARK, end_marked, new_mark, sweep_orphans
from cordboard.mcp.supervision.server import ServerState
from cordboard_testkit.patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def sleeper(mark: str, program: str = "sleep 60") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", f"exec {program}"],
        env={"PATH": os.environ["PATH"], MARK: mark},
        start_new_session=True,
    )


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def dead_engine() -> str:
    """The mark of a life whose engine has ended."""
    script = "from cordboard.mcp.stdio.orphans import new_mark; print(new_mark())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_every_life_has_a_mark_of_its_own() -> None:
    assert new_mark() != new_mark()


def test_what_carries_the_mark_is_ended_and_nothing_else(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    mark, other = new_mark(), new_mark()
    processes += [sleeper(mark), sleeper(mark), sleeper(other)]
    assert sorted(end_marked(mark)) == sorted(process.pid for process in processes[:2])
    assert [process.poll() is None for process in processes] == [False, False, True]


def test_what_ignores_sigterm_is_killed(
    processes: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    mark, ready = new_mark(), tmp_path / "ready"
    code = f'import signal, time; signal.signal(15, 1); open("{ready}", "w"); time.sleep(60)'
    processes.append(sleeper(mark, f"{sys.executable} -c '{code}'"))
    deadline = time.monotonic() + 60
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert end_marked(mark) == [processes[0].pid]
    assert processes[0].wait(60) == -9


def test_a_sweep_ends_what_killed_engines_have_left_and_spares_the_living(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    dead = dead_engine()
    boot, namespace, pid, started, life = dead.split(":")
    elsewhere = f"{boot}:1{namespace}:{pid}:{started}:{life}"
    earlier = f"0{boot[1:]}1:{namespace}:{pid}:{started}:{life}"
    reused = f"{boot}:{namespace}:{os.getpid()}:1:{life}"
    marks = [dead, reused, new_mark(), elsewhere, earlier, "nonsense", "", ":" * 4]
    processes += [sleeper(mark) for mark in marks]
    assert os.getpid() not in sweep_orphans()
    for process in processes[:2]:  # another engine of this machine may have swept them before us
        process.wait(PATIENCE)
    assert [process.poll() is None for process in processes] == [False] * 2 + [True] * 6


def test_a_process_whose_name_ends_in_half_a_character_hides_no_other(
    processes: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Linux cuts names after 15 bytes; this process has got the id of a dead engine."""
    ready = tmp_path / "ready"
    code = f'import ctypes, time; ctypes.CDLL(None).prctl(15, b"gr\\xc3"); open("{ready}", "w")'
    processes.append(sleeper("", f"{sys.executable} -c '{code}; time.sleep(60)'"))
    deadline = time.monotonic() + 60
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    boot, namespace, _, started, life = dead_engine().split(":")
    processes.append(sleeper(f"{boot}:{namespace}:{processes[0].pid}:{started}:{life}"))
    sweep_orphans()
    processes[1].wait(PATIENCE)
    assert processes[0].poll() is None


async def test_a_server_ends_with_what_left_its_process_group(start: Start) -> None:
    server = await start(stop_grace_ms=2_000)
    escaped = int((await server.call("escapes", {}, 60)).content[0].text)  # type: ignore[union-attr]
    assert not await asyncio.to_thread(_ended, escaped)
    await server.close()
    assert await asyncio.to_thread(_ended, escaped)


async def test_so_does_a_server_that_is_killed(start: Start) -> None:
    server = await start(restart={"enabled": False})
    escaped = int((await server.call("escapes", {}, 60)).content[0].text)  # type: ignore[union-attr]
    with pytest.raises(McpUnavailable):
        await asyncio.wait_for(server.call("exits", {}, 60), 60)
    await until(lambda: server.state is ServerState.FAILED)
    assert await asyncio.to_thread(_ended, escaped)


async def test_servers_of_a_killed_engine_are_swept_by_the_next(tmp_path: Path) -> None:
    """Also what is not its direct child, such as the server behind a shell or npx."""
    script = (
        "import asyncio, os, signal, sys\n"
        "from cordboard.config.mcp import McpServer\n"
        "from cordboard.mcp.supervision.server import SupervisedServer\n"
        "async def main():\n"
        "    server = SupervisedServer('s', McpServer(command=tuple(sys.argv[1:])))\n"
        "    server.start()\n"
        "    assert await server.wait_ready(60)\n"
        "    result = await server.call('escapes', {}, 60)\n"
        "    print('pid', result.content[0].text, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *faulty().command, stdout=asyncio.subprocess.PIPE
    )
    assert engine.stdout
    line = b""
    async for line in engine.stdout:
        if line.startswith(b"pid"):
            break
    await engine.wait()
    await asyncio.to_thread(sweep_orphans)
    assert await gone(int(line.split()[1]))


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except OSError:
        return True
