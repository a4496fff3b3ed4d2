"""The tools' side of a conversation: passes the agent's tool calls to the desk, and its answers
back.

Each tool call is a task. The desk's reports become ledger entries, metrics, fillers
(`calls.speech_queue`) and, when an answer comes too late, a late answer (`LateReplies`). The desk
decides the effect of an interruption or a hang-up on a tool, by the tool's effects: here only the
tool call is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.speech import ABOUT_EARLIER, Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.events import ToolFiller
from cordboard.calls.ledger import Ledger
from cordboard.calls.speech_queue import SpeechQueue
from cordboard.calls.tools.events import answered_event, asked_event, count
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import ToolAsk, ToolReply, ToolSpec

log = structlog.get_logger()


MOST_TELLINGS = 2
"""Number of tellings of a late answer; a caller who cuts off all of them does not want it."""
MOST_OFFERS = 6
"""Number of times that a late answer is handed to the agent; one that drops it so often will not
say it."""


@dataclass(slots=True)
class _Late:
    reply: ToolReply
    came_at: float
    offers: int = 0
    cuts: int = 0
    """Number of times that the caller cut the answer off."""


class LateReplies:
    """Answers that came too late: to tool calls that the agent had given up, or that had timed out.

    They are kept until they can be spoken: the silence watch says when that fits, and the agent
    says one as a sentence of the engine. One that the caller cuts off is tried once more, one that
    was dropped is tried again. Each ends as one entry of the ledger, `tool.late`, spoken or not.
    """

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        say: Callable[[Speech], None],
        again: Callable[[], None],
    ) -> None:
        """`say` speaks a late answer now; `again()` reports that one waits until it fits."""
        self._ledger = ledger
        self._metrics = metrics
        self._say = say
        self._again = again
        self._loop = asyncio.get_running_loop()
        self._kept: list[_Late] = []
        """Answers not spoken yet, the oldest first."""
        self._offered: _Late | None = None
        """The answer with the agent; it is the first of the kept ones."""
        self._over = False

    @property
    def waiting(self) -> bool:
        """True if there is an answer to be spoken, and none is being spoken."""
        return bool(self._kept) and self._offered is None

    def keep(self, reply: ToolReply) -> None:
        """Keep a new answer."""
        late = _Late(reply, self._loop.time())
        if self._over:
            self._record(late, told=False)
        else:
            self._kept.append(late)

    def tell(self) -> None:
        """Have the first answer spoken now."""
        if self.waiting:
            late = self._offered = self._kept[0]
            late.offers += 1
            words = f"{ABOUT_EARLIER} {late.reply.message}"
            self._say(Speech(words, "late answer", partial(self._changed, late)))

    def _changed(self, late: _Late, speech: Speech) -> None:
        if late is not self._offered or not speech.over:
            return
        late.cuts += speech.state is SpeechState.CUT
        if speech.state is SpeechState.HEARD or late.cuts >= MOST_TELLINGS:
            self._settle(late, told=True)
        elif late.offers >= MOST_OFFERS:
            self._settle(late, told=False)
        else:
            self._offered = None
            self._again()

    def close(self) -> None:
        """Close: the call is over, later and remaining answers are only recorded. Idempotent."""
        self._over = True
        self._offered = None
        while self._kept:
            self._record(self._kept.pop(0), told=False)

    def _settle(self, late: _Late, *, told: bool) -> None:
        self._offered = None
        self._kept.remove(late)
        self._record(late, told=told)

    def _record(self, late: _Late, *, told: bool) -> None:
        self._metrics.tools.late(told=told)
        reply = late.reply
        waited = round((self._loop.time() - late.came_at) * 1000)
        self._ledger.record(
            events.ToolLate(
                reply.ask_id, reply.name, str(reply.status), reply.message, told, waited
            )
        )


@dataclass(frozen=True, slots=True)
class ToolOutlets:
    """The conversation, as its tools see it. All return at once."""

    changed: Callable[[], None]
    """A tool call has begun or ended."""
    filler_delay: Callable[[float], float]
    """Seconds to the first filler of a tool that begins now, by its threshold in seconds."""
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
        self._ledger.record(asked_event(ask, spec))

    def filler_delay(self, threshold: float) -> float:
        return self._outlets.filler_delay(threshold)

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
