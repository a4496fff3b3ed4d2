"""The tools' side of a conversation: passes the agent's tool calls to the desk, and its answers
back.

Each tool call is a task. The desk's reports become ledger entries, metrics, fillers
(`calls.speech_queue`) and, when an answer comes too late, a late answer
(`calls.tools.late_replies`). The desk decides the effect of an interruption or a hang-up on a tool,
by the tool's effects: here only the tool call is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls.events import ToolFiller
from cordboard.calls.ledger import Ledger
from cordboard.calls.speech_queue import SpeechQueue
from cordboard.calls.tools.events import answered_event, asked_event, count
from cordboard.calls.tools.late_replies import LateReplies
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Filler, ToolAsk, ToolReply, ToolSpec

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ToolOutlets:
    """The conversation, as its tools see it. All return at once."""

    changed: Callable[[], None]
    """A tool call has begun or ended."""
    filler_expected: Callable[[float], None]
    """A tool has its own filler at that loop time, if it has not answered by then."""
    late_came: Callable[[], None]
    """There is a late answer, to be spoken when it fits."""
    failed: Callable[[str], None]
    """A tool call cannot be answered: the agent cannot continue."""


class ToolExecutor:
    """The tool calls of one call. Implements the desk's observer."""

    def __init__(
        self,
        agent: Agent,
        ledger: Ledger,
        metrics: Metrics,
        speech: SpeechQueue,
        outlets: ToolOutlets,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        self._ledger = ledger
        self._metrics = metrics
        self._speech = speech
        self._outlets = outlets
        self._fillers: dict[str, Speech] = {}
        """The last filler of each tool call."""
        self._desk: Desk | None = None
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._over = False
        self.late_replies = LateReplies(ledger, metrics, speech.say, outlets.late_came)

    def seat(self, desk: Desk) -> None:
        """Set the desk; until then every tool call is a programming error."""
        self._desk = desk

    @property
    def running(self) -> bool:
        """True if the agent waits for any tool."""
        return bool(self._asks)

    def start(self, ask: ToolAsk) -> None:
        """Start a tool call of the agent."""
        task = self._loop.create_task(self._run(ask))
        self._asks[ask.ask_id] = task
        self._outlets.changed()
        task.add_done_callback(lambda _: self._ended(ask.ask_id, task))

    def cancel(self, ask_id: str) -> None:
        """Cancel a tool call whose answer the agent no longer needs."""
        task = self._asks.get(ask_id)
        if task is not None:
            task.cancel()

    def end(self, grace: float) -> None:
        """Stop the running tools, without further speech: the call is over. A tool that changes the
        world has `grace` seconds to finish."""
        self._over = True
        self.late_replies.close()
        if self._desk is not None:
            self._closing = self._loop.create_task(self._desk.close(grace))

    async def ended(self) -> None:
        """Wait for the end of all tools. Afterwards none is running."""
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
        except Exception as error:  # task border: a tool call without an answer would be silence
            log.exception("tool_ask_failed", exposed_name=ask.name[:100], error=str(error))
            self._metrics.internal_error("tool_ask")
            self._outlets.failed(f"a tool call failed: {type(error).__name__}")

    def _ended(self, ask_id: str, task: asyncio.Task[None]) -> None:
        if self._asks.get(ask_id) is task:
            del self._asks[ask_id]
        self._outlets.changed()

    # Reports of the desk.

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        slow = spec.filler if spec is not None and not ask.parent else Filler()
        if slow.threshold_ms > 0 and slow.messages:
            expected = self._loop.time() + slow.threshold_ms / 1000
            self._outlets.filler_expected(expected)
        self._ledger.record(asked_event(ask, spec))

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Pass on a tool's own filler; the speech queue decides about it. A tool that continues
        after its tool call was given up has none."""
        if self.running and not self._over:
            speech = Speech(text, "filler", partial(self._filler_changed, ask.ask_id))
            self._fillers[ask.ask_id] = speech
            self._speech.say_in_silence(speech)

    def _filler_changed(self, ask_id: str, speech: Speech) -> None:
        if speech.state is SpeechState.BEGUN:
            self._ledger.record(ToolFiller(ask_id, speech.text))

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        filler = self._fillers.pop(ask.ask_id, None)
        if filler is not None:
            self._speech.withdraw(filler)
        self._ledger.record(answered_event(ask, reply))
        context = self._desk.line.context_name if self._desk is not None else ""
        count(self._metrics, context, spec, reply)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Keep the late answer: the agent passes it on to the caller when it fits."""
        self.late_replies.keep(reply)
        if not self._over:
            self._outlets.late_came()
