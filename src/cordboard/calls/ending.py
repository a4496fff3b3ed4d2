"""The end of one call: the first reason given counts, and pending speech is spoken first.

    call continues ──end──▶ over
         └──after_speech──▶ farewell ──heard by the caller──▶ over

From the farewell on the agent hears silence: nothing cuts it short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from cordboard.agent_api.speech import Speech
from cordboard.calls.conversation import Conversation
from cordboard.calls.media.sound import CallSound
from cordboard.calls.offer import LineControl
from cordboard.errors import LineError
from cordboard.observe.metrics import Metrics

log = structlog.get_logger()

TOO_LONG = "I am sorry, this call has reached its time limit. Goodbye."
FAREWELL_LIMIT = 20.0
"""Longest wait, in seconds, for the caller to hear the end of the current speech."""

Result = TypeVar("Result")


STEP_LIMIT = 5.0
"""Timeout in seconds of one step."""
CANCEL_LIMIT = 1.0
"""Seconds that a step has to stop after its timeout."""


async def step(
    name: str,
    work: Coroutine[Any, Any, None],
    trouble: Callable[[str, str], None],
    limit: float = STEP_LIMIT,
) -> None:
    """Run one step in its own task; `trouble(name, message)` is called for failures."""
    task = asyncio.get_running_loop().create_task(work)
    await asyncio.wait((task,), timeout=limit)
    if not task.done():
        task.cancel()
        trouble(name, f"not closed within {limit:g} s")
        await asyncio.wait((task,), timeout=CANCEL_LIMIT)
    elif task.cancelled():
        trouble(name, "closing it was cancelled")
    elif (error := task.exception()) is not None:
        trouble(name, repr(error))


async def give_back(line: LineControl, status: str) -> None:
    """Return the caller to the dialplan; hang up if it does not take them."""
    try:
        await line.decline(status)
    except LineError as error:
        log.warning("decline_failed", status=status, error=str(error))
        await line.hangup("congestion")


class CallEnding:
    """The end of one call."""

    def __init__(self, metrics: Metrics, trouble: Callable[[str, str], None]) -> None:
        """`trouble(where, message)` is called for failures here."""
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._trouble = trouble
        self._ended: asyncio.Future[tuple[str, str]] = self._loop.create_future()
        self._farewell: asyncio.Task[None] | None = None
        self._talk: tuple[Conversation, CallSound] | None = None

    def connect(self, conversation: Conversation, sound: CallSound) -> None:
        """Connect: the caller can be heard and spoken to."""
        self._talk = conversation, sound

    @property
    def is_over(self) -> bool:
        """True if the call must end now."""
        return self._ended.done()

    @property
    def says_farewell(self) -> bool:
        """True if the call ends as soon as its farewell is heard."""
        return self._farewell is not None

    @property
    def result(self) -> tuple[str, str]:
        """Outcome and reason of a call that is over."""
        return self._ended.result()

    async def wait(self, longest: float) -> tuple[str, str]:
        """Wait for the end, which comes after `longest` seconds at the latest. Return outcome and
        reason."""
        limit = self._loop.call_later(
            longest, self.after_speech, "completed", "max_duration", TOO_LONG
        )
        try:
            return await self._ended
        finally:
            limit.cancel()

    def end(self, outcome: str, reason: str) -> None:
        """End the call now. The first reason given counts."""
        if not self._ended.done():
            self._ended.set_result((outcome, reason))

    async def unless_over(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Do the work, but cancel it (None) when the call must end."""
        if self._ended.done():
            work.close()
            return None
        task = self._loop.create_task(work)
        both: set[asyncio.Future[Any]] = {task, self._ended}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        if not task.done():
            await asyncio.wait((task,), timeout=STEP_LIMIT)
        if not task.done() or task.cancelled():
            return None
        if self._ended.done() and task.exception() is not None:
            log.info("given_up", error=repr(task.exception()))
            return None
        return task.result()

    def after_speech(self, outcome: str, reason: str, farewell: str = "") -> None:
        """End the call when the caller has heard the agent's current speech, and the farewell."""
        if self._talk is None:
            return
        conversation, _ = self._talk
        begun = self.after(self._hear_out(conversation, outcome, reason))
        if begun and farewell:
            conversation.speech.say(Speech(farewell, "farewell"))

    def after(self, farewell: Coroutine[Any, Any, None]) -> bool:
        """End the call by this work, which calls `end`. False when it is ending already."""
        if self._farewell is not None or self._ended.done() or self._talk is None:
            farewell.close()
            return False
        conversation, sound = self._talk
        conversation.begin_farewell()
        sound.deafen()
        self._farewell = self._loop.create_task(farewell)
        self._farewell.add_done_callback(self._farewell_over)
        return True

    def close(self) -> None:
        """Cancel the farewell: the call is over."""
        if self._farewell is not None:
            self._farewell.cancel()

    async def _hear_out(self, conversation: Conversation, outcome: str, reason: str) -> None:
        await heard_out(conversation)
        self.end(outcome, reason)

    def _farewell_over(self, farewell: asyncio.Task[None]) -> None:
        """Task border: without its farewell the call would never end."""
        if farewell.cancelled() or (error := farewell.exception()) is None:
            return
        log.error("farewell_failed", exc_info=error)
        self._metrics.internal_error("farewell")
        self._trouble("farewell", repr(error))
        self.end("failed", "internal_error")


async def heard_out(conversation: Conversation, seconds: float = FAREWELL_LIMIT) -> None:
    """Wait until the caller has heard all pending speech, within a limit."""
    try:
        async with asyncio.timeout(seconds):
            await conversation.spoken_out()
    except TimeoutError:
        log.warning("last_words_cut", limit=seconds)
