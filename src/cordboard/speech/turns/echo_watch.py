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
from cordboard.speech.turns.echo_doubt import EchoDoubt

log = structlog.get_logger()

EXPLAINS = 0.7
"""Share of a sound that the echo guard must explain for it to be the agent's own."""
JUDGED_MS = 200
"""Milliseconds of sound that each question is about."""
EVERY = 0.08
"""Seconds between two questions while the voice continues."""
FORGOTTEN_AFTER = 0.3
"""Seconds after which an answer is not valid for a new voice."""


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
