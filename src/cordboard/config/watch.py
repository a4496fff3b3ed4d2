"""Notices that the configuration file has changed, in a thread of its own.

Watched is the folder, not the file: editors and deployment tools replace a file by renaming a new
one over it, or turn a link. Whatever happens in the folder, the content decides: the callback is
called only when the text is another one than last time. A file that is being written is left alone
until nothing has happened for `QUIET_MS`; one that is gone is waited for.

    watch = FileWatch(path, digest, changed)     # `changed` is called in the watch's thread
    watch.start()                                # raises OSError when it cannot be watched
    watch.stop()                                 # waits for the thread: STEP_MS at most
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cordboard.config.load import digest_of

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

QUIET_MS = 300
"""Within this time the writer of a half-written file goes on."""
LONGEST_MS = 3_000
"""A folder in which something happens all the time is looked at so often all the same."""
STEP_MS = 100
"""How often the thread looks whether it is to stop."""


class FileWatch:
    """One watched file, from `start` to `stop`."""

    def __init__(self, path: Path, digest: str, changed: Callable[[], None]) -> None:
        """`digest`: of the content that needs no notice. `changed` must return at once."""
        self._path = path
        self._digest = digest
        self._changed = changed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch; a change since the digest was made is noticed too. Raises `OSError`."""
        # Documented at watchfiles.helpmanual.io/api/rust_backend; `watchfiles.watch` begins to
        # watch at an unknown time, so that a change just before it would be missed.
        from watchfiles._rust_notify import RustNotify

        folders = {self._path.absolute().parent, self._path.resolve().parent}
        for folder in folders:
            if not folder.is_dir():
                raise FileNotFoundError(f"there is no directory {folder}")
        notify = RustNotify([str(folder) for folder in folders], False, False, 0, False, False)
        self._thread = threading.Thread(
            target=self._follow, args=(notify,), name="cordboard-config-watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it. Harmless twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, notify: RustNotify) -> None:
        with notify:
            self._look()
            while self._something_happens(notify, 0):
                latest = time.monotonic() + LONGEST_MS / 1000
                while self._something_happens(notify, QUIET_MS) and time.monotonic() < latest:
                    pass
                if self._stop.is_set():
                    return
                self._look()

    def _something_happens(self, notify: RustNotify, within_ms: int) -> bool:
        """Wait for the next thing that happens in the folder; 0 = for ever."""
        return isinstance(notify.watch(LONGEST_MS, STEP_MS, within_ms, self._stop), set)

    def _look(self) -> None:
        try:
            digest = digest_of(self._path.read_bytes())
        except OSError:
            return  # between two names; when it is back, something happens
        if digest != self._digest:
            self._digest = digest
            self._changed()
