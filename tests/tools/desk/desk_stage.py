"""What the tests of the desk share: virtual time, tools that are scripts, an observer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.tools.conftest import ANY, Line

from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk, SilentObserver
from cordboard.tools.known_secrets import NO_SECRETS, KnownSecrets
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import (
    JsonObject,
    ToolAsk,
    ToolReply,
    ToolResult,
    ToolRun,
    ToolSpec,
)

Script = Callable[[JsonObject, ToolRun], Awaitable[ToolResult]]


class Scripted:
    """A tool whose work is a function of its arguments and its run."""

    def __init__(self, name: str, script: Script | None = None, **spec: Any) -> None:
        settings = {"parameters": ANY, "origin": f"python:{name}", "kind": "python"} | spec
        self.spec = ToolSpec(name=name, description=name, **settings)
        self._script = script
        self.given: list[JsonObject] = []
        self.keys: list[str] = []
        self.finished = 0
        self.cancelled = 0

    @property
    def runs(self) -> int:
        return len(self.given)

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        self.given.append(arguments)
        self.keys.append(run.idempotency_key)
        try:
            result = (
                ToolResult(data=arguments)
                if self._script is None
                else await self._script(arguments, run)
            )
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.finished += 1
        return result


def takes(seconds: float, result: ToolResult | None = None) -> Script:
    """A script that takes so long."""

    async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(seconds)
        return result if result is not None else ToolResult(data={"done": True})

    return script


@dataclass
class Log(SilentObserver):
    """A DeskObserver that remembers what was recorded, and when: seconds since it was made."""

    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    asks: list[ToolAsk] = field(default_factory=list)
    specs: list[ToolSpec | None] = field(default_factory=list)
    fillers: list[tuple[float, str]] = field(default_factory=list)
    replies: list[ToolReply] = field(default_factory=list)
    late_replies: list[tuple[float, ToolAsk, ToolReply]] = field(default_factory=list)

    @property
    def now(self) -> float:
        return round(asyncio.get_running_loop().time() - self.began, 3)

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        self.asks.append(ask)
        self.specs.append(spec)

    def filler(self, ask: ToolAsk, text: str) -> None:
        self.fillers.append((self.now, text))

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self.replies.append(reply)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        self.late_replies.append((self.now, ask, reply))

    @property
    def all_text(self) -> str:
        return f"{self.asks}{self.replies}{self.late_replies}"


class Stage:
    """A desk with all given tools, its line and its observer."""

    def __init__(
        self,
        *tools: Any,
        line: Line | None = None,
        beside: Stage | None = None,
        payload: PayloadLimits = DEFAULT_LIMITS,
        secrets: KnownSecrets = NO_SECRETS,
    ) -> None:
        """`beside`: another call, of the same catalogue's next version; `secrets`: those of the
        configuration."""
        reuse = beside.catalogue if beside is not None else None
        catalogue = self.catalogue = Catalogue(
            (ToolEntry(tool) for tool in tools), reuse, known_secrets=secrets
        )
        assert catalogue.problems == ()
        self.line = line or Line()
        self.log = Log()
        self.desk = Desk(
            catalogue.toolbox(catalogue),
            self.line,
            self.log,
            asyncio.get_running_loop().time,
            lambda: payload,
        )
        self._asked = 0

    def start(
        self, name: str, turn: int = 1, confirmed: bool = False, **arguments: Any
    ) -> asyncio.Task[ToolReply]:
        """Ask, in a task of its own."""
        self._asked += 1
        ask = ToolAsk(f"ask-{self._asked}", name, arguments, turn, confirmed)
        return asyncio.create_task(self.desk.run(ask))

    async def ask(self, name: str, turn: int = 1, **arguments: Any) -> ToolReply:
        """Ask, and wait for the answer."""
        return await self.start(name, turn, **arguments)
