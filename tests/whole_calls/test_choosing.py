"""Which context and provider answer a call by SIP, and what a wrong name does."""

from __future__ import annotations

import pytest

from cordboard.calls.events import Answering, Bound, Offered

from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
together = SideBySide()


@together
async def test_a_wrong_context_name_is_apologised_for_and_the_default_answers(hotline):
    caller = await hotline.dial("ctx-nonsense")
    await caller.greeted_to_the_end()
    assert (await caller.says_goodbye()).by == "them", "it is a call like any other"
    history = await caller.history()

    heard = await caller.heard()
    assert "service you asked for is not available" in heard, heard
    assert "information desk" in heard, "the default context greets"
    assert history.context == "demo"
    assert any("unknown context 'nonsense'" in trouble for trouble in history.troubles), history
    assert history.outcome == "completed"


@pytest.mark.parametrize(
    ("extension", "headers", "context"),
    [
        ("agent", {}, "demo"),
        ("agent", {"X_AI_Agent": "orders"}, "orders"),
        ("agent", {"X_AI_Agent": "reception", "X_AI_Context": "orders"}, "orders"),
        ("ctx-reception", {"X_AI_Agent": "orders"}, "reception"),
        ("ctx-nonsense", {"X_AI_Agent": "orders"}, "orders"),
    ],
)
async def test_a_context_is_chosen_by_ai_context_then_ai_agent_then_the_default(
    hotline, extension, headers, context
):
    caller = await hotline.dial(extension, **headers)
    await caller.greeted()
    bound = await caller.event(Bound)
    caller.line.hangup()

    assert bound.context == context
    assert bool(bound.problems) == (extension == "ctx-nonsense")


@together
async def test_a_dialled_number_has_a_context_and_its_greeting_uses_what_is_known(hotline):
    caller = await hotline.dial("4711")
    offered = await caller.event(Offered)
    assert offered.called_number == "4711"
    assert offered.source == "asterisk"
    assert (await caller.event(Bound)).context == "personal"
    greeting = await caller.event(Answering)
    assert greeting.text == "Hello Test Caller, about your blue bicycle."
    await caller.greeted_to_the_end()
    assert "bicycle" in await caller.heard()


@together
async def test_an_unknown_provider_is_apologised_for_and_the_contexts_own_answers(hotline):
    caller = await hotline.dial("ctx-orders", X_AI_Provider="nobody")
    await caller.greeted_to_the_end()
    caller.line.hangup()
    history = await caller.history()

    heard = await caller.heard()
    assert "service you asked for is not available" in heard, heard
    assert "order" in heard
    assert history.provider == "local"
    assert any("unknown provider 'nobody'" in trouble for trouble in history.troubles), history


@together
async def test_a_known_provider_is_taken_without_a_word(hotline):
    caller = await hotline.dial("ctx-orders", X_AI_Provider="local")
    await caller.greeted_to_the_end()
    caller.line.hangup()
    history = await caller.history()

    assert (history.provider, history.troubles) == ("local", [])
    assert "not available" not in await caller.heard()
