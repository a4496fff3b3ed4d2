"""Between the agent and the caller: the agent's events become sound, tool calls and ledger lines.

`take` is the agent session's `emit`: synchronous, on the event loop. Nothing here waits; tools run
in tasks of their own and answer the agent when they are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from cordboard.agents.base import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentText,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    OverlapBegan,
    OverlapDismissed,
    ToolAsked,
    ToolCancelled,
)
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.calls.offer import Media
from cordboard.calls.playout import Playout
from cordboard.calls.stopwatch import TurnStopwatch
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk import Desk
from cordboard.tools.tool import Effects, ToolAsk, ToolReply, ToolSpec

log = structlog.get_logger()


class Conversation:
    """One call's talk. Implements the desk's observer."""

    def __init__(
        self,
        agent: Agent,
        media: Media,
        ledger: Ledger,
        metrics: Metrics,
        on_failed: Callable[[str], None],
        on_ended: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        self._ledger = ledger
        self._metrics = metrics
        self._on_failed = on_failed
        self._on_ended = on_ended
        self._desk: Desk | None = None
        self._tools: dict[str, asyncio.Task[None]] = {}
        self._protected: set[str] = set()
        """Asks whose tool changes the world: an interruption does not cancel them."""
        self._stopwatch: TurnStopwatch | None = None
        self._answered = asyncio.Event()
        """Set while the agent has nothing more to hand over."""
        self._answered.set()
        self._over = False
        self._connected_at = self._loop.time()
        self.uninterruptible = False
        """Set when the call is ending: farewells are spoken to their end."""
        self.playout = Playout(media, self._audio_started, self._audio_ended)

    def seat(self, desk: Desk) -> None:
        """Give the conversation its desk; until then every tool ask is a programming error."""
        self._desk = desk

    def say(self, text: str) -> None:
        """Have the agent speak a sentence of the engine's."""
        self._answered.clear()
        self._agent.say(text)

    async def spoken_out(self) -> None:
        """Wait until the agent has nothing more to say and the caller has heard it all."""
        while self.playout.speaking or not self._answered.is_set():
            await self._answered.wait()
            await self.playout.drained()

    def end(self) -> None:
        """The call is over: nothing is taken from the agent any more, and the tools are stopped.

        A tool that changes the world goes on; `close` waits for it.
        """
        self._over = True
        for ask_id in tuple(self._tools):
            self._cancel_tool(ask_id)

    async def close(self, grace: float) -> None:
        """Wait for the tools that still run; after `grace` seconds every one is cancelled."""
        running = tuple(self._tools.values())
        if running:
            _, late = await asyncio.wait(running, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def take(self, event: AgentEvent) -> None:
        """Handle one event of the agent."""
        if self._over:
            return
        match event:
            case AgentAudio(_, pcm):
                if self._stopwatch is not None and self._stopwatch.audio_at is None:
                    self._stopwatch.audio_at = self._loop.time()
                self.playout.write(pcm)
            case AgentText(turn, text, at):
                self._speak(turn, text, at)
            case AgentAudioDone(turn):
                self._answered.set()
                self.playout.turn_done(turn)
            case CallerStarted() | CallerStopped() | CallerText():
                self._note_caller(event)
            case ToolAsked(ask):
                self._answered.clear()
                self._start_tool(ask)
            case ToolCancelled(ask_id):
                self._cancel_tool(ask_id)
            case OverlapBegan() | OverlapDismissed() | Interrupted():
                self._overlap(event)
            case AgentFailed(reason):
                self._answered.set()
                self._on_failed(reason)
            case AgentEnded(reason):
                self._on_ended(reason)

    def _note_caller(self, event: CallerStarted | CallerStopped | CallerText) -> None:
        match event:
            case CallerStarted(at):
                self._ledger.record(events.SpeechBegan(self._ledger.ms(at)))
            case CallerStopped(turn, last_speech_at, at):
                self._stopwatch = TurnStopwatch(turn, last_speech_at, at)
                self._ledger.record(events.TurnEnded(turn, self._ledger.ms(last_speech_at)), at)
            case CallerText(turn, text, at, confidence):
                if self._stopwatch is not None:
                    self._stopwatch.text_at = at
                self._ledger.record(events.Heard(turn, text, round(confidence, 3)), at)

    # What the desk reports.

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        if spec is not None and spec.effects is Effects.DESTRUCTIVE:
            self._protected.add(ask.ask_id)
        origin = spec.origin if spec is not None else ""
        self._ledger.record(
            events.ToolCalled(ask.turn, ask.ask_id, ask.name, origin, ask.arguments)
        )

    def filler(self, ask: ToolAsk, text: str) -> None:
        self._ledger.record(events.ToolFiller(ask.ask_id, text))
        self._agent.say(text)

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self._ledger.record(
            events.ToolAnswered(ask.ask_id, ask.name, reply.status, reply.message, reply.took_ms)
        )
        self._protected.discard(ask.ask_id)
        seconds = reply.took_ms / 1000
        self._metrics.tool_called(spec.name if spec else "unknown", reply.status, seconds)
        if spec is not None and spec.server:
            tool = spec.origin.rpartition(":")[2]
            self._metrics.mcp_tool_called(spec.server, tool, reply.status, seconds)

    # Sound.

    def _speak(self, turn: int, text: str, at: float) -> None:
        self._answered.clear()
        watch = self._stopwatch
        if watch is not None and watch.turn == turn and watch.sentence_at is None:
            watch.sentence_at = at
        self._ledger.record(events.Answering(turn, text), at)
        self.playout.sentence(turn, text)

    def _audio_started(self, turn: int) -> None:
        now = self._loop.time()
        self._ledger.record(events.AudioStarted(turn), now)
        watch = self._stopwatch
        if watch is not None and watch.turn == turn:
            self._stopwatch = None
            latency = watch.latency(now)
            self._ledger.record(latency, now)
            for stage, milliseconds in latency.stages():
                self._metrics.turn_latency(stage, milliseconds / 1000)
        elif turn == 0:
            self._metrics.greeting_latency(now - self._connected_at)

    def _audio_ended(self, turn: int) -> None:
        self._ledger.record(events.AudioEnded(turn))

    def _overlap(self, event: OverlapBegan | OverlapDismissed | Interrupted) -> None:
        """Hold our speech while somebody speaks over it; go on if it was nothing."""
        match event:
            case OverlapBegan(at, onset_at):
                if self.uninterruptible or not self.playout.speaking:
                    return
                self.playout.hold()
                self._ledger.record(events.Held(self._ledger.ms(onset_at)), at)
            case OverlapDismissed(at, why):
                self.playout.resume()
                self._ledger.record(events.Resumed(why), at)
            case Interrupted(at):
                self._interrupt(at)

    def _interrupt(self, at: float) -> None:
        if self.uninterruptible or not self.playout.speaking:
            return
        turn, heard = self.playout.flush()
        self._ledger.record(events.BargedIn(turn, heard), at)
        self._agent.interrupted(heard)

    # Tools.

    def _start_tool(self, ask: ToolAsk) -> None:
        task = self._loop.create_task(self._run_tool(ask))
        self._tools[ask.ask_id] = task
        task.add_done_callback(lambda _: self._tools.pop(ask.ask_id, None))

    async def _run_tool(self, ask: ToolAsk) -> None:
        if self._desk is None:
            raise RuntimeError("a tool was asked for before the conversation had its desk")
        try:
            reply = await self._desk.run(ask)
            if not self._over:
                self._agent.answer_tool(reply)
        except Exception as error:  # task border: an ask without an answer would be silence
            log.exception("tool_ask_failed", exposed_name=ask.name[:100], error=str(error))
            self.take(AgentFailed(f"a tool call failed: {type(error).__name__}"))

    def _cancel_tool(self, ask_id: str) -> None:
        """What changes the world runs on to its end; everything else stops."""
        task = self._tools.get(ask_id)
        if task is not None and ask_id not in self._protected:
            task.cancel()
