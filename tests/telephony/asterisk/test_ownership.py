"""Whose a caller is: another ARI client moves channels to us and away; with a real Asterisk.

After a move the dialplan's data of a channel still name the application it was in before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from cordboard.config.schema import Asterisk
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

from .test_breaks import Cable

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]


class Elsewhere:
    """Another application of the same Asterisk, which takes callers and passes them on."""

    def __init__(self, asterisk: AsteriskInstance) -> None:
        self._started: asyncio.Queue[str] = asyncio.Queue()
        self._connected = asyncio.Event()
        self._client = AriClient(
            Asterisk(
                url=asterisk.ari_url, password=SecretStr(asterisk.ari_password), app="elsewhere"
            ),
            self._handle,
            self._up,
            lambda: None,
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Elsewhere]:
        running = asyncio.create_task(self._client.run())
        try:
            await asyncio.wait_for(self._connected.wait(), PATIENCE)
            yield self
        finally:
            running.cancel()
            await asyncio.wait((running,))

    async def caller(self) -> str:
        """The channel of the next caller who is here."""
        return await asyncio.wait_for(self._started.get(), PATIENCE)

    async def move(self, channel: str, app: str) -> None:
        await self._client.request("POST", f"channels/{channel}/move", app=app)

    async def hang_up(self, channel: str) -> None:
        await self._client.request("DELETE", f"channels/{channel}")

    async def _up(self) -> None:
        self._connected.set()

    def _handle(self, event: Event) -> None:
        if event.type == "StasisStart" and event.channel is not None:
            self._started.put_nowait(event.channel.id)


async def test_a_caller_who_is_moved_to_us_is_served_and_stays_after_a_break(
    asterisk, open_board, bursts
):
    async with (
        Elsewhere(asterisk).open() as elsewhere,
        Cable(asterisk) as cable,
        open_board(cable) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(asterisk.sip_uri("elsewhere"))
        await elsewhere.move(await elsewhere.caller(), "cordboard")
        echo = await board.exchange.next_up()
        await cable.pull()
        await board.disconnected()
        await cable.plug()
        await board.connected()
        await asyncio.wait_for(board.source.wait_ready(PATIENCE), PATIENCE)
        assert not echo.ended.done(), "the caller is still with us"
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        assert len(board.exchange.calls) == 1
    await assert_line_clean(asterisk)


async def test_a_caller_who_was_moved_to_an_engine_that_died_is_adopted_by_the_next(
    asterisk, open_board
):
    async with Elsewhere(asterisk).open() as elsewhere, SipPhone() as phone:
        async with Cable(asterisk) as cable, open_board(cable) as old:
            call = await phone.call(asterisk.sip_uri("elsewhere"))
            await elsewhere.move(await elsewhere.caller(), "cordboard")
            echo = await old.exchange.next_up()
            await cable.pull()
            await old.disconnected()
            echo.ended.set_result("transferred")  # nothing is hung up
            await old.exchange.idle()
        async with open_board(asterisk) as board:
            await board.exchange.next_up()
            call.hangup()
            await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_a_caller_who_was_moved_away_during_a_break_is_no_longer_ours(asterisk, open_board):
    async with (
        Elsewhere(asterisk).open() as elsewhere,
        Cable(asterisk) as cable,
        open_board(cable) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        [line] = board.source.lines
        await cable.pull()
        await board.disconnected()
        await elsewhere.move(line.channel_id, "elsewhere")
        channel = await elsewhere.caller()
        await cable.plug()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "transferred"
        await board.exchange.idle()
        async with open_board(asterisk) as next_one:
            assert next_one.exchange.calls == [], "the caller is the other application's"
        assert call.end is None, "and was not hung up"
        await elsewhere.hang_up(channel)
        await call.ended()
    await assert_line_clean(asterisk)
