"""The engine's own recogniser in a realtime agent's call, for a question of the engine.

Meanwhile the service hears silence, so that it neither answers the caller's answer nor cancels its
tool calls; the offline recogniser of the pipelines listens instead. One per question.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Coroutine

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    AgentEvent,
    AgentSession,
    AgentTrouble,
    CallerPauses,
    CallerStopped,
    CallerText,
    Interrupted,
)
from cordboard.audio.format import SLIN_8K
from cordboard.audio.transcoder import Transcoder
from cordboard.errors import FailureKind
from cordboard.speech.turns.events import AgentVoice
from cordboard.speech.user_turns import HearingParts, UserTurns

log = structlog.get_logger()


class BackgroundListening:
    """Listens for one answer. Implements `user_turns.HearingListener`."""

    def __init__(
        self,
        parts: HearingParts,
        session: AgentSession,
        next_turn: Callable[[], int],
        agent_voice: Callable[[], AgentVoice],
        take: Callable[[str], None],
        failed: Callable[[str], None],
        *,
        yes_or_no: bool = True,
    ) -> None:
        """`take` gets the words of each turn; `next_turn` numbers the turns of the call."""
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._next_turn = next_turn
        self._voice = agent_voice
        self._take = take
        self._failed = failed
        self._turns: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_8k = Transcoder(session.format, SLIN_8K)
        own = dataclasses.replace(
            session, emit=self._emit, format=SLIN_8K, watch_playout=lambda _: None
        )
        without_echo = dataclasses.replace(parts, echo=None)
        self._hearing = UserTurns(without_echo, own, _NoDialogue(), self, self._spawn)
        self._hearing.expect_yes_or_no(yes_or_no)

    def hear(self, sound: bytes) -> None:
        """Take one frame of the call's sound."""
        self._hearing.hear(self._to_8k.convert(sound))

    async def close(self) -> None:
        await self._hearing.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # user_turns.HearingListener

    def turn_heard(self, turn: int, text: str, *, wants_answer: bool) -> None:
        if wants_answer:
            self._take(text)

    def caller_cuts_in(self) -> None:
        self._session.emit(Interrupted(self._loop.time()))

    def agent_voice(self) -> AgentVoice:
        return self._voice()

    def hearing_failed(self, reason: str, kind: FailureKind = "internal") -> None:
        self._failed(reason)

    # Inside.

    def _emit(self, event: AgentEvent) -> None:
        match event:
            case CallerStopped(turn):
                self._turns[turn] = self._next_turn()
                event = dataclasses.replace(event, turn=self._turns[turn])
            case CallerText(turn):
                event = dataclasses.replace(event, turn=self._turns.get(turn, turn))
            case CallerPauses():
                return
        self._session.emit(event)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Task border: report a failure here, so that it does not end in silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("ears_task_failed", call_id=self._session.call_id, exc_info=error)
            self._session.emit(AgentTrouble(INTERNAL, f"ears: {error!r}"))
            self._failed(f"internal error: {type(error).__name__}")


class _NoDialogue:
    """Stands in for a dialogue: only the engine talks with the caller. Implements
    `dialogue.Dialogue`."""

    def hints(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, text: str) -> bool:
        return False

    def understood(self, text: str) -> str:
        return text

    async def respond(self, text: str) -> AsyncGenerator[str, None]:
        nothing: tuple[str, ...] = ()
        for sentence in nothing:
            yield sentence

    def interrupted(self, heard: str) -> None:
        """Do nothing: nothing was spoken."""
