"""Every ledger line of every call to the bus, exactly once and in order, behind the call.

`EventSink.take` costs a few microseconds: the line waits in memory. Some five times a second the
lines of each call leave as one batch. A batch is sent again, byte for byte the same, until the bus
has accepted it; each builds on the revision of the one before, so a batch that seemed to fail is
never stored twice, however long the bus was away, and a former owner of the call cannot write
behind the back of the new one.

The ledger on disk is the only other copy. While the bus is away for so long that the lines need too
much memory, they are dropped here and read from the ledger again later. Calls whose lines are not
all on the bus are noted on disk (`cluster.unsent`); the next engine sends the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import structlog

from cordboard.cluster.bus import Journal, Message
from cordboard.cluster.unsent import UnsentNote, UnsentNotes
from cordboard.cluster.wire import EventBatch, decode_batch, encode_batch, token
from cordboard.errors import BusAway, RevisionLost, WireUnreadable
from cordboard.privacy.sealed_file import PLAIN, Vault

log = structlog.get_logger()

BATCH_SECONDS = 0.2
"""Time for which lines wait for others, unless one of them is urgent."""
BATCH_LINES = 500
BATCH_BYTES = 256_000
LONGEST_LINE = 500_000
"""Bytes. A longer line is replaced on the bus by one that says so; the ledger has it whole."""
MOST_MISSING = 10_000
"""Lines that may be missing between two messages; a message further ahead is not believed."""
MOST_WAITING = 16_000_000
"""Bytes of lines of all calls in memory."""
RETRY_SECONDS = 0.5
OVER_SECONDS = 5.0
"""Pause between two looks whether a call of a dead engine is over."""
_MISSING = b'{"at_ms":0,"type":"ledger.gap","lost":1,"since_ms":0}\n'
"""Stands for a line that the bus does not have."""


@dataclass(frozen=True, slots=True)
class Story:
    """A call so far, as the bus has it."""

    lines: tuple[bytes, ...] = ()
    """The lines of the ledger, each with its newline."""
    revision: int = 0
    """Revision of the newest message."""
    epoch: int = 0
    """Epoch of the last owner who wrote some."""


@dataclass(slots=True)
class _Outgoing:
    """One call, and its lines that are not on the bus."""

    call_id: str
    path: Callable[[], Path]
    epoch: int | None = None
    """None until the bus has accepted the call's record."""
    number: int = 1
    """Number of the next line to be put into a batch."""
    offset: int = 0
    """Bytes of the ledger before it."""
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    """Bytes of `lines`."""
    last_number: int = 0
    """Number of the newest line of the ledger."""
    last_offset: int = 0
    """Bytes of the ledger up to its end."""
    revision: int = 0
    """Revision of the newest message of this call."""
    unsure: bool = False
    """True if the last batch may or may not be stored."""
    batch: EventBatch | None = None
    """Sent, and not yet accepted."""
    noted: tuple[str, int] | None = None
    ended: bool = False
    notes: UnsentNotes | None = None
    """Notes of the dead engine that had this call; None: our own."""

    @property
    def behind(self) -> bool:
        """True if lines are only on disk."""
        return self.number + len(self.lines) <= self.last_number

    @property
    def done(self) -> bool:
        return self.batch is None and self.number > self.last_number


