"""The caller's turns, as far as Gemini Live tells them.

The service says when it cuts its answer, writes down in pieces what the caller said, and begins to
answer; of the beginning and end of speech it tells only some accounts (`voiceActivity`). The
pieces come in no fixed order with the answer. So a turn begins with its first piece, or when the
service says so, and is over when the service says so, begins to answer, or has written nothing more
for a while.

Pure logic: no socket, no clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from cordboard.agent_api.service_protocol import ProtocolHost

LATE = 1.5
"""Seconds after an answer began in which pieces are still of the turn that it answers."""
SILENT = 4.0
"""Seconds without another piece after which a turn is over, whatever the service does: so the
shell's watch over answers that never come begins to run."""
MOST_CHARACTERS = 20_000


class CallerTurns:
    """One call's turns."""

    def __init__(self, host: ProtocolHost, keep: Callable[[str], None]) -> None:
        """`keep`: takes the text of each turn."""
        self._host = host
        self._keep = keep
        self._text = ""
        self._over_answer = ""
        """Written while the service answers: perhaps of the next turn."""
        self._textless: int | None = None
        """A turn that is over and waits for its text."""
        self._last_at = 0.0
        self.open = False

    def words(self, text: str, finished: bool, answering_since: float | None) -> None:
        """The service has written more of what the caller said."""
        now = self._host.now()
        self._last_at = now
        if self._textless is not None:
            self._text = (self._text + text)[:MOST_CHARACTERS]
            if finished:
                self.settle()
            return
        if answering_since is not None and not self.open:
            if now - answering_since < LATE:
                self._host.ignored("late", "more words of a turn that is being answered")
            else:
                self._over_answer = (self._over_answer + text)[:MOST_CHARACTERS]
            return
        if text.strip():
            self.started()
        if self.open:
            self._text = (self._text + text)[:MOST_CHARACTERS]
            if finished:
                self.stopped()
                self.settle()

    def started(self) -> None:
        """The caller speaks."""
        self._last_at = self._host.now()
        if self.open:
            return
        self.settle()
        self.open = True
        self._text, self._over_answer = self._over_answer, ""
        self._host.caller_started()

    def stopped(self) -> None:
        """The turn is over; its text may still grow."""
        if self.open:
            self.open = False
            self._textless = self._host.caller_stopped()

    def answered(self) -> None:
        """The service begins to answer: what it has written by now is the turn."""
        if not self.open and self._textless is None and self._over_answer.strip():
            text, self._over_answer = self._over_answer, ""
            self._keep(text)
            self._host.caller_text(text)
            return
        self.stopped()
        if self._text.strip():
            self.settle()

    def cut(self) -> None:
        """The service has cut its answer: what was said over it is a turn of its own."""
        self.settle()
        if self._over_answer.strip():
            self.started()

    def settle(self) -> None:
        """Nothing more is to be expected of a turn that is over."""
        if self._textless is None:
            return
        turn, text = self._textless, self._text
        self._textless, self._text = None, ""
        self._keep(text)
        self._host.caller_text(text, turn)

    @property
    def pending(self) -> bool:
        """Whether a turn is not over, or waits to be answered."""
        return self.open or self._textless is not None

    def look(self, now: float) -> bool:
        """Whether a turn is over by silence; it is closed then."""
        if not self.open or not self._text.strip() or now - self._last_at < SILENT:
            return False
        self.stopped()
        self.settle()
        return True

    def lost(self) -> str:
        """The connection is gone, and with it what was being written: returns the words of a turn
        that is over by that."""
        text = self._text if self.open or self._textless is not None else ""
        if text.strip():
            self.stopped()
        self.open = False
        self.settle()
        self._over_answer = ""
        return text.strip()
