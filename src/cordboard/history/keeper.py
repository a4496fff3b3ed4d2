"""Keeps the index of calls up to date while the engine runs.

A thread follows the ledgers, in small pieces with pauses. It takes some ms for each, and makes
frames late, so that a process of its own reads a large backlog: it has another interpreter and a
lower priority, no more rights than the engine, and ends with it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from cordboard.errors import HistoryError, IndexDamaged, IndexUnavailable
from cordboard.history.indexer import Indexer
from cordboard.history.measured import Measured
from cordboard.history.store import HistoryStore
from cordboard.privacy.sealed_file import PLAIN, Vault

log = structlog.get_logger()

CATCH_UP_SECONDS = 30.0
"""Longest wait for the index to be brought up to date."""
INTERVAL = 5.0
"""Seconds between two passes beside the calls."""
_PROGRAM = f"from {__name__} import main; main()"
_NICE = 10
_STARTED_BY = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "TMPDIR", "TZ")


class IndexKeeper:
    """Keeps an index up to date beside the calls: one thread, in small pieces with pauses.

    The thread has the priority of all others: one of low priority that holds Python's lock while
    another program has its processor would stop the calls (108 ms, measured on a busy machine).
    """

    def __init__(
        self,
        directory: Path,
        store: HistoryStore,
        on_internal_error: Callable[[str], None] = lambda _: None,
        *,
        interval: float = INTERVAL,
        vault: Vault = PLAIN,
    ) -> None:
        """`on_internal_error(where)` counts an unexpected error. `vault` decrypts calls."""
        self.vault = vault
        self._on_internal_error = on_internal_error
        self._stop = threading.Event()
        self._wake = threading.Event()
        self.directory = directory
        self.store = store
        """For readers, in any thread."""
        self._indexer = Indexer(directory, store, self._stop.is_set, gently=True, vault=vault)
        self._process = IndexProcess(directory, store, vault)
        self._interval = interval
        self._begun = 0
        self._over = 0
        """Number of the last pass that is over, completed or not."""
        self._passed = threading.Condition()
        self.passes = 0
        """Completed passes: after the next one, the index has all that is on disk now."""
        self.trouble = ""
        """Reason why the index is not kept up to date; empty if it is."""
        self._thread = threading.Thread(target=self._work, name="cordboard-history", daemon=True)

    def start(self) -> None:
        """Begin. Returns at once."""
        self._thread.start()

    def look_now(self) -> None:
        """Make the next pass begin now: after a change of notes, or an erasure."""
        self._wake.set()

    def recent(self, since_ms: int) -> Sequence[tuple[str, Measured]] | None:
        """Return the calls that have ended since then (`HistoryStore.recent`), by any thread; None
        while the index may lack some: it is being made, or cannot be kept up to date."""
        complete = self._indexer.complete
        if not complete or self.trouble or self._stop.is_set():
            return None
        try:
            if self.store.open() != complete:
                return None
            found = self.store.recent(since_ms)
            is_same = self._indexer.complete == self.store.open() == complete
        except HistoryError:
            return None
        return found if is_same else None

    @property
    def up_to_date(self) -> bool:
        """True if the index has all that was on disk some seconds ago."""
        return bool(self.passes) and not self.trouble

    @property
    def unreadable(self) -> int:
        """Files that cannot be read: their calls are not in the index, or not as they are now."""
        return len(self._indexer.unreadable)

    @property
    def problem(self) -> str:
        """The problem of the index; empty if it has all calls."""
        found = self._indexer.unreadable
        if self.trouble or not found:
            return self.trouble
        return f"{len(found)} calls cannot be read: {next(iter(found.values()))}"

    def catch_up(self, timeout: float = CATCH_UP_SECONDS) -> None:
        """Wait until the index has all that is on disk now. Blocks. Raises `IndexUnavailable` if
        that fails or takes longer."""
        with self._passed:
            wanted = self._begun + 1
            self._indexer.retry_now()
            self._wake.set()
            done = self._passed.wait_for(
                lambda: self._over >= wanted or self._stop.is_set(), timeout
            )
        if self._stop.is_set() or self.trouble or not done:
            reason = self.trouble or ("it is closed" if done else "that takes too long")
            raise IndexUnavailable(f"the index of calls was not brought up to date: {reason}")

    def close(self) -> None:
        """Stop after the file in hand, and disconnect. Blocks meanwhile; idempotent."""
        self._stop.set()
        self._wake.set()
        self._process.close()
        if self._thread.ident is not None:
            self._thread.join()
        with self._passed:
            self._passed.notify_all()
        self.store.close()

    def _work(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            self._begun += 1
            self._pass()
            with self._passed:
                self._over = self._begun
                self._passed.notify_all()
            if not self._stop.is_set():
                self._wake.wait(self._interval)

    def _pass(self) -> None:
        """Thread border: a failure is logged once, and tried again at the next pass."""
        try:
            try:
                self._catch_up()
                self._indexer.scrub()
            except IndexDamaged as error:
                log.warning("history_index_rebuilt", reason=str(error))
                self.trouble = f"it is being made anew: {error}"
                self.store.recreate()
                self._catch_up()
        except (HistoryError, OSError) as error:
            if str(error) != self.trouble:
                log.error("history_not_indexed", error=str(error))
            self.trouble = str(error)
        except Exception as error:  # thread border: calls continue, and so does the next pass
            log.exception("history_not_indexed", error=repr(error))
            self._on_internal_error("history")
            self.trouble = repr(error)
        else:
            self.trouble = ""
            self.passes += 1

    def _catch_up(self) -> None:
        """Make one pass; many ledgers are read by a process of their own before it."""
        if self._indexer.is_far_behind() and (status := self._process.catch_up()):
            log.warning("history_process_failed", status=status)  # the thread takes its time
        self._indexer.catch_up()


class IndexProcess:
    """The engine's side: starts a process for one pass, and can end it."""

    def __init__(self, directory: Path, store: HistoryStore, vault: Vault) -> None:
        self._work = directory, store, vault
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None

    def catch_up(self) -> int:
        """Bring the index up to date with the ledgers. Blocks until that is done, or `close` is
        called. Return the exit status of the process; if it is not 0, stderr has the reason."""
        with self._lock:
            if self._closed:
                return 0
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=sys.stderr,
                env={name: os.environ[name] for name in _STARTED_BY if name in os.environ},
                start_new_session=True,  # Ctrl-C in a terminal is for the engine
            )
        self._process.communicate(pickle.dumps(self._work))
        return 0 if self._closed else self._process.returncode

    def close(self) -> None:
        """End the process for good; what it has written stays. By any thread; idempotent."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()


def main() -> None:
    """Be the process."""
    os.nice(_NICE)
    directory, store, vault = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the engine
    engine = os.getppid()
    store.open()
    Indexer(directory, store, lambda: os.getppid() != engine, vault=vault).catch_up()
    store.close()
