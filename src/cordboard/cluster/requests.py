"""Requests to one engine by the bus, each answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import structlog

from cordboard.cluster.nats_connection import NO_RESPONDERS, NatsConnection, NatsLink
from cordboard.errors import BusAway, ClusterError

log = structlog.get_logger()

RETRY_SECONDS = 0.2


class NobodyThere(ClusterError):
    """No engine listens at that subject."""


async def serve(
    connection: NatsConnection, subject: str, answer: Callable[[bytes], bytes | None]
) -> NoReturn:
    """Answer the requests at a subject until cancelled. `answer` returns None for a request that
    gets no answer."""
    while True:
        link = await connection.link()
        try:
            await _serve(link, subject, answer)
        except BusAway as error:
            log.debug("requests_interrupted", subject=subject, error=str(error))
        await asyncio.sleep(RETRY_SECONDS)


async def _serve(link: NatsLink, subject: str, answer: Callable[[bytes], bytes | None]) -> None:
    """Answer until the connection is lost. Raises `BusAway`."""
    async with link.inbox(subject) as (_, arrived):
        while (message := await arrived.get()) is not None:
            answered = answer(message.data)
            if answered is not None and message.reply:
                await link.answer(message.reply, answered)


async def ask(connection: NatsConnection, subject: str, request: bytes) -> bytes:
    """Return the answer to a request. Raises `BusAway` and `NobodyThere`."""
    answer = await connection.ask(subject, request)
    if (answer.headers or {}).get("Status") == NO_RESPONDERS:
        raise NobodyThere(f"nobody is at {subject}")
    data: bytes = answer.data
    return data
