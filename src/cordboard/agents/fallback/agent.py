"""An agent made of several, one after the other: when one fails, the next one takes over.

    agent = FallbackAgent(open, ("openai", "local"), "One moment please.", voice)

To the call it is one agent (`Agent`). When the current one fails, at the start or in the middle of
a word, the next provider of the chain is opened with the conversation so far; a caller who waits
hears a request to wait, and their words meanwhile are kept. Turns continue, waiting tool calls are
given up (a tool that changes the world is finished, and its result is reported), answers of tools
are not lost. Only when the last one has failed does the call get `AgentFailed`, or `start` raises
`AgentError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentBroke,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    AgentTrouble,
    CallerStarted,
    CallerText,
    TakesNotes,
    ToolAsked,
    ToolCancelled,
    Used,
)
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import HasVoice, Voice
from cordboard.agents.fallback.active import ActiveAgent
from cordboard.agents.fallback.history import SharedHistory
from cordboard.agents.fallback.spoken_so_far import SpokenSoFar
from cordboard.agents.fallback.tool_memory import ToolMemory
from cordboard.agents.fallback.unavailable import UnavailableAgent
from cordboard.agents.provider_health import ProviderHealth
from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.config.schema import Config
from cordboard.errors import AgentError, FailureKind, VoiceError
from cordboard.speech.caller_sound import CallerSound
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import ToolReply

log = structlog.get_logger()


START_SECONDS = 14.0
"""Limit for all of a chain to start, within the limit of a call (`calls.call`). Each
remaining provider gets an equal part of the remaining time."""
LONGEST_START = 5.0
"""Limit for one agent while there is another: a working one has started within a second or two."""
HOLD_ON = 4.0
"""Time after which a caller who was not greeted yet is asked to wait."""


LIMIT = 4.0
"""Timeout of the voice in seconds."""


async def say_bridge(
    voice: Voice, text: str, target: AudioFormat, write: Callable[[bytes], None]
) -> None:
    """Write the text as sound; only part of it, or nothing, when the voice fails."""
    source = AudioFormat("slin", target.rate)
    transcoder = Transcoder(source, target)
    try:
        async with asyncio.timeout(LIMIT):
            async for pcm in voice.speak(text, rate=target.rate):
                write(transcoder.convert(pcm))
    except (VoiceError, TimeoutError) as error:
        log.warning("bridging_phrase_failed", error=repr(error))


def share(seconds: float, others: int) -> float | None:
    """Return the part of the remaining time that an agent may take. None: no limit, because no
    other agent is behind it."""
    part = max(1.0, seconds / (1 + others))
    return min(part, LONGEST_START) if others else None


def sentences(config: Config) -> Iterator[str]:
    """Yield the phrases for callers who wait while the next agent takes over."""
    contexts = config.contexts.values()
    yield from (context.fallback_phrase for context in contexts if context.fallback)


TAKE_OVER, MEANWHILE = "take over", "say meanwhile"
"""Names of tasks: the first one finds the next agent, the second one speaks until then."""


class FallbackAgent:
    """Implements `cordboard.agent_api.agent.Agent`."""

    def __init__(
        self,
        open_agent: Callable[[str], Agent],
        providers: tuple[str, ...],
        phrase: str,
        voice: Voice | None = None,
        health: ProviderHealth | None = None,
    ) -> None:
        """`open_agent(provider)` may raise `AgentError`: then the next one is tried, and when none
        is left, `start` raises it. `phrase`: spoken to a caller who waits for the next agent; by
        `voice`, otherwise by the next agent itself."""
        self._loop = asyncio.get_running_loop()
        self._open = open_agent
        self._left = list(providers)
        """Providers that have not been tried."""
        self._phrase = phrase
        self._voice = voice
        self._health = health
        self._moving = asyncio.Lock()
        """Held while an agent is started, or takes over."""
        self._starting = asyncio.Event()
        self._live = False
        """The current agent has started, and has not failed."""
        self._taking_over = False
        self._failure: AgentError | None = None
        """Failure that the agent reported while it was being started."""
        self._troubles: list[AgentTrouble] = []
        """Troubles to be reported when there is a session."""
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: AgentSession | None = None
        self._aside: Callable[[str], None] | None = None
        self._aside_yes_or_no = True
        self._keys: list[str] = []
        self._watcher: Callable[[bytes], None] | None = None
        self._watching = False
        self._conversation = SharedHistory()
        self._caller = CallerSound()
        self._speaks = False
        """The caller was speaking when the last agent was lost."""
        self._spoken = SpokenSoFar()
        self._tools = ToolMemory(())
        self._notes: list[str] = []
        """Notes for the model. Each further agent has them in its prompt."""
        self._noted = 0
        """Number of notes that the current agent has."""
        self._seats = 0
        self._seat = self._first_seat()
        self.formats = self._seat.agent.formats

    # cordboard.agent_api.agent.Agent

    @property
    def payload(self) -> PayloadLimits:
        return self._seat.agent.payload

    async def prepare(self) -> None:
        seconds = START_SECONDS
        while not self._starting.is_set():
            began = self._loop.time()
            try:
                async with asyncio.timeout(share(seconds, len(self._left))):
                    await self._seat.agent.prepare()
            except Exception as error:  # noqa: BLE001 - border: the next one may succeed
                failure = self._understood(error)
                if self._starting.is_set():
                    return  # `start` fails with it too, and continues from there
                if not self._left:
                    raise failure from None
                self._leave(failure)
                seconds -= self._loop.time() - began
            else:
                return

    async def start(self, session: AgentSession) -> None:
        self._session = session  # no wait for an agent still preparing: it may begin to speak
        self._starting.set()
        self._conversation = SharedHistory(session.history)
        self._spoken = SpokenSoFar(session.format)
        self._tools = ToolMemory(session.toolbox)
        async with self._moving:
            holding = self._loop.call_later(HOLD_ON, self._hold_on, session)
            try:
                await self._start(session, START_SECONDS)
            finally:
                holding.cancel()
        self._catch_up()

    def hear(self, pcm: bytes) -> None:
        if self._left or not self._live:
            self._caller.keep(pcm)
        if self._live:
            self._caller.pass_on(pcm, self._seat.hear)

    def hear_key(self, key: str) -> None:
        if self._live:
            self._seat.agent.hear_key(key)
        else:
            self._keys.append(key)

    def answer_tool(self, reply: ToolReply) -> None:
        if self._tools.answered(reply) and self._live:
            self._seat.answer_tool(reply)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        self._conversation.interrupted(heard, turn)
        if self._live:
            self._seat.interrupted(heard, heard_ms, turn)

    def recover(self, reason: str) -> bool:
        if not self._live:
            return self._taking_over
        if self._seat.agent.recover(reason):
            return True
        if not self._left:
            return False
        self._lose(AgentError(reason, "stalled"))
        return True

    def say(self, speech: Speech) -> None:
        if self._live or not speech.bridges:
            self._spoken.wanted(speech)
        if self._live:
            self._seat.agent.say(speech)
        elif speech.purpose == "filler" and self._session is not None and not self._closed:
            self._spawn(self._say_meanwhile(self._session, speech), MEANWHILE)
        elif speech.bridges:
            speech.drop()

    def own_voice(self) -> Voice | None:
        """See `HasVoice`."""
        agent = self._seat.agent
        voice = agent.own_voice() if self._live and isinstance(agent, HasVoice) else None
        return voice or self._voice

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        agent = self._seat.agent
        if self._live and not (isinstance(agent, TakesNotes) and agent.take_note(text)):
            return False
        self._notes.append(text)
        return True

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        self._aside, self._aside_yes_or_no = take, yes_or_no
        if self._live:
            self._seat.agent.listen_aside(take, yes_or_no=yes_or_no)

    async def close(self) -> None:
        self._closed, self._live = True, False
        tasks = tuple(task for task in self._tasks if task is not asyncio.current_task())
        for task in tasks:
            if task.get_name() in (TAKE_OVER, MEANWHILE):
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._seat.agent.close()

    # One agent after the other.

    def _first_seat(self) -> ActiveAgent:
        while True:
            provider = self._left.pop(0)
            try:
                return self._seated(provider, self._open(provider))
            except AgentError as error:
                self._note_failure(provider, error)
                if not self._left:
                    return self._seated(provider, UnavailableAgent(error))

    def _seated(self, provider: str, agent: Agent) -> ActiveAgent:
        seat = ActiveAgent(provider, self._seats, agent)
        self._seats += 1
        return seat

    def _leave(self, error: AgentError) -> None:
        """Close the current agent and open the next one. Raises the last error when none can be
        opened."""
        left = self._seat
        if not isinstance(left.agent, UnavailableAgent):  # already reported
            self._note_failure(left.provider, error)
        while self._left:
            provider = self._left.pop(0)
            detail = f"{left.provider} -> {provider}: {error.kind}: {error}"
            try:
                agent = self._open(provider)
            except AgentError as refused:
                self._note_failure(provider, refused)
                error = refused
                self._tell(AgentTrouble("fallback", detail))
                continue
            left.left = True
            self._seat, self._watcher = self._seated(provider, agent), None
            self._spawn(left.agent.close(), "close agent")
            self._tell(AgentTrouble("fallback", detail))
            return
        raise error

    def _note_failure(self, provider: str, error: AgentError) -> None:
        log.warning("agent_lost", provider=provider, kind=error.kind, reason=str(error))
        if self._health is not None:
            self._health.failed(provider, error.kind, str(error))

    def _tell(self, trouble: AgentTrouble) -> None:
        self._troubles.append(trouble)
        if self._session is not None and not self._closed:
            told, self._troubles = self._troubles, []
            for each in told:
                self._session.emit(each)

    async def _start(self, session: AgentSession, seconds: float) -> None:
        """Start the current agent, or one of those after it. Raises `AgentError`."""
        for trouble in self._troubles:
            session.emit(trouble)
        self._troubles.clear()
        while True:
            began = self._loop.time()
            try:
                async with asyncio.timeout(share(seconds, len(self._left))):
                    await self._start_one(session)
            except Exception as error:  # noqa: BLE001 - border: the next one may succeed
                self._end_what_was_said()
                self._leave(self._understood(error))
                seconds -= self._loop.time() - began
            else:
                if self._health is not None:
                    self._health.works(self._seat.provider)
                return

    async def _start_one(self, session: AgentSession) -> None:
        if self._nothing_said():
            self._conversation = SharedHistory(session.history)
        seat, said = self._seat, self._conversation
        self._failure = None
        history = said.history(to_answer=True)
        self._noted = len(self._notes)
        notes = [session.prompt, *self._notes, self._tools.note()]
        await seat.agent.start(
            replace(
                seat.session(session, self._spoken.taken(said.last_turn), self._watch),
                emit=partial(self._take, seat),
                greeting="" if history else session.greeting,
                history=history,
                prompt="\n\n".join(note for note in notes if note),
            )
        )
        if self._failure is not None:
            raise self._failure

    def _says_what_nobody_cuts(self) -> bool:
        """True while a waiting caller hears that they have to wait: their earlier words, heard
        again, must not interrupt that."""
        session = self._session
        return session is not None and not self._speaks and session.speaking()

    def _end_what_was_said(self) -> None:
        """End the sentence that was being spoken, and its turn, which ends with its agent unless
        the caller waits for the answer."""
        said = self._conversation
        self._emit(AgentBroke())
        if said.open_turn is not None and not (said.owes_answer or self._nothing_said()):
            self._emit(AgentAudioDone(said.open_turn))

    def _nothing_said(self) -> bool:
        """True while the caller has heard nothing and said nothing."""
        said = self._conversation
        return not (said.greeted or said.last_turn or said.caller_speaks)

    def _catch_up(self) -> None:
        """Give the new agent the sound and events that arrived before it was ready."""
        self._live = True
        self._caller.somebody_listens(self._says_what_nobody_cuts)
        agent = self._seat.agent
        for key in self._keys:
            agent.hear_key(key)
        self._keys.clear()
        if self._aside is not None:
            agent.listen_aside(self._aside, yes_or_no=self._aside_yes_or_no)
        for note in self._notes[self._noted :]:  # they came during its start
            if not (isinstance(agent, TakesNotes) and agent.take_note(note)):
                self._tell(AgentTrouble("note_lost", self._seat.provider))
        for speech in self._spoken.unsaid():
            agent.say(speech)

    def _lose(self, error: AgentError) -> None:
        """Replace an agent that failed in the middle of the call."""
        if not self._left or self._session is None:
            if self._session is not None:
                self._note_failure(self._seat.provider, error)
                self._session.emit(AgentFailed(str(error), error.kind))
            return
        session, said = self._session, self._conversation
        self._live, self._taking_over = False, True
        self._seat.left = True
        for ask_id in self._tools.agent_lost(asking=self._aside is not None):
            session.emit(ToolCancelled(ask_id))
        self._speaks = said.caller_speaks
        heard_again = said.caller_speaks or said.lacks_words
        if not heard_again:
            self._caller.understood()
        self._caller.nobody_listens()
        waits = said.owes_answer and not said.caller_speaks
        self._end_what_was_said()
        phrase = self._phrase if waits and (self._voice or not heard_again) else ""
        self._spawn(self._take_over(session, error, phrase), TAKE_OVER)

    async def _take_over(self, session: AgentSession, error: AgentError, phrase: str) -> None:
        """`phrase`: spoken to the caller who waits; empty = nothing."""
        try:
            async with self._moving:
                self._leave(error)
                if phrase and self._voice is not None:
                    await asyncio.gather(
                        self._say_meanwhile(session, Speech(phrase, "filler")), self._get_ready()
                    )
                    phrase = ""
                await self._start(session, START_SECONDS)
        except AgentError as last:
            if not self._closed:
                session.emit(AgentFailed(str(last), last.kind))
            return
        finally:
            self._taking_over = False
        self._catch_up()
        if phrase:
            self.say(Speech(phrase, "filler"))

    async def _get_ready(self) -> None:
        try:
            async with asyncio.timeout(share(START_SECONDS, len(self._left))):
                await self._seat.agent.prepare()
        except Exception as error:  # noqa: BLE001 - border: reported there
            reason = str(self._understood(error))
            log.info("agent_not_prepared", provider=self._seat.provider, reason=reason)

    def _hold_on(self, session: AgentSession) -> None:
        """Ask the caller to wait: the first agent, or the one after it, takes long to start, and
        the caller has heard nothing yet. The greeting follows, if there is one."""
        if self._phrase and self._nothing_said() and not self._closed:
            phrase = Speech(self._phrase, "filler")
            work = self._say_meanwhile(session, phrase, over=not session.greeting)
            self._spawn(work, MEANWHILE)

    async def _say_meanwhile(
        self, session: AgentSession, speech: Speech, *, over: bool = False
    ) -> None:
        """Say this with the engine's own voice while there is no agent, completely; say nothing if
        an agent is ready first. It does not belong to the conversation. `over`: it is a turn by
        itself."""
        sound = bytearray()
        if self._voice is not None:
            await say_bridge(self._voice, speech.text, session.format, sound.extend)
        if self._live or self._closed or not sound:
            speech.drop()
            return
        turn = self._conversation.last_turn
        self._emit(AgentText(turn, speech.text, self._loop.time(), speech))
        self._emit(AgentAudio(turn, bytes(sound)))
        if over:
            self._emit(AgentAudioDone(turn))

    # Events of the agents.

    def _take(self, seat: ActiveAgent, event: AgentEvent) -> None:
        if isinstance(event, Used):  # also of an agent that is being replaced
            self._emit(event)
            return
        if seat.left or self._closed:
            return
        match event:
            case AgentFailed(reason, kind):
                if kind == INTERNAL and self._left:
                    self._tell(AgentTrouble(INTERNAL, f"{seat.provider}: {reason}"))
                self._take_failure(kind, reason)
                return
            case CallerStarted(at):
                if not self._conversation.owes_answer:
                    self._caller.understood()  # the words may arrive after the answer
                self._caller.utterance_begins(self._loop.time() - at)
            case CallerText() if not self._conversation.caller_speaks:
                self._caller.understood()
            case AgentAudioDone():
                self._emit_tail(seat, event)
        self._emit(seat.told(event))

    def _emit_tail(self, seat: ActiveAgent, done: AgentAudioDone) -> None:
        tail, told = seat.tail(), seat.told(done)
        if tail and isinstance(told, AgentAudioDone):
            self._emit(AgentAudio(told.turn, tail))

    def _take_failure(self, kind: FailureKind, reason: str) -> None:
        if self._live:
            self._lose(AgentError(reason, kind))
        elif self._failure is None:
            self._failure = AgentError(reason, kind)

    def _emit(self, event: AgentEvent) -> None:
        """Emit the event to the call, and record it."""
        session = self._session
        if session is None:
            return
        self._conversation.take(event)
        self._spoken.take(event)
        match event:
            case ToolAsked(ask):
                again = self._tools.answer_again(ask)
                if again is not None:
                    self._loop.call_soon(self._answer_again, self._seat, again)
                    return
                self._tools.asked(ask)
            case ToolCancelled(ask_id):
                self._tools.cancelled(ask_id)
            case AgentAudioDone() if not self._conversation.owes_answer:
                self._tools.told()
        session.emit(event)

    def _answer_again(self, seat: ActiveAgent, reply: ToolReply) -> None:
        if not (seat.left or self._closed):
            log.info("tool_answered_again", tool=reply.name, ask=reply.ask_id)
            seat.answer_tool(reply)

    # Housekeeping.

    def _watch(self, callback: Callable[[bytes], None]) -> None:
        """Pass the playout to the current agent only."""
        self._watcher = callback
        if not self._watching and self._session is not None:
            self._watching = True
            self._session.watch_playout(self._pass_playout)

    def _pass_playout(self, frame: bytes) -> None:
        if self._watcher is not None:
            self._watcher(frame)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Task border: a failure of ours must not leave the caller in silence."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("agent_task_failed", task=task.get_name(), exc_info=error)
        if task.get_name() != TAKE_OVER:
            self._tell(AgentTrouble(INTERNAL, f"{task.get_name()}: {error!r}"))
        elif self._session is not None and not self._closed:
            self._session.emit(AgentFailed(f"internal error: {type(error).__name__}"))

    def _understood(self, error: Exception) -> AgentError:
        """Return the failure of an agent as `AgentError`. An unexpected exception is our mistake:
        it is reported and counted."""
        if isinstance(error, AgentError):
            return error
        if isinstance(error, TimeoutError):
            return AgentError("it did not start in time", "connect")
        provider = self._seat.provider
        log.error("agent_start_crashed", provider=provider, exc_info=error)
        self._tell(AgentTrouble(INTERNAL, f"{provider}: {error!r}"))
        return AgentError(f"internal error: {type(error).__name__}")
