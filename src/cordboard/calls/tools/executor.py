"""The tools' side of a conversation: the agent's asks go to the desk, its answers to the agent.

Each ask is a task of its own. What the desk reports on the way becomes ledger lines, metrics,
fillers (`calls.tools.fillers`) and, when an answer comes too late, something to be told later
(`calls.tools.late_replies`). What an interruption or a hang-up does to a tool is decided in the
desk, by its effects: here only the ask is given up.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from cordboard.agent_api.agent import Agent
from cordboard.calls.ledger import Ledger
from cordboard.calls.tools.events import answered_event, asked_event, count
from cordboard.calls.tools.fillers import ToolFillers
from cordboard.calls.tools.late_replies import LateReplies
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Filler, ToolAsk, ToolReply, ToolSpec

log = structlog.get_logger()


class ToolHost(Protocol):
    """The conversation, as its tools see it."""

    def tools_changed(self) -> None:
        """An ask has begun or ended."""
        ...

    def tool_filler_expected(self, at: float) -> None:
        """A tool will have its own filler said at that loop time, if it has not answered."""
        ...

    def say_filler(self, ask_id: str, text: str) -> None:
        """Have a tool's filler said now."""
        ...

    def late_came(self) -> None:
        """There is something to be told when it fits."""
        ...

    def queued_ms(self) -> int:
        """Sound that the caller has yet to hear."""
        ...

    def floor_is_free(self) -> bool:
        """The caller neither speaks nor is being asked something."""
        ...

    def tools_failed(self, reason: str) -> None:
        """An ask cannot be answered: the agent cannot go on."""
        ...


class ToolExecutor:
    """One call's asks. Implements the desk's observer."""

    def __init__(self, agent: Agent, ledger: Ledger, metrics: Metrics, host: ToolHost) -> None:
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        self._ledger = ledger
        self._metrics = metrics
        self._host = host
        self._desk: Desk | None = None
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._over = False
        self.fillers = ToolFillers(host.say_filler, host.queued_ms, host.floor_is_free)
        self.late_replies = LateReplies(ledger, metrics, agent.offer_late)

    def seat(self, desk: Desk) -> None:
        """Give it its desk; until then every ask is a programming error."""
        self._desk = desk

    @property
    def running(self) -> bool:
        """Whether the agent waits for any tool."""
        return bool(self._asks)

    def start(self, ask: ToolAsk) -> None:
        """The agent wants a tool run."""
        task = self._loop.create_task(self._run(ask))
        self._asks[ask.ask_id] = task
        self._host.tools_changed()
        task.add_done_callback(lambda _: self._ended(ask.ask_id, task))

    def cancel(self, ask_id: str) -> None:
        """The agent no longer wants the answer."""
        task = self._asks.get(ask_id)
        if task is not None:
            task.cancel()

    def end(self, grace: float) -> None:
        """The call is over: nothing is told any more, and what runs is stopped. What changes the
        world has `grace` seconds to come to its end."""
        self._over = True
        self.fillers.close()
        self.late_replies.close()
        if self._desk is not None:
            self._closing = self._loop.create_task(self._desk.close(grace))

    async def ended(self) -> None:
        """Wait for that. Afterwards nothing is at work."""
        if self._closing is not None:
            await self._closing
        asks = tuple(self._asks.values())
        for task in asks:
            task.cancel()
        await asyncio.gather(*asks, return_exceptions=True)

    async def _run(self, ask: ToolAsk) -> None:
        if self._desk is None:
            raise RuntimeError("a tool was asked for before the conversation had its desk")
        try:
            reply = await self._desk.run(ask)
            if not self._over:
                self._agent.answer_tool(reply)
        except Exception as error:  # task border: an ask without an answer would be silence
            log.exception("tool_ask_failed", exposed_name=ask.name[:100], error=str(error))
            self._metrics.internal_error("tool_ask")
            self._host.tools_failed(f"a tool call failed: {type(error).__name__}")

    def _ended(self, ask_id: str, task: asyncio.Task[None]) -> None:
        if self._asks.get(ask_id) is task:
            del self._asks[ask_id]
        self._host.tools_changed()

    # What the desk reports.

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        slow = spec.filler if spec is not None and not ask.parent else Filler()
        if slow.threshold_ms > 0 and slow.messages:
            expected = self._loop.time() + slow.threshold_ms / 1000
            self._host.tool_filler_expected(expected)
        self._ledger.record(asked_event(ask, spec))

    def filler(self, ask: ToolAsk, text: str) -> None:
        """A tool's own filler; whether and when it is said is `ToolFillers`' to decide. None is
        for a tool that goes on though nobody waits for it."""
        if self.running and not self._over:
            self.fillers.wanted(ask.ask_id, text)

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self.fillers.answered(ask.ask_id)
        self._ledger.record(answered_event(ask, reply))
        context = self._desk.line.context_name if self._desk is not None else ""
        count(self._metrics, context, spec, reply)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """The agent tells the caller when it fits."""
        self.late_replies.keep(reply)
        if not self._over:
            self._host.late_came()
