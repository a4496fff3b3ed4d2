"""Why a line or its media ended: the words `Media.on_closed` hands to the call."""

from __future__ import annotations

from typing import Literal

Ending = Literal[
    "caller_hangup",  # the caller hung up (or the network did for them)
    "hangup",  # we ended the line
    "transferred",  # the caller is somewhere else in the PBX now, and no longer ours
    "media_lost",  # the sound broke while the line was still there
    "asterisk_lost",  # Asterisk went away, and the caller with it
]
