"""The acts of people who watch a live call: say, hint, whisper, flag, take over, join, hang up,
listen.

Each act is a line of the ledger that names the person. A hint reaches the agent's model alone; the
words of `say` reach the caller in the agent's voice, those of `whisper` one other party alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import structlog

from cordboard.agent_api.agent import Agent, Interrupted, TakesNotes, operator_note
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import CallEnding
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.listening import DELAY, SECRET_DELAY, Listener
from cordboard.calls.transfer.aside import Hearer
from cordboard.calls.transfer.destination import notice_of
from cordboard.calls.transfer.transfers import Joined
from cordboard.config.schema import Context
from cordboard.errors import LineError, LineGone
from cordboard.tools.call_line import TransferResult

log = structlog.get_logger()

BACK = "I am still here."
QUIET_NOTE = (
    "[A colleague, a human of this company, has joined the call by phone, and you are to be quiet: "
    "nothing that you say is heard, and the caller cannot be asked anything, until you learn that "
    "the colleague has left. Words that you hear may be theirs.]"
)
JOINED_NOTE = (
    "[A colleague, a human of this company, has joined the call by phone. Words that you hear may "
    "be theirs. Go on serving the caller, and leave to the colleague what they take care of.]"
)
LEFT_NOTE = "[The colleague has left the call: you are alone with the caller again.]"
TAKEN = 10.0
"""Seconds for which `say` waits for the sentence to begin."""


class OperatorLine(Protocol):
    """The call's line, as operators use it (`calls.call_control.CallControl`)."""

    def transfer_by_operator(
        self, destination: str, left: Joined
    ) -> Coroutine[Any, Any, TransferResult]:
        """Transfer the caller, blind; `left` is called when they have left for a dialplan that may
        hand them back. The coroutine returns at the end of it. Raises as `take_over`."""

    def take_over(self, destination: str, joined: Joined) -> Coroutine[Any, Any, TransferResult]:
        """Connect the caller with a person's phone; `joined` is called when they talk. The
        coroutine returns at the end of it. Raises `LineError` at once if it is refused, and
        `KeyError` for a destination that the call does not know."""

    @property
    def apart(self) -> bool:
        """True while the caller talks with the human of a transfer, without the agent."""

    def confer(self, destination: str, notice: str, joined: Joined) -> Coroutine[Any, Any, None]:
        """Connect a person's phone with those who talk; `joined` is called then. A `notice` is
        spoken to them first. The coroutine returns at the end of it, and raises `LineError` if the
        person has not joined. Raises as `take_over` at once."""

    def end_conference(self) -> None:
        """End a conference, if there is one."""

    async def whisper(self, text: str, to: Hearer, begun: Callable[[], None]) -> None:
        """Speak to one party alone; return when they have heard it. Raises `LineError`."""


