"""The firewall at its seats in a call: desk, transfers, keys, proofs and callers; virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import AgentFailed
from cordboard.calls import events
from cordboard.calls.call import WORDLESS
from cordboard.calls.call_firewall import judge_dialling
from cordboard.calls.dtmf import MASK
from cordboard.calls.outbound_order import CallbackBook
from cordboard.config.sections.firewall import Firewall
from cordboard.errors import CampaignRefused, LineError, TransferFailed
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import NOT_VERIFIED, REFUSED, Policy
from cordboard.tools.tool import Effects, Status, ToolReply
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLeg

DESTINATIONS = {
    "hotline": {"target": "+4782900000", "context": "trunk"},
    "boss": {"target": "6002", "context": "internal"},
}
PIN = {"from": "variables.CUSTOMER_PIN", "tries": 2}
RIGHT = "4711"
TOOLS = ["transfer", "send_digits", "refund", "look_up"]


class Act:
    """A call in which the agent does one thing after the other."""

    def __init__(self) -> None:
        self.replies: list[ToolReply] = []

    def play(
        self,
        tmp_path: Path,
        script: Callable[[FakeAgent, Act], Awaitable[None]],
        beside: Callable[[CallStage], Awaitable[None]] | None = None,
        **firewall: Any,
    ) -> CallStage:
        async def follow(agent: FakeAgent) -> None:
            await script(agent, self)

        async def scenario(stage: CallStage) -> None:
            await asyncio.sleep(1)
            if beside is not None:
                await beside(stage)
            await asyncio.sleep(60)
            if stage.line.media is not None and not stage.line.media.closed:
                stage.line.media.break_off("caller_hangup")

        return play_call(
            tmp_path,
            lambda: FakeAgent(follow),
            scenario,
            context={"tools": TOOLS},
            tools=[FakeTool("refund", effects=Effects.DESTRUCTIVE), FakeTool("look_up")],
            variables={"CUSTOMER_PIN": RIGHT, "KNOWN_NUMBER": KNOWN},
            outbound={"enabled": True, "endpoint": "PJSIP/{number}@trunk"},
            firewall=firewall,
            destinations=DESTINATIONS,
        )

    async def ask(self, agent: FakeAgent, tool: str, /, **arguments: Any) -> ToolReply:
        reply = await agent.ask(tool, arguments, turn=1)
        self.replies.append(reply)
        return reply


def refusals(stage: CallStage) -> list[tuple[str, str, str]]:
    return [(e.act, e.name, e.rule) for e in stage.of(events.FirewallRefused)]


def metric(stage: CallStage, act: str, rule: str) -> bool:
    line = f'ai_agent_firewall_refused_total{{act="{act}",rule="{rule}"}} 1.0'
    return line in stage.metrics.render().decode()


async def press(stage: CallStage, keys: str) -> None:
    for key in keys:
        await asyncio.sleep(0.3)
        assert stage.line.media is not None
        stage.line.media.press(key)


def test_a_shut_destination_is_never_reached_whoever_wants_it(tmp_path: Path) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "transfer", destination="hotline")

    async def operator(stage: CallStage) -> None:
        await asyncio.sleep(10)
        with pytest.raises(TransferFailed, match=r"number\.class"):
            await stage.call.line.transfer_after_speech("hotline", by="operator")
        with pytest.raises(TransferFailed):
            await stage.call.line.transfer_after_speech("hotline", by="engine")

    stage = act.play(tmp_path, script, operator)
    assert stage.line.transfers == []
    assert act.replies[0].status is Status.ERROR
    assert "82900000" not in act.replies[0].message
    assert "premium" not in act.replies[0].message
    assert refusals(stage) == [("transfer", "hotline", "number.class")] * 3
    assert all("829" not in event.why for event in stage.of(events.FirewallRefused))
    assert stage.ended.reason == "caller_hangup", "the call went on"


def test_transfers_have_caps_and_a_try_counts(tmp_path: Path) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await asyncio.sleep(3)
        for _ in range(2):
            await act.ask(agent, "transfer", destination="boss")

    async def broken(stage: CallStage) -> None:
        stage.line.refuse_transfer = TransferFailed("busy")

    stage = act.play(tmp_path, script, broken, outgoing={"per_caller": {"calls_per_day": 1}})
    assert [reply.status for reply in act.replies] == [Status.ERROR] * 2
    assert refusals(stage) == [("transfer", "boss", "cap.caller")]


def test_configured_destinations_work_as_before(tmp_path: Path) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "transfer", destination="boss")

    stage = act.play(tmp_path, script)
    assert [target.name for target in stage.line.transfers] == ["boss"]
    assert stage.ended.reason == "transfer:boss"
    assert refusals(stage) == []


def test_keys_are_judged_at_the_line(tmp_path: Path) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        for digits in ("*724782900000", "12#"):
            await act.ask(agent, "send_digits", digits=digits)

    async def plugin(stage: CallStage) -> None:
        with pytest.raises(LineError, match=r"keys\.unreadable"):
            await stage.call.line.send_keys("1&SIP/x")

    stage = act.play(tmp_path, script, plugin)
    assert stage.line.sent_keys == "12#"
    assert [reply.status for reply in act.replies] == [Status.ERROR, Status.OK]
    assert sorted(refusals(stage)) == [("keys", "", "keys.code"), ("keys", "", "keys.unreadable")]
    assert metric(stage, "keys", "keys.code")


def test_a_code_cannot_be_sent_in_pieces_and_the_path_of_a_menu_can(tmp_path: Path) -> None:
    act = Act()
    steps = [
        ("*", 0.0, True), ("72", 0.0, False), ("72", 4.0, False),  # a refusal sends nothing
        ("1", 6.0, True), ("2", 0.0, True), ("1234#", 3.0, True), ("5", 8.0, True),
        ("##", 6.0, True), ("004782", 1.0, False),
        ("829", 6.0, True), ("00000", 1.0, False),
        ("wwwwwwwwwwww*", 6.0, True), ("72", 6.0, False),  # the star is pressed after 6 s only
        ("72", 6.0, True),
    ]  # fmt: skip
    judged: list[tuple[str, float, bool]] = []

    async def script(agent: FakeAgent, act: Act) -> None:
        await asyncio.sleep(60)

    async def send(stage: CallStage) -> None:
        for keys, pause, _ in steps:
            await asyncio.sleep(pause)
            try:
                await stage.call.line.send_keys(keys)
            except LineError:
                judged.append((keys, pause, False))
            else:
                judged.append((keys, pause, True))

    stage = act.play(tmp_path, script, send, country="NO")
    assert judged == steps
    assert stage.line.sent_keys == "*121234#5##829wwwwwwwwwwww*72"
    assert {refusal[2] for refusal in refusals(stage)} == {"keys.code", "keys.number"}


def test_a_tool_outside_its_hours_is_refused_with_one_safe_sentence(tmp_path: Path) -> None:
    act = Act()
    never = [{"days": [day], "from": "00:00", "to": "00:01"} for day in ("sun", "sat")]

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "refund", place="x")
        await act.ask(agent, "look_up", place="x")

    guarded = {"refund": {"hours": never, "tainted": "allow"}}
    stage = act.play(tmp_path, script, tools=guarded)
    refused, allowed = act.replies
    if allowed.status is not Status.OK:
        raise AssertionError(allowed)
    assert (refused.status, refused.message, refused.refused) == (
        Status.REFUSED, REFUSED, "firewall"
    )  # fmt: skip
    assert refused.control == {"retryable": False}
    (event,) = stage.of(events.FirewallRefused)
    (asked, _) = stage.of(events.ToolCalled)
    assert (event.act, event.rule, event.ask_id) == ("tool", "hours", asked.ask_id)
    assert [e.reason for e in stage.of(events.ToolAnswered)] == ["firewall", ""]
    assert metric(stage, "tool", "hours")


STEP_UP = {"tools": {"refund": {"step_up": "pin", "tainted": "allow"}}, "pin": PIN}


@pytest.mark.parametrize(
    ("pressed", "statuses", "proofs"),
    [
        (RIGHT, ["ok", "ok"], [True]),
        ("1234" + RIGHT, ["ok", "ok"], [False, True]),
        ("12345678" + RIGHT, ["refused", "refused"], [False, False]),
        ("47#" + "4711", ["ok", "ok"], [False, True]),
        ("", ["refused", "refused"], [False, False]),
    ],
)
def test_a_pin_is_asked_for_once_in_a_call_and_with_few_tries(
    tmp_path: Path, pressed: str, statuses: list[str], proofs: list[bool]
) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "refund", place="x")
        await act.ask(agent, "refund", place="y")

    async def caller(stage: CallStage) -> None:
        await asyncio.sleep(4)
        await press(stage, pressed)
        assert stage.call.line.reveal("keys-1") is None, "no tool can get the PIN"

    stage = act.play(tmp_path, script, caller, **STEP_UP)
    assert [str(reply.status) for reply in act.replies] == statuses
    assert [event.ok for event in stage.of(events.CallerVerified)] == proofs
    assert all(event.key == MASK for event in stage.of(events.Key))
    if statuses[0] == "refused":
        assert act.replies[0].message == NOT_VERIFIED
        assert refusals(stage) == [("tool", "refund", "step_up")] * 2
    assert RIGHT not in repr(stage.lines())


def test_an_operator_vouches_for_the_caller(tmp_path: Path) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "refund", place="x")
        await asyncio.sleep(10)
        await act.ask(agent, "refund", place="x")

    async def operator(stage: CallStage) -> None:
        await asyncio.sleep(5)
        stage.call.operator.verify("anna")

    rules = {"tools": {"refund": {"step_up": "operator", "tainted": "allow"}}}
    stage = act.play(tmp_path, script, operator, **rules)
    assert [str(reply.status) for reply in act.replies] == ["refused", "ok"]
    (verified,) = stage.of(events.CallerVerified)
    assert (verified.proof, verified.ok, verified.who) == ("operator", True, "anna")


@pytest.mark.parametrize(
    ("trusted", "answer", "status"),
    [([], "1", "ok"), ([], "2", "refused"), (["look_up"], "", "ok")],
)
def test_after_words_of_others_a_privileged_tool_needs_the_callers_own_yes(
    tmp_path: Path, trusted: list[str], answer: str, status: str
) -> None:
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await act.ask(agent, "look_up", place="x")
        await act.ask(agent, "refund", place="x")

    async def caller(stage: CallStage) -> None:
        await asyncio.sleep(6)
        await press(stage, answer)

    rules = {"tools": {"refund": {}}, "trusted_tools": trusted}
    stage = act.play(tmp_path, script, caller, **rules)
    assert str(act.replies[1].status) == status
    assert bool(stage.of(events.ToolApproval)) == (not trusted)
    assert stage.call.firewall.tainted == ("result:refund" if trusted else "result:look_up")


def test_a_destination_with_a_proof_is_refused_where_the_desk_was_passed_by(
    tmp_path: Path,
) -> None:
    """A Python tool may transfer by itself."""
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await asyncio.sleep(20)
        await act.ask(agent, "transfer", destination="boss")

    async def plugin(stage: CallStage) -> None:
        with pytest.raises(TransferFailed, match="step_up"):
            await stage.call.line.transfer_after_speech("boss")
        await asyncio.sleep(22)
        await press(stage, RIGHT)

    rules = {"destinations": {"boss": {"step_up": "pin"}}, "pin": PIN}
    stage = act.play(tmp_path, script, plugin, **rules)
    assert [target.name for target in stage.line.transfers] == ["boss"]
    assert refusals(stage) == [("transfer", "boss", "step_up")]


@pytest.mark.parametrize("proof", ["pin", "callback"])
def test_who_cannot_be_asked_has_used_up_no_try(tmp_path: Path, proof: str) -> None:
    """While a colleague talks with the caller, the agent is to be quiet."""
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        await asyncio.sleep(2)
        for _ in range(3):
            await act.ask(agent, "refund")
        await asyncio.sleep(10)
        await act.ask(agent, "refund")

    async def colleague(stage: CallStage) -> None:
        conversation = stage.call.conversation
        assert conversation is not None
        conversation.confer(True, quiet=True, notice="")
        await asyncio.sleep(6)
        assert [reply.status for reply in act.replies] == [Status.REFUSED] * 3
        assert stage.of(events.CallerVerified) == []
        assert stage.call.firewall.usage.used("out", "total", "").calls == 0
        conversation.confer(False, quiet=True)
        if proof == "pin":
            await asyncio.sleep(8)
            await press(stage, RIGHT)
            return
        await stage.line.dialled.wait()
        [code] = re.findall(r"\d, \d, \d, \d", said(stage)[-1])
        stage.line.legs[-1].answer()
        await asyncio.sleep(6)
        await press(stage, code.replace(", ", ""))

    rules = {
        "country": "NO",
        "tools": {"refund": {"step_up": proof, "tainted": "allow"}},
        "pin": PIN,
        "callback": CALL_BACK["callback"],
    }
    stage = act.play(tmp_path, script, colleague, **rules)
    assert str(act.replies[-1].status) == "ok"
    assert proofs(stage) == [(proof, True)]


def test_a_caller_of_whom_no_word_is_understood_is_cut_politely(tmp_path: Path) -> None:
    async def script(agent: FakeAgent, act: Act) -> None:
        await agent.caller_says(1, "")

    stage = Act().play(tmp_path, script, incoming={"wordless_after_ms": 20_000})
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "caller_silent")
    assert WORDLESS in stage.agent.said or any("hang up" in text for text in stage.agent.said)
    assert stage.ended.duration_ms < 40_000


def test_a_caller_with_words_stays(tmp_path: Path) -> None:
    async def script(agent: FakeAgent, act: Act) -> None:
        await agent.caller_says(1, "Hello.")

    stage = Act().play(tmp_path, script, incoming={"wordless_after_ms": 20_000})
    assert stage.ended.reason == "caller_hangup"


def test_a_call_that_the_engine_makes_is_judged_and_counted_by_its_callee() -> None:
    rules = {"country": "NO", "outgoing": {"per_caller": {"calls_per_day": 1}}}
    policy, counts = Policy(Firewall.model_validate(rules)), Counts()
    now = policy.now()

    def judged(number: str) -> str:
        decision = judge_dialling(policy, counts, number, "PJSIP/trunk", "demo")
        return "ok" if decision.allowed else decision.rule

    assert judged("22 12 34 56") == "ok"
    live = counts.begin("out", policy.caller("22 12 34 56"), "demo", now)
    assert judged("+4722123456") == "cap.caller"
    assert judged("+4722123457") == "ok"
    assert judged("+4782900000") == "number.class"
    counts.end(live, now)
    assert judged("0047 22123456") == "cap.caller"


HOSTILE = (
    "+4782900000", "82900000", "6002@trunk", "boss&PJSIP/x", "BOSS", "boss ", "\uff42oss",
    "${EXTEN}", "sip:boss@evil.example", "plus four seven eight two nine", "", "911", "*72",
)  # fmt: skip


def test_an_obedient_agent_reaches_no_destination_that_is_not_configured(tmp_path: Path) -> None:
    """Callers who spell numbers, dialplan tricks and codes: by the tool, and by a Python tool."""
    act = Act()

    async def script(agent: FakeAgent, act: Act) -> None:
        for turn, destination in enumerate(HOSTILE, 1):
            asked = {"destination": destination}
            act.replies.append(await agent.ask("transfer", asked, turn=turn))

    async def plugin(stage: CallStage) -> None:
        for destination in HOSTILE:
            with pytest.raises(KeyError):
                await stage.call.line.transfer_after_speech(destination)
        for keys in ("*724782900000", "#21#911#", "9w0047829w00000", "1;2", "\u0661\u0662"):
            with pytest.raises(LineError):
                await stage.call.line.send_keys(keys)

    stage = act.play(tmp_path, script, plugin)
    assert stage.line.transfers == []
    assert stage.line.sent_keys == ""
    assert {reply.refused for reply in act.replies} == {"arguments"}
    assert len(act.replies) == len(HOSTILE)


KNOWN = "+4722334455"
CALL_BACK = {
    "country": "NO",
    "tools": {"refund": {"step_up": "callback", "tainted": "allow"}},
    "callback": {"from": "variables.KNOWN_NUMBER", "calls": 2, "ring_ms": 10_000},
}


class CallBack:
    """A call whose caller is known by a number, and that number's telephone."""

    def __init__(
        self,
        tmp_path: Path,
        number: str = KNOWN,
        book: CallbackBook | None = None,
        **firewall: Any,
    ) -> None:
        self._tmp_path = tmp_path
        self._book = book
        self._number = number
        self._firewall = {**CALL_BACK, **firewall}
        self.replies: list[ToolReply] = []

    def play(
        self,
        phone: Callable[[CallStage, FakeLeg, str], Awaitable[None]],
        meanwhile: Callable[[CallStage], Awaitable[None]] | None = None,
    ) -> CallStage:
        """`phone(stage, leg, code)` acts when the number is dialled, each time."""

        async def script(agent: FakeAgent) -> None:
            await asyncio.sleep(2)
            for place in "x", "y":
                self.replies.append(await agent.ask("refund", {"place": place}, turn=1))
            await agent.speak(1, "That is all.")

        async def serve(stage: CallStage) -> None:
            while True:
                await stage.line.dialled.wait()
                stage.line.dialled.clear()
                [code, *_] = re.findall(r"\d, \d, \d, \d", said(stage)[-1])
                await phone(stage, stage.line.legs[-1], code.replace(", ", ""))

        async def scenario(stage: CallStage) -> None:
            serving = asyncio.ensure_future(serve(stage))
            if meanwhile is not None:
                await meanwhile(stage)
            await asyncio.sleep(90)
            serving.cancel()
            if not serving.cancelled() and serving.done():
                serving.result()
            stage.line.caller_hangs_up()

        return play_call(
            self._tmp_path,
            lambda: FakeAgent(script),
            scenario,
            context={"tools": ["refund"]},
            tools=[FakeTool("refund", effects=Effects.DESTRUCTIVE)],
            variables={"KNOWN_NUMBER": self._number},
            firewall=self._firewall,
            outbound={"enabled": True, "endpoint": "PJSIP/{number}@trunk"},
            callbacks=self._book,
        )

    @property
    def statuses(self) -> list[str]:
        return [str(reply.status) for reply in self.replies]


