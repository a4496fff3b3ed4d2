"""The messages of Deepgram's `/v1/speak` about one text; pure.

Speak, Flush → sound… → Flushed. Clear → Cleared: the sound in between belongs to the cancelled
text.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any


class Told(Enum):
    """Meaning of a message for the text being spoken."""

    NOTHING = "nothing"
    FLUSHED = "flushed"
    """All of its sound has arrived."""
    CLEARED = "cleared"
    REFUSED = "refused"
    """The text will not be spoken."""
    BUSY = "busy"
    """The text will not be spoken now: too many flushes in too short a time."""
    MALFORMED = "malformed"


_BUSY_CODE = "FLUSH"
"""Part of the code of the warning about too many Flush messages."""


def speak_messages(text: str) -> tuple[bytes, bytes]:
    """Return the messages that have a text spoken."""
    speak = json.dumps({"type": "Speak", "text": text}, separators=(",", ":"))
    return speak.encode(), b'{"type":"Flush"}'


CLEAR = b'{"type":"Clear"}'
CLOSE = b'{"type":"Close"}'


def read(message: bytes) -> tuple[Told, str]:
    """Return the message's meaning and, for a problem, the service's words."""
    try:
        told: Any = json.loads(message)
    except (ValueError, RecursionError):
        return Told.MALFORMED, ""
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        return Told.MALFORMED, ""
    words = str(told.get("description") or told.get("err_msg") or "")[:200]
    match told["type"]:
        case "Flushed":
            return Told.FLUSHED, ""
        case "Cleared":
            return Told.CLEARED, ""
        case "Warning":
            code = str(told.get("code", ""))
            return (Told.BUSY if _BUSY_CODE in code.upper() else Told.NOTHING), words
        case "Error":
            return Told.REFUSED, words
    return Told.NOTHING, ""
