"""Real processes that are killed, stopped and woken, on a real NATS server: no call is served by
two, no acknowledged word is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cluster.nats_server import NatsServer, bus

from cordboard.cluster.events import story_of
from cordboard_testkit.patience import until

PROGRAM = Path(__file__).with_name("member_process.py")


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


class Program:
    """A running `member_process.py`, and what it has told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self.reading = asyncio.create_task(self._read())

    def heard(self, event: str, **more: object) -> list[dict[str, Any]]:
        return [each for each in self.told if {"event": event, **more}.items() <= each.items()]

    async def wait(self, event: str, count: int = 1, **more: object) -> list[dict[str, Any]]:
        await until(lambda: len(self.heard(event, **more)) >= count, event)
        return self.heard(event, **more)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told.append(orjson.loads(line))


@asynccontextmanager
async def programs(
    server: NatsServer, folder: Path, **calls: int
) -> AsyncIterator[dict[str, Program]]:
    made: dict[str, Program] = {}
    log = (folder / "log").open("wb")
    try:
        for node, count in calls.items():
            arguments = (server.url, str(folder / node), node, str(count))
            made[node] = Program(
                await asyncio.create_subprocess_exec(
                    sys.executable, str(PROGRAM), *arguments, stdout=-1, stderr=log
                )
            )
        for program in made.values():
            await program.wait("trusts")
        yield made
    finally:
        log.close()
        for program in made.values():
            if program.process.returncode is None:
                program.process.kill()
            await program.process.wait()
            await program.reading


async def words(server: NatsServer, call_id: str) -> list[tuple[int, str]]:
    """The lines of a call on the bus: number and instance."""
    async with bus(server.settings, "cordboard") as raw:
        lines = story_of(await raw.events.read(call_id)).lines
    return [(found["number"], found["by"]) for found in map(orjson.loads, lines)]


async def test_a_killed_engine(server: NatsServer, tmp_path: Path) -> None:
    async with programs(server, tmp_path, a=12, b=0, c=0) as all_of_them:
        a, b, c = all_of_them.values()
        (begun,) = a.heard("begun")
        killed = asyncio.get_running_loop().time()
        a.signal(signal.SIGKILL)
        await until(lambda: len(b.heard("adopted")) + len(c.heard("adopted")) >= 12, "adoptions")
        adopted = [*b.heard("adopted"), *c.heard("adopted")]
        assert sorted(each["call"] for each in adopted) == sorted(
            f"a-call-{number}" for number in range(12)
        )
        for each in (b, c):
            await each.wait("gone", instance=begun["instance"])
        assert all(each["at"] > killed + 1.0 for each in adopted)
        assert min(each["lines"] for each in adopted) > 20
        assert not b.heard("error") + c.heard("error")
        for each in adopted:
            found = await words(server, each["call"])
            assert [number for number, _ in found] == list(range(1, len(found) + 1))
            assert len({by for _, by in found[each["lines"] :]}) <= 1


async def test_an_engine_that_is_slow_is_no_second_owner_of_its_calls(
    server: NatsServer, tmp_path: Path
) -> None:
    """It gets the processor for a tenth of a second in each: it renews late, and is not dead. Where
    the machine is so busy that its lease ends all the same, it loses its calls, and all of them."""
    async with programs(server, tmp_path, a=4, b=0) as all_of_them:
        a, b = all_of_them.values()
        for _ in range(4):
            a.signal(signal.SIGSTOP)
            await asyncio.sleep(0.8)
            a.signal(signal.SIGCONT)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        if b.heard("gone") and not b.heard("adopted"):
            await asyncio.sleep(5)  # it is being adopted, or has renewed its lease all the same
        if b.heard("adopted"):
            await b.wait("adopted", 4)
            await a.wait("dropped", 4)
        else:
            assert not a.heard("dropped")
        assert not a.heard("error") + b.heard("error")
        for number in range(4):
            found = await words(server, f"a-call-{number}")
            assert [number for number, _ in found] == list(range(1, len(found) + 1))


async def test_a_stopped_engine_that_wakes(server: NatsServer, tmp_path: Path) -> None:
    async with programs(server, tmp_path, a=6, b=0) as all_of_them:
        a, b = all_of_them.values()
        (begun,) = a.heard("begun")
        a.signal(signal.SIGSTOP)
        adopted = await b.wait("adopted", 6)
        await asyncio.sleep(1)  # the new owner's words are on the bus
        a.signal(signal.SIGCONT)
        await a.wait("lease", state="lost")
        await a.wait("dropped", 6)
        assert not b.heard("dropped")
        assert not a.heard("error") + b.heard("error")
        for each in adopted:
            found = await words(server, each["call"])
            assert [number for number, _ in found] == list(range(1, len(found) + 1))
            by = [instance for _, instance in found]
            assert begun["instance"] not in by[each["lines"] :]
            assert len(found) > each["lines"]
