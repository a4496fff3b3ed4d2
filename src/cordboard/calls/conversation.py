"""Between the agent and the caller: the agent's events become sound, tool calls and ledger lines.

`take` is the agent session's `emit`: synchronous, on the event loop. Nothing here waits but
`confirm`. Tools are `ToolExecutor`'s, questions to the caller `Confirmation`'s, silence is
`Attention`'s, speech held under a voice `Interruption`'s, what the caller has heard the playout's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerPauses,
    CallerStarted,
    CallerStopped,
    CallerText,
    CallerWaits,
    Interrupted,
    LateTold,
    OverlapBegan,
    OverlapDismissed,
    ToolAsked,
    ToolCancelled,
    Usage,
    Used,
)
from cordboard.calls import events
from cordboard.calls.confirmation import Answer, Confirmation, QuestionOutlets
from cordboard.calls.interruption import Interruption
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.playout import Playout, Started
from cordboard.calls.offer import Media
from cordboard.calls.own_sentence import Own, OwnSentence
from cordboard.calls.silence import Attention, Owed
from cordboard.calls.tools.executor import ToolExecutor
from cordboard.calls.turn_latency import TurnStopwatch
from cordboard.config.conversation import Silence
from cordboard.errors import LineGone
from cordboard.observe.metrics import APPROVAL_ANSWERS, Metrics, SilenceKind

log = structlog.get_logger()

MAX_TROUBLES = 5
"""Troubles of one sort of an agent that stand in a call's ledger; all are counted."""


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
    used: Callable[[Usage], None] = lambda _: None
    """The agent has used up something that costs money."""


@dataclass(slots=True)
class _Growing:
    """A sentence whose words come beside its sound."""

    turn: int
    at: float
    words: list[str] = field(default_factory=list)


