"""The tools of the hotel's booking desk: one is slow, one fails."""

from __future__ import annotations

import time

from cordboard.errors import ToolError


def find_room(people: int) -> dict[str, int]:
    """Find a free room for that many people."""
    time.sleep(2.5)
    return {"room": 17, "people": people}


def send_invoice() -> str:
    """Send the caller the invoice of the last stay."""
    raise ToolError("The printer is on strike.")
