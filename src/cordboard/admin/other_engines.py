"""The live calls of the other engines of the cluster, as rows beside our own.

    engine b ── its topic `calls`, over the bus ──▶ rows of this port ──▶ its viewers

Each other engine is followed once, whatever the number of viewers, and only while there are some:
until `KEEP_SECONDS` after the last one. What b sends is what b's own viewers get, its changed
fields, at most four times a second. Scope and masks are applied here, for each viewer.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import structlog
from pydantic_core import from_json

from cordboard.accounts.rights import EVERYWHERE, Permission
from cordboard.admin.cluster_door import ClusterDoor, Exchange
from cordboard.admin.live_calls import LiveCalls
from cordboard.admin.live_feed import PROTOCOL
from cordboard.api.answers import to_json
from cordboard.errors import ClusterError, NodeGone, RequestRefused

KEEP_SECONDS = 30.0
"""Time for which the others are followed after the last look."""
LOOK_SECONDS = 1.5
"""Longest wait for the first rows of all engines."""
RETRY_SECONDS = 1.0
_SUBSCRIBE = b'{"op":"subscribe","id":1,"topic":"calls"}'

_SYSTEM: Mapping[str, Any] = {
    "method": "GET",
    "permissions": (str(Permission.CALLS_READ), str(Permission.PERSONAL)),
    "scopes": (to_json(EVERYWHERE).decode(),),
}
"""The engine itself asks: what its people may see is decided here."""
OK = 200
MOST_KEPT = 1_000
"""Places of calls that are remembered."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is."""

    instance: str
    node: str
    context: str


class OtherEngines:
    """One for each port of an engine in a cluster."""

    def __init__(
        self, door: ClusterDoor, live: LiveCalls, internal_error: Callable[[str], None]
    ) -> None:
        self.door = door
        self._live = live
        self._internal_error = internal_error
        self._viewers = 0
        self._until = 0.0
        self._kept: dict[str, Place] = {}
        self._followers: dict[str, _Follower] = {}
        self._task: asyncio.Task[None] | None = None
        live.node = door.node

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Follow the others during a view."""
        self._viewers += 1
        self._wanted()
        try:
            yield
        finally:
            self._viewers -= 1

    async def look(self) -> None:
        """Wait until the calls of those that answer are known; they stay known for a while."""
        await self.door.look()
        self._wanted()
        known = [follower.known.wait() for follower in self._followers.values()]
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await asyncio.gather(*known)

    async def find(self, call_id: str) -> Place | None:
        """Return where a live call of another engine is; None if it is none."""
        await self.look()
        found = self._live.elsewhere(call_id)
        if found is None:
            return None
        instance, row = found
        return Place(instance, str(row["node"]), str(row["context"]))

    async def node(self, node: str) -> Place | None:
        """Return the engine of a node; None if it is not there."""
        await self.door.look()
        for each in self.door.engines():
            if each.node == node and not each.own:
                return Place(each.instance, node, "")
        return None

    async def locate(self, call_id: str) -> Place | None:
        """Return which other engine has the files of a call; None if none has. Raises
        `RequestRefused` 503 if one that may have them does not answer in time."""
        known = self._kept.get(call_id)
        await self.door.look()
        engines = [each for each in self.door.engines() if not each.own]
        if known is not None and known.instance in {each.instance for each in engines}:
            return known
        late: list[str] = []
        asked = [self._has(call_id, each.instance, each.node, late) for each in engines]
        for place in await asyncio.gather(*asked):
            if place is not None:
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[call_id] = place
                return place
        if late:
            message = f"the call is not here, and node {late[0]} does not answer in time"
            raise RequestRefused(503, "node_gone", message, headers={"Retry-After": "2"})
        return None

    async def _has(self, call_id: str, instance: str, node: str, late: list[str]) -> Place | None:
        """Ask one engine for a call; add its node to those that are `late`."""
        path = f"/calls/{quote(call_id, safe='')}"
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                exchange = await self.door.begin(instance, {**_SYSTEM, "path": path})
                try:
                    start, body = await exchange.receive(), await exchange.receive()
                finally:
                    await self.door.end(exchange)
        except TimeoutError:
            log.info("call_not_looked_for", instance=instance, error="it does not answer in time")
            late.append(node)
            return None
        except ClusterError as error:
            log.info("call_not_looked_for", instance=instance, error=str(error))
            return None
        if start.code != OK:
            return None
        return Place(instance, node, str(from_json(body.content)["call"]["row"]["context"]))

    def problem(self, instance: str) -> str:
        """Return why the calls of an engine cannot be seen; empty if they can, or before the
        first look."""
        follower = self._followers.get(instance)
        return "" if follower is None else follower.problem

    def sees(self, instance: str) -> bool:
        """Return True if the calls of an engine are known, and may not have changed since."""
        follower = self._followers.get(instance)
        return follower is not None and follower.known.is_set() and not follower.problem

    def close(self) -> None:
        """Stop. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _wanted(self) -> None:
        loop = asyncio.get_running_loop()
        self._until = loop.time() + KEEP_SECONDS
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._keep(), name="other-engines")
        self._reconcile()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._viewers or loop.time() < self._until:
                await self.door.look()
                self._reconcile()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            for instance in [*self._followers]:
                self._stop(instance)

    def _reconcile(self) -> None:
        """Follow those that are there, and no others."""
        others = {each.instance: each.node for each in self.door.engines() if not each.own}
        for instance in self._followers.keys() - others.keys():
            self._stop(instance)
        for instance, node in others.items():
            if instance not in self._followers:
                follower = _Follower(self.door, self._live, instance, node, self._internal_error)
                self._followers[instance] = follower

    def _stop(self, instance: str) -> None:
        self._followers.pop(instance).task.cancel()
        self._live.take_elsewhere(instance, {}, whole=True)


