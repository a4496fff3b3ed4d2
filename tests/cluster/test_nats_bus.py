"""The bus on a real NATS server: revisions, expiry, watches, and what happens when it is away."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client
from pydantic import SecretStr
from structlog.testing import capture_logs
from tests.cluster.nats_server import NatsServer, bus

from cordboard.cluster import nats_bus, nats_connection
from cordboard.cluster.bus import Entry, listing
from cordboard.cluster.nats_bus import NatsBucket, NatsBus
from cordboard.cluster.nats_connection import ApiError, NatsConnection, NatsLink
from cordboard.config.sections.cluster import Nats, NatsTls
from cordboard.errors import BusAway, RevisionLost
from cordboard_testkit.emulators.throw_away_certificate import ThrowAwayCertificate
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE, until


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """For a test that stops it."""
    with NatsServer() as running:
        yield running


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.lists: list[Mapping[str, Entry]] = []
        self.changes: list[Entry] = []

    def listed(self, entries: Mapping[str, Entry]) -> None:
        self.lists.append(dict(entries))

    def changed(self, entry: Entry) -> None:
        self.changes.append(entry)


@asynccontextmanager
async def watched(bucket: NatsBucket) -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(bucket.watch(heard))
    await until(lambda: bool(heard.lists), "the first list")
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_entries_have_revisions_and_only_the_right_one_may_write(server: NatsServer) -> None:
    async with bus(server.settings, "revisions") as found:
        calls = found.calls
        assert await calls.get("x") is None
        first = await calls.put("x", b"1", last=0)
        with pytest.raises(RevisionLost):
            await calls.put("x", b"2", last=0)
        second = await calls.put("x", b"2", last=first)
        assert second > first
        with pytest.raises(RevisionLost):
            await calls.remove("x", last=first)
        assert await calls.get("x") == Entry("x", b"2", second)
        await calls.remove("x", last=second)
        gone = await calls.get("x")
        assert gone is not None
        assert gone.value is None
        assert not gone.expired
        assert await calls.put("x", b"3", last=gone.revision) > gone.revision


async def test_a_watch_hears_of_changes_removals_and_expiry(server: NatsServer) -> None:
    async with bus(server.settings, "watches") as found, watched(found.leases) as heard:
        assert heard.lists == [{}]
        revision = await found.leases.put("a", b"1", last=0, ttl=1)
        await found.leases.put("b", b"1", last=0)
        await until(lambda: len(heard.changes) == 3, "the expiry")
        assert heard.changes[0] == Entry("a", b"1", revision)
        assert heard.changes[2].key == "a"
        assert heard.changes[2].value is None
        assert heard.changes[2].expired
        marker = heard.changes[2].revision
        assert await found.leases.get("a") == heard.changes[2]
        await found.leases.put("a", b"2", last=marker, ttl=1)  # it may come back

        async with watched(found.leases) as late:
            assert set(late.lists[0]) == {"a", "b"}
        assert set(await listing(found.leases)) == {"a", "b"}


@pytest.mark.parametrize("fault", ["stop", "kill"])
async def test_a_bus_that_was_away_is_back_and_no_change_is_missed(
    own_server: NatsServer, fault: str
) -> None:
    async with (
        bus(own_server.settings, patient=False) as one,
        bus(own_server.settings) as other,
        watched(one.calls) as heard,
    ):
        revision = await other.calls.put("before", b"1", last=0)
        await until(lambda: len(heard.changes) == 1, "the change")
        own_server.stop() if fault == "stop" else own_server.kill()
        with pytest.raises(BusAway):
            await one.calls.put("before", b"2", last=revision)
        await until(lambda: not one.connection.connected, "the loss")
        loop, took = asyncio.get_running_loop(), []
        for _ in range(5):
            began = loop.time()
            with pytest.raises(BusAway):
                await one.calls.get("before")
            took.append(loop.time() - began)
        assert min(took) < 0.1  # it does not even try
        assert one.connection.problem
        own_server.go_on() if fault == "stop" else own_server.start()
        await until(lambda: len(heard.lists) >= 2, "the second list")
        await until(lambda: one.connection.problem == "", "the connection")
        assert set(heard.lists[-1]) == {"before"}
        await until(lambda: other.connection.connected, "the other connection")
        now = await other.calls.get("before")
        assert now is not None
        assert now.value in (b"1", b"2")  # an error never means that it is not stored
        await other.calls.put("after", b"1", last=0)

        def told() -> bool:
            changed = any(change.key == "after" for change in heard.changes)
            return changed or "after" in heard.lists[-1]

        await until(told, "the change")


async def test_nothing_is_left_of_a_connection_that_a_silent_server_keeps_from_closing(
    own_server: NatsServer,
) -> None:
    def readers() -> int:
        names = (getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())
        return [*names].count("Subscription._wait_for_msgs")

    async with bus(own_server.settings, patient=False) as found:
        link = await found.connection.link()
        assert readers() == 1
        own_server.stop()
        much = [link.ask("much", bytes(900_000)) for _ in range(15)]  # more than the kernel takes
        failures = await asyncio.gather(*much, return_exceptions=True)
        assert {type(each) for each in failures} == {BusAway}
        await until(link.lost.is_set, "the loss")
        await until(lambda: not readers(), "its end")
        assert link.client._transport is not None
        assert link.client._transport._io_writer.transport.is_closing()  # type: ignore[attr-defined]


async def test_a_server_without_jetstream_storage_yet_is_set_up_again(
    own_server: NatsServer,
) -> None:
    """All streams are gone: somebody has deleted them."""
    async with bus(own_server.settings) as found:
        for stream in (found.leases.stream, found.calls.stream, found.events.stream):
            await found.connection.api(f"STREAM.DELETE.{stream}")
        with pytest.raises(BusAway, match="no JetStream, or no such stream"):
            await found.calls.put("x", b"1", last=0)
        own_server.kill()
        own_server.start()
        await until(lambda: found.connection.connected, "the connection")

        async def is_back() -> bool:
            try:
                return bool(await found.calls.put("x", b"1", last=0))
            except BusAway:
                return False

        async with asyncio.timeout(PATIENCE):
            while not await is_back():  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)


async def test_what_keeps_a_bus_from_being_set_up_is_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server whose disk is full is asked five times a second. Watches are refused, too."""
    asked = asyncio.Event()

    class Refusing(NatsConnection):
        tries = 0

        async def link(self) -> NatsLink:
            return NatsLink(Client())

        async def api(self, name: str, body: Any = None, seconds: float = 0.0) -> Any:
            self.tries += 1
            if self.tries > 10:
                asked.set()
            raise ApiError(10047, "insufficient storage resources available")

    monkeypatch.setattr(nats_bus, "RETRY_SECONDS", 0.001)
    connection = Refusing(Nats(servers=("nats://127.0.0.1:1",)), "a-test")
    monkeypatch.setattr(NatsLink, "inbox", lambda self: contextlib.nullcontext(("x", None)))
    full = NatsBus(connection, "full")
    with capture_logs() as logs:
        working = [
            asyncio.create_task(work) for work in (full._set_up(), full.leases.watch(Heard()))
        ]
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        for task in working:
            task.cancel()
        await asyncio.wait(working)
    reason = "insufficient storage resources available (10047)"
    assert [(each["event"], each["error"]) for each in logs] == [
        ("bus_not_set_up", reason),
        ("watch_refused", reason),
    ]


