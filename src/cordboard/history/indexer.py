"""Keeps the index of calls equal to the ledger files.

It follows the files, not the events of the engine, so that index and truth cannot differ: a file
whose size or time has changed is read again, as a whole, because the meaning of a line depends on
those before it (9.5 kB on average). A pass costs little when nothing happens: folders whose own
time is unchanged are not listed, and in them only the ledgers of calls that had not ended are
looked at.

A file that cannot be read (a permission, a fault of the disk or the network, a key that is not
there) is not lost: it is tried again, and counted until then, with the rows that it had. Only a
call whose key was erased on purpose is left out.

Everything here blocks. `keeper.IndexKeeper` does it beside the calls.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import structlog

from cordboard.calls.ledger_file import REFUSED_OFFERS
from cordboard.errors import HistoryError, KeyMissing
from cordboard.history.call_files import DAYS, LEDGERS, blank_refused, delete_call, read_stored
from cordboard.history.erased import ErasedCalls, key_of
from cordboard.history.ledger_rows import call_of, refused_in
from cordboard.history.notes import NONE, SUFFIX, Notes, notes_path, read_notes
from cordboard.history.query import CallRow
from cordboard.history.store import FileState, HistoryStore, IndexedCall, IndexedFile
from cordboard.privacy.sealed_file import PLAIN, Vault, head_of

log = structlog.get_logger()

BATCH = 200
"""Ledgers in one transaction."""
GENTLE_BATCH = 20
"""Ledgers in one transaction beside calls: some ms without a pause."""
GENTLE_PAUSE = 0.001
"""Seconds after each ledger beside calls. Python's threads take turns each 5 ms: without pauses,
every frame of every call would wait that long."""
MANY = 1_000
"""Files of days that the index lacks, from which a process of its own reads them: beside calls,
a thread takes some ms for each."""
_LISTED = 100
"""Files of a folder that are looked at without a pause beside calls: 1 ms."""
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that are not the file's: it must be read at the next pass."""
_SETTLED_NS = 2_000_000_000
"""Age of a folder's time from which another change cannot have the same time."""


RETRY_SECONDS = 15.0
"""Pause before unreadable files are tried again; it doubles up to `MOST_RETRY_SECONDS`."""
MOST_RETRY_SECONDS = 600.0
_UNREAD = FileState(0, 0)


