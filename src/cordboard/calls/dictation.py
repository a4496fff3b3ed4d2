"""A dictation: collects the caller's words until they have said all.

    prompt ──▶ the caller speaks, in one turn or several ──▶ quiet for `pause`, a key, or `longest`

A turn that began before the dictation does not belong to it: services report the words of earlier
turns late. The conversation speaks the prompt and knows who speaks; this module holds the words and
the timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

FIRST_WORDS = 10.0
"""Seconds for the first words, from the end of the prompt."""
LATE_WORDS = 3.0
"""Longest time from the end of a turn to its words."""
LAST_TURN = 10.0
"""Longest time from a key, or the longest time, to the end of the current turn."""
STEP = 0.5
"""Seconds between two checks while the caller speaks."""

DictationEnd: TypeAlias = Literal["quiet", "key", "longest", "gone"]


@dataclass(frozen=True, slots=True)
class Dictated:
    """The caller's words."""

    text: str
    """Empty if none were understood."""
    ended_by: DictationEnd
    """`gone`: the call ended."""


class Dictation:
    """One dictation of a caller."""

    def __init__(
        self,
        pause: float,
        longest: float,
        quiet_at: Callable[[], float],
        caller_speaks: Callable[[], bool],
    ) -> None:
        """`pause`: seconds of quiet after words that end it; `longest`: seconds in all. `quiet_at`
        returns the loop time at which the caller has heard, or will have heard, all sound."""
        self._loop = asyncio.get_running_loop()
        self._pause = pause
        self._quiet_at = quiet_at
        self._caller_speaks = caller_speaks
        self._words: list[str] = []
        self._counts = False
        """True if the caller's current turn began within the dictation."""
        self._said_all: DictationEnd | None = None
        """Reason of the end, while only the words of the current turn are still awaited."""
        self._words_due = 0.0
        """Loop time until which the words of a finished turn may still arrive."""
        self._done: asyncio.Future[Dictated] = self._loop.create_future()
        self._latest = self._loop.time() + longest
        self._until = self._loop.time() + FIRST_WORDS
        self._timer = self._loop.call_at(min(self._until, self._latest), self._look)

    async def done(self) -> Dictated:
        """Wait for the end, and return the words."""
        try:
            return await self._done
        finally:
            self._timer.cancel()

    def caller_started(self) -> None:
        """Note that the caller begins to speak."""
        self._counts = True

    def caller_stopped(self) -> None:
        """Note that the caller's turn is over: its words follow."""
        if self._counts:
            self._words_due = self._loop.time() + LATE_WORDS

    def hear(self, text: str) -> None:
        """Take the words of a turn."""
        if not self._counts:
            return
        self._words_due = 0.0
        if text.strip():
            self._words.append(text.strip())
            self._until = self._loop.time() + self._pause
        if self._said_all:
            self._look()

    def press(self) -> None:
        """Take a key: the caller has said all."""
        self._end_turn("key")

    def close(self, partial: str) -> None:
        """End it, because the call ends; `partial` are words of an unfinished turn. Idempotent."""
        if self._counts and partial.strip() and not self._done.done():
            self._words.append(partial.strip())
        self._finish("gone")

    def _look(self) -> None:
        """Check the timer, which stands still while the caller speaks or hears the prompt."""
        now, until = self._loop.time(), self._words_due
        if self._said_all is None:
            wait = self._pause if self._words else FIRST_WORDS
            until = max(until, self._until, self._quiet_at() + wait)
        if self._counts and self._caller_speaks():
            until = max(until, now + STEP)
        if now >= until - 1e-3:
            self._finish(self._said_all or "quiet")
        elif now < self._latest - 1e-3:
            self._timer.cancel()
            self._timer = self._loop.call_at(min(until, self._latest), self._look)
        elif self._said_all is None:
            self._end_turn("longest")
        else:
            self._finish(self._said_all)

    def _end_turn(self, ended_by: DictationEnd) -> None:
        """Wait for the words of the current turn only."""
        if self._said_all is None:
            self._said_all = ended_by
            self._latest = self._loop.time() + LAST_TURN
            self._look()

    def _finish(self, ended_by: DictationEnd) -> None:
        if not self._done.done():
            self._done.set_result(Dictated(" ".join(self._words), ended_by))
