"""Leases and the roster in virtual time: who is taken for dead, when, and who never is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster.lease import Lease, LeaseState, boot_time
from cordboard.cluster.roster import Roster
from cordboard.cluster.wire import EngineLease, decode_lease, encode_lease
from cordboard.errors import BusAway
from cordboard_testkit.virtual_time import in_virtual_time


@dataclass
class Engine:
    """The part of an engine that the others see."""

    bucket: FakeBucket
    lease: Lease
    roster: Roster
    gone: list[tuple[float, str]]
    states: list[LeaseState]
    skew: list[float]
    """Seconds by which its machine slept."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def die(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def end(self) -> None:
        self.die()
        await asyncio.wait(self.tasks)

    @property
    def gone_names(self) -> list[str]:
        return [name for _, name in self.gone]


def engine(server: FakeServer, name: str) -> Engine:
    bucket, loop = FakeBucket(server), asyncio.get_running_loop()
    gone: list[tuple[float, str]] = []
    states: list[LeaseState] = []
    skew = [0.0]
    lease = Lease(
        bucket,
        name,
        lambda: EngineLease(name, name, free_slots=5),
        changed=states.append,
        clock=lambda: loop.time() + skew[0],
    )
    roster = Roster(bucket, lease, lambda instance: gone.append((loop.time(), instance)))
    return Engine(bucket, lease, roster, gone, states, skew)


@asynccontextmanager
async def engines(*names: str) -> AsyncIterator[tuple[FakeServer, list[Engine]]]:
    """Engines that have lived for a while."""
    server = FakeServer()
    made = [engine(server, name) for name in names]
    for each in made:
        each.tasks = [asyncio.create_task(each.lease.run()), asyncio.create_task(each.roster.run())]
    await asyncio.sleep(10)
    try:
        yield server, made
    finally:
        for each in made:
            await each.end()


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_the_living_see_each_other_with_what_they_say_of_themselves() -> None:
    async with engines("a", "b") as (_, (a, b)):
        assert a.lease.state == "held"
        assert a.roster.others == {"b": EngineLease("b", "b", free_slots=5)}
        assert list(b.roster.others) == ["a"]
        assert a.gone_names == b.gone_names == []


@in_virtual_time
async def test_a_killed_engine_is_gone_once_for_each_within_its_lease() -> None:
    async with engines("a", "b", "c") as (_, (a, b, c)):
        killed = now()
        a.die()
        await asyncio.sleep(30)
        for other in (b, c):
            ((at, name),) = other.gone
            assert name == "a"
            assert 1.4 <= at - killed <= 2.1
            assert "a" not in other.roster.others


@in_virtual_time
async def test_an_engine_that_stops_in_order_is_not_gone() -> None:
    async with engines("a", "b") as (_, (a, b)):
        a.die()
        await asyncio.sleep(0)
        await a.lease.give_up()
        await asyncio.sleep(30)
        assert b.gone == []
        assert b.roster.others == {}


@in_virtual_time
async def test_nobody_is_gone_because_the_bus_was_away() -> None:
    """All leases expire meanwhile; each engine comes back at another moment."""
    async with engines("a", "b", "c") as (_, all_of_them):
        for each in all_of_them:
            each.bucket.away = True
        await asyncio.sleep(6)
        assert [each.lease.state for each in all_of_them] == ["in_doubt"] * 3
        for each in all_of_them:
            each.bucket.come_back()
            await asyncio.sleep(0.7)
        await asyncio.sleep(20)
        for each in all_of_them:
            assert each.gone == []
            assert each.lease.state == "held"
            assert each.states == ["held", "in_doubt", "held"]
            assert len(each.roster.others) == 2


@in_virtual_time
async def test_an_engine_that_died_while_the_bus_was_away_is_gone_later() -> None:
    async with engines("a", "b") as (_, (a, b)):
        a.bucket.away = b.bucket.away = True
        a.die()
        await asyncio.sleep(6)
        b.bucket.come_back()
        back = now()
        await asyncio.sleep(20)
        ((at, name),) = b.gone
        assert name == "a"
        assert 4.0 <= at - back <= 5.0


@in_virtual_time
async def test_a_bus_that_stops_and_goes_on_expires_all_leases_at_once_and_nobody_is_gone() -> None:
    async with engines("a", "b") as (server, (a, b)):
        server.frozen = a.bucket.away = b.bucket.away = True
        await asyncio.sleep(6)
        server.frozen = False
        a.bucket.come_back()
        await asyncio.sleep(0.1)  # the markers come before the renewals
        b.bucket.come_back()
        await asyncio.sleep(20)
        assert a.gone == b.gone == []
        assert a.lease.state == b.lease.state == "held"


@in_virtual_time
async def test_lost_answers_cost_nothing() -> None:
    """A renewal that seemed to fail was carried out: the next one goes on from it."""
    async with engines("a", "b") as (_, (a, b)):
        for _ in range(5):
            a.bucket.loses_answers = True
            await asyncio.sleep(1.0)
            a.bucket.loses_answers = False
            await asyncio.sleep(1.0)
        assert a.lease.state == "held"
        assert b.gone == []


@in_virtual_time
async def test_an_engine_that_only_lost_the_bus_keeps_its_lease_unless_somebody_revoked_it() -> (
    None
):
    async with engines("a", "b") as (_, (a, b)):
        a.bucket.away = True
        await asyncio.sleep(5)
        assert b.gone_names == ["a"]
        a.bucket.come_back()
        await asyncio.sleep(2)
        assert a.lease.state == "held"
        assert list(b.roster.others) == ["a"]
        assert not await b.roster.revoke("a")


