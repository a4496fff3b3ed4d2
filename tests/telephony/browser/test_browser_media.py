"""A page's socket as the media of a call: an honest page, and every way in which one misbehaves."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from cordboard.audio.format import SLIN_16K
from cordboard.audio.pacer import Pacer
from cordboard.telephony.browser import messages
from cordboard.telephony.browser.media import IDLE_SECONDS, STALLED_SECONDS, BrowserMedia
from cordboard.telephony.browser.messages import HEADER, encode_sound
from cordboard.telephony.browser.playout import STUCK_SECONDS
from cordboard.telephony.line_media import FLOOD_SECONDS, MESSAGES_PER_SECOND
from cordboard_testkit.virtual_time import in_virtual_time

FRAME = bytes(SLIN_16K.frame_bytes)


class Link:
    """A socket to a page that reads, unless a test says otherwise."""

    def __init__(self) -> None:
        self.sent: list[str | bytes] = []
        self.waiting_bytes = 0
        self.closing: tuple[int, str] | None = None

    def send(self, frame: str | bytes) -> None:
        assert self.closing is None, "nothing is sent after the end"
        self.sent.append(frame)

    def close(self, code: int, reason: str) -> None:
        self.closing = self.closing or (code, reason)

    async def closed(self) -> None:
        assert self.closing is not None

    @property
    def texts(self) -> list[dict[str, Any]]:
        return [orjson.loads(each) for each in self.sent if isinstance(each, str)]


class Stage:
    """One media, claimed by a call, and a page that sends its microphone."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.pacer = Pacer(self.loop)
        self.link = Link()
        self.counts: Counter[str] = Counter()
        self.media = BrowserMedia(self.link, "slin16", self.pacer, self.counts)
        self.ended: list[str] = []
        self.heard: list[bytes] = []
        self.keys: list[str] = []
        self.shown: list[bytes] = []
        self._seq = itertools.count()

    def claim(self) -> Stage:
        media = self.media
        media.claim("call-1")
        media.on_closed(self.ended.append)
        media.on_audio(self.heard.append)
        media.on_dtmf(self.keys.append)
        media.on_sent(self.shown.append)
        return self

    def speak(self, frames: int = 1) -> None:
        for _ in range(frames):
            self.media.received(encode_sound(next(self._seq), 0, FRAME))

    async def live(self, seconds: float) -> None:
        """The page's microphone for a while."""
        for _ in range(round(seconds * 50)):
            self.speak()
            await asyncio.sleep(0.02)

    def tell(self, kind: str, **fields: Any) -> None:
        self.media.received(orjson.dumps({"type": kind, **fields}).decode())

    def played(self, ms: float, *, flush: int = 0, playing: bool = False) -> None:
        self.tell("played", flush=flush, ms=ms, playing=playing, queued_ms=0, underruns=0)


@in_virtual_time
async def test_a_call_from_ready_to_the_end() -> None:
    stage = Stage().claim()
    assert stage.link.texts == [
        {"type": "ready", "call": "call-1", "format": "slin16", "rate": 16_000, "frame_ms": 20}
    ]
    begun: list[float] = []
    stage.media.mark(lambda: begun.append(stage.loop.time()))
    stage.media.write(FRAME + FRAME)
    sounds = [each for each in stage.link.sent if isinstance(each, bytes)]
    assert [HEADER.unpack_from(each) for each in sounds] == [(1, 0, 0), (1, 1, 20)]
    stage.speak(2)
    stage.tell("mark_done", name=1)
    stage.tell("key", digit="5")
    stage.tell("stats", output_ms=20, late=0)
    assert len(begun) == 1
    assert (stage.heard, stage.keys) == ([FRAME, FRAME], ["5"])
    stage.media.hold()
    stage.played(12.5)
    stage.media.resume()
    stage.media.hold()
    assert stage.media.flush() == 12
    assert [each["type"] for each in stage.link.texts[2:]] == ["hold", "resume", "hold", "flush"]
    await stage.media.close()
    assert stage.link.texts[-1] == {"type": "ended", "reason": "hangup"}
    assert stage.link.closing == (1000, "hangup")
    assert stage.ended == [], "it is told of the far side's end alone"
    assert not stage.pacer.running


@in_virtual_time
async def test_the_person_hangs_up() -> None:
    stage = Stage().claim()
    stage.tell("hangup")
    stage.speak()
    assert stage.ended == ["caller_hangup"]
    assert stage.heard == [], "frames after the end no longer count"
    assert stage.link.closing == (1000, "caller_hangup")
    await stage.media.close()
    assert not stage.pacer.running


