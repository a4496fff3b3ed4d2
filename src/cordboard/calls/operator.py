"""The acts of people who watch a live call: say, hint, flag, hang up, listen.

Each act is a line of the ledger that names the person. A hint reaches the agent's model alone; the
words of `say` reach the caller in the agent's voice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cordboard.agent_api.agent import Agent, TakesNotes, operator_note
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import CallEnding
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.listening import DELAY, SECRET_DELAY, Listener
from cordboard.config.conversation import Listening
from cordboard.errors import LineError, LineGone

TAKEN = 10.0
"""Seconds for which `say` waits for the sentence to begin."""


class OperatorControl:
    """The acts of an operator in one call."""

    def __init__(
        self,
        agent: Agent,
        ending: CallEnding,
        ledger: Ledger,
        listening: Listening,
        talking: Callable[[], bool],
        *,
        secret_keys: bool,
    ) -> None:
        """`talking`: the agent has started and the call does not end. `secret_keys`: a tool of the
        call may ask for secret keys."""
        self._agent = agent
        self._ending = ending
        self._ledger = ledger
        self._listening = listening
        self._talking = talking
        self._delay = SECRET_DELAY if secret_keys else DELAY
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
        conversation.say_for_operator(speech)
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
