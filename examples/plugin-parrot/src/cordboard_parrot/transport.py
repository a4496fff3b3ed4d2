"""The transport: a loop without a network. What the engine says comes back as the caller's audio.

Useful for trying an engine out, and the smallest thing that implements `cordboard.MediaPath`,
`MediaArrival` and `LineMedia`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cordboard import SLIN_8K, AudioFormat


class ParrotPath:
    """Implements `MediaPath`."""

    connect_seconds = 1.0
    trouble = ""

    def health(self) -> Mapping[str, Any]:
        return {}

    def report(self, metrics: Any) -> None:
        """It counts nothing."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> ParrotArrival:
        return ParrotArrival()

    async def start(self) -> None:
        """There is nothing to open."""

    async def stop(self) -> None:
        """There is nothing to close."""


class ParrotArrival:
    """Implements `MediaArrival`."""

    external_media: Mapping[str, str] = {"external_host": "127.0.0.1:9", "format": "slin"}
    advice = "nothing can keep it away"

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        """Its answer is of no interest."""

    async def bridgeable(self) -> None:
        """At once."""

    async def media(self) -> ParrotMedia:
        return ParrotMedia()

    def give_up(self) -> None:
        """There is nothing to free."""


class ParrotMedia:
    """Implements `LineMedia`; audio is heard in the moment in which it is written."""

    format = SLIN_8K
    idle_seconds = 3_600.0
    queued_ms = 0

    def __init__(self) -> None:
        self._audio: list[Callable[[bytes], None]] = []
        self._sent: list[Callable[[bytes], None]] = []
        self._dtmf: list[Callable[[str], None]] = []
        self._closed: list[Callable[[str], None]] = []
        self._written = 0

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._audio.append(callback)

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._dtmf.append(callback)

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._sent.append(callback)

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._closed.append(callback)

    def write(self, pcm: bytes) -> None:
        self._written += len(pcm)
        for callback in (*self._sent, *self._audio):
            callback(pcm)

    def mark(self, callback: Callable[[], None]) -> None:
        callback()

    def hold(self) -> None:
        """There is nothing to hold."""

    def resume(self) -> None:
        """There is nothing to resume."""

    def flush(self) -> int:
        return self.heard_ms

    @property
    def heard_ms(self) -> int:
        return self._written // 16

    def claim(self, on_lost: Callable[[str], None]) -> None:
        """It is never lost."""

    def end(self, reason: Any) -> None:
        for callback in self._closed:
            callback(str(reason))

    def take_key(self, key: str) -> None:
        for callback in self._dtmf:
            callback(key)

    def abort(self) -> None:
        """There is nothing to drop."""

    async def close(self) -> None:
        self._audio.clear()
