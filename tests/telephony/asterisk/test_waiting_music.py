"""Hold music in place of the agent, in a real Asterisk, at a real phone."""

from __future__ import annotations

import pytest

from cordboard.calls.offer import RINGBACK
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("music", ["default", RINGBACK])
async def test_the_caller_hears_music_in_place_of_the_agent(asterisk, open_board, bursts, music):
    """The exchange echoes: it speaks as long as the caller does, and hears them under music."""
    async with open_board(asterisk) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next_up()
        control = echo.offer.control
        await call.hear_silence()
        await control.music(music)
        await call.hear_speech()
        if music != RINGBACK:
            heard = len(echo.heard)
            call.say(bursts())
            await until(lambda: any(echo.heard[heard:]))
        await control.music("")
        await call.hear_silence()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await board.exchange.idle()
        await assert_line_clean(asterisk)
