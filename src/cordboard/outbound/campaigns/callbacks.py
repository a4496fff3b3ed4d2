"""Promised call-backs in the campaigns' queue: one campaign for each context that calls back.

Their campaign is `callbacks-CONTEXT`: `cordboard campaign status`, `pause` and `results` work on it
as on any other. The person's zone is that of the promise, so the campaign's hours are those in
which people are called back, also after the engine was down at the promised time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from cordboard.calls.outbound_order import PromisedCall
from cordboard.config.tools.messages import CallbackSettings
from cordboard.errors import CampaignRefused
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore

RETRY_MINUTES = 15
ATTEMPTS = 3
CONCURRENCY = 5

Found = TypeVar("Found")


class CallbackQueue:
    """Implements `calls.outbound_order.CallbackBook`. The file is opened for each act, in a thread:
    the runner has a connection of its own."""

    def __init__(self, path: Path) -> None:
        """`path`: the campaigns' file."""
        self._path = path

    async def is_blocked(self, number: str) -> bool:
        """See `CallbackBook.is_blocked`."""
        if not await asyncio.to_thread(self._path.exists):
            return False
        return await self._do(lambda store: store.is_blocked(number))

    async def add(
        self, promise: PromisedCall, settings: CallbackSettings, variables: Mapping[str, str]
    ) -> bool:
        """See `CallbackBook.add`."""
        campaign = CampaignSettings(
            promise.context,
            f"{settings.hours.from_}-{settings.hours.to}",
            ",".join(settings.hours.days),
            ATTEMPTS,
            RETRY_MINUTES,
            CONCURRENCY,
            settings.message,
        )
        row = Row(0, promise.number, promise.zone, dict(variables))
        name, at = f"callbacks-{promise.context}", promise.at.timestamp()
        return await self._do(lambda store: store.promise(name, campaign, row, at))

    async def _do(self, act: Callable[[CampaignStore], Found]) -> Found:
        def work() -> Found:
            try:
                with closing(CampaignStore(self._path)) as store:
                    return act(store)
            except sqlite3.Error as error:
                raise CampaignRefused(f"the campaigns' file cannot be used: {error}") from error

        return await asyncio.to_thread(work)
