"""The line and the caller, for the tools of a call (`cordboard.tools.call_line`).

One object per call, made with it; before the line is connected, and after its end, it refuses
operations that need a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import structlog

from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import Voice
from cordboard.calls.binding import Binding
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.call_usage import Leg
from cordboard.calls.callbacks import Callbacks
from cordboard.calls.conversation import Conversation
from cordboard.calls.dtmf import Dtmf
from cordboard.calls.ending import CallEnding
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.messages import Messages
from cordboard.calls.offer import Offer, Party
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.calls.second_phone import SecondPhone
from cordboard.calls.transfer.aside import Hearer, speak_aside
from cordboard.calls.transfer.conference import Conference, ConferenceParts
from cordboard.calls.transfer.destination import why_closed
from cordboard.calls.transfer.transfers import Joined, TransferParts, Transfers
from cordboard.config.tools.entry import TransferDestination
from cordboard.errors import LineError
from cordboard.firewall.policy import By
from cordboard.tools.call_line import (
    CallbackResult,
    KeysCollected,
    KeysWanted,
    MessageResult,
    SecondPhoneAsk,
    TransferResult,
)

log = structlog.get_logger()


class CallControl:
    """Implements `cordboard.tools.call_line.CallLine` for one phone call."""

    def __init__(
        self,
        ending: CallEnding,
        transferring: Callable[[bool], None],
        offer: Offer,
        binding: Binding,
        variables: Mapping[str, str],
        destinations: Mapping[str, TransferDestination],
        recording: CallRecording,
        ledger: Ledger,
        firewall: CallFirewall,
        voice: Callable[[], Voice | None],
        messages: Messages,
        callbacks: Callbacks,
    ) -> None:
        """`voice()` returns the voice for words to one party alone, if there is one now."""
        self._ending = ending
        self._ledger = ledger
        self._voice = voice
        self._conference: Conference | None = None
        self._transferring = transferring
        self.call_id = offer.call_id
        self.context_name = binding.context_name
        self.provider_name = binding.provider_name
        self.variables = variables
        self._control = offer.control
        self._destinations = destinations
        self._recording = recording
        self._firewall = firewall
        self._messages = messages
        self._callbacks = callbacks
        self.transfers = Transfers(
            TransferParts(offer.control, destinations, ending, ledger, recording, transferring)
        )
        self._conversation: Conversation | None = None
        self._keys: Dtmf | None = None

    def connect(self, conversation: Conversation, sound: CallSound, keys: Dtmf) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation
        self._keys = keys
        self.transfers.connect(conversation, sound)
        self._messages.connect(conversation)
        self._callbacks.connect(conversation)

    def end_after_speech(self, reason: str) -> None:
        """Hang up when the caller has heard the agent's current speech. `reason` goes to the
        log."""
        log.info("agent_hangs_up", call_id=self.call_id, why=reason)
        self._ending.after_speech("completed", "agent_hangup")

    async def transfer_after_speech(
        self, destination: str, reason: str = "", by: By = "agent", *, attended: bool = True
    ) -> TransferResult:
        """Let the agent finish, then transfer the caller. Raises `LineError`, then the call
        continues; `KeyError` for a destination that the call does not know. `by`: who wants it.
        Without `attended` the transfer is blind, whatever the destination's mode: no agent can ask
        the human, or the operator does not wait for one."""
        leg = self._allowed(destination, by)
        return await self._transfer(leg, destination, reason, blind=not attended)

    def transfer_by_operator(
        self, destination: str, left: Joined
    ) -> Coroutine[Any, Any, TransferResult]:
        """See `calls.operator.OperatorLine`."""
        leg = self._allowed(destination, "operator")
        return self._transfer(leg, destination, "", blind=True, joined=left)

    def take_over(self, destination: str, joined: Joined) -> Coroutine[Any, Any, TransferResult]:
        """See `calls.operator.OperatorLine`."""
        leg = self._allowed(destination, "operator")
        return self._transfer(leg, destination, "", blind=False, joined=joined)

    async def _transfer(
        self, leg: Leg, destination: str, reason: str, *, blind: bool, joined: Joined | None = None
    ) -> TransferResult:
        """Transfer the caller. The leg counts until they are back, or the call is over."""
        answered = partial(self._firewall.usage.answered, leg)
        try:
            return await self.transfers.run(
                destination, reason, answered, blind=blind, joined=joined
            )
        finally:
            self._firewall.usage.ended(leg)

    @property
    def engaged(self) -> bool:
        """True while the caller, or the agent for them, has to do with another telephone, or a tool
        waits for keys."""
        transfers, keys = self.transfers, self._keys
        elsewhere = transfers.busy or transfers.asks_elsewhere or transfers.gives_away
        return elsewhere or self._conference is not None or (keys is not None and keys.collecting)

    @property
    def apart(self) -> bool:
        """See `calls.operator.OperatorLine`."""
        return self.transfers.apart

    def confer(self, destination: str, notice: str, joined: Joined) -> Coroutine[Any, Any, None]:
        """See `calls.operator.OperatorLine`."""
        return self._confer(destination, self._allowed(destination, "operator"), notice, joined)

    async def _confer(self, name: str, leg: Leg, notice: str, joined: Joined) -> None:
        destination, usage = self._destinations[name], self._firewall.usage
        try:
            closed = await why_closed(self._control, destination)
            if closed is not None:
                raise LineError(f"not joined: {closed[0].outcome} ({closed[1]})")
            answered = partial(usage.answered, leg)
            voice = self._voice()
            parts = ConferenceParts(self._control, self._ledger, voice, answered, notice, joined)
            self._conference = Conference(parts, name, destination)
            try:
                await self._conference.run()
            finally:
                self._conference = None
        finally:
            usage.ended(leg)

    def end_conference(self) -> None:
        """See `calls.operator.OperatorLine`."""
        if self._conference is not None:
            self._conference.end("the caller goes elsewhere")

    async def whisper(self, text: str, to: Hearer, begun: Callable[[], None]) -> None:
        """See `calls.operator.OperatorLine`."""
        party: Party | None = self.transfers.human
        if to == "operator":
            party = self._conference.guest if self._conference is not None else None
        if party is None:
            raise LineError(f"there is no {to} on the line")
        voice = self._voice()
        if voice is None:
            raise LineError(
                "there is no voice for it: the agent speaks by its service alone, and "
                "the engine has no offline voice"
            )
        await speak_aside(party.aside(), voice, text, begun)

    def _allowed(self, destination: str, by: By) -> Leg:
        """Count a leg to a destination, for a transfer or a conference. Raises `KeyError`, and
        `TransferFailed` if the firewall refuses it."""
        if destination not in self._destinations:
            raise KeyError(destination)
        return self._firewall.transfer(destination, by)

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys. Raises as `check_may_ask` does, and `LineGone`."""
        conversation, keys = self._may_ask(secret=wanted.secret)
        conversation.caller_enters(True)
        try:
            return await keys.collect(wanted)
        finally:
            conversation.caller_enters(False)

    def check_may_ask(self, *, secret: bool = False) -> None:
        """See `CallLine.check_may_ask`."""
        self._may_ask(secret=secret)

    def _may_ask(self, *, secret: bool) -> tuple[Conversation, Dtmf]:
        if self._keys is None or self._conversation is None:
            raise LineError("the call is not connected")
        if secret and self._conference is not None:
            raise LineError("somebody else is on the line: no secret can be entered")
        if self._conversation.confirmation.active:
            raise LineError("the caller is being asked something else")
        if self._keys.collecting:
            raise LineError("keys are being collected already")
        self._conversation.check_may_ask()
        return self._conversation, self._keys

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller for a spoken or keyed yes or no. Raises as `collect_keys` does."""
        if self._keys is None or self._conversation is None:
            raise LineError("the call is not connected")
        self._check_keys()
        return await self._conversation.confirm(question)

    async def ask_at(self, ask: SecondPhoneAsk) -> KeysCollected:
        """Collect keys at another telephone. Raises as `collect_keys` does."""
        second = SecondPhone(self._control, *self._may_ask(secret=False))
        self.transfers.asks_elsewhere = True
        self._transferring(True)
        try:
            return await second.ask(ask)
        finally:
            self.transfers.asks_elsewhere = False
            self._transferring(False)

    async def take_message(self, about: str) -> MessageResult:
        """Have the caller dictate a message, and pass it on."""
        self._check_keys()
        return await self._messages.take(about)

    async def request_callback(self, number: str, at: str, about: str) -> CallbackResult:
        """Have the caller confirm a call-back, and note it."""
        self._check_keys()
        return await self._callbacks.request(number, at, about)

    def _check_keys(self) -> None:
        if self._keys is not None and self._keys.collecting:
            raise LineError("the caller is being asked for keys")

    def reveal(self, reference: str) -> str | None:
        """Return the secret keys that were collected under this name."""
        return self._keys.reveal(reference) if self._keys is not None else None

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises a `LineError` when the line cannot, or the
        firewall refuses."""
        decision = self._firewall.keys(keys)
        if not decision.allowed:
            raise LineError(f"the firewall refused the keys ({decision.rule})")
        await self._control.dtmf(keys)

    def say(self, text: str) -> None:
        """Have the agent speak a sentence now."""
        if self._conversation is not None:
            self._conversation.speech.say(Speech(text, "question"))

    def pause_recording(self) -> bool:
        """Record silence from now on. False when the call is not being recorded."""
        return self._recording.pause()

    def resume_recording(self) -> bool:
        """Record sound again. False when the call is not being recorded."""
        return self._recording.resume()
