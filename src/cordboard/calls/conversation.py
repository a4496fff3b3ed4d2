"""Connect the agent with the caller: turn its events into sound, tool calls and ledger entries.

`take` is the agent session's `emit`: synchronous, on the event loop. Only `confirm` waits. Each
part has its own concern:

- `Floor`: who speaks, and the speech that the agent owes; `SpeechQueue`: the sentences of the
  engine that may be spoken now; `SilenceWatch`: silence that has lasted too long
- `Playout`: the sound that the caller has heard; `Interruption`: speech held under a voice
- `ToolExecutor`: the agent's tool calls; `Confirmation`: the caller's yes or no
- `LatencyRecord`: the caller's waits
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentBroke,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerPartial,
    CallerPauses,
    CallerStarted,
    CallerStopped,
    CallerText,
    CallerWaits,
    Interrupted,
    OverlapBegan,
    OverlapDismissed,
    ToolAsked,
    ToolCancelled,
    Usage,
    Used,
)
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.confirmation import Answer, Confirmation, QuestionOutlets
from cordboard.calls.dictation import Dictated, Dictation
from cordboard.calls.floor import Floor, Owed
from cordboard.calls.interruption import Interruption
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.playout import Playout
from cordboard.calls.offer import Media
from cordboard.calls.silence import SilenceOutlets, SilenceWatch
from cordboard.calls.speech_pause import Rest
from cordboard.calls.speech_queue import SpeechOutlets, SpeechQueue
from cordboard.calls.tools.executor import ToolExecutor, ToolOutlets
from cordboard.calls.turn_latency import LatencyRecord
from cordboard.calls.waiting_music import WaitingMusic
from cordboard.config.conversation import Silence
from cordboard.errors import LineError, LineGone
from cordboard.observe.conversation_metrics import SilenceKind
from cordboard.observe.metrics import Metrics
from cordboard.observe.tool_metrics import APPROVAL_ANSWERS

log = structlog.get_logger()

MUSIC_MS = 500
"""Sound that is always ahead while music plays: the line is not silent."""
MAX_TROUBLES = 5
"""Most troubles of one kind of an agent in a call's ledger; all are counted."""
ANNOUNCEMENT_SECONDS = 30.0
"""Seconds to wait at most until the sentence before a transfer by key is heard."""
NOTICE_TRIES = 3
"""Most times for which the notice of a conference is begun: it is said again if it was cut off."""
QUIET = "a colleague talks with the caller, and the agent is to be quiet until they have left"
"""Reason why the caller cannot be asked anything."""


@dataclass(frozen=True, slots=True)
class Endings:
    """Callbacks of a conversation that cannot or need not continue."""

    failed: Callable[[str], None]
    """The agent cannot continue, for this reason."""
    ended: Callable[[str], None]
    """The agent considers the conversation over, for this reason."""
    caller_silent: Callable[[str], None]
    """The caller does not answer; say this goodbye."""
    stalled: Callable[[str], None]
    """The agent does not answer any more."""
    used: Callable[[Usage], None] = lambda _: None
    """The agent has used something that costs money."""
    heard: Callable[[bool], None] = lambda _: None
    """True: the caller's turn had an understood word. False: it had none, or the caller did not
    answer a re-prompt."""


@dataclass(slots=True)
class _Growing:
    """A sentence whose words arrive alongside its sound."""

    turn: int
    at: float
    words: list[str] = field(default_factory=list)


