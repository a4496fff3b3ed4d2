"""Through the desk: what a server is told, and tells, while a tool of its takes long."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import mcp_types as types
import pytest

from cordboard.config.mcp import McpBreaker, McpDefaults
from cordboard.config.tools.entry import McpTool as ToolConfig
from cordboard.errors import McpTimeout
from cordboard.mcp.supervision.breaker import Breaker, BreakerState
from cordboard.mcp.supervision.life import Life
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.tool import McpTool
from cordboard.tools.call_line import NoCaller
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk, SilentObserver
from cordboard.tools.tool import Status, ToolAsk, ToolReply, ToolSpec
from cordboard_testkit.virtual_time import virtual_time


class Far:
    """Connection and transport in one; answers after a while, with progress on the way."""

    def __init__(self, seconds: float, progress_every: float) -> None:
        self.seconds = seconds
        self.progress_every = progress_every
        self.closed = asyncio.Event()
        self.list_changed = asyncio.Event()
        self.given_up_at: float | None = None

    async def call(
        self, tool: str, arguments: Any, timeout: float, progress: Any, patience: float
    ) -> types.CallToolResult:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        try:
            async with asyncio.timeout(timeout + patience):
                while loop.time() < end:
                    await asyncio.sleep(self.progress_every)
                    await progress(1, None, "still \x07here")
        except TimeoutError:
            self.given_up_at = loop.time()
            raise McpTimeout("no answer") from None
        except asyncio.CancelledError:
            self.given_up_at = loop.time()
            raise
        return types.CallToolResult.model_validate({"content": [{"type": "text", "text": "Done."}]})


class Server:
    """A supervised server whose one life is given."""

    id = "shop"

    def __init__(self, far: Far) -> None:
        breaker = Breaker(McpBreaker(failures=1, open_ms=5_000))
        self.life = Life(far, far, breaker, lambda: None, may_hang=True)  # type: ignore[arg-type]

    async def call(self, *asked: Any) -> types.CallToolResult:
        return await self.life.call(*asked)

    def mask(self, text: str) -> str:
        return text


class Watch(SilentObserver):
    def __init__(self) -> None:
        self.fillers: list[float] = []
        self.late_replies: list[ToolReply] = []

    def filler(self, ask: ToolAsk, text: str) -> None:
        self.fillers.append(asyncio.get_running_loop().time())

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        self.late_replies.append(reply)


def ask(far: Far, watch: Watch, **rules: Any) -> tuple[Desk, Server]:
    listed = types.Tool.model_validate({"name": "find", "inputSchema": {"type": "object"}})
    server = Server(far)
    own = ToolConfig.model_validate({"name": "find", "timeout_ms": 2_000, **rules})
    tool = McpTool(cast("SupervisedServer", server), listed, own, McpDefaults(), name="find")
    toolbox = Catalogue([ToolEntry(tool)]).toolbox(["find"])
    return Desk(toolbox, NoCaller("c1", "demo"), watch), server


@pytest.mark.parametrize(
    ("effects", "seconds", "given_up_after"),
    [("read_only", 10, 2.0), ("idempotent", 10, 2.0), ("destructive", 10, None)],
)
def test_a_timeout_is_the_server_s_failure_and_only_what_reads_is_given_up(
    effects: str, seconds: float, given_up_after: float | None
) -> None:
    async def scenario() -> None:
        far, watch = Far(seconds, 1.0), Watch()
        desk, server = ask(far, watch, effects=effects, approval="none")
        loop = asyncio.get_running_loop()
        began = loop.time()
        reply = await desk.run(ToolAsk("1", "find", {}))
        assert reply.status is Status.TIMEOUT
        assert loop.time() - began == pytest.approx(2.0)
        assert server.life.breaker is BreakerState.OPEN
        await asyncio.sleep(20)
        given_up = None if far.given_up_at is None else far.given_up_at - began
        assert given_up == (None if given_up_after is None else pytest.approx(given_up_after))
        late = [(each.status, each.message) for each in watch.late_replies]
        assert late == ([(Status.OK, "Done.")] if effects == "destructive" else [])
        answered = effects == "destructive"
        assert (server.life.breaker is BreakerState.CLOSED) is answered

    with virtual_time() as loop:
        loop.run_until_complete(scenario())


def test_progress_of_the_server_allows_further_fillers() -> None:
    async def scenario() -> None:
        for every, fillers in ((100.0, 3), (4.5, 7)):
            far, watch = Far(19, every), Watch()
            desk, _ = ask(
                far,
                watch,
                timeout_ms=20_000,
                slow_response_threshold_ms=1_000,
                slow_response_repeat_ms=1_000,
            )
            await desk.run(ToolAsk("1", "find", {}))
            assert len(watch.fillers) == fillers
            await desk.close(0)

    with virtual_time() as loop:
        loop.run_until_complete(scenario())