def said(stage: CallStage) -> list[str]:
    return [event.text for event in stage.of(events.Answering)]


def proofs(stage: CallStage) -> list[tuple[str, bool]]:
    return [(event.proof, event.ok) for event in stage.of(events.CallerVerified)]


def test_a_caller_is_proven_by_a_call_to_the_number_that_is_known_of_them(tmp_path: Path) -> None:
    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        assert stage.line.place == "hold"
        assert (leg.target.endpoint, leg.target.ring_seconds) == (f"PJSIP/{KNOWN}@trunk", 10)
        await asyncio.sleep(3)
        leg.answer()
        await asyncio.sleep(6)
        assert leg.party_hears == "agent"
        await press(stage, code)
        await asyncio.sleep(1)
        assert stage.line.place == "agent", "the caller is back"
        assert not leg.live

    call = CallBack(tmp_path)
    stage = call.play(phone)
    assert call.statuses == ["ok", "ok"], "one proof is enough for a call"
    assert proofs(stage) == [("callback", True)]
    assert len(stage.line.legs) == 1
    assert stage.line.legs[0].operations == ["hold", "dial", "brief", "drop", "back"]
    assert all(event.key == MASK for event in stage.of(events.Key))
    assert stage.ended.reason == "caller_hangup"


@pytest.mark.parametrize("what", ["wrong", "nothing", "busy", "no answer", "hangs up"])
def test_a_call_to_the_known_number_that_proves_nothing(tmp_path: Path, what: str) -> None:
    """A voicemail presses nothing. Each failure is one of the two calls."""

    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        await asyncio.sleep(1)
        if what == "busy":
            leg.leave(17, 486)
        elif what != "no answer":
            leg.answer()
            await asyncio.sleep(6)
            if what == "wrong":
                await press(stage, "".join(str(9 - int(key)) for key in code))
            elif what == "hangs up":
                leg.leave()

    call = CallBack(tmp_path)
    stage = call.play(phone)
    assert call.statuses == ["refused", "refused"]
    assert call.replies[0].message == NOT_VERIFIED
    assert proofs(stage) == [("callback", False)] * 2
    assert refusals(stage) == [("tool", "refund", "step_up")] * 2
    assert len(stage.line.legs) == 2
    assert all(leg.closed for leg in stage.line.legs)
    assert said(stage)[-1] == "That is all.", "the call went on"
    assert stage.line.place == "gone", "they hung up at the end"


