"""The bus of a cluster on NATS JetStream: three buckets and one journal.

    KV_<name>_leases   $KV.<name>_leases.<place>.<instance>   expire with `Nats-TTL`
    KV_<name>_calls    $KV.<name>_calls.<place>.<call id>
    KV_<name>_counts   $KV.<name>_counts.<node>_<hour or now> counts for shared limits
    KV_<name>_blocks   $KV.<name>_blocks.<digest>             the do-not-call list
    KV_<name>_claims   $KV.<name>_claims.<digest>             people of campaigns
    KV_<name>_mcp      $KV.<name>_mcp.<server>                expire; breaker.<server>.<instance>
    KV_<name>_config   $KV.<name>_config.state.<key>          and .text.<digest>
    <name>_events      <name>.calls.<call id>.events          kept for a day

`<place>` stands for the Asterisk of an engine (`wire.place_of`). An engine reads the entries of its
own place only, which the server filters: it can take over no other calls, and what it hears does
not grow with the cluster.

They are made when a connection begins, if they are missing. `nats kv` and `nats stream` show them.
Needs nats-server 2.11, for the markers of expired entries.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from cordboard.cluster.bus import BucketListener, Entry, Message
from cordboard.cluster.nats_connection import (
    NOT_FOUND,
    ApiError,
    NatsConnection,
    NatsLink,
)
from cordboard.cluster.wire import place_of
from cordboard.errors import BusAway

if TYPE_CHECKING:
    from nats.aio.msg import Msg

log = structlog.get_logger()

HEARTBEAT_SECONDS = 0.5
"""Pause between signs of life of a watch. One that hears nothing for `MOST_SILENT` of them begins
anew."""
CALM_HEARTBEAT_SECONDS = 2.5
"""That of entries which no call waits for: each sign wakes every engine."""
MOST_SILENT = 4
RETRY_SECONDS = 0.2
KEPT_SECONDS = 86_400
"""Time for which the events of a call are kept, and a lease that was revoked."""
MARKER_SECONDS = 3_600
"""Time for which the bus remembers that an entry expired or was removed."""
SETUP_SECONDS = 2.0
PAGE = 500
"""Messages per request."""
PAGE_SECONDS = 2.0
"""Most time between two of them."""
_NANO = 1_000_000_000
_IN_USE = 10058
"""JetStream's error code: such a stream exists, with other settings."""


