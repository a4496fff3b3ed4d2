"""A client of the test kit's NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from cordboard.cluster import nats_bus, nats_connection
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection, NatsLink
from cordboard.config.sections.cluster import Nats
from cordboard_testkit.nats_server import NatsServer, three_servers
from cordboard_testkit.patience import PATIENCE

if TYPE_CHECKING:
    from nats.aio.msg import Msg

__all__ = ["NatsServer", "PatientConnection", "bus", "engines_have_time", "three_servers"]


ANSWER_SECONDS = 5.0
"""Limit of the engines of a test, in place of 0.6 s and 0.3 s: a busy machine answers late."""


def engines_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let engines wait longer for an answer of the bus than real ones."""
    monkeypatch.setattr(NatsLink.ask, "__defaults__", (b"", None, ANSWER_SECONDS))
    monkeypatch.setattr(NatsConnection.ask, "__defaults__", (b"", None, ANSWER_SECONDS))
    monkeypatch.setattr(NatsConnection.api, "__defaults__", (None, ANSWER_SECONDS))
    monkeypatch.setattr(NatsConnection._answer, "__defaults__", (None, ANSWER_SECONDS))
    monkeypatch.setattr(nats_connection, "PING_SECONDS", ANSWER_SECONDS)


class PatientConnection(NatsConnection):
    """A connection that waits for a late answer, as a busy machine gives it. The loss of the
    connection still ends the wait."""

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = PATIENCE,
    ) -> Msg:
        return await super().ask(subject, data, headers, PATIENCE)

    async def api(self, name: str, body: Any = None, seconds: float = PATIENCE) -> Any:
        return await super().api(name, body, PATIENCE)


@asynccontextmanager
async def bus(
    settings: Nats,
    name: str = "test",
    replicas: int = 1,
    *,
    asterisk: str = "",
    patient: bool = True,
) -> AsyncIterator[NatsBus]:
    """A client that has made its streams. With `patient=False` it has the limits of an engine."""
    connection = (PatientConnection if patient else NatsConnection)(settings, "a-test")
    found = NatsBus(connection, name, replicas, asterisk=asterisk)
    running = asyncio.create_task(found.run())
    with ExitStack() as stack:
        if patient:  # reading a journal, too
            limit = mock.patch.object(nats_bus._next, "__defaults__", (PATIENCE,))
            stack.enter_context(limit)
        try:
            async with asyncio.timeout(PATIENCE):
                await found.ready()
            yield found
        finally:
            running.cancel()
            await asyncio.wait([running])
