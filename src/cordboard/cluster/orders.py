"""Orders of an operator to a node, by the bus: take no new calls (`drain`), hand the live ones over
besides (`hand_over`), or take them again (`undrain`).

    request  <cluster>.nodes.<node>.order    {"order": "hand_over"}
    answer                                   {"instance": "a-3f9c01", "draining": true, "calls": 4,
                                              "moving": 3}

Access to the bus is the permission: each client that may publish there may give orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import orjson
import structlog

from cordboard.cluster import requests
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.errors import ClusterError

log = structlog.get_logger()

Order: TypeAlias = Literal["drain", "hand_over", "undrain"]
ORDERS: tuple[Order, ...] = ("drain", "hand_over", "undrain")


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The state of a node after an order."""

    instance: str
    draining: bool
    calls: int
    """Live calls."""
    moving: int = 0
    """Those that it hands over, as soon as that is possible."""


class Orders:
    """The orders to one engine. Start `run` as a task."""

    def __init__(
        self, connection: NatsConnection, cluster: str, node: str, obey: Callable[[Order], Obeyed]
    ) -> None:
        """`obey` does it at once, and returns the new state."""
        self._connection = connection
        self._subject = subject_of(cluster, node)
        self._obey = obey

    async def run(self) -> NoReturn:
        """Obey until cancelled."""
        await requests.serve(self._connection, self._subject, self._serve)

    def _serve(self, request: bytes) -> bytes | None:
        order = _read(request)
        if order is None:
            log.warning("order_unreadable")
            return None
        log.warning("order_obeyed", order=order)
        return orjson.dumps(asdict(self._obey(order)))


async def give(connection: NatsConnection, cluster: str, node: str, order: Order) -> Obeyed:
    """Give an order and return what the node answers. Raises `BusAway`, and `ClusterError` if there
    is no such node."""
    try:
        answer = await requests.ask(
            connection, subject_of(cluster, node), orjson.dumps({"order": order})
        )
    except requests.NobodyThere:
        raise ClusterError(f"no engine of the node {node!r} is connected to the bus") from None
    try:
        said: dict[str, Any] = orjson.loads(answer)
        return Obeyed(
            str(said["instance"]),
            bool(said["draining"]),
            int(said["calls"]),
            int(said.get("moving", 0)),  # an engine of a version before this one has none
        )
    except (KeyError, TypeError, ValueError):
        raise ClusterError(f"the node {node!r} gave an answer that cannot be read") from None


def subject_of(cluster: str, node: str) -> str:
    """Return the subject of a node's orders."""
    return f"{cluster}.nodes.{node}.order"


def _read(data: bytes) -> Order | None:
    try:
        order = orjson.loads(data)["order"]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return None
    return order if order in ORDERS else None
