"""A stand: what an engine reloads, from a real file and with real MCP servers, but without models
and telephones. Its callers are fake lines, its agents follow the test."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cordboard.agent_api.agent import Agent
from cordboard.api.administration_view import ReloadReport
from cordboard.calls.binding import Binding
from cordboard.calls.call_registry import Aside, CallRegistry
from cordboard.calls.events import LedgerEvent
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.offer import Offer
from cordboard.calls.services import CallServices
from cordboard.config.load import ConfigSource, LoadedConfig
from cordboard.config.schema import Config
from cordboard.config.versions import Versions
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.server import ServerState
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.runtime.administration import Administration
from cordboard.runtime.reload import Reloader
from cordboard.tools.tool import ToolReply
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.patience import PATIENCE, until

QUIET = {"filler_after_ms": 0, "caller_after_ms": 3_600_000, "agent_after_ms": 3_600_000}


def server(*behaviour: str, **settings: Any) -> dict[str, Any]:
    """A server's section; `VERSION` in its environment tells which one it is."""
    version = settings.pop("version", "1")
    return {
        "command": [sys.executable, str(FAULTY_SERVER), *behaviour],
        "env": {"VERSION": version},
        "restart": {"backoff_ms": 20},
        "start_timeout_ms": 60_000,
        "stop_grace_ms": 1_000,
        "defaults": {"timeout_ms": 60_000},
        **settings,
    }


def context(*tools: str, **settings: Any) -> dict[str, Any]:
    return {"greeting": "Good morning.", "tools": [*tools], "silence": QUIET, **settings}


class Guest:
    """Somebody on the phone."""

    def __init__(self, stand: Stand, number: int) -> None:
        self._stand = stand
        self.line = FakeLine(f"{number:08d}-0000-4000-8000-000000000000")
        self.agent = FakeAgent()

    async def talking(self) -> Guest:
        await until(lambda: self.agent.session is not None, "the call")
        return self

    @property
    def greeting(self) -> str:
        assert self.agent.session is not None
        return self.agent.session.greeting

    @property
    def tools(self) -> list[str]:
        assert self.agent.session is not None
        return [spec.name for spec in self.agent.session.toolbox]

    async def ask(self, tool: str, **arguments: object) -> ToolReply:
        self.turn = getattr(self, "turn", 0) + 1
        return await asyncio.wait_for(self.agent.ask(tool, arguments, self.turn), PATIENCE)

    async def version(self, name: str = "s") -> str:
        """Which server answers this call."""
        reply = await self.ask(f"mcp_{name}_environment")
        return str(reply.data["VERSION"]) if reply.status == "ok" else reply.message

    async def pid(self, name: str = "s") -> int:
        return int((await self.ask(f"mcp_{name}_echo", text="")).data["pid"])

    async def hang_up(self) -> None:
        assert self.line.media is not None
        self.line.media.break_off("caller_hangup")
        await until(lambda: self.line.call_id not in self._stand.registry.calls, "the end")


class Stand:
    """The file, and all that depends on it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ai-agent.yaml"
        self.metrics = Metrics()
        self.secrets: set[str] = set()
        self.changed: list[Config] = []
        self.log: list[EventDict] = []
        self.events: list[LedgerEvent] = []
        self.choose: Callable[[Offer], Aside | None] = lambda offer: None
        """Chooses the generation of a new call; None: the one in force."""
        self.listen: Callable[[str, int, LedgerEvent], None] = lambda *_: None
        self._writer = LedgerWriter()
        self._folder = folder
        self.guests: list[Guest] = []
        self._ringing: list[Guest] = []

    def write(self, **tree: Any) -> None:
        """Write the file: one context `demo` unless the test says otherwise."""
        whole = {"contexts": {"demo": context()}, "reload": {"watch": False}, **tree}
        self.path.write_text(json.dumps(whole, indent=1))

    async def begin(
        self,
        *,
        wait: bool = True,
        loading: Callable[[], None] = lambda: None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Start on what was written; `wait` until the servers have settled. `loading` is called
        once the file has been read, `meanwhile` before the first reload."""
        source = ConfigSource(self.path, os.environ, register_secrets=self.secrets.update)
        loaded: LoadedConfig = source.load()
        source = ConfigSource(
            self.path, os.environ, loaded.digests, loaded.content, self.secrets.update
        )
        self.versions = Versions(self._folder / "versions", self.path)
        loading()

        async def no_models(config: Config) -> None:
            return None

        self.pool = ServerPool(self.metrics.servers)
        self.succession = Reloader(
            loaded.config,
            self.pool,
            no_models,
            Degradation(),
            self._folder,
            self.changed.append,
        )
        self.administration = Administration(self.succession, source, self.versions)
        self.registry = CallRegistry(
            lambda: self.succession.generation,
            self.open_agent,
            CallServices(
                self._writer,
                self.metrics,
                self._folder / "calls",
                self._tell,
            ),
            canary=lambda offer: self.choose(offer),
        )
        await self.succession.begin()
        await self.administration.keep_version()
        meanwhile()
        await self.administration.begin()
        if wait:
            assert await self.settled()

    def _tell(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        self.events.append(event)
        self.listen(call_id, at_ms, event)

    async def settled(self) -> bool:
        return await self.succession.generation.fleet.wait_settled(PATIENCE)

    async def end(self) -> None:
        """As the engine does. Harmless twice."""
        self.succession.freeze()
        await self.administration.close()
        await self.registry.drain(0)
        await self.succession.close()
        self._writer.close()

    async def reload(self) -> ReloadReport:
        return await asyncio.wait_for(self.administration.reload(), PATIENCE)

    def open_agent(self, binding: Binding) -> Agent:
        return self.next_agent()

    def next_agent(self) -> Agent:
        """The agent of the caller who rings."""
        return self._ringing.pop(0).agent

    async def ring(self, **variables: str) -> Guest:
        """Place a call; returns when its agent has been started."""
        guest = Guest(self, len(self.guests))
        self.guests.append(guest)
        self._ringing.append(guest)
        self.registry.offer(guest.line.offer(variables))
        return await guest.talking()

    async def refused(self, call_id: str) -> None:
        """Place a call; returns when it was given back."""
        line = FakeLine(call_id)
        self.registry.offer(line.offer({}))
        await until(lambda: line.released == 1, "the refusal")

    def pid(self, name: str = "s") -> int | None:
        """The process of the server that new calls get."""
        return self.succession.generation.fleet.servers[name].status().pid

    def state(self, name: str = "s") -> ServerState:
        return self.succession.generation.fleet.leases[name].status().state

    async def ready(self, name: str = "s") -> None:
        await until(lambda: self.state(name) is ServerState.READY, f"{name} ready")

    def logged(self, event: str) -> list[EventDict]:
        return [entry for entry in self.log if entry["event"] == event]


def lives(pid: int | None) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


OpenStand = Callable[..., Awaitable[Stand]]


@pytest_asyncio.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """Not begun yet. At the end nothing of it may be left: no task, no process, no thread."""
    made = Stand(tmp_path)
    before = asyncio.all_tasks()
    with capture_logs() as made.log:
        yield made
        await asyncio.wait_for(made.end(), PATIENCE)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"tasks left behind: {left}"
    pids = [entry["pid"] for entry in made.logged("mcp_server_ready")]
    assert not [pid for pid in pids if lives(pid)], "servers are left"