@in_virtual_time
async def test_the_tab_is_closed_or_the_network_breaks() -> None:
    for problem, reason in (("", "caller_hangup"), ("1006", "media_lost")):
        stage = Stage().claim()
        stage.media.write(FRAME * 50)
        stage.media.gone(problem)
        assert stage.ended == [reason]
        stage.media.write(FRAME)
        assert (stage.media.queued_ms, stage.media.flush()) == (0, 0)
        assert not stage.pacer.running


def _flood_of_messages(stage: Stage) -> None:
    for _ in range(MESSAGES_PER_SECOND + 1):
        stage.tell("stats", output_ms=0, late=0)


def _untrue(stage: Stage) -> None:
    stage.media.write(FRAME)
    stage.played(21)


FAULTS: dict[str, tuple[Callable[[Stage], None], str, int]] = {
    "sound faster than real time": (
        lambda stage: stage.speak(int(FLOOD_SECONDS * 50) + 1),
        "flood",
        messages.FLOOD,
    ),
    "a flood of messages": (_flood_of_messages, "flood", messages.FLOOD),
    "more played than sent": (_untrue, "untrue", messages.BAD_FRAME),
    "a mark that was not sent": (
        lambda stage: stage.tell("mark_done", name=1),
        "untrue",
        messages.BAD_FRAME,
    ),
    "a wrong sequence": (
        lambda stage: stage.media.received(encode_sound(1, 0, FRAME)),
        "protocol",
        messages.OUT_OF_ORDER,
    ),
    "an oversized frame": (
        lambda stage: stage.media.received(encode_sound(0, 0, FRAME * 2)),
        "protocol",
        messages.TOO_LARGE,
    ),
    "not JSON": (lambda stage: stage.media.received("{"), "protocol", messages.BAD_FRAME),
}


@pytest.mark.parametrize("fault", FAULTS)
@in_virtual_time
async def test_a_page_that_breaks_the_protocol_is_closed_with_a_code(fault: str) -> None:
    act, word, code = FAULTS[fault]
    stage = Stage().claim()
    act(stage)
    assert stage.link.closing is not None
    assert stage.link.closing[0] == code
    assert stage.ended == ["media_lost"]
    assert stage.counts == {word: 1}
    stage.speak()  # on its way meanwhile
    await stage.media.close()
    assert not stage.pacer.running


@in_virtual_time
async def test_sound_before_ready_ends_the_call() -> None:
    stage = Stage()
    stage.speak()
    assert stage.link.closing is not None
    assert stage.link.closing[0] == messages.BAD_FRAME
    assert not stage.media.connected


@in_virtual_time
async def test_after_a_stall_of_the_network_the_sound_catches_up() -> None:
    stage = Stage().claim()
    await stage.live(1)
    await asyncio.sleep(IDLE_SECONDS - 1)
    stage.speak(round((IDLE_SECONDS - 1) * 50))
    await stage.live(1)
    assert len(stage.heard) == (IDLE_SECONDS + 1) * 50
    assert stage.ended == []
    await stage.media.close()


@in_virtual_time
async def test_a_page_that_sends_nothing_is_lost() -> None:
    stage = Stage().claim()
    await stage.live(1)
    await asyncio.sleep(IDLE_SECONDS + 0.1)
    assert stage.link.closing is not None
    assert stage.link.closing[0] == messages.SILENT
    assert (stage.ended, stage.counts) == (["media_lost"], {"idle": 1})


@in_virtual_time
async def test_a_page_that_never_plays_is_lost_and_nothing_counts_as_heard() -> None:
    stage = Stage().claim()
    stage.media.write(FRAME * 50)
    await stage.live(STUCK_SECONDS - 0.1)
    assert (stage.media.heard_ms, stage.ended) == (0, [])
    assert set(stage.shown) == {SLIN_16K.silence()}
    await stage.live(0.3)
    assert (stage.ended, stage.counts) == (["media_lost"], {"silent": 1})


@in_virtual_time
async def test_a_page_that_does_not_read_gets_no_more_and_is_lost_unless_it_reads_again() -> None:
    stage = Stage().claim()
    stage.link.waiting_bytes = 1_000_000
    await stage.live(1)
    stage.media.write(FRAME * 50)
    assert not [each for each in stage.link.sent if isinstance(each, bytes)]
    stage.link.waiting_bytes = 0
    await stage.live(0.1)
    assert len([each for each in stage.link.sent if isinstance(each, bytes)]) == 50
    stage.link.waiting_bytes = 1_000_000
    await stage.live(STALLED_SECONDS + 0.1)
    assert (stage.ended, stage.counts) == (["media_lost"], {"stalled": 1})
