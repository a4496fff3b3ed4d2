"""The SIP phone and the throw-away Asterisk, proved on each other."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cordboard.errors import CallRefused, KitError
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.correlation import came_through
from cordboard_testkit.leaks import LeakSnapshot, assert_line_clean
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import Samples

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]
Bursts = Callable[..., Samples]


async def test_an_echo_call_returns_what_was_said(
    asterisk: AsteriskInstance, bursts: Bursts, tmp_path: Path
) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        call.say(bursts(5, every=0.6))
        await call.said()
        await call.hear_silence()
        call.hangup()
        end = await call.ended()

    assert came_through(bursts(5, every=0.6), call.heard_in_order())
    assert call.first_heard_at is not None
    assert call.spoken_segments()[0].start <= call.first_heard_at
    assert end.by == "us"
    await assert_line_clean(asterisk)

    call.write_wav(tmp_path / "call.wav")
    assert (tmp_path / "call.wav").stat().st_size == 44 + 4 * len(call.heard())


async def test_keys_go_both_ways(asterisk: AsteriskInstance) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        call.press("1590*D")
        assert await call.hear_keys(6) == "1590*D"  # Echo() sends keys back; # would end it
        call.press("#")
        end = await call.ended()
    assert end.by == "them"


async def test_the_far_side_hangs_up(asterisk: AsteriskInstance) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("short"))
        await call.answered()
        end = await call.ended()
    assert end.by == "them"
    assert "cause=16" in end.reason


async def test_an_unknown_extension_is_refused(asterisk: AsteriskInstance) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("nobody"))
        with pytest.raises(CallRefused) as refused:
            await call.answered()
    assert refused.value.status == 404


async def test_a_second_phone_answers_a_dial(asterisk: AsteriskInstance, bursts: Bursts) -> None:
    async with SipPhone("alice") as alice, SipPhone("bob", ring_seconds=0.1) as bob:
        await asterisk.connect_phone("6001", bob.address)
        there = await alice.call(
            asterisk.sip_uri("6001"), caller_name="Alice Adams", caller_number="0123"
        )
        here = await bob.incoming()
        await there.answered()
        assert here.caller.user == "0123"
        assert here.caller.display == "Alice Adams"
        there.say(bursts(3, seed=1))
        here.say(bursts(3, seed=2))
        await asyncio.gather(there.said(), here.said())
        await asyncio.gather(here.hear_silence(), there.hear_silence())
        assert came_through(bursts(3, seed=1), here.heard_in_order())
        assert came_through(bursts(3, seed=2), there.heard_in_order())
        here.hangup()
        assert (await there.ended()).by == "them"
    await assert_line_clean(asterisk)


async def test_a_caller_gives_up_while_it_rings(asterisk: AsteriskInstance) -> None:
    async with SipPhone("alice") as alice, SipPhone("bob", answers=False) as bob:
        await asterisk.connect_phone("6001", bob.address)
        there = await alice.call(asterisk.sip_uri("6001"))
        here = await bob.incoming()
        there.hangup()
        assert (await here.ended()).by == "them"
        assert (await there.ended()).status == 487
    await assert_line_clean(asterisk)


async def test_a_busy_phone_refuses(asterisk: AsteriskInstance) -> None:
    async with SipPhone("alice") as alice, SipPhone("bob", answers=False) as bob:
        await asterisk.connect_phone("6001", bob.address)
        there = await alice.call(asterisk.sip_uri("6001"))
        (await bob.incoming()).reject()
        with pytest.raises(CallRefused):
            await there.answered()
    await assert_line_clean(asterisk)


async def test_hold_and_resume(asterisk: AsteriskInstance, bursts: Bursts) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        await call.hold()
        await call.resume()
        call.say(bursts(20))
        assert await call.hear_speech() > 0
        call.hangup()
    await assert_line_clean(asterisk)


async def test_ten_phones_at_once_each_hear_themselves(
    asterisk: AsteriskInstance, bursts: Bursts
) -> None:
    async def one_call(phone: SipPhone, seed: int) -> tuple[bool, bool]:
        """Whether it hears itself, and the next one."""
        async with phone:
            call = await phone.call(asterisk.sip_uri("echo"))
            await call.answered()
            call.say(bursts(5, seed=seed))
            await call.said()
            await call.hear_silence()
            call.hangup()
        own, other = bursts(5, seed=seed), bursts(5, seed=(seed + 1) % 10)
        heard = call.heard_in_order()
        return came_through(own, heard), came_through(other, heard)

    before = LeakSnapshot.take()
    async with MediaThread() as media:
        phones = [SipPhone(f"phone{number}", media=media) for number in range(10)]
        calls = [one_call(phone, seed) for seed, phone in enumerate(phones)]
        shares = await asyncio.gather(*calls)
    assert shares == [(True, False)] * 10
    await assert_line_clean(asterisk)
    await before.assert_nothing_left()


async def test_sound_flows_while_the_event_loop_is_blocked(
    asterisk: AsteriskInstance, bursts: Bursts
) -> None:
    async with SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        call.say(bursts(40))
        await call.hear_speech()
        blocked_from = time.monotonic()
        time.sleep(1.0)  # noqa: ASYNC251 - the point of the test
        blocked_until = time.monotonic()
        starts = [part.start for part in call.heard_segments(join=0.1)]
        assert any(blocked_from < start < blocked_until for start in starts)
        call.hangup()


async def test_headers_and_extension_choose_the_channel_variables(
    asterisk: AsteriskInstance,
) -> None:
    async with SipPhone() as phone:
        call = await phone.call(
            asterisk.sip_uri("ctx-flight_desk"), headers={"X-AI-Provider": "local"}
        )
        # No engine is connected: Stasis fails at once and the dialplan hangs up.
        with pytest.raises(CallRefused):
            await call.answered()
        other = await phone.call(asterisk.sip_uri("agent"), headers={"X-AI-Context": "sales"})
        with pytest.raises(CallRefused):
            await other.answered()
    text = asterisk.log_text()
    assert '"AI_CONTEXT=flight_desk"' in text
    assert "AI_PROVIDER=local" in text
    assert "AI_CONTEXT=sales" in text


async def test_asterisk_restarts_on_the_same_ports(bursts: Bursts) -> None:
    async with AsteriskInstance() as asterisk, SipPhone() as phone:
        before = (asterisk.sip_port, asterisk.http_port, asterisk.pid)
        lost = await phone.call(asterisk.sip_uri("echo"))
        await lost.answered()
        await asterisk.restart()
        assert (asterisk.sip_port, asterisk.http_port) == before[:2]
        assert asterisk.pid != before[2]
        with pytest.raises(TimeoutError):
            await lost.hear_speech(timeout=0.1)
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        call.say(bursts(20))
        await call.hear_speech()
        call.hangup()
        await call.ended()
        await asterisk.restart(graceful=True)
        assert await asterisk.channels() == []


async def test_a_call_placed_while_asterisk_is_down_gets_through_when_it_is_back() -> None:
    async with AsteriskInstance() as asterisk, SipPhone() as phone:
        await asterisk.kill()
        call = await phone.call(asterisk.sip_uri("echo"))
        with pytest.raises(KitError):
            await asterisk.cli("core show uptime")
        await asterisk.start()
        await call.answered()
        call.hangup()


async def test_an_asterisk_leaves_nothing_behind() -> None:
    before = LeakSnapshot.take()
    async with AsteriskInstance() as asterisk:
        root = asterisk.root
        assert asterisk.running
        assert before.left_by(LeakSnapshot.take())
    assert not root.exists()
    await before.assert_nothing_left()


async def test_a_broken_configuration_is_reported_with_asterisks_own_words() -> None:
    broken = AsteriskInstance(files={"modules.conf": "[modules]\nautoload=no\nrequire=nosuch.so\n"})
    with pytest.raises(KitError, match="nosuch"):
        async with broken:
            pass
    await broken.stop()


async def test_a_killed_test_run_takes_its_asterisk_with_it() -> None:
    program = """
import asyncio
from cordboard_testkit.asterisk import AsteriskInstance
async def main():
    async with AsteriskInstance() as asterisk:
        print(asterisk.pid, asterisk.root, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert runner.stdout is not None
    pid, root = (await runner.stdout.readline()).decode().split()
    try:
        assert Path(f"/proc/{pid}").exists()
        runner.kill()
        await runner.wait()
        async with asyncio.timeout(PATIENCE):
            while _is_alive(int(pid)):  # noqa: ASYNC110 - not our child: no event
                await asyncio.sleep(0.02)
    finally:
        shutil.rmtree(root)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
