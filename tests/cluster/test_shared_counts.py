"""Caps that hold for all engines of a cluster together, whatever the bus does."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster.bus import Entry
from cordboard.cluster.limit_wire import decode_now
from cordboard.cluster.shared_counts import STRANGERS, SharedCounts
from cordboard.firewall.counts import Counts, LiveCall, Used, digest_of
from cordboard.firewall.store import FILE, CountStore, forget_caller
from cordboard_testkit.patience import until
from cordboard_testkit.virtual_time import in_virtual_time, virtual_time

NINE = datetime.datetime(2026, 11, 23, 9, 0, tzinfo=datetime.UTC)
KARI = "+4791234567"


class LateBucket(FakeBucket):
    """A client whose watch may be late."""

    delay = 0.0

    def tell(self, entry: Entry) -> None:
        if self.delay and not self.away:
            asyncio.get_running_loop().call_later(self.delay, super().tell, entry)
        else:
            super().tell(entry)


class World:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.engines: list[Engine] = []
        self.began = asyncio.get_running_loop().time()

    @property
    def living(self) -> list[Engine]:
        return [each for each in self.engines if each.alive]


class Engine:
    def __init__(
        self,
        world: World,
        node: str,
        *,
        start: int = 1,
        skew: float = 0.0,
        place: str = "",
        counts: Counts | None = None,
    ) -> None:
        self.world, self.node, self.skew, self.alive = world, node, skew, True
        self.place = place
        self.instance = f"{node}-{start}"
        self.bucket = LateBucket(world.server)
        self.counts = counts or Counts()
        self.live: list[LiveCall] = []
        self.admitted = 0
        self.shared = SharedCounts(
            self.bucket,
            self.counts,
            node,
            self.instance,
            lambda: {
                each.instance for each in world.living if each is not self and each.place == place
            },
            place,
            lambda: len(self.live),
        )
        world.engines.append(self)
        self.task = asyncio.create_task(self.shared.run())

    def now(self) -> datetime.datetime:
        passed = asyncio.get_running_loop().time() - self.world.began
        return NINE + datetime.timedelta(seconds=passed + self.skew)

    def used(self, name: str = "", scope: Any = "total") -> Used:
        return self.counts.used("in", scope, name, self.now())

    def begin(self, number: str = KARI, *, resumed: bool = False) -> None:
        self.admitted += 1
        now = self.now()
        self.live.append(self.counts.begin("in", number, "demo", now, resumed=resumed))
        self.shared.calls_moved()

    def end(self) -> None:
        if self.live:
            self.counts.end(self.live.pop(), self.now())
            self.shared.calls_moved()

    def call(self) -> None:
        self.begin()
        self.end()

    def admit(self, amount: str, cap: int) -> bool:
        if self.used().filled(amount, cap) >= 1:
            return False
        self.begin()
        return True

    async def die(self) -> None:
        """As by SIGKILL, and taken for dead."""
        self.alive = False
        self.task.cancel()
        await asyncio.wait([self.task])


@asynccontextmanager
async def engines(*nodes: str, skews: tuple[float, ...] = ()) -> AsyncIterator[list[Engine]]:
    world = World()
    made = [Engine(world, node, skew=skew) for node, skew in
            zip(nodes, skews or (0.0,) * len(nodes), strict=True)]  # fmt: skip
    await asyncio.sleep(3)
    try:
        yield made
    finally:
        for each in world.engines:
            each.task.cancel()
        await asyncio.wait([each.task for each in world.engines])
        assert all(each.task.cancelled() for each in world.engines)


@in_virtual_time
async def test_each_engine_counts_what_the_others_have() -> None:
    async with engines("a", "b", "c") as (a, b, c):
        a.begin()
        b.call()
        a.counts.settle(a.live[0], a.now() + datetime.timedelta(minutes=2))
        await asyncio.sleep(2)
        for each in (a, b, c):
            used = each.used(KARI, "caller")
            assert (used.calls, used.live, used.minutes) == (2, 1, 2)
            assert used.calls_in_minute == pytest.approx(2, abs=0.1)
            assert used.engines == 3
            assert each.used().unseen == Used(), "all is confirmed"
        assert a.counts.salt == b.counts.salt == c.counts.salt
        await asyncio.sleep(150)
        assert c.used().calls_in_minute == 0
        writes = a.bucket.writes
        await asyncio.sleep(60)
        assert a.bucket.writes <= writes + 4, "without calls hardly anything is written"


@in_virtual_time
async def test_what_a_dead_engine_has_counted_stays_and_its_live_calls_are_the_adopters() -> None:
    async with engines("a", "b") as (a, b):
        a.begin()
        a.begin()
        await asyncio.sleep(2)
        assert b.used().live == 2
        await a.die()
        b.begin(resumed=True)
        used = b.used()
        assert (used.live, used.calls) == (1, 2), "one has hung up, one goes on"
        b.end()
        assert b.used().calls == 2


@in_virtual_time
async def test_two_living_engines_of_one_name_say_so_and_a_restarted_one_does_not() -> None:
    async with engines("a", "b") as (a, b):
        await a.die()
        a.bucket.away = True
        again = Engine(a.world, "a", start=2)
        await asyncio.sleep(90)
        assert (again.shared.twin, b.shared.twin) == ("", "")
        with capture_logs() as logs:
            twin = Engine(a.world, "a", start=3, place="other")
            await asyncio.sleep(90)
        assert (again.shared.twin, twin.shared.twin) == ("a-3", "a-2")
        assert b.shared.twin == ""
        events = [entry["event"] for entry in logs if entry["log_level"] == "error"]
        assert events == ["node_name_used_twice"] * 2, "each says it once"
        await twin.die()
        await asyncio.sleep(90)
        assert again.shared.twin == ""


@in_virtual_time
async def test_a_restarted_engine_goes_on_from_its_counts_once() -> None:
    async with engines("a", "b") as (a, b):
        for _ in range(3):
            a.call()
        await asyncio.sleep(2)
        await a.die()
        salt, rows = a.counts.salt, a.counts.take_rows()[0]
        kept = Engine(a.world, "a", start=2)
        kept.counts.expect_earlier()
        kept.call()  # before the disk and the bus have answered
        kept.counts.restore(salt, rows)
        await asyncio.sleep(3)
        assert kept.used().calls == b.used().calls == 4
        await kept.die()
        bare = Engine(a.world, "a", start=3)  # its disk was lost
        bare.call()
        await asyncio.sleep(3)
        assert bare.used(KARI, "caller").calls == b.used(KARI, "caller").calls == 5


@in_virtual_time
async def test_while_the_bus_is_away_each_engine_has_its_last_share() -> None:
    async with engines("a", "b", "c") as (a, b, c):
        for _ in range(10):
            assert a.admit("calls", 40)
        await asyncio.sleep(3)
        for each in (a, b, c):
            each.bucket.away = True
        await asyncio.sleep(100)
        assert [sum(each.admit("calls", 40) for _ in range(40)) for each in (a, b, c)] == [10] * 3
        await asyncio.sleep(2)
        assert c.shared.away
        for each in (a, b, c):
            each.bucket.come_back()
        await asyncio.sleep(5)
        assert not c.shared.away
        assert a.used().calls == c.used().calls == 40
        assert not any(each.admit("calls", 40) for each in (a, b, c))
        assert a.admit("calls", 41), "and all is confirmed again"


@in_virtual_time
async def test_live_calls_come_and_go_while_the_bus_is_away() -> None:
    async with engines("a", "b") as (a, b):
        a.bucket.away = b.bucket.away = True
        for _ in range(100):
            assert sum(a.admit("live", 10) for _ in range(10)) == 5
            assert sum(b.admit("live", 10) for _ in range(10)) == 5
            while a.live or b.live:
                a.end()
                b.end()
            await asyncio.sleep(1)


@in_virtual_time
async def test_an_engine_that_starts_without_the_bus_uses_a_part() -> None:
    async with engines("a") as (a,):
        b = Engine(a.world, "b")
        b.bucket.away = True
        assert sum(b.admit("calls", 40) for _ in range(40)) == 40 / STRANGERS
        await asyncio.sleep(60)
        assert not b.admit("calls", 40)
        b.bucket.come_back()
        await asyncio.sleep(3)
        assert a.used(KARI, "caller").calls == b.used(KARI, "caller").calls == 10, "in one key"


@in_virtual_time
async def test_all_calls_together_never_exceed_the_clusters_limit() -> None:
    async with engines("a", "b", "c") as made:
        for _ in range(20):
            for each in made:
                if not each.shared.calls_filled(20):
                    each.begin()
        assert sum(len(each.live) for each in made) <= 20
        for _ in range(20):
            await asyncio.sleep(2)
            for each in made:
                if not each.shared.calls_filled(20):
                    each.begin()
        assert 18 <= sum(len(each.live) for each in made) <= 20
        made[0].bucket.away = made[1].bucket.away = made[2].bucket.away = True
        for each in made:
            while each.live:
                each.end()
        await asyncio.sleep(60)
        for each in made * 20:
            if not each.shared.calls_filled(20):
                each.begin()
        assert 15 <= sum(len(each.live) for each in made) <= 20


@in_virtual_time
async def test_unreadable_entries_are_left_out_and_logged_once() -> None:
    async with engines("a", "b") as (a, b):
        a.call()
        await asyncio.sleep(2)
        server = a.world.server
        with capture_logs() as logs:
            for poison in (b"\xff", b"[1]", b'{"v":2,"kind":"counted"}'):
                for name in ("b_x_x", "c_now", "d_2026112309_x"):  # each engine reads all
                    server.store(Entry(name, poison, server.next_revision()))
        assert [each["event"] for each in logs] == ["counts_unreadable"] * 6
        b.call()
        await asyncio.sleep(2)
        assert a.used().calls == b.used().calls == 2


@in_virtual_time
async def test_an_engine_of_a_later_version_is_not_waited_for() -> None:
    async with engines("a") as (a,):
        b = Engine(a.world, "b", place="other")
        await asyncio.sleep(2)
        b.begin()
        await asyncio.sleep(2)
        await b.die()
        server = a.world.server
        server.store(Entry("b_now", b'{"v":2,"kind":"now"}', server.next_revision()))
        await asyncio.sleep(10)
        assert (a.used().live, a.used().engines) == (0, 1)
        a.call()
        await asyncio.sleep(2)
        assert a.used().unseen == Used(), "confirmed"


@in_virtual_time
async def test_an_engine_at_another_asterisk_counts_until_its_message_expires() -> None:
    async with engines("a") as (a,):
        b = Engine(a.world, "b", place="other")
        await asyncio.sleep(1)
        b.begin()
        await asyncio.sleep(2)
        assert (a.used().live, a.used().engines) == (1, 2)
        await asyncio.sleep(600)
        assert (a.used().live, a.used().engines) == (1, 2)
        a.world.server.frozen = True  # the bus is away for long, then all has expired
        a.bucket.away = b.bucket.away = True
        await asyncio.sleep(100)
        a.world.server.frozen = False
        await asyncio.sleep(1)
        a.bucket.come_back()
        b.bucket.come_back()
        for _ in range(50):
            assert (a.used().live, a.used().engines) == (1, 2)
            await asyncio.sleep(0.1)
        await b.die()
        await asyncio.sleep(70)
        assert (a.used().live, a.used().calls, a.used().engines) == (0, 1, 1)


@in_virtual_time
async def test_clocks_that_differ_by_ten_seconds() -> None:
    async with engines("a", "b", skews=(0.0, 10.0)) as (a, b):
        await asyncio.sleep(50)  # b is in the next minute already
        b.call()
        a.call()
        await asyncio.sleep(1)
        assert a.used().calls_in_minute == pytest.approx(2, abs=0.2)
        assert b.used().calls_in_minute == pytest.approx(2, abs=0.4)
        await asyncio.sleep(3_600 - 60)  # b is in the next hour
        b.call()
        await asyncio.sleep(1)
        assert a.used().calls == b.used().calls == 3


@in_virtual_time
async def test_a_forgotten_caller_leaves_the_bus() -> None:
    async with engines("a", "b") as (a, b):
        a.call()
        await asyncio.sleep(2)
        (digest,) = {key[2] for key, _ in a.counts.rows() if key[1] == "caller"}
        entries = a.world.server.entries.values()
        assert any(digest.encode() in (each.value or b"") for each in entries)
        assert not any(KARI.encode() in (each.value or b"") for each in entries)
        await asyncio.sleep(200)
        a.counts.forget(digest)
        await asyncio.sleep(2)
        assert not any(digest.encode() in (each.value or b"") for each in entries)
        assert b.used(KARI, "caller").calls == 0
        assert b.used().calls == 1


async def test_a_caller_forgotten_while_the_engine_is_down_does_not_come_back_from_the_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.cluster.shared_counts.WRITE_SECONDS", 0.01)
    monkeypatch.setitem(globals(), "NINE", datetime.datetime.now(datetime.UTC))
    world = World()

    def on_disk(digest: str) -> bool:
        file = tmp_path / FILE
        return file.exists() and digest.encode() in file.read_bytes()

    async def engine(start: int, *, away: bool = False) -> tuple[Engine, CountStore]:
        counts = Counts()
        store = CountStore(counts, tmp_path, lambda: True, write_seconds=0.02)
        made = Engine(world, "a", start=start, counts=counts)
        made.bucket.away = away
        await store.start()
        return made, store

    def on_bus(digest: str) -> bool:
        entries = world.server.entries.values()
        return any(digest.encode() in (each.value or b"") for each in entries)

    a, store = await engine(1)
    await until(lambda: not a.shared.away)
    a.call()
    digest = digest_of(KARI, a.counts.salt)
    await until(lambda: on_bus(digest) and on_disk(digest))
    await a.die()
    await store.close()

    forget_caller(tmp_path, KARI)
    a, store = await engine(2, away=True)
    await asyncio.sleep(0.1)  # it has written before it reaches the bus
    a.bucket.come_back()
    await until(lambda: not a.shared.away)
    await until(lambda: not on_bus(digest) and not on_disk(digest))
    assert a.used(KARI, "caller").calls == 0
    assert a.used().calls == 1
    await a.die()
    await store.close()


@in_virtual_time
async def test_counts_of_others_belong_to_their_hour_and_day() -> None:
    def used(hours: float) -> tuple[int, float]:
        found = a.counts.used("in", "total", "", NINE + datetime.timedelta(hours=hours))
        return found.calls, found.calls_in_hour

    async with engines("a", "b", "c") as (a, b, c):
        b.call()
        b.call()
        c.call()
        await asyncio.sleep(2)
        assert used(0.5) == (3, 3)
        assert used(1.5) == (3, 1.5)
        assert used(2.5) == (3, 0)
        assert used(15) == (0, 0), "the next day"
        c.call()
        await asyncio.sleep(2)
        assert used(0.5) == (4, 4)
        server = a.world.server
        for entry in [*server.entries.values()]:
            if entry.key.startswith("b_") and not entry.key.endswith("_now"):
                server.store(Entry(entry.key, None, server.next_revision(), expired=True))
        await asyncio.sleep(1)
        assert used(0.5) == (2, 2), "the bus has forgotten those of b"


@in_virtual_time
async def test_a_bus_that_has_lost_its_data_gets_key_and_counts_again() -> None:
    async with engines("a", "b") as (a, b):
        a.call()
        b.call()
        await asyncio.sleep(2)
        server, salt = a.world.server, a.counts.salt
        for each in (a, b):
            each.bucket.away = True
        server.entries.clear()
        for each in (a, b):
            each.bucket.come_back()
        await asyncio.sleep(3)
        c = Engine(a.world, "c")
        await asyncio.sleep(3)
        assert c.counts.salt == salt, "or it would claim people under other names"
        for each in (a, b, c):
            assert each.used(KARI, "caller").calls == 2


@in_virtual_time
async def test_a_new_engine_that_reaches_an_empty_bus_first_has_the_key_for_all() -> None:
    async with engines("a", "b") as (a, b):
        a.call()
        await asyncio.sleep(2)
        for each in (a, b):
            each.bucket.away = True
        a.world.server.entries.clear()
        c = Engine(a.world, "c")
        await asyncio.sleep(2)
        for each in (a, b):
            each.bucket.come_back()
        await asyncio.sleep(3)
        assert a.counts.salt == b.counts.salt == c.counts.salt, "or two call the same person"
        for each in (a, b, c):
            each.call()
        await asyncio.sleep(3)
        for each in (a, b, c):
            assert (each.used().calls, each.used(KARI, "caller").calls) == (4, 3)


@in_virtual_time
async def test_hours_that_grow_old_while_they_are_written_are_left_out() -> None:
    async with engines("a") as (a,):
        a.bucket.away = True
        for number in range(100):
            a.begin(f"+47912345{number:02}")
        await asyncio.sleep(2)
        written = a.bucket.writes
        a.bucket.come_back()
        while a.bucket.writes == written:  # noqa: ASYNC110 - the bus has no event for it
            await asyncio.sleep(0.001)
        later = NINE + datetime.timedelta(hours=30)
        a.counts.begin("in", KARI, "demo", later)
        await asyncio.sleep(2)
        assert not a.task.done()


@in_virtual_time
async def test_nodes_that_are_gone_are_forgotten() -> None:
    async with engines("a") as (a,):
        for number in range(5):  # as in a deployment that names its nodes anew
            node = Engine(a.world, f"node{number}", place="other")
            await asyncio.sleep(2)
            await node.die()
        await asyncio.sleep(300)
        newest = decode_now(a.world.server.entries["a_now"].value or b"")
        assert newest.seen == {}


Step: TypeAlias = tuple[str, int, float]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["admit"] * 5 + ["burst", "pass", "pass", "end", "away", "late", "die"]),
        st.integers(0, 3),
        st.sampled_from([0.001, 0.1, 0.3, 0.6, 1.5]),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 4), st.sampled_from([1, 2, 5, 20]), st.sampled_from(["calls", "live"]), STEPS)
def test_a_cap_is_passed_by_less_than_one_call_an_engine(
    number: int, cap: int, amount: str, steps: list[Step]
) -> None:
    """In any order of calls, messages, outages and deaths. What a dead engine could not send any
    more is known to nobody: so much may come on top."""
    with virtual_time() as loop:
        loop.run_until_complete(scenario(number, cap, amount, steps))


async def scenario(number: int, cap: int, amount: str, steps: list[Step]) -> None:
    async with engines(*"abcd"[:number]) as made:
        unknown = 0
        for what, which, size in steps:
            each = made[which % number]
            if what == "pass":
                await asyncio.sleep(size)
            elif not each.alive:
                continue
            elif what == "admit":
                each.admit(amount, cap)
            elif what == "burst":
                for _ in range(10):
                    each.admit(amount, cap)
            elif what == "end":
                each.end()
            elif what == "late":
                each.bucket.delay = 0.0 if each.bucket.delay else size
            elif what == "away":
                each.bucket.come_back() if each.bucket.away else away(each.bucket)
            elif len(each.world.living) > 1:
                unseen = each.used().unseen
                assert unseen is not None
                unknown += unseen.calls
                await each.die()
                each.live.clear()
            of: Callable[[Engine], int] = lambda each: (  # noqa: E731
                each.admitted if amount == "calls" else len(each.live)
            )
            assert sum(map(of, made)) <= cap + number - 1 + unknown


def away(bucket: LateBucket) -> None:
    bucket.away = True
