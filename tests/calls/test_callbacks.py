"""Calls in which a caller asks to be called back: the real call in virtual time, scripted agent."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cordboard.calls import events
from cordboard.calls.offer import Offer
from cordboard.calls.outbound_order import PromisedCall
from cordboard.config.tools.messages import CallbackSettings
from cordboard.errors import CampaignRefused
from cordboard.tools.builtin import CALLBACK_UNKEPT
from cordboard.tools.tool import ToolReply
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine

from .test_messages import POST, Queue

ZONE = ZoneInfo("Europe/Oslo")
OWN, OTHER, PREMIUM, BLOCKED = "+4722334455", "+4722000001", "+4782900000", "+4722000009"
FIREWALL = {"country": "NO"}
OUTBOUND = {"enabled": True}
ALWAYS = {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "from": "00:00", "to": "23:59"}
DELIVER = {"tool": "post", "arguments": {"n": "{callback.number}", "at": "{callback.at}"}}


def tomorrow(hour: int = 12) -> datetime.datetime:
    day = datetime.datetime.now(ZONE) + datetime.timedelta(days=1)
    return day.replace(hour=hour, minute=30, second=0, microsecond=0)


class Book:
    """Keeps promises, as the campaigns' queue does."""

    def __init__(self, *, broken: bool = False) -> None:
        self.promises: list[tuple[PromisedCall, dict[str, str]]] = []
        self._broken = broken

    async def is_blocked(self, number: str) -> bool:
        return number == BLOCKED

    async def add(
        self, promise: PromisedCall, settings: CallbackSettings, variables: Mapping[str, str]
    ) -> bool:
        if self._broken:
            raise CampaignRefused("the disk is full")
        self.promises.append((promise, dict(variables)))
        return True


class Line(FakeLine):
    """A line of that caller."""

    def __init__(self, caller: str) -> None:
        super().__init__()
        self._caller = caller

    def offer(self, variables: Mapping[str, str] | None = None, called: str = "100") -> Offer:
        return dataclasses.replace(super().offer(variables, called), caller_number=self._caller)


class Asked:
    """One request in a call, and all that came of it."""

    def __init__(
        self,
        tmp_path: Path,
        arguments: Mapping[str, Any],
        *,
        caller: str = OWN,
        answer: str = "Yes.",
        broken: bool = False,
        disk_works: bool = True,
        outbound: Mapping[str, Any] = OUTBOUND,
        **settings: Any,
    ) -> None:
        self.book, self.queue = Book(broken=broken), Queue(disk_works=disk_works)
        self.reply: ToolReply | None = None
        settings = {"zone": "Europe/Oslo", "hours": ALWAYS, **settings}
        self.stage = play_call(
            tmp_path,
            lambda: FakeAgent(self._script(arguments, answer)),
            self._hang_up,
            context={
                "greeting": "",
                "tools": ["request_callback"],
                "variables": ["callback_about"],
            },
            configured={"request_callback": {"callback": settings}, "post": POST},
            firewall=FIREWALL,
            outbound=outbound,
            post_call=self.queue,
            callbacks=self.book,
            make_line=lambda: Line(caller),
        )
        self.events = self.stage.of(events.CallbackRequested)

    @property
    def event(self) -> events.CallbackRequested:
        (event,) = self.events
        return event

    def _script(self, arguments: Mapping[str, Any], answer: str) -> Any:
        async def script(agent: FakeAgent) -> None:
            asked = asyncio.ensure_future(agent.ask("request_callback", dict(arguments)))
            await asyncio.sleep(8)
            if not asked.done():
                await agent.caller_says(2, answer)
                await asyncio.sleep(8)
                if not asked.done():
                    await agent.caller_says(3, answer)
            self.reply = await asked

        return script

    async def _hang_up(self, stage: CallStage) -> None:
        await asyncio.sleep(45)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")


def test_a_confirmed_request_is_kept_in_the_queue(tmp_path: Path) -> None:
    at = tomorrow()
    asked = Asked(tmp_path, {"at": f"{at:%Y-%m-%dT%H:%M}", "about": "The blue bicycle."})
    ((promise, variables),) = asked.book.promises
    assert (promise.number, promise.context, promise.at) == (OWN, "demo", at)
    assert variables == {"callback_about": "The blue bicycle."}
    assert (asked.event.outcome, asked.event.way) == ("noted", "queue")
    (question,) = [a.question for a in asked.stage.of(events.ToolApproval)]
    assert "plus 4 7 2, 2 3 3, 4 4 5 5" in question
    assert "12:30 PM" in question
    assert asked.queue.jobs == [], "the engine calls: nobody else has to"
    assert asked.reply is not None
    assert asked.reply.ok


