"""The pipeline agent: ear → recogniser → brain → voice, for one call.

The parts are shared by all calls; this class holds what belongs to one. Recognition starts as soon
as the caller pauses, so that its time hides in the wait for the end of the turn. Answers are given
one at a time: a turn that ends while an answer is being prepared waits for it, a caller who speaks
over the agent's sound interrupts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from cordboard.agents.base import (
    AgentAudio,
    AgentAudioDone,
    AgentFailed,
    AgentSession,
    AgentText,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agents.pipeline.brain.base import Brain, Dialogue, DialogueSession
from cordboard.agents.pipeline.ear import Ear
from cordboard.agents.pipeline.stt.base import Recogniser, SpeechHints, Transcript
from cordboard.agents.pipeline.tts.base import Voice
from cordboard.agents.pipeline.turn_detector import TurnProfile
from cordboard.agents.pipeline.unfinished import is_unfinished
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.vad import VoiceActivityBank
from cordboard.errors import RecogniserError, VoiceError
from cordboard.tools.tool import JsonObject, ToolAsk, ToolReply

log = structlog.get_logger()

BARGE_IN_AFTER = 0.3
"""Seconds of speech over the agent that count as an interruption; a cough is shorter."""
BACKCHANNELS = frozenset({"mhm", "mm-hmm", "mm", "hmm", "uh-huh", "okay", "ok", "right", "yeah"})
"""What listeners murmur while they listen; no reason to stop speaking or to answer."""
SHORTEST_SPEECH_MS = 250
"""Voice shorter than this in which no word was found is a noise, not a turn to be answered."""
SHORT_ANSWER_WORDS = 3
"""A whole answer of up to so many words is taken at once; longer ones may have a tail ("please")
behind a comma's pause of about 0.3 s."""
RECOGNISER_FAILURES = 3
"""So many failed recognitions in a row end the call: the caller cannot be understood."""
_EMPTY = Transcript(text="", no_speech=1.0, confidence=0.0, took_ms=0)


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """The shared parts of a pipeline, and the numbers it follows."""

    bank: VoiceActivityBank
    recogniser: Recogniser
    brain: Brain
    voice: Voice
    profile: TurnProfile
    barge_in: bool = True
    no_input: float = 10.0
    """Seconds in which neither side speaks before the brain is asked to say something."""


@dataclass(frozen=True, slots=True)
class _Utterance:
    """What was heard of one turn."""

    turn: int
    pcm: bytes
    overlapped: bool
    """The caller was hearing the agent when it began, and did not stop it."""
    short: bool


