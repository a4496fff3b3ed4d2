"""The interface of the METAR sources, and the selection of a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from . import report
from .model import MalformedReportError, ReportUnavailableError


@dataclass(frozen=True)
class RawReport:
    """One METAR as received, with the time of its observation (UTC)."""

    text: str
    observed_at: datetime


class MetarSource(Protocol):
    """Provides the latest report of an aerodrome."""

    kind: Literal["metno", "file"]

    async def latest(self, icao: str, now: datetime) -> RawReport:
        """Return the latest report. Raises ``ReportUnavailableError``."""

    async def close(self) -> None:
        """Finish running requests and close all sockets."""


def no_report(icao: str) -> ReportUnavailableError:
    return ReportUnavailableError(
        "no_report", "There is no weather report for this aerodrome.", f"no METAR for {icao}"
    )


def newest(texts: list[str], icao: str, now: datetime) -> RawReport:
    """Return the latest observation of that station among the texts; of equals the last (a
    correction).

    Reports of other stations are never used. Raises ``ReportUnavailableError``: ``malformed`` if no
    text was readable, ``no_report`` if none was for this station.
    """
    readable = 0
    best: RawReport | None = None
    for text in texts:
        station = report.station_of(text)
        if station is None:
            continue
        readable += 1
        if station != icao:
            continue
        try:
            observed_at = report.observation_time(text, now)
        except MalformedReportError:
            continue
        if best is None or observed_at >= best.observed_at:
            best = RawReport(text=report.normalised(text), observed_at=observed_at)
    if best is not None:
        return best
    if texts and not readable:
        raise ReportUnavailableError(
            "malformed", "The weather report could not be read.", f"no METAR in {texts[0][:80]!r}"
        )
    raise no_report(icao)
