"""Between the agent and the caller: the agent's events become sound, tool calls and ledger lines.

`take` is the agent session's `emit`: synchronous, on the event loop. Nothing here waits; tools run
in tasks of their own and answer the agent when they are done. Silence is `Attention`'s, speech held
under a voice `Overlap`'s, what the caller has heard the playout's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import structlog

from cordboard.agents.base import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentText,
    CallerPauses,
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
from cordboard.calls.attention import Attention, Owed
from cordboard.calls.ledger import Ledger
from cordboard.calls.offer import Media
from cordboard.calls.overlap import Overlap
from cordboard.calls.playout import Playout, Started
from cordboard.calls.stopwatch import TurnStopwatch
from cordboard.config.conversation import Silence
from cordboard.observe.metrics import Metrics, SilenceKind
from cordboard.tools.desk import Desk
from cordboard.tools.tool import Effects, ToolAsk, ToolReply, ToolSpec

log = structlog.get_logger()

Own = Literal["filler", "prompt", "other"]
"""What a sentence of the engine's is to the caller's turn: said while the answer is owed; the
answer, as the question of a tool is; or nothing at all (a re-prompt, a farewell)."""
FILLER_APART = 2.0
"""Seconds from a filler of ours within which a tool's own one would only be a second one."""


@dataclass(frozen=True, slots=True)
class Endings:
    """What a conversation wants of its call when it cannot or need not go on."""

    failed: Callable[[str], None]
    """The agent cannot go on, for this reason."""
    ended: Callable[[str], None]
    """The agent considers it over, for this reason."""
    caller_silent: Callable[[str], None]
    """Nobody is there; say this goodbye."""
    stalled: Callable[[str], None]
    """The agent does not answer any more."""


