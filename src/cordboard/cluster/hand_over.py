"""The talk of two living engines about a call that one of them hands to the other.

    owner ── take (call, lines of its ledger) ──> other: makes the call and its agent ready
    owner <── ready ────────────────────────────── other: asks for the caller
          ── agreed, if it is still quiet ──────>  other: claims the record, moves the caller
    owner <── failed ───────────────────────────── other: gives the call up

    request  <cluster>.instances.<instance>.hand_over

Nothing of a call is in these messages but its id: the story is on the bus. The runtime room has
both sides (`cordboard.runtime.call_giver` and `call_taker`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import structlog

from cordboard.cluster import requests
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.wire import (
    HandOverAnswer,
    HandOverStep,
    decode_answer,
    decode_step,
    encode_answer,
    encode_step,
)
from cordboard.errors import WireUnreadable

log = structlog.get_logger()


class HandOverTalk:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        connection: NatsConnection,
        cluster: str,
        instance: str,
        answer: Callable[[HandOverStep], HandOverAnswer],
    ) -> None:
        """`answer` returns at once."""
        self._connection = connection
        self._cluster = cluster
        self._instance = instance
        self._answer = answer

    async def run(self) -> NoReturn:
        """Answer the other engines until cancelled."""
        await requests.serve(self._connection, self._subject(self._instance), self._serve)

    async def tell(self, instance: str, step: HandOverStep) -> HandOverAnswer:
        """Send a step to another engine and return its answer. Raises `BusAway`, after which it is
        unknown whether it has arrived; `NobodyThere` and `WireUnreadable`."""
        answer = await requests.ask(self._connection, self._subject(instance), encode_step(step))
        return decode_answer(answer)

    def _serve(self, request: bytes) -> bytes | None:
        try:
            step = decode_step(request)
        except WireUnreadable as error:
            log.warning("hand_over_unreadable", error=str(error))
            return encode_answer(HandOverAnswer(False, str(error)))
        return encode_answer(self._answer(step))

    def _subject(self, instance: str) -> str:
        return f"{self._cluster}.instances.{instance}.hand_over"