async def test_two_clusters_on_one_server_do_not_see_each_other(server: NatsServer) -> None:
    async with bus(server.settings, "one") as one, bus(server.settings, "two") as two:
        await one.calls.put("x", b"1", last=0)
        assert await two.calls.get("x") is None
        assert await listing(two.calls) == {}


async def test_engines_at_two_asterisks_hear_nothing_of_each_other(server: NatsServer) -> None:
    """The server filters; who looks at the whole cluster sees the entries of both."""
    async with (
        bus(server.settings, "places", asterisk="10.0.0.1:8088") as one,
        bus(server.settings, "places", asterisk="10.0.0.2:8088") as two,
        watched(one.leases) as heard,
        watched(one.all_leases) as heard_all,
    ):
        await two.leases.put("b-1", b"2", last=0)
        await one.leases.put("a-1", b"1", last=0)
        await one.calls.put("x", b"1", last=0)
        await until(lambda: len(heard_all.changes) == 2, "both leases")
        assert [entry.key for entry in heard.changes] == ["a-1"]
        assert await two.leases.get("a-1") is None
        assert set(await listing(one.leases)) == {"a-1"}
        assert set(await listing(two.calls)) == set()
        keys = [entry.key for entry in heard_all.changes]
        assert [key.split(".")[1] for key in keys] == ["b-1", "a-1"]
        assert len({key.split(".")[0] for key in keys}) == 2
        assert set(await listing(two.all_calls)) == {f"{keys[1].split('.')[0]}.x"}