def test_where_the_engine_may_not_call_the_request_is_posted(tmp_path: Path) -> None:
    at = tomorrow()
    asked = Asked(tmp_path, {"at": at.isoformat()}, outbound={}, deliver=[DELIVER])
    (job,) = asked.queue.jobs
    assert job.arguments == {"n": OWN, "at": at.isoformat(timespec="minutes")}
    assert (asked.event.outcome, asked.event.way) == ("noted", "post")
    assert not asked.book.promises


def test_a_queue_that_cannot_be_written_is_replaced_by_the_post(tmp_path: Path) -> None:
    asked = Asked(tmp_path, {"at": tomorrow().isoformat()}, broken=True, deliver=[DELIVER])
    assert asked.event.way == "post"
    assert len(asked.queue.jobs) == 1


def test_what_only_memory_keeps_is_noted_but_not_promised(tmp_path: Path) -> None:
    asked = Asked(tmp_path, {"at": TOMORROW}, outbound={}, deliver=[DELIVER], disk_works=False)
    assert (asked.event.outcome, asked.event.way) == ("noted", "memory")
    assert len(asked.queue.jobs) == 1
    assert asked.reply is not None
    assert (asked.reply.ok, asked.reply.message) == (True, CALLBACK_UNKEPT)


def test_what_cannot_be_kept_is_not_promised(tmp_path: Path) -> None:
    asked = Asked(tmp_path, {"at": tomorrow().isoformat()}, broken=True)
    assert asked.event.outcome == "failed"
    assert asked.reply is not None
    assert not asked.reply.ok


@pytest.mark.parametrize("answer", ["No.", "I am not sure."])
def test_without_a_yes_nothing_is_promised(tmp_path: Path, answer: str) -> None:
    asked = Asked(tmp_path, {"at": tomorrow().isoformat()}, answer=answer)
    assert (asked.event.outcome, asked.book.promises) == ("not_confirmed", [])


TOMORROW = tomorrow().isoformat()
REFUSED: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("no_number", {"at": TOMORROW}, {"caller": "anonymous"}),
    ("not_allowed", {"at": TOMORROW, "number": PREMIUM}, {"other_numbers": True}),
    ("not_allowed", {"at": TOMORROW, "number": "+12125550100"}, {"other_numbers": True}),
    ("do_not_call", {"at": TOMORROW}, {"caller": BLOCKED}),
    ("no_time", {"at": "tomorrow at noon"}, {}),
    ("no_time", {"at": "2020-01-01T12:00"}, {}),
    ("closed", {"at": TOMORROW}, {"hours": {**ALWAYS, "to": "12:00"}}),
    ("closed", {"at": (tomorrow() + datetime.timedelta(days=30)).isoformat()}, {}),
)


@pytest.mark.parametrize(("outcome", "arguments", "settings"), REFUSED)
def test_what_is_refused_is_not_even_asked(
    tmp_path: Path, outcome: str, arguments: dict[str, Any], settings: dict[str, Any]
) -> None:
    asked = Asked(tmp_path, arguments, **settings)
    assert (asked.event.outcome, asked.event.way) == (outcome, "")
    assert not asked.stage.of(events.ToolApproval)
    assert not asked.book.promises
    refusals = asked.stage.of(events.FirewallRefused)
    assert bool(refusals) == (outcome == "not_allowed")


def test_another_number_is_no_argument_unless_the_operator_allows_it(tmp_path: Path) -> None:
    asked = Asked(tmp_path, {"at": TOMORROW, "number": OTHER})
    assert asked.reply is not None
    assert asked.reply.refused == "arguments"
    assert not asked.events


def test_another_number_may_be_named_where_the_operator_allows_it(tmp_path: Path) -> None:
    asked = Asked(tmp_path, {"at": TOMORROW, "number": "22 00 00 01"}, other_numbers=True)
    assert [promise.number for promise, _ in asked.book.promises] == [OTHER]
