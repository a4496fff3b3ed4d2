"""Several engines behind one number: a real Asterisk's dialplan chooses among them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cordboard.telephony.asterisk.dialplan import dialplan
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

from .conftest import Board, OpenBoard

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

LABELLED = """
[from-test-extra]
include => from-internal
exten => gpu,1,Set(CORDBOARD_LABEL=gpu)
 same => n,Goto(cordboard-demo,s,1)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def exchange() -> AsyncIterator[AsteriskInstance]:
    """An Asterisk with the dialplan of several engines."""
    lines = dialplan(["demo"], {"700": "demo"}, shared=True)
    async with AsteriskInstance(dialplan=LABELLED + lines) as instance:
        yield instance


@contextlib.asynccontextmanager
async def two_engines(exchange: AsteriskInstance, open_board: OpenBoard) -> AsyncIterator[Engines]:
    async with (
        open_board(exchange, instance="a7-000001") as first,
        open_board(exchange, instance="b3-000002") as second,
    ):
        engines = Engines(exchange, first, second)
        first.source.shared.publish_engines(["a7-000001", "b3-000002"])
        yield engines
    await assert_line_clean(exchange)


class Engines:
    """Two engines and their room."""

    def __init__(self, exchange: AsteriskInstance, first: Board, second: Board) -> None:
        self.exchange = exchange
        self.first = first
        self.second = second

    async def room(self, first: int, second: int, *labels: str) -> None:
        """Publish the room of both; `labels` are the second one's."""
        self.first.source.shared.publish_room(first)
        self.second.source.shared.publish_room(second, labels)
        await self.settle()

    async def settle(self) -> None:
        for board in (self.first, self.second):
            await board.source.shared.placement.settle()

    async def calls(self, number: str = "700") -> tuple[int, int]:
        """Place a call; return how many calls each engine has had so far."""
        async with SipPhone() as phone:
            call = await phone.call(self.exchange.sip_uri(number))
            await call.answered()
            call.hangup()
            for board in (self.first, self.second):
                await board.exchange.idle()
        return len(self.first.exchange.calls), len(self.second.exchange.calls)


async def test_the_engine_with_most_room_gets_the_caller(exchange, open_board):
    async with two_engines(exchange, open_board) as engines:
        await engines.room(2, 5)
        assert await engines.calls() == (0, 1)
        await engines.room(12, 5)
        assert await engines.calls() == (1, 1)
        await engines.room(0, 1)
        assert await engines.calls() == (1, 2), "a full one gets nothing"
        offer = engines.second.exchange.calls[-1].offer
        assert (offer.variables["AI_CONTEXT"], offer.called_number) == ("demo", "700")


async def test_a_context_that_needs_a_label_goes_where_it_is(exchange, open_board):
    async with two_engines(exchange, open_board) as engines:
        await engines.room(50, 1, "eu", "gpu")
        assert await engines.calls("gpu") == (0, 1)
        assert await engines.calls() == (1, 1)


async def test_an_engine_that_is_gone_or_refuses_costs_the_caller_nothing(exchange, open_board):
    async with two_engines(exchange, open_board) as engines:
        shared = engines.first.source.shared
        shared.publish_engines(["a7-000001", "b3-000002", "dead-000003"])
        shared.placement.room("cordboard-dead-000003", 99)
        await engines.room(9, 3)
        assert await engines.calls() == (1, 0)
        engines.first.exchange.answering = False

        async def refuse() -> None:
            offered = await engines.first.exchange.next(2)
            await offered.offer.control.decline("busy")
            await offered.offer.control.release()

        refusing = asyncio.create_task(refuse())
        assert await engines.calls() == (2, 1)
        await refusing
        shared.withdraw("dead-000003")
        await engines.settle()
        assert "CORDBOARD_ROOM_cordboard-dead-000003=99" not in await exchange.cli(
            "dialplan show globals"
        )


@pytest.mark.parametrize("room", [0, 4])
async def test_without_an_engine_the_dialplan_tells_the_caller(exchange, open_board, room):
    """The engines are full, or one of them has stopped."""
    async with two_engines(exchange, open_board) as engines:
        await engines.room(0, room)
        if room:
            await engines.second.source.stop()
        async with SipPhone() as phone:
            call = await phone.call(exchange.sip_uri("700"))
            await call.answered()
            await call.hear_speech()
            call.hangup()
        assert engines.first.exchange.calls == engines.second.exchange.calls == []


async def test_engines_that_write_at_once_agree_in_the_end(exchange, open_board):
    async with two_engines(exchange, open_board) as engines:
        for number in range(30):
            names = ["a7-000001", "b3-000002"] if number % 2 else ["b3-000002"]
            for board in (engines.first, engines.second):
                board.source.shared.publish_engines(names)
                board.source.shared.publish_room(number + 1)
            await asyncio.sleep(0)
        for board in (engines.second, engines.first):
            board.source.shared.publish_engines(["b3-000002", "a7-000001"])
        await engines.settle()
        globals_ = await exchange.cli("dialplan show globals")
        assert "CORDBOARD_ENGINES_cordboard=cordboard-a7-000001,cordboard-b3-000002\n" in globals_
        assert "CORDBOARD_ROOM_cordboard-a7-000001=30|,," in globals_
        assert "CORDBOARD_ROOM_cordboard-b3-000002=30|,," in globals_


async def test_a_restarted_asterisk_learns_of_the_engines_again(open_board):
    lines = dialplan(["demo"], {"700": "demo"}, shared=True)
    async with (
        AsteriskInstance(dialplan=LABELLED + lines) as exchange,
        two_engines(exchange, open_board) as engines,
    ):
        await engines.room(2, 5)
        await exchange.kill()
        await engines.first.disconnected()
        await engines.second.disconnected()
        await exchange.start()
        for board in (engines.first, engines.second):
            assert await board.source.wait_ready(PATIENCE)
        await engines.settle()
        assert await engines.calls() == (0, 1)
