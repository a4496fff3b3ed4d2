"""Keys that a context offers beside speech: whole calls in virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cordboard.agent_api.speech import Speech
from cordboard.calls import events
from cordboard.config.key_menu import KeyMenu
from cordboard.tools.call_line import KeysWanted
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script

PROMPT = "Press 1 for sales or 2 for our hours."
HOURS = "We are open from nine to five."
MENU: dict[str, Any] = {
    "prompt": PROMPT,
    "options": {
        "1": {"transfer": "sales"},
        "2": {"say": HOURS},
        "9": {"hang_up": "Goodbye then."},
    },
}
ENDPOINT = {"mode": "attended", "endpoint": "PJSIP/6001"}


def play(
    tmp_path: Path,
    scenario: Callable[[CallStage], Awaitable[None]],
    script: Script | None = None,
    *,
    keys: dict[str, Any] | None = None,
    **settings: Any,
) -> CallStage:
    """A call whose caller hangs up after the scenario, unless it is over."""

    async def whole(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await scenario(stage)
        stage.line.caller_hangs_up()

    context = {"keys": {**MENU, **(keys or {})}, **settings.pop("context", {})}
    stage = play_call(tmp_path, lambda: FakeAgent(script), whole, context=context, **settings)
    assert stage.agent.problem is None, stage.agent.problem
    return stage


async def press(stage: CallStage, key: str, pause: float = 5) -> None:
    assert stage.line.media is not None
    stage.line.media.press(key)
    await asyncio.sleep(pause)


def acts(stage: CallStage) -> list[tuple[str, str]]:
    return [(event.act, event.destination) for event in stage.of(events.KeyChosen)]


def test_a_key_cuts_the_agent_and_is_answered_at_once(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "word " * 100)

    async def scenario(stage: CallStage) -> None:
        await press(stage, "2")

    stage = play(tmp_path, scenario, script)

    assert stage.agent.said == [HOURS]
    assert len(stage.of(events.BargedIn)) == 1
    assert acts(stage) == [("say", "")]
    assert [event.key for event in stage.of(events.Key)] == ["2"]


def test_a_key_transfers_without_a_tool_of_the_agent(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1")

    stage = play(tmp_path, scenario, context={"tools": []})

    assert stage.ended.reason == "transfer:sales"
    assert acts(stage) == [("transfer", "sales")]
    assert [target.name for target in stage.line.transfers] == ["sales"]


class Slow(FakeAgent):
    """Begins to speak a second after it was asked to."""

    def say(self, speech: Speech) -> None:
        asyncio.get_running_loop().call_later(1, super().say, speech)


def test_the_sentence_of_a_transfer_is_heard_before_it(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "1", 10)

    words = "I put you through to sales."
    options = {"options": {"1": {"transfer": "sales", "say": words}}}
    stage = play_call(tmp_path, Slow, scenario, context={"keys": {**MENU, **options}})

    assert stage.ended.reason == "transfer:sales"
    assert words in [event.text for event in stage.of(events.Answering)]
    assert not stage.of(events.CutOff)


def test_a_sentence_that_nobody_speaks_holds_up_no_transfer(tmp_path: Path) -> None:
    class Silent(FakeAgent):
        def say(self, speech: Speech) -> None:
            """Say nothing."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "1", 60)

    options = {"options": {"1": {"transfer": "sales", "say": "One moment."}}}
    stage = play_call(tmp_path, Silent, scenario, context={"keys": {**MENU, **options}})

    assert stage.ended.reason == "transfer:sales"


