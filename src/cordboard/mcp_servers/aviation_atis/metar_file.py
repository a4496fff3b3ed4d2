"""METARs from a file, for machines without internet. Its reports count as sample data.

One METAR per line; a closing ``=`` is allowed, ``#`` starts a comment line. A line with only a date
and time (``2026/11/15 13:50``, as NOAA writes above each report) dates the METARs below it; without
one, the day of the month is taken as the latest such day. The file is read again when it changes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from .model import ReportUnavailableError
from .sources import RawReport, newest, no_report

_DATE_LINE = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)(?:[T ]\d\d:\d\dZ?)?")
_MAX_BYTES = 4 * 1024 * 1024


class MetarFile:
    """The ``file`` source."""

    kind: Literal["metno", "file"] = "file"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._lines: list[tuple[datetime | None, str]] = []

    async def latest(self, icao: str, now: datetime) -> RawReport:
        self._read_if_changed()
        best: RawReport | None = None
        for dated, line in self._lines:
            if icao not in line.upper().split()[:3]:
                continue
            found = newest([line], icao, dated or now)
            if best is None or found.observed_at >= best.observed_at:
                best = found
        if best is None:
            raise no_report(icao)
        return best

    async def close(self) -> None:
        """Do nothing: no file stays open between two readings."""

    def _read_if_changed(self) -> None:
        try:
            status = self._path.stat()
            signature = (status.st_mtime_ns, status.st_size, status.st_ino)
            if signature == self._seen:
                return
            if status.st_size > _MAX_BYTES:
                raise _unreadable(f"{self._path} is larger than {_MAX_BYTES} bytes")
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise _unreadable(str(error)) from error
        self._lines = _dated_lines(text)
        self._seen = signature


def _unreadable(detail: str) -> ReportUnavailableError:
    return ReportUnavailableError("file_unreadable", "The weather file could not be read.", detail)


def _dated_lines(text: str) -> list[tuple[datetime | None, str]]:
    lines: list[tuple[datetime | None, str]] = []
    dated: datetime | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        date_line = _DATE_LINE.fullmatch(stripped)
        if date_line is None:
            lines.append((dated, stripped))
            continue
        try:
            year, month, day = (int(part) for part in date_line.groups())
            # The end of that day: a METAR's own time is then always earlier.
            dated = datetime(year, month, day, tzinfo=UTC) + timedelta(days=1, minutes=-16)
        except ValueError:
            dated = None
    return lines
