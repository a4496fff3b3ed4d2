"""Reloads and calls in any order, with servers that are made of nothing: what must always hold."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, ClassVar

import mcp_types as types
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision import pool as pool_module
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.status import ServerState, ServerStatus
from cordboard.observe.degradation import Degradation
from cordboard.runtime.reload import Reloader

TOOL = types.Tool(name="echo", input_schema={"type": "object"})


class NoServer:
    """A SupervisedServer without a process; takes some turns of the loop for everything."""

    running: ClassVar[list[NoServer]] = []
    mode = "idle"

    def __init__(
        self, server_id: str, config: Any, observer: Any, on_change: Any, turns: Any, _: Any
    ) -> None:
        self.id = server_id
        self.version = config.env["VERSION"]
        self.broken = self.version == "broken"
        self.state = ServerState.STOPPED
        self.listing: tuple[types.Tool, ...] = ()
        self.discovered = False
        self.settled = asyncio.Event()
        self.closed = False
        self._on_change = on_change
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        assert not self.closed
        others = [server for server in self.running if server.id == self.id]
        assert self.mode == "live" or not others, "two of one server at once"
        self.running.append(self)
        self._become(ServerState.STARTING)
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        for _ in range(random.randrange(5)):
            await asyncio.sleep(0)
        if self.broken:
            self.running.remove(self)
            self._become(ServerState.FAILED)
        else:
            self.listing, self.discovered = (TOOL,), True
            self._become(ServerState.READY)

    async def close(self) -> None:
        self.closed = True
        if self._starting is not None:
            self._starting.cancel()
        for _ in range(random.randrange(5)):
            await asyncio.sleep(0)
        if self in self.running:
            self.running.remove(self)
        self.listing = ()
        self._become(ServerState.STOPPED)

    def _become(self, state: ServerState) -> None:
        self.state = state
        if state is not ServerState.STARTING:
            self.settled.set()
        self._on_change()

    def status(self) -> ServerStatus:
        return ServerStatus(self.id, self.state, 0.0, None, "", (), 0, "", ())


def config(mode: str, s: str, t: str) -> Config:
    servers = {
        name: {"command": ["x"], "env": {"VERSION": version}}
        for name, version in (("s", s), ("t", t))
        if version != "absent"
    }
    return Config.model_validate(
        {
            "contexts": {"demo": {"tools": ["mcp_s_echo"]}},
            "reload": {"mcp": mode},
            "mcp": {"servers": servers, "lock": "off"},
        }
    )


VERSIONS = st.sampled_from(["1", "2", "3", "broken", "absent"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reload"), VERSIONS, VERSIONS),
        st.tuples(st.just("call")),
        st.tuples(st.just("hang up"), st.integers(0, 5)),
        st.tuples(st.just("turns"), st.integers(1, 8)),
    ),
    min_size=1,
    max_size=25,
)


LAST_MOMENT: list[tuple[Any, ...]] = [
    ("call",),
    ("reload", "2", "1"),
    ("turns", 2),
    ("hang up", 0),
    ("call",),
    ("turns", 8),
]
"""The next call comes before it was noticed that there was none."""


STILL_ENDING: list[tuple[Any, ...]] = [
    ("reload", "1", "2"),
    ("reload", "1", "absent"),
    ("call",),
    ("reload", "1", "1"),
]
"""A server is taken out of the file and put back before it has ended."""


class World:
    """A succession, its calls, and what must hold."""

    def __init__(self, mode: str) -> None:
        async def no_models(config: Config) -> None:
            return None

        self.mode = mode
        self.pool = ServerPool()
        self.succession = Reloader(
            config(mode, "1", "1"), self.pool, no_models, Degradation(), Path()
        )
        self.calls: list[tuple[Generation, list[NoServer]]] = []

    async def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("reload", s, t):
                await self.succession.succeed(config(self.mode, s, t))
            case ("call",):
                generation = self.succession.generation
                generation.admit("demo")
                generation.acquire()
                servers: Any = [
                    server
                    for server in generation.fleet.servers.values()
                    if server.state is ServerState.READY
                ]
                self.calls.append((generation, servers))
            case ("hang up", number) if self.calls:
                self.calls.pop(number % len(self.calls))[0].release()
            case ("turns", count):
                for _ in range(count):
                    await asyncio.sleep(0)

    def check(self) -> None:
        for _, servers in self.calls:
            assert not any(server.closed for server in servers), "a live call lost its server"
        for shared in self.pool.entries:
            assert shared.leases or shared.ending is not None, "a server that nobody holds"

    async def settle(self) -> None:
        """Everybody hangs up; then only what the file says may be there."""
        while self.calls:
            self.calls.pop()[0].release()
        for _ in range(200):
            await asyncio.sleep(0)
        succession = self.succession
        assert succession.deferred() == ()
        wanted = {
            name: server.env["VERSION"] for name, server in succession.config.mcp.servers.items()
        }
        got = {server.id: server.version for server in NoServer.running}
        assert got == {name: version for name, version in wanted.items() if version != "broken"}
        assert len(NoServer.running) == len(got)
        assert {shared.id for shared in self.pool.entries} == set(wanted)
        assert len(self.pool.entries) == len(wanted)


@pytest.mark.parametrize("mode", ["idle", "live"])
@settings(max_examples=30)
@example(steps=LAST_MOMENT, seed=0)
@example(steps=STILL_ENDING, seed=0)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_calls_keep_their_servers_and_in_the_end_only_what_the_file_says_is_there(
    mode: str, steps: list[tuple[Any, ...]], seed: int
) -> None:
    async def play() -> None:
        before = asyncio.all_tasks()
        random.seed(seed)
        NoServer.running, NoServer.mode = [], mode
        world = World(mode)
        await world.succession.begin()
        for step in steps:
            await world.do(step)
            world.check()
        await world.settle()
        world.succession.freeze()
        await world.succession.close()
        assert NoServer.running == []
        assert world.pool.entries == ()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool_module, "SupervisedServer", NoServer)
        asyncio.run(play())
