"""Caches the answers of a slow upstream for a while and never returns an outdated one.

- An answer is fresh for the TTL, or until upstream's ``Expires`` if that is later (upstream's
  request not to ask again earlier; limited to an hour). Fresh answers cost nothing.
- Concurrent callers share one request per key; a cancelled caller does not stop it.
- Recently used keys are fetched again shortly before they expire.
- After a failure upstream is not contacted for a pause (longer if ``Retry-After`` says so); callers
  get that failure at once. An expired answer is used only for ``If-Modified-Since``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .model import ReportUnavailableError

logger = logging.getLogger(__name__)

_EXPIRES_LIMIT_SECONDS = 3600.0
_RETRY_AFTER_LIMIT_SECONDS = 600.0
_LEAD_FRACTION = 0.1
"""Fraction of the TTL before its end at which a background refresh starts."""


@dataclass(frozen=True)
class Fetched:
    """One answer of upstream. ``body`` is None for "not modified"."""

    body: str | None
    last_modified: str | None
    expires_in: float | None


Fetch = Callable[[str, str | None], Awaitable[Fetched]]


@dataclass
class _Entry:
    used_at: float
    body: str | None = None
    last_modified: str | None = None
    fresh_until: float = 0.0
    refresh_at: float = 0.0
    failure: ReportUnavailableError | None = None
    retry_at: float = 0.0


class ReportCache:
    """``get(key)`` needs a running event loop; ``close()`` ends the background refresh."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        ttl_seconds: float,
        retry_pause_seconds: float,
        used_within_seconds: float,
        refresh: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._ttl = ttl_seconds
        self._pause = retry_pause_seconds
        self._used_within = used_within_seconds
        self._refresh = refresh
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._under_way: dict[str, asyncio.Task[str]] = {}
        self._changed = asyncio.Event()
        self._refresher: asyncio.Task[None] | None = None

    async def get(self, key: str) -> str:
        """Return the body for the key, at most as old as the class promises.

        Raises ``ReportUnavailableError``.
        """
        now = self._clock()
        self._forget_unused(now)
        entry = self._entries.setdefault(key, _Entry(used_at=now))
        entry.used_at = now
        if self._refresh and self._refresher is None:
            self._refresher = asyncio.create_task(self._keep_fresh(), name="metar-refresh")
        if entry.body is not None and now < entry.fresh_until:
            return entry.body
        if entry.failure is not None and now < entry.retry_at:
            raise entry.failure
        return await asyncio.shield(self._request(key, entry))

    async def close(self) -> None:
        """Stop refreshing; wait for requests that callers still depend on."""
        if self._refresher is not None:
            self._refresher.cancel()
        tasks = [*self._under_way.values(), *([self._refresher] if self._refresher else [])]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _request(self, key: str, entry: _Entry) -> asyncio.Task[str]:
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch_into(key, entry), name=f"metar-{key}")
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return task

    def _finished(self, key: str, task: asyncio.Task[str]) -> None:
        del self._under_way[key]
        self._changed.set()
        if not task.cancelled():
            task.exception()  # callers have it; without callers, `_fetch_into` has logged it

    async def _fetch_into(self, key: str, entry: _Entry) -> str:
        conditional = entry.last_modified if entry.body is not None else None
        try:
            fetched = await self._fetch(key, conditional)
        except ReportUnavailableError as failure:
            pause = min(failure.retry_after or 0.0, _RETRY_AFTER_LIMIT_SECONDS)
            entry.failure = failure
            entry.retry_at = self._clock() + max(pause, self._pause)
            logger.warning("no report: reason=%s %s", failure.reason, failure.detail)
            raise
        now = self._clock()
        body = fetched.body if fetched.body is not None else entry.body
        assert body is not None  # noqa: S101 - "not modified" only follows a conditional request
        wait = min(max(fetched.expires_in or 0.0, 0.0), _EXPIRES_LIMIT_SECONDS)
        entry.body = body
        entry.last_modified = fetched.last_modified or entry.last_modified
        entry.fresh_until = now + max(self._ttl, wait)
        entry.refresh_at = now + max(self._ttl * (1 - _LEAD_FRACTION), wait)
        entry.failure = None
        entry.retry_at = 0.0
        return body

    async def _keep_fresh(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock()
            wake_in: float | None = None
            for key, entry in list(self._entries.items()):
                if key in self._under_way or entry.body is None:
                    continue
                due_at = max(entry.refresh_at, entry.retry_at)
                if due_at > entry.used_at + self._used_within:
                    continue
                if due_at <= now:
                    self._request(key, entry)
                else:
                    wake_in = due_at - now if wake_in is None else min(wake_in, due_at - now)
            try:
                async with asyncio.timeout(wake_in):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _forget_unused(self, now: float) -> None:
        for key, entry in list(self._entries.items()):
            if key not in self._under_way and now > entry.used_at + self._used_within:
                del self._entries[key]
