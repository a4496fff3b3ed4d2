"""The ARI user of one instance of an engine, in a real Asterisk."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from cordboard.config.schema import Asterisk
from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import brief_connection
from cordboard.telephony.asterisk.instance import Instance, revoke
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

DIALPLAN = """[from-test-extra]
exten => a7,1,Stasis(cordboard-a7-3f2a1c)
 same => n,Hangup()
"""


def section(asterisk: AsteriskInstance) -> Asterisk:
    return Asterisk(
        url=asterisk.ari_url,
        username=asterisk.ari_user,
        password=SecretStr(asterisk.ari_password),
        app=asterisk.app,
    )


async def test_the_user_of_an_instance_lets_it_in_until_it_is_revoked(asterisk):
    own = Instance(section(asterisk), "a7-3f2a1c")
    assert own.config.username == own.config.app == own.app == "cordboard-a7-3f2a1c"
    assert await own.make()
    assert not await own.make(), "this Asterisk has it already"
    async with brief_connection(own.config, "test") as ari:
        assert "timestamp" in await ari.request("GET", "asterisk/ping")
        entry = await ari.request("GET", f"asterisk/config/dynamic/res_ari/user/{own.app}")
        fields = {field["attribute"]: field["value"] for field in entry}
        assert fields["password"].startswith("$6$rounds=1000$"), "others can read it"
        await revoke(section(asterisk), "a7-3f2a1c")
        with pytest.raises(AsteriskError, match="401") as refused:
            await ari.request("GET", "asterisk/ping")
        assert refused.value.status == 401
    await revoke(section(asterisk), "a7-3f2a1c")  # one that is gone is fine
    with pytest.raises(AsteriskError, match="refuses ARI user"):
        async with brief_connection(own.config, "test"):
            pass


async def test_an_asterisk_that_cannot_keep_users_is_named_with_the_lines_that_it_needs(open_board):
    async with AsteriskInstance(files={"sorcery.conf": ""}) as asterisk:
        with pytest.raises(AsteriskError, match=r"(?s)sorcery\.conf.*user = memory"):
            await Instance(section(asterisk), "a7-3f2a1c").make()
        async with open_board(asterisk, instance="a7-3f2a1c", wait=False) as board:
            state = await board.failed()
            assert "sorcery.conf" in state.last_error
            assert not board.source.ready


async def test_an_engine_leaves_no_user_behind_and_comes_back_to_a_restarted_asterisk(
    open_board, bursts
):
    async with AsteriskInstance(dialplan=DIALPLAN) as asterisk, SipPhone() as phone:
        fenced: list[bool] = []
        async with open_board(
            asterisk, instance="a7-3f2a1c", on_fenced=lambda: fenced.append(True)
        ) as board:
            assert "cordboard-a7-3f2a1c" in await asterisk.cli("ari show users")
            await asterisk.kill()
            await board.disconnected()
            await asterisk.start()
            await board.connected()
            assert not fenced, "the user was gone because Asterisk was"
            call = await phone.call(asterisk.sip_uri("a7"))
            await board.exchange.next_up()
            call.say(bursts())
            await call.hear_speech()
            call.hangup()
            await board.exchange.idle()
            await assert_line_clean(asterisk)
        assert "cordboard-a7" not in await asterisk.cli("ari show users")


async def test_an_engine_whose_user_is_gone_after_a_break_knows_that_it_was_replaced(
    asterisk, open_board
):
    fenced: list[bool] = []
    async with open_board(
        asterisk, instance="a7-3f2a1c", on_fenced=lambda: fenced.append(True)
    ) as board:
        assert await board.source.wait_ready(60)  # else a request of its start is refused
        await revoke(section(asterisk), "a7-3f2a1c")
        sessions = await asterisk.cli("ari show websocket sessions")
        session = next(row.split()[0] for row in sessions.splitlines() if "cordboard-a7" in row)
        await asterisk.cli(f"ari shutdown websocket session {session}")
        await until(lambda: bool(fenced))
        await board.disconnected()
        assert fenced == [True]
        assert "replaced" in board.source.state.last_error
