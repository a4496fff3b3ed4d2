"""Calls by SIP through a real Asterisk whose sound comes by its websocket channel.

What the caller heard is taken from the phone: every sample of the noise that is played here is
loud, silence is not, so that the loud samples are what was heard of it.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from pydantic import SecretStr

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw, ulaw_to_linear
from cordboard.config.schema import Asterisk
from cordboard.errors import MediaError
from cordboard.telephony.asterisk import websocket_messages
from cordboard.telephony.asterisk.websocket_messages import Flow, MarkProcessed
from cordboard.telephony.asterisk.websocket_path import WebsocketPath
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import LeakSnapshot, assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import RATE, Samples

from .bursts_heard import burst_came

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

LEAST_ALIKE = {ULAW_8K: 0.98, ALAW_8K: 0.98, SLIN_8K: 0.98, SLIN_16K: 0.9}
"""How alike what is said and its echo are at least, by the format they take."""


@pytest.fixture
def open_websocket_board(open_board):
    """The telephony of an engine with `asterisk.media: websocket`, on the echo exchange."""

    def opened(asterisk, *, url=None, codec="auto", times=None, **settings):
        config = Asterisk(
            url=url or asterisk.ari_url,
            username=asterisk.ari_user,
            password=SecretStr(asterisk.ari_password),
            codec=codec,
        )
        return open_board(
            asterisk,
            make_path=lambda _, pacer: WebsocketPath(config, pacer, **settings),
            **(times or {}),
        )

    return opened


def noise(ms: int, seed: int = 1) -> Samples:
    """As u-law gives it back; every sample is loud."""
    random = np.random.default_rng(seed)
    size = ms * RATE // 1000
    samples = random.integers(900, 9000, size) * random.choice((-1, 1), size)
    coded = linear_to_ulaw(samples.astype("<i2").tobytes())
    return np.frombuffer(ulaw_to_linear(coded), "<i2")


def ulaw(samples: Samples) -> bytes:
    return linear_to_ulaw(samples.astype("<i2").tobytes())


def loud(call) -> Samples:
    """All loud samples that the phone has heard, in the order in which they came."""
    heard = call.heard_in_order()
    return heard[np.abs(heard.astype(int)) > 300]


async def heard_next(call, before: int, sound: Samples) -> None:
    """Wait until the phone has heard as much as `sound`, and see that it is that."""
    await until(lambda: len(loud(call)) - before >= len(sound), "all of the sound")
    assert np.array_equal(loud(call)[before:], sound)


async def up(board, asterisk, phone, count=1):
    """A call that does not echo, in u-law."""
    board.exchange.formats = (ULAW_8K,)
    call = await phone.call(asterisk.sip_uri("agent"))
    await call.answered()
    echo = await board.exchange.next_up(count)
    echo.echoing = False
    return call, echo


async def over(board, asterisk, *calls) -> None:
    for call in calls:
        call.hangup()
    await board.exchange.idle()
    await assert_line_clean(asterisk)
    assert board.path.counts == {}
    assert not board.pacer.running


async def test_sound_and_keys_pass_and_the_caller_hangs_up(asterisk, open_websocket_board, bursts):
    """Side by side, a call for each format."""

    async def both_ways(audio_format, call, echo):
        assert echo.media.format == audio_format
        call.say(bursts())
        await call.said()
        await call.hear_silence()
        await burst_came(bursts(), call.heard_in_order, alike=LEAST_ALIKE[audio_format])
        call.press("4#")
        await asyncio.wait_for(echo.two_keys.wait(), PATIENCE)
        assert echo.keys == "4#", "each key once"
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"

    before = LeakSnapshot.take()
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        lines = []
        for audio_format in LEAST_ALIKE:
            board.exchange.formats = (audio_format, SLIN_8K)
            call = await phone.call(asterisk.sip_uri("agent"))
            await call.answered()
            lines.append((audio_format, call, await board.exchange.next_up(len(lines) + 1)))
        await asyncio.gather(*(both_ways(*line) for line in lines))
        await over(board, asterisk, *(call for _, call, _ in lines))
        assert board.source.lines == ()
    await before.assert_nothing_left()


async def test_the_engine_hangs_up(asterisk, open_websocket_board):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        await echo.offer.control.hangup()
        assert (await call.ended()).by == "them"
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "hangup"
        await over(board, asterisk, call)


async def test_sentences_are_heard_to_the_last_sample_and_marks_tell_when(
    asterisk, open_websocket_board
):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        media, sentences, played = echo.media, [noise(710), noise(655, 2)], asyncio.Event()
        began: list[int] = []
        for sentence in sentences:
            media.mark(lambda: began.append(media.heard_ms))
            media.write(ulaw(sentence))
        media.mark(played.set)
        await asyncio.wait_for(played.wait(), PATIENCE)
        assert (media.heard_ms, media.queued_ms) == (1365, 0)
        assert began == [pytest.approx(0, abs=20), pytest.approx(710, abs=20)]
        await heard_next(call, 0, np.concatenate(sentences))
        await over(board, asterisk, call)


async def test_a_flush_silences_the_phone_and_says_what_was_heard(asterisk, open_websocket_board):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        errors = []
        for index in range(5):
            first, before = len(loud(call)), echo.media.heard_ms
            echo.media.write(ulaw(noise(10_000, index)))
            await until(lambda: len(loud(call)) > first)  # noqa: B023 - awaited here
            await asyncio.sleep(0.3 + index * 0.027)
            heard = echo.media.flush() - before
            await call.hear_silence()
            truth = loud(call)[first:]
            assert np.array_equal(truth, noise(10_000, index)[: len(truth)])
            assert len(truth) < RATE * 9, "it was silenced long before its end"
            errors.append(abs(len(truth) / 8 - heard))
        assert min(errors) <= 20, errors
        await over(board, asterisk, call)


async def test_a_hold_silences_the_phone_and_loses_and_repeats_no_sample(
    asterisk, open_websocket_board
):
    """Two calls side by side, each held twice."""

    async def held(call, media, index):
        first, before, played = len(loud(call)), media.heard_ms, asyncio.Event()
        media.write(ulaw(noise(3000, index)))
        media.mark(played.set)
        await until(lambda: len(loud(call)) > first)
        await asyncio.sleep(0.1 + index * 0.027)
        media.hold()
        # In a hold the count is exact.
        await until(lambda: len(loud(call)) - first == 8 * (media.heard_ms - before))
        await call.hear_silence(300)
        assert len(loud(call)) - first == 8 * (media.heard_ms - before) < 8 * 3000
        media.resume()
        await asyncio.wait_for(played.wait(), PATIENCE)
        assert media.heard_ms - before == 3000
        await heard_next(call, first, noise(3000, index))

    async def held_twice(line, index):
        call, echo = line
        await held(call, echo.media, index)
        await held(call, echo.media, index + 1)

    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        first = await up(board, asterisk, phone)
        second = await up(board, asterisk, phone, 2)
        await asyncio.gather(held_twice(first, 0), held_twice(second, 2))
        await over(board, asterisk, first[0], second[0])


async def test_after_a_flush_in_a_hold_the_next_answer_is_heard(asterisk, open_websocket_board):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        echo.media.write(ulaw(noise(2000)))
        await call.hear_speech()
        echo.media.hold()
        await until(lambda: len(loud(call)) == 8 * echo.media.heard_ms)
        heard = echo.media.flush()
        assert len(loud(call)) == heard * 8
        echo.media.write(ulaw(noise(300, 2)))
        await heard_next(call, heard * 8, noise(300, 2))
        await over(board, asterisk, call)


async def test_when_asterisk_is_nearly_full_it_says_so_and_nothing_is_lost(
    asterisk, open_websocket_board, monkeypatch
):
    events, decode = [], websocket_messages.decode

    def noted(text):
        events.append(decode(text))
        return events[-1]

    monkeypatch.setattr(websocket_messages, "decode", noted)
    async with (
        open_websocket_board(asterisk, ahead_seconds=60) as board,
        SipPhone() as phone,
    ):
        call, echo = await up(board, asterisk, phone)
        echo.media.write(ulaw(noise(25_000)))
        await until(lambda: Flow(stop=True) in events)
        assert echo.media.queued_ms > 18_000
        echo.media.flush()
        await until(lambda: Flow(stop=False) in events)
        marks = [event.mark for event in events if isinstance(event, MarkProcessed)]
        assert len(marks) < 120, "what was flushed is not reported"
        await call.hear_silence()
        before = len(loud(call))
        echo.media.write(ulaw(noise(300, 2)))
        await heard_next(call, before, noise(300, 2))
        await over(board, asterisk, call)


async def test_the_delay_that_a_stall_leaves_in_asterisk_goes_away_in_a_silence(
    asterisk, open_websocket_board
):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        # The phone's own frames are the clock: they are passed through, but for a stall.
        held: list[bytes] = []
        stalled = True

        def pass_through(frame: bytes) -> None:
            if stalled:
                held.append(frame)
            else:
                echo.media.write(frame)

        echo.media.on_audio(pass_through)
        await until(lambda: len(held) >= 15)
        stalled = False
        for frame in held:
            echo.media.write(frame)
        assert echo.media.queued_ms >= 200
        await until(lambda: echo.media.queued_ms <= 60)
        call.say(noise(200))
        await call.hear_speech(after=0.0)
        await over(board, asterisk, call)


async def test_what_goes_to_the_caller_is_shown_as_it_goes(asterisk, open_websocket_board):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        shown = bytearray()
        echo.media.on_sent(shown.extend)

        def sound() -> bytes:
            frames = [bytes(shown[at : at + 160]) for at in range(0, len(shown), 160)]
            return b"".join(frame for frame in frames if frame != ULAW_8K.silence())

        await until(lambda: len(shown) > 800, "silence is shown too")
        echo.media.write(ulaw(noise(600)))
        assert sound() == b"", "not before it goes"
        await heard_next(call, 0, noise(600))
        await until(lambda: len(sound()) >= 8 * 600)
        assert sound() == ulaw(noise(600))
        await over(board, asterisk, call)


async def test_a_caller_who_hangs_up_in_the_middle_of_a_sentence_leaves_nothing(
    asterisk, open_websocket_board
):
    before = LeakSnapshot.take()
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        call, echo = await up(board, asterisk, phone)
        echo.media.write(ulaw(noise(10_000)))
        echo.media.mark(pytest.fail)
        await call.hear_speech()
        call.hangup()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "caller_hangup"
        await over(board, asterisk, call)
        assert echo.media.queued_ms == 0
    await before.assert_nothing_left()


async def test_a_dozen_calls_at_once(asterisk, open_websocket_board):
    async with open_websocket_board(asterisk) as board, SipPhone() as phone:
        board.exchange.formats = (ULAW_8K,)
        calls = [await phone.call(asterisk.sip_uri("agent")) for _ in range(12)]
        for count in range(1, 13):
            echo = await board.exchange.next_up(count)
            echo.echoing = False
            echo.media.write(ulaw(noise(400, count)))
        for call in calls:
            await until(lambda: len(loud(call)) >= 8 * 400)  # noqa: B023 - awaited here
        heard = {loud(call).tobytes() for call in calls}
        assert heard == {noise(400, count).tobytes() for count in range(1, 13)}
        await over(board, asterisk, *calls)


async def test_media_that_cannot_come_names_the_setting_to_look_at(asterisk, open_websocket_board):
    """ARI is where the file says, the media's URL is not (a proxy that knows ARI only, say)."""
    elsewhere = asterisk.ari_url + "/nothing/here"
    async with open_websocket_board(asterisk, url=elsewhere) as board, SipPhone() as phone:
        call = await phone.call(asterisk.sip_uri("agent"))
        echo = await board.exchange.next()
        await asyncio.wait_for(echo.up.wait(), PATIENCE)
        assert isinstance(echo.problem, MediaError)
        assert "404" in str(echo.problem)
        assert board.path.counts == {"refused": 1}
        await call.ended()
        await board.exchange.idle()
        await assert_line_clean(asterisk)


