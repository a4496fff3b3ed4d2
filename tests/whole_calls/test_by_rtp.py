"""Whole calls whose sound comes by ExternalMedia RTP (`asterisk.media: rtp`)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from cordboard.calls.events import AudioStarted, Key, ToolCalled
from cordboard_testkit.free_ports import free_port_range
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import until
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.sip.incoming import IncomingCall

from .bank import bank, keys_once_and_a_recording
from .humans import hears

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


OF_THE_NET = {"gap", "jumped", "late", "lost", "concealed"}
"""What a busy machine, or a key (a gap, made by Asterisk itself), does to a stream of packets."""


def by_rtp(codec: str = "auto", **rtp):
    def change(tree):
        tree["asterisk"] |= {"media": "rtp", "codec": codec}
        tree["rtp"] = rtp

    return change


@contextlib.asynccontextmanager
async def nothing_left(hotline):
    """The calls within leave no channel, bridge, socket or task."""
    before = LeakSnapshot.take()

    def left() -> list[str]:
        # The engine's worker threads are started by the first call that needs them.
        lines = before.left_by(LeakSnapshot.take())
        return [line for line in lines if not line.startswith("threads")]

    yield
    await hotline.idle()
    _, health = await hotline.get("/health")
    assert health["audio"]["rtp_ports"] == 0
    assert health["active_calls"] == []
    await until(lambda: not left(), "nothing to be left")


async def conversation(hotline, caller):
    answer_at = await caller.ask("What are the opening times?")
    caller.line.press("4#")
    assert [(await caller.event(Key, count)).key for count in (1, 2)] == ["4", "#"]
    assert (await caller.says_goodbye()).by == "them"
    history = await caller.history()

    assert (history.outcome, history.troubles) == ("completed", [])
    assert [tool.name for tool in history.tools] == ["opening_times", "hangup_call"]
    heard = await caller.heard(since=answer_at)
    assert "runway" in heard.replace(" ", ""), heard
    assert "goodbye" in heard, "to its last word"
    keys = [e for _, _, e in hotline.events if isinstance(e, Key)]
    assert len(keys) == 2, "no key comes twice"


async def hang_ups_and_interruptions(hotline):
    await hotline.speech.say("What is the weather in Trondheim?")  # rendered before the answer
    caller = await hotline.dial("ctx-weather")
    await caller.greeted_to_the_end()
    asked_at = await caller.say("What is the weather in Bergen?")
    await caller.line.hear_speech(after=asked_at)
    await caller.event(AudioStarted, count=2)
    await caller.say("What is the weather in Trondheim?")
    await caller.event(ToolCalled, count=2)
    await caller.event(AudioStarted, count=3)
    await asyncio.sleep(0.5)
    caller.line.hangup()
    history = await caller.history()
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    bergen, trondheim = history.caller_turns
    assert bergen.interrupted is not None
    assert len(bergen.interrupted) < len(" ".join(bergen.answer))
    assert trondheim.tools[0].arguments == {"icao": "ENVA"}

    ringing = await hotline.dial("ctx-weather")
    await ringing.line.answered()
    ringing.line.hangup()
    assert (await ringing.history()).reason == "caller_hangup"


@pytest.mark.parametrize("codec", ["ulaw", "g722"])
async def test_a_whole_conversation_beside_hang_ups_and_interruptions(open_hotline, codec):
    async with open_hotline(by_rtp(codec)) as hotline, nothing_left(hotline):
        caller = await hotline.dial("ctx-orders")
        await caller.greeted_to_the_end()
        [channel] = [c for c in await hotline.asterisk.channels() if c.startswith("UnicastRTP")]
        shown = await hotline.asterisk.cli(f"core show channel {channel}")
        assert f"({codec})" in shown, shown
        assert (await hotline.get("/health"))[1]["audio"]["rtp_ports"] == 1
        await asyncio.gather(conversation(hotline, caller), hang_ups_and_interruptions(hotline))
        assert set((await hotline.get("/health"))[1]["audio"]["rtp_events"]) <= OF_THE_NET


async def test_each_key_comes_once_and_the_call_is_recorded(open_hotline):
    async with open_hotline(bank("rtp"), settled=False) as hotline:
        await keys_once_and_a_recording(hotline)


async def test_asterisk_is_killed_under_a_live_call_and_comes_back(open_hotline):
    async with open_hotline(by_rtp(), settled=False) as hotline:
        caller = await hotline.dial("ctx-orders")
        await caller.greeted()
        await hotline.asterisk.kill()
        history = await caller.history()
        assert (history.outcome, history.reason) == ("failed", "asterisk_lost")
        caller.line.hangup()
        await hotline.asterisk.start()
        await hotline.ready()
        again = await hotline.dial("ctx-orders")
        await again.greeted_to_the_end()
        again.line.hangup()
        assert (await again.history()).outcome == "completed"
        await hotline.idle()
        assert (await hotline.get("/health"))[1]["audio"]["rtp_ports"] == 0


async def test_the_only_port_is_in_use(open_hotline):
    [port] = free_port_range(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as squatter:
        squatter.bind(("127.0.0.1", port))
        change = by_rtp(first_port=port, last_port=port)
        async with open_hotline(change) as hotline, nothing_left(hotline):
            caller = await hotline.dial("ctx-demo")
            assert (await caller.line.ended()).by == "them"
            history = await caller.history()
            assert (history.outcome, history.reason) == ("failed", "media_failed")
            assert "rtp.first_port" in history.troubles[0]
            _, health = await hotline.get("/health")
            assert health["audio"]["rtp_events"] == {"no_port": 1}


async def test_a_codec_that_cannot_be_used_is_told_at_the_start(open_hotline):
    with pytest.raises(Exception, match=r"asterisk\.codec: slin16 cannot be used.*g722"):
        async with open_hotline(by_rtp("slin16")):
            pass


def an_operators_phone(tree):
    """An operator's phone, from which calls may be joined."""
    by_rtp()(tree)
    phone = {"target": "6031", "endpoint": "PJSIP/phone-6031", "takeover": True}
    tree["tools"]["transfer"]["destinations"]["otto"] = phone


async def test_three_hear_each_other_and_words_for_one_of_them_leave_no_port(
    open_hotline, asterisk
):
    async with SipPhone("otto", answers=False) as phone:
        await asterisk.connect_phone("6031", phone.address)
        async with open_hotline(an_operators_phone) as hotline, nothing_left(hotline):
            caller = await hotline.dial("ctx-weather")
            await caller.greeted_to_the_end()
            operator = hotline.engine.registry.calls[await caller.call_id()].operator
            joining = asyncio.ensure_future(operator.confer("otto", "otto", quiet=False))
            await until(lambda: bool(phone.calls))
            (there,) = phone.calls.values()
            assert isinstance(there, IncomingCall)
            there.answer()
            await there.hear_speech(after=0.0)
            there.press("1")
            await joining
            quiet_since = await there.hear_silence(700)
            assert await operator.whisper("Tell him the wind.", "otto", "operator")
            await there.hear_speech(after=quiet_since + 0.7)
            await there.hear_silence(700)
            since = time.monotonic()
            assert await operator.say("Hello to both of you.", "otto")
            both = (hears(hotline, line, "hello", since) for line in (caller.line, there))
            await asyncio.gather(*both)
            assert "wind" not in await caller.heard()
            there.hangup()
            caller.line.hangup()
            await caller.history()