async def test_a_journal_keeps_its_order_and_reads_more_than_a_page(server: NatsServer) -> None:
    async with bus(server.settings, "journal") as found:
        events, last = found.events, 0
        assert await events.last("c1") is None
        assert await events.read("c1") == []
        for number in range(1_203):
            last = await events.append("c1", b"%d" % number, last=last)
            if number == 600:
                await events.append("c2", b"other", last=0)
        messages = await events.read("c1")
        assert [message.data for message in messages] == [b"%d" % n for n in range(1_203)]
        assert await events.last("c1") == messages[-1]
        with pytest.raises(RevisionLost):
            await events.append("c1", b"stale", last=last - 1)
        await events.erase("c1")
        assert await events.read("c1") == []
        assert len(await events.read("c2")) == 1


async def test_a_message_that_is_sent_again_is_not_stored_twice(server: NatsServer) -> None:
    """As after a lost answer: the revision it builds on is not the last one any more."""
    async with bus(server.settings, "again") as found:
        last = await found.events.append("c1", b"1", last=0)
        with pytest.raises(RevisionLost):
            await found.events.append("c1", b"1", last=0)
        stored = await found.events.last("c1")
        assert stored is not None
        assert stored.revision == last


@pytest.mark.parametrize(
    ("way", "good", "bad"),
    [
        ("user", {"user": "engine", "password": "right"}, {"user": "engine", "password": "wrong"}),
        ("token", {"token": "right"}, {"token": "wrong"}),
    ],
)
async def test_signing_in(way: str, good: dict[str, str], bad: dict[str, str]) -> None:
    options = (
        ("--user", "engine", "--pass", "right") if way == "user" else ("--auth", "right")
    )  # fmt: skip
    with NatsServer(options=options) as server:
        async with bus(Nats(servers=(server.url,), **good)) as found:
            assert await found.calls.get("x") is None
        connection = NatsConnection(Nats(servers=(server.url,), **bad), "a-test")
        running = asyncio.create_task(connection.run())
        await until(lambda: "Authorization Violation" in connection.problem, "the refusal")
        assert "wrong" not in connection.problem
        running.cancel()
        await asyncio.wait([running])


class Signer:
    """A key of NATS: an operator's, an account's or a user's (https://github.com/nats-io/nkeys)."""

    PREFIX: ClassVar = {"O": 14 << 3, "A": 0, "U": 20 << 3}

    def __init__(self, kind: str) -> None:
        self.key = Ed25519PrivateKey.generate()
        prefix = self.PREFIX[kind]
        self.public = self._encoded(bytes([prefix]) + self.key.public_key().public_bytes_raw())
        seed = bytes([(18 << 3) | (prefix >> 5), (prefix & 31) << 3])
        self.seed = self._encoded(seed + self.key.private_bytes_raw())

    @staticmethod
    def _encoded(raw: bytes) -> str:
        crc = binascii.crc_hqx(raw, 0)
        return base64.b32encode(raw + crc.to_bytes(2, "little")).decode().rstrip("=")

    def jwt(self, subject: str, name: str, nats: dict[str, Any]) -> str:
        def part(value: bytes) -> str:
            return base64.urlsafe_b64encode(value).decode().rstrip("=")

        claims = {"iat": 1, "iss": self.public, "sub": subject, "name": name, "nats": nats}
        claims["jti"] = base64.b32encode(
            hashlib.new("sha512_256", orjson.dumps(claims)).digest()
        ).decode()
        text = part(b'{"typ":"JWT","alg":"ed25519-nkey"}') + "." + part(orjson.dumps(claims))
        return f"{text}.{part(self.key.sign(text.encode()))}"