class NatsBucket:
    """One key-value bucket, as `nats kv` knows it, or the entries of one place in it. A
    `cordboard.cluster.bus.Bucket`."""

    def __init__(
        self,
        connection: NatsConnection,
        name: str,
        place: str = "",
        *,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        """With a `place` its name is no part of the keys here, and the other entries do not exist.
        Without one all entries are there, as `<place>.<key>`. `heartbeat`: seconds, of a watch."""
        self._connection = connection
        self._heartbeat = heartbeat
        self.stream = f"KV_{name}"
        self._all = f"$KV.{name}."
        self._prefix = f"{self._all}{place}." if place else self._all

    def settings(self, replicas: int) -> dict[str, Any]:
        """Return the settings of its stream."""
        return {
            "name": self.stream,
            "subjects": [f"{self._all}>"],
            "max_msgs_per_subject": 1,
            "num_replicas": replicas,
            "storage": "file",
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
            "allow_msg_ttl": True,
            "subject_delete_marker_ttl": MARKER_SECONDS * _NANO,
        }

    async def exists(self) -> bool:
        """False if no engine has made it yet. Raises `BusAway`."""
        try:
            await self._connection.api(f"STREAM.INFO.{self.stream}", seconds=SETUP_SECONDS)
        except ApiError as error:
            if error.code in NOT_FOUND:
                return False
            raise BusAway(str(error)) from None
        return True

    async def get(self, key: str) -> Entry | None:
        found = await _last(self._connection, self.stream, self._prefix + key)
        if found is None:
            return None
        number, headers, data = found
        return _entry(key, number, headers, data)

    async def put(self, key: str, value: bytes, *, last: int, ttl: int | None = None) -> int:
        headers = {} if ttl is None else {"Nats-TTL": f"{ttl}s"}
        return await self._connection.publish(self._prefix + key, value, last=last, headers=headers)

    async def remove(self, key: str, *, last: int) -> None:
        headers = {
            "KV-Operation": "PURGE",
            "Nats-Rollup": "sub",
            "Nats-TTL": f"{MARKER_SECONDS}s",
        }
        await self._connection.publish(self._prefix + key, b"", last=last, headers=headers)

    async def watch(self, listener: BucketListener) -> NoReturn:
        problem = ""
        while True:
            link = await self._connection.link()
            try:
                await self._watch(link, listener)
            except BusAway as error:
                log.debug("watch_interrupted", stream=self.stream, error=str(error))
            except ApiError as error:  # such as a limit of the account
                if str(error) != problem and error.code not in NOT_FOUND:
                    log.warning("watch_refused", stream=self.stream, error=str(error))
                problem = str(error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, link: NatsLink, listener: BucketListener) -> NoReturn:
        """Follow the bucket from its present state on. Raises `BusAway` when a change may have been
        missed, and `ApiError`."""
        async with link.inbox() as (address, arrived):
            made = await self._connection.api(
                f"CONSUMER.CREATE.{self.stream}",
                {
                    "stream_name": self.stream,
                    "config": _consumer(f"{self._prefix}>", address, self._heartbeat),
                },
            )
            entries: dict[str, Entry] | None = {}
            if not made.get("num_pending"):
                listener.listed({})
                entries = None
            delivered = 0
            while True:
                message = await _next(arrived, MOST_SILENT * self._heartbeat)
                if _status(message):
                    if int(_headers(message).get("Nats-Last-Consumer", delivered)) != delivered:
                        raise BusAway("a change was missed")
                    if entries is not None:
                        # Nothing more comes: a server may count too many that follow.
                        listener.listed(entries)
                        entries = None
                    continue
                number, count, pending = _numbers(message)
                if count != delivered + 1:
                    raise BusAway("a change was missed")
                delivered = count
                key = message.subject.removeprefix(self._prefix)
                entry = _entry(key, number, _headers(message), message.data)
                if entries is None:
                    listener.changed(entry)
                    continue
                entries[key] = entry
                if not pending:
                    listener.listed(entries)
                    entries = None


class NatsJournal:
    """The events of calls. A `cordboard.cluster.bus.Journal`."""

    def __init__(self, connection: NatsConnection, name: str) -> None:
        self._connection = connection
        self.stream = f"{name}_events"
        self._prefix = f"{name}.calls."

    def settings(self, replicas: int) -> dict[str, Any]:
        """Return the settings of its stream."""
        return {
            "name": self.stream,
            "subjects": [f"{self._prefix}*.events"],
            "num_replicas": replicas,
            "storage": "file",
            "discard": "old",
            "allow_direct": True,
            "max_age": KEPT_SECONDS * _NANO,
        }

    async def append(self, name: str, data: bytes, *, last: int) -> int:
        return await self._connection.publish(self._subject(name), data, last=last)

    async def last(self, name: str) -> Message | None:
        found = await _last(self._connection, self.stream, self._subject(name))
        return None if found is None else Message(found[2], found[0])

    async def read(self, name: str) -> list[Message]:
        messages: list[Message] = []
        while True:
            begin = messages[-1].revision + 1 if messages else 1
            page, left = await self._page(name, begin)
            messages += page
            if not left or not page:
                return messages

    async def erase(self, name: str) -> None:
        """Delete all messages of that name. Raises `BusAway`."""
        try:
            await self._connection.api(
                f"STREAM.PURGE.{self.stream}", {"filter": self._subject(name)}
            )
        except ApiError as error:
            if error.code not in NOT_FOUND:
                raise BusAway(str(error)) from None

    async def _page(self, name: str, begin: int) -> tuple[list[Message], int]:
        """Return some messages from a number on, and how many are left."""
        link = await self._connection.link()
        request = {"seq": begin, "next_by_subj": self._subject(name), "batch": PAGE}
        messages: list[Message] = []
        async with link.inbox() as (address, arrived):
            await link.send(f"$JS.API.DIRECT.GET.{self.stream}", request, address)
            while True:
                message = await _next(arrived)
                headers = _headers(message)
                if status := _status(message):
                    if status not in ("204", "404"):
                        raise BusAway(f"not read: status {status}")
                    return messages, int(headers.get("Nats-Num-Pending", 0))
                messages.append(Message(message.data, int(headers["Nats-Sequence"])))

    def _subject(self, name: str) -> str:
        return f"{self._prefix}{name}.events"


class NatsBus:
    """Everything that an engine has on NATS. Start `run` as a task."""

    def __init__(
        self, connection: NatsConnection, name: str, replicas: int = 1, *, asterisk: str = ""
    ) -> None:
        """`asterisk`: `host:port` of the one whose engines and calls are `leases` and `calls`;
        empty: those without one."""
        self.connection = connection
        place = place_of(asterisk)
        self.leases = NatsBucket(connection, f"{name}_leases", place)
        self.calls = NatsBucket(connection, f"{name}_calls", place)
        self.all_leases = NatsBucket(connection, f"{name}_leases")
        """Those of the whole cluster, for people who look: keys are `<place>.<instance>`."""
        self.all_calls = NatsBucket(connection, f"{name}_calls")
        """Keys are `<place>.<call id>`."""
        self.servers = NatsBucket(connection, f"{name}_mcp")
        """The engines that run MCP servers for the whole cluster, and open breakers."""
        self.events = NatsJournal(connection, name)
        self.counts = NatsBucket(connection, f"{name}_counts", heartbeat=CALM_HEARTBEAT_SECONDS)
        self.blocks = NatsBucket(connection, f"{name}_blocks", heartbeat=CALM_HEARTBEAT_SECONDS)
        self.claims = NatsBucket(connection, f"{name}_claims", heartbeat=CALM_HEARTBEAT_SECONDS)
        self._config = NatsBucket(connection, f"{name}_config")
        self.config_state = NatsBucket(
            connection, f"{name}_config", "state", heartbeat=CALM_HEARTBEAT_SECONDS
        )
        self.config_texts = NatsBucket(
            connection, f"{name}_config", "text", heartbeat=CALM_HEARTBEAT_SECONDS
        )
        self._replicas = replicas
        self._is_set_up = asyncio.Event()

    async def ready(self) -> None:
        """Wait until all streams have been there once."""
        await self._is_set_up.wait()

    async def make_config(self) -> None:
        """Make the bucket of the configuration, for a client that is no engine. Raises `BusAway`
        and `ClusterError`."""
        try:
            await self._make(self._config.settings(self._replicas))
        except ApiError as error:
            raise BusAway(f"the bucket of the configuration: {error}") from None

    async def run(self) -> NoReturn:
        """Stay connected, and make what is missing. Raises what `NatsConnection.run` does."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._set_up())
            await self.connection.run()

    async def _set_up(self) -> NoReturn:
        problem = ""
        while True:
            link = await self.connection.link()
            try:
                for part in (
                    self.leases,
                    self.calls,
                    self.servers,
                    self.events,
                    self._config,
                    self.counts,
                    self.blocks,
                    self.claims,
                ):
                    await self._make(part.settings(self._replicas))
            except (BusAway, ApiError) as error:
                if str(error) != problem:
                    log.warning("bus_not_set_up", error=str(error))
                problem = str(error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            problem = ""
            self._is_set_up.set()
            await link.lost.wait()

    async def _make(self, settings: dict[str, Any]) -> None:
        """Make a stream; keep one that is there. Raises `BusAway` and `ApiError`."""
        name = settings["name"]
        try:
            await self.connection.api(f"STREAM.INFO.{name}", seconds=SETUP_SECONDS)
        except ApiError as error:
            if error.code not in NOT_FOUND:
                raise
            try:
                await self.connection.api(f"STREAM.CREATE.{name}", settings, SETUP_SECONDS)
            except ApiError as refused:  # another engine was faster
                if refused.code != _IN_USE:
                    raise


async def _last(
    connection: NatsConnection, stream: str, subject: str
) -> tuple[int, Mapping[str, str], bytes] | None:
    """Return number, headers and data of the newest message of a subject, from the stream's leader:
    followers may be late. Raises `BusAway`."""
    try:
        found = await connection.api(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
    except ApiError as error:
        if error.code == NOT_FOUND[0]:
            return None
        raise BusAway(str(error)) from None
    try:
        message = found["message"]
        headers = _parsed(base64.b64decode(message.get("hdrs", "")))
        return int(message["seq"]), headers, base64.b64decode(message.get("data", ""))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BusAway("a stored message that cannot be read") from None


def _parsed(headers: bytes) -> Mapping[str, str]:
    lines = headers.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _entry(key: str, number: int, headers: Mapping[str, str], data: bytes) -> Entry:
    if "Nats-Marker-Reason" in headers:
        return Entry(key, None, number, expired=headers["Nats-Marker-Reason"] == "MaxAge")
    if headers.get("KV-Operation") in ("DEL", "PURGE"):
        return Entry(key, None, number)
    return Entry(key, data, number)


def _consumer(subject: str, address: str, heartbeat: float) -> dict[str, Any]:
    return {
        "deliver_subject": address,
        "deliver_policy": "last_per_subject",
        "ack_policy": "none",
        "replay_policy": "instant",
        "filter_subject": subject,
        "idle_heartbeat": int(heartbeat * _NANO),
        "inactive_threshold": 5 * _NANO,
        "mem_storage": True,
        "num_replicas": 1,
    }


async def _next(arrived: asyncio.Queue[Msg | None], seconds: float = PAGE_SECONDS) -> Msg:
    """Return the next message. Raises `BusAway`."""
    try:
        async with asyncio.timeout(seconds):
            message = await arrived.get()
    except TimeoutError:
        raise BusAway("nothing was heard") from None
    if message is None:
        raise BusAway("the connection was lost")
    return message


def _headers(message: Msg) -> Mapping[str, str]:
    return message.headers or {}


def _status(message: Msg) -> str:
    return _headers(message).get("Status", "")


def _numbers(message: Msg) -> tuple[int, int, int]:
    """Return a message's number in its stream and in its consumer, and how many follow. Raises
    `BusAway`.

    From the reply subject `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.
    <time>.<pending>`, which has further parts before and after these in a JetStream domain.
    """
    parts = message.reply.split(".")
    at = 5 if len(parts) == 9 else 7
    try:
        return int(parts[at]), int(parts[at + 1]), int(parts[at + 3])
    except (IndexError, ValueError):
        raise BusAway("a message without its place") from None