class Blocks:
    """A do-not-call list with one number, or one that cannot be read."""

    def __init__(self, blocked: str = "", *, broken: bool = False) -> None:
        self._blocked, self._broken = blocked, broken

    async def is_blocked(self, number: str) -> bool:
        if self._broken:
            raise CampaignRefused("the disk is full")
        return number == self._blocked

    async def add(self, *_: Any) -> bool:
        raise AssertionError


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        (Blocks(KNOWN), "the number is on the do-not-call list"),
        (Blocks(broken=True), "the do-not-call list cannot be read"),
    ],
)
def test_a_known_number_on_the_do_not_call_list_is_not_rung(
    tmp_path: Path, blocks: Blocks, why: str
) -> None:
    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        """It rings."""

    call = CallBack(tmp_path, "22 33 44 55", blocks)
    stage = call.play(phone)
    assert call.statuses == ["refused", "refused"]
    assert call.replies[0].message == NOT_VERIFIED
    assert {event.why for event in stage.of(events.FirewallRefused)} == {why}
    assert (stage.line.legs, proofs(stage)) == ([], [])


def test_a_known_number_that_is_not_on_the_list_is_rung(tmp_path: Path) -> None:
    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        leg.answer()
        await asyncio.sleep(6)
        await press(stage, code)

    call = CallBack(tmp_path, KNOWN, Blocks("+4722000000"))
    call.play(phone)
    assert call.statuses == ["ok", "ok"]


