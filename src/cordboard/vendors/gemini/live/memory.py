"""What a Gemini session would lose with its connection, and how it is told again.

The service keeps a session's state under a handle, as of the moment when it gave the handle out.
What happened since, it has forgotten when the session goes on: the caller's words, its own, and the
results of tools. So all of that is kept here until a newer handle comes. A tool call that the
handle's state holds as pending is answered by its id; one that it never saw, in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from cordboard.tools.tool import JsonObject

MOST_TURNS = 60
MOST_CHARACTERS = 24_000
GATE_SECONDS = 10.0
"""How long a pending tool keeps the caller unheard, at most: should its answer never come, the
caller is heard again (the same bound as in reports of what helped)."""


@dataclass(slots=True)
class Call:
    """One tool call of the model."""

    call_id: str
    name: str
    arguments: JsonObject
    blocking: bool
    group: int
    """Calls of one message."""
    at: float
    known: bool = True
    """The session that we are connected to holds it as pending."""
    response: JsonObject | None = None
    sent: bool = False
    confirmed: bool = False
    """The service has said something since it was sent."""
    quiet: bool = False
    """The caller has been told its answer."""

    def in_words(self) -> str:
        """Its answer, for a session that does not know of the call."""
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
    """Calls that the handle's state holds as pending."""
    since: list[tuple[str, str]] = field(default_factory=list)
    """Role and words, since the handle."""
    calls: dict[str, Call] = field(default_factory=dict)
    """Those that are not answered for good: open, or answered since the handle."""
    answered: list[Call] = field(default_factory=list)
    """Those whose answers the caller has not been told yet, as far as is known."""
    seen: set[str] = field(default_factory=set)
    """Ids of all calls there were."""
    groups: int = 0
    untaken: bool = False
    """The service has not said anything since it was last told something."""

    def new_group(self) -> int:
        """A message with tool calls has come."""
        self.groups += 1
        return self.groups

    def said(self, role: str, text: str) -> None:
        """Words of the conversation."""
        if text.strip():
            self.since.append((role, text.strip()))
            del self.since[:-MOST_TURNS]

    def new_handle(self, handle: str) -> None:
        """The service's state up to now is kept under this name."""
        self.handle = handle
        if not self.untaken:  # else the state may be older: better told twice than not at all
            self.since.clear()
        for call in [call for call in self.calls.values() if call.sent and call.confirmed]:
            del self.calls[call.call_id]
        self.held = {call.call_id for call in self.calls.values() if call.known}

    def forget_handle(self) -> None:
        self.handle = ""
        self.held = set()

    # Tools.

    def open_calls(self) -> list[Call]:
        """Those that wait for their answers, or whose answers wait to be sent."""
        return [call for call in self.calls.values() if not call.sent]

    def waits_for(self, call_id: str) -> Call | None:
        call = self.calls.get(call_id)
        return call if call is not None and call.response is None else None

    def peers(self, call: Call) -> list[Call]:
        """The unsent calls of its message that the session knows, or does not, as it does; itself
        among them."""
        return [
            other
            for other in self.calls.values()
            if other.group == call.group and other.known == call.known and not other.sent
        ]

    def gated(self, now: float) -> bool:
        """Whether the service must not hear the caller now."""
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
        """Whether anybody waited for it."""
        call = self.calls.get(call_id)
        if call is None or call.sent:
            return False
        del self.calls[call_id]
        return True

    def told_something(self) -> None:
        """The service was sent words of the conversation."""
        self.untaken = True

    def heard_of(self) -> None:
        """The service has said something."""
        self.untaken = False
        for call in self.calls.values():
            if call.sent:
                call.confirmed = True

    def told(self) -> None:
        """The model has given an answer: what it knew is told."""
        self.answered.clear()

    # Another connection.

    def resume(self, *, owes: bool) -> list[tuple[str, str]]:
        """The session goes on by its handle: returns what it has forgotten. Answers that it has
        forgotten wait to be sent again. `owes`: the caller has not been told them."""
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
        """A new session: returns the answers that the caller has not been told, in words."""
        self.forget_handle()
        self.since.clear()
        for call in list(self.calls.values()):
            call.known = False
            if call.sent:
                del self.calls[call.call_id]
        return [call.in_words() for call in self.answered if call.response is not None]


def bounded(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The last of it, as much as a session is given at once."""
    kept: list[tuple[str, str]] = []
    room = MOST_CHARACTERS
    for role, text in reversed(said[-MOST_TURNS:]):
        room -= len(text)
        if room < 0:
            break
        kept.append((role, text))
    return kept[::-1]
