"""Requests to met.no's tafmetar feed, in accordance with its terms of service.

``GET /metar.txt?icao=ENGM`` returns the METARs of the last 24 hours as text, each closed by ``=``
(api.met.no, Tafmetar 1.0 documentation). The terms require an identifying User-Agent,
``If-Modified-Since``, respect for ``Expires``, and not more than 20 requests a second.

Every failure becomes a ``ReportUnavailableError`` with its own reason; an answer is returned
completely or not at all.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import httpx2

from .config import MetnoSettings, require_user_agent
from .model import ReportUnavailableError
from .report_cache import Fetched, ReportCache
from .sources import RawReport, newest

_MAX_BYTES = 256 * 1024
"""A day of METARs of one station is about 4 kB."""


class MetnoFeed:
    """The ``metno`` source: the feed behind a cache."""

    kind: Literal["metno", "file"] = "metno"

    def __init__(self, settings: MetnoSettings) -> None:
        self._client = MetnoClient(settings)
        self._cache = ReportCache(
            self._client.fetch,
            ttl_seconds=settings.cache_ttl_seconds,
            retry_pause_seconds=settings.retry_pause_seconds,
            used_within_seconds=settings.refresh_used_within_seconds,
            refresh=settings.refresh_in_background,
        )

    async def latest(self, icao: str, now: datetime) -> RawReport:
        body = await self._cache.get(icao)
        texts = [text.strip() for text in body.split("=") if text.strip()]
        if not texts:
            raise ReportUnavailableError(
                "empty", "The weather service has no report for this aerodrome.", "empty body"
            )
        return newest(texts, icao, now)

    async def close(self) -> None:
        await self._cache.close()
        await self._client.close()


class RequestSpacing:
    """Lets at most ``per_second`` requests start per second, evenly spaced."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._next = 0.0

    async def turn(self) -> None:
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._interval
        if start > now:
            await asyncio.sleep(start - now)


@dataclass(frozen=True)
class _Answer:
    status: int
    body: str
    headers: httpx2.Headers


class MetnoClient:
    """Sends a GET and returns its outcome; no cache, no parsing of METARs."""

    def __init__(self, settings: MetnoSettings) -> None:
        self._url = f"{settings.base_url.rstrip('/')}/metar.txt"
        self._timeout = settings.timeout_seconds
        self._spacing = RequestSpacing(settings.max_requests_per_second)
        self._http = httpx2.AsyncClient(
            headers={"User-Agent": require_user_agent(settings.user_agent)},
            timeout=settings.timeout_seconds,
            follow_redirects=True,
        )

    async def fetch(self, icao: str, last_modified: str | None) -> Fetched:
        """Fetch a complete answer. Raises ``ReportUnavailableError``."""
        await self._spacing.turn()
        headers = {"If-Modified-Since": last_modified} if last_modified else {}
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._get(icao, headers)
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ReportUnavailableError(
                "timeout", "The weather service did not answer in time.", f"{icao}: timeout"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ReportUnavailableError(
                "unreachable", "The weather service could not be reached.", f"{icao}: {error!r}"
            ) from error
        return _outcome(answer, icao, asked_if_modified=bool(last_modified))

    async def close(self) -> None:
        await self._http.aclose()

    async def _get(self, icao: str, headers: dict[str, str]) -> _Answer:
        async with self._http.stream(
            "GET", self._url, params={"icao": icao}, headers=headers
        ) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > _MAX_BYTES:
                    raise ReportUnavailableError(
                        "malformed",
                        "The weather report could not be read.",
                        f"{icao}: answer larger than {_MAX_BYTES} bytes",
                    )
            body = received.decode("utf-8", errors="replace")
            return _Answer(response.status_code, body, response.headers)


def _outcome(answer: _Answer, icao: str, *, asked_if_modified: bool) -> Fetched:
    now = datetime.now(UTC)
    expires_in = _seconds_until(answer.headers.get("Expires"), now)
    if answer.status == 304 and asked_if_modified:
        return Fetched(None, answer.headers.get("Last-Modified"), expires_in)
    # 203 is met.no's sign that a product version is deprecated; the data is still good.
    if answer.status in (200, 203):
        return Fetched(answer.body, answer.headers.get("Last-Modified"), expires_in)
    detail = f"{icao}: HTTP {answer.status}"
    if answer.status == 429:
        raise ReportUnavailableError(
            "rate_limited",
            "The weather service is too busy right now.",
            detail,
            retry_after=_retry_after(answer.headers.get("Retry-After"), now),
        )
    if answer.status in (204, 404, 422):
        raise ReportUnavailableError(
            "no_report", "The weather service has no report for this aerodrome.", detail
        )
    if answer.status in (401, 403):
        raise ReportUnavailableError(
            "refused", "The weather service refused the request.", f"{detail} (check User-Agent)"
        )
    raise ReportUnavailableError("upstream_error", "The weather service reported an error.", detail)


def _retry_after(value: str | None, now: datetime) -> float | None:
    if value is not None and value.strip().isdigit():
        return float(value)
    return _seconds_until(value, now)


def _seconds_until(http_date: str | None, now: datetime) -> float | None:
    """Return seconds until a date, or None for an invalid one; met.no sends RFC 9110 dates."""
    if not http_date:
        return None
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()
