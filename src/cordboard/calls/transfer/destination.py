"""A destination of the configuration: whether it is open, its words, and its target."""

from __future__ import annotations

import datetime

from cordboard.calls.offer import LineControl, TransferTarget
from cordboard.config.schema import Context
from cordboard.config.tools.entry import TransferDestination
from cordboard.errors import LineError
from cordboard.tools.builtin import spoken_name
from cordboard.tools.call_line import TransferOutcome, TransferResult

_FREE = ("NOT_INUSE", "RINGING")
_IN_USE = ("INUSE", "BUSY", "RINGINUSE", "ONHOLD")


async def why_closed(
    control: LineControl, destination: TransferDestination
) -> tuple[TransferResult, str] | None:
    """Return result and detail if the destination can take no caller now; None if it can. A device
    whose state cannot be read counts as not free."""
    hours = destination.hours
    if hours is not None and not hours.cover(datetime.datetime.now().astimezone()):
        return TransferResult("unavailable", returned=True, closed=True), "outside its hours"
    for device in destination.devices:
        try:
            state = await control.device_state(device)
        except LineError as error:
            detail = f"the state of {device} cannot be seen: {error}"
            return TransferResult("failed", returned=True), detail
        if state not in _FREE and not (device.startswith("Custom:") and state == "UNKNOWN"):
            outcome: TransferOutcome = "busy" if state in _IN_USE else "unavailable"
            return TransferResult(outcome, returned=True), f"{device} is {state}"
    return None


def briefing_of(destination: TransferDestination, reason: str) -> str:
    """Return the words to a person who has answered the phone of a destination."""
    return " ".join(destination.briefing.replace("{reason}", reason).split())


def notice_of(context: Context, destination: str) -> str:
    """Return the words to those in whose talk the person at this destination joins; may be
    empty."""
    return context.conference.notice.replace("{name}", spoken_name(destination))


def target_of(name: str, destination: TransferDestination) -> TransferTarget:
    """Return the target of a configured destination."""
    return TransferTarget(
        name,
        destination.type,
        destination.target,
        destination.context,
        destination.priority,
        destination.return_within_ms / 1000 if destination.returns else 0.0,
        destination.endpoint,
        destination.ring_ms / 1000,
        destination.music,
    )
