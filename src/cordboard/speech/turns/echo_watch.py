"""Is the voice over the agent's speech the agent's own echo? Answered in time, off the loop.

One question costs milliseconds of processor time, so it runs in a separate thread; a second one
does not start before the first is answered. The turn taker waits one or two windows for the first
answer before it holds the agent's speech: a known echo is never heard as a gap. Used by
`cordboard.speech.user_turns`; event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from enum import Enum
from typing import Protocol

import structlog

from cordboard.audio.echo import EchoVerdict
from cordboard.audio.levels import SILENCE_DBFS

log = structlog.get_logger()

EXPLAINS = 0.7
"""Share of a sound that the echo guard must explain for it to be the agent's own."""
JUDGED_MS = 200
"""Milliseconds of sound that each question is about."""
EVERY = 0.08
"""Seconds between two questions while the voice continues."""
FORGOTTEN_AFTER = 0.3
"""Seconds after which an answer is not valid for a new voice."""


SURELY_EXPLAINED = 0.9
"""Share of a sound that the guard must explain before the echo level is learned from it."""
LOUDER_DB = 3.0
"""A sound that exceeds the known echo by this much is a voice at once."""
FADES_DB = 2.0
"""Decibels per second by which the expected echo fades while none is heard."""
BLIND = 0.4
"""Longest sound, in seconds, that is doubted: the length of the stretch that the guard fits its
filter to."""
REGAINED = 0.25
"""Seconds of doubt regained in each second in which the guard sees clearly."""
_LONGEST_STEP = 0.12
"""Longest time in seconds for which one answer of the guard is valid."""


class EchoDoubt:
    """Judges whether a sound that the echo guard cannot explain is a voice, or an echo it has lost.
    Pure.

    The guard is blind for 400 ms whenever sound was lost, or came late, on its way to the caller:
    the echo then comes back displaced, and no filter fits it. But a line that has just returned an
    echo continues to do so, as loud as before, and a caller's mouth is nearer to the microphone
    than the telephone's loudspeaker is. So a sound no louder than the known echo of this line is
    doubted for as long as the guard may be blind; a louder or longer sound is a voice. A caller
    softer than the echo is heard about 0.3 s later.

    Found in replayed calls with 23 sentences of the agent (none of the held-out half), -20 dB of
    echo, and up to one frame in a hundred late by up to 0.1 s: 18 of 460 sentences were cut by
    their own echo, with this rule none; of 772 answers of the guard that such a sound was a voice,
    95 % were about sounds at most 1.6 dB louder than the loudest echo before them. 48 interruptions
    over an echo of -20 dB hold the agent as before: 20 ms later in the middle (108 ms), after 153
    ms at the latest.
    """

    def __init__(self) -> None:
        self._level = SILENCE_DBFS
        self._doubted = 0.0
        self._at: float | None = None

    def explained(self, dbfs: float, share: float, now: float) -> None:
        """Note that a sound of this level was an echo; `share` (0..1) is the part the guard
        explains."""
        self.seen(now)
        if share >= SURELY_EXPLAINED:
            self._level = max(self._level, dbfs)

    def seen(self, now: float) -> None:
        """Note that the guard saw clearly at `now` (seconds): an echo, or only the line's noise."""
        self._doubted = max(0.0, self._doubted - REGAINED * self._pass(now))

    def doubts(self, dbfs: float, now: float) -> bool:
        """True if a sound of this level that the guard cannot explain must be taken for echo."""
        step = min(self._pass(now), _LONGEST_STEP)
        if dbfs > self._level + LOUDER_DB or self._doubted >= BLIND:
            return False
        self._doubted += step
        return True

    def _pass(self, now: float) -> float:
        """Return the seconds since the last answer; the known echo fades a little meanwhile."""
        passed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = max(SILENCE_DBFS, self._level - FADES_DB * passed)
        return passed


class Guard(Protocol):
    """The part of `cordboard.audio.echo.EchoGuard` that is used."""

    def sent(self, pcm: bytes) -> None: ...
    def heard(self, pcm: bytes) -> None: ...
    def snapshot(self) -> Callable[[int], EchoVerdict]: ...


class EchoAnswer(Enum):
    """The origin of the present sound."""

    ECHO = "echo"
    """Also a sound no louder than the echo this line has returned before, which may be an echo
    again."""
    NOISE = "noise"
    """No louder than the line's usual noise, even if the voice activity model calls it a voice."""
    VOICE = "voice"
    NOT_YET = "not yet"


class EchoWatch:
    """The echo watch of one call."""

    def __init__(self, guard: Guard, thread: Executor | None, call_id: str = "") -> None:
        """`thread` does the work; None: it is done at once (tests)."""
        self._guard = guard
        self._thread = thread
        self._call_id = call_id
        self._loop = asyncio.get_running_loop()
        self._asked_at = -FORGOTTEN_AFTER
        self._asking = False
        self._failed = False
        self._answer = EchoAnswer.NOT_YET
        self._doubt = EchoDoubt()
        self.sent = guard.sent
        self.heard = guard.heard

    def ask(self) -> EchoAnswer:
        """Return the newest answer; start a new question when one is due."""
        now = self._loop.time()
        if self._failed:
            return EchoAnswer.VOICE
        if now - self._asked_at >= FORGOTTEN_AFTER:
            self._answer = EchoAnswer.NOT_YET
        if not self._asking and (
            now - self._asked_at >= EVERY or self._answer is EchoAnswer.NOT_YET
        ):
            self._asked_at = now
            self._begin()
        return self._answer

    def _begin(self) -> None:
        judge = self._guard.snapshot()
        if self._thread is None:
            self._learn(judge(JUDGED_MS))
            return
        self._asking = True
        try:
            question = self._loop.run_in_executor(self._thread, judge, JUDGED_MS)
        except RuntimeError:  # the thread is gone: the engine is ending
            self._failed = True
            return
        question.add_done_callback(self._answered)

    def _answered(self, question: asyncio.Future[EchoVerdict]) -> None:
        self._asking = False
        if question.cancelled():
            return
        if (error := question.exception()) is not None:
            # Without the guard a caller can still interrupt; with a broken one interruptions would
            # never work.
            self._failed = True
            log.error("echo_guard_failed", call_id=self._call_id, error=repr(error))
            return
        self._learn(question.result())

    def _learn(self, verdict: EchoVerdict) -> None:
        now = self._loop.time()
        if not verdict.stands_out:
            self._doubt.seen(now)
            self._answer = EchoAnswer.NOISE
        elif verdict.explained >= EXPLAINS:
            self._doubt.explained(verdict.heard_dbfs, verdict.explained, now)
            self._answer = EchoAnswer.ECHO
        elif self._answer is not EchoAnswer.VOICE and self._doubt.doubts(verdict.heard_dbfs, now):
            self._answer = EchoAnswer.ECHO
        else:
            # A voice that was certain a moment ago is not doubted in a soft syllable.
            self._answer = EchoAnswer.VOICE