def test_keys_of_the_caller_prove_nothing_however_early_the_other_phone_answers(
    tmp_path: Path,
) -> None:
    """They know the code, and a voicemail or an exchange answers at once."""

    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        leg.answer()

    async def hears_the_code(stage: CallStage) -> None:
        while not stage.line.legs:
            if found := re.findall(r"\d, \d, \d, \d", " ".join(said(stage))):
                assert stage.line.media is not None
                for key in found[-1].replace(", ", ""):
                    stage.line.media.press(key)
            await asyncio.sleep(0.5)

    call = CallBack(tmp_path)
    stage = call.play(phone, meanwhile=hears_the_code)
    assert call.statuses == ["refused", "refused"]
    assert proofs(stage) == [("callback", False)] * 2
    assert stage.of(events.Key)[-1].key == MASK


@pytest.mark.parametrize(
    ("number", "rules", "why"),
    [
        ("", {}, "holds none"),
        ("+4782900000", {}, "may not be called"),
        (KNOWN, {"deny": [KNOWN]}, "may not be called"),
    ],
)
def test_a_number_that_may_not_be_called_is_not_called(
    tmp_path: Path, number: str, rules: dict[str, Any], why: str
) -> None:
    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        raise AssertionError("it was called")

    call = CallBack(tmp_path, number, **rules)
    stage = call.play(phone)
    assert call.statuses == ["refused", "refused"]
    assert not stage.line.legs
    assert all(why in event.why for event in stage.of(events.FirewallRefused))


def test_a_caller_who_hangs_up_while_the_known_number_rings(tmp_path: Path) -> None:
    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        await asyncio.sleep(2)
        stage.line.caller_hangs_up()

    call = CallBack(tmp_path)
    stage = call.play(phone)
    assert stage.ended.reason == "caller_hangup"
    [leg] = stage.line.legs
    assert leg.closed, "it rings on"
    assert not any(ok for _, ok in proofs(stage))


def test_an_agent_that_fails_meanwhile_apologises_to_the_caller_not_there(tmp_path: Path) -> None:
    heard: list[str] = []

    async def phone(stage: CallStage, leg: FakeLeg, code: str) -> None:
        leg.answer()
        await asyncio.sleep(2)
        stage.agent.emit(AgentFailed("the connection broke"))
        await asyncio.sleep(3)
        heard.extend(said(stage))
        leg.leave()

    call = CallBack(tmp_path)
    stage = call.play(phone)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    [leg] = stage.line.legs
    assert leg.closed
    assert leg.operations[-1] == "back", "the caller was left with music"
    assert said(stage)[: len(heard)] == heard
