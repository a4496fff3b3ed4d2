"""Combines settings, source, parser and speech to answer one question.

Refuses reports that may not be spoken: a missing or unreadable one, NIL, or one from met.no older
than ``max_age_minutes``. A file's reports are sample data of any age; the answer and its first
spoken words say so.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from . import report, speech
from .config import AerodromeSettings, Settings, SettingsFile
from .metar_file import MetarFile
from .metno import MetnoFeed
from .model import (
    Aerodrome,
    AerodromeList,
    Atis,
    Information,
    MalformedReportError,
    ReportUnavailableError,
)
from .phrases import ALPHABET
from .sources import MetarSource

logger = logging.getLogger(__name__)

ICAO_PATTERN = "^[A-Za-z]{4}$"


def utc_now() -> datetime:
    return datetime.now(UTC)


class AtisService:
    """Answers questions until ``close()`` at the end of the process."""

    def __init__(self, settings: SettingsFile, now: Callable[[], datetime] = utc_now) -> None:
        self._file = settings
        self._now = now
        self._built_for = settings.current()
        self._source = _source(self._built_for)
        self._retiring: set[asyncio.Task[None]] = set()

    async def atis(self, icao: str) -> Atis:
        """Return the answer. Raises ``ReportUnavailableError`` with a speakable ``because``."""
        code = icao.strip().upper()
        if not re.fullmatch("[A-Z]{4}", code):
            raise ReportUnavailableError(
                "bad_icao", "I need the four letter code of an aerodrome.", f"icao {icao!r}"
            )
        settings = self._settings()
        aerodrome = settings.aerodromes.get(code, AerodromeSettings())
        try:
            return await self._announce(code, settings, aerodrome)
        except ReportUnavailableError as error:
            name = speech.aerodrome_name(aerodrome.name, code)
            raise ReportUnavailableError(
                error.reason,
                f"The weather for {name} is not available. {error.because}",
                error.detail,
            ) from error

    def aerodromes(self) -> AerodromeList:
        settings = self._settings()
        return AerodromeList(
            aerodromes=[
                Aerodrome(icao=icao, name=one.name or icao, aliases=one.aliases)
                for icao, one in settings.aerodromes.items()
            ],
            source=settings.source,
            sample_data=settings.source == "file",
        )

    async def close(self) -> None:
        await self._source.close()
        await asyncio.gather(*self._retiring)

    def _settings(self) -> Settings:
        """Return the settings in force, after updating the source to match them."""
        settings = self._file.current()
        if _source_settings(settings) != _source_settings(self._built_for):
            retired = asyncio.create_task(self._source.close(), name="retire-source")
            self._retiring.add(retired)
            retired.add_done_callback(self._retiring.discard)
            self._source = _source(settings)
            logger.info("source is now %s", settings.source)
        self._built_for = settings
        return settings

    async def _announce(self, icao: str, settings: Settings, aerodrome: AerodromeSettings) -> Atis:
        sample = settings.source == "file"
        raw = await self._source.latest(icao, self._now())
        age = max(self._now() - raw.observed_at, timedelta())
        if not sample and age > timedelta(minutes=settings.max_age_minutes):
            raise ReportUnavailableError(
                "too_old", "The latest report is too old.", f"{icao}: {age} old: {raw.text}"
            )
        if report.is_nil(raw.text):
            raise ReportUnavailableError("nil", "The station sent no report.", raw.text)
        try:
            parsed = report.parse(raw.text, raw.observed_at)
        except MalformedReportError as error:
            raise ReportUnavailableError(
                "malformed", "The weather report could not be read.", f"{error}: {raw.text}"
            ) from error
        information = _information(settings, aerodrome, raw.observed_at)
        explicit = aerodrome.explicit_not_available
        if explicit is None:
            explicit = settings.defaults.explicit_not_available
        text = speech.atis_text(
            parsed,
            raw.observed_at,
            name=aerodrome.name,
            runways=aerodrome.runway,
            frequency_mhz=aerodrome.frequency,
            advisories=aerodrome.advisories,
            information=information,
            explicit_not_available=explicit,
            sample_data=sample,
        )
        return Atis(
            atis_text=text,
            icao=icao,
            name=aerodrome.name or icao,
            metar_raw=raw.text,
            observed_at=f"{raw.observed_at:%Y-%m-%dT%H:%M:%SZ}",
            age_minutes=int(age.total_seconds() // 60),
            parsed=parsed,
            runway=aerodrome.runway,
            frequency=aerodrome.frequency,
            advisories=aerodrome.advisories,
            information=information,
            source=settings.source,
            sample_data=sample,
            settings_problem=self._file.problem,
        )


def _source(settings: Settings) -> MetarSource:
    if settings.metar_file is not None and settings.source == "file":
        return MetarFile(settings.metar_file)
    return MetnoFeed(settings.metno)


def _source_settings(settings: Settings) -> tuple[object, ...]:
    return settings.source, settings.metar_file, settings.metno


def _information(
    settings: Settings, aerodrome: AerodromeSettings, observed_at: datetime
) -> Information | None:
    """Return the information letter of this report.

    A derived letter changes with each half hour of the UTC day, so that everyone who hears the same
    observation hears the same letter. It is not the letter of the tower, and the speech says so.
    """
    letter = aerodrome.information or settings.defaults.information
    if letter == "none":
        return None
    if letter != "derived":
        return Information(letter=letter, origin="configured")
    half_hour = observed_at.hour * 2 + observed_at.minute // 30
    return Information(
        letter=list(ALPHABET)[half_hour % 26], origin="derived_from_observation_time"
    )
