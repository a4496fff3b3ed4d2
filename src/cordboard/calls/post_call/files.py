"""The folder of jobs after calls: one file each, which is whole or not there, whatever happens.

    calls.directory/post_call/            0700
        1795284000123-<call id>-1.json    0600: a job that is to be done
        failed/                           jobs that were given up, and files that are no jobs
        .lock                             held by the engine that does the jobs

A file is written beside its place, synced to the disk and moved there. Everything here blocks: it
is called in threads.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from cordboard import private_files
from cordboard.calls.post_call.job import PostCallJob, decode

SUFFIX = ".json"
_LOCK = ".lock"
_HALF_WRITTEN = 60.0
"""Seconds after which a file that is not in its place never will be."""


class PostCallFiles:
    """The folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failed = directory / "failed"
        self._lock: int | None = None

    def prepare(self) -> None:
        """Make the folders. Raises `OSError`."""
        private_files.make_folder(self.failed)
        private_files.narrow(self.directory)

    def own(self) -> bool:
        """Whether this engine is the one that does the jobs; another one may be until it ends."""
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
        """Let another engine do them. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, *jobs: PostCallJob) -> None:
        """Write jobs, new or changed; they are on the disk when it returns. Raises `OSError`."""
        for job in jobs:
            path = self.directory / f"{job.name}{SUFFIX}"
            private_files.replace(path, job.encode(), sync=True)
        _sync_folder(self.directory)

    def remove(self, name: str) -> None:
        """A job is done."""
        (self.directory / f"{name}{SUFFIX}").unlink(missing_ok=True)
        _sync_folder(self.directory)

    def give_up(self, job: PostCallJob) -> None:
        """Keep a job among the failed ones. Raises `OSError`."""
        path = self.failed / f"{job.name}{SUFFIX}"
        private_files.replace(path, job.encode(), sync=True)
        _sync_folder(self.failed)
        self.remove(job.name)

    def has(self, name: str) -> bool:
        """Whether there is a job of that name, to be done or given up."""
        file = f"{name}{SUFFIX}"
        return (self.directory / file).exists() or (self.failed / file).exists()

    def names(self) -> set[str]:
        """The jobs that are there. Raises `OSError`."""
        return {path.name.removesuffix(SUFFIX) for path in self.directory.glob(f"*{SUFFIX}")}

    def read(self, name: str, now: float) -> PostCallJob | None:
        """A job; None when it is gone. A file that is no job is put among the failed ones, and
        raises `ValueError`."""
        path = self.directory / f"{name}{SUFFIX}"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            job = decode(content, now)
            if job.name != name:
                raise ValueError("the file has another name than its job")
        except ValueError:
            with suppress(FileNotFoundError):
                path.replace(self.failed / path.name)
            raise
        return job

    def count_failed(self) -> int:
        """How many were given up."""
        return sum(1 for _ in self.failed.glob(f"*{SUFFIX}"))

    def tidy(self) -> None:
        """Take away what a crash has left half-written. Only for who owns the folder; another
        engine may be writing just now."""
        before = time.time() - _HALF_WRITTEN
        for folder in (self.directory, self.failed):
            for path in folder.glob(f".*{private_files.TEMPORARY}"):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        path.unlink()


def _sync_folder(folder: Path) -> None:
    """So that a file's name is on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
