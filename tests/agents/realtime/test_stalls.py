"""A service that stalls, its connection staying open: how long the caller hears nothing.

Whole calls in virtual time with each protocol; only the service and the line are stand-ins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.audio.format import AudioFormat
from cordboard.calls import events
from cordboard.calls.offer import Media
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_line import FakeLine, FakeMedia
from cordboard_testkit.fake_pipeline import silence, speech

from .stalling_services import ANSWER, WIRES, Stall, StallingService

LONGEST = 5.2
"""Seconds that nobody is left in silence for."""
PHRASE = "One moment please."


class TimedMedia(FakeMedia):
    """Notes when the caller heard anything."""

    def __init__(self) -> None:
        super().__init__()
        self.heard_at: list[float] = []

    def tick(self, count: int) -> None:
        before = len(self.played)
        super().tick(count)
        if len(self.played) > before:
            self.heard_at.append(asyncio.get_running_loop().time())


class TimedLine(FakeLine):
    async def _open(self, formats: Sequence[AudioFormat] = ()) -> Media:
        self.media = TimedMedia()
        return self.media


class Caller:
    """Waits for the greeting, asks, and waits for an answer."""

    def __init__(self, service: StallingService, ms: int = 1500, until: float = 45.0) -> None:
        self._service = service
        self._ms = ms
        self._until = until
        self.asked_at: float | None = None
        """When they had finished."""

    async def __call__(self, stage: CallStage) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        media, began = stage.line.media, loop.time()
        assert isinstance(media, TimedMedia)
        while loop.time() < began + self._until and not self._is_answered(media):
            await media.say(silence(20))
            waits = self._service.stall in ("session", "greeting") or self.asked_at
            if waits or not media.heard_at or loop.time() - media.heard_at[-1] < 0.5:
                continue
            saying = asyncio.ensure_future(media.say(speech(self._ms)))
            await asyncio.sleep(min(0.3, self._ms / 2000))
            await self._service.caller_began()
            await saying
            self.asked_at = loop.time()
            answering = asyncio.ensure_future(self._service.caller_finished())
        media.break_off("caller_hangup")
        if self.asked_at:
            await answering

    def _is_answered(self, media: FakeMedia) -> bool:
        return self._service.answered and media.queued_ms == 0


def play(
    tmp_path: Path,
    service: StallingService,
    caller: Callable[[CallStage], Awaitable[None]],
    **context: object,
) -> CallStage:
    # Nothing but its own sound fills the silence of a first connection that works.
    agent = partial(FallbackAgent, lambda _: service.agent(), ("a",), PHRASE, _Voice())
    greeting = {"greeting": "Good morning.", "tools": [], "silence": {}}
    return play_call(tmp_path, agent, caller, context={**greeting, **context}, make_line=TimedLine)


class _Voice:
    async def speak(self, text: str, *, rate: int = 8000):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0.1)
        yield b"\x01\x01" * rate

    async def prepare(self, texts: object, *, rate: int = 8000) -> None: ...


def silences(stage: CallStage, since: float) -> list[float]:
    """How long nothing was heard, each time, from then on."""
    media = stage.line.media
    assert isinstance(media, TimedMedia)
    found = []
    for at in media.heard_at:
        if at > since:
            if at - since > 0.3:
                found.append(at - since)
            since = at
    return found


def said(stage: CallStage) -> list[str]:
    return [event.text for event in stage.of(events.Answering)]


STALLS: tuple[Stall, ...] = ("session", "greeting", "notice", "turn", "answer", "sound")


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("protocol", WIRES)
def test_no_stall_leaves_the_caller_in_silence(tmp_path: Path, protocol: str, stall: Stall) -> None:
    service = StallingService(protocol, stall)
    caller = Caller(service, until=12.0 if stall in ("session", "greeting") else 45.0)
    stage = play(tmp_path, service, caller)
    waited = silences(stage, caller.asked_at or 1000.0)
    assert len(service.connections) == 2, "another connection is to be tried in the end"
    assert max(waited) <= LONGEST, waited
    if caller.asked_at:
        assert said(stage).count(ANSWER) == (2 if stall == "sound" else 1)
    assert said(stage)[-1] == (ANSWER if caller.asked_at else "Good morning.")


@pytest.mark.parametrize("protocol", WIRES)
def test_a_slow_service_is_not_given_up(tmp_path: Path, protocol: str) -> None:
    service = StallingService(protocol, "never", thinks=8.0)
    caller = Caller(service)
    stage = play(tmp_path, service, caller)
    waited = silences(stage, caller.asked_at or 1000.0)
    assert len(service.connections) == 1
    assert [trouble for trouble in stage.of(events.Trouble) if "stall" in str(trouble)] == []
    assert said(stage)[-1] == ANSWER
    assert max(waited) <= LONGEST, waited


@pytest.mark.parametrize("protocol", WIRES)
@pytest.mark.parametrize("stall", ["notice", "turn"])
def test_a_short_word_is_enough(tmp_path: Path, protocol: str, stall: Stall) -> None:
    """`Yes.`: that its end is not told is noticed as soon."""
    service = StallingService(protocol, stall)
    caller = Caller(service, ms=400, until=10.0)
    stage = play(tmp_path, service, caller)
    assert silences(stage, caller.asked_at or 1000.0)[0] <= LONGEST


@pytest.mark.parametrize("protocol", WIRES)
def test_a_noise_is_answered_once_at_most(tmp_path: Path, protocol: str) -> None:
    """What the service does not notice may be no voice. That it was spoken to once is enough."""
    service = StallingService(protocol, "notice")

    async def noises(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        media = stage.line.media
        assert media is not None
        await media.say(silence(4000))
        for _ in range(3):
            await media.say(speech(500) + silence(7000))
        media.break_off("caller_hangup")

    stage = play(tmp_path, service, noises, silence={"caller_after_ms": 60_000})
    assert [silence.kind for silence in stage.of(events.Silence)] == ["filler"]


@pytest.mark.parametrize("protocol", WIRES)
def test_fillers_that_are_turned_off_are_not_written_down_either(
    tmp_path: Path, protocol: str
) -> None:
    service = StallingService(protocol, "never", thinks=8.0, slow_response="off")
    stage = play(tmp_path, service, Caller(service))
    assert stage.of(events.Silence) == []
    assert said(stage) == ["Good morning.", ANSWER]
