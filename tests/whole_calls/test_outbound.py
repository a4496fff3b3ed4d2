"""Calls that the engine places through a real Asterisk, to phones that answer or do not."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from typer.testing import CliRunner, Result

from cordboard.calls.events import (
    Answering,
    AnswerJudged,
    AudioEnded,
    BargedIn,
    CallbackRequested,
    Dialled,
    Offered,
)
from cordboard.calls.outbound_order import OutboundResult
from cordboard.cli import app
from cordboard.errors import OutboundRefused
from cordboard.outbound.campaigns.hours import DAYS
from cordboard.outbound.placing import CallWanted
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import RATE, Samples

from .configuration import TOKEN
from .conftest import Caller, Hotline, OpenHotline
from .humans import hear_each_other, hears
from .test_reload import rewrite

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
OURS = "4722000000"
NOON = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"
"""A zone in which it is about noon."""
SURVEY = {"greeting": "Good morning, this is the bicycle shop about your {ORDER}.", "rules": {}}


def tone(hz: float, seconds: float) -> Samples:
    time = np.arange(int(seconds * RATE)) / RATE
    return (6000 * np.sin(2 * np.pi * hz * time)).astype(np.int16)


def change(tree: dict[str, Any]) -> None:
    tree["outbound"] = {
        "enabled": True,
        "endpoint": "PJSIP/phone-{digits}",
        "caller_id": f"+{OURS}",
        "caller_name": "Bicycle shop",
        "ring_ms": 30_000,
        "max_calls": 4,
        "campaigns": str(Path(tree["calls"]["directory"]).parent / "campaigns.db"),
    }
    tree["reload"] = {"watch": False}
    tree["firewall"] = {**tree.get("firewall", {}), "country": "NO"}
    tree["contexts"]["survey"] = {**SURVEY, "variables": ["ORDER"]}
    tree["tools"]["transfer"]["destinations"]["colleague"] = {
        "target": "4790000002",
        "context": "internal",
        "mode": "attended",
        "endpoint": "PJSIP/phone-4790000002",
    }
    tree["contexts"]["returning"] = {
        "greeting": "Hello again, this is about {callback_about}.",
        "variables": ["callback_about"],
        "tools": ["hangup_call", "request_callback"],
        "rules": {},
    }
    tree["tools"]["request_callback"] = {
        "callback": {
            "zone": NOON,
            "hours": {"days": list(DAYS), "from": "06:00", "to": "18:00"},
        }
    }
    asks = {"sentences": ["[please] (check|look up) my order [please]"], "transfer": "colleague"}
    tree["contexts"]["handed"] = {
        "greeting": "Order desk.",
        "tools": ["hangup_call", "transfer"],
        "rules": {"intents": {"go": asks}},
    }


class Street:
    """The phones that can be called, by number."""

    def __init__(self, hotline: Hotline) -> None:
        self.hotline = hotline
        self.phones: dict[str, SipPhone] = {}

    async def build(self, stack: AsyncExitStack) -> None:
        """Connect all phones at once: Asterisk may not survive a reload beside calls."""
        for number, answers in (
            ("4790000001", True),
            ("4790000002", False),
            ("4790000003", True),
        ):
            phone = SipPhone(number, answers=answers, ring_seconds=0.3)
            self.phones[number] = await stack.enter_async_context(phone)
            await self.hotline.asterisk.connect_phone(number, phone.address)

    @property
    def config(self) -> Path:
        return self.hotline.folder.parent / "ai-agent.yaml"

    async def call(self, number: str, **wanted: Any) -> str:
        order = {"variables": {"ORDER": "blue bicycle"}, **wanted}
        wants = CallWanted(f"+{number}", "survey", **order)
        return await self.hotline.engine.outbound.place(wants)

    async def ended(self, call_id: str) -> OutboundResult:
        async with asyncio.timeout(PATIENCE):
            return await self.hotline.engine.outbound.ended(call_id)

    async def lets_ring(self, ms: int) -> None:
        """Change how long the engine lets a phone ring."""
        rewrite(self.hotline, lambda tree: tree["outbound"].update(ring_ms=ms))
        status, report = await self.hotline.post("/reload")
        assert (status, report["applied"]) == (200, True), report

    def dialled(self, call_id: str) -> Dialled:
        [dialled] = [each for each in self.hotline.of(call_id) if isinstance(each, Dialled)]
        return dialled

    async def clean(self) -> None:
        """Until nothing of a call is left in Asterisk."""
        async with asyncio.timeout(PATIENCE):
            while await self.hotline.asterisk.channels():  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.05)
        assert not await self.hotline.asterisk.bridges()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def street(open_hotline: OpenHotline) -> AsyncIterator[Street]:
    async with open_hotline(change) as hotline, AsyncExitStack() as stack:
        made = Street(hotline)
        await made.build(stack)
        yield made


async def test_a_human_is_greeted_and_talks_with_the_agent(street: Street) -> None:
    call_id = await street.call("4790000001", call_id="0f0e0d0c-0b0a-4908-8706-050403020100")
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    assert there.caller.user in (OURS, f"+{OURS}"), there.caller
    assert there.caller.display == "Bicycle shop"
    there.say(await street.hotline.speech.say("Hello?"))
    stopped = await there.said()
    await hears(street.hotline, there, "bicycle", stopped)
    assert await street.call("4790000001", call_id=call_id) == call_id, (
        "the same id is the same call"
    )
    there.hangup()
    result = await street.ended(call_id)
    assert (result.outcome, result.answer, result.reason) == ("answered", "human", "caller_hangup")
    [offered] = [e for e in street.hotline.of(call_id) if isinstance(e, Offered)]
    assert (offered.direction, offered.caller_number) == ("out", "+4790000001")
    assert (await street.hotline.history(call_id)).direction == "out"
    await street.clean()


async def test_a_voicemail_gets_the_message_after_its_beep(street: Street) -> None:
    call_id = await street.call(
        "4790000001", message="Your blue bicycle is ready. Please call us back."
    )
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    greeting = await street.hotline.speech.say(
        "Hi, you have reached Anna. I can't take your call right now. Please leave a message."
    )
    pause = np.zeros(RATE // 2, np.int16)
    there.say(np.concatenate((pause, greeting, pause, tone(1000, 0.4))))
    beep_over = await there.said()
    await there.hear_speech(after=beep_over)
    end = await there.ended()
    assert end.by == "them"
    heard = " ".join(
        [await street.hotline.speech.understand(part) for part in there.utterances_heard(beep_over)]
    )
    assert "ready" in heard, heard
    assert "call us back" in heard, heard
    result = await street.ended(call_id)
    assert (result.answer, result.reason) == ("voicemail", "voicemail_message")
    await street.clean()


async def screened(street: Street) -> list[BargedIn]:
    """A call to a screening service that begins like a human; how often it spoke over the agent."""
    speech = street.hotline.speech
    call_id = await street.call("4790000001", purpose="The parcel from London has arrived.")
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    hi = await speech.say("Hi.")
    asks = await speech.say(
        "The person you are calling is using a screening service. Please say your name, and why "
        "you're calling."
    )
    there.say(np.concatenate((hi, np.zeros(int(0.7 * RATE), np.int16), asks)))
    await hears(street.hotline, there, "parcel", await there.said())
    cuts = [e for e in street.hotline.of(call_id) if isinstance(e, BargedIn)]
    assert not [e for e in cuts if "bicycle" in e.heard], "it heard the greeting to its end"
    said = [e.text for e in street.hotline.of(call_id) if isinstance(e, Answering)]
    # An answer to its first words may have begun; who calls and why comes last, and is heard.
    assert said[-1] == "Hello, this is survey. The parcel from London has arrived."
    there.hangup()
    result = await street.ended(call_id)
    assert (result.answer, result.reason) == ("screening", "caller_hangup")
    await street.clean()
    return cuts


async def test_a_screening_service_that_began_like_a_human_is_told_who_calls_and_why(
    street: Street,
) -> None:
    for _ in range(3):  # a busy machine may be too slow to speak before the question ends
        if await screened(street):
            return
    raise AssertionError("it was never spoken to before its question ended")


async def test_who_does_not_answer_is_a_typed_outcome(street: Street) -> None:
    phone = street.phones["4790000002"]
    for status, outcome in (
        (486, "busy"), (603, "declined"), (404, "unknown_number"), (480, "unavailable"),
        (503, "failed"),
    ):  # fmt: skip
        call_id = await street.call("4790000002")
        (await phone.incoming()).reject(status, "No")
        assert (await street.ended(call_id)).outcome == outcome
        assert street.dialled(call_id).sip == status  # `rang`: a refusal may overtake the ringing
    call_id = await street.call("4790000002")
    (await phone.incoming()).redirect("sip:6001@127.0.0.1")
    assert (await street.ended(call_id)).outcome == "redirected", "a redirection is not followed"
    await street.lets_ring(5_000)
    ringing = await street.call("4790000002")
    there = await phone.incoming()
    assert (await street.ended(ringing)).outcome == "no_answer"
    await street.lets_ring(30_000)
    assert street.dialled(ringing).rang
    assert (await there.ended()).status == 487, "it still rings"
    assert (await street.ended(await street.call("4790009999"))).outcome in (
        "unavailable",
        "failed",
    )
    history = await street.hotline.history(ringing)
    assert (history.outcome, history.reason) == ("not_reached", "no_answer")
    await street.clean()


async def test_we_hang_up_while_it_rings_and_they_at_once(street: Street) -> None:
    call_id = await street.call("4790000002")
    there = await street.phones["4790000002"].incoming()
    street.hotline.engine.registry.calls[call_id].end("completed", "operator_hangup")
    assert (await there.ended()).status == 487
    assert (await street.ended(call_id)).reason == "operator_hangup"

    call_id = await street.call("4790000002")
    there = await street.phones["4790000002"].incoming()
    there.answer()
    await until(lambda: any(each.method == "ACK" for each in there.requests))
    there.hangup()  # not before the ACK (RFC 3261, section 15): Asterisk would not see it
    result = await street.ended(call_id)
    assert (result.outcome, result.reason) == ("answered", "caller_hangup")
    await street.clean()


async def test_the_called_person_is_handed_to_a_human(street: Street) -> None:
    speech = street.hotline.speech
    call_id = await street.hotline.engine.outbound.place(CallWanted("+4790000001", "handed"))
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    there.say(await speech.say("Hello?"))
    await there.hear_speech(after=await there.said())
    await there.hear_silence(900)
    there.say(await speech.say("Please check my order."))
    human = await street.phones["4790000002"].incoming()
    assert human.caller.user == "+4790000001", "the human sees who is on the line"
    human.answer()
    await human.hear_speech(after=0.0)
    await human.hear_silence(700)
    human.press("1")
    steps = partial(street.hotline.of, call_id)
    await until(lambda: any(getattr(event, "step", "") == "joined" for event in steps()))
    await hear_each_other(1, there, human)
    human.hangup()
    assert (await there.ended()).by == "them"
    result = await street.ended(call_id)
    assert (result.outcome, result.reason) == ("answered", "transfer:colleague")
    await street.clean()


async def test_a_caller_is_called_back_at_the_promised_time(street: Street) -> None:
    hotline = street.hotline
    line = await hotline.phone.call(
        hotline.asterisk.sip_uri("ctx-returning"), caller_number="+4790000003"
    )
    caller = Caller(line, "+4790000003", hotline)
    await caller.greeted_to_the_end()
    call = hotline.engine.registry.calls[await caller.call_id()]
    at = datetime.now(UTC) + timedelta(seconds=20)
    asking = asyncio.ensure_future(
        call.line.request_callback("", at.isoformat(), "the blue bicycle")
    )
    asked = await caller.event(Answering, 2)
    assert "You will be called back on" in asked.text
    await caller.event(AudioEnded, 2)
    await line.hear_silence()
    await caller.say("Yes, please.")
    assert (await asking).outcome == "noted"
    line.hangup()
    noted = await caller.event(CallbackRequested)
    assert (noted.number, noted.way) == ("+4790000003", "queue")

    there = await street.phones["4790000003"].incoming()
    assert datetime.now(UTC) >= at, "not before the time"
    await there.answered()
    there.say(await hotline.speech.say("Hello?"))
    await hears(hotline, there, "blue bicycle", await there.said())
    there.hangup()
    command = ["campaign", "results", "callbacks-returning", "--config", str(street.config)]

    def results() -> str:
        return CliRunner().invoke(app, command).output

    async with asyncio.timeout(PATIENCE):
        while "answered" not in (kept := await asyncio.to_thread(results)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    [row] = kept.splitlines()[1:]
    assert row.split(",")[:6] == ["+4790000003", "done", "answered", "human", "caller_hangup", "1"]
    await street.clean()


async def http(
    port: int, path: str, body: dict[str, Any] | None = None, token: str = TOKEN
) -> tuple[int, dict[str, Any]]:
    """Status and answer of a POST, or of a GET without a body."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode() if body is not None else None,
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )

    def send() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    return await asyncio.to_thread(send)


