"""All kinds of events: their list, the event of a ledger's line, and redaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cordboard.calls.events import (
    agent,
    call,
    caller,
    line,
    operators,
    recording,
    tools,
    transfers,
)
from cordboard.calls.events.event import LedgerEvent
from cordboard.privacy.redaction import CallRedaction

EVENTS: tuple[type[LedgerEvent], ...] = (
    call.Offered, call.Refused, call.Bound, call.Connected, call.PreCallDone, call.Adopted,
    line.Dialled, line.AnswerJudged, line.KeysSent,
    caller.SpeechBegan, caller.TurnEnded, caller.Heard, caller.Key, caller.KeyChosen,
    agent.Answering, operators.OperatorSaid, operators.OperatorHint, operators.OperatorTakeover,
    operators.OperatorConference, operators.ConferenceStep, operators.OperatorWhisper,
    operators.OperatorHangup, operators.Flagged, operators.Listened,
    agent.AudioStarted, agent.AudioEnded, agent.Held, agent.Resumed, agent.BargedIn, agent.CutOff,
    line.HoldBegan, line.HoldEnded, line.MusicBegan, line.MusicEnded, call.Silence,
    tools.ToolCalled, tools.ToolApproval, tools.ToolFiller, tools.ToolAnswered, tools.ToolLate,
    tools.FirewallRefused, tools.CapUsedUp, caller.CallerVerified, agent.Latency, agent.Answered,
    transfers.TransferStep, transfers.Transferred, tools.MessageTaken, tools.CallbackRequested,
    recording.AnnouncementHeard, recording.AnnouncementUnheard, recording.RecordingStarted,
    recording.RecordingDeclined, recording.RecordingPaused, recording.RecordingResumed,
    recording.RecordingStopped, agent.AgentUsed, call.Trouble, call.Gap, call.Ended,
)  # fmt: skip
"""Every event, roughly in the order in which they occur in a call."""
_BY_TYPE: Mapping[str, type[LedgerEvent]] = MappingProxyType({kind.type: kind for kind in EVENTS})
_FACTS = frozenset(
    "act amounts ask_id audio audio_sha256 call_id called_number caller_number config context "
    "currency destination engine external_id format generation kind missing_tools model name "
    "outcome parent path provider source started_at status steps text_sha256 tool tools trial "
    "version where who why".split()
)
"""Fields that hold no words of the conversation and stay as they are."""
_NUMBERS = ("int", "float", "bool", "int | None", "float | None")
_TEXTS = {
    kind.type: tuple(
        each.name
        for each in dataclasses.fields(kind)  # type: ignore[arg-type]
        if each.name not in _FACTS and each.type not in _NUMBERS
    )
    for kind in EVENTS
}
"""Fields of an event that may hold words."""


def redacted(event: LedgerEvent, redaction: CallRedaction) -> LedgerEvent:
    """Return an event without the personal data that no record may have. Fields of all events go
    through here, those of `_FACTS` excepted."""
    if isinstance(event, caller.Key):
        return caller.Key("*", secret=True) if redaction.hides_keys else event
    changed = {}
    for name in _TEXTS[event.type]:
        value = getattr(event, name)
        if value and (clean := redaction.data(value)) is not value:
            changed[name] = clean
    return dataclasses.replace(event, **changed) if changed else event  # type: ignore[type-var]


def event_of(written: Mapping[str, Any]) -> LedgerEvent | None:
    """Return the event of a ledger's line; None for a type that this version does not know, or that
    lacks a field. Unknown fields are ignored."""
    kind = _BY_TYPE.get(str(written.get("type")))
    if kind is None:
        return None
    known = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    try:
        return kind(**{name: value for name, value in written.items() if name in known})
    except TypeError:
        return None
