"""Callers for whom a human is asked first, and callers who come back; with real SIP phones."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from cordboard.calls.events import (
    Answering,
    ConferenceStep,
    Heard,
    Key,
    KeyChosen,
    OperatorWhisper,
    RecordingStarted,
    Silence,
    Transferred,
)
from cordboard.calls.operator import BACK
from cordboard.errors import CallOver, LineError
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until
from cordboard_testkit.sip.incoming import IncomingCall

from .bank import channels
from .conftest import Caller, Hotline, OpenHotline
from .humans import (
    AMONG_OTHERS,
    Humans,
    explained,
    hear_each_other,
    hears,
    is_heard,
    kept_a_part,
    noise,
    step,
)
from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
together = SideBySide()
away = SideBySide()

NUMBER = "6011"
PLACES: dict[str, dict[str, Any]] = {
    "taken": {},
    "busy": {},
    "silent": {"ring_ms": 3_000},
    "declined": {},
    "ringing": {},
    "back": {"return_on_hangup": True},
    "warm": {"mode": "warm", "introduction": "You are both on the line now."},
    "keyed": {},
    "watched": {"takeover": True},
    "whispered": {},
}
"""A context, and its only destination: all of them are one phone."""
AWAY = ("queue", "box", "no-box", "office", "no-office")
"""Destinations that the dialplan knows, and from which the caller may come back."""


def attended(tree: dict[str, Any]) -> None:
    """A desk for each destination: "Please check my order" transfers."""
    places = tree["tools"]["transfer"]["destinations"]
    for name, keys in PLACES.items():
        endpoint = f"PJSIP/phone-{NUMBER}"
        place = {"target": NUMBER, "context": "internal", "mode": "attended"}
        places[name] = {**place, "endpoint": endpoint, **keys}
    places["queue"] = {"type": "queue", "target": "lonely", "context": "queues", "returns": True}
    for name, target in (("box", "6001"), ("no-box", "6002")):
        places[name] = {
            "type": "voicemail", "target": target, "context": "mailboxes", "returns": True
        }  # fmt: skip
    for name, target in (("office", "head-office"), ("no-office", "nobody-here")):
        places[name] = {"type": "refer", "target": target, "context": "refers", "returns": True}
    for name in (*PLACES, *AWAY):
        tree["contexts"][f"to-{name}"] = {
            "greeting": "Order desk.",
            "tools": ["hangup_call", "transfer"],
            "rules": {
                "intents": {
                    "go": {
                        "sentences": ["[please] (check|look up) my order [please]"],
                        "transfer": name,
                    }
                }
            },
        }
    tree["contexts"]["joined"] = {
        **tree["contexts"]["to-taken"],
        "conference": {"notice": "{name} has joined the call."},
        "recording": {"enabled": True},
    }
    places["mailbox"] = {**places["watched"], "briefing_ms": 5_000}
    tree["contexts"]["by-key"] = {
        "greeting": "Order desk.",
        "tools": ["hangup_call"],
        "rules": {},
        "silence": {"caller_after_ms": 2_000, "reprompts": ["Hello?"], "goodbye": ""},
        "keys": {
            "prompt": "Press one for a colleague, or two for the opening times.",
            "options": {"1": {"transfer": "keyed"}, "2": {"say": "We never close."}},
            "offer_after": 1,
        },
    }


HUMANS = Humans("human")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline: OpenHotline, asterisk) -> AsyncIterator[Hotline]:
    async with HUMANS.phone:
        await asterisk.connect_phone(NUMBER, HUMANS.phone.address)
        async with open_hotline(attended) as opened:
            yield opened


async def asks(hotline: Hotline, name: str) -> Caller:
    """A caller who asks for the transfer."""
    caller = await hotline.dial(f"ctx-to-{name}")
    await caller.greeted_to_the_end()
    await caller.say("Please check my order.")
    await step(caller, "away" if name in AWAY else "ringing")
    return caller


async def conference(caller: Caller, name: str) -> None:
    """Until the conference is at this step."""
    call_id = await caller.call_id()

    def look() -> bool | None:
        steps = [e.step for e in caller.hotline.of(call_id) if isinstance(e, ConferenceStep)]
        return True if name in steps else None

    await caller.hotline.seen(look, f"the step {name} of the conference")


async def takes(caller: Caller) -> IncomingCall:
    """The human answers, hears the briefing and presses 1."""
    there = await HUMANS.rings_for(caller)
    there.answer()
    await hears(caller.hotline, there, "press")
    there.press("1")
    await step(caller, "joined")
    return there


async def back_with(caller: Caller, words: str) -> None:
    """The caller hears these words, and the conversation goes on."""
    async with explained(caller):
        await caller.told_after(Transferred)
        heard = await caller.heard(since=caller.line.spoken_segments()[-1].end)
        assert words in heard, heard
        assert (await caller.says_goodbye()).by == "them"
        history = await caller.history()
        assert (history.outcome, history.reason) == ("completed", "agent_hangup")


@together
async def test_the_human_takes_the_call_and_both_hear_each_other(hotline):
    caller = await asks(hotline, "taken")
    there = await takes(caller)
    assert there.caller.user == caller.number, "the human sees who calls"
    assert "music" not in await hears(hotline, there, "press")
    await hear_each_other(1, caller.line, there)
    caller.line.hangup()
    assert (await there.ended()).by == "them"
    history = await caller.history()
    assert (history.outcome, history.reason) == ("transferred", "transfer:taken")


@together
async def test_a_caller_who_says_nothing_is_led_to_a_human_by_keys(hotline):
    caller = await hotline.dial("ctx-by-key")
    await caller.greeted_to_the_end()
    await caller.event(Silence)
    asked = await caller.event(Answering, 3)
    assert "Press one" in asked.text, "after the re-prompt, with nothing understood"
    caller.line.press("2")
    assert (await caller.event(KeyChosen)).act == "say"
    await caller.told_after(KeyChosen)
    assert "close" in await caller.heard()
    caller.line.press("1")
    there = await takes(caller)
    caller.line.hangup()
    assert (await there.ended()).by == "them"
    history = await caller.history()
    assert (history.outcome, history.reason) == ("transferred", "transfer:keyed")
    assert not history.tools, "it was no act of the agent"


@together
async def test_an_operator_takes_a_call_over(hotline):
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    call = hotline.engine.registry.calls[await caller.call_id()]
    taking = asyncio.ensure_future(call.operator.take_over("watched", "otto"))
    (await HUMANS.rings_for(caller)).reject(486, "Busy Here")
    with pytest.raises(LineError, match="busy"):
        await taking
    assert (await caller.event(Answering, 2)).text == BACK
    await hears(hotline, caller.line, "still here")

    taking = asyncio.ensure_future(call.operator.take_over("watched", "otto"))
    await until(lambda: len(HUMANS.calls_for(caller)) == 2)
    there = HUMANS.calls_for(caller)[1]
    there.answer()
    await hears(hotline, there, "press")
    there.press("1")
    await taking
    await hear_each_other(5, caller.line, there)
    there.hangup()
    assert (await caller.line.ended()).by == "them"
    history = await caller.history()
    assert (history.outcome, history.reason) == ("transferred", "transfer:watched")


async def joins(hotline: Hotline, caller: Caller, **how: Any) -> IncomingCall:
    """An operator joins the caller's call by the key; this is their phone."""
    call = hotline.engine.registry.calls[await caller.call_id()]
    before = len(HUMANS.calls_for(caller))
    joining = asyncio.ensure_future(call.operator.confer("watched", "otto", **how))
    async with explained(caller):
        await until(lambda: len(HUMANS.calls_for(caller)) > before)
        there = HUMANS.calls_for(caller)[before]
        there.answer()
        await hears(hotline, there, "press")
        there.press("1")
        await joining
    return there


