"""The activity of one connection to Gemini Live, and the messages that it allows.

Words given to the model (`clientContent`) cut the answer that it is about to speak, and cancel a
tool that it waits for. So notes wait here until the connection is silent.
"""

from __future__ import annotations

import orjson

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import JsonObject
from cordboard.vendors.gemini.live import messages as say
from cordboard.vendors.gemini.live.memory import Memory
from cordboard.vendors.gemini.live.turns import CallerTurns

_MOST_UNKNOWN = 50


class Floor:
    """One connection's state, shared by the readers of its messages."""

    def __init__(
        self, session: AgentSession, host: ProtocolHost, memory: Memory, turns: CallerTurns
    ) -> None:
        self.session = session
        self.host = host
        self.memory = memory
        self.turns = turns
        self.ready_at: float | None = None
        """Loop time at which the service accepted the session."""
        self.answering: float | None = None
        """Loop time at which the current answer began."""
        self.busy = False
        """The service owes an answer, or is working on one."""
        self.gives_way = False
        """The current answer gives way to a result, which the model speaks of next."""
        self.done_told = True
        """The end of the last answer was reported to the shell."""
        self.greeted = False
        self.untold: list[JsonObject] = []
        """Messages that bring an accepted session up to date."""
        self.closing_until: float | None = None
        """Loop time until which the end of a cut-off exchange is awaited; None: nothing is."""
        self._notes: list[str] = []
        self._hints: list[str] = []
        self._unknown: set[str] = set()

    def send(self, message: JsonObject) -> None:
        self.host.send_text(orjson.dumps(message))

    def catch_up(self) -> None:
        """Bring the session up to date."""
        self.closing_until = None
        untold, self.untold = self.untold, []
        for message in untold:
            self.send(message)
            self.memory.told_something()
        self.tell_notes()

    def owes(self) -> None:
        """Note that the message just sent makes the model speak."""
        self.busy, self.done_told = True, False

    def done(self) -> None:
        """Report that the answer is handed over."""
        if not self.done_told:
            self.done_told = True
            self.host.answer_done()

    @property
    def silent(self) -> bool:
        """True if words to the model would cut nothing."""
        return (
            self.ready_at is not None
            and self.closing_until is None
            and not self.busy
            and self.answering is None
            and not self.turns.pending
            and not self.memory.gated(self.host.now())
        )

    def note(self, text: str) -> None:
        """Give the model this text as soon as that cuts nothing, and have it speak."""
        self._notes.append(text)

    def hint(self, text: str) -> None:
        """Give the model this text as soon as that cuts nothing, without having it speak."""
        self._hints.append(text)

    @property
    def noted(self) -> bool:
        return bool(self._notes)

    def tell_notes(self) -> None:
        """Send the notes now, if that cuts nothing. The hints do not complete the model's turn, so
        it does not speak (google-genai 3.4, `types.LiveClientContent.turn_complete`)."""
        if self._hints and self.silent:
            hints, self._hints = self._hints, []
            self.send(say.turns([("user", hint) for hint in hints], complete=False))
            self.memory.told_something()
        if self._notes and self.silent:
            notes, self._notes = self._notes, []
            self.owes()
            self.send(say.turns([("user", note) for note in notes], complete=True))
            self.memory.told_something()

    def not_known(self, name: str) -> None:
        """Report an unknown field, once."""
        if name not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(name)
            self.host.ignored("unknown", name[:60])