@in_virtual_time
async def test_a_revoked_engine_loses_its_lease_when_it_wakes() -> None:
    async with engines("a", "b", "c") as (_, (a, b, c)):
        a.bucket.away = True
        await asyncio.sleep(5)
        assert await b.roster.revoke("a")
        assert await c.roster.revoke("a")  # both may adopt calls
        a.bucket.come_back()
        await asyncio.sleep(1)
        assert a.lease.state == "lost"
        assert a.lease.lost_to == "b"
        assert a.states == ["held", "in_doubt", "lost"]
        await asyncio.sleep(20)
        assert b.gone_names == c.gone_names == ["a"]
        assert "a" not in b.roster.others


@in_virtual_time
async def test_who_stops_without_knowing_that_it_is_revoked_leaves_the_mark() -> None:
    async with engines("a", "b") as (server, (a, b)):
        a.bucket.away = True
        await asyncio.sleep(5)
        assert await b.roster.revoke("a")
        a.die()
        await asyncio.sleep(1)
        a.bucket.come_back()
        await a.lease.give_up()
        value = server.entries["a"].value
        assert value is not None
        assert decode_lease(value).revoked_by == "b"


@in_virtual_time
async def test_of_a_revocation_and_a_renewal_the_bus_lets_one_happen() -> None:
    async with engines("a", "b") as (server, (a, b)):
        a.bucket.away = True
        await asyncio.sleep(5)
        a.bucket.come_back()
        a.lease.renew_soon()
        revoked = await b.roster.revoke("a")
        await asyncio.sleep(2)
        value = server.entries["a"].value
        assert value is not None
        assert bool(decode_lease(value).revoked_by) is revoked
        assert (a.lease.state == "lost") is revoked


@in_virtual_time
async def test_a_living_engine_cannot_be_revoked_nor_one_that_left() -> None:
    async with engines("a", "b") as (_, (a, b)):
        assert not await b.roster.revoke("a")
        a.die()
        await asyncio.sleep(0)
        await a.lease.give_up()
        assert not await b.roster.revoke("a")


@in_virtual_time
async def test_a_process_that_slept_doubts_before_it_does_anything_else() -> None:
    async with engines("a", "b") as (_, (a, _)):
        assert a.lease.state == "held"
        a.skew[0] += 2.0  # no timer has fired, nothing has run
        assert a.lease.state == "in_doubt"
        assert a.lease.steady_seconds == 0
        await asyncio.sleep(1)
        assert a.lease.state == "held"


@in_virtual_time
async def test_an_engine_that_drops_its_lease_is_gone_when_it_has_expired() -> None:
    """It cannot serve its calls; its orderly end removes nothing."""
    async with engines("a", "b") as (_, (a, b)):
        a.lease.drop()
        assert a.states == ["held", "lost"]
        await a.lease.give_up()
        await asyncio.sleep(5)
        assert b.gone_names == ["a"]
        assert await b.roster.revoke("a")


@in_virtual_time
async def test_who_slept_for_half_a_day_takes_its_lease_for_lost() -> None:
    """The bus may have forgotten that it was revoked."""
    async with engines("a", "b") as (_, (a, _)):
        a.bucket.away = True
        a.lease.renew_soon()
        await asyncio.sleep(1)
        a.skew[0] += 43_300
        a.bucket.come_back()
        await asyncio.sleep(3)
        assert a.lease.state == "lost"


@in_virtual_time
async def test_a_new_engine_hears_of_the_dead_once_it_trusts_the_bus() -> None:
    async with engines("a", "b") as (server, (a, b)):
        a.die()
        b.die()
        await asyncio.sleep(10)
        late = engine(server, "late")
        late.tasks = [asyncio.create_task(late.lease.run()), asyncio.create_task(late.roster.run())]
        late.roster.suspect("never-seen")  # the owner of some record
        await late.roster.known()
        began = now()
        await asyncio.sleep(10)
        assert sorted(late.gone_names) == ["a", "b", "never-seen"]
        assert all(at - began >= 3.9 for at, _ in late.gone)
        await late.end()


@in_virtual_time
async def test_a_lease_of_a_later_version_is_alive_and_then_gone() -> None:
    async with engines("a", "b") as (_, (a, b)):
        a.die()
        message = encode_lease(EngineLease("n-1", "n")).replace(b'"v":1', b'"v":2')
        revision = await a.bucket.put("n-1", message, last=0, ttl=2)
        assert b.roster.others["n-1"].node == "n"
        await a.bucket.put("n-1", b"poison", last=revision, ttl=2)
        assert "n-1" in b.roster.others
        await asyncio.sleep(10)
        assert sorted(b.gone_names) == ["a", "n-1"]


@in_virtual_time
async def test_giving_up_says_when_the_bus_is_away() -> None:
    async with engines("a") as (_, (a,)):
        a.die()
        a.bucket.away = True
        with pytest.raises(BusAway):
            await a.lease.give_up()


def test_the_clock_of_leases_counts_the_time_in_which_the_machine_slept() -> None:
    uptime = Path("/proc/uptime").read_text().split()[0]
    assert boot_time() == pytest.approx(float(uptime), abs=5)