async def test_http_places_calls_and_refuses_others(street: Street) -> None:
    port = street.hotline.engine.http_port
    good = {"number": "+4790000001", "context": "survey"}
    assert (await http(port, "/calls", good, "wrong"))[0] == 401
    for body, status, word in (
        ({**good, "number": "112"}, 403, "emergency"),
        ({**good, "number": "+4691234567"}, 403, "country"),
        ({**good, "context": "none"}, 404, "context"),
        ({**good, "keys": ["1x"]}, 400, "keys"),
        ({**good, "keys": 1}, 400, "keys"),
        ({**good, "variables": {"OTHER": "x"}}, 400, "OTHER"),
        ({**good, "call_id": "7"}, 400, "UUID"),
        ({"context": "survey"}, 400, "number"),
    ):
        answer = await http(port, "/calls", body)
        assert answer[0] == status, answer
        assert word in answer[1]["error"], answer
    national = {**good, "number": "900 00 001"}
    status, placed = await http(port, "/calls", national)
    assert status == 202
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    await until(lambda: any(each.method == "ACK" for each in there.requests))
    there.hangup()
    result = await street.ended(placed["call_id"])
    assert result.outcome == "answered"
    waiting = [await street.call("4790000002") for _ in range(4)]
    with pytest.raises(OutboundRefused, match="max_calls"):
        await street.call("4790000002")
    for _ in waiting:
        (await street.phones["4790000002"].incoming()).reject()
    for call_id in waiting:
        assert (await street.ended(call_id)).outcome == "busy"
    judged = [e for e in street.hotline.of(placed["call_id"]) if isinstance(e, AnswerJudged)]
    assert len(judged) <= 1
    await street.clean()