class _Follower:
    """Follows one engine."""

    def __init__(
        self,
        door: ClusterDoor,
        live: LiveCalls,
        instance: str,
        node: str,
        internal_error: Callable[[str], None],
    ) -> None:
        self._door = door
        self._live = live
        self._instance = instance
        self._node = node
        self._internal_error = internal_error
        self.known = asyncio.Event()
        """Set when its calls are known, or cannot be."""
        self.problem = ""
        self.task = asyncio.get_running_loop().create_task(self._run(), name="other-engine")

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except ClusterError as error:
                self.problem = str(error)
            except Exception as error:  # task border: the next try
                log.exception("other_engine_not_followed", error=repr(error))
                self._internal_error("other_engines")
                self.problem = "an error of this engine; its log has the details"
            self._live.doubt(self._instance, _now())
            self.known.set()
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        """Take the rows until the engine is gone. Raises `ClusterError`."""
        fields = {
            **_SYSTEM,
            "path": "/live",
            "websocket": True,
            "protocols": (PROTOCOL,),
        }
        exchange = await self._door.begin(self._instance, fields)
        try:
            await exchange.send("text", _SUBSCRIBE)
            await self._take_all(exchange)
        finally:
            await self._door.end(exchange)

    async def _take_all(self, exchange: Exchange) -> None:
        while True:
            frame = await exchange.receive()
            if frame.type in ("end", "start"):
                raise NodeGone(f"{self._instance} does not show its calls: {frame.reason}")
            if frame.type == "text":
                self._take(from_json(frame.content))

    def _take(self, content: Mapping[str, Any]) -> None:
        if "error" in content:
            raise NodeGone(str(content["error"].get("message", "")))
        whole = "snapshot" in content
        rows = content["snapshot"] if whole else content.get("rows", ())
        own = {"node": self._node, "unknown_since": None}
        given = {str(row["call_id"]): {**row, **own} for row in rows}
        self._live.take_elsewhere(self._instance, given, whole=whole, gone=content.get("gone", ()))
        self.problem = ""
        self.known.set()


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
