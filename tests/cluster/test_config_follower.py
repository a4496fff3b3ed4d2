"""Engines follow the configuration of their cluster, in virtual time: it rolls from one to the
next, stops where it fails, waits for the bus, and a worse canary is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster import config_follower
from cordboard.cluster.bus import Entry
from cordboard.cluster.canary_statistic import WAIT_BOUNDS_MS, Outcomes
from cordboard.cluster.config_follower import ROLL_SECONDS, ConfigFollower, turn
from cordboard.cluster.config_versions import HEAD, ConfigVersions, Share, shadows_in
from cordboard.cluster.config_wire import (
    CanaryCounts,
    CanaryOrder,
    EngineReport,
    ShadowOrder,
    ShadowReport,
)
from cordboard_testkit.virtual_time import in_virtual_time

NONE = Outcomes(waits=(0,) * (len(WAIT_BOUNDS_MS) + 1))


@dataclass
class Engine:
    """Implements `ConfigDoors`."""

    name: str
    state: FakeBucket
    follower: ConfigFollower = field(init=False)
    texts: list[tuple[float, str]] = field(default_factory=list)
    """Texts in force, and since when."""
    refuses: set[str] = field(default_factory=set)
    takes_seconds: float = 0.1
    unready: str = ""
    canaries: list[int] = field(default_factory=list)
    """Version of each canary that began; 0: one ended."""
    counted: tuple[Outcomes, Outcomes] = (NONE, NONE)
    withdrew: list[str] = field(default_factory=list)
    shadows: list[str] = field(default_factory=list)
    shadow: ShadowReport | None = None
    task: asyncio.Task[None] = field(init=False)

    async def apply(self, number: int, text: str) -> str:
        await asyncio.sleep(self.takes_seconds)
        if text in self.refuses:
            return f"{text}: no such variable"
        self.texts.append((asyncio.get_running_loop().time(), text))
        return ""

    def not_ready(self) -> str:
        return self.unready

    async def begin_canary(self, order: CanaryOrder, text: str) -> str:
        if text in self.refuses:
            return "no such variable"
        self.canaries.append(order.number)
        return ""

    def end_canary(self) -> None:
        self.canaries.append(0)

    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        return self.counted

    async def begin_shadow(self, order: ShadowOrder, text: str) -> None:
        self.shadows.append(text)
        self.shadow = ShadowReport("", order.at, same=1)

    def end_shadow(self) -> None:
        self.shadow = None

    def shadow_report(self) -> ShadowReport | None:
        return self.shadow

    def returned(self, order: CanaryOrder, why: str) -> None:
        self.withdrew.append(why)

    @property
    def text(self) -> str:
        return self.texts[-1][1] if self.texts else "own"

    @property
    def problem(self) -> str:
        return self.follower.problem


@dataclass
class Town:
    state: FakeServer
    texts: FakeServer
    engines: dict[str, Engine]
    versions: ConfigVersions

    def start(self, name: str, number: int = 0) -> Engine:
        engine = Engine(name, FakeBucket(self.state))
        versions = ConfigVersions(engine.state, FakeBucket(self.texts))
        engine.follower = ConfigFollower(name, engine.state, versions, engine, number)
        engine.task = asyncio.create_task(engine.follower.run())
        self.engines[name] = engine
        return engine

    async def kill(self, name: str) -> None:
        task = self.engines.pop(name).task
        task.cancel()
        await asyncio.wait([task])

    async def publish(self, text: str, canary: Share | None = None) -> None:
        await self.versions.publish(text, "anna", "", None, canary)

    def all_texts(self) -> list[str]:
        return [each.text for _, each in sorted(self.engines.items())]


@asynccontextmanager
async def town(*names: str) -> AsyncIterator[Town]:
    state, texts = FakeServer(), FakeServer()
    made = Town(state, texts, {}, ConfigVersions(FakeBucket(state), FakeBucket(texts)))
    for name in names:
        made.start(name)
    await asyncio.sleep(5)
    try:
        yield made
    finally:
        for name in tuple(made.engines):
            await made.kill(name)


@in_virtual_time
async def test_a_version_rolls_from_one_engine_to_the_next() -> None:
    async with town("a", "b", "c") as cluster:
        assert cluster.all_texts() == ["own"] * 3
        cluster.engines["b"].takes_seconds = 20.0  # longer than a report lives
        await cluster.publish("one")
        await asyncio.sleep(40)
        assert cluster.all_texts() == ["one"] * 3
        a, b, c = (each.texts[0][0] for _, each in sorted(cluster.engines.items()))
        assert a + 20 <= b <= c <= a + 25
        assert {each.problem for each in cluster.engines.values()} == {""}


@in_virtual_time
async def test_versions_of_a_bus_that_has_lost_its_data_begin_with_the_same_numbers() -> None:
    async with town("a", "b") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(10)
        for server in (cluster.state, cluster.texts):
            server.entries.clear()
        for each in cluster.engines.values():
            each.state.come_back()
        await asyncio.sleep(10)
        assert cluster.all_texts() == ["one"] * 2
        await cluster.publish("other")
        await asyncio.sleep(10)
        assert cluster.all_texts() == ["other"] * 2
        assert [len(each.texts) for each in cluster.engines.values()] == [2, 2]


@in_virtual_time
async def test_it_stops_at_an_engine_that_cannot_take_it_and_goes_on_when_it_can() -> None:
    async with town("a", "b", "c") as cluster:
        b, c = cluster.engines["b"], cluster.engines["c"]
        await cluster.publish("one")
        await asyncio.sleep(10)
        b.refuses.add("two")
        await cluster.publish("two")
        await asyncio.sleep(10)
        assert cluster.all_texts() == ["two", "one", "one"]
        assert b.problem == "two: no such variable"
        assert c.problem == ("the roll has stopped: b cannot take version 2: two: no such variable")
        b.refuses.clear()
        await asyncio.sleep(40)
        assert cluster.all_texts() == ["two"] * 3
        assert c.problem == ""


@in_virtual_time
async def test_it_stops_at_an_engine_that_is_not_ready_with_it() -> None:
    async with town("a", "b") as cluster:
        a, b = cluster.engines["a"], cluster.engines["b"]
        a.unready = "agents: no key"
        await cluster.publish("one")
        await asyncio.sleep(ROLL_SECONDS / 2)
        assert (cluster.all_texts(), b.problem) == (["one", "own"], "")
        await asyncio.sleep(ROLL_SECONDS)
        assert cluster.all_texts() == ["one", "own"]
        assert a.problem == "version 1 is in force, but the engine is not ready: agents: no key"
        assert b.problem.startswith("the roll has stopped: a has not taken version 1 yet: version")
        a.unready = ""
        await asyncio.sleep(5)
        assert cluster.all_texts() == ["one", "one"]


@in_virtual_time
async def test_a_rollback_reaches_engines_that_a_stopped_roll_has_left_apart() -> None:
    async with town("a", "b", "c") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(10)
        cluster.engines["b"].refuses.add("two")
        await cluster.publish("two")
        await asyncio.sleep(10)
        await cluster.versions.rollback(1, "anna")
        await asyncio.sleep(10)
        assert cluster.all_texts() == ["one"] * 3
        assert {each.follower.report.number for each in cluster.engines.values()} == {3}


@in_virtual_time
async def test_an_engine_that_has_died_is_not_waited_for_for_long() -> None:
    async with town("a", "b") as cluster:
        await cluster.kill("a")
        await cluster.publish("one")
        await asyncio.sleep(2)
        assert cluster.all_texts() == ["own"]
        await asyncio.sleep(12)
        assert cluster.all_texts() == ["one"]
        cluster.start("a")  # a new one has the version soon
        await asyncio.sleep(2)
        assert cluster.all_texts() == ["one", "one"]


@in_virtual_time
async def test_without_the_bus_everything_stays_and_goes_on_later() -> None:
    async with town("a", "b") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(10)
        for engine in cluster.engines.values():
            engine.state.away = True
        await cluster.publish("two")
        await asyncio.sleep(30)
        assert cluster.all_texts() == ["one", "one"]
        for engine in cluster.engines.values():
            engine.state.come_back()
        await asyncio.sleep(15)
        assert cluster.all_texts() == ["two", "two"]
        assert len(cluster.engines["a"].texts) == 2


@in_virtual_time
async def test_a_version_rolls_in_order_though_the_bus_was_away_longer_than_reports_live() -> None:
    async with town("a", "b", "c") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(10)
        for engine in cluster.engines.values():
            engine.state.away = True
            engine.unready = "agents: no key"
        await asyncio.sleep(30)
        await cluster.publish("two")  # by a command that reaches the bus
        for name in ("c", "b", "a"):
            cluster.engines[name].state.come_back()
            await asyncio.sleep(1)
        await asyncio.sleep(20)
        assert cluster.all_texts() == ["two", "one", "one"]
        cluster.engines["a"].unready = ""
        await asyncio.sleep(5)
        assert cluster.all_texts() == ["two", "two", "one"]


@in_virtual_time
async def test_a_head_that_cannot_be_read_is_a_problem_only_while_it_is_there() -> None:
    async with town("a") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(5)
        good = cluster.state.entries[HEAD].value
        cluster.state.store(Entry(HEAD, b"rubbish", cluster.state.next_revision()))
        await asyncio.sleep(5)
        assert cluster.engines["a"].problem == "config_head: expected JSON"
        cluster.state.store(Entry(HEAD, good, cluster.state.next_revision()))
        await asyncio.sleep(5)
        assert cluster.engines["a"].problem == ""


@in_virtual_time
async def test_engines_that_are_gone_leave_nothing_in_the_others() -> None:
    async with town("a") as cluster:
        for number in range(5):
            cluster.start(f"b-{number}")
            await asyncio.sleep(5)
            await cluster.kill(f"b-{number}")
        await asyncio.sleep(15)
        assert [*cluster.engines["a"].follower._entries] == ["engine.a"]
        cluster.engines["a"].state.come_back()
        assert [*cluster.engines["a"].follower._entries] == ["engine.a"]


@in_virtual_time
async def test_an_engine_that_starts_with_the_version_in_force_does_nothing() -> None:
    async with town("a") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(5)
        await cluster.kill("a")
        engine = cluster.start("a", number=1)
        await asyncio.sleep(5)
        assert (engine.texts, engine.follower.report.state) == ([], "in_force")


def outcomes(calls: int, failed: int) -> Outcomes:
    return NONE + Outcomes(calls, failed)


@in_virtual_time
async def test_a_worse_canary_is_taken_back_once_and_everywhere() -> None:
    async with town("a", "b") as cluster:
        a, b = cluster.engines["a"], cluster.engines["b"]
        await cluster.publish("one")
        await asyncio.sleep(5)
        await cluster.publish("two", Share(1_000))
        await asyncio.sleep(5)
        assert (a.canaries, b.canaries, cluster.all_texts()) == ([2], [2], ["one", "one"])
        a.counted = outcomes(30, 1), outcomes(6, 6)
        b.counted = outcomes(30, 0), outcomes(2, 2)
        await asyncio.sleep(5)
        assert a.canaries == [2]  # eight calls are not enough
        b.counted = outcomes(30, 0), outcomes(4, 4)
        await asyncio.sleep(5)
        assert (a.canaries, b.canaries) == ([2, 0], [2, 0])
        (why,) = a.withdrew + b.withdrew  # by one of them
        assert why.startswith("worse: failed calls 100.0 % (before 1.7 %)")
        head, _ = await cluster.versions.head()
        assert (head.in_force, head.canary, head.versions[0].state) == (1, None, "withdrawn")
        assert b.problem == f"version 2 was withdrawn: {why}"
        await cluster.publish("three")
        await asyncio.sleep(5)
        assert (b.problem, cluster.all_texts()) == ("", ["three", "three"])


@in_virtual_time
async def test_a_canary_that_is_no_worse_stays_until_it_is_promoted() -> None:
    async with town("a", "b") as cluster:
        a, b = cluster.engines["a"], cluster.engines["b"]
        await cluster.publish("one")
        await asyncio.sleep(5)
        b.refuses.add("two")
        await cluster.publish("two", Share(1_000))
        a.counted = outcomes(400, 8), outcomes(25, 1)
        await asyncio.sleep(20)
        head, _ = await cluster.versions.head()
        assert head.canary is not None
        assert head.canary.looks == 2
        assert head.canary.verdict.startswith("no worse in 25 calls")
        assert b.problem == "the canary does not run: no such variable"
        assert (a.canaries, b.canaries) == ([2], [])
        b.refuses.clear()
        await asyncio.sleep(40)
        assert (a.canaries, b.canaries, b.problem) == ([2], [2], "")
        await cluster.versions.promote("anna")
        await asyncio.sleep(10)
        assert (cluster.all_texts(), a.canaries) == (["two", "two"], [2, 0])


@in_virtual_time
async def test_a_canary_is_judged_though_the_first_engine_has_another_version() -> None:
    async with town("b") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(5)
        cluster.start("a").refuses.add("one")
        await asyncio.sleep(5)
        await cluster.publish("two", Share(1_000))
        await asyncio.sleep(5)
        b = cluster.engines["b"]
        b.counted = outcomes(30, 0), outcomes(20, 20)
        await asyncio.sleep(5)
        assert (b.canaries, cluster.engines["a"].canaries) == ([2, 0], [])


@in_virtual_time
async def test_lists_of_a_server_that_is_behind_neither_end_a_canary_nor_begin_it_again() -> None:
    async with town("a") as cluster:
        a = cluster.engines["a"]
        await cluster.publish("one")
        await asyncio.sleep(5)
        await cluster.publish("two", Share(1_000))
        await asyncio.sleep(5)
        before = dict(cluster.state.entries)
        a.follower.listed({})
        await asyncio.sleep(2)
        assert a.canaries == [2]
        await cluster.versions.withdraw("slow")
        await asyncio.sleep(5)
        a.follower.listed(before)
        await asyncio.sleep(2)
        assert a.canaries == [2, 0]


@in_virtual_time
async def test_many_engines_that_count_cost_no_more_than_a_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def counted(entries: object, canary: int) -> list[CanaryCounts]:
        looks.append(canary)  # with a hundred engines it takes milliseconds
        return []

    monkeypatch.setattr(config_follower, "counts_in", counted)
    async with town("a") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(5)
        await cluster.publish("two", Share(1_000))
        await asyncio.sleep(5)
        looks.clear()
        for _ in range(500):
            cluster.state.store(Entry("counts.b", b"", cluster.state.next_revision()))
            await asyncio.sleep(0.02)
        assert len(looks) <= 5


@in_virtual_time
async def test_counts_of_an_engine_that_has_died_stay() -> None:
    async with town("a", "b") as cluster:
        await cluster.publish("one")
        await asyncio.sleep(5)
        await cluster.publish("two", Share(1_000))
        cluster.engines["a"].counted = outcomes(30, 0), outcomes(6, 6)
        await asyncio.sleep(5)
        await cluster.kill("a")
        cluster.engines["b"].counted = outcomes(30, 0), outcomes(4, 4)
        await asyncio.sleep(15)
        assert cluster.engines["b"].canaries == [2, 0]


@in_virtual_time
async def test_a_draft_listens_in_all_engines_until_it_is_ended() -> None:
    async with town("a", "b") as cluster:
        order = await cluster.versions.begin_shadow("draft", "bo", "desk", 500, 200)
        await asyncio.sleep(5)
        a, b = cluster.engines["a"], cluster.engines["b"]
        assert (a.shadows, b.shadows) == (["draft"], ["draft"])
        a.shadow = ShadowReport("", order.at, same=4, other_tool=1)
        await asyncio.sleep(5)
        found = shadows_in(cluster.state.entries, order)
        assert [(each.instance, each.same) for each in found] == [("a", 4), ("b", 1)]
        await cluster.versions.end_shadow()
        await asyncio.sleep(5)
        assert (a.shadow, b.shadow, a.shadows) == (None, None, ["draft"])


def test_whose_turn_it_is() -> None:
    reports = {
        "a": EngineReport("a", 2, 2, "in_force"),
        "c": EngineReport("c", 1, 1, "in_force"),
        "d": EngineReport("d", 1, 1, "in_force"),
    }
    assert turn("b", 2, reports, lambda _: 0.0) == ("go", "")
    assert turn("c", 2, reports, lambda _: 0.0) == ("go", "")
    assert turn("d", 2, reports, lambda _: 0.0) == ("wait", "waits for c")
    late = turn("d", 2, reports, lambda _: ROLL_SECONDS + 1)
    assert late == ("stopped", "c has not taken version 2 yet")
