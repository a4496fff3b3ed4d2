"""The floor of an OpenAI Realtime session: the active, the requested and the wanted response.

A conversation has at most one active response. The service creates one by itself when the caller's
turn is over; we request the others (the greeting, answers after tools). These cross on the wire, so
a request is only made when no other response is expected, and is repeated when the service had
begun another response meanwhile. Pure: no clock, no messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from cordboard.agent_api.speech import Speech
from cordboard.tools.tool import JsonObject

REMEMBERED = 32
"""Responses that are remembered after their end, to recognise late messages."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A response that is needed for another reason than a tool's result."""

    parameters: JsonObject = field(default_factory=dict)
    insists: bool = False
    """The response is still needed if the service was speaking about something else."""
    speech: Speech | None = None
    """A sentence of the engine: its response does not belong to the conversation."""


@dataclass(slots=True)
class Floor:
    """The state of one connection."""

    caller_speaks: bool = False
    turn_owed: bool = False
    """The service is about to answer the caller's turn by itself."""
    owed_behind: str = ""
    """The response that was active when the turn ended: the service may have left the turn
    unanswered."""
    active: str = ""
    """The response in progress, in the conversation."""
    requested: str = ""
    """Our request that the service has not yet followed or refused."""
    wish: Wish | None = None
    sent: Wish | None = None
    """The wish that was requested."""
    made_for: Wish | None = None
    """The wish behind the active response; None: the service began it by itself."""
    asides: dict[str, Speech] = field(default_factory=dict)
    """The engine's sentences by their responses in progress, which do not belong to the
    conversation."""
    cut: set[str] = field(default_factory=set)
    """Responses in progress that are no longer needed."""
    over: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def free(self) -> bool:
        """True if a response may be requested now."""
        busy = self.active or self.requested or self.asides
        return not (busy or self.caller_speaks or self.turn_owed)

    def speaks(self, response_id: str) -> bool:
        """True if content of this response is for the caller."""
        known = response_id == self.active or response_id in self.asides
        return known and response_id not in self.cut

    def caller_started(self) -> None:
        self.caller_speaks = True
        self.turn_owed = False

    def caller_stopped(self, *, answered: bool) -> None:
        """Note the end of the turn. `answered`: the service will answer it by itself."""
        self.caller_speaks = False
        self.turn_owed = answered
        self.owed_behind = self.active

    def request(self, request_id: str, wish: Wish | None) -> None:
        """Note that our request is sent."""
        self.requested, self.sent = request_id, wish
        if wish is not None and wish is self.wish:
            self.wish = None

    def refused(self, *, busy: bool) -> Wish | None:
        """Note that the service did not follow our request; return its wish. `busy`: because of an
        active response; if that is over, the wish is kept."""
        sent, self.requested, self.sent = self.sent, "", None
        kept = sent is not None and (sent.insists or (busy and not self.active))
        if kept and self.wish is None:
            self.wish = sent
        return sent

    def began(self, response_id: str, request_id: str) -> bool:
        """Note that a response has begun; True if it is ours. `request_id`: the id it carries, or
        empty."""
        mine = bool(self.requested) and (
            request_id == self.requested or (not request_id and not self.turn_owed)
        )
        sent = self.sent if mine else None
        if mine:
            self.requested, self.sent = "", None
        else:
            self.turn_owed = False
        if sent is not None and sent.speech is not None:
            self.asides[response_id] = sent.speech
        else:
            self.active, self.made_for = response_id, sent
            self.wish = None
        return mine

    def cut_active(self) -> str:
        """Mark the active response as no longer needed; return its id if it must be cancelled."""
        if not self.active or self.active in self.cut:
            return ""
        self.cut.add(self.active)
        return self.active

    def ended(self, response_id: str) -> bool | None:
        """Note the end of a response; True if it was needed to the end. None: it was over already,
        or has never begun."""
        if response_id in self.over or not response_id:
            return None
        wanted = response_id not in self.cut
        if response_id in self.asides:
            del self.asides[response_id]
        elif response_id == self.active:
            self.active = ""
            if self.turn_owed and self.owed_behind:
                self.turn_owed = False
                self.wish = self.wish or Wish()
        else:
            return None
        self.over.append(response_id)
        self.cut.discard(response_id)
        return wanted
