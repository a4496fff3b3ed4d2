"""Browser calls through a real Asterisk: sound reaches an extension, and nothing is left behind.

The extension leads to an exchange without agents, where every call hears itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import orjson
import pytest
import pytest_asyncio

from cordboard.audio.format import ULAW_8K
from cordboard.calls.offer import CallTest
from cordboard.errors import LineError
from cordboard.telephony.browser.messages import HEADER, encode_sound
from cordboard.telephony.browser.source import BrowserCalls, Order
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

LOUD = bytes(range(80)) * 2
"""20 ms of u-law; silence is 0xFF."""


class Page:
    """A page's socket that speaks all the time, and plays at once what comes."""

    def __init__(self, board, extension, **order) -> None:
        self.browser = BrowserCalls(board.pacer, lambda offer, aside=None: None, board.source.dial)
        self.waiting_bytes = 0
        self.texts: list[dict[str, object]] = []
        self.heard = bytearray()
        self.closing: tuple[int, str] | None = None
        self._over, self._ready = asyncio.Event(), asyncio.Event()
        order = Order(
            owner="otto", context="desk", format="ulaw", extension=extension, number="4711", **order
        )
        self.call_id = self.browser.order(order)
        self.media = self.browser.connect(self.call_id, self)
        self._speaking = asyncio.create_task(self._speak())

    def send(self, frame: str | bytes) -> None:
        if isinstance(frame, str):
            self.texts.append(orjson.loads(frame))
            self._ready.set()
            return
        sound = frame[HEADER.size :]
        self.heard += sound
        ms = len(self.heard) / ULAW_8K.bytes_per_ms
        self.tell(type="played", flush=0, ms=ms, playing=False, queued_ms=0, underruns=0)

    def tell(self, **message: object) -> None:
        text = orjson.dumps(message).decode()
        asyncio.get_running_loop().call_soon(self.media.received, text)

    def close(self, code: int, reason: str) -> None:
        self.closing = self.closing or (code, reason)
        self._speaking.cancel()
        self._over.set()
        asyncio.get_running_loop().call_soon(self.media.gone)

    async def closed(self) -> None:
        await self._over.wait()

    def leave(self) -> None:
        """Close the tab."""
        self._speaking.cancel()
        self._over.set()
        self.media.gone()

    @property
    def hears_itself(self) -> bool:
        return len(self.heard.strip(b"\xff\x7f")) > 4_000

    async def over(self) -> None:
        """Until nothing of the call is left in the engine."""
        await until(lambda: len(self.browser) == 0)

    async def _speak(self) -> None:
        seq = 0
        await self._ready.wait()
        while True:
            self.media.received(encode_sound(seq, seq * 20, LOUD))
            seq += 1
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture(loop_scope="session")
async def board(asterisk, open_board):
    async with open_board(asterisk) as made:
        yield made
    await assert_line_clean(asterisk)


async def test_sound_and_keys_go_through_the_dialplan_and_the_page_hangs_up(asterisk, board):
    page = Page(board, "early@from-test", variables={"AI_PROVIDER": "ignored"})
    call = await board.exchange.next_up()
    offer = call.offer
    assert offer.test == CallTest(), "left out of statistics"
    assert (offer.source, offer.call_id) == ("asterisk", page.call_id)
    assert offer.caller_number == "4711"
    assert offer.variables["AI_CONTEXT"] == "sales", "the dialplan decides"
    await until(lambda: page.hears_itself)
    page.tell(type="key", digit="4")
    page.tell(type="key", digit="#")
    await asyncio.wait_for(call.two_keys.wait(), 60)
    assert call.keys == "4#"
    page.tell(type="hangup")
    assert await asyncio.wait_for(call.ended, 60) == "caller_hangup"
    await page.over()
    await board.exchange.idle()
    assert board.source.lines == ()
    assert page.closing == (1000, "caller_hangup")
    await assert_line_clean(asterisk)


async def test_the_agent_hangs_up(asterisk, board):
    page = Page(board, "agent@from-test")
    call = await board.exchange.next_up()
    assert call.offer.variables["AI_CONTEXT"] == "desk", "unless the dialplan says otherwise"
    await until(lambda: page.hears_itself)
    await call.offer.control.hangup()
    await page.over()
    assert page.texts[-1] == {"type": "ended", "reason": "hangup"}
    await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_the_tab_is_closed(asterisk, board):
    page = Page(board, "agent@from-test")
    call = await board.exchange.next_up()
    page.leave()
    assert await asyncio.wait_for(call.ended, 60) == "caller_hangup"
    await page.over()
    await board.exchange.idle()
    await assert_line_clean(asterisk)


async def test_the_tab_is_closed_while_it_rings(asterisk, board):
    board.exchange.answering = False
    page = Page(board, "agent@from-test")
    call = await board.exchange.next()
    assert page.texts == [], "it is not in the call yet"
    page.leave()
    await page.over()
    await call.offer.control.release()
    await until(lambda: board.source.lines == ())
    await assert_line_clean(asterisk)


async def test_an_extension_that_does_not_exist_does_not_answer(asterisk, board):
    page = Page(board, "nobody@from-test")
    await page.over()
    assert page.texts[-1] == {"type": "ended", "reason": "unanswered"}
    assert board.source.lines == ()
    await assert_line_clean(asterisk)


async def test_the_source_stops_under_a_relay(asterisk, open_board):
    async with open_board(asterisk) as board:
        page = Page(board, "agent@from-test")
        await board.exchange.next_up()
        await page.browser.close()
        await page.over()
        await board.exchange.idle()
        with pytest.raises(LineError):
            await board.source.dial(_nowhere())
    await assert_line_clean(asterisk)


def _nowhere():
    from cordboard.telephony.dialled import Dialled

    return Dialled("", "nobody@from-test", "", "", Counter())
