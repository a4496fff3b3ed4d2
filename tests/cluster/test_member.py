"""A member of a cluster on a real NATS server: it joins, shows its state, and leaves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.nats_server import NatsServer, bus

from cordboard.cluster.lease import LeaseState
from cordboard.cluster.member import Member, MemberEvents, MemberState, Standing, new_instance
from cordboard.cluster.wire import CallRecord
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import ClusterError
from cordboard_testkit.patience import PATIENCE, until


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


class Engine:
    """An engine without telephony."""

    def __init__(
        self, server: NatsServer, directory: Path, node: str, encryption: Encryption | None = None
    ) -> None:
        self.standing = Standing(10, 0, False)
        self.gone: list[str] = []
        self.taken: list[str] = []
        self.states: list[LeaseState] = []
        self.directory = directory / node
        self.errors: list[str] = []
        self.member = Member(
            Cluster(node=node, labels=("gpu",), nats=server.settings),
            lambda: self.standing,
            self.directory,
            encryption=encryption or Encryption(),
            events=MemberEvents(
                self.gone.append, self.states.append, self.taken.append, self.errors.append
            ),
        )

    async def die(self) -> None:
        """As by SIGKILL."""
        for task in self.member._tasks:
            task.cancel()
        assert self.member._bus_task is not None
        self.member._bus_task.cancel()
        await asyncio.wait([*self.member._tasks, self.member._bus_task])
        self.member._notes.close()


@asynccontextmanager
async def joined(*engines: Engine) -> AsyncIterator[None]:
    for engine in engines:
        await engine.member.start()
    for engine in engines:
        await until(lambda engine=engine: len(engine.member.roster.others) == len(engines) - 1)
    yield
    for engine in engines:
        await engine.member.stop()
        assert engine.errors == []


async def test_what_an_engine_says_of_itself_and_that_it_leaves(
    server: NatsServer, tmp_path: Path
) -> None:
    a, b = Engine(server, tmp_path, "a"), Engine(server, tmp_path, "b")
    async with joined(a, b):
        seen = b.member.roster.others[a.member.instance]
        assert (seen.node, seen.labels, seen.free_slots) == ("a", ("gpu",), 10)
        a.standing = replace(a.standing, draining=True, live_calls=3)
        a.member.lease.renew_soon()
        await until(lambda: b.member.roster.others[a.member.instance].draining)
        usual = MemberState(b.member.instance, "", "held", 2, 0, 0, 0)
        await until(lambda: b.member.state == usual)
        seen = b.member.roster.others[a.member.instance]
        assert (seen.live_calls, seen.free_slots) == (3, 0)
        await a.member.stop()
        await until(lambda: not b.member.roster.others)
        assert a.member.instance not in b.gone
    assert not list((tmp_path / "a" / "unsent").iterdir())


async def test_the_calls_of_a_dead_engine_go_on_with_their_words(
    server: NatsServer, tmp_path: Path
) -> None:
    a, b = Engine(server, tmp_path, "a"), Engine(server, tmp_path, "b")
    async with joined(a, b):
        lines = [b'{"at_ms":%d}\n' % number for number in range(10)]
        a.member.events.open("c1", lambda: a.directory / "c1.jsonl")
        a.member.records.put(CallRecord("c1", "", caller_channel="17.1", state="talking"))
        for line in lines:
            a.member.events.take("c1", line)
        await a.member.events.idle()
        await until(lambda: b.member.lease.steady_seconds > 4)
        await a.die()
        await until(lambda: b.gone == [a.member.instance])
        assert await b.member.roster.revoke(a.member.instance)
        claimed = await b.member.records.claim("c1", a.member.instance)
        assert claimed is not None
        assert claimed.record.caller_channel == "17.1"
        story = await b.member.events.read("c1")
        assert story.lines == tuple(lines)
        b.member.events.open("c1", lambda: b.directory / "c1.jsonl", story, claimed.epoch)
        b.member.events.take("c1", b'{"at_ms":99}\n')
        await b.member.events.idle()
        assert len((await b.member.events.read("c1")).lines) == 11
        b.member.events.close("c1")
        b.member.records.remove("c1")
        a.member._bus_task = None


async def test_an_engine_whose_disk_is_full_joins_and_its_events_are_sent(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cordboard.private_files.make_folder", full)
    monkeypatch.setattr("cordboard.private_files.replace", full)
    a = Engine(server, tmp_path, "a")
    async with joined(a):
        a.member.events.open("c1", lambda: a.directory / "c1.jsonl")
        a.member.records.put(CallRecord("c1", ""))
        a.member.events.take("c1", b"{}\n")
        await a.member.events.idle()
        assert (await a.member.events.read("c1")).lines == (b"{}\n",)
        a.member.events.close("c1")
        a.member.records.remove("c1")


async def test_an_engine_starts_and_stops_without_its_bus(
    server: NatsServer, tmp_path: Path
) -> None:
    server.kill()
    engine = Engine(server, tmp_path, "a")
    await engine.member.start()
    engine.member.records.put(CallRecord("c1", ""))
    engine.member.events.open("c1", lambda: engine.directory / "c1.jsonl")
    engine.member.events.take("c1", b"{}\n")
    engine.member.events.close("c1")
    waiting = MemberState(engine.member.instance, "", "in_doubt", 1, 1, 1, 3)
    await until(lambda: "Connect" in engine.member.state.problem)
    await until(lambda: replace(engine.member.state, problem="") == waiting)
    await engine.member.stop()
    assert engine.errors == []
    # The next start sends the rest.
    (engine.directory / "c1.jsonl").write_bytes(b"{}\n")
    server.start()
    again = Engine(server, tmp_path, "a")
    async with joined(again):
        await again.member.bus.ready()
        async with asyncio.timeout(PATIENCE):
            while await again.member.bus.events.last("c1") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await again.member.events.idle()
        assert (await again.member.events.read("c1")).lines == (b"{}\n",)
    assert not list((again.directory / "unsent").iterdir())


def encryption(directory: Path, key: str, *old: str) -> Encryption:
    return Encryption.model_validate(
        {
            "enabled": True,
            "master_key": key * 32,
            "old_master_keys": [each * 32 for each in old],
            "keys_directory": directory / "keys",
        }
    )


async def test_encrypted_calls_are_encrypted_on_the_bus_too(
    server: NatsServer, tmp_path: Path
) -> None:
    old = Engine(server, tmp_path, "a", encryption(tmp_path, "ab"))
    new = Engine(server, tmp_path, "b", encryption(tmp_path, "cd", "ab"))
    stranger = Engine(server, tmp_path, "c", encryption(tmp_path, "ef"))
    async with joined(old, new, stranger), bus(server.settings, "cordboard") as raw:
        word = b"very private"
        old.member.events.open("c1", lambda: old.directory / "c1.jsonl")
        old.member.records.put(CallRecord("c1", "", caller_number=word.decode()))
        old.member.events.take("c1", b'{"text":"%s"}\n' % word)
        await old.member.events.idle()
        stored: list[Any] = [await raw.calls.get("c1"), await raw.events.last("c1")]
        assert word not in stored[0].value
        assert word not in stored[1].data
        for engine in (old, new):
            record = await engine.member.records.find("c1")
            assert record is not None
            assert record.caller_number == word.decode()
            assert word in (await engine.member.events.read("c1")).lines[0]
        assert await stranger.member.records.find("c1") is None
        assert (await stranger.member.events.read("c1")).lines == ()
        # Nobody can put the words of one call into another.
        await raw.events.append("c2", stored[1].data, last=0)
        assert (await new.member.events.read("c2")).lines == ()
        old.member.events.close("c1")


async def test_a_failure_of_our_own_stops_no_part_for_good(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.cluster.member.AGAIN_SECONDS", 0.05)
    a = Engine(server, tmp_path, "a")

    def fails(*call: object) -> None:
        raise RuntimeError("a mistake")

    async with joined(a):
        owned = a.member.events.owned
        monkeypatch.setattr(a.member.events, "owned", fails)
        a.member.records.put(CallRecord("c1", ""))
        await until(lambda: a.errors == ["cluster"])
        monkeypatch.setattr(a.member.events, "owned", owned)
        a.member.records.put(CallRecord("c2", ""))
        await until(lambda: a.member.records.epoch("c2") is not None)
        a.errors.clear()


async def test_files_that_cannot_be_read_are_told_at_the_start(
    server: NatsServer, tmp_path: Path
) -> None:
    file = tmp_path / "engine.creds"
    settings = server.settings.model_copy(update={"credentials": file})
    member = Member(
        Cluster(node="a", nats=settings),
        lambda: Standing(1, 0, False),
        tmp_path,
        encryption=Encryption(),
    )
    for content, expected in (
        (None, "No such file"),
        ("secret-words", "expected a NATS USER JWT"),
        (
            "-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n"
            "-----BEGIN USER NKEY SEED-----\nSUsecret\n------END USER NKEY SEED------\n",
            "is damaged",
        ),
    ):
        if content is not None:
            file.write_text(content)
        with pytest.raises(ClusterError, match=expected) as caught:
            await member.start()
        assert "secret" not in str(caught.value)


def test_instances_are_fresh() -> None:
    assert len({new_instance("a") for _ in range(100)}) == 100
    assert new_instance("a").startswith("a-")
