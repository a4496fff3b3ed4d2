"""The caller's DTMF keys: passed to the ledger and the agent, or collected by a tool.

Outside a collection a key goes to both at once. Where a tool of the context may collect keys it is
first held back for `EARLY` seconds, because callers who know the menu type ahead: a collection that
begins within that time takes the held keys as its first ones, and when it is a secret one, neither
ledger nor agent has seen them.

Keys of a secret collection appear in no ledger (they are `*` there, marked as secret), no log and
no recording, and the agent hears neither keys nor sound meanwhile (`Ears`: the tones of a phone
that sends them as sound would reveal them). Keys pressed up to `TAIL` seconds after one, such as an
unneeded `#`, are treated the same. The keys themselves stay in this object under a reference until
the call is over, for the tool that needs them (`reveal`).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from cordboard.errors import LineError, LineGone
from cordboard.tools.call_line import KeysCollected, KeysWanted

EARLY = 2.0
"""Seconds before a collection in which pressed keys count too."""
TAIL = 2.0
"""Seconds after a secret collection in which pressed keys still belong to it."""
TONE_BEFORE = 1.5
"""Seconds before its report in which a key's tone may have begun: it is reported on release."""
TONE_AFTER = 0.3
"""Seconds for which a key's tone may last longer than its message says."""
LONGEST = 64
"""More keys than this are not an answer; they end the collection."""
MASK = "*"

EndedBy = Literal["count", "terminator", "timeout"]


class Ears(Protocol):
    """The listeners of the caller: recording and agent. Times are loop times."""

    def mute(self, since: float, until: float) -> None:
        """Keep this stretch of the caller's sound out of the recording, also the past as far as it
        is not on disk yet."""

    def secret_begins(self, since: float) -> None:
        """Stop recording the caller from `since` on; from now on the agent hears silence
        instead."""

    def secret_ends(self, at: float) -> None:
        """Record the caller again from `at` on (now or soon), and let the agent hear them."""


@dataclass(frozen=True, slots=True)
class KeyOutlets:
    """The receivers of keys. All are called on the event loop and return at once."""

    record: Callable[[str, bool, float], None]
    """`record(key, secret, at)`: write it into the ledger; a secret key is `MASK`."""
    deliver: Callable[[str], None]
    """Give a key to the agent."""
    first_key: Callable[[], None]
    """The first key of a collection has come: the rest of the prompt need not be heard."""
    quiet_at: Callable[[], float]
    """Loop time at which the caller has heard, or will have heard, all sound written so far."""


class Dtmf:
    """The keys of one call."""

    def __init__(self, outlets: KeyOutlets, ears: Ears, *, hold_back: bool) -> None:
        """`hold_back`: a tool of this call may collect keys."""
        self._loop = asyncio.get_running_loop()
        self._outlets = outlets
        self._ears = ears
        self._hold_back = hold_back
        self._held: deque[tuple[float, str]] = deque()
        self._collection: _Collection | None = None
        self._secret_until = -math.inf
        self._vault: dict[str, str] = {}
        self._over = False

    @property
    def collecting(self) -> bool:
        """True if a tool waits for keys."""
        return self._collection is not None

    @property
    def secret_now(self) -> bool:
        """True if a key that is pressed now may belong to a secret."""
        collection = self._collection
        secret = collection is not None and collection.wanted.secret
        return secret or self._loop.time() < self._secret_until

    def press(self, key: str) -> None:
        """Take a key of the caller (`0-9*#A-D`)."""
        now = self._loop.time()
        collection = self._collection
        if collection is not None and not collection.done.done():
            self._record(key, now, secret=collection.wanted.secret)
            collection.take(key)
        elif self.secret_now:
            self._record(key, now, secret=True)
        elif self._hold_back and not self._over:
            self._held.append((now, key))
            self._loop.call_later(EARLY, self._release)
        else:
            self._outlets.record(key, False, now)
            self._outlets.deliver(key)

    async def collect(self, wanted: KeysWanted) -> KeysCollected:
        """See `CallLine.collect_keys`."""
        if self._over:
            raise LineGone("the call is over")
        if self._collection is not None:
            raise LineError("keys are being collected already")
        collection = self._collection = _Collection(wanted, self._outlets, self._loop)
        if wanted.secret:
            # A tone that is sounding now began earlier.
            self._ears.secret_begins(self._loop.time() - TONE_BEFORE / 3)
        early = tuple(self._held)
        self._held.clear()
        try:
            for at, key in early:
                self._record(key, at, secret=wanted.secret)
                if wanted.early:
                    collection.take(key)
            ended_by = await collection.done
        finally:
            collection.stop()
            self._collection = None
            if wanted.secret:
                self._end_secret()
        keys = "".join(collection.keys)
        if not (wanted.secret and wanted.kept):
            return KeysCollected(keys, ended_by)
        reference = f"keys-{len(self._vault) + 1}"
        self._vault[reference] = keys
        return KeysCollected(keys, ended_by, reference)

    def reveal(self, reference: str) -> str | None:
        """See `CallLine.reveal`."""
        return self._vault.get(reference)

    def close(self) -> None:
        """Close: the call is over. Keys that are still held back are recorded as secret."""
        self._over = True
        while self._held:
            at, _ = self._held.popleft()
            self._outlets.record(MASK, True, at)
        if self._collection is not None:
            self._collection.end(LineGone("the call is over"))
        self._vault.clear()

    def _record(self, key: str, at: float, *, secret: bool) -> None:
        self._outlets.record(MASK if secret else key, secret, at)
        if secret:
            self._ears.mute(at - TONE_BEFORE, at + TONE_AFTER)

    def _release(self) -> None:
        """Pass on the keys that no tool has collected."""
        due = self._loop.time() - EARLY + 1e-3
        while self._held and self._held[0][0] <= due:
            at, key = self._held.popleft()
            self._outlets.record(key, False, at)
            self._outlets.deliver(key)

    def _end_secret(self) -> None:
        now = self._loop.time()
        self._secret_until = now + TAIL
        self._ears.secret_ends(now + TONE_AFTER)


class _Collection:
    """One collection in progress."""

    def __init__(
        self, wanted: KeysWanted, outlets: KeyOutlets, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.wanted = wanted
        self.keys: list[str] = []
        self.done: asyncio.Future[EndedBy] = loop.create_future()
        self._outlets = outlets
        self._loop = loop
        self._wanted_at = loop.time()
        self._timer = loop.call_later(wanted.first_timeout, self._await_first)
        self._begun = False

    def take(self, key: str) -> None:
        if self.done.done():
            return
        if not self._begun:
            self._begun = True
            self._outlets.first_key()
        if key == self.wanted.terminator:
            self._finish("terminator")
            return
        self.keys.append(key)
        if len(self.keys) in (self.wanted.count, LONGEST):
            self._finish("count")
            return
        self._timer.cancel()
        self._timer = self._loop.call_later(self.wanted.next_timeout, self._finish, "timeout")

    def end(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def stop(self) -> None:
        self._timer.cancel()

    def _await_first(self) -> None:
        """Start the time for the first key at the end of the prompt, or of other sound that the
        caller hears meanwhile: it is computed again when the timer fires."""
        heard = max(self._wanted_at, self._outlets.quiet_at())
        give_up_at = heard + self.wanted.first_timeout
        if self._loop.time() >= give_up_at - 1e-3:
            self._finish("timeout")
        else:
            self._timer = self._loop.call_at(give_up_at, self._await_first)

    def _finish(self, ended_by: EndedBy) -> None:
        if not self.done.done():
            self.done.set_result(ended_by)
