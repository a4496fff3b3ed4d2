"""Plays a case: one call to the engine by AudioSocket, with the timing of both voices."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import numpy as np

from bench.turns.cases import TALK, Case
from cordboard.errors import CallOver
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.timeline import RATE, SPEECH_LEVEL, Samples, Segment

_GREETING = 10.0
_ANSWER = 5.0
_HEARD_ENOUGH = 0.5
"""Seconds of an answer that the caller hears."""
_BEHIND_CONTINUER = 1.2
"""Seconds from a continuer's first sample within which the answer behind it is heard."""
_LISTENED = 1.6
"""Seconds of silence after which the agent's long sentence is over. A held one resumes sooner."""
_LONGEST = 15.0
"""Seconds after which a listener hangs up in any case."""
_JOIN = 0.06


@dataclass(slots=True)
class Played:
    """One call from the caller's side. Moments are `time.monotonic()` seconds."""

    case: Case
    uuid: str
    said_at: float | None = None
    """The first sample of the caller's speech; None when the caller was silent."""
    said_until: float = 0.0
    """Its last speech sample."""
    agent: list[Segment] = field(default_factory=list)
    """The agent's speech, as it was heard; pauses shorter than 60 ms do not divide it."""
    heard: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    """The agent's sound without any silence: what is not zero."""
    failed: str = ""
    """The reason why it could not be played to its end."""


async def play(port: int, case: Case, media: MediaThread) -> Played:
    """Place the call and hang up when everything has been observed."""
    async with SimulatedCaller("127.0.0.1", port, media=media) as caller:
        played = Played(case, str(caller.uuid))
        caller.stand_in(case.room())
        try:
            if case.group == TALK:
                await _speak_over(caller, case, played)
            else:
                await _take_turn(caller, case, played)
        except (TimeoutError, CallOver) as problem:
            played.failed = f"{type(problem).__name__}: {problem}"
        played.agent = caller.heard_segments(_JOIN)
        sound = caller.heard_in_order()
        played.heard = sound[sound != 0]
    return played


async def _take_turn(caller: SimulatedCaller, case: Case, played: Played) -> None:
    await caller.hear_speech(_GREETING)
    await caller.hear_silence(round(case.after * 1000), _GREETING)
    await _say(caller, case, played)
    await caller.said()
    with contextlib.suppress(TimeoutError):
        await caller.hear_speech(_ANSWER, after=played.said_until)
        await asyncio.sleep(_BEHIND_CONTINUER)


async def _speak_over(caller: SimulatedCaller, case: Case, played: Played) -> None:
    onset = await caller.hear_speech(_GREETING)
    if case.keys or len(case.sound):
        await asyncio.sleep(max(0.0, onset + case.after - time.monotonic()))
        await _say(caller, case, played)
        caller.press(case.keys)
        await caller.said()
    with contextlib.suppress(TimeoutError, CallOver):  # an agent that keeps talking is known by now
        if case.kind.startswith("interruption"):
            await caller.hear_speech(_ANSWER, after=played.said_until + 0.1)
            await asyncio.sleep(_HEARD_ENOUGH)
        else:
            await caller.hear_silence(round(_LISTENED * 1000), _LONGEST)


async def _say(caller: SimulatedCaller, case: Case, played: Played) -> None:
    """Begin to speak, and record when the first sample left."""
    began = time.monotonic()
    caller.say(case.sound)
    loud = np.flatnonzero(np.abs(case.sound.astype(np.int32)) > SPEECH_LEVEL)
    first = await caller.spoke_after(began)
    played.said_at = first - int(loud[0]) / RATE
    played.said_until = played.said_at + int(loud[-1]) / RATE
