"""Notices that a file has changed, in a thread of its own.

Watched are the folders, not the files: editors and deployment tools replace a file by renaming a
new one over it, or turn a link. Whatever happens in a folder, the content decides: the callback is
called only when a file's text is another one than last time. What is being written is left alone
until nothing has happened for `QUIET_MS`; a file that is not there (yet) is waited for.

    watch = FileWatch({path: digest}, changed)   # `changed` is called in the watch's thread
    watch.start()                                # raises OSError when it cannot be watched
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
"""Within this time the writer of a half-written file goes on."""
LONGEST_MS = 3_000
"""A folder in which something happens all the time is looked at so often all the same."""
MOST_KIB = 16_384
"""A file that is larger than this is not read; that it has become so is noticed."""
STEP_MS = 100
"""How often the thread looks whether it is to stop."""


class FileWatch:
    """A few watched files, from `start` to `stop`."""

    def __init__(self, files: Mapping[Path, str | None], changed: Callable[[], None]) -> None:
        """`files`: for each the digest of the content that needs no notice (`digest_of`); None =
        what it holds when the watch is started. `changed` must return at once."""
        self._digests = dict(files)
        self._changed = changed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def files(self) -> frozenset[Path]:
        return frozenset(self._digests)

    def start(self) -> None:
        """Begin to watch; a change since a digest was made is noticed too. Raises `OSError`."""
        # Documented at watchfiles.helpmanual.io/api/rust_backend; `watchfiles.watch` begins to
        # watch at an unknown time, so that a change just before it would be missed.
        from watchfiles._rust_notify import RustNotify

        folders = [str(folder) for folder in _folders(self._digests)]
        notify = RustNotify(folders, False, False, 0, False, False)
        for path, digest in self._digests.items():
            if digest is None:
                self._digests[path] = _digest(path)
        thread = threading.Thread(
            target=self._follow, args=(notify,), name="cordboard-file-watch", daemon=True
        )
        thread.start()
        self._thread = thread  # only now: a stop meanwhile cannot wait for its end

    def stop(self) -> None:
        """End the thread and wait for it. Harmless twice."""
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
        """Wait for the next thing that happens in the folders; 0 = for ever."""
        return isinstance(notify.watch(LONGEST_MS, STEP_MS, within_ms, self._stop), set)

    def _now(self) -> dict[Path, str]:
        """The digests of the files that are there."""
        found = {path: _digest(path) for path in self._digests}
        return {path: digest for path, digest in found.items() if digest is not None}

    def _differs(self) -> bool:
        return any(digest != self._digests[path] for path, digest in self._now().items())


def _folders(paths: Iterable[Path]) -> list[Path]:
    """Where the files are, and where links among them lead. Raises `OSError`."""
    found = {folder for path in paths for folder in (path.absolute().parent, path.resolve().parent)}
    for folder in found:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no directory {folder}")
    return sorted(found)


def _digest(path: Path) -> str | None:
    """None when there is no file: between two names, or not yet. A file that cannot be read counts
    as a content, so that it is noticed once."""
    try:
        return digest_of(content_of(path, MOST_KIB))
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