class Conversation:
    """The conversation of one call: its parts, and the routing of events to them."""

    def __init__(
        self,
        agent: Agent,
        media: Media,
        ledger: Ledger,
        metrics: Metrics,
        endings: Endings,
        silence: Silence,
        music: Callable[[str], Awaitable[None]],
        mask: Callable[[str], str] = str,
    ) -> None:
        """`music` is `LineControl.music`. `mask` removes secrets from a text: services quote what
        they were sent."""
        self._loop = asyncio.get_running_loop()
        self._agent = agent
        self._ledger = ledger
        self._metrics = metrics
        self._endings = endings
        self._mask = mask
        self._latency = LatencyRecord(ledger, metrics)
        self._answered = asyncio.Event()
        """Set while the agent has no more sound to hand over."""
        self._answered.set()
        self._over = False
        self._present = asyncio.Event()
        """Set unless the caller has put us on hold."""
        self._present.set()
        self._held_at = 0.0
        """Loop time at which the hold began."""
        self._after_hold = silence.after_hold
        self.understood = False
        """True once the caller has said a word that was understood, or pressed a key."""
        self._said_by = ""
        """`human` while a human is asked in a consultation, `conference` while an operator is on
        the line too; empty: the caller is alone with the agent."""
        self._elsewhere = 0
        """Number of the reasons for which the agent answers no turn (`consult`)."""
        self._given_up = ""
        """Reason why the agent cannot continue, while that is to be reported later."""
        self._last_turn = 0
        """Number of the caller's last turn."""
        self._heard_turn = 0
        """Number of their last turn whose words are known."""
        self._troubles: Counter[str] = Counter()
        self._growing: _Growing | None = None
        """The agent's latest sentence, while more of its words may follow."""
        self._partial = ""
        """The caller's words so far, while they may still change. Not in the ledger."""
        self._floor = Floor()
        self.playout = Playout(media, self._latency.started, self._audio_ended)
        self.music = WaitingMusic(
            silence, music, self.playout, self._floor, ledger, metrics.internal_error
        )
        self.speech = self._make_speech_queue()
        self.tools = self._make_tools()
        self.confirmation = self._make_confirmation()
        self._dictation: Dictation | None = None
        self._overlap = Interruption(self.playout, ledger, metrics)
        self._watch = self._make_silence_watch(silence)

    @property
    def partial(self) -> str:
        """The caller's words so far, for people who watch; none while records are redacted: half a
        number cannot be recognised."""
        return "" if self._ledger.redacts else self._partial

    @property
    def hearing(self) -> bool:
        """True while the caller speaks, or the words of their turn are not known yet."""
        return self._floor.caller_speaks or self._heard_turn < self._last_turn

    @property
    def rest(self) -> Rest:
        """How far the conversation may go on in another engine now."""
        floor = self._floor
        if self._over or floor.ending or floor.caller_waits or floor.quiet:
            return Rest.BUSY
        asks = self.confirmation.active or self._dictation is not None or bool(self._said_by)
        works = self.tools.running or self.tools.late_replies.waiting or self.music.playing
        if asks or works or self._elsewhere or self.playout.proving:
            return Rest.BUSY
        if floor.caller_speaks or self.playout.speaking:
            return Rest.SPEECH
        owes = floor.owed is not Owed.NOTHING or not self._answered.is_set()
        return Rest.BETWEEN if owes or self.hearing else Rest.QUIET

    def _make_speech_queue(self) -> SpeechQueue:
        outlets = SpeechOutlets(
            self._hand_over, lambda: self.playout.queued_ms, lambda: self._watch.filled()
        )
        return SpeechQueue(self._floor, outlets)

    def _make_tools(self) -> ToolExecutor:
        outlets = ToolOutlets(
            self._tools_changed,
            lambda threshold: self._watch.tool_filler_delay(threshold),
            lambda: self._watch.late_came(),
            self._tools_failed,
        )
        return ToolExecutor(self._agent, self._ledger, self._metrics, self.speech, outlets)

    def _make_confirmation(self) -> Confirmation:
        return Confirmation(
            QuestionOutlets(
                self.speech.say,
                self.playout.reached,
                lambda: self.playout.quiet_at,
                lambda: self._floor.caller_speaks,
            )
        )

    def _make_silence_watch(self, silence: Silence) -> SilenceWatch:
        outlets = SilenceOutlets(
            self.speech.say,
            lambda: max(self.playout.queued_ms, MUSIC_MS if self.music.playing else 0),
            lambda: self.tools.running,
            lambda: self.tools.late_replies.waiting,
            self.tools.late_replies.tell,
            self._note_silence,
            self._endings.caller_silent,
            self._endings.stalled,
        )
        return SilenceWatch(silence, self._floor, outlets)

    @property
    def floor(self) -> Floor:
        """Whose turn it is. Read it only."""
        return self._floor

    def begin(self, *, greets: bool) -> None:
        """Start the silence watch: the agent has started, and the caller is never left in
        silence."""
        if greets:
            self._floor.greets()
        self._watch.begin()

    def go_on(self, turn: int, *, understood: bool) -> None:
        """Note that the conversation goes on after this turn of another engine; call it before
        `begin`. `understood`: the caller has said a word that was understood."""
        self._last_turn = self._heard_turn = turn
        self.understood = understood

    def begin_farewell(self) -> None:
        """Allow only a farewell, because the call is ending: it is not interrupted, and the caller
        is not asked any more."""
        self.speech.begin_farewell()
        self._watch.end()
        self.music.look()
        if self.confirmation.active or self._dictation is not None:
            self._agent.listen_aside(None)
        self._close_questions()
        self._overlap.dismiss(self._loop.time(), "undecided")
        if self._floor.caller_holds:
            self.playout.keep("hold", False)  # a farewell does not wait for them

    def say_without_agent(self, speech: Speech, sound: bytes) -> None:
        """Send the caller this sound of the engine's own voice, because the agent cannot speak.
        Later speech of the agent is not heard."""
        self._latency.no_answer()
        self._write_down()
        if self.speech.begins(speech):
            self._ledger.record(events.Answering(self._last_turn, speech.text))
            self.playout.sentence(self._last_turn, speech.text, speech)
            self.playout.write(sound)
            self.playout.turn_done(self._last_turn)
        self.speech.silence_agent()
        self._answered.set()

    def wait_again(self) -> None:
        """Restart the agent's timeout, because it has recovered."""
        self._watch.agent_recovers()

    def key_pressed(self) -> None:
        """Note that the caller pressed a key: they are still there."""
        self.understood = True
        self._watch.key()

    def caller_enters(self, on: bool) -> None:
        """Note that a tool begins (or ends) to wait for keys of the caller: no filler disturbs
        that."""
        self._floor.caller_is_asked = on or self._elsewhere > 0
        self._watch.restart()
        self.music.look()
        self.speech.look()

    def caller_holds(self, on: bool) -> None:
        """Note that the caller has put us on hold, or is back. Speech waits for them, and no
        timeout of the conversation runs meanwhile; tools do."""
        floor = self._floor
        if on is floor.caller_holds or floor.ending or self._over:
            return
        now, waits = self._loop.time(), self.playout.speaking or self.confirmation.active
        floor.caller_holds = on
        if on:
            self._overlap.dismiss(now, "undecided")
            self._held_at = now
            self._present.clear()
            self._ledger.record(events.HoldBegan(), now)
        else:
            self._present.set()
            held_ms = round((now - self._held_at) * 1000)
            self._ledger.record(events.HoldEnded(held_ms), now)
        self.playout.keep("hold", on)
        self.confirmation.caller_holds(on)
        self.music.look()
        if on:
            self._watch.restart()
        else:
            self._watch.caller_returns()
            owes = waits or floor.caller_is_asked or floor.owed is not Owed.NOTHING
            if self._after_hold and not owes and not self.tools.running:
                self.speech.say(Speech(self._after_hold, "reprompt"))
        self.speech.look()

    async def heard_by_caller(self) -> None:
        """Wait until the caller, who may have us on hold, has heard everything said so far."""
        while self.playout.speaking or not self._present.is_set():
            await self._present.wait()
            await self.playout.drained()

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller for a yes or a no; None if there is no clear answer. Meanwhile the agent
        answers no turn.

        Raises `LineError` when the caller is being asked something else, or the agent is to be
        quiet; `LineGone` when the call ends.
        """
        self.check_may_ask()
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
        self._metrics.tools.approval(given)
        self._asked(answered=bool(answer.by))

    def check_may_ask(self) -> None:
        """Raise `LineError` if no tool may ask the caller anything now."""
        if self._floor.ending or self._over:
            raise LineGone("the call is ending")
        if self._floor.quiet:
            raise LineError(QUIET)

    async def dictate(self, prompt: str, pause: float, longest: float) -> Dictated:
        """Say the prompt and collect the caller's words, until they are quiet for `pause` seconds,
        press a key, or `longest` seconds are over. Meanwhile the agent answers no turn. Raises as
        `confirm` does; the end of the call ends the dictation with the words so far."""
        self.check_may_ask()
        if self._floor.caller_is_asked:
            raise LineError("the caller is being asked something else")
        dictation = self._dictation = Dictation(
            pause, longest, lambda: self.playout.quiet_at, lambda: self._floor.caller_speaks
        )
        self._agent.listen_aside(dictation.hear, yes_or_no=False)
        self.caller_enters(True)
        try:
            self.speech.say(Speech(prompt, "approval"))
            return await dictation.done()
        finally:
            self._dictation = None
            self._asked(answered=True)

    def press(self, key: str) -> bool:
        """Take a key. True if it answers a question, or ends what the caller dictates."""
        if self._dictation is not None:
            self._dictation.press()
            return True
        return self.confirmation.press(key)

    def _asked(self, *, answered: bool) -> None:
        """Have the agent listen again: the caller was asked. If they have answered, the agent owes
        them the outcome of its tool call."""
        if self._over:
            return
        if self._elsewhere:
            self._agent.listen_aside(self.confirmation.hear)
            return
        self._agent.listen_aside(None)
        if answered and self.tools.running:
            self._floor.caller_answered()
            self._watch.caller_answered()
        self.caller_enters(False)

    def _close_questions(self) -> None:
        self.confirmation.close()
        if self._dictation is not None:
            self._dictation.close(self._partial)

    def consult(self, on: bool) -> None:
        """Note that the caller waits elsewhere, or is back. Meanwhile the agent answers no turn and
        says nothing to the caller; afterwards it owes them the outcome of its tool call. A quiet
        conference that a transfer ends overlaps with it: each has its own end."""
        self._elsewhere += 1 if on else -1
        if on:
            self._agent.listen_aside(self.confirmation.hear)
            self.caller_enters(True)
        elif not (self._over or self._elsewhere):
            self._said_by = ""
            self.hush()
            self._asked(answered=True)

    def confer(self, on: bool, *, quiet: bool, notice: str = "") -> None:
        """Note that an operator has joined caller and agent, or has left. `quiet`: the agent falls
        silent and answers no turn meanwhile. `notice` is spoken to all of them."""
        if self._over or self._floor.ending:
            return
        if on:
            if quiet:
                self._fall_silent()
            self._said_by = "conference"
            self._tell_of_guest(notice)
            return
        if self._said_by == "conference":
            self._said_by = ""
        if quiet:
            self._floor.quiet = False
            self._floor.owes_nothing()  # what they said meanwhile was for the operator
            self.consult(False)
            given_up, self._given_up = self._given_up, ""
            if given_up:
                self._give_up(given_up)

    def _fall_silent(self) -> None:
        """Have the agent fall silent, and give up what it asks the caller."""
        self.confirmation.give_up(LineError(QUIET))
        if self._dictation is not None:
            self._dictation.press()  # what they have said so far is not lost
        self.consult(True)
        self.hush()
        self.speech.fall_silent()

    def _tell_of_guest(self, notice: str, tries: int = NOTICE_TRIES) -> None:
        """Have the notice spoken, and again if the caller cuts it off."""
        if not (notice and tries and self._said_by == "conference"):
            return
        if self._over or self._floor.ending:
            return

        def changed(speech: Speech) -> None:
            if speech.state in (SpeechState.CUT, SpeechState.DROPPED):
                self._loop.call_soon(self._tell_of_guest, notice, tries - 1)

        self.speech.announce(notice, changed)

    async def brief(
        self, text: str, again: str, *, needs_key: bool, expects_key: bool
    ) -> bool | None:
        """Ask the other party of a consultation, who is with the agent now, for a yes or a no
        (`Confirmation.ask`)."""
        self._said_by = "human"
        answer = await self.confirmation.ask(
            text, again, needs_key=needs_key, expects_key=expects_key
        )
        return answer.yes

    async def tell(self, text: str) -> None:
        """Say a sentence in a consultation; returns when it was heard, or will not be."""
        over = asyncio.Event()
        self.speech.say(Speech(text, "approval", partial(_set_when_over, over)))
        await over.wait()

    async def announce(self, text: str, *, interrupts: bool) -> None:
        """Have the agent say a sentence of the key menu (`say_besides`); returns when it was heard,
        or will not be, after `ANNOUNCEMENT_SECONDS` at the latest."""
        over = asyncio.Event()
        changed = partial(_set_when_over, over)
        self.say_besides(Speech(text, "menu", changed, interrupts=interrupts))
        try:
            async with asyncio.timeout(ANNOUNCEMENT_SECONDS):
                await over.wait()
        except TimeoutError:
            log.warning("announcement_late", limit=ANNOUNCEMENT_SECONDS)

    def hush(self) -> None:
        """Take back the sound that is not heard yet."""
        if self.playout.speaking:
            self.take(Interrupted(self._loop.time()))

    def check_operator(self, speech: Speech) -> None:
        """Raise `LineError` if an operator's sentence may not be spoken now."""
        if self._floor.ending or self._over:
            raise LineGone("the call is ending")
        if speech.interrupts and self._floor.caller_is_asked:
            raise LineError("a tool waits for the caller's answer: it cannot be interrupted")

    def say_besides(self, speech: Speech) -> None:
        """Have the agent say a sentence of an operator (`check_operator`), of the key menu or of
        the firewall, after its present answer or in place of it."""
        if speech.interrupts:
            self.take(Interrupted(self._loop.time()))
        self.speech.say(speech)

    async def spoken_out(self) -> None:
        """Wait until the agent has no more to say and the caller has heard all of it."""
        while self.playout.speaking or not self._answered.is_set():
            await self._answered.wait()
            await self.playout.drained()

    def end(self, grace: float) -> None:
        """End the conversation: ignore the agent from now on, and stop the tools.

        A tool that changes the world has `grace` seconds to finish; `tools.ended` waits for it.
        """
        self._write_down()
        for cut in self.playout.unheard():
            self._ledger.record(events.CutOff(cut.turn, cut.heard, cut.heard_ms))
        self._over = True
        self._watch.end()
        self._close_questions()
        self._overlap.close()
        self.tools.end(grace)
        self.speech.end()

    # Events of the agent.

    def take(self, event: AgentEvent) -> None:
        """Handle one event of the agent. Usage counts after the end, too: services that are paid by
        the second report it when they are closed."""
        if self._over and not isinstance(event, Used):
            return
        match event:
            case AgentAudio(turn, pcm):
                self._hear_agent(turn, pcm)
            case AgentText():
                self._speak(event)
            case AgentWords(turn, text):
                self._speak_on(turn, text)
            case AgentAudioDone(turn):
                self._done(turn)
            case (
                CallerStarted() | CallerPauses() | CallerStopped() | CallerPartial() | CallerText()
            ):
                self._note_caller(event)
            case CallerWaits(silent_since):
                self._watch.caller_waits(silent_since)
            case ToolAsked(ask):
                self._answered.clear()
                self.tools.start(ask)
            case ToolCancelled(ask_id):
                self.tools.cancel(ask_id)
            case OverlapBegan() | OverlapDismissed() | Interrupted():
                self._follow_overlap(event)
            case Used() | AgentTrouble() | AgentBroke() | AgentFailed() | AgentEnded():
                self._note_agent(event)

    def _note_agent(
        self, event: Used | AgentTrouble | AgentBroke | AgentFailed | AgentEnded
    ) -> None:
        match event:
            case Used(usage):
                self._endings.used(usage)
            case AgentTrouble(what, detail):
                self._metrics.conversations.agent_trouble(what)
                if what == INTERNAL:
                    self._metrics.internal_error("agent")
                self._troubles[what] += 1
                if self._troubles[what] <= MAX_TROUBLES:
                    self._ledger.record(events.Trouble(f"agent_{what}", self._mask(detail)))
            case AgentBroke():
                self.playout.broke()
            case AgentFailed(reason, kind):
                if kind == INTERNAL:
                    self._metrics.internal_error("agent")
                self.playout.broke()
                self._give_up(self._mask(reason))
            case AgentEnded(reason) if self._elsewhere:
                # A service ends a conversation in which it hears silence; two people go on talking.
                self._give_up(f"the agent has ended the conversation: {reason}")
            case AgentEnded(reason):
                self._endings.ended(reason)

    def _note_caller(
        self, event: CallerStarted | CallerPauses | CallerStopped | CallerPartial | CallerText
    ) -> None:
        match event:
            case CallerPauses(_, silent_since):
                self._watch.caller_pauses(silent_since)
            case CallerStarted(at):
                self._partial = ""
                self._overlap.caller_started(at)
                self._ledger.record(events.SpeechBegan(self._ledger.ms(at)))
                self.confirmation.caller_started()
                if self._dictation is not None:
                    self._dictation.caller_started()
                self._floor.caller_started(self.playout.queued_ms)
                self._watch.caller_started()
            case CallerStopped(turn, last_speech_at, at):
                self._last_turn = turn
                self._latency.turn_ended(event)
                self._ledger.record(events.TurnEnded(turn, self._ledger.ms(last_speech_at)), at)
                owes = self._floor.caller_stopped(turn)
                self._watch.caller_stopped(last_speech_at, owes_answer=owes)
                self.confirmation.caller_stopped()
                if self._dictation is not None:
                    self._dictation.caller_stopped()
                self.speech.look()
            case CallerPartial(text):
                self._partial = text
            case CallerText(turn, text, at, confidence, understood):
                self._partial = ""
                self._heard_turn = turn
                self._latency.text(turn, at)
                heard = events.Heard(turn, text, round(confidence, 3), understood, self._said_by)
                self._ledger.record(heard, at)
                self.understood = self.understood or (bool(text) and not self._said_by)
                self._floor.caller_text(turn, text)
                self._watch.caller_text(text)
                if not self._floor.caller_waits:
                    self._endings.heard(bool(text))

    def _note_silence(self, kind: SilenceKind, silent: float, text: str = "") -> None:
        self._ledger.record(events.Silence(kind, round(silent * 1000), text))
        self._metrics.conversations.silence(kind, silent)
        if kind == "reprompt":
            self._endings.heard(False)

    def _tools_changed(self) -> None:
        self._watch.tools_changed()
        self.music.works(self.tools.running)

    def _tools_failed(self, reason: str) -> None:
        if not self._over:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """Report that the agent cannot continue: the call decides the next step. While it is to be
        quiet, caller and operator need no agent, so that waits until the operator has left."""
        self._write_down()
        self._answered.set()
        if self._floor.quiet:
            self._given_up = reason
        else:
            self._endings.failed(reason)

    # Speech.

    def _hand_over(self, speech: Speech) -> None:
        if not speech.bridges:  # the agent drops these without a word
            self._answered.clear()
        self._agent.say(speech)

    def _hear_agent(self, turn: int, pcm: bytes) -> None:
        if self.speech.silenced:
            return
        self._latency.sound(turn)
        self.playout.write(pcm)
        of_answer = self.speech.current is None
        if of_answer:
            self._floor.answer_sounds()
        self._watch.sound(self.playout.heard_until, of_answer=of_answer)

    def _speak(self, event: AgentText) -> None:
        turn, text, speech = event.turn, event.text, event.speech
        self._write_down()
        self._answered.clear()
        if not self.speech.begins(speech):
            return
        if speech is None or speech.of_agent:
            self._watch.answering(begins=self._floor.answering(turn))
        elif not (speech.bridges or speech.asks):
            self._latency.no_answer()
        self._latency.sentence(turn, event.at)
        if text:
            by = "operator" if speech is not None and speech.purpose == "operator" else ""
            self._ledger.record(events.Answering(turn, text, by), event.at)
        else:
            self._growing = _Growing(turn, event.at)
        self.playout.sentence(turn, text, speech)

    def _speak_on(self, turn: int, text: str) -> None:
        """Add words that arrive alongside their sound."""
        growing = self._growing
        if growing is not None and growing.turn == turn:
            growing.words.append(text)
            self.playout.grow(turn, text)

    def _write_down(self) -> None:
        """Record the sentence: it is complete now."""
        growing, self._growing = self._growing, None
        if growing is not None and (text := "".join(growing.words).strip()):
            self._ledger.record(events.Answering(growing.turn, text), growing.at)

    def _done(self, turn: int) -> None:
        """Note that all is handed over. The answer may still follow a sentence of the engine that
        was spoken while it is owed, unless that sentence asks the caller."""
        self._write_down()
        self._answered.set()
        if self.speech.ends_before_answer():
            self.playout.sentence_done()
            return
        self.playout.turn_done(turn)
        self._floor.answer_done(turn)
        self._watch.answer_done()

    def _audio_ended(self, turn: int) -> None:
        self._ledger.record(events.AudioEnded(turn))

    def _follow_overlap(self, event: OverlapBegan | OverlapDismissed | Interrupted) -> None:
        """Hold our speech while a voice is over it; resume if the voice was not an interruption."""
        match event:
            case OverlapBegan(at, onset_at):
                if not (self._floor.ending or self._floor.caller_holds):
                    self._overlap.begin(at, onset_at)
            case OverlapDismissed(at, why):
                self._overlap.dismiss(at, why)
                self._floor.caller_dismissed()
            case Interrupted(at):
                if not self._floor.ending:
                    self._write_down()
                    self.confirmation.interrupted()
                    self._overlap.interrupt(at, self._agent.interrupted)
                    self._watch.caller_cut_in(owes_answer=self._floor.caller_cut_in())


def _set_when_over(over: asyncio.Event, speech: Speech) -> None:
    if speech.over:
        over.set()