class EventSink:
    """One per engine. Start `run` as a task, and `recover` at the start."""

    def __init__(
        self,
        journal: Journal,
        notes: UnsentNotes,
        *,
        fenced: Callable[[str], None] = lambda call_id: None,
        vault: Vault = PLAIN,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`fenced(call_id)`: another engine writes the events of this call now. `vault` reads the
        ledgers."""
        self._journal = journal
        self._notes = notes
        self._fenced = fenced
        self._vault = vault
        self._most_waiting = most_waiting
        self._calls: dict[str, _Outgoing] = {}
        self._busy: dict[str, None] = {}
        self._forgotten: list[_Outgoing] = []
        """Calls whose notes are to be removed."""
        """Calls that have something to do here."""
        self._waiting = 0
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of lines in memory that the bus has not accepted."""
        return self._waiting

    @property
    def unsent_calls(self) -> int:
        """Number of calls with lines that the bus has not accepted."""
        return len(self._busy)

    def open(
        self,
        call_id: str,
        path: Callable[[], Path],
        story: Story | None = None,
        epoch: int | None = None,
    ) -> None:
        """Begin with a call. `path()` is its ledger's. Of a call that was taken over, `story` is
        the beginning, which its ledger here has too, and `epoch` that of the claim; of any other,
        `owned` follows."""
        call = _Outgoing(token(call_id), path, epoch)
        if story is not None:
            call.number = len(story.lines) + 1
            call.last_number = len(story.lines)
            call.offset = call.last_offset = sum(map(len, story.lines))
            call.revision = story.revision
        self._calls[call_id] = call

    def owned(self, call_id: str, epoch: int) -> None:
        """The bus has accepted that this engine owns the call: its lines may leave."""
        if (call := self._calls.get(call_id)) is not None:
            call.epoch = epoch
            self._wake(call)

    def take(self, call_id: str, line: bytes) -> None:
        """Send a line of the ledger, with its newline, later. Returns at once."""
        call = self._calls.get(call_id)
        if call is None or call.ended:
            return
        behind = call.behind
        call.last_number += 1
        call.last_offset += len(line)
        if not behind and self._waiting + len(line) <= self._most_waiting:
            call.lines.append(line)
            call.size += len(line)
            self._waiting += len(line)
        self._wake(call)

    def hurry(self) -> None:
        """Send what waits at once. Returns at once, too."""
        self._urgent.set()

    def stored(self, call_id: str) -> int | None:
        """Return the number of lines of a call's ledger, if the bus has all of them."""
        call = self._calls.get(call_id)
        return call.last_number if call is not None and call.epoch and call.done else None

    def close(self, call_id: str) -> None:
        """No more lines of this call follow."""
        if (call := self._calls.get(call_id)) is not None:
            call.ended = True
            self._wake(call)

    def forget(self, call_id: str) -> None:
        """Send no more of a call that belongs to another engine now."""
        call = self._calls.pop(call_id, None)
        if call is not None:
            self._waiting -= call.size
            call.lines, call.size, call.batch = [], 0, None
            call.number, call.ended = call.last_number + 1, True
            self._forgotten.append(call)
            self._wake(call)

    async def idle(self) -> None:
        """Wait until the bus has everything."""
        await self._idle.wait()

    async def run(self) -> NoReturn:
        """Send until cancelled."""
        while True:
            await self._work.wait()
            with suppress(TimeoutError):  # what is said together leaves together
                async with asyncio.timeout(BATCH_SECONDS):
                    await self._urgent.wait()
            self._urgent.clear()
            self._work.clear()
            await self._round()

    async def read(self, call_id: str) -> Story:
        """Return a call so far, of whatever engine. Raises `BusAway`, also if the answer is that of
        a server that is behind."""
        messages = await self._journal.read(token(call_id))
        newest = await self._journal.last(call_id)
        if newest is not None and (not messages or messages[-1].revision < newest.revision):
            raise BusAway("a server is behind")
        return story_of(messages)

    async def recover(
        self, left: Iterable[UnsentNotes], is_over: Callable[[str], Awaitable[bool]]
    ) -> None:
        """Send the rest of the calls that dead engines have noted in `left`, once they are over:
        until then another engine may continue them. Returns when all have been taken up."""
        notes = await asyncio.to_thread(lambda: [(each, note) for each in left for note in each])
        while notes:
            later = []
            for owner, note in notes:
                try:
                    over = await is_over(note.call_id)
                    if over:
                        await self._recover(owner, note)
                except BusAway:
                    over = False
                except OSError as error:
                    log.error("unsent_ledger_unreadable", call_id=note.call_id, error=str(error))
                if not over:
                    later.append((owner, note))
            if notes := later:
                await asyncio.sleep(OVER_SECONDS)

    async def _recover(self, notes: UnsentNotes, note: UnsentNote) -> None:
        """Take up one call whose ledger has its end. Raises `OSError` and `BusAway`."""
        ledger = notes.ledger(note)
        call = _Outgoing(note.call_id, lambda: ledger, note.epoch, ended=True, notes=notes)
        call.noted = (note.ledger, note.epoch)
        if (stored := _batch_in(await self._journal.last(note.call_id))) is not None:
            message, batch = stored
            call.revision = message.revision
            call.number, call.offset = batch.first + batch.count, batch.end
        try:
            lines = await asyncio.to_thread(self._read_lines, ledger, call.offset)
        except FileNotFoundError:
            lines = []
        if stored is not None and stored[1].epoch > note.epoch:  # another engine went on
            lines = []
        call.last_number = call.number - 1 + len(lines)
        call.last_offset = call.offset + sum(map(len, lines))
        self._calls[note.call_id] = call
        self._wake(call)

    async def _round(self) -> None:
        """Send one batch of each call that has something to send."""
        forgotten, self._forgotten = self._forgotten, []
        for call in forgotten:
            await asyncio.to_thread(self._remove_note, call)
        calls = [self._calls.get(call_id) for call_id in self._busy]
        sent = await asyncio.gather(*(self._serve(call) for call in calls if call is not None))
        for call_id in [each for each in self._busy if each not in self._calls]:
            del self._busy[call_id]
        if self._busy:
            self._work.set()
            if not all(sent):
                await asyncio.sleep(RETRY_SECONDS)
        else:
            self._idle.set()

    async def _serve(self, call: _Outgoing) -> bool:
        """Do what is to be done for one call; False if it has to be tried again."""
        try:
            await self._note(call)
            if call.epoch is None:
                return True  # `owned` follows
            if call.batch is None:
                call.batch = await self._next_batch(call)
            if call.batch is not None:
                await self._send(call, call.batch)
            elif not call.done:
                return False  # the ledger's writer is behind
        except (BusAway, RevisionLost) as error:
            log.debug("events_not_sent", call_id=call.call_id, error=repr(error))
            return False
        except OSError as error:
            log.error("events_not_read", call_id=call.call_id, error=str(error))
            return False
        if call.done and self._calls.get(call.call_id) is call:
            self._busy.pop(call.call_id, None)
            if call.ended:
                del self._calls[call.call_id]
                await asyncio.to_thread(self._remove_note, call)
        return True

    async def _send(self, call: _Outgoing, batch: EventBatch) -> None:
        """Have one batch stored. Raises `BusAway` and `RevisionLost`."""
        if call.unsure and await self._is_stored(call, batch):
            call.unsure, call.batch = False, None
            return
        call.unsure = True  # until the answer is there
        call.revision = await self._journal.append(
            call.call_id, encode_batch(batch), last=call.revision
        )
        call.unsure, call.batch = False, None

    async def _is_stored(self, call: _Outgoing, batch: EventBatch) -> bool:
        """True if the batch needs no more sending. Raises `BusAway`."""
        message = await self._journal.last(call.call_id)
        call.revision = message.revision if message is not None else 0
        stored = _batch_in(message)
        if stored is None:
            return False
        if stored[1].epoch > batch.epoch:
            log.warning("events_fenced", call_id=call.call_id)
            self.forget(call.call_id)
            self._fenced(call.call_id)
            return True
        return stored[1].place == batch.place

    async def _next_batch(self, call: _Outgoing) -> EventBatch | None:
        """Take the next lines out of memory, or from the disk. Raises `OSError`."""
        if not call.lines and call.behind:
            lines = await asyncio.to_thread(
                self._read_lines, call.path(), call.offset, call.last_offset
            )
        else:
            lines = call.lines
        taken = _few(lines)
        if not taken or call.epoch is None:
            return None
        size = sum(map(len, taken))
        if lines is call.lines:
            del call.lines[: len(taken)]
            call.size -= size
            self._waiting -= size
        batch = EventBatch(
            call.call_id,
            call.epoch,
            call.number,
            len(taken),
            call.offset,
            call.offset + size,
            b"".join(line if len(line) <= LONGEST_LINE else _MISSING for line in taken),
        )
        call.number += len(taken)
        call.offset += size
        return batch

    def _read_lines(self, path: Path, begin: int, end: int | None = None) -> list[bytes]:
        """Return the whole lines of a ledger from `begin` on: all, or with `end` some of those up
        to there. Blocks. Raises `OSError`."""
        with self._vault.open(path) as file:
            file.seek(begin)
            if end is None:
                content = file.read()
            else:
                content = file.read(min(BATCH_BYTES, end - begin))
                if b"\n" not in content:  # a long line
                    content += file.read(end - begin - len(content))
        return content[: content.rfind(b"\n") + 1].splitlines(keepends=True)

    async def _note(self, call: _Outgoing) -> None:
        """Note the call on disk, best effort: its lines are sent even if it cannot be noted."""
        path, epoch = call.path(), call.epoch or 0
        if call.noted == (str(path), epoch) or call.notes is not None:
            return
        call.noted = str(path), epoch
        try:
            await asyncio.to_thread(self._notes.put, call.call_id, path, epoch)
        except (OSError, ValueError) as error:  # ValueError: a ledger elsewhere
            log.error("unsent_call_not_noted", call_id=call.call_id, error=str(error))

    def _remove_note(self, call: _Outgoing) -> None:
        try:
            (call.notes or self._notes).remove(call.call_id)
        except OSError as error:
            log.error("unsent_note_not_removed", call_id=call.call_id, error=str(error))

    def _wake(self, call: _Outgoing) -> None:
        self._busy[call.call_id] = None
        self._idle.clear()
        self._work.set()


def story_of(messages: Iterable[Message]) -> Story:
    """Return the lines in the messages of one call. A new owner goes on from what it has read, so
    what a former one wrote after that does not count."""
    lines: list[bytes] = []
    epoch = revision = 0
    for message in messages:
        revision = message.revision
        found = _batch_in(message)
        if found is None or found[1].epoch < epoch:
            continue
        batch = found[1]
        begin, missing = batch.first - 1, batch.first - 1 - len(lines)
        if missing > MOST_MISSING:
            log.error("events_unreadable", revision=revision, first=batch.first)
            continue
        if missing > 0:
            log.error("events_missing", call_id=batch.call_id, lines=missing)
            lines += [_MISSING] * missing
        elif batch.epoch > epoch:
            del lines[begin:]
        lines += batch.lines.splitlines(keepends=True)[len(lines) - begin :]
        epoch = batch.epoch
    return Story(tuple(lines), revision, epoch)


def _few(lines: list[bytes]) -> list[bytes]:
    """Return the first lines, as many as one batch has."""
    size = 0
    for count, line in enumerate(lines[:BATCH_LINES]):
        size += len(line)
        if size > BATCH_BYTES and count:
            return lines[:count]
    return lines[:BATCH_LINES]


def _batch_in(message: Message | None) -> tuple[Message, EventBatch] | None:
    if message is None:
        return None
    with suppress(WireUnreadable):
        return message, decode_batch(message.data)
    log.warning("events_unreadable", revision=message.revision)
    return None
