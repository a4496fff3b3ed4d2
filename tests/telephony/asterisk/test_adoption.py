"""Calls that outlive their engine: killed, stopped and woken, replaced; with a real Asterisk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from pydantic import SecretStr

from cordboard.calls.offer import RINGBACK, TransferTarget
from cordboard.calls.outbound_order import OutboundOrder
from cordboard.config.schema import Asterisk
from cordboard.errors import (
    AsteriskError,
    CallerEngaged,
    CallerStays,
    LineError,
    LineGone,
    LineUnsupported,
    MediaError,
)
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.telephony.asterisk.control import AsteriskLine
from cordboard.telephony.asterisk.instance import revoke
from cordboard.telephony.asterisk.shared import KeptCall, SharedAsterisk
from cordboard.telephony.asterisk.way_back import OUTSIDE_SECONDS
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone

from .test_breaks import Cable

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

PROGRAM = Path(__file__).with_name("talking_engine.py")
FIRST, SECOND, THIRD = "a7-000001", "b3-000002", "c5-000003"
DIALPLAN = f"""[from-test-extra]
exten => first,1,Stasis(cordboard-{FIRST})
 same => n,Hangup()
exten => second,1,Stasis(cordboard-{SECOND})
 same => n,Hangup()
exten => elsewhere,1,Stasis(elsewhere)
 same => n,Hangup()
[queues]
exten => support,1,Wait(0.1)
 same => n,GotoIf($["${{GLOBAL(NO_COLLEAGUE)}}" = "yes"]?:support,1)
 same => n,Stasis(${{CORDBOARD_APP}},return,queue,TIMEOUT)
 same => n,GotoIf($["${{STASISSTATUS}}" != "FAILED"]?done)
 same => n,Stasis(cordboard-{SECOND})
 same => n(done),Hangup()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared() -> AsyncIterator[AsteriskInstance]:
    """An Asterisk that two engines share."""
    async with AsteriskInstance(dialplan=DIALPLAN) as instance:
        yield instance


def section(asterisk: AsteriskInstance) -> Asterisk:
    return Asterisk(url=asterisk.ari_url, password=SecretStr(asterisk.ari_password))


class Engine:
    """The engine of another process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def told(self, event: str) -> dict[str, Any]:
        """Wait for an event; those before it are skipped."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self.process.stdout.readline():
                facts: dict[str, Any] = json.loads(line)
                if facts["event"] == event:
                    return facts
        raise AssertionError(f"it has ended before {event!r}")

    async def kept(self, instance: str = FIRST) -> KeptCall:
        """The record of its next call."""
        talking = await self.told("talking")
        return KeptCall(
            talking["call_id"],
            instance,
            talking["channel"],
            caller_number=talking["caller"],
            called_number="700",
            variables={"AI_CONTEXT": "sales"},
        )

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@contextlib.asynccontextmanager
async def other_engine(
    asterisk: AsteriskInstance, media: str = "audiosocket"
) -> AsyncIterator[Engine]:
    """The first engine, in another process."""
    settings = {
        "url": asterisk.ari_url,
        "password": asterisk.ari_password,
        "instance": FIRST,
        "media": media,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), json.dumps(settings), stdout=asyncio.subprocess.PIPE
    )
    engine = Engine(process)
    try:
        await engine.told("ready")
        yield engine
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            await engine.kill()
        await revoke(section(asterisk), FIRST)


async def eventually(look: Callable[[], Awaitable[object]]) -> None:
    """Look until there is something."""
    deadline = time.monotonic() + PATIENCE
    while not await look():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def nothing_left_of(asterisk: AsteriskInstance, instance: str) -> None:
    """Wait until Asterisk has no channel, bridge or user of an instance."""

    async def nothing() -> bool:
        channels = await asterisk.cli("core show channels concise")
        bridges = await asterisk.cli("bridge show all")
        return f"cordboard-cordboard-{instance}" not in channels + bridges

    await eventually(nothing)
    assert instance not in await asterisk.cli("ari show users")


