"""Say, hint, flag, listen, drain and repeated requests, over the admin port."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from cordboard.accounts.rights import Grant, Role
from cordboard.admin.first_answers import SECONDS, FirstAnswers
from cordboard.calls.call import CallState
from cordboard.errors import LineError, RequestRefused
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Room, code

SAY = "/calls/call-demo/say"


async def test_words_reach_the_call_and_not_the_audit(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser, operator = room.browser("otto"), room.calls["call-demo"].operator
    said = await browser.post(SAY, {"text": "hunter2 please", "interrupt": True})
    assert (said.status_code, said.json()) == (200, {"state": "begun"})
    for act in ("hint", "flag"):
        assert (await browser.post(f"/calls/call-demo/{act}", {"text": "hunter2"})).is_success
    assert (await browser.post("/calls/call-demo/flag")).is_success, "a flag needs no words"
    assert (await browser.post("/calls/call-demo/hangup", {"reason": "hunter2"})).is_success
    assert operator.asked == [
        ("say", "hunter2 please", "otto", "interrupt"),
        ("hint", "hunter2", "otto"),
        ("flag", "hunter2", "otto"),
        ("flag", "", "otto"),
        ("hang_up", "hunter2", "otto"),
    ]
    assert "hunter2" not in str(room.entries())
    assert [entry["action"] for entry in room.entries()] == [
        "call.say",
        "call.hint",
        "call.flag",
        "call.flag",
        "call.hangup",
    ]


async def test_an_operator_vouches_for_a_caller(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("vera", Role.VIEWER)
    path, operator = "/calls/call-demo/verify", room.calls["call-demo"].operator
    assert (await room.browser("vera").post(path)).status_code == 403
    assert (await room.browser("otto").post(path)).is_success
    assert operator.asked == [("verify", "otto")]
    assert [entry["action"] for entry in room.entries()][-1] == "call.verify"


async def test_an_agent_that_cannot_is_a_refusal_with_its_reason(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser, call = room.browser("otto"), room.calls["call-demo"]
    call.operator.failure = LineError("this agent cannot take notes")
    refused = await browser.post("/calls/call-demo/hint", {"text": "offer Thursday"})
    assert (refused.status_code, "cannot take notes" in refused.text) == (409, True)
    call.state = CallState.ENDING
    over = await browser.post(SAY, {"text": "Hello."})
    assert (over.status_code, code(over)) == (409, "ended")
    for body in ({"text": ""}, {"text": "x" * 501}, {}):
        assert (await browser.post(SAY, body)).status_code == 422


async def test_a_repeated_request_gets_the_first_answer_and_does_nothing(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("olga", Role.OPERATOR)
    browser, operator = room.browser("otto"), room.calls["call-demo"].operator
    key = {"Idempotency-Key": "k-1"}
    first = await browser.post(SAY, {"text": "Hello."}, headers=key)
    again = await browser.post(SAY, {"text": "Hello."}, headers=key)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len(operator.asked) == 1
    assert [entry["action"] for entry in room.entries()] == ["call.say"]
    other = await browser.post(SAY, {"text": "Goodbye."}, headers=key)
    assert (other.status_code, "another body" in other.text) == (422, True)
    for where, who in (("/calls/call-sales/say", "otto"), (SAY, "olga")):
        assert (await room.browser(who).post(where, {"text": "Hello."}, headers=key)).is_success
    assert len(operator.asked) == 2
    for bad in ("", "x" * 201):
        answer = await browser.post(SAY, {"text": "Hello."}, headers={"Idempotency-Key": bad})
        assert answer.status_code == 422


async def test_a_refusal_is_repeated_too_but_an_error_of_ours_may_be_tried_again(
    room: Room,
) -> None:
    room.add("otto", Role.OPERATOR)
    browser, operator = room.browser("otto"), room.calls["call-demo"].operator
    key = {"Idempotency-Key": "k-1"}
    operator.failure = LineError("the caller is being asked")
    assert (await browser.post(SAY, {"text": "Hello."}, headers=key)).status_code == 409
    operator.failure = None
    assert (await browser.post(SAY, {"text": "Hello."}, headers=key)).status_code == 409
    key = {"Idempotency-Key": "k-2"}
    operator.failure = ZeroDivisionError()
    assert (await browser.post(SAY, {"text": "Hello."}, headers=key)).status_code == 500
    operator.failure = None
    assert (await browser.post(SAY, {"text": "Hello."}, headers=key)).status_code == 200
    assert len(operator.asked) == 1


async def test_a_request_has_the_same_id_after_a_restart() -> None:
    place = ("otto", "/calls", "k")
    request = FirstAnswers().attempt(place, "a").id
    assert request == str(uuid.UUID(request)) == FirstAnswers().attempt(place, "a").id
    others = (("olga", "/calls", "k"), "a"), (("otto", "/calls", "l"), "a"), (place, "b")
    assert request not in {FirstAnswers().attempt(*other).id for other in others}


async def test_two_requests_at_once_with_one_key_are_one_act() -> None:
    now = 0.0
    answers = FirstAnswers(lambda: now)
    place = ("otto", "/say", "k")
    assert answers.attempt(place, "a").first
    waiting = answers.attempt(place, "a")
    assert not waiting.first
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.answer(), 0.01)
    now = SECONDS
    assert answers.attempt(place, "b").first, "after ten minutes the key is free"
    for number in range(2_000):
        answers.attempt(("otto", "/say", str(number)), "")
    assert len(answers._kept) == 1_000
    given_up = answers.attempt(("otto", "/say", "new"), "")
    repeated = answers.attempt(("otto", "/say", "new"), "")
    given_up.settle(None)
    with pytest.raises(RequestRefused, match="given up"):
        await repeated.answer()
    assert answers.attempt(("otto", "/say", "new"), "").first


async def test_a_drain_is_shown_with_the_calls_left_and_ends(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    begun = (await browser.post("/engine/drain")).json()
    assert begun == {"draining": True, "since": "2026-11-23T12:00:00.000+00:00", "calls_left": 2}
    assert (await browser.get("/engine")).json()["drain"] == begun
    assert (await browser.post("/engine/undrain")).json()["draining"] is False
    assert [entry["action"] for entry in room.entries()] == ["engine.drain", "engine.undrain"]


async def test_a_listener_gets_the_sound_and_leaves_two_lines_in_the_audit(room: Room) -> None:
    room.add("lena", Role.VIEWER, (Grant.LISTEN,))
    browser, operator = room.browser("lena"), room.calls["call-demo"].operator
    operator.frames = [b"one", b"two"]
    given = (await browser.post("/calls/call-demo/listen")).json()
    assert given["delay_ms"] == 1_500
    ticket = f"ticket.{given['ticket']}"
    seen = await browser.connect("/listen/call-demo", "cordboard.listen.v1", ticket)
    assert seen.status == 101
    assert await seen.frame() == {
        "encoding": "slin",
        "rate": 8000,
        "from_ms": 40,
        "delay_ms": 1_500,
    }
    assert [await seen.binary(), await seen.binary()] == [b"one", b"two"]
    assert room.services.listeners == 1
    await seen.leave()
    assert operator.asked == [("listen", "lena"), ("listened", "lena")]
    assert room.services.listeners == 0
    assert [(entry["action"], entry["who"], entry["on"]) for entry in room.entries()] == [
        ("call.listen_ticket", "lena", "call-demo"),
        ("call.listen", "lena", "call-demo"),
        ("call.listened", "lena", "call-demo"),
    ]
    used = await browser.connect("/listen/call-demo", "cordboard.listen.v1", ticket)
    assert used.status == 403, "a ticket counts once"


async def test_the_end_of_the_call_ends_the_listening(room: Room) -> None:
    room.add("lena", Role.VIEWER, (Grant.LISTEN,))
    browser, operator = room.browser("lena"), room.calls["call-demo"].operator
    ticket = (await browser.post("/calls/call-demo/listen")).json()["ticket"]
    seen = await browser.connect("/listen/call-demo", "cordboard.listen.v1", f"ticket.{ticket}")
    await asyncio.wait_for(operator.listening.wait(), PATIENCE)
    operator.over.set()
    assert await seen.closed() == 1000
    await until(lambda: room.services.listeners == 0)


async def test_nobody_listens_without_the_grant_nor_where_it_is_forbidden_nor_under_load(
    room: Room,
) -> None:
    room.add("anna")
    refused = await room.browser("anna").post("/calls/call-demo/listen")
    assert (refused.status_code, "calls.listen" in refused.text) == (403, True)
    assert room.entries()[-1]["result"] == "refused"
    room.add("lena", Role.VIEWER, (Grant.LISTEN,), ("demo",))
    browser, operator = room.browser("lena"), room.calls["call-demo"].operator
    assert (await browser.post("/calls/call-sales/listen")).status_code == 404
    operator.may_listen = False
    forbidden = await browser.post("/calls/call-demo/listen")
    assert (forbidden.status_code, "listening.enabled" in forbidden.text) == (409, True)
    operator.may_listen = True
    room.services.listeners = 3
    assert (await browser.post("/calls/call-demo/listen")).status_code == 503
    room.services.listeners = 0
    room.admission.overloaded = True
    assert (await browser.post("/calls/call-demo/listen")).status_code == 503
