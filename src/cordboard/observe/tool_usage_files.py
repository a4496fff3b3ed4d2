"""The days of `ToolUsage` on disk: `{calls.directory}/usage/2026-11-21.json`, one file a day.

Read at the start, written once a minute if something was counted and at the end, each time as a
whole and atomically (a reader never sees half a file), always in a thread. Kept for 90 days. A
crash loses at most the last minute. Only one engine may write into a folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import structlog

from cordboard import private_files
from cordboard.observe.tool_usage import Cells, ToolUsage, as_json, from_json, report

KEPT_DAYS = 90
WRITE_SECONDS = 60.0
_PATTERN = "????-??-??.json"

log = structlog.get_logger()


class ToolUsageFiles:
    """The files of one `ToolUsage`."""

    def __init__(
        self, usage: ToolUsage, directory: Path, *, write_seconds: float = WRITE_SECONDS
    ) -> None:
        """`directory`: the folder of the calls; the files are in its subfolder `usage`."""
        self._write_seconds = write_seconds
        self._usage = usage
        self._folder = directory / "usage"
        self._writing: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._trouble = ""

    async def start(self) -> None:
        """Continue from today's counts of the previous engine, and begin to write."""
        today = self._usage.today
        self._usage.begin_with(today, await asyncio.to_thread(self._read, today))
        await asyncio.to_thread(self._sweep, today)
        self._writing = asyncio.create_task(self._keep_writing(), name="tool usage")

    async def close(self) -> None:
        """Write unsaved counts, and stop. Idempotent."""
        self._ending.set()
        if self._writing is not None:
            await self._writing

    async def report(
        self,
        days: int,
        context: str | None = None,
        covers: Callable[[str], bool] = lambda _: True,
    ) -> dict[str, Any]:
        """Return the counts of the last `days` days, including today (`tool_usage.report`)."""
        today = self._usage.today
        first = today - datetime.timedelta(days=days - 1)
        here = {day: self._usage.day(day) for day in self._usage.days() if first <= day}

        def made() -> dict[str, Any]:
            found: dict[datetime.date, Cells] = dict(here)
            for path in self._folder.glob(_PATTERN):
                day = _day_of(path)
                if day is not None and first <= day <= today and day not in found:
                    found[day] = self._read(day)
            return report(found, first, today, context, covers)

        return await asyncio.to_thread(made)

    async def _keep_writing(self) -> None:
        swept = self._usage.today
        ending = False
        while not ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._write_seconds):
                    await self._ending.wait()
            ending = self._ending.is_set()
            await self._write_changed()
            if swept != self._usage.today:
                swept = self._usage.today
                await asyncio.to_thread(self._sweep, swept)

    async def _write_changed(self) -> None:
        """Write the changed days; a failure is logged and tried again."""
        for day in sorted(self._usage.changed):
            cells = self._usage.day(day)
            self._usage.changed.discard(day)
            try:
                await asyncio.to_thread(self._write, day, cells)
            except OSError as error:
                self._usage.changed.add(day)
                self._tell(error)
                return
            self._trouble = ""
        for day in self._usage.days():
            self._usage.forget(day)

    def _tell(self, error: OSError) -> None:
        """Log the error once, not each minute until it is mended."""
        if str(error) != self._trouble:
            log.error("tool_usage_not_written", folder=str(self._folder), error=str(error))
        self._trouble = str(error)

    def _path(self, day: datetime.date) -> Path:
        return self._folder / f"{day.isoformat()}.json"

    def _read(self, day: datetime.date) -> Cells:
        """Read a day's file; empty when there is none. An unreadable one is set aside."""
        path = self._path(day)
        try:
            return from_json(orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.error("tool_usage_not_read", path=str(path), error=str(error))
        except ValueError as error:  # also orjson.JSONDecodeError
            log.error("tool_usage_not_understood", path=str(path), error=str(error))
            if day == self._usage.today:
                _set_aside(path)
        return {}

    def _write(self, day: datetime.date, cells: Cells) -> None:
        private_files.make_folder(self._folder)
        private_files.replace(self._path(day), orjson.dumps(as_json(day, cells)))

    def _sweep(self, today: datetime.date) -> None:
        """Delete files beyond their age, only those of our own making."""
        oldest = today - datetime.timedelta(days=KEPT_DAYS - 1)
        for path in self._folder.glob(_PATTERN):
            day = _day_of(path)
            if day is not None and day < oldest:
                try:
                    path.unlink()
                except OSError as error:
                    log.warning("tool_usage_not_deleted", path=str(path), error=str(error))


def _day_of(path: Path) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(path.stem)
    except ValueError:
        return None


def _set_aside(path: Path) -> None:
    """Rename a file that would be overwritten otherwise."""
    try:
        path.replace(path.with_suffix(".unreadable"))
    except OSError as error:
        log.error("tool_usage_not_set_aside", path=str(path), error=str(error))
