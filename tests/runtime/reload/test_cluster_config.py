"""The configuration of a cluster in one engine: versions, and a canary beside the one in force."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.agent_api.agent import Agent
from cordboard.agents.providers import Providers
from cordboard.calls.events import (
    Answered,
    Answering,
    Connected,
    Ended,
    Heard,
    Latency,
    LedgerEvent,
)
from cordboard.cluster.canary_statistic import Outcomes
from cordboard.cluster.config_versions import ConfigVersions, Share
from cordboard.cluster.config_wire import FULL_SHARE, ShadowReport
from cordboard.config.files import digest_of
from cordboard.config.load import ConfigSource
from cordboard.config.shared_part import SharedConfig
from cordboard.errors import AgentError
from cordboard.generation.generation import Generation
from cordboard.observe.degradation import Degradation
from cordboard.runtime.canary_outcomes import OutcomeCounter
from cordboard.runtime.cluster_config import ClusterConfig, lot
from cordboard.runtime.cluster_shadow import Shadow
from cordboard_testkit.patience import until

from .conftest import Stand, context


def text(greeting: str) -> str:
    """A version whose contexts greet with these words."""
    whole = {"demo": context(greeting=greeting), "quiet": context(greeting=greeting)}
    return orjson.dumps({"contexts": whole}).decode()


class Cluster:
    """A cluster of one: the stand, and a bus in memory."""

    def __init__(self, stand: Stand, folder: Path) -> None:
        self.stand = stand
        self.shared = SharedConfig(folder / "copy.json")
        self.degradation = Degradation()
        buckets = FakeBucket(FakeServer()), FakeBucket(FakeServer())
        self.versions = ConfigVersions(*buckets)
        self.config = ClusterConfig(
            self.shared,
            ConfigSource(stand.path, os.environ, register_secrets=stand.secrets.update),
            stand.versions,
            "a-1",
            buckets,
            stand.succession,
            stand.administration,
            dict,
            stand.metrics,
            self.degradation,
            stand.open_agent,
        )
        stand.choose, stand.listen = self.config.choose, self.config.listen

    async def publish(self, words: str, canary: Share | None = None) -> None:
        await self.versions.publish(text(words), "anna", "", None, canary)

    async def in_force(self, number: int) -> None:
        await until(lambda: self.config.follower.report.state == "in_force", "a version")
        await until(lambda: self.config.follower.report.number == number, f"version {number}")

    async def canary(self, number: int) -> None:
        await until(lambda: self.config.follower.report.canary == number, f"canary {number}")


@asynccontextmanager
async def cluster(stand: Stand, folder: Path) -> AsyncIterator[Cluster]:
    stand.write()
    await stand.begin()
    made = Cluster(stand, folder)
    made.config.start()
    try:
        yield made
    finally:
        await made.config.close()


@pytest.fixture
def agents(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Agents of canaries follow the test, too."""
    monkeypatch.setattr(Providers, "open", lambda self, context, provider: stand.next_agent())
    return stand


async def test_a_version_takes_the_place_of_the_shared_part_of_the_file(
    stand: Stand, tmp_path: Path
) -> None:
    async with cluster(stand, tmp_path) as town:
        before = await stand.ring()
        await town.publish("Version one.")
        await town.in_force(1)
        after = await stand.ring()
        assert (before.greeting, after.greeting) == ("Good morning.", "Version one.")
        version = digest_of(text("Version one.").encode())
        assert stand.succession.generation.version == version
        assert stand.versions.content(version) == text("Version one.").encode()
        assert town.shared.current is not None
        assert town.config.state().ready
        assert town.config.health()["version"] == 1
        later = SharedConfig(tmp_path / "copy.json")
        later.begin()
        assert later.current == town.shared.current


async def test_a_version_that_cannot_be_used_changes_nothing_and_is_told(
    stand: Stand, tmp_path: Path
) -> None:
    async with cluster(stand, tmp_path) as town:
        await town.publish("Version one.")
        await town.in_force(1)
        await town.publish("Good day, ${NOT_SET_ANYWHERE}.")
        await until(lambda: town.config.follower.report.state == "refused", "a refusal")
        state = town.config.state()
        assert (state.ready, state.required) == (False, False)
        assert "the environment variable NOT_SET_ANYWHERE is not set" in state.detail
        assert (await stand.ring()).greeting == "Version one."