class Conversation:
    """One call's talk. Implements the desk's observer, and `Attended` for its attention."""

    def __init__(
        self,
        agent: Agent,
        media: Media,
        ledger: Ledger,
        metrics: Metrics,
        endings: Endings,
        silence: Silence,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        self._ledger = ledger
        self._metrics = metrics
        self._endings = endings
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
        self._uninterruptible = False
        """Set when the call is ending: farewells are spoken to their end."""
        self._own: list[tuple[str, Own]] = []
        """Sentences of the engine's that the agent has not begun."""
        self._own_open = False
        """The latest sentence is the engine's, and the agent has not said that it is done."""
        self._filled_at = -FILLER_APART
        self.playout = Playout(media, self._audio_started, self._audio_ended)
        self._overlap = Overlap(self.playout, ledger, metrics)
        self._attention = Attention(silence, self)

    def seat(self, desk: Desk) -> None:
        """Give the conversation its desk; until then every tool ask is a programming error."""
        self._desk = desk

    def begin(self, *, greets: bool) -> None:
        """The agent has started: from now on nobody is left in silence."""
        self._attention.begin(greets=greets)

    def begin_farewell(self) -> None:
        """The call is ending: nothing cuts it short any more, and nobody is asked anything."""
        self._uninterruptible = True
        self._attention.end()
        self._overlap.dismiss(self._loop.time(), "undecided")

    def say(self, text: str) -> None:
        """Have the agent speak a sentence of the engine's."""
        self._say(text, "other")

    def prompt(self, text: str) -> None:
        """Have the agent speak a tool's question: it is what the caller's turn is answered with."""
        self._say(text, "prompt")

    def key_pressed(self) -> None:
        """The caller pressed a key: they are there."""
        self._attention.key()

    def caller_enters(self, on: bool) -> None:
        """A tool begins (or ends) to wait for keys of the caller: no filler talks into that."""
        self._attention.caller_enters(on)

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
        self._attention.end()
        self._overlap.close()
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
            case AgentAudio(turn, pcm):
                watch = self._stopwatch
                if watch is not None and watch.audio_at is None and watch.turn == turn:
                    watch.audio_at = self._loop.time()
                self.playout.write(pcm)
                self._attention.sound(of_answer=not self._own_open)
            case AgentText(turn, text, at):
                self._speak(turn, text, at)
            case AgentAudioDone(turn):
                self._done(turn)
            case CallerStarted() | CallerPauses() | CallerStopped() | CallerText():
                self._note_caller(event)
            case ToolAsked(ask):
                self._answered.clear()
                self._start_tool(ask)
            case ToolCancelled(ask_id):
                self._cancel_tool(ask_id)
            case OverlapBegan() | OverlapDismissed() | Interrupted():
                self._follow_overlap(event)
            case AgentFailed(reason):
                self._answered.set()
                self._endings.failed(reason)
            case AgentEnded(reason):
                self._endings.ended(reason)

    def _note_caller(
        self, event: CallerStarted | CallerPauses | CallerStopped | CallerText
    ) -> None:
        match event:
            case CallerPauses(_, silent_since):
                self._attention.caller_pauses(silent_since)
            case CallerStarted(at):
                self._overlap.caller_started(at)
                self._ledger.record(events.SpeechBegan(self._ledger.ms(at)))
                self._attention.caller_started()
            case CallerStopped(turn, last_speech_at, at, silence_at):
                self._stopwatch = TurnStopwatch(turn, last_speech_at, at, silence_at)
                self._own = [entry for entry in self._own if entry[1] != "filler"]
                self._ledger.record(events.TurnEnded(turn, self._ledger.ms(last_speech_at)), at)
                self._attention.caller_stopped(turn, last_speech_at)
            case CallerText(turn, text, at, confidence, understood):
                if self._stopwatch is not None and self._stopwatch.turn == turn:
                    self._stopwatch.text_at = at
                heard = events.Heard(turn, text, round(confidence, 3), understood)
                self._ledger.record(heard, at)
                self._attention.caller_text(turn, text)

    # What attention wants.

    def queued_ms(self) -> int:
        return self.playout.queued_ms

    def tools_running(self) -> bool:
        return bool(self._tools)

    def fill(self, text: str, silent: float) -> None:
        self._filled_at = self._loop.time()
        self._note_silence("filler", silent, text)
        self._say(text, "filler")

    def encourage(self, text: str, silent: float) -> None:
        self._note_silence("continuer", silent, text)
        self._own.append((text, "filler"))
        self._agent.say(text, continuer=True)

    def reprompt(self, text: str, silent: float) -> None:
        self._note_silence("reprompt", silent, text)
        self._say(text, "other")

    def give_up_caller(self, goodbye: str, silent: float) -> None:
        self._note_silence("goodbye", silent, goodbye)
        self._endings.caller_silent(goodbye)

    def give_up_agent(self, silent: float) -> None:
        self._note_silence("stalled", silent)
        self._endings.stalled(f"no answer {silent:.1f} s after the caller's turn")

    def _note_silence(self, kind: SilenceKind, silent: float, text: str = "") -> None:
        self._ledger.record(events.Silence(kind, round(silent * 1000), text))
        self._metrics.silence(kind, silent)

    def _say(self, text: str, own: Own) -> None:
        self._answered.clear()
        self._own.append((text, own))
        self._agent.say(text, filler=own == "filler")

    # What the desk reports.

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        if spec is not None and spec.effects is Effects.DESTRUCTIVE:
            self._protected.add(ask.ask_id)
        if spec is not None and spec.filler.threshold_ms > 0 and spec.filler.messages:
            expected = self._loop.time() + spec.filler.threshold_ms / 1000
            self._attention.tool_filler_expected(expected)
        origin = spec.origin if spec is not None else ""
        self._ledger.record(
            events.ToolCalled(ask.turn, ask.ask_id, ask.name, origin, ask.arguments)
        )

    def filler(self, ask: ToolAsk, text: str) -> None:
        """A tool's own filler; left out when one of ours has hardly been said."""
        if self._over or self._loop.time() - self._filled_at < FILLER_APART:
            return
        self._ledger.record(events.ToolFiller(ask.ask_id, text))
        self._attention.tool_filler()
        self._say(text, "filler")

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self._ledger.record(
            events.ToolAnswered(ask.ask_id, ask.name, reply.status, reply.message, reply.took_ms)
        )
        self._protected.discard(ask.ask_id)
        seconds = reply.took_ms / 1000
        self._metrics.tool_called(spec.name if spec else "unknown", reply.status, seconds)
        if spec is not None and spec.server:
            tool = spec.origin.removeprefix(f"mcp:{spec.server}:")
            self._metrics.mcp_tool_called(spec.server, tool, reply.status, seconds)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """The agent tells the caller when it fits."""
        if not self._over:
            self._agent.offer_late(reply)

    # Sound.

    def _speak(self, turn: int, text: str, at: float) -> None:
        self._answered.clear()
        own = next((entry for entry in self._own if entry[0] == text), None)
        if own is not None:
            self._own.remove(own)
            if own[1] == "other":
                self._stopwatch = None  # a re-prompt or a farewell answers nobody
        else:
            self._attention.answering(turn)
        self._own_open = own is not None
        watch = self._stopwatch
        if watch is not None and watch.turn == turn and watch.sentence_at is None:
            watch.sentence_at = at
        self._ledger.record(events.Answering(turn, text), at)
        self.playout.sentence(turn, text, own=own is not None and own[1] != "prompt")

    def _done(self, turn: int) -> None:
        """All is handed over. Behind a filler that is said while the answer is owed, it is not."""
        self._answered.set()
        if self._own_open and self._attention.owed is Owed.ANSWER:
            self._own_open = False
            return
        self.playout.turn_done(turn)
        self._attention.answer_done(turn)

    def _audio_started(self, started: Started) -> None:
        turn, at = started.turn, started.at
        watch = self._stopwatch
        if watch is not None and watch.turn == turn and watch.filled:
            self._stopwatch = None
            answered = events.Answered(turn, round((at - watch.last_speech_at) * 1000))
            self._ledger.record(answered, at)
            self._metrics.turn_latency("answer", answered.answer_ms / 1000)
            return
        self._ledger.record(events.AudioStarted(turn), at)
        if watch is not None and watch.turn == turn:
            watch.filled = started.own
            self._stopwatch = watch if started.own else None
            latency = watch.latency(at)
            self._ledger.record(latency, at)
            for stage, milliseconds in latency.stages():
                self._metrics.turn_latency(stage, milliseconds / 1000)
            if not started.own:
                self._metrics.turn_latency("answer", latency.total_ms / 1000)
        elif turn == 0 and not started.own:
            self._metrics.greeting_latency(at - self._connected_at)

    def _audio_ended(self, turn: int) -> None:
        self._ledger.record(events.AudioEnded(turn))

    def _follow_overlap(self, event: OverlapBegan | OverlapDismissed | Interrupted) -> None:
        """Hold our speech while somebody speaks over it; go on if it was nothing."""
        match event:
            case OverlapBegan(at, onset_at):
                if not self._uninterruptible:
                    self._overlap.begin(at, onset_at)
            case OverlapDismissed(at, why):
                self._overlap.dismiss(at, why)
                self._attention.caller_dismissed()
            case Interrupted(at):
                if not self._uninterruptible:
                    self._overlap.interrupt(at, self._agent.interrupted)
                    self._attention.caller_cut_in()

    # Tools.

    def _start_tool(self, ask: ToolAsk) -> None:
        task = self._loop.create_task(self._run_tool(ask))
        self._tools[ask.ask_id] = task
        self._attention.tools_changed()
        task.add_done_callback(lambda _: self._tool_ended(ask.ask_id))

    def _tool_ended(self, ask_id: str) -> None:
        self._tools.pop(ask_id, None)
        self._attention.tools_changed()

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
