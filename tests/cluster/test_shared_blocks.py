"""The do-not-call list of all engines: each has all of it, and a block is not lost."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster.bus import Entry
from cordboard.cluster.shared_blocks import SharedBlocks
from cordboard.firewall.blocks import ADVANTAGE, BlockChange
from cordboard.outbound.campaigns.store import CampaignStore
from cordboard_testkit.virtual_time import in_virtual_time

KARI, OLA = "+4722000001", "+4722000002"
SALT = b"the key of the cluster"


class Book:
    """A file of its own, on the event loop."""

    def __init__(self, path: Path) -> None:
        self.store = CampaignStore(path)

    async def begin(self) -> None:
        self.store.begin_block_changes()

    async def unsent(self, most: int) -> Sequence[BlockChange]:
        return self.store.unsent_blocks(most)

    async def sent(self, changes: Sequence[BlockChange]) -> None:
        self.store.blocks_sent(changes)

    async def send_again(self, is_lost: Callable[[str], bool]) -> None:
        self.store.send_blocks_again(is_lost)

    async def apply(self, changes: Sequence[BlockChange]) -> None:
        self.store.take_blocks(changes)


class Engine:
    def __init__(self, server: FakeServer, path: Path) -> None:
        self.bucket = FakeBucket(server)
        self.book = Book(path)
        self.store = self.book.store
        self.shared = SharedBlocks(self.bucket, self.book, self._key)
        self.task = asyncio.create_task(self.shared.run())

    async def _key(self) -> bytes:
        return SALT

    @property
    def listed(self) -> set[str]:
        return {row["number"] for row in self.store.blocked(100)}


@asynccontextmanager
async def engines(folder: Path, *names: str) -> AsyncIterator[tuple[FakeServer, list[Engine]]]:
    server = FakeServer()
    made = [Engine(server, folder / name) for name in names]
    try:
        yield server, made
    finally:
        for each in made:
            each.task.cancel()
        await asyncio.wait([each.task for each in made])
        for each in made:
            assert each.task.cancelled()
            each.store.close()


@in_virtual_time
async def test_a_change_on_one_node_reaches_all(tmp_path: Path) -> None:
    async with engines(tmp_path, "a", "b", "c") as (server, (a, b, c)):
        assert a.store.block([KARI, OLA]) == 2
        await asyncio.sleep(3)
        assert a.listed == b.listed == c.listed == {KARI, OLA}
        assert b.store.is_blocked(KARI)
        assert c.store.unblock(KARI)
        await asyncio.sleep(3)
        assert a.listed == b.listed == c.listed == {OLA}
        assert a.store.block([KARI]) == 1
        await asyncio.sleep(3)
        assert a.listed == b.listed == c.listed == {KARI, OLA}
        writes = server.revision
        await asyncio.sleep(60)
        assert server.revision == writes, "each change is sent once"
        assert not any(KARI[1:] in name for name in server.entries)


@in_virtual_time
async def test_a_bus_that_has_lost_its_data_gets_the_list_again(tmp_path: Path) -> None:
    async with engines(tmp_path, "a") as (server, (a,)):
        a.store.block([KARI, OLA])
        await asyncio.sleep(3)
        a.store.unblock(OLA)
        await asyncio.sleep(3)
        server.entries.clear()
        a.bucket.come_back()
        await asyncio.sleep(3)
        new = Engine(server, tmp_path / "new")
        await asyncio.sleep(3)
        assert new.listed == {KARI}
        new.task.cancel()
        await asyncio.wait([new.task])
        new.store.close()


@in_virtual_time
async def test_changes_made_while_the_bus_is_away_are_sent_later_and_once(tmp_path: Path) -> None:
    async with engines(tmp_path, "a", "b") as (server, (a, b)):
        await asyncio.sleep(1)
        a.bucket.away = b.bucket.away = True
        a.store.block([KARI])
        b.store.block([OLA])
        await asyncio.sleep(30)
        assert (a.listed, b.listed) == ({KARI}, {OLA}), "the own list works"
        assert a.shared.unsent == 1
        a.bucket.come_back()
        b.bucket.come_back()
        await asyncio.sleep(5)
        assert a.listed == b.listed == {KARI, OLA}
        assert (a.shared.unsent, server.revision) == (0, 2)
        a.bucket.loses_answers = True
        a.store.unblock(KARI)
        await asyncio.sleep(3)
        a.bucket.loses_answers = False
        await asyncio.sleep(5)
        assert (b.listed, server.revision) == ({OLA}, 3)


@in_virtual_time
async def test_of_the_same_moment_a_block_wins(tmp_path: Path) -> None:
    async with engines(tmp_path, "a", "b") as (_, (a, b)):
        a.store.block([KARI])
        await asyncio.sleep(3)
        a.bucket.away = b.bucket.away = True
        a.store.unblock(KARI)
        a.store.block([KARI])
        b.store.unblock(KARI)
        await asyncio.sleep(3)
        b.bucket.come_back()
        await asyncio.sleep(3)
        a.bucket.come_back()
        await asyncio.sleep(5)
        assert a.listed == b.listed == {KARI}


@in_virtual_time
async def test_a_list_from_before_the_cluster_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "a")) as store:
        store.block([KARI])
    with closing(sqlite3.connect(tmp_path / "a")) as database:  # as an earlier version left it
        database.execute("DELETE FROM block_change")
        database.commit()
    with capture_logs() as logs:
        async with engines(tmp_path, "a", "b") as (server, (_, b)):
            for poison in (b"\xff", b'{"v":9,"kind":"block"}'):
                server.store(Entry("poison", poison, server.next_revision()))
            await asyncio.sleep(3)
            assert b.listed == {KARI}
    assert [each["event"] for each in logs].count("block_unreadable") == 2, "once an engine"


@in_virtual_time
async def test_what_a_later_program_has_written_is_left_alone(tmp_path: Path) -> None:
    async with engines(tmp_path, "a", "b") as (server, (a, b)):
        a.store.unblock(KARI)
        await asyncio.sleep(3)
        later = b'{"v":2,"kind":"block","number":"+4722000001","until":1.0}'
        (name,) = server.entries
        server.store(Entry(name, later, server.next_revision()))
        a.store.block([KARI, OLA])
        await asyncio.sleep(3)
        assert server.entries[name].value == later
        assert (a.listed, b.listed) == ({KARI, OLA}, {OLA}), "other numbers are sent"
        assert a.shared.unsent == 1
        server.store(Entry(name, None, server.next_revision()))
        await asyncio.sleep(3)
        assert b.listed == {KARI, OLA}, "it has waited"
        assert a.shared.unsent == 0


CHANGES = st.builds(
    BlockChange, st.just(KARI), st.sampled_from([0.0, 5.0, 9.0, 30.0]), st.booleans()
)


@settings(max_examples=10, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_all_orders_of_arrival_lead_to_the_same_list(changes: list[BlockChange]) -> None:
    ends = set()
    with TemporaryDirectory() as folder:
        for number, order in enumerate(itertools.permutations(changes)):
            with closing(CampaignStore(Path(folder) / str(number))) as store:
                for each in order:
                    store.take_blocks([each])
                ends.add(store.is_blocked(KARI))
    assert len(ends) == 1


@pytest.mark.parametrize("blocked", [True, False])
def test_a_change_with_knowledge_of_another_wins_whatever_the_clocks_say(blocked: bool) -> None:
    known = BlockChange(KARI, 1_000.0, not blocked)
    late = BlockChange(KARI, 900.0, blocked).after(known)
    assert late.order > known.order
    assert BlockChange(KARI, 2_000.0, blocked).after(known).at == 2_000.0
    assert (
        BlockChange(KARI, 1_000.0 - ADVANTAGE, True).order > BlockChange(KARI, 1_000.0, False).order
    )