async def test_asterisk_without_the_module_is_told_from_one_that_refuses(open_websocket_board):
    async with (
        AsteriskInstance(modules="noload => chan_websocket.so") as bare,
        open_websocket_board(bare) as board,
        SipPhone() as phone,
    ):
        await phone.call(bare.sip_uri("agent"))
        echo = await board.exchange.next()
        await asyncio.wait_for(echo.up.wait(), PATIENCE)
        assert "chan_websocket" in str(echo.problem)
        await board.exchange.idle()


async def test_asterisk_is_killed_and_comes_back(open_websocket_board):
    before = LeakSnapshot.take()
    async with (
        AsteriskInstance() as own,
        open_websocket_board(own, times={"same_break_seconds": PATIENCE}) as board,
        SipPhone() as phone,
    ):
        call, echo = await up(board, own, phone)
        echo.media.write(ulaw(noise(10_000)))
        await call.hear_speech()
        await own.kill()
        assert await asyncio.wait_for(echo.ended, PATIENCE) == "asterisk_lost"
        await board.exchange.idle()
        await own.start()
        await board.connected()
        again, echo = await up(board, own, phone, 2)
        echo.media.write(ulaw(noise(200)))
        await again.hear_speech()
        again.hangup()
        await board.exchange.idle()
        await assert_line_clean(own)
    await before.assert_nothing_left()