async def test_a_share_of_the_calls_gets_the_canary_and_calls_end_on_it(
    agents: Stand, tmp_path: Path
) -> None:
    async with cluster(agents, tmp_path) as town:
        await town.publish("Stable.")
        await town.in_force(1)
        await town.publish("Canary.", Share(FULL_SHARE // 2))
        await town.canary(2)
        guests = [await agents.ring() for _ in range(20)]
        heard = [guest.greeting for guest in guests]
        chosen = [lot(2, guest.line.call_id) < FULL_SHARE // 2 for guest in guests]
        assert heard == ["Canary." if each else "Stable." for each in chosen]
        assert {*heard} == {"Canary.", "Stable."}
        on_canary = guests[heard.index("Canary.")]
        await guests[heard.index("Stable.")].hang_up()
        assert [each.calls for each in town.config.outcomes()] == [1, 0]
        await town.versions.withdraw("it was wrong")
        await until(lambda: town.config.health()["canary"] == 0, "the end of the canary")
        assert {(await agents.ring()).greeting for _ in range(6)} == {"Stable."}
        assert (await on_canary.ask("get_current_time")).status == "refused"  # it still talks
        assert not town.config.state().ready
        for guest in agents.guests:
            await guest.hang_up()
        await until(lambda: bool(agents.logged("canary_closed")), "the canary is closed")


async def test_a_canary_of_one_context_leaves_the_others_alone(
    agents: Stand, tmp_path: Path
) -> None:
    async with cluster(agents, tmp_path) as town:
        await town.publish("Stable.")
        await town.in_force(1)
        await town.publish("Canary.", Share(FULL_SHARE // 2, ("demo",)))
        await town.canary(2)
        heard = {(await agents.ring(AI_CONTEXT="quiet")).greeting for _ in range(12)}
        assert heard == {"Stable."}
        assert {(await agents.ring()).greeting for _ in range(12)} == {"Stable.", "Canary."}


@pytest.mark.parametrize("error", [AgentError("no key"), ValueError("a mistake in a plug-in")])
async def test_callers_whom_a_canary_has_no_agent_for_get_the_version_in_force(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(self: Providers, context: str, provider: str) -> Agent:
        raise error

    monkeypatch.setattr(Providers, "open", broken)
    async with cluster(stand, tmp_path) as town:
        await town.publish("Stable.")
        await town.in_force(1)
        await town.publish("Canary.", Share(FULL_SHARE // 2))
        await town.canary(2)
        while town.config.outcomes()[1].calls < 10:
            guest = await stand.ring()
            assert guest.greeting == "Stable."
            await guest.hang_up()
            await asyncio.sleep(0)
        assert town.config.outcomes()[1].failed >= 10
        await until(lambda: town.config.health()["canary"] == 0, "the canary is taken back")
        (taken,) = stand.logged("canary_withdrawn")
        assert taken["why"].startswith("worse: failed calls 100.0 % (before 0.0 %)")
        assert b"ai_agent_config_canaries_withdrawn_total 1.0" in stand.metrics.render()


async def test_callers_without_any_agent_count_against_both_versions(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Agent:
        raise AgentError("the service is away")

    monkeypatch.setattr(Providers, "open", broken)
    async with cluster(stand, tmp_path) as town:
        await town.publish("Stable.")
        await town.in_force(1)
        await town.publish("Canary.", Share(FULL_SHARE // 2))
        await town.canary(2)
        stand.next_agent = broken  # type: ignore[method-assign]
        draft = orjson.dumps({"contexts": {"demo": context(rules={})}}).decode()
        await town.versions.begin_shadow(draft, "anna", "demo", FULL_SHARE, 3)
        await until(lambda: bool(stand.logged("shadow_begins")), "a draft listens")
        for number in range(60):
            await stand.refused(f"without-an-agent-{number}")
        before, after = town.config.outcomes()
        assert (before.calls, before.failed) == (60 - after.calls, 60 - after.calls)
        assert after.failed == after.calls > 10
        del stand.next_agent
        await town.versions.withdraw("enough")
        await until(lambda: town.config.health()["canary"] == 0, "the end of the canary")
        call = (await stand.ring()).line.call_id
        for turn in (1, 2):
            town.config.listen(call, 0, Heard(turn, "When do you open?", 1.0))
        report = town.config.shadow_report
        await until(lambda: report() != ShadowReport("", report().at), "it is followed")  # type: ignore[union-attr]


async def test_a_mistake_in_a_draft_costs_no_caller(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Shadow, offer: object) -> None:
        raise ValueError("a mistake")

    async with cluster(stand, tmp_path) as town:
        draft = orjson.dumps({"contexts": {"demo": context(rules={})}}).decode()
        await town.versions.begin_shadow(draft, "anna", "demo", FULL_SHARE, 3)
        await until(lambda: bool(stand.logged("shadow_begins")), "a draft listens")
        monkeypatch.setattr(Shadow, "_agent", broken)
        assert (await stand.ring()).greeting == "Good morning."
        monkeypatch.undo()
        monkeypatch.setattr(Shadow, "listen", broken)
        town.config.listen("any", 0, Connected())
        assert b'internal_errors_total{where="canary"} 2.0' in stand.metrics.render()


async def test_canary_and_draft_are_closed_with_the_engine(
    agents: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = Generation.close

    async def counted(self: Generation) -> None:
        closed.append(self.version)
        await close(self)

    monkeypatch.setattr(Generation, "close", counted)
    draft = orjson.dumps({"contexts": {"demo": context(rules={})}}).decode()
    async with cluster(agents, tmp_path) as town:
        await town.publish("Stable.")
        await town.in_force(1)
        await town.publish("Canary.", Share(FULL_SHARE // 2))
        await town.canary(2)
        await town.versions.begin_shadow(draft, "anna", "demo", FULL_SHARE, 3)
        await until(lambda: bool(agents.logged("shadow_begins")), "a draft listens")
    assert {digest_of(each.encode()) for each in (text("Canary."), draft)} <= {*closed}


async def test_a_draft_listens_to_live_calls_and_its_decisions_are_compared(
    stand: Stand, tmp_path: Path
) -> None:
    hours = {"sentences": ["when do you open"], "say": "We open at eight."}
    rules = {"rules": {"intents": {"hours": hours}}}
    draft = orjson.dumps({"contexts": {"demo": context(**rules)}}).decode()
    async with cluster(stand, tmp_path) as town:
        order = await town.versions.begin_shadow(draft, "anna", "demo", FULL_SHARE, 3)
        await until(lambda: bool(stand.logged("shadow_begins")), "a draft listens")
        call = (await stand.ring()).line.call_id

        def happens(*those: LedgerEvent) -> None:
            for each in those:
                town.config.listen(call, 0, each)

        def report() -> ShadowReport:
            found = town.config.shadow_report()
            assert found is not None
            return found

        happens(Heard(1, "When do you open?", 1.0), Answering(1, "We open at eight."))
        happens(Heard(2, "When do you open?", 1.0), Answering(2, "Nobody knows that, sorry."))
        await until(lambda: report().same == 1, "the first turn")
        town.degradation.level = 1
        happens(Heard(3, "When do you open?", 1.0))
        assert report().skipped == 1
        town.degradation.level = 0
        happens(Heard(4, "When do you open?", 1.0))
        happens(Ended("completed", "caller_hangup", 9_000))
        await until(lambda: report().other_words >= 1, "the others")
        example = report().examples[0]
        assert (example.heard, example.draft) == ("When do you open?", "We open at eight.")
        assert example.call_id == call
        await until(lambda: report().same + report().other_words == 3, "the last one")
        happens(Heard(5, "Too late", 1.0), Heard(6, "Too late", 1.0))  # the call has ended
        assert report().at == order.at
        await town.versions.end_shadow()
        await until(lambda: town.config.shadow_report() is None, "the end")


async def test_a_draft_that_cannot_listen_says_why(stand: Stand, tmp_path: Path) -> None:
    providers = {"live": {"type": "openai_realtime", "api_key": "${HOME}"}}
    draft = orjson.dumps({"contexts": {"demo": {}}, "providers": providers}).decode()
    async with cluster(stand, tmp_path) as town:
        await town.versions.begin_shadow(draft, "anna", "demo", FULL_SHARE, 3)
        await until(lambda: town.config.shadow_report() is not None, "a report")
        report = town.config.shadow_report()
        assert report is not None
        assert report.problem == (
            "live (openai_realtime) only hears and speaks: it cannot be compared"
        )


def test_shares_are_even_and_the_same_everywhere() -> None:
    lots = [lot(7, f"call-{number}") for number in range(20_000)]
    assert abs(sum(each < 1_000 for each in lots) / 20_000 - 0.1) < 0.01
    assert lots[:50] != [lot(8, f"call-{number}") for number in range(50)]


def ended(outcome: str = "completed", reason: str = "caller_hangup") -> Ended:
    return Ended(outcome, reason, 0)


def latency(total: int, *, filler: bool = False) -> Latency:
    return Latency(1, 0, 0, 0, 0, 0, total, filler=filler)


def counted(*events: tuple[int, object]) -> Outcomes:
    counter = OutcomeCounter()
    counter.begin("c", "after")
    for at_ms, event in events:
        counter.listen("c", at_ms, event)  # type: ignore[arg-type]
    return counter.sums[1]


def test_outcomes_of_calls() -> None:
    early = counted((100, Connected()), (9_000, ended()))
    assert (early.calls, early.failed, early.hung_up, sum(early.waits)) == (1, 0, 1, 0)
    late = counted((100, Connected()), (10_200, ended()))
    assert (late.calls, late.hung_up) == (1, 0)
    unanswered = counted((5_000, ended()))
    assert (unanswered.calls, unanswered.hung_up) == (1, 0)
    failed = counted((100, Connected()), (500, ended("failed", "agent_failed")))
    assert (failed.failed, failed.hung_up) == (1, 0)
    assert counted((100, Connected()), (500, ended("moved", "handed_over"))).calls == 0
    waits = counted(
        (100, Connected()), (2_000, latency(900)), (3_000, latency(100, filler=True)),
        (4_000, Answered(2, 1_000)), (5_000, latency(5_000)), (60_000, ended()),
    )  # fmt: skip
    assert [bucket for bucket, count in enumerate(waits.waits) if count] == [8]  # 954 to 1,192 ms