async def test_a_campaign_calls_everybody_of_its_list(street: Street, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("number,ORDER\n+4790000001,blue bicycle\n112,none\n+4790000002,bell\n")

    async def campaign(*arguments: str) -> Result:
        command = ["campaign", *arguments, "--config", str(street.config)]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    hours = ("--hours", "00:00-23:59", "--days", "mon-sun")
    added = await campaign(
        "add", "spring", str(people), "--context", "survey", "--concurrency", "2", *hours
    )
    assert added.exit_code == 1, added.output
    assert "line 3: number: numbers of class emergency are shut" in added.output
    assert "2 people, 1 lines left out" in added.output
    assert (await campaign("start", "spring")).exit_code == 0
    busy = await street.phones["4790000002"].incoming()
    busy.reject()
    there = await street.phones["4790000001"].incoming()
    await there.answered()
    there.say(await street.hotline.speech.say("Hello?"))
    await there.hear_speech(after=await there.said())
    there.hangup()
    async with asyncio.timeout(PATIENCE):
        while "1 answered" not in (await campaign("status")).output:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    results = (await campaign("results", "spring")).output.splitlines()
    rows = {row.split(",")[0]: row.split(",")[1:6] for row in results[1:]}
    assert rows["+4790000001"] == ["done", "answered", "human", "caller_hangup", "1"]
    assert rows["+4790000002"] == ["pending", "busy", "", "busy", "1"]
    assert (await campaign("pause", "spring")).exit_code == 0
    assert "there is no campaign" in str((await campaign("start", "summer")).exception)
    await street.clean()
