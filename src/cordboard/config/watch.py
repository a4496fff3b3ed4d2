"""Notices that a file has changed, in a thread of its own.

It watches the folders, not the files: editors and deployment tools replace a file by renaming a new
one over it, or change a link. After any event in a folder the content decides: the callback is
called only when a file's text differs from the last time. Events are left to settle until nothing
has happened for `QUIET_MS`; a file that does not exist (yet) is waited for.

    watch = FileWatch({path: digest}, changed)   # `changed` is called in the watch's thread
    watch.start()                                # raises OSError when it cannot watch
    watch.stop()                                 # waits for the thread: STEP_MS at most
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cordboard.config.files import content_of, digest_of

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

QUIET_MS = 300
"""Quiet time after which a file counts as completely written."""
LONGEST_MS = 3_000
"""Interval of the checks of a folder with constant events."""
MOST_KIB = 16_384
"""Larger files are not read; only the fact that a file has become so is reported."""
STEP_MS = 100
"""Interval at which the thread checks for `stop`."""


class FileWatch:
    """A few watched files, from `start` to `stop`."""

    def __init__(self, files: Mapping[Path, str | None], changed: Callable[[], None]) -> None:
        """`files`: for each the digest of the known content (`digest_of`); None = the content when
        the watch starts. `changed` must return at once."""
        self._digests = dict(files)
        self._changed = changed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def files(self) -> frozenset[Path]:
        return frozenset(self._digests)

    def start(self) -> None:
        """Begin to watch; changes since the digests were made count too. Raises `OSError`."""
        # Documented at watchfiles.helpmanual.io/api/rust_backend; `watchfiles.watch` begins to
        # watch at an unknown time, so that it would miss a change just before it.
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

        folders = [str(folder) for folder in _folders(self._digests)]
        try:
            notify = RustNotify(folders, False, False, 0, False, False)
        except WatchfilesRustInternalError as error:  # no free inotify instance
            raise OSError(str(error)) from error
        for path, digest in self._digests.items():
            if digest is None:
                self._digests[path] = _digest(path)
        thread = threading.Thread(
            target=self._follow, args=(notify,), name="cordboard-file-watch", daemon=True
        )
        thread.start()
        self._thread = thread  # only now: a stop meanwhile cannot wait for its end

    def stop(self) -> None:
        """End the thread and wait for it. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, notify: RustNotify) -> None:
        with notify:
            while self._differs() or self._something_happens(notify, 0):
                latest = time.monotonic() + LONGEST_MS / 1000
                while self._something_happens(notify, QUIET_MS) and time.monotonic() < latest:
                    pass
                if self._stop.is_set():
                    return
                now = self._now()
                if any(digest != self._digests[path] for path, digest in now.items()):
                    self._digests.update(now)
                    self._changed()

    def _something_happens(self, notify: RustNotify, within_ms: int) -> bool:
        """Wait for the next event in the folders; 0 = for ever."""
        return isinstance(notify.watch(LONGEST_MS, STEP_MS, within_ms, self._stop), set)

    def _now(self) -> dict[Path, str]:
        """Return the digests of the existing files."""
        found = {path: _digest(path) for path in self._digests}
        return {path: digest for path, digest in found.items() if digest is not None}

    def _differs(self) -> bool:
        return any(digest != self._digests[path] for path, digest in self._now().items())


def _folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders of the files, and of the targets of links among them. Raises `OSError`."""
    found = {folder for path in paths for folder in (path.absolute().parent, path.resolve().parent)}
    for folder in found:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no directory {folder}")
    return sorted(found)


def _digest(path: Path) -> str | None:
    """Return None when there is no file: between two names, or not yet. An unreadable file counts
    as a content of its own, so that it is reported once."""
    try:
        return digest_of(content_of(path, MOST_KIB))
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
