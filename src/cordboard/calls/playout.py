"""What the agent says on its way to the caller, and what the caller has heard of it.

The playout writes the agent's sound to the media, remembers which sentence each stretch belongs to
and answers: is the caller hearing us, when did an answer's first sample go out, when has all of it
been heard, and, when it is cut, up to which word. Only `Media` counts what was heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cordboard.calls.offer import Media


@dataclass(slots=True)
class _Sentence:
    turn: int
    text: str
    start_ms: int
    """Where it begins, in ms of all sound written so far."""
    end_ms: int


class Playout:
    """The outgoing direction of one call."""

    def __init__(
        self, media: Media, on_started: Callable[[int], None], on_ended: Callable[[int], None]
    ) -> None:
        """`on_started(turn)`: its first sample is on the wire; `on_ended(turn)`: all is heard."""
        self._media = media
        self._on_started = on_started
        self._on_ended = on_ended
        self._written_bytes = 0
        self._base_ms = 0
        """Heard time at which the present count of written sound begins (moves with a flush)."""
        self._sentences: list[_Sentence] = []
        self._turn: int | None = None
        self._silent = True
        """Whether the present turn has no sound yet."""
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def speaking(self) -> bool:
        """Whether sound is on its way to the caller."""
        return self._media.queued_ms > 0

    def sentence(self, turn: int, text: str) -> None:
        """The sound that follows speaks this text."""
        if turn != self._turn:
            self._turn = turn
            self._silent = True
            self._sentences.clear()
        now = self._written_ms()
        self._sentences.append(_Sentence(turn, text, now, now))

    def write(self, pcm: bytes) -> None:
        """Append sound. What arrives late of an answer that was cut is dropped."""
        if not self._sentences:
            return
        if self._silent:
            # Not with the text: a mark with no sound behind it fires at once.
            self._silent = False
            turn = self._sentences[-1].turn
            self._media.mark(lambda: self._on_started(turn))
        self._media.write(pcm)
        self._written_bytes += len(pcm)
        self._sentences[-1].end_ms = self._written_ms()

    def turn_done(self, turn: int) -> None:
        """All sound of this turn has been written. Of no account when it was cut, or has none."""
        if turn == self._turn and not self._silent:
            self._media.mark(lambda: self._on_ended(turn))

    def hold(self) -> None:
        """Fall silent at once; what is not yet heard is kept."""
        self._media.hold()

    def resume(self) -> None:
        """Go on at the very sample."""
        self._media.resume()

    def flush(self) -> tuple[int, str]:
        """Take back what is not yet heard. Returns the turn and what was heard of its answer."""
        heard_ms = self._media.flush()
        heard = self._heard_text(heard_ms)
        turn = self._turn or 0
        self._sentences.clear()
        self._turn = None
        self._base_ms, self._written_bytes = heard_ms, 0
        self._release()
        return turn, heard

    async def drained(self) -> None:
        """Wait until the caller has heard all that is written by now (or it was taken back)."""
        if not self.speaking:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._media.mark(lambda: None if waiter.done() else waiter.set_result(None))
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def _release(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _written_ms(self) -> int:
        return self._base_ms + round(self._media.format.duration_ms(self._written_bytes))

    def _heard_text(self, heard_ms: int) -> str:
        """Whole sentences, and of the one that was cut its share of words."""
        parts: list[str] = []
        for sentence in self._sentences:
            if heard_ms >= sentence.end_ms:
                parts.append(sentence.text)
            elif heard_ms > sentence.start_ms:
                words = sentence.text.split()
                share = (heard_ms - sentence.start_ms) / (sentence.end_ms - sentence.start_ms)
                parts.append(" ".join(words[: int(len(words) * share)]))
        return " ".join(part for part in parts if part)