@together
async def test_an_operator_joins_caller_and_agent_and_leaves_again(hotline):
    caller = await hotline.dial("ctx-joined")
    await caller.greeted_to_the_end()
    before = await caller.heard()
    there = await joins(hotline, caller, quiet=False)
    async with explained(caller):
        notice = await caller.event(Answering, 2)
        assert notice.text == "watched has joined the call."
        await caller.told_after(ConferenceStep, 3)
        heard = (await caller.heard()).removeprefix(before)
        assert "join" in heard, "the caller is told who joins"
        assert "press" not in heard, "the question is for the operator alone"
        await hear_each_other(11, caller.line, there, alike=AMONG_OTHERS)
        there.press("1")  # no key of the caller's
        there.hangup()
        await conference(caller, "over")
        assert (await caller.says_goodbye()).by == "them", "the agent goes on"
    assert not [each for each in hotline.of(await caller.call_id()) if isinstance(each, Key)]
    assert (await caller.history()).reason == "agent_hangup"
    await hotline.engine.calls_recorded()
    started = await caller.event(RecordingStarted)
    kept, _ = channels(hotline.folder / started.path, started.rate)
    assert kept_a_part(noise(110), kept)
    assert kept_a_part(noise(111), kept), "the recording has the operator, too"


@together
async def test_a_quiet_agent_leaves_the_talk_to_caller_and_operator(hotline):
    caller = await hotline.dial("ctx-joined")
    await caller.greeted_to_the_end()
    there = await joins(hotline, caller, quiet=True)
    async with explained(caller):
        await caller.line.hear_speech()
        await caller.line.hear_silence(700)
        await caller.say("Goodbye.")
        heard = await caller.event(Heard)
        assert heard.said_by == "conference"
        await is_heard(there, noise(13), [caller.line], alike=AMONG_OTHERS)
        there.hangup()
        await conference(caller, "over")
        assert (await caller.says_goodbye()).by == "them", "the agent answers again"
    assert len([e for e in hotline.of(await caller.call_id()) if isinstance(e, Heard)]) >= 2


