"""The call's event log, written while the call runs: the only source for transcript and latency.

`Ledger.record` costs a few microseconds on the event loop: it encodes the event and hands the
bytes to the one writer thread of the process, which appends them to the call's file at once. A
crash of the engine loses what that thread has not yet written: a few milliseconds' worth.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import orjson
import structlog

from cordboard.calls.events import LedgerEvent

log = structlog.get_logger()

NOT_RECORDED = {"not_recorded": "nested too deep"}
"""Stands for what an agent made up that no JSON can hold."""


class LedgerWriter:
    """The thread that writes all ledgers. Create one per process; `close()` at the end."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Path, bytes | None] | threading.Event | None] = SimpleQueue()
        self._files: dict[Path, BinaryIO] = {}
        self.failures = 0
        """Writes that failed (disk full, no permission); the calls went on."""
        self.trouble = ""
        """Why ledgers cannot be written now; empty when the last write went well."""
        self._thread = threading.Thread(target=self._work, name="cordboard-ledger", daemon=True)
        self._thread.start()

    def prepare(self, directory: Path) -> None:
        """Make the folder for ledgers, so that `trouble` is known before the first call. Blocks."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
        except OSError as error:
            self._failed(directory, error)

    def write(self, path: Path, line: bytes) -> None:
        """Append a line. Returns at once."""
        self._jobs.put((path, line))

    def finish(self, path: Path) -> None:
        """Nothing more comes for this file."""
        self._jobs.put((path, None))

    def flush(self) -> None:
        """Wait until everything handed over so far is in its file. Blocks: not on the loop."""
        written = threading.Event()
        self._jobs.put(written)
        written.wait()

    def close(self) -> None:
        """Write what is waiting and stop. Blocks for that long; harmless twice."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, threading.Event):
                job.set()
                continue
            path, line = job
            try:
                self._append(path, line)
            except Exception as error:  # noqa: BLE001 - thread border: the other ledgers go on
                self.failures += 1
                self._failed(path, error)
        for file in self._files.values():
            file.close()

    def _failed(self, path: Path, error: Exception) -> None:
        """Say it once, not for each line of each call until it is mended."""
        if not self.trouble:
            log.error("ledger_write_failed", path=str(path), error=str(error))
        self.trouble = f"calls are not recorded: {error}"

    def _append(self, path: Path, line: bytes | None) -> None:
        if line is None:
            file = self._files.pop(path, None)
            if file is not None:
                file.close()
            return
        if path not in self._files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = path.open("ab", buffering=0)
        self._files[path].write(line)
        self.trouble = ""


class Ledger:
    """One call's log. `listener` gets every event as well (live views, the demo)."""

    def __init__(
        self,
        writer: LedgerWriter,
        path: Path,
        started_at: float,
        listener: Callable[[int, LedgerEvent], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_listener_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_listener_failed`: the listener has raised something, and gets nothing any more."""
        self._on_listener_failed = on_listener_failed
        self._writer = writer
        self._started_at = started_at
        self._listener = listener
        self._clock = clock
        self._closed = False
        self.path = path

    def ms(self, at: float) -> int:
        """Call time in ms of a loop time in seconds."""
        return round((at - self._started_at) * 1000)

    def record(self, event: LedgerEvent, at: float | None = None) -> None:
        """Write the event down, stamped with `at` (loop time) or now. Never raises.

        What comes after `close` is dropped: `call.ended` stays the last line.
        """
        if self._closed:
            log.debug("ledger_closed", event_type=event.type)
            return
        at_ms = self.ms(self._clock() if at is None else at)
        self._writer.write(
            self.path, _encode({"at_ms": at_ms, "type": event.type, **event.fields()})
        )
        if self._listener is None:
            return
        try:
            self._listener(at_ms, event)
        except Exception as error:  # border: who looks on must not harm the call
            log.exception("ledger_listener_dropped", error=str(error))
            self._listener = None
            self._on_listener_failed()

    def close(self) -> None:
        """Nothing more is recorded."""
        self._closed = True
        self._writer.finish(self.path)


def _encode(line: Mapping[str, Any]) -> bytes:
    """One line of JSON, whatever an agent or a phone line put into its fields."""
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, integers over 64 bits, keys that are no texts
        return _encode_strange(line)


def _encode_strange(line: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(line, default=str, ensure_ascii=False, skipkeys=True)
    except (RecursionError, ValueError):  # nested too deep, or in a circle
        plain = {
            key: value if isinstance(value, (str, int, float)) else NOT_RECORDED
            for key, value in line.items()
        }
        text = json.dumps(plain, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"
