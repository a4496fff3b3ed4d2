"""The line and the caller, for the tools of a call (`cordboard.tools.call_line`).

One object per call, made with it; before the line is connected, and after its end, it refuses
operations that need a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from cordboard.agent_api.speech import Speech
from cordboard.calls import events
from cordboard.calls.binding import Binding
from cordboard.calls.conversation import Conversation
from cordboard.calls.dtmf import Dtmf
from cordboard.calls.ending import CallEnding
from cordboard.calls.ledger import Ledger
from cordboard.calls.offer import Offer, TransferTarget
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.config.tools.entry import TransferDestination
from cordboard.errors import LineError, LineGone, TransferFailed
from cordboard.tools.call_line import KeysCollected, KeysWanted

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
    ) -> None:
        self._ending = ending
        self._transferring = transferring
        self.call_id = offer.call_id
        self.context_name = binding.context_name
        self.provider_name = binding.provider_name
        self.variables = variables
        self._control = offer.control
        self._destinations = destinations
        self._recording = recording
        self._ledger = ledger
        self._conversation: Conversation | None = None
        self._keys: Dtmf | None = None

    def connect(self, conversation: Conversation, keys: Dtmf) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation
        self._keys = keys

    def end_after_speech(self, reason: str) -> None:
        """Hang up when the caller has heard the agent's current speech. `reason` goes to the
        log."""
        log.info("agent_hangs_up", call_id=self.call_id, why=reason)
        self._ending.after_speech("completed", "agent_hangup")

    async def transfer_after_speech(self, destination: str) -> None:
        """Let the agent finish, then transfer the caller. Raises `LineError`; then the call
        continues."""
        configured = self._destinations[destination]
        if self._conversation is None:
            raise TransferFailed("the call is not connected")
        await self._ending.unless_over(self._conversation.playout.drained())
        if self._ending.is_over:
            raise LineGone("the call is over")
        self._transferring(True)
        try:
            await self._control.transfer(
                TransferTarget(
                    destination,
                    configured.type,
                    configured.target,
                    configured.context,
                    configured.priority,
                )
            )
        except LineError as error:
            self._ledger.record(events.Transferred(destination, ok=False, error=str(error)))
            if isinstance(error, LineGone):
                self._ending.end("completed", "caller_hangup")
            raise
        finally:
            self._transferring(False)
        self._ledger.record(events.Transferred(destination, ok=True))
        self._ending.end("transferred", f"transfer:{destination}")

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys. Raises `LineError` when the caller is being asked something already, and
        `LineGone`."""
        if self._keys is None or self._conversation is None:
            raise LineError("the call is not connected")
        if self._conversation.confirmation.active:
            raise LineError("the caller is being asked something else")
        if self._keys.collecting:
            raise LineError("keys are being collected already")
        self._conversation.caller_enters(True)
        try:
            return await self._keys.collect(wanted)
        finally:
            self._conversation.caller_enters(False)

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller for a spoken or keyed yes or no. Raises as `collect_keys` does."""
        if self._keys is None or self._conversation is None:
            raise LineError("the call is not connected")
        if self._keys.collecting:
            raise LineError("the caller is being asked for keys")
        return await self._conversation.confirm(question)

    def reveal(self, reference: str) -> str | None:
        """Return the secret keys that were collected under this name."""
        return self._keys.reveal(reference) if self._keys is not None else None

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises a `LineError` when the line cannot."""
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
