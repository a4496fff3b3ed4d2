"""Calls without ARI have a share of their own, and cost no caller by ARI their place."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from structlog.testing import capture_logs

from cordboard.calls.bare_calls import BARE, BARE_BUDGET, BARE_BUSY, BARE_RATE, BareCalls
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.services import CallServices
from cordboard.config.schema import Asterisk, AudioSocket, Config
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard_testkit.call_stage import FakeGeneration, stage_config
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.virtual_time import virtual_time

ASTERISK = Asterisk.model_validate({"password": "x"})


def config(house: int = 100, asterisk: Asterisk | None = ASTERISK, **audiosocket: Any) -> Config:
    """`house`: `calls.max_calls`."""
    made = stage_config()
    calls = made.calls.model_copy(update={"max_calls": house})
    port = AudioSocket.model_validate(audiosocket)
    return made.model_copy(update={"calls": calls, "asterisk": asterisk, "audiosocket": port})


class Hall:
    """An exchange, and callers of both kinds."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.generation = FakeGeneration(config)
        self.degradation = Degradation()
        self.metrics = Metrics()
        services = CallServices(LedgerWriter(), self.metrics, folder)
        self.registry = CallRegistry(
            lambda: self.generation,
            lambda _: FakeAgent(),
            services,
            self.degradation,
            has_ari=config.asterisk is not None,
        )

    async def bare(self) -> FakeLine:
        return await self._ring(BARE)

    async def by_ari(self) -> FakeLine:
        return await self._ring("asterisk")

    async def _ring(self, source: str) -> FakeLine:
        line = FakeLine(str(uuid4()), source)
        self.registry.offer(line.offer())
        await asyncio.sleep(0.5)
        return line

    def refused(self, reason: str) -> int:
        name = f'ai_agent_refused_offers_total{{reason="{reason}"}} '
        lines = self.metrics.render().decode().splitlines()
        return int(sum(float(line.removeprefix(name)) for line in lines if line.startswith(name)))


def play(folder: Path, config: Config, scenario: Callable[[Hall], Awaitable[None]]) -> None:
    async def run() -> None:
        hall = Hall(folder, config)
        await scenario(hall)
        await hall.registry.drain(0)
        assert len(hall.registry.bare) == 0

    with virtual_time() as loop:
        loop.run_until_complete(run())


async def hang_up(line: FakeLine) -> None:
    assert line.media is not None
    line.media.break_off("caller_hangup")
    await asyncio.sleep(0.5)


