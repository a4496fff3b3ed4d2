"""The AI disclosure of a written conversation (`contexts.<name>.disclosure`).

It opens the first answer. Once the words have been handed to the client's connection, the ledger
has `announcement.heard`; whether they were shown to a person, only the client knows. Until then
each further answer begins with them again.
"""

from __future__ import annotations

import asyncio
import contextlib
from hashlib import sha256

from cordboard.calls import events
from cordboard.calls.first_words import DISCLOSURE
from cordboard.calls.ledger import Ledger

IN_WRITING = "text"
"""In place of a format of sound."""
TAKE_SECONDS = 2.0
"""Longest wait, at the end of a conversation, for a client that has the words yet to read."""


class ChatDisclosure:
    """The disclosure of one conversation."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._text = ""
        self._sent = False
        self._over = False
        self._settled = asyncio.Event()
        """Set once the connection has the words that were sent, or the client reads no more."""

    def begin(self, text: str) -> None:
        """Set the words; empty: there are none."""
        self._text = text

    def words(self) -> str:
        """Return the words for the answer that begins now; empty once they are proven."""
        if not self._text or self._over:
            return ""
        if self._sent:
            self._unproven("cut")
        self._sent = True
        self._settled.clear()
        return self._text

    def taken(self) -> None:
        """Note that the words have been handed to the client's connection."""
        self._settled.set()
        if not self._over:
            self._over = True
            version = sha256(self._text.encode()).hexdigest()
            self._ledger.record(
                events.AnnouncementHeard(DISCLOSURE, self._text, version, "", IN_WRITING)
            )

    def left(self) -> None:
        """Note that the client has stopped reading."""
        self._settled.set()

    async def close(self) -> None:
        """Note that the conversation is over, once the client has read its end. Idempotent."""
        if self._sent:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TAKE_SECONDS):
                    await self._settled.wait()
        if self._text and not self._over:
            self._over = True
            self._unproven("cut" if self._sent else "not_spoken")

    def _unproven(self, reason: str) -> None:
        self._ledger.record(events.AnnouncementUnheard(DISCLOSURE, reason))
