"""The pipeline agent: recogniser → brain → voice, for one call.

The parts are shared by all calls; this class holds the state of one. Answers are given one at a
time: a turn that ends while an answer is being prepared waits for it, a caller who takes the floor
while the agent is heard interrupts it. `cordboard.speech.turns.state_machine` decides about the end
of a turn and about interruptions; see `docs/turn-taking.md`.

While the engine asks the caller for a yes or a no (`listen_aside`), turns go there instead, and an
answer that waits for its tool keeps waiting: it then answers the caller's latest turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import structlog

from cordboard.agent_api.agent import (
    AgentAudioDone,
    AgentFailed,
    AgentSession,
    Interrupted,
    TakesNotes,
    ToolAsked,
    ToolCancelled,
    Usage,
    Used,
)
from cordboard.agent_api.dialogue import (
    Brain,
    Dialogue,
    DialogueSession,
    Overhearer,
    Preparer,
)
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import PaidVoice, Voice
from cordboard.agents.pipeline.speech_output import SpeechOutput
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.config.conversation import BargeIn
from cordboard.errors import AgentError, FailureKind
from cordboard.speech.turns.events import (
    AgentVoice,
)
from cordboard.speech.user_turns import HearingParts, UserTurns
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolAsk, ToolReply

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """The shared parts of a pipeline, and its settings."""

    hearing: HearingParts
    brain: Brain
    voice: Voice
    barge_in: BargeIn = "on"


class PipelineAgent:
    """Implements `cordboard.agent_api.agent.Agent`."""

    def __init__(self, parts: PipelineParts) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: list[asyncio.Task[None]] = []
        """Answers being given or waiting for their turn, oldest first."""
        self._answered_turn = 0
        """The turn that the current answer belongs to."""
        self._fillers: set[asyncio.Task[None]] = set()
        self._questions: set[asyncio.Task[None]] = set()
        """Tasks that speak while the engine asks for a yes or a no."""
        self._asks: dict[str, asyncio.Future[ToolReply]] = {}
        self._asked = 0
        self._hearing: UserTurns | None = None
        self._aside: Callable[[str], None] | None = None
        self._closed = False

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_8K,)

    @property
    def payload(self) -> PayloadLimits:
        return self._parts.brain.payload

    async def prepare(self) -> None:
        """Do nothing: the parts are ready."""

    async def start(self, session: AgentSession) -> None:
        self._session = session
        said = session.history
        owed = said[-1].text if said and said[-1].who == "caller" else ""
        self._dialogue: Dialogue = self._parts.brain.open(
            DialogueSession(
                session.prompt,
                session.toolbox,
                self._ask_tool,
                session.variables,
                session.greeting,
                said[:-1] if owed else said,
                self._use,
            )
        )
        hearing = UserTurns(self._parts.hearing, session, self._dialogue, self, self._spawn)
        self._mouth = SpeechOutput(self._voice(), session, hearing.floor_is_free, self._fail)
        self._hearing = hearing
        if session.greeting:
            self._queue_answer(partial(self._greet, session.opening or (session.greeting,)))
        elif owed:
            self._queue_answer(partial(self._answer, 0, owed))

    def hear(self, pcm: bytes) -> None:
        if self._hearing is not None:
            self._hearing.hear(pcm)

    def hear_key(self, key: str) -> None:
        """Note the key, because its tone is not a voice. The call records keys; the brain does not
        use them."""
        if self._hearing is not None:
            self._hearing.key_pressed()

    def answer_tool(self, reply: ToolReply) -> None:
        future = self._asks.pop(reply.ask_id, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        if self._aside is None:
            self._dialogue.interrupted(heard)

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        mouth = self._mouth
        match speech.purpose:
            case "continuer":
                task = self._spawn_needless(self._say(mouth.encourage, speech), self._fillers)
            case "filler":
                task = self._spawn_needless(self._say(mouth.fill, speech), self._fillers)
            case "approval":
                task = self._spawn_needless(self._ask(speech), self._questions)
            case "late answer" | "operator" | "menu":
                for answer in self._answers if speech.interrupts else ():
                    answer.cancel()
                task = self._queue_answer(partial(self._tell, speech))
            case _:
                task = self._spawn(self._say(mouth.say, speech))
        task.add_done_callback(lambda _: None if self._closed else speech.drop())

    def own_voice(self) -> Voice | None:
        """See `HasVoice`."""
        return self._voice()

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        dialogue = self._dialogue
        return isinstance(dialogue, TakesNotes) and dialogue.take_note(text)

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        self._aside = take
        for question in tuple(self._questions):
            question.cancel()
        if self._hearing is not None:
            self._hearing.expect_yes_or_no(take is not None and yes_or_no)

    async def close(self) -> None:
        self._closed = True
        if self._hearing is not None:
            await self._hearing.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._hearing is not None and isinstance(self._dialogue, Preparer):
            self._dialogue.close()

    # user_turns.HearingListener

    def agent_voice(self) -> AgentVoice:
        if not self._session.speaking():
            return AgentVoice.SILENT
        manners = self._parts.barge_in
        if manners == "off" or (manners == "greeting_protected" and self._mouth.protected):
            return AgentVoice.PROTECTED
        return AgentVoice.OPEN

    def turn_heard(self, turn: int, text: str, *, wants_answer: bool) -> None:
        if self._aside is not None:
            self._take_aside(turn, text, self._aside, wants_answer=wants_answer)
            return
        answer = partial(self._answer, turn, text) if wants_answer else partial(self._leave, turn)
        self._queue_answer(answer)

    def _take_aside(
        self, turn: int, text: str, take: Callable[[str], None], *, wants_answer: bool
    ) -> None:
        """Pass the caller's words to the engine; the answer in progress continues in this turn."""
        self._answered_turn = turn
        if not self._answers:
            self._emit_unless_closed(AgentAudioDone(turn))
        if wants_answer:
            take(text)

    def caller_cuts_in(self) -> None:
        answers = () if self._aside is not None else self._answers
        for task in (*answers, *self._questions, *self._fillers):
            task.cancel()
        self._session.emit(Interrupted(self._loop.time()))

    def hearing_failed(self, reason: str, kind: FailureKind = "internal") -> None:
        self._fail(reason, kind)

    # Answering.

    @property
    def _turn(self) -> int:
        return self._hearing.turn if self._hearing is not None else 0

    async def _greet(self, pieces: Iterable[str]) -> None:
        try:
            for piece in pieces:
                await self._mouth.speak(0, piece, greeting=True)
        finally:
            self._emit_unless_closed(AgentAudioDone(0))

    async def _answer(self, turn: int, text: str) -> None:
        self._answered_turn = turn
        try:
            async with aclosing(self._dialogue.respond(text)) as sentences:
                async for sentence in sentences:
                    await self._mouth.speak(self._answered_turn, sentence)
        finally:
            self._emit_unless_closed(AgentAudioDone(self._answered_turn))

    async def _leave(self, turn: int) -> None:
        """End a turn that needs no answer."""
        self._emit_unless_closed(AgentAudioDone(turn))

    async def _tell(self, speech: Speech) -> None:
        turn = self._turn
        try:
            if isinstance(self._dialogue, Overhearer):
                self._dialogue.said_besides(speech.text)
            await self._mouth.say(turn, speech)
        finally:
            self._emit_unless_closed(AgentAudioDone(turn))

    def _queue_answer(
        self, answer: Callable[[], Coroutine[None, None, None]]
    ) -> asyncio.Task[None]:
        """Queue an answer: answers follow one another in the order of the turns."""
        task = self._spawn(self._after_the_last(answer, self._answers[-1:]))
        self._answers.append(task)
        task.add_done_callback(self._answers.remove)
        return task

    @staticmethod
    async def _after_the_last(
        answer: Callable[[], Coroutine[None, None, None]], before: list[asyncio.Task[None]]
    ) -> None:
        if before:
            await asyncio.wait(before)
        await answer()

    async def _say(self, say: Callable[[int, Speech], Awaitable[None]], speech: Speech) -> None:
        try:
            await say(self._turn, speech)
        finally:
            if all(answer.done() for answer in self._answers):
                self._emit_unless_closed(AgentAudioDone(self._turn))

    async def _ask(self, question: Speech) -> None:
        """Ask the engine's question: the only speech of its turn, even if an answer is waiting."""
        turn = self._turn
        await self._mouth.say(turn, question)
        self._emit_unless_closed(AgentAudioDone(turn))

    # Tools.

    async def _ask_tool(
        self, name: str, arguments: JsonObject, *, confirmed: bool = False
    ) -> ToolReply:
        self._asked += 1
        ask_id = f"{self._turn}.{self._asked}"
        ask = ToolAsk(ask_id, name, arguments, self._turn, confirmed)
        future: asyncio.Future[ToolReply] = self._loop.create_future()
        self._asks[ask.ask_id] = future
        self._session.emit(ToolAsked(ask))
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop(ask.ask_id, None) is not None:
                self._emit_unless_closed(ToolCancelled(ask.ask_id))
            raise

    # Housekeeping.

    def _emit_unless_closed(self, event: AgentAudioDone | ToolCancelled | AgentFailed) -> None:
        if not self._closed:
            self._session.emit(event)

    def _voice(self) -> Voice:
        """The voice, which reports its cost to the call."""
        voice = self._parts.voice
        if isinstance(voice, PaidVoice):
            return voice.for_call(self._use)
        return voice

    def _use(self, usage: Usage) -> None:
        self._session.emit(Used(usage))  # also at the very end

    def _fail(self, reason: str, kind: FailureKind = "internal") -> None:
        log.error("agent_failed", call_id=self._session.call_id, reason=reason, kind=kind)
        self._emit_unless_closed(AgentFailed(reason, kind))

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _spawn_needless(
        self, work: Coroutine[None, None, None], kept: set[asyncio.Task[None]]
    ) -> asyncio.Task[None]:
        """Start work that may become needless, and keep its task so that it can be cancelled."""
        task = self._spawn(work)
        kept.add(task)
        task.add_done_callback(kept.discard)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Task border: report a failure here, so that it does not end in silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, AgentError):
                self._fail(str(error), error.kind)
                return
            log.error("agent_task_failed", call_id=self._session.call_id, exc_info=error)
            self._emit_unless_closed(AgentFailed(f"internal error: {type(error).__name__}"))
