"""A caller with a script: says each line when the agent has finished speaking.

Works on any line that can speak and listen (`SpeakingLine`): a `PhoneCall`, a `SimulatedCaller`.
Used by the demo, by `cordboard call` and by tests of whole calls.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Protocol

from cordboard.errors import CallOver
from cordboard_testkit.timeline import Samples
from cordboard_testkit.voice_line import CallEnd


class SpeakingLine(Protocol):
    """A call, as a conversation sees it; see `VoiceLine` for the promises."""

    @property
    def end(self) -> CallEnd | None: ...

    def say(self, sound: Samples) -> None: ...

    async def said(self, timeout: float = ...) -> float: ...

    async def hear_speech(self, timeout: float = ..., *, after: float | None = None) -> float: ...

    async def hear_silence(self, ms: int = ..., timeout: float = ...) -> float: ...

    async def ended(self, timeout: float = ...) -> CallEnd: ...

    def hangup(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """One line of the caller: its words, for the record, and its audio."""

    text: str
    sound: Samples
    interrupts_after: float | None = None
    """Begin this many seconds after the start of the agent's answer, instead of waiting for its
    end."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A line that was spoken and the answer to it. Times are `time.monotonic()` seconds."""

    text: str
    said_at: float
    """Time of the line's last sample."""
    answered_at: float | None
    """Start of the agent's answer; None when it did not answer in time."""


@dataclass(slots=True)
class ConversationRecord:
    """The result of a scripted conversation."""

    greeted_at: float | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    end: CallEnd | None = None

    @property
    def hung_up_by_agent(self) -> bool:
        return self.end is not None and self.end.by == "them"


class Conversation:
    """Plays a script on a line.

    `pause_ms`: silence after which the agent has finished.
    `patience`: seconds to wait for the agent to begin, and again for it to finish.
    `on_line` is called with the text of each line as the caller begins to say it.
    `owed` tells whether the answer is still to come when the agent has fallen silent: what was
    heard was a filler. A caller who has only the sound cannot tell.
    """

    def __init__(
        self,
        line: SpeakingLine,
        *,
        pause_ms: int = 700,
        patience: float = 20.0,
        on_line: Callable[[str], None] | None = None,
        owed: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._line = line
        self._owed = owed
        self._pause_ms = pause_ms
        self._patience = patience
        self._on_line = on_line

    async def run(
        self,
        script: Sequence[ScriptLine],
        *,
        wait_for_greeting: bool = True,
        wait_for_hangup: float = 0.0,
    ) -> ConversationRecord:
        """Say every line in turn, then hang up. Ends early, without error, when the agent hangs up.

        `wait_for_hangup`: seconds given to the agent to hang up itself after the last answer.
        """
        record = ConversationRecord()
        with contextlib.suppress(CallOver):
            if wait_for_greeting:
                record.greeted_at = await self._listen(-math.inf)
            for line, following in zip_longest(script, script[1:]):
                await self._exchange(line, record, following)
        record.end = await self._leave(wait_for_hangup)
        return record

    async def _exchange(
        self, line: ScriptLine, record: ConversationRecord, following: ScriptLine | None
    ) -> None:
        if self._on_line is not None:
            self._on_line(line.text)
        self._line.say(line.sound)
        said_at = await self._line.said(timeout=self._patience + len(line.sound) / 8000)
        answered_at: float | None = None
        try:
            answered_at = await self._hear_start(said_at)
            while answered_at is not None and (filler_over := await self._hear_out(following)):
                answered_at = None
                answered_at = await self._hear_start(filler_over)
        finally:  # an agent that hangs up while speaking has answered all the same
            record.exchanges.append(Exchange(line.text, said_at, answered_at))

    async def _listen(self, after: float) -> float | None:
        started_at = await self._hear_start(after)
        if started_at is not None:
            await self._hear_end()
        return started_at

    async def _hear_start(self, after: float) -> float | None:
        try:
            return await self._line.hear_speech(self._patience, after=after)
        except TimeoutError:
            return None

    async def _hear_out(self, following: ScriptLine | None) -> float | None:
        """Listen to the end of the answer, or until the caller's patience is over. Return the end
        of what was heard if it was a filler."""
        if following is None or following.interrupts_after is None:
            over = await self._hear_end()
            owed = over is not None and self._owed is not None and await self._owed()
            return over if owed else None
        with contextlib.suppress(TimeoutError):
            await self._line.ended(timeout=following.interrupts_after)
        return None

    async def _hear_end(self) -> float | None:
        """Return the time of the last sound; None when patience is over."""
        try:
            return await self._line.hear_silence(self._pause_ms, timeout=self._patience)
        except TimeoutError:
            return None

    async def _leave(self, wait_for_hangup: float) -> CallEnd | None:
        if wait_for_hangup and self._line.end is None:
            with contextlib.suppress(TimeoutError):
                await self._line.ended(timeout=wait_for_hangup)
        self._line.hangup()
        return self._line.end
