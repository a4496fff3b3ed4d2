"""Engines that stop: in order, by a signal, by a crash, or before they have begun."""

from __future__ import annotations

import asyncio
import signal
import socket
import time

import pytest

from cordboard.calls.events import AudioStarted
from cordboard.calls.history import read_lines
from cordboard.errors import CallRefused
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_stopping_engine_takes_no_new_calls_and_lets_live_ones_finish(open_hotline):
    async with open_hotline() as hotline:
        talking = await hotline.dial("ctx-orders")
        await talking.greeted_to_the_end()
        stopping = asyncio.create_task(hotline.engine.stop(grace=600))
        await hotline.ready(False)
        late = await hotline.dial("ctx-orders")
        with pytest.raises(CallRefused):
            await late.line.answered()
        assert not stopping.done(), "the live call may go on"
        began = await talking.ask("What are the opening times?")
        assert "runway" in (await talking.heard(since=began)).replace(" ", "")
        talking.line.hangup()
        await asyncio.wait_for(stopping, PATIENCE)
        assert (await talking.history()).outcome == "completed"


async def test_calls_that_outlive_the_grace_period_are_ended(open_hotline):
    async with open_hotline() as hotline:
        caller = await hotline.dial("ctx-demo")
        await caller.event(AudioStarted)
        await hotline.engine.stop(grace=0.5)
        assert (await caller.line.ended()).by == "them"
        history = await caller.history()
        assert (history.outcome, history.reason) == ("shutdown", "engine_stopped")
        await assert_line_clean(hotline.asterisk)


async def test_after_a_crash_the_next_life_takes_the_caller_back_and_sigterm_ends_it_in_order(
    program, asterisk
):
    await program.run()
    await program.ready()
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("ctx-weather"))
        await call.answered()
        await call.hear_speech(after=0.0)
        [path] = program.ledgers()
        await until(lambda: "agent.audio_ended" in path.read_text(), "the end of the greeting")
        program.send(signal.SIGKILL)
        assert await program.ended() == -signal.SIGKILL
        await program.no_servers()

        written = [line["type"] for line in read_lines(path)]
        assert written[:3] == ["call.offered", "call.bound", "call.connected"]
        assert written[-1] == "agent.audio_ended", "the last thing that happened"
        [history] = program.histories()
        assert history.outcome == "", "nobody has written an end yet"
        assert history.turns[0].answer

        # The caller is still in Asterisk. A new engine finds and greets them.
        assert call.end is None
        silent_since = time.monotonic()
        await program.run()
        await call.hear_speech(after=silent_since)
        assert len(program.ledgers()) == 2
        await until(lambda: read_lines(path)[-1]["type"] == "call.ended")

        # This one is asked to stop, with the caller on the line and its servers at work.
        await until(lambda: program.servers() != [])
        program.send(signal.SIGTERM)
        assert (await call.ended()).by == "them"
        assert await program.ended() == 0
    endings = [(history.outcome, history.reason) for history in program.histories()]
    assert sorted(endings) == [("killed", "engine_killed"), ("shutdown", "engine_stopped")]
    assert program.servers() == []
    assert "Traceback" not in program.log.read_text()
    await assert_line_clean(asterisk)


@pytest.mark.parametrize("port", ["http_port", "audiosocket_port"])
async def test_a_taken_port_is_one_clear_message(program, port):
    number = getattr(program, port)
    with socket.create_server(("127.0.0.1", number)):
        await program.run()
        assert await program.ended() == 1
    words = program.log.read_text()
    assert "Traceback" not in words
    message = next(line for line in words.splitlines() if line.startswith("cordboard: "))
    assert str(number) in message
    assert "address already in use" in message.lower()
    assert program.servers() == []
