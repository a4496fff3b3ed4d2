"""The state that a Gemini session loses with its connection, kept so that it can be sent again.

The service keeps a session's state under a handle, as of the moment at which it issued the handle.
When the session resumes, it has forgotten everything since: the caller's words, its own, and the
results of tools. So all of that is kept here until a newer handle comes. A tool call that is
pending in the handle's state is answered by its id; one that it never saw, in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from cordboard.tools.tool import JsonObject

MOST_TURNS = 60
MOST_CHARACTERS = 24_000
GATE_SECONDS = 10.0
"""Longest time for which a pending tool keeps the caller's sound from the model: if its answer
never comes, the model hears the caller again (the same bound as in reports of successful fixes)."""


@dataclass(slots=True)
class Call:
    """One tool call of the model."""

    call_id: str
    name: str
    arguments: JsonObject
    blocking: bool
    group: int
    """Number of the message that contained the call."""
    at: float
    known: bool = True
    """The connected session holds it as pending."""
    response: JsonObject | None = None
    sent: bool = False
    confirmed: bool = False
    """The service has sent a message since the answer was sent."""
    over: bool = False
    """The exchange in which the model requested it has ended in the service's state, too."""
    quiet: bool = False
    """The caller has already heard the answer."""

    def in_words(self) -> str:
        """Return the answer in words, for a session that does not know the call."""
        arguments = orjson.dumps(self.arguments).decode()
        response = orjson.dumps(self.response).decode()
        return (
            f"[You had called the function {self.name} with {arguments[:1_000]} for the caller. "
            f"It has answered: {response}]"
        )


@dataclass(slots=True)
class Memory:
    """One call's side of the session."""

    handle: str = ""
    held: set[str] = field(default_factory=set)
    """Calls that are pending in the handle's state."""
    since: list[tuple[str, str]] = field(default_factory=list)
    """Role and words, since the handle."""
    calls: dict[str, Call] = field(default_factory=dict)
    """Calls that are not settled: open, or answered since the handle."""
    answered: list[Call] = field(default_factory=list)
    """Calls whose answers the caller has not heard yet, as far as is known."""
    seen: set[str] = field(default_factory=set)
    """Ids of all calls so far."""
    groups: int = 0
    untaken: bool = False
    """The service has sent no message since it last received words."""

    def new_group(self) -> int:
        """Note a message with tool calls; return its number."""
        self.groups += 1
        return self.groups

    def said(self, role: str, text: str) -> None:
        """Record words of the conversation."""
        if text.strip():
            self.since.append((role, text.strip()))
            del self.since[:-MOST_TURNS]

    def new_handle(self, handle: str) -> None:
        """Note that the service's state up to now is kept under this name."""
        self.handle = handle
        if not self.untaken:  # otherwise the state may be older: send twice, lose nothing
            self.since.clear()
        for call in [call for call in self.calls.values() if call.sent and call.confirmed]:
            del self.calls[call.call_id]
        self.held = {call.call_id for call in self.calls.values() if call.known}
        for call in self.calls.values():
            call.over = not call.known

    def forget_handle(self) -> None:
        self.handle = ""
        self.held = set()

    # Tools.

    def open_calls(self) -> list[Call]:
        """Return the calls that wait for their answers, or whose answers wait to be sent."""
        return [call for call in self.calls.values() if not call.sent]

    def waits_for(self, call_id: str) -> Call | None:
        call = self.calls.get(call_id)
        return call if call is not None and call.response is None else None

    def peers(self, call: Call) -> list[Call]:
        """Return the unsent calls of its message that the session knows, or does not, as it does;
        including the call itself."""
        return [
            other
            for other in self.calls.values()
            if other.group == call.group and other.known == call.known and not other.sent
        ]

    def gated(self, now: float) -> bool:
        """True if the service must not hear the caller now."""
        return any(
            call.blocking and call.known and not call.sent and now < call.at + GATE_SECONDS
            for call in self.calls.values()
        )

    def was_sent(self, call: Call) -> None:
        call.sent, call.confirmed = True, False
        self.untaken = True
        self.answered.append(call)
        if not call.known:
            del self.calls[call.call_id]
        if call.call_id not in self.held:
            self.said("user", call.in_words())

    def cancelled(self, call_id: str) -> bool:
        """Remove the call. True if it was still waiting."""
        call = self.calls.get(call_id)
        if call is None or call.sent:
            return False
        del self.calls[call_id]
        return True

    def told_something(self) -> None:
        """Note that words of the conversation were sent to the service."""
        self.untaken = True

    def heard_of(self) -> None:
        """Note a message of the service."""
        self.untaken = False
        for call in self.calls.values():
            if call.sent:
                call.confirmed = True

    def told(self) -> None:
        """Note that the model has answered: the caller has heard its results."""
        self.answered.clear()

    def cut_off(self) -> list[Call]:
        """Return the unanswered calls whose exchange the connection was lost in."""
        return [call for call in self.open_calls() if not (call.known or call.over)]

    # Another connection.

    def resume(self, *, owes: bool) -> list[tuple[str, str]]:
        """Resume the session by its handle: return the words that it has forgotten. Answers that it
        has forgotten wait to be sent again. `owes`: the caller has not heard them."""
        for call in list(self.calls.values()):
            call.known = call.call_id in self.held
            if not call.sent:
                continue
            if call.known:
                call.sent, call.quiet = False, not owes
            else:
                del self.calls[call.call_id]  # its answer stands in `since`
        return bounded(self.since)

    def afresh(self) -> list[str]:
        """Start a new session: return the answers that the caller has not heard, in words."""
        self.forget_handle()
        self.since.clear()
        for call in list(self.calls.values()):
            call.known = False
            if call.sent:
                del self.calls[call.call_id]
        return [call.in_words() for call in self.answered if call.response is not None]


def bounded(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the last part of it, as much as a session takes at once."""
    kept: list[tuple[str, str]] = []
    room = MOST_CHARACTERS
    for role, text in reversed(said[-MOST_TURNS:]):
        room -= len(text)
        if room < 0:
            break
        kept.append((role, text))
    return kept[::-1]