class Indexer:
    """Brings one store up to date with one directory of calls. Not for several threads."""

    def __init__(
        self,
        directory: Path,
        store: HistoryStore,
        stopped: Callable[[], bool] = lambda: False,
        *,
        gently: bool = False,
        vault: Vault = PLAIN,
    ) -> None:
        """`stopped` ends a pass early; the next one continues. `gently`: beside calls. `vault`
        decrypts encrypted calls; their words are not in the index."""
        self._vault = vault
        self._directory = directory
        self._store = store
        self._stopped = stopped
        self._erased = ErasedCalls(directory)
        self._index = ""
        """The index in which the last pass has begun."""
        self.complete = ""
        """The index that has had all calls at the end of a pass; empty until then."""
        self._days: set[str] = set()
        """Folders that are in it."""
        self._settled: dict[str, int] = {}
        """Folders that are completely in it, and their time."""
        self._known: dict[str, dict[str, FileState]] = {}
        """States of the two newest days, which are looked at most: 10,000 rows take 50 ms."""
        self._batch: list[IndexedFile] = []
        self._most = GENTLE_BATCH if gently else BATCH
        self._pause = GENTLE_PAUSE if gently else 0.0
        self._recheck = False
        """True while files that were read before may be those of erased calls."""
        self.unreadable: Mapping[str, str] = {}
        """Reason for each file that could not be read, at the end of the last pass."""
        self._retry_at = 0.0
        """Time from which unreadable files are tried again, in monotonic seconds."""
        self._retry_pause = RETRY_SECONDS
        self._retry_wanted = True
        self._retrying = False
        self._reported: set[str] = set()
        """Unreadable files that are in the log."""

    def is_far_behind(self) -> bool:
        """True before the first pass over an index that lacks many ledgers: a new one, or that of
        an engine that was off for days. Raises `HistoryError`, `OSError`."""
        if self._store.open() == self._index:
            return False
        lacking = self._folders().keys() - set(self._store.days())
        ledgers = 0
        for day in lacking:
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                ledgers += len(os.listdir(self._directory / day))  # noqa: PTH208 - names alone
            if ledgers >= MANY:
                return True
        return False

    def catch_up(self) -> int:
        """Make one pass; return the number of files that were read. Raises `HistoryError`,
        `OSError`."""
        index = self._store.open()
        if self._erased.refresh() or index != self._index:
            self._index = index
            self.complete = ""
            self._settled.clear()
            self._days = set(self._store.days())
            self._known.clear()
            self._recheck = self._retry_wanted = True
        self._batch.clear()
        self._retrying = self._retry_wanted or time.monotonic() >= self._retry_at
        self._retry_wanted = False
        began, days = time.time_ns(), self._folders()
        for day in self._days - days.keys():
            self._forget(set(self._store.states(day)))
        count, settled = 0, {}
        open_files = set(self._store.open_files())
        newest_first = sorted(days, reverse=True)
        newest = newest_first[:2]  # a day goes on for some time after midnight
        self._known = {day: self._known.get(day) or dict(self._store.states(day)) for day in newest}
        open_files.update(f"{day}/{REFUSED_OFFERS}" for day in newest)
        for day in newest_first:
            modified = days[day]
            try:
                for file, state in self._changed(day, modified, open_files):
                    self._read(file, state)
                    count += 1
                    if self._stopped():
                        return count
            except FileNotFoundError:  # the folder was deleted meanwhile
                continue
            if began - modified > _SETTLED_NS:
                settled[day] = modified
        self._flush()
        self._days, self._settled, self._recheck = set(days), settled, False
        self.complete = index
        self._count_unreadable()
        return count

    def retry_now(self) -> None:
        """Try unreadable files again at the next pass. By any thread."""
        self._retry_wanted = True

    def _count_unreadable(self) -> None:
        self.unreadable = self._store.unreadable()
        self._reported &= self.unreadable.keys()
        if not self.unreadable:
            self._retry_pause = RETRY_SECONDS
        elif self._retrying:
            self._retry_at = time.monotonic() + self._retry_pause
            self._retry_pause = min(2 * self._retry_pause, MOST_RETRY_SECONDS)

    def _folders(self) -> dict[str, int]:
        """Return the folders of days, and the time of the last change of each."""
        found: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                if fnmatchcase(entry.name, DAYS) and entry.is_dir():
                    with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                        found[entry.name] = entry.stat().st_mtime_ns
        return found

    def _changed(
        self, day: str, modified: int, open_files: set[str]
    ) -> Iterator[tuple[str, FileState]]:
        if self._settled.get(day) == modified:
            yield from self._changed_open(day, open_files)
        else:
            yield from self._changed_in(self._directory / day, self._states(day))

    def _states(self, day: str) -> Mapping[str, FileState]:
        return self._known[day] if day in self._known else self._store.states(day)

    def rebuild(self, *, take_over: bool = False) -> int:
        """Make the index anew; return the number of files. `take_over`: as of
        `HistoryStore.recreate`."""
        self.complete = ""
        self._store.recreate(take_over=take_over)
        return self.catch_up()

    def scrub(self) -> None:
        """Remove the remains of removed calls, if there may be any."""
        if self._store.needs_scrub():
            self._store.scrub()

    def _changed_in(
        self, folder: Path, known: Mapping[str, FileState]
    ) -> Iterator[tuple[str, FileState]]:
        """Yield the new and changed ledgers of a day; remove those that are gone."""
        ledgers: dict[str, os.stat_result] = {}
        notes: dict[str, int] = {}
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number % _LISTED == 0:
                    self._breathe()
                if entry.name.startswith("."):
                    continue
                with contextlib.suppress(FileNotFoundError, UnicodeEncodeError):
                    entry.name.encode()  # databases hold no other names
                    if entry.name.endswith(LEDGERS):
                        ledgers[entry.name] = entry.stat(follow_symlinks=False)
                    elif entry.name.endswith(SUFFIX):
                        name = entry.name.removesuffix(SUFFIX) + LEDGERS
                        notes[name] = entry.stat(follow_symlinks=False).st_mtime_ns
        here = {f"{folder.name}/{name}" for name in ledgers}
        self._forget(set(known) - here)
        for number, (name, found) in enumerate(ledgers.items()):
            if number % _LISTED == 0:
                self._breathe()
            file, before = f"{folder.name}/{name}", known.get(f"{folder.name}/{name}")
            state = FileState(
                found.st_size,
                found.st_mtime_ns,
                notes.get(name, 0),
                before is not None and before.is_open,
            )
            if not stat.S_ISREG(found.st_mode) or self._waits(before):
                continue
            path = self._directory / file
            if state != before or (
                self._recheck
                and (name == REFUSED_OFFERS or key_of(path, path.stem) in self._erased)
            ):
                yield file, state

    def _changed_open(self, day: str, open_files: set[str]) -> Iterator[tuple[str, FileState]]:
        here = {file for file in open_files if file.startswith(f"{day}/")}
        if not here:
            return
        known = self._states(day)
        for file in sorted(file for file in here if file in known):
            before = known[file]
            if self._waits(before):
                continue
            try:
                found = (self._directory / file).lstat()
            except FileNotFoundError:
                continue  # the folder's time has changed too: the next pass removes it
            state = FileState(found.st_size, found.st_mtime_ns, before.notes_ns, before.is_open)
            if state != before:
                yield file, state

    def _waits(self, before: FileState | None) -> bool:
        """True for a file that could not be read, until it is tried again."""
        return before is not None and bool(before.unreadable) and not self._retrying

    def _read(self, file: str, state: FileState) -> None:
        """Read a ledger, unless it has disappeared."""
        path = self._directory / file
        if path.name == REFUSED_OFFERS and self._read_more(file, state):
            return
        try:
            raw = read_stored(path)
            state = FileState(len(raw), state.modified_ns, state.notes_ns) if raw else state
            content = self._vault.plain(raw)
            head = head_of(raw)
            seal = self._vault.seal_by(head[0].key) if head is not None else None
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in _SHORT:
                raise
            self._leave(file, state, error)
            return
        if path.name == REFUSED_OFFERS:
            self._put(IndexedFile(file, state, self._refused(file, content)))
            return
        call, is_open = call_of(file, content, self._notes(path) if state.notes_ns else NONE)
        if call is not None and self._is_erased(call.row):
            log.warning("erased_call_deleted_again", file=file)
            try:
                list(delete_call(self._directory, path, content, self._vault))
            except OSError as error:
                log.error("erased_call_not_deleted", file=file, error=str(error))
                self._leave(file, state, error)
                return
            self._forget({file})
            return
        if call is not None and seal is not None:
            call = replace(call, caller_words=(), agent_words=(), seal=seal)
        state = FileState(state.size, state.modified_ns, state.notes_ns, is_open)
        self._put(IndexedFile(file, state, [call] if call is not None else []))

    def _leave(self, file: str, state: FileState, error: OSError) -> None:
        """Note a file that cannot be read, to try it again; the index keeps its rows."""
        path = self._directory / file
        if isinstance(error, KeyMissing) and key_of(path, path.stem) in self._erased:
            self._put(IndexedFile(file, state, []))  # as it shall be
            return
        if file not in self._reported:
            self._reported.add(file)
            log.warning("ledger_not_indexed", file=file, error=str(error))
        reason = error.strerror or str(error)
        self._put(IndexedFile(file, replace(_UNREAD, unreadable=reason), []))

    def _read_more(self, file: str, state: FileState) -> bool:
        """Read only the new lines of a file of refused offers, which strangers can make long.
        Return False if it must be read whole: lines may have been blanked, or it is another file.
        """
        known = self._known.get(_day(file), {}).get(file)
        if self._recheck or known is None or not 0 < known.size < state.size:
            return False
        try:
            with (self._directory / file).open("rb") as opened:
                opened.seek(known.size - 1)
                before, content = opened.read(1), opened.read(state.size - known.size)
        except OSError:
            return False  # the whole reading says why
        whole = content[: content.rfind(b"\n") + 1]
        if before != b"\n" or not whole:
            return False
        state = FileState(known.size + len(whole), state.modified_ns, state.notes_ns)
        self._put(IndexedFile(file, state, refused_in(file, whole), known.size))
        return True

    def _is_erased(self, row: CallRow) -> bool:
        return self._erased.covers(key_of(Path(row.file), row.id), row.started_ms)

    def _refused(self, file: str, content: bytes) -> list[IndexedCall]:
        """Return the refused offers of a file; blank the lines of those that were erased."""
        offers = refused_in(file, content)
        erased = {each.row.id for each in offers if self._is_erased(each.row)}
        if not erased:
            return offers
        blank_refused(self._directory / file, lambda line: line.get("call_id") in erased)
        self._forget({file})
        return [each for each in offers if each.row.id not in erased]

    def _notes(self, ledger: Path) -> Notes:
        try:
            return read_notes(ledger, self._vault)[0]
        except (HistoryError, OSError) as error:
            log.warning("notes_not_read", file=str(notes_path(ledger)), error=str(error))
            return NONE

    def _put(self, file: IndexedFile) -> None:
        self._batch.append(file)
        if len(self._batch) >= self._most:
            self._flush()
        self._breathe()

    def _breathe(self) -> None:
        if self._pause:
            time.sleep(self._pause)

    def _flush(self) -> None:
        if self._batch:
            left_out = self._store.put(self._batch)
            for each in self._batch:
                if (known := self._known.get(_day(each.file))) is not None:
                    known[each.file] = _UNREAD if each.file in left_out else each.state
            self._batch.clear()

    def _forget(self, files: set[str]) -> None:
        if files:
            self._store.remove(list(files))
            for file in files:
                self._known.get(_day(file), {}).pop(file, None)


def _day(file: str) -> str:
    return file.partition("/")[0]
