"""What calls cost and when that ends them: whole calls with an agent that counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import AgentFailed, Usage, Used
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.calls import events
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script

PRICES: dict[str, Any] = {
    "currency": "EUR",
    "models": {
        "acme_realtime/swift": {"input_audio_tokens": 10, "output_audio_tokens": 20},
        "acme_stt": {"minutes": 0.06},
    },
}
MILLION = {"input_audio_tokens": 1_000_000.0}


def uses(*used: tuple[str, str, dict[str, float]], seconds: float = 1.0) -> Script:
    async def script(agent: FakeAgent) -> None:
        for provider, model, amounts in used:
            await asyncio.sleep(seconds)
            agent.emit(Used(Usage(provider, model, amounts)))
        await asyncio.sleep(seconds)
        await agent.ask("hangup_call", {"reason": "done"}, 0)
        await agent.speak(0)

    return script


class PaidByTheSecond(FakeAgent):
    """Tells when it is left what was not told yet."""

    async def close(self) -> None:
        self.emit(Used(Usage("acme_stt", "", {"seconds": 60.0})))
        await super().close()


def ending(stage: CallStage) -> tuple[str, str]:
    return stage.ended.outcome, stage.ended.reason


def test_each_use_is_written_down_with_its_cost(tmp_path: Path) -> None:
    script = uses(
        ("acme_realtime", "swift-2026-01", {"input_audio_tokens": 500_000, "seconds": 0}),
        ("acme_stt", "", {"seconds": 30.0}),
    )
    stage = play_call(tmp_path, lambda: FakeAgent(script), prices=PRICES)
    assert stage.of(events.AgentUsed) == [
        events.AgentUsed(
            "acme_realtime", "swift-2026-01", {"input_audio_tokens": 500_000}, 5.0, "EUR"
        ),
        events.AgentUsed("acme_stt", "", {"seconds": 30.0}, 0.03, "EUR"),
    ]
    assert (stage.ended.cost, stage.ended.currency) == (5.03, "EUR")
    assert stage.lines()[-1]["cost"] == 5.03
    metrics = stage.metrics.render().decode()
    assert (
        'ai_agent_cost_total{context="demo",currency="EUR",provider="acme_realtime"} 5.0' in metrics
    )
    assert (
        'ai_agent_usage_total{model="swift-2026-01",provider="acme_realtime",'
        'unit="input_audio_tokens"} 500000.0' in metrics
    )


def test_without_prices_nothing_is_made_up(tmp_path: Path) -> None:
    script = uses(("acme_realtime", "swift", MILLION))
    stage = play_call(tmp_path, lambda: FakeAgent(script))
    (used,) = stage.of(events.AgentUsed)
    assert (used.cost, used.currency) == (None, "")
    assert (stage.ended.cost, stage.ended.currency) == (None, "")
    assert "ai_agent_cost_total{" not in stage.metrics.render().decode()


def test_the_most_it_may_cost_ends_it_politely(tmp_path: Path) -> None:
    script = uses(*[("acme_realtime", "swift", MILLION)] * 5, seconds=10.0)
    budget = {"max_cost_per_call": 25, "goodbye": "We have to stop. Goodbye."}
    stage = play_call(
        tmp_path, lambda: FakeAgent(script), prices=PRICES, context={"budget": budget}
    )
    assert ending(stage) == ("completed", "budget")
    assert stage.ended.cost == 30.0, "after the third"
    assert stage.history().transcript()[-1][1].endswith("We have to stop. Goodbye.")
    assert stage.line.hangups == ["normal"]


def test_what_has_no_price_does_not_end_it(tmp_path: Path) -> None:
    script = uses(("other", "model", MILLION), ("acme_realtime", "swift", {"characters": 1e9}))
    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        prices=PRICES,
        context={"budget": {"max_cost_per_call": 0.01}},
    )
    assert ending(stage) == ("completed", "agent_hangup")
    assert [used.cost for used in stage.of(events.AgentUsed)] == [None, None]


def test_the_minutes_it_may_take_end_it(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(600)

    stage = play_call(tmp_path, lambda: FakeAgent(script), context={"budget": {"max_minutes": 1.5}})
    assert ending(stage) == ("completed", "budget")
    assert stage.ended.duration_ms == pytest.approx(90_000, abs=6_000)
    assert "end our call" in stage.history().transcript()[-1][1]


def test_a_call_that_is_ending_already_is_left_alone(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(3)
        await agent.ask("hangup_call", {"reason": "done"}, 0)
        agent.emit(Used(Usage("acme_realtime", "swift", MILLION)))
        await agent.speak(0, "Goodbye.")

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        prices=PRICES,
        context={"budget": {"max_cost_per_call": 1}},
    )
    assert ending(stage) == ("completed", "agent_hangup")
    assert stage.ended.cost == 10.0


def test_what_is_told_when_the_agent_is_left_counts(tmp_path: Path) -> None:
    stage = play_call(tmp_path, lambda: PaidByTheSecond(uses()), prices=PRICES)
    assert [used.cost for used in stage.of(events.AgentUsed)] == [0.06]
    assert stage.ended.cost == 0.06
    assert [type(event) for event in stage.events[-2:]] == [events.AgentUsed, events.Ended]


def test_both_are_paid_when_one_takes_over_from_another(tmp_path: Path) -> None:
    async def fails(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        agent.emit(AgentFailed("lost", "dropped"))

    agents = {"a": PaidByTheSecond(fails), "b": PaidByTheSecond(uses())}
    stage = play_call(
        tmp_path, lambda: FallbackAgent(agents.__getitem__, ("a", "b"), ""), prices=PRICES
    )
    assert len(stage.of(events.AgentUsed)) == 2
    assert stage.ended.cost == 0.12
