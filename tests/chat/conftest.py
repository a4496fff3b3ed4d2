"""A parlour: conversations in writing over a real configuration with real MCP servers, but without
models and telephones. What thinks is the context's own brain, or what a test wrote."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest_asyncio
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.post_call.job import PostCallJob
from cordboard.calls.services import CallServices
from cordboard.chat.answer import Answer, ChatEvent
from cordboard.chat.session import ChatSession
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_trial import ToolTrials
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.runtime.reload import Reloader
from cordboard.tools.payload import DEFAULT_LIMITS
from cordboard.tools.tool import ToolReply
from cordboard_testkit.mcp_servers import FAULTY_SERVER

PATIENCE = 60.0
Respond: TypeAlias = Callable[["Script", str], AsyncGenerator[str, None]]


class Script:
    """A brain and its only dialogue, which follow a function of the test."""

    payload = DEFAULT_LIMITS

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.replies: list[ToolReply] = []
        self.cut: list[str] = []
        self.closed = 0
        self.sessions: list[DialogueSession] = []

    def open(self, session: DialogueSession) -> Script:
        self.sessions.append(session)
        return self

    async def ask(self, tool: str, /, **arguments: Any) -> ToolReply:
        reply = await self.sessions[-1].ask_tool(tool, arguments)
        self.replies.append(reply)
        return reply

    def hints(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, text: str) -> bool:
        return False

    def understood(self, text: str) -> str:
        return text

    def respond(self, text: str) -> AsyncGenerator[str, None]:
        return self._respond(self, text)

    def interrupted(self, heard: str) -> None:
        self.cut.append(heard)

    def prepare(self, text: str) -> None:
        raise AssertionError("a message is whole")

    def forget(self) -> None:
        raise AssertionError("nothing is prepared")

    def close(self) -> None:
        self.closed += 1


def server(*behaviour: str, **settings: Any) -> dict[str, Any]:
    return {
        "command": [sys.executable, str(FAULTY_SERVER), *(behaviour or ("good", "--tells"))],
        "restart": {"backoff_ms": 20},
        "start_timeout_ms": 60_000,
        "stop_grace_ms": 1_000,
        **settings,
    }


class Parlour:
    """The configuration, and all that depends on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics = Metrics()
        self.writer = LedgerWriter()
        self.log: list[EventDict] = []
        self.jobs: list[PostCallJob] = []
        self.times: dict[str, float] = {}
        """For the next `open`: how long conversations may take to end."""
        self.script: Script | None = None
        self.succession: Reloader | None = None

    async def open(self, respond: Respond | None = None, **tree: Any) -> ChatSessions:
        """Begin with this file; `respond` thinks for every context."""
        config = self._loaded(tree)

        async def no_models(_: Config) -> None:
            return None

        succession = self.succession = Reloader(
            config, ServerPool(self.metrics.servers), no_models, Degradation(), self.folder
        )
        await succession.begin()
        assert await succession.generation.fleet.wait_settled(PATIENCE)
        services = CallServices(self.writer, self.metrics, self.folder / "calls", post_call=self)
        brain = succession.brain
        if respond is not None:
            script = self.script = Script(respond)
            brain = lambda _, __: script  # noqa: E731
        self.trials = ToolTrials(lambda: succession.generation, services)
        self.sessions = ChatSessions(lambda: succession.generation, brain, services, **self.times)
        return self.sessions

    def _loaded(self, tree: dict[str, Any]) -> Config:
        path = self.folder / "ai-agent.yaml"
        path.write_bytes(orjson.dumps({"reload": {"watch": False}, **tree}))
        return load(path, {}).config

    async def reload(self, **tree: Any) -> None:
        """Put another file into force."""
        assert self.succession is not None
        await self.succession.succeed(self._loaded(tree))

    def pid(self, name: str = "s") -> int | None:
        """The server's process."""
        assert self.succession is not None
        return self.succession.generation.fleet.servers[name].status().pid

    async def end(self) -> None:
        """As the engine does."""
        if self.succession is not None:
            self.succession.freeze()
            await self.sessions.close()
            await self.succession.close()
        self.writer.close()

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        """Take the steps after a conversation."""
        self.jobs += jobs
        return True

    def logged(self, event: str) -> list[EventDict]:
        return [entry for entry in self.log if entry["event"] == event]

    def told(self, name: str = "s") -> list[str]:
        """What the server says that it was asked."""
        assert self.succession is not None
        return list(self.succession.generation.fleet.servers[name].status().stderr)

    def ledger(self, call_id: str) -> list[dict[str, Any]]:
        self.writer.flush()
        (path,) = (self.folder / "calls").glob(f"*/{call_id}.jsonl")
        return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def read(answer: Answer) -> list[ChatEvent]:
    """All that comes of a message."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in answer]


async def until(reached: Callable[[], bool]) -> None:
    """For what gives no event: look every 10 ms."""
    async with asyncio.timeout(PATIENCE):
        while not reached():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


def words(events: list[ChatEvent]) -> str:
    """The answer, as a client puts it together."""
    turn = events[-1].data["turn"]
    return "".join(
        event.data["text"]
        for event in events
        if event.name == "token" and event.data["turn"] == turn
    )


def names(events: list[ChatEvent]) -> list[str]:
    return [event.name for event in events]


async def say(session: ChatSession, message: str) -> list[ChatEvent]:
    return await read(session.take(message))


@contextmanager
def nothing_left() -> Iterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"tasks left behind: {left}"


@pytest_asyncio.fixture
async def parlour(tmp_path: Path) -> AsyncIterator[Parlour]:
    """Not open yet. At the end no task may be left of it."""
    made = Parlour(tmp_path)
    with capture_logs() as made.log, nothing_left():
        yield made
        await asyncio.wait_for(made.end(), PATIENCE)
