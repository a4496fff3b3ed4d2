"""The topics of the live feed: each turns the changes since a viewer's last frame into one.

A viewer pulls: a frame is made when the one before it has gone out. A client that reads slowly so
costs no memory, and gets fewer frames with more in each. One that missed more than is kept gets the
whole state again (`restart`), or what is missing from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.live_calls import CallFacts, LiveCalls, mask_row, without_personal
from cordboard.admin.services import AdminServices
from cordboard.api.answers import to_json
from cordboard.observe.log_words import without_words
from cordboard.observe.logging import KeptLog

MOST_EVENTS = 200
"""Events or log lines of one frame."""
_GAP = b'"type":"ledger.gap"'


class Missed(Exception):
    """The viewer was too slow: what it has not seen is not kept any more."""


class Topic(Protocol):
    """One subscription of one viewer."""

    over: bool
    """True if no further frames follow."""

    async def next(self) -> bytes | None:
        """Return the inside of the next frame; None while there is nothing new. Raises `Missed`,
        after which the next frame is a restart."""

    def close(self) -> None:
        """Let go of all that the topic holds."""


@dataclass(slots=True, eq=False)
class Rows:
    """Topic `calls`: the rows of the live calls within the scope."""

    live: LiveCalls
    rights: Rights
    shared: Callable[[Any, Callable[[], bytes]], bytes]
    """Keeps the ready frames of the present version: viewers with the same rights share them."""
    own: bool = False
    """True: without the calls of other engines."""
    over: bool = False
    _seen: int | None = None
    _restart: bool = False

    async def next(self) -> bytes | None:
        seen, version = self._seen, self.live.version
        if seen == version:
            return None
        key = (seen, self.rights, self._restart, self.own)
        frame = self.shared(key, lambda: self._frame(seen, version))
        self._seen, self._restart = version, False
        return frame or None

    def _frame(self, seen: int | None, version: int) -> bytes:
        changes = self.live.changes(seen or 0, self.rights, own=self.own)
        if changes is None:
            self._seen, self._restart = None, True
            raise Missed
        rows, gone = changes
        if not self.rights.may(Permission.PERSONAL):
            rows = [mask_row(row) for row in rows]
        if seen is None:
            return _inside(version, "snapshot", rows, restart=self._restart)
        if not rows and not gone:
            return b""
        return b'"seq":%d,"rows":%b,"gone":%b' % (version, to_json(rows), to_json(gone))

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True, eq=False)
class State:
    """Topics `engine`, `mcp` and `alarms`: a small state as a whole, whenever it has changed."""

    make: Callable[[], bytes]
    second: Callable[[], int]
    """Number of the present second; the state is looked at once in each."""
    over: bool = False
    _looked: int = -1
    _last: bytes = b""
    _seq: int = 0

    async def next(self) -> bytes | None:
        if self._looked == (now := self.second()):
            return None
        self._looked = now
        state = self.make()
        if state == self._last:
            return None
        self._last = state
        self._seq += 1
        return b'"seq":%d,"snapshot":%b' % (self._seq, state)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True, eq=False)
class Events:
    """Topic `call`: the ledger's events of one live call, first those of the file, then each as it
    happens, and the caller's words as they become known. `seq` is the number of the frame's last
    event in the ledger."""

    facts: CallFacts
    services: AdminServices
    personal: bool
    since_ms: int
    """Earlier events are left out."""
    sent: int
    """Number of the last event that the viewer has."""
    over: bool = False
    _followed: bool = field(default=False, init=False)
    _partial: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.facts.followers == 0:
            self.facts.tail.clear()
        self.facts.followers += 1

    async def next(self) -> bytes | None:
        facts = self.facts
        if self.sent >= facts.events:
            if self.over or not facts.over:
                return self._words_so_far()
            self.over = True
            return b'"seq":%d,"over":true' % self.sent
        tail = facts.tail
        if tail and tail[0][0] <= self.sent + 1:
            found = [each for each in tail if each[0] > self.sent][:MOST_EVENTS]
            self.sent, self._followed = found[-1][0], True
            return self._frame([each[1] if self.personal else each[2] for each in found])
        if self._followed:
            self._followed = False
            raise Missed
        last = min(tail[0][0] - 1 if tail else facts.events, self.sent + MOST_EVENTS)
        lines = await self.services.run(self._past, self.sent, last)
        self.sent = last
        return self._frame(lines)

    def _words_so_far(self) -> bytes | None:
        conversation = self.facts.call.conversation
        partial = conversation.partial if self.personal and conversation is not None else ""
        if partial == self._partial:
            return None
        self._partial = partial
        return b'"seq":%d,"partial":%b' % (self.sent, to_json(partial))

    def _past(self, after: int, last: int) -> list[bytes]:
        """Return lines of the ledger, by their numbers. Blocks. Lines that the disk has not taken
        are missing; the ledger says so itself, by a `ledger.gap`."""
        self.services.flush_ledgers()
        path = self.facts.call.ledger_path  # not before: the first line may give it a number
        found, number = [], 0
        try:
            with path.open("rb") as file:
                for line in file:
                    number += orjson.loads(line)["lost"] if _GAP in line else 1
                    if number > last:
                        break
                    if number > after and line.endswith(b"\n"):
                        found.append(line[:-1])
        except (OSError, ValueError):  # the disk has not taken it yet
            return found
        parsed = [(line, orjson.loads(line)) for line in found]
        return [
            line if self.personal else to_json(without_personal(content))
            for line, content in parsed
            if content["at_ms"] >= self.since_ms
        ]

    def _frame(self, lines: list[bytes]) -> bytes:
        return b'"seq":%d,"events":[%b]' % (self.sent, b",".join(lines))

    def close(self) -> None:
        """Stop following the call."""
        self.facts.followers -= 1


@dataclass(slots=True, eq=False)
class LogLines:
    """Topic `log`: lines of the engine's log as they are written. `seq` is the number of the last
    line that was looked at."""

    log: KeptLog
    services: AdminServices
    personal: bool
    """False: without the words of calls."""
    call_id: str
    """Only lines about that call; empty: all."""
    level: str
    """The least one."""
    sent: int
    """Number of the last line that the viewer has."""
    over: bool = False
    _begun: bool = False

    async def next(self) -> bytes | None:
        part = self.log.after(self.sent, MOST_EVENTS, call_id=self.call_id, level=self.level)
        is_of_this_log = self.log.begin <= self.sent <= part.last
        is_cut = self.sent > 0 and (part.lost > 0 or not is_of_this_log)
        self.sent = part.last
        if self._begun and not part.lines and not is_cut:
            return None
        self._begun = True
        restart = b'"restart":true,' if is_cut else b""
        lines = [each.content for each in part.lines]
        if lines and not self.personal:
            lines = await self.services.run(lambda: [*map(without_words, lines)])
        return restart + b'"seq":%d,"lines":[%b]' % (part.last, b",".join(lines))

    def close(self) -> None:
        """Nothing is held."""


def _inside(seq: int, name: str, value: Any, *, restart: bool) -> bytes:
    again = b'"restart":true,' if restart else b""
    return again + b'"seq":%d,"%b":%b' % (seq, name.encode(), to_json(value))
