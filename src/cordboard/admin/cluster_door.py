"""The cluster as the admin port needs it. `cordboard.runtime` connects it with the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

NodeOrder: TypeAlias = Literal["drain", "hand_over", "undrain"]


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """One engine, by its lease."""

    instance: str
    node: str
    version: str
    labels: tuple[str, ...]
    region: str
    free_slots: int
    live_calls: int
    draining: bool
    asterisk: str
    started_at: str
    lease_age_ms: int | None
    """Time since the lease arrived here; None for this engine."""
    own: bool


@dataclass(frozen=True, slots=True)
class BusSeen:
    """The bus, as this engine sees it."""

    connected: bool
    server: str
    problem: str
    lease: str
    """State of this engine's lease: `held`, `in_doubt` or `lost`."""


class Frame(Protocol):
    """A piece of an exchange: see `cordboard.cluster.wire.AdminFrame`."""

    @property
    def type(self) -> str: ...
    @property
    def code(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def more(self) -> bool: ...
    @property
    def content(self) -> bytes: ...


class Exchange(Protocol):
    """A request to another engine, and its frames. Both raise `NodeGone`."""

    async def send(
        self,
        kind: str,
        content: bytes = b"",
        *,
        code: int = 0,
        reason: str = "",
        headers: Mapping[str, str] | None = None,
        more: bool = False,
    ) -> None: ...

    async def receive(self) -> Frame: ...


class Request(Protocol):
    """A request of another engine: see `cordboard.cluster.wire.AdminRequest`."""

    @property
    def node(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def websocket(self) -> bool: ...
    @property
    def request(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def protocols(self) -> tuple[str, ...]: ...
    @property
    def who(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def holder(self) -> str: ...
    @property
    def client(self) -> str: ...
    @property
    def permissions(self) -> tuple[str, ...]: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...
    @property
    def body(self) -> bytes: ...


Serve: TypeAlias = Callable[[Request, Exchange], Awaitable[None]]


class ClusterDoor(Protocol):
    """The cluster of one engine."""

    @property
    def node(self) -> str: ...

    @property
    def bus(self) -> BusSeen: ...

    async def look(self) -> None:
        """Learn of all engines of the cluster, also of those at other Asterisks; they are known for
        a while afterwards."""

    def engines(self) -> Sequence[EngineSeen]:
        """Return the living engines that are known, this one included, by node."""

    async def order(self, node: str, order: NodeOrder) -> int:
        """Have a node take no new calls, hand over the live ones besides, or take calls again.
        Return the number of calls that it hands over. Raises `BusAway` and `ClusterError`."""

    async def begin(self, instance: str, fields: Mapping[str, Any]) -> Exchange:
        """Have another engine carry out a request with these fields of `AdminRequest`. Raises
        `BusAway` and `NodeGone`."""

    async def end(self, exchange: Exchange) -> None:
        """End an exchange on both sides. Never raises."""

    def take_requests(self, serve: Serve | None) -> None:
        """Have requests of other engines carried out by `serve`, from the start of the
        membership."""
