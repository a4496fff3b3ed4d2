"""Sentences that a voice has spoken, kept for reuse: greetings, fillers, questions."""

from __future__ import annotations

from collections import OrderedDict


class SentenceCache:
    """Sound by text and rate; the least recently used is dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self.size = 0
        """Bytes of kept sound."""

    def find(self, text: str, rate: int) -> bytes | None:
        """Return the sound of this text at this rate, if it is kept."""
        pcm = self._kept.get((text, rate))
        if pcm is not None:
            self._kept.move_to_end((text, rate))
        return pcm

    def keep(self, text: str, rate: int, pcm: bytes) -> None:
        """Keep the sound, unless it alone exceeds the limit."""
        if (text, rate) in self._kept or len(pcm) > self._most:
            return
        self._kept[(text, rate)] = pcm
        self.size += len(pcm)
        while self.size > self._most:
            self.size -= len(self._kept.popitem(last=False)[1])
