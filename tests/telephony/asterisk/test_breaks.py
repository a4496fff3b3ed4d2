"""Asterisk goes away, the connection to it breaks, or it refuses us; with a real Asterisk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from cordboard.calls.offer import TransferTarget
from cordboard.errors import TransferFailed
from cordboard.telephony.asterisk.way_back import OUTSIDE_SECONDS
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

SALES = TransferTarget("sales", "extension", "6001", "internal")


class Cable:
    """A TCP connection to Asterisk's HTTP port that can be pulled. Looks like the instance."""

    def __init__(self, asterisk: AsteriskInstance) -> None:
        self._asterisk = asterisk
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self.app = asterisk.app
        self.ari_user = asterisk.ari_user
        self.ari_password = asterisk.ari_password

    @property
    def ari_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def plug(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def pull(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def __aenter__(self) -> Cable:
        await self.plug()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pull()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._asterisk.http_port)
        self._writers |= {writer, there[1]}
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()
        self._writers.discard(sink)


async def test_a_call_goes_on_while_the_connection_is_broken(asterisk, open_board, bursts):
    async with (
        Cable(asterisk) as cable,
        open_board(cable) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        await cable.pull()
        await board.disconnected()
        assert board.source.state.last_error
        with pytest.raises(TransferFailed, match="not connected"):
            await echo.offer.control.transfer(SALES, lambda: None)
        call.say(bursts())
        await call.hear_speech()
        await cable.plug()
        await board.connected()
        assert board.source.state.last_error == ""
        call.say(bursts())
        await call.hear_speech()
        assert not echo.ended.done()
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_a_caller_whom_an_operator_kicks_out_of_the_bridge_is_back_soon(
    asterisk, open_board, bursts
):
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        call.say(bursts())
        await call.hear_speech()
        [line] = board.source.lines
        [channel] = [each for each in await asterisk.channels() if each.startswith("PJSIP/")]
        await asterisk.cli(f"bridge kick {line.bridge_id} {channel}")
        await call.hear_silence(int(OUTSIDE_SECONDS * 2_000))
        call.say(bursts())
        await call.hear_speech()
        assert not echo.ended.done()
        call.hangup()
        await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_a_caller_who_hung_up_during_the_break_is_noticed_after_it(asterisk, open_board):
    async with Cable(asterisk) as cable, open_board(cable) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        await cable.pull()
        await board.disconnected()
        call.hangup()
        await cable.plug()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_a_hangup_during_the_break_is_done_after_it(asterisk, open_board):
    async with Cable(asterisk) as cable, open_board(cable) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        await cable.pull()
        await board.disconnected()
        await echo.offer.control.hangup()
        await echo.offer.control.release()
        assert call.end is None
        await cable.plug()
        assert (await call.ended()).by == "them"
        await assert_line_clean(asterisk)
        assert board.exchange.calls == [echo], "it was not taken for a new caller"
        echo.ended.set_result("test over")
        await board.exchange.idle()


async def test_a_new_engine_serves_the_callers_that_the_old_one_left(
    asterisk, open_board, bursts, asked
):
    """The old one was killed: its bridge and media channel go, its caller is offered again."""
    async with SipPhone() as phone:
        async with Cable(asterisk) as cable, open_board(cable) as old:
            call = await phone.call(asterisk.sip_uri("agent"))
            echo = await old.exchange.next_up()
            [line] = old.source.lines
            await cable.pull()
            await old.disconnected()
            echo.ended.set_result("transferred")  # nothing is hung up
            await old.exchange.idle()
        assert call.end is None
        assert await asterisk.bridges() != []
        async with open_board(asterisk) as board:
            await board.exchange.next_up()
            assert len(await asterisk.bridges()) == 1
            left = asked.index(f"POST bridges/{line.bridge_id}/removeChannel {line.channel_id}")
            removed = len(asked) - 1 - asked[::-1].index(f"DELETE bridges/{line.bridge_id}")
            assert left < removed, "the caller may be left outside the next bridge otherwise"
            call.say(bursts())
            await call.hear_speech()
            call.hangup()
            await board.exchange.idle()
            await assert_line_clean(asterisk)


async def test_a_frozen_asterisk_is_noticed_and_cleared_up_when_it_thaws(asterisk, open_board):
    """Its kernel takes what we send for minutes; but nothing comes, and ARI does not answer."""
    async with (
        Cable(asterisk) as cable,
        open_board(cable, unreachable_seconds=0.5) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        os.kill(asterisk.pid, signal.SIGSTOP)
        try:
            await cable.pull()
            assert await asyncio.wait_for(echo.ended, PATIENCE) == "asterisk_lost"
            await board.exchange.idle()
        finally:
            os.kill(asterisk.pid, signal.SIGCONT)
        await cable.plug()
        assert (await call.ended()).by == "them"
        await assert_line_clean(asterisk)


async def test_a_wrong_password_is_named_and_not_ready(asterisk, open_board):
    async with open_board(asterisk, password="wrong-password", wait=False) as board:
        state = await board.failed()
        assert "password" in state.last_error
        assert "wrong-password" not in state.last_error
        assert (state.connected, board.source.ready) == (False, False)


async def test_a_second_client_on_our_application_is_noticed(asterisk, open_board):
    async with open_board(asterisk) as first, open_board(asterisk):
        await first.disconnected()
        assert "took over" in first.source.state.last_error


async def test_asterisk_is_killed_and_comes_back(open_board, bursts):
    async with (
        AsteriskInstance() as asterisk,
        SipPhone() as phone,
        open_board(asterisk, same_break_seconds=PATIENCE) as board,
    ):
        await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        await asterisk.kill()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "asterisk_lost"
        await board.exchange.idle()
        assert not board.source.ready
        assert board.server.connections == 0
        assert board.source.lines == ()
        await asterisk.start()
        await board.connected()
        call = await phone.call(asterisk.sip_uri("agent"))
        await board.exchange.next_up(2)
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