@together
async def test_a_mailbox_joins_no_call_and_the_caller_hears_nothing_of_it(hotline):
    caller = await hotline.dial("ctx-joined")
    await caller.greeted_to_the_end()
    call = hotline.engine.registry.calls[await caller.call_id()]
    joining = asyncio.ensure_future(call.operator.confer("mailbox", "otto", quiet=False))
    there = await HUMANS.rings_for(caller)
    there.answer()
    there.say(noise(14))
    with pytest.raises(LineError, match="machine"):
        await joining
    assert (await there.ended()).by == "them"
    assert not await caller.line.brought(noise(14), alike=AMONG_OTHERS)
    caller.line.hangup()
    await caller.history()


@together
async def test_words_for_the_human_are_heard_by_them_alone(hotline):
    caller = await asks(hotline, "whispered")
    there = await takes(caller)
    call = hotline.engine.registry.calls[await caller.call_id()]
    async with explained(caller):
        since = await caller.line.hear_silence(700)
        before = len(caller.line.heard_segments())
        assert await call.operator.whisper("Offer her a discount.", "otto", "human")
        await hears(hotline, there, "discount", since)
        assert len(caller.line.heard_segments()) == before, "the caller hears no sound of it"
        assert await call.operator.whisper("Offer her a discount.", "otto", "human")
        await hear_each_other(15, caller.line, there, alike=AMONG_OTHERS)
        whispers = [e for e in hotline.of(await caller.call_id()) if isinstance(e, OperatorWhisper)]
        assert len(whispers) == 2
        third = await joins(hotline, caller, quiet=False)
        await is_heard(third, noise(16), [caller.line, there], alike=AMONG_OTHERS)
    caller.line.hangup()
    await asyncio.gather(there.ended(), third.ended())
    assert (await caller.history()).outcome == "transferred"


@together
async def test_a_busy_phone_is_told_and_the_talk_goes_on(hotline):
    caller = await asks(hotline, "busy")
    there = await HUMANS.rings_for(caller)
    there.reject(486, "Busy Here")
    assert (await caller.event(Transferred)).outcome == "busy"
    await back_with(caller, "busy")


@together
async def test_a_phone_that_nobody_answers_stops_ringing(hotline):
    caller = await asks(hotline, "silent")
    there = await HUMANS.rings_for(caller)
    end = await there.ended()
    assert (end.by, end.status) == ("them", 487)
    assert (await caller.event(Transferred)).outcome == "no_answer"
    await back_with(caller, "answers")


@together
async def test_the_human_declines_by_key(hotline):
    caller = await asks(hotline, "declined")
    there = await HUMANS.rings_for(caller)
    there.answer()
    await there.hear_speech(after=0.0)
    await there.hear_silence(700)
    there.press("2")
    assert (await there.ended()).by == "them"
    assert (await caller.event(Transferred)).outcome == "declined"
    await back_with(caller, "cannot take")


@together
async def test_a_caller_who_hangs_up_stops_the_ringing(hotline):
    caller = await asks(hotline, "ringing")
    there = await HUMANS.rings_for(caller)
    await step(caller, "ringing")
    caller.line.hangup()
    end = await there.ended()
    assert (end.by, end.status) == ("them", 487)
    history = await caller.history()
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")


@together
async def test_the_human_hangs_up_and_the_caller_is_back_with_the_agent(hotline):
    caller = await asks(hotline, "back")
    there = await takes(caller)
    await is_heard(caller.line, noise(9), [there])
    there.hangup()
    await step(caller, "over")
    await back_with(caller, "back with me")


