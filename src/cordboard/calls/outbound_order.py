"""The order of one outbound call, and its result.

    order ──firewall──▶ dial ──▶ answered ──classifier──▶ human, voicemail, ... ──▶ result
              │         └────▶ busy, no_answer, declined, ...  (`NotReached`)
              └────▶ refused

Pure. `calls.reaching` does the work within a call, `cordboard.outbound` places calls.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from cordboard.config.tools.messages import CallbackSettings
from cordboard.errors import LineError

DialOutcome = Literal[
    "answered",
    "busy",
    "no_answer",  # it rang until the time was up
    "declined",
    "unavailable",  # not reachable now: no contact, switched off, never rang
    "unknown_number",
    "redirected",  # the other side names another number (302), which is not followed
    "cancelled",  # ended by us while it rang
    "failed",  # the trunk or the network
]
"""The end of one attempt to reach a number."""

_KEYS = re.compile(r"[0-9*#A-Dw]{1,40}")


@dataclass(frozen=True, slots=True)
class OutboundOrder:
    """One call to be placed."""

    call_id: str
    """Made by the caller of the API, or by a campaign, before anything is dialled."""
    number: str
    """E.164 with the plus sign."""
    context: str
    endpoint: str
    """Asterisk's endpoint, such as `PJSIP/+4722000000@trunk`."""
    caller_id: str = ""
    caller_name: str = ""
    ring_seconds: float = 30.0
    message: str = ""
    """Spoken to a voicemail after its beep. Empty: the engine hangs up on a voicemail."""
    introduction: str = ""
    """The words for a call-screening service: the name of the calling party, and its purpose."""
    keys: tuple[str, ...] = ()
    """Keys for a menu, step by step (`0-9*#A-D`, `w` = half a second). Empty: the engine hangs up
    on a menu."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Values of the variables that the context declares."""
    consent: str = ""
    """Spoken to a human before the greeting, such as that the call is made by a machine."""
    trunk: str = ""
    """Name of the trunk by which it leaves (`Outbound.trunk`); empty if it is unknown."""


@dataclass(frozen=True, slots=True)
class OutboundResult:
    """The end of an order."""

    call_id: str
    outcome: str
    """A `DialOutcome`, or `refused`: the call was never dialled."""
    reason: str = ""
    """Why it was refused; for an answered call, the reason of its end (`call.ended`)."""
    answer: str = ""
    """The last verdict about the answer (`cordboard.speech.answer.phrases.Answer`)."""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class PersonTaken:
    """The answer to a claim of a person of a campaign, whom other engines may call, too."""

    state: Literal["ours", "later", "done"]
    """`later`: in `seconds`; `done`: never again."""
    attempts: int = 0
    """Attempts that were made, by any engine."""
    outcome: str = ""
    """Of the last one."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Dialling:
    """The end of dialling, as the telephone side reports it."""

    outcome: DialOutcome
    cause: int = 0
    """ITU-T Q.850 cause, 0 if none."""
    sip: int = 0
    """SIP status, 0 if none."""
    rang: bool = False


class NotReached(LineError):
    """The call was not answered."""

    def __init__(self, dialling: Dialling, text: str = "") -> None:
        super().__init__(text or f"not reached: {dialling.outcome}")
        self.dialling = dialling


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """The outbound side of an offer."""

    order: OutboundOrder
    dial: Callable[[], Awaitable[None]]
    """Dial, and return when the other side has answered. Raises `NotReached`, `LineError`. The
    media must be open: it carries early media, so nothing may be played before."""
    finished: Callable[[OutboundResult], None] = lambda _: None
    """Called once with the result, after the call's ledger is complete."""


@dataclass(frozen=True, slots=True)
class PromisedCall:
    """A call-back that a caller was promised."""

    number: str
    """E.164 with the plus sign."""
    context: str
    at: datetime.datetime
    zone: str
    about: str = ""
    """The caller's concern, in the agent's words."""


class CallbackBook(Protocol):
    """Keeps promised calls until they are placed (`cordboard.outbound.campaigns.callbacks`)."""

    async def is_blocked(self, number: str) -> bool:
        """True if a number is on the do-not-call list. Raises `CampaignRefused`."""

    async def add(
        self, promise: PromisedCall, settings: CallbackSettings, variables: Mapping[str, str]
    ) -> bool:
        """Keep a promise; an earlier one for the same number and context is replaced. True if it is
        on the disk, False if the number is being called now. Raises `CampaignRefused`."""


def keys_problem(keys: tuple[str, ...]) -> str:
    """Return why these keys cannot be sent; empty if they can."""
    wrong = [step for step in keys if not _KEYS.fullmatch(step)]
    return f"keys: {wrong[0][:40]!r} has other characters than 0-9*#A-Dw" if wrong else ""
