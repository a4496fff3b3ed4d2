"""What all calls of an engine share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.audio.format import AudioFormat
from cordboard.calls.events import LedgerEvent
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.post_call_job import JobTaker
from cordboard.calls.recording_writer import RecordingWriter
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import NO_TRACING, Tracing


@dataclass(frozen=True, slots=True)
class CallServices:
    """Handed to every call by the exchange."""

    writer: LedgerWriter
    metrics: Metrics
    directory: Path
    listener: Callable[[str, int, LedgerEvent], None] | None = None
    """Gets (call_id, at_ms, event) of every ledger event."""
    recordings: RecordingWriter = field(default_factory=RecordingWriter)
    apology: Callable[[AudioFormat], Awaitable[bytes]] | None = None
    """The sound of `last_words.TROUBLE`, for callers who have no agent left; empty when there is no
    voice for it."""
    tracing: Tracing = NO_TRACING
    """Is told of every ledger event and every tool call."""
    post_call: JobTaker | None = None
    """Does the steps after calls; None = they are left out."""