async def test_signing_in_with_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with an operator, an account and a user, as `nsc` makes them. The file may be
    renewed while an engine runs: what is in it expires."""
    monkeypatch.setattr(nats_connection, "READ_AGAIN_SECONDS", 0.1)
    operator, system, account, user = Signer("O"), Signer("A"), Signer("A"), Signer("U")
    limits = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1,
              "payload": -1, "wildcards": True, "mem_storage": -1, "disk_storage": -1,
              "streams": -1, "consumer": -1}  # fmt: skip
    account_jwt = operator.jwt(
        account.public, "calls", {"type": "account", "version": 2, "limits": limits}
    )
    system_jwt = operator.jwt(system.public, "system", {"type": "account", "version": 2})
    user_jwt = account.jwt(
        user.public,
        "engine",
        {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}},
    )
    operator_jwt = operator.jwt(operator.public, "test", {"type": "operator", "version": 2})
    config = tmp_path / "nats.conf"
    config.write_text(
        f"operator: {operator_jwt}\nresolver: MEMORY\nsystem_account: {system.public}\n"
        f"resolver_preload: {{ {account.public}: {account_jwt}, {system.public}: {system_jwt} }}\n"
    )
    credentials = tmp_path / "engine.creds"
    credentials.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    with NatsServer(options=("-c", str(config))) as server:
        settings = Nats(servers=(server.url,), credentials=credentials)
        async with bus(settings) as found:
            assert await found.calls.put("x", b"1", last=0)
        right = credentials.read_text()
        credentials.write_text(right.replace(user.seed, Signer("U").seed))
        connection = NatsConnection(settings, "a-test")
        running = asyncio.create_task(connection.run())
        await until(lambda: "Authorization Violation" in connection.problem, "the refusal")
        credentials.write_text("half of a file")
        with capture_logs() as logs:
            await until(lambda: any(each["event"] == "bus_files_not_read" for each in logs))
        credentials.write_text(right)
        await until(lambda: connection.connected, "the connection")
        running.cancel()
        await asyncio.wait([running])


async def test_a_user_who_may_not_write_somewhere_is_told_once(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    deny = '{publish: {deny: ["$KV.test_config.>"]}}'
    config.write_text(f"authorization: {{users: [{{user: e, password: p, permissions: {deny}}}]}}")
    with NatsServer(options=("-c", str(config))) as server, capture_logs() as logs:
        settings = Nats(servers=(server.url,), user="e", password=SecretStr("p"))
        async with bus(settings, patient=False) as found:
            for _ in range(2):
                with pytest.raises(BusAway):
                    await found.config_state.put("x", b"1", last=0)
    (told,) = [each for each in logs if each["event"] == "bus_refuses"]
    assert '"$kv.test_config.state.x"' in told["error"]


async def test_tls_with_a_certificate_of_its_own() -> None:
    with ThrowAwayCertificate() as made:
        files = ("--tlscert", str(made.path), "--tlskey", str(made.path.with_name("key.pem")))
        with NatsServer(options=("--tls", *files)) as server:
            async with bus(Nats(servers=(server.url,), tls=NatsTls(ca=made.path))) as found:
                assert await found.calls.put("x", b"1", last=0)
            connection = NatsConnection(Nats(servers=(server.url,), tls=NatsTls()), "a-test")
            running = asyncio.create_task(connection.run())
            await until(lambda: "certificate verify failed" in connection.problem, "the refusal")
            running.cancel()
            await asyncio.wait([running])


async def test_a_server_that_is_cut_off_from_the_others_is_left(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers pings, and its JetStream has no leader."""
    monkeypatch.setattr(nats_connection, "USELESS_SECONDS", 1.0)
    monkeypatch.setattr(nats_connection.random, "shuffle", lambda servers: None)
    others = (free_port(), free_port())
    with NatsServer("n1", others, free_port()) as alone:
        settings = Nats(servers=(alone.url, server.url))
        async with bus(settings, "left", patient=False) as found:
            assert found.connection.server == server.url
            assert await found.leases.put("a", b"1", last=0)


async def test_a_list_is_whole_when_the_server_has_nothing_more_whatever_it_has_counted() -> None:
    """Servers have counted more entries than they had (nats-io/nats-server, #3148 and #2611)."""
    arrived: asyncio.Queue[Any] = asyncio.Queue()

    class Link:
        @asynccontextmanager
        async def inbox(self) -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
            yield "inbox", arrived

    class Connection:
        async def link(self) -> Link:
            return Link()

        async def api(self, name: str, body: Any) -> dict[str, int]:
            return {"num_pending": 2}

    bucket = NatsBucket(Connection(), "test_calls")  # type: ignore[arg-type]
    place = "$JS.ACK.KV_test_calls.watch.1.7.1.0.1"
    arrived.put_nowait(
        SimpleNamespace(subject="$KV.test_calls.c1", reply=place, headers=None, data=b"x")
    )
    heartbeat = {"Status": "100", "Nats-Last-Consumer": "1"}
    arrived.put_nowait(SimpleNamespace(headers=heartbeat))
    assert {key: entry.value for key, entry in (await listing(bucket)).items()} == {"c1": b"x"}
