"""The line of a tool call without a caller: before or after a call, or in a trial run.

Actions that need a caller are refused with `LineUnsupported`; nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from cordboard.errors import LineUnsupported
from cordboard.tools.call_line import KeysCollected, KeysWanted


@dataclass(frozen=True, slots=True)
class NoCaller:
    """Implements `cordboard.tools.call_line.CallLine`."""

    no_transfer: ClassVar[str] = "there is no caller on the line"
    no_keys: ClassVar[str] = no_transfer
    call_id: str
    context_name: str
    provider_name: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def end_after_speech(self, reason: str) -> None:
        """Do nothing: there is no call to end."""

    async def transfer_after_speech(self, destination: str) -> None:
        raise LineUnsupported(self.no_transfer)

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        raise LineUnsupported(self.no_keys)

    def reveal(self, reference: str) -> str | None:
        return None

    async def send_keys(self, keys: str) -> None:
        raise LineUnsupported(self.no_keys)

    def say(self, text: str) -> None:
        """Do nothing: there is no listener."""

    def pause_recording(self) -> bool:
        return False

    def resume_recording(self) -> bool:
        return False

    async def confirm(self, question: str) -> bool | None:
        raise LineUnsupported(self.no_transfer)
