"""Resources that all calls of an engine share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from cordboard.audio.format import AudioFormat
from cordboard.calls.binding import Binding
from cordboard.calls.events import LedgerEvent, Refused
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.ledger_file import REFUSED_OFFERS, encode_event
from cordboard.calls.offer import Offer
from cordboard.calls.outbound_order import CallbackBook
from cordboard.calls.post_call.job import JobTaker
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.calls.recording.writer import RecordingWriter
from cordboard.calls.resumption import NOT_RECORDED_YET, EarlierRecording
from cordboard.firewall.counts import Counts
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import NO_TRACING, Tracing
from cordboard.privacy.redaction import CallRedaction, Redactor
from cordboard.speech.answer.listening import Transcribe


@dataclass(frozen=True, slots=True)
class CallServices:
    """The shared resources, passed to every call by `CallRegistry`."""

    writer: LedgerWriter
    metrics: Metrics
    directory: Path
    listener: Callable[[str, int, LedgerEvent], None] | None = None
    """Gets (call_id, at_ms, event) of every ledger event."""
    recordings: RecordingWriter = field(default_factory=RecordingWriter)
    apology: Callable[[AudioFormat], Awaitable[bytes]] | None = None
    """Returns the sound of `failure_apology.TROUBLE`, for callers who have no agent left; empty
    when there is no voice for it."""
    tracing: Tracing = NO_TRACING
    """Receives every ledger event and every tool call."""
    post_call: JobTaker | None = None
    """Runs the steps after calls; None = they are left out."""
    counts: Counts = field(default_factory=Counts)
    """Counts for the caps of the firewall."""
    callbacks: CallbackBook | None = None
    """Keeps promised call-backs."""
    redactor: Callable[[], Redactor] = Redactor
    """Returns the rules in force for what records must not have."""
    transcribe: Transcribe | None = None
    """Returns the words in s16 at 8 kHz, to judge who answers an outbound call. Raises
    `RecogniserError`."""
    copy_line: Callable[[str, bytes], None] | None = None
    """Gets (call_id, line) of every line of every ledger, with its newline."""

    in_doubt: Callable[[], bool] = lambda: False
    """True while other engines may have taken over the calls of this one."""
    on_refused: Callable[[str], None] | None = None
    """Gets the call_id of an offer that is refused."""

    def ledger(self, call_id: str, began: datetime, passed: float = 0.0) -> Ledger:
        """Open the ledger of a call that began `passed` seconds ago, in the folder of that day."""
        clock = asyncio.get_running_loop().time
        path = self.directory / f"{began:%Y-%m-%d}" / f"{call_id}.jsonl"
        failed = partial(self.metrics.internal_error, "ledger_listener")
        tell = partial(self._tell, call_id)
        redactor = self.redactor()
        redaction = CallRedaction(redactor) if redactor else None
        copy_line = partial(self.copy_line, call_id) if self.copy_line is not None else None
        return Ledger(
            self.writer, path, clock() - passed, tell, clock, failed, redaction, copy_line
        )

    def refused(self, offer: Offer, reason: str, error: str, at: datetime) -> None:
        """Add an offer that is refused now to the file of that day's refused offers."""
        event = Refused(
            offer.call_id,
            at.isoformat(timespec="milliseconds"),
            offer.source,
            offer.caller_number,
            offer.caller_name,
            offer.called_number,
            reason,
            error,
            offer.external_id,
            trunk=offer.trunk,
        )
        path = self.directory / f"{at:%Y-%m-%d}" / REFUSED_OFFERS
        self.writer.append(path, encode_event(0, event))
        if self.on_refused is not None:
            self.on_refused(offer.call_id)

    def recording(
        self,
        binding: Binding,
        ledger: Ledger,
        *,
        secret_keys: bool,
        earlier: EarlierRecording = NOT_RECORDED_YET,
    ) -> CallRecording:
        """Return the recorder of a call; it records only if the context of the call does."""
        wanted, name = binding.context.recording, binding.context_name
        return CallRecording(
            wanted,
            name,
            ledger,
            self.directory,
            self.recordings,
            secret_keys=secret_keys,
            earlier=earlier,
        )

    def _tell(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        self.tracing.ledger(call_id, at_ms, event)
        if self.listener is not None:
            self.listener(call_id, at_ms, event)
