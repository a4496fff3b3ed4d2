"""The door between a browser call through Asterisk and the source that dials for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.offer import Media


@dataclass(frozen=True, slots=True)
class Dialled:
    """A call that Asterisk is to make to an extension of its dialplan."""

    call_id: str
    """Id of the call if the engine answers it at the extension's end."""
    extension: str
    """`EXTENSION@CONTEXT`."""
    number: str
    name: str
    """Number and name of the made-up caller."""
    variables: Mapping[str, str]
    """Channel variables for the dialplan. It may set others, `AI_CONTEXT` too."""


class DialledLine(Protocol):
    """The channel that was dialled and has answered. Each method may raise `LineError`."""

    async def open_media(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media: ...

    async def dtmf(self, keys: str) -> None:
        """Press keys as the caller."""

    async def hangup(self, cause: str = "normal") -> None: ...

    async def release(self) -> None: ...
