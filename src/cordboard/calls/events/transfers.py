"""Transfers of the caller."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class TransferStep(LedgerEvent):
    """A transfer is at this step. Keys between `briefing` and the next step are those of the human
    who was called."""

    type = "transfer.step"
    destination: str
    step: str
    """`holding`: the caller waits; `ringing`: the human is called; `briefing`: the human is asked;
    `introducing`: all three hear each other; `joined`: caller and human talk without the agent;
    `parting`: the caller hung up, and the agent says so to the human; `returning`: the caller goes
    back to the agent; `over`; `away`: the caller is in the dialplan, and may come back; `back`: the
    caller has come back."""
    detail: str = ""
    """The cause; of `joined` whether the recording goes on; of `back` the dialplan's status."""


@dataclass(frozen=True, slots=True)
class Transferred(LedgerEvent):
    """A transfer was attempted."""

    type = "line.transfer"
    destination: str
    ok: bool
    error: str = ""
    outcome: str = ""
    """`accepted`, `busy`, `no_answer`, `declined`, `unavailable`, `machine`, `cancelled` or
    `failed`. A blind transfer without a way back is `accepted` when the dialplan has the caller."""