def test_a_refusal_of_the_firewall_is_told_and_the_call_goes_on(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1")
        assert not stage.call.state.startswith("transfer")
        await press(stage, "2")

    stage = play(tmp_path, scenario, firewall={"deny": ["6001"]})

    assert not stage.line.transfers
    assert stage.agent.said == ["Sorry, I could not transfer you to sales.", HOURS]
    assert [event.rule for event in stage.of(events.FirewallRefused)] == ["number.deny"]
    assert stage.ended.reason == "caller_hangup"


def test_a_human_is_asked_first_where_the_destination_says_so(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 0.1)
        await stage.line.dialled.wait()
        await press(stage, "2", 0.1)  # of a caller who waits: no key of the menu
        stage.line.legs[0].leave(17, 486)
        await asyncio.sleep(5)

    stage = play(tmp_path, scenario, sales=ENDPOINT)

    assert stage.agent.said == ["I am sorry, sales is busy at the moment."]
    assert acts(stage) == [("transfer", "sales")]
    assert stage.line.place == "gone"


def test_a_transfer_by_key_ends_with_the_caller(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 0.1)
        await stage.line.dialled.wait()

    stage = play(tmp_path, scenario, sales=ENDPOINT)

    assert stage.ended.reason == "caller_hangup"
    assert not stage.line.legs[0].live


def test_a_key_ends_the_call_with_its_words(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "9", 20)

    stage = play(tmp_path, scenario)

    assert stage.agent.said == ["Goodbye then."]
    assert stage.ended.reason == "agent_hangup"


def test_keys_that_are_collected_or_answer_a_question_are_none_of_the_menu(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        asking = asyncio.ensure_future(stage.call.line.collect_keys(KeysWanted(count=2)))
        await asyncio.sleep(0.1)
        await press(stage, "1", 0.3)
        await press(stage, "2", 0.3)
        assert (await asking).keys == "12"
        confirming = asyncio.ensure_future(stage.call.line.confirm("Shall I?"))
        await asyncio.sleep(2)
        await press(stage, "1", 5)
        assert await confirming is True

    stage = play(tmp_path, scenario, context={"tools": ["collect_digits"]})

    assert acts(stage) == []
    assert not stage.line.transfers


def test_keys_typed_ahead_of_a_tool_are_the_tools(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 0.5)
        collected = await stage.call.line.collect_keys(KeysWanted(count=1))
        assert collected.keys == "1"
        await asyncio.sleep(5)
        await press(stage, "2")

    stage = play(tmp_path, scenario, context={"tools": ["collect_digits"]})

    assert acts(stage) == [("say", "")]


def test_the_prompt_is_spoken_when_nothing_is_understood(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        for turn, text in enumerate(["", "Hello.", "", "", ""], 1):
            await agent.caller_says(turn, text)
            await asyncio.sleep(4)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(30)
        assert stage.agent.said == [PROMPT], "after the second in a row"
        await press(stage, "5")
        await press(stage, "2")
        await press(stage, "5")

    stage = play(tmp_path, scenario, script)

    assert stage.agent.said == [PROMPT, PROMPT, HOURS], "a wrong key asks again, but only then"


def test_a_caller_who_cannot_speak_is_led_by_keys_alone(tmp_path: Path) -> None:
    silence = {
        "filler_after_ms": 0,
        "caller_after_ms": 5_000,
        "reprompts": ["Hello?", "Are you there?"],
        "goodbye": "Bye.",
        "agent_after_ms": 60_000,
    }

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(14)
        await press(stage, "2", 3)
        await press(stage, "9", 20)

    stage = play(tmp_path, scenario, context={"silence": silence})

    assert stage.agent.said == ["Hello?", "Are you there?", PROMPT, HOURS, "Goodbye then."]
    assert stage.ended.reason == "agent_hangup"


def test_the_keys_are_told_with_the_greeting_where_the_context_says_so(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(5)

    stage = play(tmp_path, scenario, keys={"announce": True})

    assert stage.agent.session.greeting == f"Good morning. {PROMPT}"


PIN = {"from": "variables.CUSTOMER_PIN", "tries": 1}
RIGHT = "4711"


def refusals(stage: CallStage) -> list[tuple[str, str, str]]:
    return [(e.act, e.name, e.rule) for e in stage.of(events.FirewallRefused)]


@pytest.mark.parametrize(("pressed", "passes"), [(RIGHT, True), ("1111", False), ("", False)])
def test_a_key_for_a_privileged_destination_asks_for_the_pin_first(
    tmp_path: Path, pressed: str, passes: bool
) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 6)
        assert stage.agent.said == ["Please enter your PIN with the keys of your telephone."]
        for key in pressed:
            await press(stage, key, 0.3)
        await asyncio.sleep(25)

    stage = play(
        tmp_path,
        scenario,
        variables={"CUSTOMER_PIN": RIGHT},
        firewall={"destinations": {"sales": {"step_up": "pin"}}, "pin": PIN},
    )

    assert [target.name for target in stage.line.transfers] == (["sales"] if passes else [])
    assert [(e.proof, e.ok) for e in stage.of(events.CallerVerified)] == [("pin", passes)]
    if not passes:
        assert refusals(stage) == [("transfer", "sales", "step_up")]
        assert stage.agent.said[-1] == (
            "I am sorry, I could not verify who you are, so I cannot transfer you to sales."
        )
    assert acts(stage) == [("transfer", "sales")], "keys of a PIN are none of the menu"
    assert RIGHT not in repr(stage.lines())


def test_the_sentence_of_a_transfer_comes_after_the_proof(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 6)
        for key in RIGHT:
            await press(stage, key, 0.3)
        await asyncio.sleep(25)

    stage = play(
        tmp_path,
        scenario,
        keys={"options": {"1": {"transfer": "sales", "say": "I put you through."}}},
        variables={"CUSTOMER_PIN": RIGHT},
        firewall={"destinations": {"sales": {"step_up": "pin"}}, "pin": PIN},
    )

    assert [text[:12] for text in stage.agent.said] == ["Please enter", "I put you th"]
    assert stage.ended.reason == "transfer:sales"


def test_a_key_for_a_destination_that_a_person_must_open(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 10)
        assert not stage.line.transfers
        stage.call.operator.verify("anna")
        await press(stage, "1", 10)

    rules = {"destinations": {"sales": {"step_up": "operator"}}}
    stage = play(tmp_path, scenario, firewall=rules)

    assert stage.agent.said == [
        "I am sorry, a colleague must confirm who you are before I can transfer you to sales."
    ]
    assert [target.name for target in stage.line.transfers] == ["sales"]
    assert refusals(stage) == [("transfer", "sales", "step_up")]


@pytest.mark.parametrize("right", [True, False])
def test_a_key_for_a_destination_that_calls_the_known_number_back(
    tmp_path: Path, right: bool
) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 0.1)
        await stage.line.dialled.wait()
        told = [event.text for event in stage.of(events.Answering)][-1]
        [code] = re.findall(r"\d, \d, \d, \d", told)
        [leg] = stage.line.legs
        assert leg.target.target == "+4722334455"
        leg.answer()
        await asyncio.sleep(10)
        for key in code.replace(", ", "") if right else "#":
            await press(stage, key, 0.3)
        await asyncio.sleep(25)

    rules = {
        "country": "NO",
        "destinations": {"sales": {"step_up": "callback"}},
        "callback": {"from": "variables.KNOWN_NUMBER", "ring_ms": 10_000},
    }
    stage = play(
        tmp_path,
        scenario,
        variables={"KNOWN_NUMBER": "+4722334455"},
        firewall=rules,
        outbound={"enabled": True, "endpoint": "PJSIP/{number}@trunk"},
    )

    assert [target.name for target in stage.line.transfers] == (["sales"] if right else [])
    assert [(e.proof, e.ok) for e in stage.of(events.CallerVerified)] == [("callback", right)]
    if not right:
        assert stage.agent.said[-1].startswith("I am sorry, I could not verify")


def test_a_key_outside_the_hours_of_its_destination_asks_for_no_proof(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await press(stage, "1", 10)

    never = [{"days": [day], "from": "00:00", "to": "00:01"} for day in ("sun", "sat")]
    rules = {"destinations": {"sales": {"step_up": "pin", "hours": never}}, "pin": PIN}
    stage = play(tmp_path, scenario, variables={"CUSTOMER_PIN": RIGHT}, firewall=rules)

    assert stage.agent.said == ["Sorry, I could not transfer you to sales."]
    assert refusals(stage) == [("transfer", "sales", "hours")]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"1": {}}, "expected `transfer`"),
        ({"1": {"say": "Yes.", "hang_up": "Bye."}}, "expected `transfer`"),
        ({"12": {"say": "Yes."}}, "12"),
        ({}, "options"),
    ],
)
def test_a_menu_that_makes_no_sense_is_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        KeyMenu.model_validate({"prompt": PROMPT, "options": options})
