"""The acts of people who watch a live call: say, hint, flag, take over, hang up, listen.

Each act is a line of the ledger that names the person. A hint reaches the agent's model alone; the
words of `say` reach the caller in the agent's voice.
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
from cordboard.calls.transfer.transfers import Joined
from cordboard.config.conversation import Listening
from cordboard.errors import LineError, LineGone
from cordboard.tools.call_line import TransferResult

log = structlog.get_logger()

BACK = "I am still here."
TAKEN = 10.0
"""Seconds for which `say` waits for the sentence to begin."""


class OperatorLine(Protocol):
    """The call's line, as operators use it (`calls.call_control.CallControl`)."""

    async def transfer_by_operator(self, destination: str) -> TransferResult:
        """Transfer the caller, blind. Raises as `take_over`."""

    def take_over(self, destination: str, joined: Joined) -> Coroutine[Any, Any, TransferResult]:
        """Connect the caller with a person's phone; `joined` is called when they talk. The
        coroutine returns at the end of it. Raises `LineError` at once if it is refused, and
        `KeyError` for a destination that the call does not know."""


class OperatorControl:
    """The acts of an operator in one call."""

    def __init__(
        self,
        agent: Agent,
        ending: CallEnding,
        ledger: Ledger,
        listening: Listening,
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
        self._listening = listening
        self._talking = talking
        self._verified = verified
        self._delay = SECRET_DELAY if secret_keys else DELAY
        self._line = line
        self._taking: asyncio.Task[TransferResult] | None = None
        """The latest take-over: until caller and operator have ended their talk."""
        self._conversation: Conversation | None = None
        self._sound: CallSound | None = None
        self._listeners: dict[Listener, str] = {}
        """With the name of each."""

    def connect(self, conversation: Conversation, sound: CallSound) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation
        self._sound = sound

    @property
    def listened(self) -> int:
        """Number of people who listen now."""
        return len(self._listeners)

    @property
    def may_listen(self) -> bool:
        """True if the call's context allows it."""
        return self._listening.enabled

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
        """Send the caller into the dialplan. Returns when they have left for good; one who is
        handed back, or was not sent because the destination is closed, goes on with the agent.
        Raises as `take_over`."""
        result = await self._line.transfer_by_operator(destination)
        if result.away:
            self._tell_back()
        if result.returned and result.outcome != "accepted":
            raise LineError(f"not transferred: {result.outcome}")

    async def take_over(self, destination: str, who: str) -> None:
        """Ring this phone while the caller hears music, and connect both; the agent leaves.

        Returns when they talk. Raises `LineError` if they do not: then the caller is with the
        agent again; and `KeyError` for a destination that the call does not know.
        """
        conversation, loop = self._conversation_now(), asyncio.get_running_loop()
        if conversation.floor.caller_waits:
            raise LineError("the caller is being asked something, or has the call on hold")
        joined: asyncio.Future[None] = loop.create_future()
        work = self._line.take_over(destination, lambda: joined.set_result(None))
        self._ledger.record(events.OperatorTakeover(who, destination))
        conversation.take(Interrupted(loop.time()))
        taking = self._taking = loop.create_task(work, name="takeover")
        taking.add_done_callback(self._taken)
        await asyncio.wait((taking, joined), return_when=asyncio.FIRST_COMPLETED)
        if not joined.done():
            raise LineError(f"not taken over: {taking.result().outcome}")

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

    async def ended(self) -> None:
        """Wait for the end of a take-over: the call is over, and ends it."""
        if self._taking is not None:
            await asyncio.wait((self._taking,))

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

    def _conversation_now(self) -> Conversation:
        if self._ending.is_over or self._ending.says_farewell:
            raise LineGone("the call ends")
        if self._conversation is None or not self._talking():
            raise LineError("the agent does not talk with the caller at this moment")
        return self._conversation