@together
async def test_a_warm_transfer_introduces_both(hotline):
    caller = await asks(hotline, "warm")
    there = await HUMANS.rings_for(caller)
    there.answer()
    await there.hear_speech(after=0.0)
    await there.hear_silence(700)
    there.press("1")
    await step(caller, "introducing")
    await step(caller, "joined")
    await hears(hotline, caller.line, "both", caller.line.spoken_segments()[-1].end)
    await is_heard(caller.line, noise(3), [there])
    there.hangup()
    assert (await caller.line.ended()).by == "them"
    assert (await caller.history()).outcome == "transferred"


@together
async def test_a_queue_that_times_out_hands_the_caller_back_to_the_same_conversation(hotline):
    caller = await asks(hotline, "queue")
    await step(caller, "away")
    await step(caller, "back")
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome, outcome.error) == (False, "no_answer", "TIMEOUT")
    await back_with(caller, "answers")


@away
async def test_a_mailbox_takes_a_message_and_hands_the_caller_back(hotline):
    caller = await asks(hotline, "box")
    await step(caller, "away")
    back = asyncio.ensure_future(step(caller, "back"))
    while not back.done():  # what is said before the beep is in no message
        caller.line.say(noise(7))
        await caller.line.said()
        caller.line.press("#")
        await asyncio.wait([back], timeout=5)
    await back
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome) == (True, "accepted")
    boxes = hotline.asterisk.root / "spool" / "voicemail" / "default" / "6001"
    assert [*boxes.rglob("msg*.wav")], "the message is in the mailbox"
    await back_with(caller, "back with me")


@away
async def test_a_mailbox_that_does_not_exist_is_said(hotline):
    caller = await asks(hotline, "no-box")
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome, outcome.error) == (False, "failed", "FAILED")


@away
async def test_a_caller_is_referred_by_their_own_telephone(hotline):
    caller = await asks(hotline, "office")
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome) == (True, "accepted")
    assert (await caller.history()).outcome == "transferred"
    elsewhere = caller.line.transferred_to
    assert elsewhere is not None
    await elsewhere.answered()
    elsewhere.hangup()


@away
async def test_a_caller_who_cannot_be_referred_is_back_with_the_agent(hotline):
    caller = await asks(hotline, "no-office")
    await step(caller, "back")
    outcome = await caller.event(Transferred)
    assert (outcome.ok, outcome.outcome, outcome.error) == (False, "failed", "FAILURE")


async def storm_of_three(hotline: Hotline, seed: int) -> str:
    """One conference in which all hang up at random moments, some amid words for one of them."""
    chance = random.Random(seed)
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    call = hotline.engine.registry.calls[await caller.call_id()]
    joining = asyncio.ensure_future(
        call.operator.confer("watched", "otto", quiet=chance.random() < 0.5)
    )
    there = await HUMANS.rings_for(caller)
    await asyncio.sleep(chance.choice([0.0, 0.01, chance.random()]))
    acts = [there.answer, partial(there.press, "1"), there.hangup, caller.line.hangup]
    if chance.random() < 0.3:
        acts[2:] = reversed(acts[2:])
    acts = acts[chance.randint(0, 1) :]
    if seed % 8 == 0:  # these join, however busy the machine is
        there.answer()
        await hears(hotline, there, "press")
        there.press("1")
        await joining
        acts = [lambda: None, *acts[-2:]]  # the words begin before somebody hangs up
    whispering = None
    for act in acts:
        with contextlib.suppress(CallOver):
            act()
        await asyncio.sleep(chance.choice([0.0, 0.002, chance.uniform(0, 2)]))
        if joining.done() and whispering is None:
            whispers = call.operator.whisper("Nobody will hear all of this.", "otto", "operator")
            whispering = asyncio.ensure_future(whispers)
    ends = await asyncio.gather(joining, *filter(None, (whispering,)), return_exceptions=True)
    assert all(isinstance(end, LineError | bool | None) for end in ends), ends
    await caller.history()
    return str(ends[0])


async def test_random_hang_ups_of_three_leave_nothing(hotline):
    outcomes = await asyncio.gather(*(storm_of_three(hotline, seed) for seed in range(16)))
    await assert_line_clean(hotline.asterisk)
    assert len(set(outcomes)) > 1, outcomes
    assert "None" in outcomes, "some have joined"