class OperatorControl:
    """The acts of an operator in one call."""

    def __init__(
        self,
        agent: Agent,
        ending: CallEnding,
        ledger: Ledger,
        context: Context,
        talking: Callable[[], bool],
        verified: Callable[[str], None],
        line: OperatorLine,
        *,
        secret_keys: bool,
    ) -> None:
        """`talking`: the agent has started and the call does not end. `verified(who)` notes that
        a person vouches for the caller. `secret_keys`: a tool of the call may ask for secret
        keys."""
        self._agent = agent
        self._ending = ending
        self._ledger = ledger
        self._context = context
        self._talking = talking
        self._verified = verified
        self._delay = SECRET_DELAY if secret_keys else DELAY
        self._line = line
        self._taking: asyncio.Task[TransferResult] | None = None
        """The latest take-over: until caller and operator have ended their talk."""
        self._conferring: asyncio.Task[None] | None = None
        """The latest conference, until the operator has left it."""
        self._whispers: set[asyncio.Task[None]] = set()
        self._conversation: Conversation | None = None
        self._sound: CallSound | None = None
        self._listeners: dict[Listener, str] = {}
        """The people who listen now, with their names."""

    def connect(self, conversation: Conversation, sound: CallSound) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation
        self._sound = sound

    @property
    def acts(self) -> bool:
        """True while an operator takes the call over, joins it or whispers."""
        tasks = (self._taking, self._conferring, *self._whispers)
        return any(task is not None and not task.done() for task in tasks)

    @property
    def listened(self) -> int:
        """Number of people who listen now."""
        return len(self._listeners)

    @property
    def may_listen(self) -> bool:
        """True if the call's context allows it."""
        return self._context.listening.enabled

    @property
    def delay_ms(self) -> int:
        """Milliseconds by which a listener hears the call later."""
        return round(self._delay * 1000)

    async def say(self, text: str, who: str, *, interrupt: bool = False) -> bool:
        """Have the agent say this, after its present answer or in place of it.

        Return True when it has begun; False if the agent has taken it and will begin later. Raises
        `LineError` if the agent does not take it, and `LineGone` when the call ends.
        """
        conversation = self._conversation_now()
        moved = asyncio.get_running_loop().create_future()

        def changed(speech: Speech) -> None:
            if not moved.done():
                moved.set_result(None)

        speech = Speech(text, "operator", changed, interrupts=interrupt)
        conversation.check_operator(speech)
        self._ledger.record(events.OperatorSaid(who, text, interrupt))
        conversation.say_besides(speech)
        await asyncio.wait((moved,), timeout=TAKEN)
        if speech.state is SpeechState.DROPPED:
            if self._ending.is_over or self._ending.says_farewell:
                raise LineGone("the call ends")
            raise LineError("the agent did not take the sentence")
        return speech.state is not SpeechState.QUEUED

    def hint(self, text: str, who: str) -> None:
        """Give the agent's model a note for its next turns. Raises `LineError` if it has no model
        that takes notes, and `LineGone` when the call ends."""
        self._conversation_now()
        agent = self._agent
        if not isinstance(agent, TakesNotes) or not agent.take_note(operator_note(text)):
            raise LineError(
                "this agent cannot take notes now: its brain has no model, or its "
                "service is not connected"
            )
        self._ledger.record(events.OperatorHint(who, text))

    def flag(self, text: str, who: str) -> None:
        """Mark this moment of the call."""
        self._ledger.record(events.Flagged(who, text))

    def verify(self, who: str) -> None:
        """Vouch for the caller, for tools that need a verified one (`step_up`)."""
        self._verified(who)

    async def transfer(self, destination: str) -> None:
        """Send the caller into the dialplan. Returns when they have left; one who is handed back
        later goes on with the agent, as one who was not sent because the destination is closed.
        Raises as `take_over`."""
        loop = asyncio.get_running_loop()
        left: asyncio.Future[None] = loop.create_future()
        work = self._line.transfer_by_operator(destination, lambda: left.set_result(None))
        sending = self._taking = loop.create_task(work, name="transfer by an operator")
        sending.add_done_callback(self._sent)
        await asyncio.wait((sending, left), return_when=asyncio.FIRST_COMPLETED)
        if not left.done() and sending.result().returned:
            raise LineError(f"not transferred: {sending.result().outcome}")

    async def take_over(self, destination: str, who: str) -> None:
        """Ring this phone while the caller hears music, and connect both; the agent leaves.

        Returns when they talk. Raises `LineError` if they do not: then the caller is with the
        agent again; and `KeyError` for a destination that the call does not know.
        """
        loop = asyncio.get_running_loop()
        await self._leave_conference()
        conversation = self._free_conversation()
        joined: asyncio.Future[None] = loop.create_future()
        work = self._line.take_over(destination, lambda: joined.set_result(None))
        self._ledger.record(events.OperatorTakeover(who, destination))
        conversation.take(Interrupted(loop.time()))
        taking = self._taking = loop.create_task(work, name="takeover")
        taking.add_done_callback(self._taken)
        await asyncio.wait((taking, joined), return_when=asyncio.FIRST_COMPLETED)
        if not joined.done():
            raise LineError(f"not taken over: {taking.result().outcome}")

    def _sent(self, sending: asyncio.Task[TransferResult]) -> None:
        error = None if sending.cancelled() else sending.exception()
        if error is not None:
            log.info("caller_not_sent", error=repr(error))
        elif not sending.cancelled() and sending.result().away:
            self._tell_back()

    def _taken(self, taking: asyncio.Task[TransferResult]) -> None:
        error = None if taking.cancelled() else taking.exception()
        if error is not None:
            log.warning("takeover_failed", error=repr(error))
        if not taking.cancelled():
            self._tell_back()

    def _tell_back(self) -> None:
        """Tell a caller who is with the agent again so."""
        ends = self._ending.is_over or self._ending.says_farewell
        if not ends and self._conversation is not None:
            self._conversation.say_besides(Speech(BACK, "operator"))

    async def confer(self, destination: str, who: str, *, quiet: bool) -> None:
        """Ring this phone, and connect it as a third party with caller and agent, or with caller
        and human. `quiet`: the agent says nothing meanwhile.

        Returns when the operator has joined. Raises `LineError` if they have not, and `KeyError`
        for a destination that the call does not know. The conference ends with the operator's
        hang-up, with a transfer, or with the call.
        """
        loop, apart = asyncio.get_running_loop(), self._line.apart
        if not self._context.conference.enabled:
            raise LineError("the call's context forbids conferences (conference.enabled)")
        if self._conferring is not None and not self._conferring.done():
            raise LineError("somebody else is joining the call, or has joined it")
        conversation = None if apart else self._free_conversation()
        joined: asyncio.Future[None] = loop.create_future()

        def begin() -> None:
            joined.set_result(None)
            if conversation is not None:
                self._note(QUIET_NOTE if quiet else JOINED_NOTE)
                conversation.confer(True, quiet=quiet, notice=notice)

        notice = notice_of(self._context, destination)
        work = self._line.confer(destination, notice if apart else "", begin)
        part = "quiet" if quiet and not apart else "talks"
        self._ledger.record(events.OperatorConference(who, destination, part))
        conferring = self._conferring = loop.create_task(work, name="conference")
        conferring.add_done_callback(_note_failure)
        await asyncio.wait((conferring, joined), return_when=asyncio.FIRST_COMPLETED)
        if not joined.done():
            _raise_why(conferring)
        elif conversation is not None:
            conferring.add_done_callback(lambda _: self._end_conference(conversation, quiet=quiet))

    def _end_conference(self, conversation: Conversation, *, quiet: bool) -> None:
        self._note(LEFT_NOTE)
        conversation.confer(False, quiet=quiet)

    def _note(self, text: str) -> None:
        """Tell the agent's model, if it takes notes, whose words it may hear."""
        if not self._ending.is_over and isinstance(self._agent, TakesNotes):
            self._agent.take_note(text)

    async def _leave_conference(self) -> None:
        if self._conferring is not None and not self._conferring.done():
            self._line.end_conference()
            await asyncio.wait((self._conferring,))

    async def whisper(self, text: str, who: str, to: Hearer) -> bool:
        """Have this spoken to one party alone, in the agent's voice, over what they hear.

        Return True when it has begun; False if it waits for an earlier whisper. Raises `LineError`
        if that party is not on the line, or there is no voice.
        """
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()

        def begins() -> None:
            begun.set_result(None)
            self._ledger.record(events.OperatorWhisper(who, to, text))

        whispering = loop.create_task(self._line.whisper(text, to, begins), name="whisper")
        self._whispers.add(whispering)
        whispering.add_done_callback(self._whispers.discard)
        whispering.add_done_callback(_note_failure)
        await asyncio.wait((whispering, begun), timeout=TAKEN, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done() and whispering.done():
            _raise_why(whispering)
        return begun.done()

    async def ended(self) -> None:
        """End whispers and a conference, and wait for every act that still runs: the call is
        over."""
        tasks = {*self._whispers, *((self._conferring,) if self._conferring is not None else ())}
        for task in tasks:
            task.cancel()
        if self._taking is not None:
            tasks.add(self._taking)  # the end of the call ends it
        if tasks:
            await asyncio.wait(tasks)

    def hang_up(self, reason: str, who: str) -> None:
        """End the call now."""
        self._ledger.record(events.OperatorHangup(who, reason))
        self._ending.end("completed", "operator_hangup")

    @contextmanager
    def listen(self, who: str) -> Iterator[Listener]:
        """Listen to both directions, muted as the recording is. Raises `LineError` if the context
        forbids it, or the caller is not connected."""
        if not self.may_listen:
            raise LineError("the call's context forbids listening (listening.enabled)")
        if self._sound is None or self._ending.is_over:
            raise LineGone("the caller is not connected")
        listener = Listener(self._sound, self._delay, self._ledger.ms)
        self._listeners[listener] = who
        try:
            yield listener
        finally:
            self._stop(listener)

    def close(self) -> None:
        """End the listening: the call is over. Idempotent."""
        for listener in [*self._listeners]:
            self._stop(listener)

    def _stop(self, listener: Listener) -> None:
        listener.end()
        who = self._listeners.pop(listener, None)
        if who is not None:
            self._ledger.record(events.Listened(who, listener.from_ms, listener.to_ms))

    def _free_conversation(self) -> Conversation:
        conversation = self._conversation_now()
        if conversation.floor.caller_waits:
            raise LineError("the caller is being asked something, or has the call on hold")
        return conversation

    def _conversation_now(self) -> Conversation:
        if self._ending.is_over or self._ending.says_farewell:
            raise LineGone("the call ends")
        if self._conversation is None or not self._talking():
            raise LineError("the agent does not talk with the caller at this moment")
        return self._conversation


def _raise_why(act: asyncio.Task[None]) -> None:
    """Raise the `LineError` with which an act has ended."""
    if act.cancelled():
        raise LineGone("the call is over")
    act.result()


def _note_failure(task: asyncio.Task[None]) -> None:
    """Task border: log a failure; its request may have been answered already."""
    if not task.cancelled() and (error := task.exception()) is not None:
        level = log.info if isinstance(error, LineError) else log.error
        level("operators_act_ended", what=task.get_name(), error=repr(error))