def test_their_share_is_taken_before_the_house_is_full(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        taken = [await hall.bare() for _ in range(2)]
        assert (await hall.bare()).declined == ["busy"]
        assert hall.refused(BARE_BUSY) == 1
        await hang_up(taken[0])
        assert not (await hall.bare()).declined

    play(tmp_path, config(max_calls=2), scenario)


def test_no_caller_by_ari_is_turned_away_because_of_them(tmp_path: Path) -> None:
    """Nor do they take the place that the last caller by ARI leaves free."""

    async def scenario(hall: Hall) -> None:
        for _ in range(2):
            assert not (await hall.bare()).declined
        by_ari = [await hall.by_ari() for _ in range(4)]
        assert not any(line.declined for line in by_ari)
        assert (await hall.by_ari()).declined == ["busy"]
        assert hall.refused("busy") == 1
        await hang_up(by_ari[0])
        assert (await hall.bare()).declined == ["busy"], "as many live as there may be"
        assert not (await hall.by_ari()).declined

    play(tmp_path, config(house=4, max_calls=3), scenario)


def test_too_much_to_do_is_theirs_to_feel_first(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.degradation.level = 1
        assert (await hall.bare()).declined == ["busy"]
        assert hall.refused("overloaded") == 1
        assert not (await hall.by_ari()).declined

    play(tmp_path, config(), scenario)


def test_where_there_is_no_asterisk_they_are_the_callers(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.degradation.level = 1
        for _ in range(3):
            assert not (await hall.bare()).declined
        assert (await hall.bare()).declined == ["busy"]

    play(tmp_path, config(house=3, asterisk=None), scenario)


def test_an_asterisk_that_a_reload_adds_takes_no_places_before_the_restart(tmp_path: Path) -> None:
    """ARI is connected once in the life of an engine, so the share stays as it began."""

    async def scenario(hall: Hall) -> None:
        hall.generation = FakeGeneration(config(house=10))
        hall.degradation.level = 1
        for _ in range(10):
            assert not (await hall.bare()).declined

    play(tmp_path, config(house=10, asterisk=None), scenario)


def test_an_asterisk_that_a_reload_removes_keeps_its_places_until_the_restart(
    tmp_path: Path,
) -> None:
    async def scenario(hall: Hall) -> None:
        hall.generation = FakeGeneration(config(house=10, asterisk=None))
        assert not (await hall.bare()).declined
        assert (await hall.bare()).declined == ["busy"]
        hall.degradation.level = 1
        assert (await hall.bare()).declined == ["busy"]
        assert hall.refused("overloaded") == 1
        assert not (await hall.by_ari()).declined

    play(tmp_path, config(house=10), scenario)


def test_not_more_may_begin_in_a_minute(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        for _ in range(3):
            await hang_up(await hall.bare())
        assert (await hall.bare()).declined == ["busy"]
        assert hall.refused(BARE_RATE) == 1
        assert not (await hall.by_ari()).declined
        await asyncio.sleep(60)
        assert not (await hall.bare()).declined

    play(tmp_path, config(calls_per_minute=3), scenario)


def test_the_minutes_of_a_day_count_those_that_live(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        first = await hall.bare()
        await asyncio.sleep(4)
        await hang_up(first)
        second = await hall.bare()
        await asyncio.sleep(2)
        assert (await hall.bare()).declined == ["busy"], "6 s of 6 are used"
        assert hall.refused(BARE_BUDGET) == 1
        assert second.media is not None
        assert not second.media.closed, "who talks is not cut off"
        assert not (await hall.by_ari()).declined

    play(tmp_path, config(max_minutes_per_day=0.1), scenario)


def test_refusals_by_the_thousand_do_not_fill_the_log(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        await hall.bare()
        for _ in range(1000):
            hall.registry.offer(FakeLine(str(uuid4()), BARE).offer())
        await asyncio.sleep(0.5)

    with capture_logs() as log:
        play(tmp_path, config(max_calls=1), scenario)
    told = [line for line in log if line["event"] == "offer_refused"]
    assert [line.get("count") for line in told] == [None, 999]
    assert told[0]["reason"] == BARE_BUSY
    assert (told[1]["reason"], told[1]["count"]) == (BARE_BUSY, 999)


class Call:
    """A call that has cost so much."""

    cost: float | None = None


def test_the_money_of_a_day_is_counted_until_the_day_is_over() -> None:
    now, day = 0.0, datetime.date(2026, 11, 22)
    bare = BareCalls(lambda: now, lambda: day, has_ari=True)
    limited = config(max_cost_per_day=1.0)
    first, unknown = Call(), Call()
    bare.begin(first)
    bare.begin(unknown)
    first.cost = 0.6
    bare.end(first)
    bare.end(unknown)
    second = Call()
    bare.begin(second)
    assert bare.reason_to_refuse(limited, 1) == ""
    second.cost = 0.4
    assert bare.reason_to_refuse(limited, 1) == BARE_BUDGET
    assert bare.health() == {"live": 1, "minutes_today": 0.0, "cost_today": 1.0}
    day = datetime.date(2026, 11, 23)
    assert bare.reason_to_refuse(limited, 1) == "", "the cost of the one that lives"
    bare.end(second)
    assert bare.health() == {"live": 0, "minutes_today": 0.0, "cost_today": 0.4}


def test_a_call_of_another_kind_is_not_counted() -> None:
    bare = BareCalls(lambda: 0.0, has_ari=True)
    bare.end(Call())
    assert bare.health() == {"live": 0, "minutes_today": 0.0, "cost_today": 0.0}