@pytest.mark.parametrize("media", ["audiosocket", "rtp", "websocket"])
async def test_the_caller_of_a_killed_engine_talks_with_another(shared, open_board, bursts, media):
    async with (
        other_engine(shared, media) as killed,
        open_board(shared, instance=SECOND) as board,
        SipPhone("4711") as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        kept = await killed.kept()
        await call.hear_speech()
        await killed.kill()
        died = time.monotonic()
        await revoke(section(shared), FIRST)
        await board.source.adopt(kept, complete=lambda offer: replace(offer, external_id="again"))
        echo = await board.exchange.next_up()
        offer = echo.offer
        assert (offer.call_id, offer.external_id) == (kept.call_id, "again")
        assert (offer.caller_number, offer.called_number) == ("4711", "700")
        assert offer.variables == {"AI_CONTEXT": "sales"}
        await call.hear_silence(200)
        call.say(bursts())
        await call.hear_speech(after=died + 0.2)
        await nothing_left_of(shared, FIRST)
        assert len(await shared.bridges()) == 1
        call.press("4#")
        await asyncio.wait_for(echo.two_keys.wait(), PATIENCE)
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await board.exchange.idle()
        assert board.source.lines == ()
    await assert_line_clean(shared)


async def test_a_stopped_engine_that_wakes_can_do_nothing(shared, open_board, bursts):
    """Two callers talk with it, a third one came while it was stopped and still rings."""
    async with (
        other_engine(shared) as stopped,
        open_board(shared, instance=SECOND) as board,
        SipPhone() as phone,
    ):
        calls = [await phone.call(shared.sip_uri("first"))]
        kept = [await stopped.kept()]
        calls.append(await phone.call(shared.sip_uri("first")))
        kept.append(await stopped.kept())
        for call in calls:
            await call.hear_speech()
        stopped.process.send_signal(signal.SIGSTOP)
        late = await phone.call(shared.sip_uri("first"))
        await revoke(section(shared), FIRST)
        for each in kept:
            await board.source.adopt(each)
        known = [each.channel_id for each in kept]
        await eventually(lambda: board.source.shared.take_waiting(FIRST, known))
        await late.answered()
        fresh = (await board.exchange.next(3)).offer
        assert fresh.call_id not in [each.call_id for each in kept]
        assert fresh.called_number == "first"
        stopped.process.send_signal(signal.SIGCONT)
        await stopped.told("fenced")
        for _ in calls:
            assert (await stopped.told("ended"))["reason"] == "fenced"
        assert await asyncio.wait_for(stopped.process.wait(), PATIENCE) == 0
        board.source.shared.clear(FIRST)
        await nothing_left_of(shared, FIRST)
        for call in (*calls, late):
            assert call.end is None, "it was not hung up"
            await call.hear_silence(200)
            call.say(bursts())
            await call.hear_speech()
            call.hangup()
        await board.exchange.idle()
    await assert_line_clean(shared)


@pytest.mark.parametrize("media", ["audiosocket", "rtp"])
async def test_a_caller_who_has_hung_up_is_not_adopted_and_nothing_is_left(
    shared, open_board, media
):
    async with (
        other_engine(shared, media) as killed,
        open_board(shared, instance=SECOND) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        kept = await killed.kept()
        await killed.kill()
        call.hangup()

        async def gone() -> bool:
            return not any(name.startswith("PJSIP") for name in await shared.channels())

        await eventually(gone)
        assert await shared.bridges() != []
        await revoke(section(shared), FIRST)
        with pytest.raises(LineGone):
            await board.source.adopt(kept)
        await assert_line_clean(shared)
        assert board.source.lines == ()
        assert board.exchange.calls == []


async def test_the_second_who_adopts_finds_the_caller_taken(shared, open_board, bursts):
    async with (
        other_engine(shared) as killed,
        open_board(shared, instance=SECOND) as board,
        open_board(shared, instance=THIRD) as late,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        kept = await killed.kept()
        await killed.kill()
        await revoke(section(shared), FIRST)
        await board.source.adopt(kept)
        with pytest.raises(LineGone, match="no longer with that engine"):
            await late.source.adopt(kept)
        await board.exchange.next_up()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await board.exchange.idle()
        assert late.exchange.calls == []
    await assert_line_clean(shared)


@pytest.mark.parametrize("music", ["default", RINGBACK])
async def test_music_of_the_old_engine_ends(shared, open_board, bursts, music):
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        [line] = board.source.lines
        await echo.offer.control.music(music)
        await call.hear_speech()
        await other.source.adopt(KeptCall(echo.offer.call_id, FIRST, line.channel_id))
        await other.exchange.next_up()
        await call.hear_silence(1_500)
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
        await board.exchange.idle()
    await assert_line_clean(shared)


async def test_the_caller_leaves_the_old_bridge_before_its_engine_removes_it(
    shared, open_board, monkeypatch
):
    """Asterisk leaves a caller outside for good who enters a bridge while theirs is removed."""
    told = []
    handle = AsteriskLine.handle

    def handled(line: AsteriskLine, event: Event, channel_id: str) -> None:
        if line.bridge_id.startswith(f"cordboard-cordboard-{FIRST}-") and (
            channel_id == line.channel_id
        ):
            told.append(event.type)
        handle(line, event, channel_id)

    monkeypatch.setattr(AsteriskLine, "handle", handled)
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        [line] = board.source.lines
        await other.source.adopt(KeptCall(echo.offer.call_id, FIRST, line.channel_id))
        await other.exchange.next_up()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "handed_over"
        assert told.index("ChannelLeftBridge") < told.index("StasisEnd")
        call.hangup()
        await other.exchange.idle()
        await board.exchange.idle()
    await assert_line_clean(shared)


async def test_a_caller_who_talks_with_a_human_is_left_to_them(shared, open_board, bursts):
    target = TransferTarget("sales", "extension", "6001", "", endpoint="PJSIP/phone-6001")
    async with (
        SipPhone() as phone,
        SipPhone("human", answers=False) as human,
        open_board(shared, instance=SECOND) as other,
    ):
        await shared.connect_phone("6001", human.address)
        async with Cable(shared) as cable, open_board(cable, instance=FIRST) as board:
            call = await phone.call(shared.sip_uri("first"))
            echo = await board.exchange.next_up()
            kept = board.source.shared.record(echo.offer)
            leg = echo.offer.control.consult(target, lambda _: None)
            await leg.hold()
            await leg.dial()
            there = await human.incoming()
            there.answer()
            await there.answered()
            await leg.join()
            await cable.pull()
            await board.disconnected()
            echo.ended.set_result("test over")  # nothing is hung up
            await board.exchange.idle()
        await revoke(section(shared), FIRST)
        with pytest.raises(CallerEngaged):
            await other.source.adopt(kept)
        call.say(bursts())
        await there.hear_speech()
        there.hangup()

        async def adopted() -> bool:
            with contextlib.suppress(CallerEngaged):
                await other.source.adopt(kept)
                return True
            return False

        await eventually(adopted)
        await other.exchange.next_up()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
    await assert_line_clean(shared)


async def test_a_caller_in_a_queue_comes_back_to_another_engine(shared, open_board, bursts):
    """The dead engine's application still watches the channel: it is the other's all the same."""
    target = TransferTarget("support", "queue", "support", "queues", away_seconds=60)
    left = asyncio.Event()
    async with (
        SipPhone() as phone,
        Cable(shared) as to_other,
        open_board(to_other, instance=SECOND) as other,
    ):
        async with Cable(shared) as cable, open_board(cable, instance=FIRST) as board:
            call = await phone.call(shared.sip_uri("first"))
            echo = await board.exchange.next_up()
            kept = board.source.shared.record(echo.offer)
            away = asyncio.create_task(echo.offer.control.transfer(target, left.set))
            await asyncio.wait_for(left.wait(), PATIENCE)
            await cable.pull()
            await board.disconnected()
            away.cancel()
            echo.ended.set_result("test over")  # nothing is hung up
            await board.exchange.idle()
        await revoke(section(shared), FIRST)
        with pytest.raises(CallerEngaged):
            await other.source.adopt(kept)
        assert await other.source.shared.take_waiting(FIRST, ()) == 0
        await shared.set_global("NO_COLLEAGUE", "yes")  # it gives up waiting only now
        offer = (await other.exchange.next_up()).offer
        assert offer.call_id != kept.call_id
        await to_other.pull()
        await other.disconnected()
        await to_other.plug()
        await other.connected()
        assert await other.source.wait_ready(PATIENCE)
        call.say(bursts())
        await call.hear_speech()
        assert not other.exchange.calls[0].ended.done()
        call.hangup()
        await other.exchange.idle()
        other.source.shared.clear(FIRST)
        await assert_line_clean(shared)


@pytest.mark.parametrize("answered", [True, False])
async def test_an_outbound_call_is_adopted_once_it_is_answered(
    shared, open_board, bursts, answered
):
    order = OutboundOrder(str(uuid4()), "+4722000000", "demo", "PJSIP/phone-6001")
    async with (
        SipPhone("6001", answers=False) as phone,
        open_board(shared, instance=SECOND) as other,
    ):
        await shared.connect_phone("6001", phone.address)
        async with Cable(shared) as cable, open_board(cable, instance=FIRST) as board:
            board.exchange.answering = False
            board.source.place(order, lambda _: None)
            offer = (await board.exchange.next()).offer
            kept = board.source.shared.record(offer)
            media = await offer.media()
            dialling = asyncio.create_task(offer.outbound.dial())
            call = await phone.incoming()
            if answered:
                call.answer()
                await dialling
            await cable.pull()
            await board.disconnected()
            await media.close()
            await offer.control.release()
            dialling.cancel()
            await asyncio.wait((dialling,))
        await revoke(section(shared), FIRST)
        if answered:
            await other.source.adopt(kept)
            offer = (await other.exchange.next_up()).offer
            assert (offer.call_id, offer.caller_number) == (order.call_id, order.number)
            call.say(bursts())
            await call.hear_speech()
            assert len(await shared.channels()) == 2, "the phone, and our media"
            call.hangup()
            await other.exchange.idle()
        else:
            with pytest.raises(LineGone, match="not answered"):
                await other.source.adopt(kept)
            await call.ended()
        await assert_line_clean(shared)


async def test_a_call_is_handed_over_between_living_engines(shared, open_board, bursts):
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        kept = board.source.shared.record(echo.offer)
        assert (kept.call_id, kept.instance) == (echo.offer.call_id, FIRST)
        await other.source.adopt(kept)
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "handed_over"
        offer = (await other.exchange.next_up()).offer
        assert (offer.caller_number, offer.called_number) == (echo.offer.caller_number, "first")
        assert other.source.shared.record(offer) == replace(kept, instance=SECOND)
        await board.exchange.idle()
        assert board.source.lines == ()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
        assert board.source.ready
    await assert_line_clean(shared)


async def test_a_caller_stays_until_the_next_engine_is_ready(shared, open_board, bursts, asked):
    """The first attempt is given up before its media open, the second when all but the caller is
    there: they have not noticed. The third takes them, into a bridge that waits for them."""
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        other.exchange.answering = False
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        kept = board.source.shared.record(echo.offer)
        await other.source.adopt(kept, at_once=False)
        [given_up] = other.exchange.calls
        await given_up.offer.control.hangup()
        await given_up.offer.control.release()
        assert other.source.lines == ()

        async def refuses() -> None:
            raise CallerStays("they speak again")

        await other.source.adopt(kept, at_once=False, agree=refuses)
        refused = other.exchange.calls[1].offer
        with pytest.raises(CallerStays):
            await refused.media()
        await refused.control.hangup()
        await refused.control.release()
        assert other.source.lines == ()

        in_bridges: list[str] = []

        async def agrees() -> None:
            assert not echo.ended.done()
            lines = (await shared.cli("bridge show all")).splitlines()[1:]
            in_bridges.extend(sorted(line.split()[2] for line in lines if line.strip()))

        await other.source.adopt(kept, at_once=False, agree=agrees)
        asked.clear()
        call.say(bursts())
        await call.hear_speech()
        await call.hear_silence()
        assert not echo.ended.done()
        taken = other.exchange.calls[2]
        media = await taken.offer.media()
        assert in_bridges == ["1", "2"], "the media wait for the caller"
        new = f"bridges/{other.source.lines[0].bridge_id}/addChannel"
        entered = asked.index(f"POST {new} {kept.channel_id}")
        moved = asked.index(f"POST channels/{kept.channel_id}/move")
        assert entered < moved, "they hear the one engine until they hear the other"
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "handed_over"
        await board.exchange.idle()
        media.write(bursts().astype("<i2").tobytes())
        await call.hear_speech()
        await taken.offer.control.hangup()
        assert (await call.ended()).by == "them"
        await media.close()
        await taken.offer.control.release()
    await assert_line_clean(shared)


async def test_a_caller_who_is_transferred_to_another_engine_is_a_new_call_there(
    shared, open_board
):
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        target = TransferTarget("second", "extension", "second", "from-test-extra")
        assert await echo.offer.control.transfer(target, lambda: None) is None
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "transferred"
        again = await other.exchange.next_up()
        assert again.offer.call_id != echo.offer.call_id
        call.hangup()
        await other.exchange.idle()
    await assert_line_clean(shared)


async def test_a_caller_whom_the_dialplan_sends_meanwhile_gets_a_call_of_their_own(
    shared, open_board, bursts
):
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        other.exchange.answering = False
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        await other.source.adopt(board.source.shared.record(echo.offer), at_once=False)
        [waiting] = other.exchange.calls
        other.exchange.answering = True
        target = TransferTarget("second", "extension", "second", "from-test-extra")
        await echo.offer.control.transfer(target, lambda: None)
        again = await other.exchange.next_up(2)
        assert again.offer.call_id != waiting.offer.call_id
        await waiting.offer.control.release()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
    await assert_line_clean(shared)


@pytest.mark.parametrize("fails", ["caller gone", "not connected"])
async def test_a_caller_who_cannot_be_taken_when_it_is_time(shared, open_board, fails):
    async with (
        open_board(shared, instance=FIRST) as board,
        Cable(shared) as cable,
        open_board(cable, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        other.exchange.answering = False
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        await other.source.adopt(board.source.shared.record(echo.offer), at_once=False)
        [waiting] = other.exchange.calls
        if fails == "caller gone":
            call.hangup()
            await board.exchange.idle()
        else:
            await cable.pull()
            await other.disconnected()
        with pytest.raises(LineGone if fails == "caller gone" else MediaError):
            await waiting.offer.media()
        await waiting.offer.control.hangup()
        await waiting.offer.control.release()
        assert other.source.lines == ()
        if fails == "not connected":
            assert not echo.ended.done()
            call.hangup()
            await board.exchange.idle()
        await assert_line_clean(shared)


async def test_a_caller_who_could_only_enter_the_next_bridge_is_back_soon(
    shared, open_board, bursts, monkeypatch
):
    async def refuses(shared: SharedAsterisk, channel_id: str) -> None:
        raise AsteriskError("it has no such application", 409)

    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        other.exchange.answering = False
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        await other.source.adopt(board.source.shared.record(echo.offer), at_once=False)
        [waiting] = other.exchange.calls
        monkeypatch.setattr(SharedAsterisk, "_move", refuses)
        with pytest.raises(MediaError):
            await waiting.offer.media()
        await waiting.offer.control.hangup()
        await waiting.offer.control.release()
        await call.hear_silence(int(OUTSIDE_SECONDS * 2_000))
        call.say(bursts())
        await call.hear_speech()
        assert not echo.ended.done()
        call.hangup()
        await board.exchange.idle()
    await assert_line_clean(shared)


async def test_a_caller_is_not_pulled_back_from_an_engine_that_is_slow_to_move_them(
    shared, open_board, bursts, monkeypatch
):
    move = SharedAsterisk._move

    async def slowly(shared: SharedAsterisk, channel_id: str) -> None:
        await asyncio.sleep(OUTSIDE_SECONDS * 3)
        await move(shared, channel_id)

    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        monkeypatch.setattr(SharedAsterisk, "_move", slowly)
        await other.source.adopt(board.source.shared.record(echo.offer), at_once=False)
        await other.exchange.next_up()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "handed_over"
        await board.exchange.idle()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
    await assert_line_clean(shared)


@pytest.mark.parametrize("doubt", [True, False])
async def test_a_call_that_was_taken_during_a_break_is_not_hung_up(
    shared, open_board, bursts, doubt
):
    """An engine that does not know of the doubt takes the loss of its media for Asterisk's end."""
    async with (
        Cable(shared) as cable,
        open_board(cable, instance=FIRST, in_doubt=lambda: doubt) as board,
        open_board(shared, instance=SECOND) as other,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        [line] = board.source.lines
        await cable.pull()
        await board.disconnected()
        await other.source.adopt(KeptCall(echo.offer.call_id, FIRST, line.channel_id))
        await other.exchange.next_up()
        if doubt:
            assert not echo.ended.done()
        else:
            await board.exchange.idle()
        await cable.plug()
        reason = await asyncio.wait_for(echo.ended, PATIENCE)
        assert reason == ("handed_over" if doubt else "asterisk_lost")
        assert await board.source.wait_ready(PATIENCE)
        await board.exchange.idle()
        call.say(bursts())
        await call.hear_speech()
        call.hangup()
        await other.exchange.idle()
    await assert_line_clean(shared)


async def test_a_caller_who_is_moved_to_a_stranger_was_transferred(shared, open_board):
    async with (
        open_board(shared, instance=FIRST) as board,
        open_board(_named(shared, "elsewhere")) as stranger,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        [line] = board.source.lines
        await board.source.shared._ari.request(
            "POST", f"channels/{line.channel_id}/move", app="elsewhere"
        )
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "transferred"
        await stranger.exchange.next_up()
        call.hangup()
        await stranger.exchange.idle()
        await board.exchange.idle()
    await assert_line_clean(shared)


def _named(asterisk: AsteriskInstance, app: str) -> Any:
    """The same Asterisk for an engine with another application."""
    cable = Cable(asterisk)
    cable.app = app
    cable._port = asterisk.http_port
    return cable


@pytest.mark.parametrize("fenced", [True, False])
async def test_lost_media_end_no_call_while_the_engine_may_have_been_replaced(
    shared, open_board, fenced
):
    doubt = True
    async with (
        open_board(
            shared, instance=FIRST, in_doubt=lambda: doubt, same_break_seconds=0.05
        ) as board,
        SipPhone() as phone,
    ):
        call = await phone.call(shared.sip_uri("first"))
        echo = await board.exchange.next_up()
        [name] = [name for name in await shared.channels() if name.startswith("AudioSocket")]
        await shared.cli(f"channel request hangup {name}")
        await until(lambda: not board.server.connections)
        await asyncio.wait((echo.ended,), timeout=0.3)
        assert not echo.ended.done()
        if fenced:
            await revoke(section(shared), FIRST)
            with pytest.raises(LineError, match="401"):
                await echo.offer.control.variable("AI_CONTEXT")
        doubt = False
        reason = await asyncio.wait_for(echo.ended, PATIENCE)
        assert reason == ("fenced" if fenced else "media_lost")
        await board.exchange.idle()
        if fenced:
            assert call.end is None
            call.hangup()
        else:
            await call.ended()
    async with open_board(shared, instance=SECOND) as board:
        board.source.shared.clear(FIRST)
        await assert_line_clean(shared)


async def test_an_engine_without_an_instance_adopts_nothing(asterisk, open_board):
    async with open_board(asterisk) as board:
        with pytest.raises(LineUnsupported, match="no other"):
            await board.source.adopt(KeptCall("", FIRST, ""))
