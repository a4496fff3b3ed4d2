"""The caller's turns, as far as Gemini Live reports them.

The service reports when it cuts its answer, transcribes the caller's words in pieces, and begins to
answer; it reports the beginning and end of speech only to some accounts (`voiceActivity`). The
pieces come in no fixed order with the answer. So a turn begins with its first piece, or with the
service's report, and is over when the service reports it, begins to answer, or has sent no more
text for a while.

Pure logic: no socket, no clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from cordboard.agent_api.service_protocol import ProtocolHost

LATE = 1.5
"""Seconds after the start of an answer in which pieces still belong to the turn that it answers."""
SILENT = 4.0
"""Seconds without another piece after which a turn is over, without a report of the service: this
starts the shell's watch for missing answers."""
MOST_CHARACTERS = 20_000


class CallerTurns:
    """The turns of one call."""

    def __init__(self, host: ProtocolHost, keep: Callable[[str], None]) -> None:
        """`keep`: takes the text of each turn."""
        self._host = host
        self._keep = keep
        self._text = ""
        self._over_answer = ""
        """Text that arrived while the service answers: perhaps of the next turn."""
        self._textless: int | None = None
        """A turn that is over and waits for its text."""
        self._last_at = 0.0
        self.open = False

    def words(self, text: str, finished: bool, answering_since: float | None) -> None:
        """Add transcribed words of the caller."""
        now = self._host.now()
        self._last_at = now
        if self._textless is not None:
            self._text = (self._text + text)[:MOST_CHARACTERS]
            if finished:
                self.settle()
            else:
                self._host.caller_partial(self._text)
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
            else:
                self._host.caller_partial(self._text)

    def started(self) -> None:
        """Note that the caller speaks."""
        self._last_at = self._host.now()
        if self.open:
            return
        self.settle()
        self.open = True
        self._text, self._over_answer = self._over_answer, ""
        self._host.caller_started()

    def stopped(self) -> None:
        """Note that the turn is over; its text may still grow."""
        if self.open:
            self.open = False
            self._textless = self._host.caller_stopped()

    def answered(self) -> None:
        """Note that the service begins to answer: the text so far is the turn."""
        if not self.open and self._textless is None and self._over_answer.strip():
            text, self._over_answer = self._over_answer, ""
            self._keep(text)
            self._host.caller_text(text)
            return
        self.stopped()
        if self._text.strip():
            self.settle()

    def cut(self) -> None:
        """Note that the service has cut its answer: the words over it are a separate turn."""
        self.settle()
        if self._over_answer.strip():
            self.started()

    def settle(self) -> None:
        """Settle a turn that is over: no more text is expected."""
        if self._textless is None:
            return
        turn, text = self._textless, self._text
        self._textless, self._text = None, ""
        self._keep(text)
        self._host.caller_text(text, turn)

    @property
    def pending(self) -> bool:
        """True if a turn is not over, or waits to be answered."""
        return self.open or self._textless is not None

    def look(self, now: float) -> bool:
        """Close a turn that silence has ended; True if there was one."""
        if not self.open or not self._text.strip() or now - self._last_at < SILENT:
            return False
        self.stopped()
        self.settle()
        return True

    def lost(self) -> str:
        """Close the turns: the connection is gone. Return the words of a turn that is over by
        that."""
        text = self._text if self.open or self._textless is not None else ""
        if text.strip():
            self.stopped()
        self.open = False
        self.settle()
        self._over_answer = ""
        return text.strip()
