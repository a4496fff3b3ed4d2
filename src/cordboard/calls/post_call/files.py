"""The folder of post-call jobs: one file each, which is either complete or absent.

    calls.directory/post_call/            0700
        1795284000123-<call id>-1.json    0600: a pending job
        failed/                           jobs that were given up, and files that are not jobs
        .lock                             held by the engine that runs the jobs

A file is written under a temporary name, synced to the disk and renamed. All functions here block:
call them in threads.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from cordboard import private_files
from cordboard.calls.post_call.job import PostCallJob, decode
from cordboard.privacy.sealed_file import PLAIN, Vault

SUFFIX = ".json"
_LOCK = ".lock"
_HALF_WRITTEN = 60.0
"""Seconds after which a temporary file counts as abandoned."""


class PostCallFiles:
    """The folder and its files."""

    def __init__(self, directory: Path, vault: Vault = PLAIN) -> None:
        self.directory = directory
        self._vault = vault
        self.failed = directory / "failed"
        self._lock: int | None = None

    def prepare(self) -> None:
        """Create the folders. Raises `OSError`."""
        private_files.make_folder(self.failed)
        private_files.narrow(self.directory)

    def own(self) -> bool:
        """Return True if this engine runs the jobs; False while another engine holds the lock."""
        if self._lock is not None:
            return True
        descriptor = private_files.open_lock(self.directory / _LOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def disown(self) -> None:
        """Release the lock for another engine. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, *jobs: PostCallJob) -> None:
        """Write new or changed jobs; they are on the disk on return. Raises `OSError`."""
        for job in jobs:
            path = self.directory / f"{job.name}{SUFFIX}"
            private_files.replace(path, self._content(job), sync=True)
        _sync_folder(self.directory)

    def remove(self, name: str) -> None:
        """Remove a job that is done."""
        (self.directory / f"{name}{SUFFIX}").unlink(missing_ok=True)
        _sync_folder(self.directory)

    def give_up(self, job: PostCallJob) -> None:
        """Move a job to the failed ones. Raises `OSError`."""
        path = self.failed / f"{job.name}{SUFFIX}"
        private_files.replace(path, self._content(job), sync=True)
        _sync_folder(self.failed)
        self.remove(job.name)

    def _content(self, job: PostCallJob) -> bytes:
        plain = job.encode()
        return self._vault.seal_by(job.key).whole("job", plain) if job.key else plain

    def has(self, name: str) -> bool:
        """True if a job of that name is pending or given up."""
        file = f"{name}{SUFFIX}"
        return (self.directory / file).exists() or (self.failed / file).exists()

    def names(self) -> set[str]:
        """Return the names of the pending jobs. Raises `OSError`."""
        return {path.name.removesuffix(SUFFIX) for path in self.directory.glob(f"*{SUFFIX}")}

    def read(self, name: str, now: float) -> PostCallJob | None:
        """Return a job; None if it has disappeared. A file that is not a job is moved to the failed
        ones and raises `ValueError`."""
        path = self.directory / f"{name}{SUFFIX}"
        try:
            content = self._vault.plain(path.read_bytes())
        except FileNotFoundError:
            return None
        try:
            job = decode(content, now)
            if job.name != name:
                raise ValueError("the file's name is not that of its job")
        except ValueError:
            with suppress(FileNotFoundError):
                path.replace(self.failed / path.name)
            raise
        return job

    def count_failed(self) -> int:
        """Return the number of jobs that were given up."""
        return sum(1 for _ in self.failed.glob(f"*{SUFFIX}"))

    def tidy(self) -> None:
        """Remove incomplete files that a crash has left. Only for the owner of the folder; another
        engine may be writing now."""
        before = time.time() - _HALF_WRITTEN
        for folder in (self.directory, self.failed):
            for path in folder.glob(f".*{private_files.TEMPORARY}"):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        path.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that a file's name is on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