class PipelineAgent:
    """Implements `cordboard.agents.base.Agent`."""

    def __init__(self, parts: PipelineParts) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._speech = asyncio.Lock()
        """Held while one text is turned into sound: two never mix."""
        self._answers: list[asyncio.Task[None]] = []
        """Answers being given or waiting for their turn, oldest first."""
        self._draft: asyncio.Task[Transcript] | None = None
        """Recognition of the present pause, made ahead."""
        self._asks: dict[str, asyncio.Future[ToolReply]] = {}
        self._asked = 0
        self._turn = 0
        self._overlapped = False
        """Whether the present utterance began while the caller was hearing the agent."""
        self._failures = 0
        self._quiet_since = self._loop.time()
        self._closed = False

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_8K,)

    async def start(self, session: AgentSession) -> None:
        self._session = session
        self._dialogue: Dialogue = self._parts.brain.open(
            DialogueSession(
                session.prompt,
                session.toolbox,
                self._ask_tool,
                session.variables,
                session.greeting,
            )
        )
        self._ear = Ear(self._parts.bank, self._parts.profile, self)
        if session.greeting:
            self._queue_answer(self._greet(session.greeting))

    def hear(self, pcm: bytes) -> None:
        self._ear.hear(pcm)

    def hear_key(self, key: str) -> None:
        """Keys are recorded by the call; this agent's brain does not use them."""

    def answer_tool(self, reply: ToolReply) -> None:
        future = self._asks.pop(reply.ask_id, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def interrupted(self, heard: str) -> None:
        self._dialogue.interrupted(heard)

    def say(self, text: str) -> None:
        self._spawn(self._say(text))

    async def close(self) -> None:
        self._closed = True
        if hasattr(self, "_ear"):
            self._ear.close()
        tasks: list[asyncio.Task[None] | asyncio.Task[Transcript]] = list(self._tasks)
        if self._draft is not None:
            tasks.append(self._draft)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What the ear tells.

    def speech_started(self, at: float) -> None:
        self._overlapped = self._session.speaking()
        self._session.emit(CallerStarted(at))
        if self._overlapped and self._parts.barge_in:
            self._loop.call_later(BARGE_IN_AFTER, self._interrupt_if_still_spoken_over)

    def speech_paused(self, utterance: bytes) -> None:
        self._drop_draft()
        self._draft = self._loop.create_task(self._recognise_draft(utterance))

    def speech_resumed(self) -> None:
        self._drop_draft()

    def turn_ended(
        self, utterance: bytes, last_speech_at: float, at: float, voiced_ms: int
    ) -> None:
        self._turn += 1
        self._session.emit(CallerStopped(self._turn, last_speech_at, at))
        draft, self._draft = self._draft, None
        heard = _Utterance(self._turn, utterance, self._overlapped, voiced_ms < SHORTEST_SPEECH_MS)
        self._spawn(self._take_turn(heard, draft))

    def window_judged(self, *, voiced: bool) -> None:
        now = self._loop.time()
        if voiced or self._tasks or self._session.speaking():
            self._quiet_since = now
        elif now - self._quiet_since > self._parts.no_input:
            self._quiet_since = now
            self._turn += 1
            self._queue_answer(self._answer(self._turn, ""))

    def ear_failed(self, error: Exception) -> None:
        self._fail("voice activity detection failed", error)

    # Hearing.

    async def _recognise_draft(self, utterance: bytes) -> Transcript:
        transcript = await self._recognise(utterance, speculative=True)
        text = transcript.text
        short = len(text.split()) <= SHORT_ANSWER_WORDS
        self._ear.text_is(
            complete=short and self._dialogue.is_complete(text), unfinished=is_unfinished(text)
        )
        return transcript

    async def _recognise(self, utterance: bytes, *, speculative: bool) -> Transcript:
        hints = SpeechHints(self._dialogue.hints())
        try:
            transcript = await self._parts.recogniser.transcribe(
                utterance, hints, speculative=speculative
            )
        except RecogniserError as error:
            self._failures += 1
            log.error(
                "recogniser_failed", call_id=self._session.call_id, error=str(error), exc_info=error
            )
            if self._failures >= RECOGNISER_FAILURES:
                self._fail("the recogniser failed", error)
            return _EMPTY
        self._failures = 0
        return transcript

    async def _take_turn(self, heard: _Utterance, draft: asyncio.Task[Transcript] | None) -> None:
        transcript = (
            await draft
            if draft is not None
            else await self._recognise(heard.pcm, speculative=False)
        )
        text = transcript.text
        self._session.emit(CallerText(heard.turn, text, self._loop.time(), transcript.confidence))
        if self._is_no_turn(heard, text):
            return
        if self._session.speaking() and self._parts.barge_in:
            self._interrupt()
        self._queue_answer(self._answer(heard.turn, text))

    def _is_no_turn(self, heard: _Utterance, text: str) -> bool:
        """Noise, and what a listener murmurs, want no answer."""
        if not text:
            return heard.overlapped or heard.short
        murmured = text.lower().strip(" .,!?") in BACKCHANNELS
        return heard.overlapped and murmured and not self._dialogue.is_complete(text)

    # Speaking.

    async def _greet(self, greeting: str) -> None:
        try:
            await self._speak(0, greeting)
        finally:
            self._emit_unless_closed(AgentAudioDone(0))

    async def _answer(self, turn: int, text: str) -> None:
        try:
            async with aclosing(self._dialogue.respond(text)) as sentences:
                async for sentence in sentences:
                    await self._speak(turn, sentence)
        finally:
            self._emit_unless_closed(AgentAudioDone(turn))

    def _queue_answer(self, answer: Coroutine[None, None, None]) -> None:
        """Answers follow one another in the order of the turns."""
        task = self._spawn(self._after_the_last(answer, self._answers[-1:]))
        self._answers.append(task)
        task.add_done_callback(self._answers.remove)

    @staticmethod
    async def _after_the_last(
        answer: Coroutine[None, None, None], before: list[asyncio.Task[None]]
    ) -> None:
        try:
            if before:
                await asyncio.wait(before)
            await answer
        finally:
            answer.close()

    async def _say(self, text: str) -> None:
        try:
            await self._speak(self._turn, text)
        finally:
            if all(answer.done() for answer in self._answers):
                self._emit_unless_closed(AgentAudioDone(self._turn))

    async def _speak(self, turn: int, text: str) -> None:
        session = self._session
        async with self._speech:
            session.emit(AgentText(turn, text, self._loop.time()))
            try:
                async for pcm in self._parts.voice.speak(text, rate=session.format.rate):
                    session.emit(AgentAudio(turn, pcm))
            except VoiceError as error:
                self._fail("the voice failed", error)

    # Being interrupted.

    def _interrupt_if_still_spoken_over(self) -> None:
        if not self._closed and self._ear.hears_voice and self._session.speaking():
            self._interrupt()
            self._overlapped = False

    def _interrupt(self) -> None:
        for task in self._answers:
            task.cancel()
        self._session.emit(Interrupted(self._loop.time()))

    # Tools.

    async def _ask_tool(self, name: str, arguments: JsonObject) -> ToolReply:
        self._asked += 1
        ask = ToolAsk(f"{self._turn}.{self._asked}", name, arguments, self._turn)
        future: asyncio.Future[ToolReply] = self._loop.create_future()
        self._asks[ask.ask_id] = future
        self._session.emit(ToolAsked(ask))
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop(ask.ask_id, None) is not None:
                self._emit_unless_closed(ToolCancelled(ask.ask_id))
            raise

    # Keeping house.

    def _emit_unless_closed(self, event: AgentAudioDone | ToolCancelled | AgentFailed) -> None:
        if not self._closed:
            self._session.emit(event)

    def _fail(self, reason: str, error: Exception) -> None:
        log.error("agent_failed", call_id=self._session.call_id, reason=reason, error=str(error))
        self._emit_unless_closed(AgentFailed(reason))

    def _drop_draft(self) -> None:
        if self._draft is not None:
            self._draft.cancel()
            self._draft = None

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        """A task border: nothing that fails here may end in silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("agent_task_failed", call_id=self._session.call_id, exc_info=error)
            self._emit_unless_closed(AgentFailed(f"internal error: {type(error).__name__}"))
