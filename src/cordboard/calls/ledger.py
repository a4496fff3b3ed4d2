"""The call's event log, written while the call runs: the only source for transcript and latency.

`Ledger.record` costs a few microseconds on the event loop: it encodes the event and hands the bytes
to the one writer thread of the process, which appends them to the call's file at once. A crash of
the engine loses only the lines that the thread has not yet written: a few milliseconds' worth.

A disk failure does not affect calls: lines wait in memory (`ledger_file`), and the thread retries
with every line and every 2 s. Ledgers count as written again when a new file can be
written and no lines wait any more.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from cordboard import private_files
from cordboard.calls.events import LedgerEvent, redacted
from cordboard.calls.ledger_file import LedgerFile, Write, encode_event
from cordboard.calls.open_calls import OpenCall, OpenCalls
from cordboard.privacy.redaction import CallRedaction
from cordboard.privacy.sealed_file import PLAIN, CallSeal, Vault

log = structlog.get_logger()

MOST_WAITING = 16_000_000
"""Maximum bytes of lines of all calls that wait for the disk."""
MOST_FILES = 10_000
"""Maximum ledgers of ended calls that wait for the disk."""
MOST_SHARED = 16_000_000
"""Maximum bytes of a file that several calls share: strangers can make it grow."""
PIECE_LINES = 200
"""Lines of a copied ledger that are written together."""
RETRY_SECONDS = 2.0
_TRIAL = b"\0" * 65_536
"""Trial content: larger than the rest of a block, to detect a full disk."""

Line = tuple[LedgerFile, bytes, int]
Job = Callable[[], object]


class LedgerWriter:
    """The thread that writes all ledgers. Create one per process; `close()` at the end."""

    def __init__(
        self,
        open_calls: OpenCalls | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
        most_waiting: int = MOST_WAITING,
        write: Write = os.write,
        vault: Vault = PLAIN,
    ) -> None:
        """`open_calls` stores the calls without an end; None = they are not stored. `vault`
        encrypts new ledgers, if it does."""
        self.vault = vault
        self._open_calls = open_calls
        self._retry_seconds = retry_seconds
        self._most_waiting = most_waiting
        self._write_bytes = write
        self._jobs: SimpleQueue[Line | Job | None] = SimpleQueue()
        self._open: set[LedgerFile] = set()
        self._noted: dict[LedgerFile, OpenCall] = {}
        self._stuck: dict[LedgerFile, None] = {}
        """The ledgers with lines that wait for the disk, the oldest first."""
        self._waiting = 0
        """Bytes that wait for the disk, of all ledgers."""
        self._full = Path()
        """The last shared file that has reached its maximum."""
        self._trial_folder = Path()
        self._retry_at = 0.0
        self._note_failed = False
        self.failures = 0
        """Lines that were not written at once (disk full, no permission); calls continued."""
        self.trouble = ""
        """Reason why ledgers cannot be written now; empty if they can."""
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="cordboard-ledger", daemon=True)
        self._thread.start()

    def file(self, path: Path) -> LedgerFile:
        """Return a ledger to `write` to; the file is created with its first line."""
        return LedgerFile(path, self._write_bytes, self.vault)

    def prepare(self, directory: Path) -> None:
        """Create the folder for ledgers and test writing there, so that `trouble` is known before
        the first call. Blocks."""
        self._jobs.put(partial(self._prepare, directory))
        self.flush()

    def write(self, file: LedgerFile, line: bytes, at_ms: int) -> None:
        """Append a line. Returns at once."""
        self._jobs.put((file, line, at_ms))

    def append(self, path: Path, line: bytes) -> None:
        """Add a line to a file that several calls share, best effort. Returns at once."""
        self._jobs.put(partial(self._append, path, line))

    def finish(self, file: LedgerFile) -> None:
        """Close this file once its lines are written; no further lines follow."""
        self._jobs.put(partial(self._finish, file))

    def note(self, file: LedgerFile, call: OpenCall) -> None:
        """Make the next engine end this call if this one is killed. Returns at once."""
        self._jobs.put(partial(self._note, file, call))

    def settle(self, file: LedgerFile) -> None:
        """Drop the note of a call that is over, once its follow-up is handed over. Returns at
        once."""
        self._jobs.put(partial(self._settle, file))

    def flush(self) -> None:
        """Wait until all lines so far are in their files, or wait for the disk. Blocks: do not call
        it on the event loop. Returns at once after `close`."""
        written = threading.Event()
        with self._closing:
            if self._closed:
                return
            self._jobs.put(written.set)
        written.wait()

    def close(self) -> None:
        """Write all waiting lines and stop. Blocks meanwhile; idempotent."""
        with self._closing:
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    # The thread.

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                if isinstance(job, tuple):
                    self._take(*job)
                else:
                    job()
            except Exception as error:  # thread border: the other ledgers continue
                log.exception("ledger_writer_failed", error=repr(error))
                self.failures += 1
        for file in tuple(self._stuck):
            if not self._try(file):
                self._give_up(file)
        for file in self._open:
            file.close()
        if self._open_calls is not None:
            self._open_calls.close()

    def _next(self) -> Line | Job | None:
        """Return the next job; in trouble, also a retry from time to time."""
        if not self.trouble:
            return self._jobs.get()
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            try:
                return self._jobs.get(timeout=wait)
            except Empty:
                pass
        return self._recover

    def _prepare(self, directory: Path) -> None:
        try:
            self._try_new_file(directory)
            if self._open_calls is not None:
                self._open_calls.prepare()
        except OSError as error:
            self._failed(directory, directory, error)

    def _take(self, file: LedgerFile, line: bytes, at_ms: int) -> None:
        before = file.waiting
        file.take(line, at_ms, room=self._waiting + len(line) <= self._most_waiting)
        self._waiting += file.waiting - before
        if not self._try(file):
            self.failures += 1

    def _append(self, path: Path, line: bytes) -> None:
        try:
            if not private_files.append(path, line, most=MOST_SHARED) and path != self._full:
                self._full = path
                log.error("file_is_full", path=str(path), most=MOST_SHARED)
        except (OSError, ValueError) as error:
            self.failures += 1
            self._failed(path, path.parent, error)

    def _finish(self, file: LedgerFile) -> None:
        file.finished = True
        if file not in self._stuck:
            self._close(file)
        elif len(self._stuck) > MOST_FILES:
            self._give_up(next(stuck for stuck in self._stuck if stuck.finished))

    def _try(self, file: LedgerFile) -> bool:
        """Write the waiting lines of a ledger. Return True on success."""
        before = file.waiting
        try:
            if not file.made:
                file.make()
                self._open.add(file)
                self._put_note(file)
            file.write()
        except (OSError, ValueError) as error:  # ValueError: a path that no system accepts
            self._failed(file.path, file.path.parent, error)
            self._stuck[file] = None
            return False
        finally:
            self._waiting += file.waiting - before
        self._stuck.pop(file, None)
        if file.finished:
            self._close(file)
        return True

    def _close(self, file: LedgerFile) -> None:
        file.close()
        self._open.discard(file)

    def _give_up(self, file: LedgerFile) -> None:
        log.error("ledger_incomplete", path=str(file.path))
        self._waiting -= file.waiting
        self._stuck.pop(file, None)
        self._close(file)

    def _failed(self, path: Path, folder: Path, error: Exception) -> None:
        """Log the first failure only, not every line of every call until it is repaired."""
        if not self.trouble:
            log.error("ledger_write_failed", path=str(path), error=str(error))
            self._retry_at = time.monotonic() + self._retry_seconds
        self._trial_folder = folder
        self.trouble = f"calls are not recorded: {error}"

    def _recover(self) -> None:
        """Test if ledgers can be written again."""
        self._retry_at = time.monotonic() + self._retry_seconds
        folder = self._trial_folder
        try:
            self._try_new_file(folder)
            for file in tuple(self._stuck):
                if not self._try(file):
                    self._try_new_file(folder)  # earlier ones may have filled the disk again
                    if file.finished:
                        self._give_up(file)  # new files can be written, but this one cannot
        except (OSError, ValueError) as error:
            self.trouble = f"calls are not recorded: {error}"
            return
        if not self._stuck:
            self.trouble = ""
            log.info("ledger_written_again")

    def _try_new_file(self, folder: Path) -> None:
        """Raise `OSError` if a new file cannot be written there."""
        path = folder / f".trial.{os.getpid()}.{threading.get_ident()}"
        path.unlink(missing_ok=True)  # left by an engine that was killed at that moment
        descriptor = private_files.create(path)
        try:
            left = len(_TRIAL)
            while left:
                left -= self._write_bytes(descriptor, _TRIAL[:left])
        finally:
            os.close(descriptor)
            path.unlink()

    # Notes of open calls.

    def _note(self, file: LedgerFile, call: OpenCall) -> None:
        self._noted[file] = call
        if file.made:
            self._put_note(file)

    def _put_note(self, file: LedgerFile) -> None:
        """Write the note, best effort: ledgers are written even if notes cannot be."""
        call = self._noted.get(file)
        if call is None or self._open_calls is None:
            return
        try:
            self._open_calls.put(file.path, call, file.seal)
            self._note_failed = False
        except OSError as error:
            if not self._note_failed:
                log.error("open_call_not_noted", path=str(file.path), error=str(error))
            self._note_failed = True

    def _settle(self, file: LedgerFile) -> None:
        if self._noted.pop(file, None) is not None and self._open_calls is not None:
            try:
                self._open_calls.remove(file.path)
            except OSError as error:
                log.error("open_call_not_removed", path=str(file.path), error=str(error))


class Ledger:
    """One call's log. `listener` also gets every event (live views, the demo)."""

    def __init__(
        self,
        writer: LedgerWriter,
        path: Path,
        started_at: float,
        listener: Callable[[int, LedgerEvent], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_listener_failed: Callable[[], None] = lambda: None,
        redaction: CallRedaction | None = None,
        copy_line: Callable[[bytes], None] | None = None,
    ) -> None:
        """`on_listener_failed` is called when the listener has raised; it gets no further
        events. `redaction` removes personal data from all that is recorded or listened to.
        `copy_line` gets every line as it goes to the file, before encryption."""
        self._redaction = redaction
        self._copy_line = copy_line
        self._on_listener_failed = on_listener_failed
        self._writer = writer
        self._started_at = started_at
        self._listener = listener
        self._clock = clock
        self._closed = False
        self._held: list[Callable[[], None]] | None = None
        """Writes that wait until it is known that the call goes on here; see `hold`."""
        self._file = writer.file(path)

    def hold(self) -> None:
        """Keep everything in memory from now on, until `release` or `discard`."""
        self._held = []

    async def release(self) -> None:
        """Write what was held, and what comes from now on."""
        while self._held:
            self._write_held(PIECE_LINES)
            await asyncio.sleep(0)  # other calls have their turn
        self._held = None

    def _write_held(self, most: int | None = None) -> None:
        held = self._held or []
        piece = held[:most]
        del held[:most]
        for write in piece:
            write()

    def discard(self) -> None:
        """Drop what is held, and what follows: the call does not go on here. No file is made."""
        self._held, self._closed = None, True

    @property
    def path(self) -> Path:
        """The file. A number may be added to its name until its first line is written."""
        return self._file.path

    @property
    def seal(self) -> CallSeal | None:
        """Encrypts the files of this call; None = they are plain."""
        return self._file.seal

    def ms(self, at: float) -> int:
        """Return the call time in ms of a loop time in seconds."""
        return round((at - self._started_at) * 1000)

    def record(self, event: LedgerEvent, at: float | None = None) -> None:
        """Write an event, stamped with `at` (loop time) or now. Never raises.

        Events after `close` are dropped: `call.ended` stays the last line.
        """
        if self._closed:
            log.debug("ledger_closed", event_type=event.type)
            return
        at_ms = self.ms(self._clock() if at is None else at)
        if self._held is not None:
            self._held.append(partial(self._put, at_ms, event))
        else:
            self._put(at_ms, event)

    def record_later(self, make: Callable[[], LedgerEvent]) -> None:
        """Write an event that is made only when a held ledger is released."""
        at_ms = self.ms(self._clock())
        if self._held is not None:
            self._held.append(lambda: self._put(at_ms, make()))
        elif not self._closed:
            self._put(at_ms, make())

    def _put(self, at_ms: int, event: LedgerEvent) -> None:
        if self._redaction is not None:
            event = redacted(event, self._redaction)
        line = encode_event(at_ms, event)
        self._writer.write(self._file, line, at_ms)
        if self._copy_line is not None:
            self._copy_line(line)
        self._tell(at_ms, event)

    def copy(self, lines: Sequence[bytes], at_ms: int) -> None:
        """Write whole lines of the same call's ledger in another engine. They are not reported:
        see `tell`. `at_ms` is the call time of the last one."""
        piece: list[bytes] = []
        for line in lines:
            piece.append(line)
            if len(piece) == PIECE_LINES:
                self._write(b"".join(piece), at_ms)
                piece.clear()
        if piece:
            self._write(b"".join(piece), at_ms)

    def _write(self, lines: bytes, at_ms: int) -> None:
        write = partial(self._writer.write, self._file, lines, at_ms)
        if self._held is not None:
            self._held.append(write)
        else:
            write()

    def tell(self, at_ms: int, event: LedgerEvent) -> None:
        """Report an event that is in the ledger to the listener. Never raises."""
        if self._held is not None:
            self._held.append(partial(self._tell, at_ms, event))
        else:
            self._tell(at_ms, event)

    def _tell(self, at_ms: int, event: LedgerEvent) -> None:
        if self._listener is None:
            return
        try:
            self._listener(at_ms, event)
        except Exception as error:  # border: a listener must not harm the call
            log.exception("ledger_listener_dropped", error=str(error))
            self._listener = None
            self._on_listener_failed()

    @property
    def redacts(self) -> bool:
        """True if personal data is removed from what is recorded."""
        return self._redaction is not None

    def redacted(self, data: Any) -> Any:
        """Return JSON data of the call as it may be written."""
        return data if self._redaction is None else self._redaction.data(data)

    def note(self, call: OpenCall) -> None:
        """Make the next engine end this call if this one is killed, until `settle`; `call` has
        everything it needs, completely each time."""
        note = partial(self._writer.note, self._file, call)
        if self._held is not None:
            self._held.append(note)
        else:
            note()

    def close(self) -> None:
        """Stop recording."""
        if self._closed:
            return
        self._write_held()
        self._held, self._closed = None, True
        self._writer.finish(self._file)

    def settle(self) -> None:
        """Drop the note: the ledger is closed, and the follow-up steps are handed over."""
        self._writer.settle(self._file)