class Conversation:
    """One call's talk. Implements `Attended` for its attention and `ToolHost` for its tools."""

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
        self._stopwatch: TurnStopwatch | None = None
        self._answered = asyncio.Event()
        """Set while the agent has nothing more to hand over."""
        self._answered.set()
        self._over = False
        self._connected_at = self._loop.time()
        self._uninterruptible = False
        """Set when the call is ending: farewells are spoken to their end."""
        self._last_turn = 0
        """The caller's last one."""
        self._farewell_said = False
        """The engine's farewell has begun: what the agent would say after it is not heard."""
        self._dropping = False
        """The agent's latest sentence is such a one."""
        self._troubles: Counter[str] = Counter()
        self._growing: _Growing | None = None
        """The agent's latest sentence, while words of it may yet come."""
        self._own: list[OwnSentence] = []
        self._own_open = False
        """The latest sentence is the engine's, and the agent has not said that it is done."""
        self.playout = Playout(media, self._audio_started, self._audio_ended)
        self.tools = ToolExecutor(agent, ledger, metrics, self)
        self.confirmation = Confirmation(
            QuestionOutlets(self.prompt, self.playout.has_begun, self._somebody_heard)
        )
        self._overlap = Interruption(self.playout, ledger, metrics)
        self._attention = Attention(silence, self)

    def begin(self, *, greets: bool) -> None:
        """The agent has started: from now on nobody is left in silence."""
        self._attention.begin(greets=greets)

    def begin_farewell(self) -> None:
        """The call is ending: nothing cuts it short any more, and nobody is asked anything."""
        self._uninterruptible = True
        self._attention.end()
        self.tools.fillers.close()
        if self.confirmation.active:
            self._agent.listen_aside(None)
        self.confirmation.close()
        self._overlap.dismiss(self._loop.time(), "undecided")

    def say(self, text: str) -> None:
        """Have the agent speak a sentence of the engine's."""
        self._say(text, "other")

    def prompt(self, text: str) -> None:
        """Have the agent speak a tool's question: it is what the caller's turn is answered with."""
        self._say(text, "prompt")

    def say_without_agent(self, text: str, sound: bytes) -> None:
        """The agent cannot: the caller gets this sound of the engine's own. What the agent may yet
        have to say is not heard."""
        turn, self._stopwatch = self._last_turn, None
        self._write_down()
        self._ledger.record(events.Answering(turn, text))
        self.playout.sentence(turn, text, own=True)
        self.playout.write(sound)
        self.playout.turn_done(turn)
        self._farewell_said = self._dropping = True
        self._answered.set()

    def wait_again(self) -> None:
        """The agent has helped itself: it is given its time anew."""
        self._attention.agent_recovers()

    def key_pressed(self) -> None:
        """The caller pressed a key: they are there."""
        self._attention.key()

    def caller_enters(self, on: bool) -> None:
        """A tool begins (or ends) to wait for keys of the caller: no filler talks into that."""
        self._attention.caller_enters(on)
        self.tools.fillers.look()

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller for a yes or a no; None is neither. Meanwhile the agent answers nothing.

        Raises `LineError` when they are being asked something else, `LineGone` when the call ends.
        """
        if self._uninterruptible or self._over:
            raise LineGone("the call is ending")
        asks = not self.confirmation.active
        if asks:
            self._agent.listen_aside(self.confirmation.hear)
            self.caller_enters(True)
        began, answer = self._loop.time(), Answer(None, "")
        try:
            answer = await self.confirmation.ask(question)
            return answer.yes
        finally:
            if asks:
                self._confirmed(question, answer, self._loop.time() - began)

    def _confirmed(self, question: str, answer: Answer, seconds: float) -> None:
        given = APPROVAL_ANSWERS[answer.yes]
        event = events.ToolApproval(question, given, round(seconds * 1000), answer.by)
        self._ledger.record(event)
        self._metrics.tool_approval(given)
        if not self._over:
            self._agent.listen_aside(None)
            self._own = [own for own in self._own if own.kind != "prompt"]
            if answer.by:
                self._attention.caller_answered()
            self.caller_enters(False)

    async def spoken_out(self) -> None:
        """Wait until the agent has nothing more to say and the caller has heard it all."""
        while self.playout.speaking or not self._answered.is_set():
            await self._answered.wait()
            await self.playout.drained()

    def end(self, grace: float) -> None:
        """The call is over: nothing is taken from the agent any more, and the tools are stopped.

        One that changes the world has `grace` seconds to finish; `tools.ended` waits for it.
        """
        self._write_down()
        self._over = True
        self._attention.end()
        self.confirmation.close()
        self._overlap.close()
        self.tools.end(grace)

    def take(self, event: AgentEvent) -> None:
        """Handle one event of the agent. What it has used counts after the end, too: services that
        are paid by the second tell it when they are left."""
        if self._over and not isinstance(event, Used):
            return
        match event:
            case AgentAudio(turn, pcm):
                self._hear_agent(turn, pcm)
            case AgentText(turn, text, at):
                self._speak(turn, text, at)
            case AgentWords(turn, text):
                self._speak_on(turn, text)
            case AgentAudioDone(turn):
                self._done(turn)
            case CallerStarted() | CallerPauses() | CallerStopped() | CallerText():
                self._note_caller(event)
            case CallerWaits(silent_since):
                self._attention.caller_waits(silent_since)
            case ToolAsked() | ToolCancelled() | LateTold():
                self._take_tool(event)
            case OverlapBegan() | OverlapDismissed() | Interrupted():
                self._follow_overlap(event)
            case Used() | AgentTrouble() | AgentFailed() | AgentEnded():
                self._note_agent(event)

    def _note_agent(self, event: Used | AgentTrouble | AgentFailed | AgentEnded) -> None:
        match event:
            case Used(usage):
                self._endings.used(usage)
            case AgentTrouble(what, detail):
                self._metrics.agent_trouble(what)
                if what == INTERNAL:
                    self._metrics.internal_error("agent")
                self._troubles[what] += 1
                if self._troubles[what] <= MAX_TROUBLES:
                    self._ledger.record(events.Trouble(f"agent_{what}", detail))
            case AgentFailed(reason, kind):
                if kind == INTERNAL:
                    self._metrics.internal_error("agent")
                self._give_up(reason)
            case AgentEnded(reason):
                self._endings.ended(reason)

    def _take_tool(self, event: ToolAsked | ToolCancelled | LateTold) -> None:
        match event:
            case ToolAsked(ask):
                self._answered.clear()
                self.tools.start(ask)
            case ToolCancelled(ask_id):
                self.tools.cancel(ask_id)
            case LateTold(ask_id):
                self.tools.late_replies.said(ask_id)
                self.playout.when_heard(partial(self.tools.late_replies.heard, ask_id))

    def _note_caller(
        self, event: CallerStarted | CallerPauses | CallerStopped | CallerText
    ) -> None:
        match event:
            case CallerPauses(_, silent_since):
                self._attention.caller_pauses(silent_since)
            case CallerStarted(at):
                self._overlap.caller_started(at)
                self._ledger.record(events.SpeechBegan(self._ledger.ms(at)))
                self.confirmation.caller_started()
                self._attention.caller_started()
            case CallerStopped(turn, last_speech_at, at, silence_at):
                self._last_turn = turn
                self._stopwatch = TurnStopwatch(turn, last_speech_at, at, silence_at)
                self._own = [own for own in self._own if own.kind != "filler"]
                self._ledger.record(events.TurnEnded(turn, self._ledger.ms(last_speech_at)), at)
                self._attention.caller_stopped(turn, last_speech_at)
                self.tools.fillers.look()
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
        return self.tools.running

    def late_waiting(self) -> bool:
        return self.tools.late_replies.waiting

    def tell_late(self) -> None:
        self.tools.late_replies.tell()

    def fill(self, text: str, silent: float) -> None:
        self.tools.fillers.filled()
        self._own = [own for own in self._own if (own.kind, own.text) != ("filler", text)]
        self._say(text, "filler", self._silence_ends("filler", silent, text))

    def encourage(self, text: str, silent: float) -> None:
        ended = self._silence_ends("continuer", silent, text)
        self._own.append(OwnSentence(text, "filler", ended))
        self._agent.say(text, continuer=True)

    def reprompt(self, text: str, silent: float) -> None:
        self._note_silence("reprompt", silent, text)
        self._say(text, "other")

    def give_up_caller(self, goodbye: str, silent: float) -> None:
        self._note_silence("goodbye", silent, goodbye)
        self._endings.caller_silent(goodbye)

    def give_up_agent(self, silent: float, waited: float) -> None:
        self._note_silence("stalled", silent)
        self._endings.stalled(f"no answer within {waited:.1f} s")

    def _silence_ends(self, kind: SilenceKind, silent: float, text: str) -> Callable[[], None]:
        """Writes down that it did when these words begin: the agent may have none of them said."""
        since = self._loop.time() - silent
        return lambda: self._note_silence(kind, self._loop.time() - since, text)

    def _note_silence(self, kind: SilenceKind, silent: float, text: str = "") -> None:
        self._ledger.record(events.Silence(kind, round(silent * 1000), text))
        self._metrics.silence(kind, silent)

    def _say(self, text: str, own: Own, begun: Callable[[], None] = lambda: None) -> None:
        self._answered.clear()
        self._own.append(OwnSentence(text, own, begun))
        self._agent.say(text, filler=own == "filler")

    def _somebody_heard(self) -> bool:
        return self.playout.speaking or self._attention.caller_speaks

    # What the tools want.

    def tools_changed(self) -> None:
        self._attention.tools_changed()

    def tool_filler_expected(self, at: float) -> None:
        self._attention.tool_filler_expected(at)

    def say_filler(self, ask_id: str, text: str) -> None:
        self._attention.tool_filler()
        filler = events.ToolFiller(ask_id, text)
        self._say(text, "filler", partial(self._ledger.record, filler))

    def late_came(self) -> None:
        self._attention.late_came()

    def floor_is_free(self) -> bool:
        attention = self._attention
        return not (attention.caller_speaks or attention.caller_is_asked or self._uninterruptible)

    def tools_failed(self, reason: str) -> None:
        if not self._over:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """Nobody can go on: the call is told."""
        self._write_down()
        self._answered.set()
        self._endings.failed(reason)

    # Sound.

    def _hear_agent(self, turn: int, pcm: bytes) -> None:
        if self._dropping:
            return
        watch = self._stopwatch
        if watch is not None and watch.audio_at is None and watch.turn == turn:
            watch.audio_at = self._loop.time()
        self.playout.write(pcm)
        self._attention.sound(of_answer=not self._own_open)

    def _speak(self, turn: int, text: str, at: float) -> None:
        self._write_down()
        self._answered.clear()
        own = next((entry for entry in self._own if entry.text == text), None) if text else None
        self._dropping = self._farewell_said and own is None
        if self._dropping:
            return
        if own is not None:
            self._own.remove(own)
            own.begun()
            if own.kind == "other":
                self._stopwatch = None  # a re-prompt or a farewell answers nobody
                self._farewell_said = self._uninterruptible
        else:
            self._attention.answering(turn)
        self._own_open = own is not None
        watch = self._stopwatch
        if watch is not None and watch.turn == turn and watch.sentence_at is None:
            watch.sentence_at = at
        if text:
            self._ledger.record(events.Answering(turn, text), at)
        else:
            self._growing = _Growing(turn, at)
        self.playout.sentence(turn, text, own=own is not None and own.kind != "prompt")

    def _speak_on(self, turn: int, text: str) -> None:
        """Words that come beside their sound."""
        growing = self._growing
        if growing is not None and growing.turn == turn:
            growing.words.append(text)
            self.playout.grow(turn, text)

    def _write_down(self) -> None:
        """The sentence that was growing grows no more: its words are for the record now."""
        growing, self._growing = self._growing, None
        if growing is not None and (text := "".join(growing.words).strip()):
            self._ledger.record(events.Answering(growing.turn, text), growing.at)

    def _done(self, turn: int) -> None:
        """All is handed over. Behind a filler that is said while the answer is owed, it is not."""
        self._write_down()
        self._answered.set()
        filler = self._own_open and not self.confirmation.active
        if filler and self._attention.owed is Owed.ANSWER:
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
                    self._write_down()
                    self.confirmation.interrupted()
                    if self.playout.speaking:
                        self.tools.late_replies.interrupted()
                    self._overlap.interrupt(at, self._agent.interrupted)
                    self._attention.caller_cut_in()
