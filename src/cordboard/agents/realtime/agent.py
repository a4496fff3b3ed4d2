"""The realtime agent: one service's session in one call, the same for all services.

    call ⇄ RealtimeAgent ⇄ ServiceProtocol        (interprets the service's messages)
             ├ Turns                        turns, answers, tools
             ├ ServiceLink                  connects, keeps the connection, reconnects
             ├ EngineSpeech                 the engine's sentences, by either voice
             └ BackgroundListening          a yes or a no, while the service hears silence

It implements `agent_api.agent.Agent` towards the call; the protocol sees it as `ServiceSide`.
Nothing here is particular to a service; that is all in the protocols.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    AgentAudio,
    AgentAudioDone,
    AgentBroke,
    AgentEnded,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    AgentTrouble,
    CallerWaits,
    Said,
    TakesNotes,
)
from cordboard.agent_api.service_protocol import Resumed, ServiceProtocol
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agent_api.tts import Voice
from cordboard.agents.fallback.history import SharedHistory
from cordboard.agents.realtime.aside import BackgroundListening
from cordboard.agents.realtime.audio_replay import AudioReplay
from cordboard.agents.realtime.engine_speech import EngineSpeech
from cordboard.agents.realtime.greetings import GreetingCache, GreetingListener, greeting_key
from cordboard.agents.realtime.reconnecting import Connect, LinkSettings, ServiceLink
from cordboard.agents.realtime.turns import Turns
from cordboard.audio.format import AudioFormat
from cordboard.config.conversation import BargeIn
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import AgentError, FailureKind
from cordboard.net.service_websocket import ServiceConnection
from cordboard.speech.turns.events import AgentVoice
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolReply

log = structlog.get_logger()

WATCH = 0.5
"""Seconds between two checks for a stalled service."""
SLEEPS = 3.0
"""Seconds without a message from a service whose turn it is; then no sentence is requested from
it."""
BETWEEN_PIECES = 4.0
"""Seconds without sound for the caller before an answer counts as broken off: the audio sent ahead
is heard first."""
GREETING_LIMIT = 5.0
"""Seconds without a message from a service that owes the greeting; after that the caller has waited
long enough."""


@dataclass(frozen=True, slots=True)
class RealtimeParts:
    """Resources that all realtime agents of an engine share."""

    tls: ssl.SSLContext
    voice: Voice | None = None
    """The engine's own voice; None where the offline models are not installed."""
    ears: HearingParts | None = None
    greetings: GreetingCache | None = None
    """Cache of the greetings that services have spoken; None = no cache."""
    warm: Callable[[], ServiceConnection | None] = lambda: None
    """Returns a connection that was opened ahead, if there is one."""
    connection: Connect = ServiceConnection


class RealtimeAgent:
    """Implements `agent_api.agent.Agent`."""

    def __init__(
        self,
        protocol: ServiceProtocol,
        settings: RealtimeProvider,
        provider: str,
        parts: RealtimeParts,
        barge_in: BargeIn = "on",
    ) -> None:
        """`provider`: the type of the provider, as in the configuration."""
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._provider = provider
        self._parts = parts
        self._barge_in = barge_in
        self._settings = settings
        self._greeted = False
        """The caller has been greeted: the service must not greet again."""
        self._stall = settings.stall_ms / 1000
        self._greeting_failed = False
        """The greeting failed once."""
        link = LinkSettings(
            provider, settings.connect_timeout_ms / 1000, settings.reconnect_attempts
        )
        self._link = ServiceLink(protocol, parts.tls, link, self, parts.warm, parts.connection)
        self._so_far = SharedHistory()
        self._lately = AudioReplay()
        self._unanswerable = False
        """The caller's last words have no transcript: the next connection has to hear them."""
        self._waiting_replies: list[ToolReply] = []
        """Results that arrived without a connection."""
        self._waiting_notes: list[str] = []
        """Notes that arrived while the service was still accepting the session."""
        self._aside: BackgroundListening | None = None
        self._take_aside: Callable[[str], None] | None = None
        self._closing_ears: set[asyncio.Task[None]] = set()
        self._recovered_turn = -1
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._sound_at = 0.0
        """Loop time of the last frame of sound that was sent."""
        self._heard_at = 0.0
        """Loop time at which the caller last heard anything."""
        self._session: AgentSession | None = None
        self._ended = False
        """The service has ended the conversation: the end of its connection is not a failure."""
        self._closed = False

    # agent_api.agent.Agent

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return self._protocol.formats

    @property
    def payload(self) -> PayloadLimits:
        return self._protocol.payload

    async def prepare(self) -> None:
        await self._link.open()

    async def start(self, session: AgentSession) -> None:
        self._session = session
        self._silence = session.format.silence()
        self._so_far = SharedHistory(session.history)
        self._own = EngineSpeech(self._parts.voice, session.format, self._settings, self)
        self._talk = Turns(session, self._provider, self, self._own)
        self._host = ServiceSide(self._link, self._talk, self._own, self)
        self._greet_from_memory(session)
        own = session.greeting and not self._greeted and not self._protocol.speaks_greeting
        if own and self._parts.voice is not None:
            self._greet()
            own = False
        try:
            await self._link.start()
        except AgentError:
            await self._own.said()  # the next agent does not greet again
            raise
        self._sound_at = self._loop.time()
        self._watch()
        if own:
            self._greet()

    def _greet(self) -> None:
        if self._session is not None:
            self._talk.owes = False
            self._own.say(Speech(self._session.greeting, "greeting"))

    def hear(self, pcm: bytes) -> None:
        if self._session is None:
            return
        self._talk.hear(pcm)
        if self._aside is not None:
            self._aside.hear(pcm)
            pcm = self._silence
        elif self._barge_in != "on" and self._agent_voice() is AgentVoice.PROTECTED:
            pcm = self._silence
        self._talk.keep_for_another(pcm, self._lately)
        if self._link.takes_sound:
            self._sound_at = self._loop.time()
            self._lately.pass_on(pcm, self._protocol.hear)

    def hear_key(self, key: str) -> None:
        """Ignore the key: the call records keys and tools read them; the services take none."""

    def answer_tool(self, reply: ToolReply) -> None:
        if not self._talk.tool_answered(reply.ask_id):
            return
        if self._link.up:
            self._protocol.answer_tool(reply)
        else:
            self._waiting_replies.append(reply)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        self._so_far.interrupted(heard, turn)
        self._talk.cut_by_call()
        self._protocol.interrupted(self._talk.cut_items(heard_ms, turn))

    def recover(self, reason: str) -> bool:
        """Replace the connection, once per turn: it may be the reason."""
        if self._closed or self._recovered_turn == self._talk.turn or not self._link.up:
            return False
        self._recovered_turn = self._talk.turn
        self._link.leave(reason)
        return True

    def own_voice(self) -> Voice | None:
        """See `HasVoice`: the engine's, since the service speaks in its session alone."""
        return self._parts.voice

    def say(self, speech: Speech) -> None:
        self._own.say(speech)

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`. A later connection has the note in its prompt."""
        protocol, session = self._protocol, self._session
        if session is None or not isinstance(protocol, TakesNotes):
            return False
        if not self._link.up:
            self._waiting_notes.append(text)
        elif not protocol.take_note(text):
            return False
        self._session = replace(session, prompt=f"{session.prompt}\n\n{text}".strip())
        return True

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        self._take_aside = take
        self._own.drop_questions()
        ears, session = self._parts.ears, self._session
        if self._aside is not None:
            self._close_ears(self._aside)
            self._aside = None
        if ears is None or session is None:
            self._protocol.listen_aside(take is not None)
        elif take is not None:
            self._aside = BackgroundListening(
                ears,
                session,
                self._next_turn,
                self._agent_voice,
                take,
                self._ears_failed,
                yes_or_no=yes_or_no,
            )

    async def close(self) -> None:
        if self._link.up:
            self._protocol.goodbye()
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        if self._session is not None:
            await self._own.close()
        if self._aside is not None:
            self._close_ears(self._aside)
        await asyncio.gather(*self._closing_ears, return_exceptions=True)
        await self._link.close()

    # reconnecting.LinkOwner

    def introduce(self, *, again: bool) -> None:
        session = self._session
        if session is None:
            raise RuntimeError("the link was started before the agent")
        self._waiting_notes.clear()  # they are in the prompt
        resumed = None
        if again:
            owes = self._talk.owes and not (self._talk.asks or self._unanswerable)
            resumed = Resumed(self._so_far.history(to_answer=owes), owes)
        elif session.history:
            owes = session.history[-1].who == "caller"
            resumed = Resumed(session.history, owes)
        elif self._greeted:
            resumed = Resumed((Said("agent", session.greeting),), owes_answer=False)
        self._protocol.begin(session, self._host, resumed)

    def receive_text(self, message: bytes) -> None:
        try:
            self._protocol.receive_text(message)
        except Exception as error:  # border: one message must not cost the connection
            log.exception("provider_message_crashed", provider=self._provider)
            self.emit(AgentTrouble(INTERNAL, f"{self._provider}: {error!r}"))

    def receive_binary(self, data: bytes) -> None:
        self._protocol.receive_binary(data)

    def link_lost(self) -> None:
        self._unanswerable = self._talk.not_written_down
        self._lately.lost(unheard=self._talk.unheard)
        self._own.service_stopped()
        self._talk.lost()

    def link_restored(self, reason: str) -> None:
        log.warning("provider_reconnected", provider=self._provider, reason=reason)
        self.emit(AgentTrouble("reconnected", reason))

    def link_failed(self, kind: FailureKind, reason: str) -> None:
        self._talk.given_up()
        self._own.service_gone()
        if self._ended:
            return
        log.error("agent_failed", provider=self._provider, kind=kind, reason=reason)
        self.emit(AgentFailed(reason, kind))

    # ServiceSide

    def session_accepted(self) -> None:
        waiting, self._waiting_replies = self._waiting_replies, []
        for reply in waiting:
            self._protocol.answer_tool(reply)
        notes, self._waiting_notes = self._waiting_notes, []
        for note in notes:
            if not (isinstance(self._protocol, TakesNotes) and self._protocol.take_note(note)):
                self.emit(AgentTrouble("note_lost", self._provider))
        self._own.connected_again()
        self._unanswerable = False
        self._lately.accepted()

    def caller_said(self, text: str) -> None:
        if self._take_aside is not None and self._aside is None:
            self._take_aside(text)

    def ignored(self, why: str, detail: str = "") -> None:
        log.info("provider_message_ignored", provider=self._provider, why=why, detail=detail[:200])
        self.emit(AgentTrouble(why, detail[:200]))

    # turns.Stage and engine_speech.SpeechHost

    def emit(self, event: AgentEvent) -> None:
        if self._closed or self._session is None:
            return
        self._so_far.take(event)
        self._ended = self._ended or isinstance(event, AgentEnded)
        self._session.emit(event)
        spoken = event.speech if isinstance(event, AgentText) else None
        if spoken is not None and spoken.purpose == "operator":
            self.take_note(f"[An operator had this said to the caller in your name: {spoken.text}]")

    def turn_now(self) -> int:
        return self._talk.turn

    def service_speaks(self) -> bool:
        return self._talk.answering and not self._talk.falters

    def service_sleeps(self) -> bool:
        return not self._talk.asks and self._loop.time() - self._link.last_message_at >= SLEEPS

    def thinks_for(self) -> float | None:
        if self._talk.asks or self._talk.falters:
            return None
        return self._loop.time() - self._talk.thinks_since

    def service_says(self, speech: Speech) -> bool:
        return self._link.up and self._protocol.speak(speech)

    def service_tells(self, text: str) -> bool:
        told = self._link.up and self._protocol.inform(text)
        self._talk.owes = self._talk.owes or told
        return told

    def hold_service(self) -> None:
        self._talk.hold()

    def release_service(self) -> None:
        self._talk.release()

    def spoken(self, speech: Speech) -> None:
        """Handle a sentence that is spoken. An approval is the only speech of its turn, so it ends
        the turn. Any other sentence does too, unless the service is still speaking or a tool is
        running; a filler does not while an answer is owed."""
        talk = self._talk
        going_on = talk.asks or talk.answering or (speech.bridges and talk.owes)
        if speech.purpose == "approval" or not going_on:
            self.emit(AgentAudioDone(talk.turn))

    def unsaid(self, speech: Speech, reason: str) -> None:
        log.error("sentence_unsaid", provider=self._provider, text=speech.text, reason=reason)
        if self._link.up:  # otherwise another agent may say it
            speech.drop()
        if speech.state is SpeechState.BEGUN:
            self.emit(AgentBroke())
        speech.cut()
        self.emit(AgentTrouble("unsaid", reason))

    # Inside.

    def _greet_from_memory(self, session: AgentSession) -> None:
        """Say the greeting from the recording of an earlier call, if there is one; otherwise record
        this call's greeting."""
        self._greeted = bool(session.history)
        cache = self._parts.greetings
        if cache is None or not session.greeting or self._greeted:
            return
        if not self._protocol.speaks_greeting:
            return
        key = greeting_key(self._settings, session.format, session.greeting)
        known = cache.find(key)
        if known is None:
            self._talk.listen_to_greeting(GreetingListener(cache, key))
            return
        self._greeted, self._talk.owes = True, False
        self.emit(AgentText(0, known.words or session.greeting, self._loop.time()))
        self.emit(AgentAudio(0, known.sound))
        self.emit(AgentAudioDone(0))

    def _next_turn(self) -> int:
        self._talk.turn += 1
        return self._talk.turn

    def _agent_voice(self) -> AgentVoice:
        session = self._session
        if session is None or not session.speaking():
            return AgentVoice.SILENT
        greets = self._talk.turn == 0
        if self._barge_in == "off" or (self._barge_in == "greeting_protected" and greets):
            return AgentVoice.PROTECTED
        return AgentVoice.OPEN

    def _ears_failed(self, reason: str) -> None:
        self.emit(AgentTrouble("ears", reason))

    def _close_ears(self, ears: BackgroundListening) -> None:
        task = self._loop.create_task(ears.close(), name="ears-close")
        self._closing_ears.add(task)
        task.add_done_callback(self._closing_ears.discard)

    def _watch(self) -> None:
        """Keep the service awake and detect stalls, at regular intervals."""
        session, talk = self._session, self._talk
        if self._closed or session is None:
            return
        self._timers["watch"] = self._loop.call_later(WATCH, self._watch)
        now, link, keep_alive = self._loop.time(), self._link, self._protocol.keep_alive_s
        if link.up and keep_alive and now - self._sound_at >= keep_alive:
            self._sound_at = now
            self._protocol.keep_alive()
        if session.speaking():
            self._heard_at = now
        if self._aside is None:
            self._listen_for_silence(now)
        since = now - link.last_message_at
        if link.up and since >= GREETING_LIMIT and talk.owes_greeting:
            self._greeting_fails(f"{self._provider} gave no greeting for {since:.0f} s")
        since = now - talk.answered_at
        broken_off = talk.falters and now - self._heard_at >= BETWEEN_PIECES
        if link.up and broken_off and since >= self._stall:
            reason = f"{self._provider} sent nothing for {since:.0f} s in the middle of an answer"
            link.leave(reason)

    def _listen_for_silence(self, now: float) -> None:
        """Detect a caller whose end of turn, or whose voice, the service does not report."""
        if (since := self._talk.caller_waits(now)) is not None:
            self.emit(CallerWaits(since))
        if self._talk.notice_silence(now, self._link.last_message_at):
            self._link.leave(f"{self._provider} does not react to the caller")

    def _greeting_fails(self, reason: str) -> None:
        """Try another connection; if that does not help, another agent takes over."""
        if self._greeting_failed:
            self._link.give_up("stalled", reason)
        else:
            self._greeting_failed = True
            self._link.leave(reason)


class ServiceSide:
    """The protocol's view of the agent: its `ProtocolHost`. Passes each call to the responsible
    part."""

    def __init__(
        self, link: ServiceLink, talk: Turns, own: EngineSpeech, agent: RealtimeAgent
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._talk = talk
        self._own = own
        self._agent = agent

    def now(self) -> float:
        return self._loop.time()

    def send_text(self, message: bytes) -> None:
        self._link.send_text(message)

    def send_binary(self, data: bytes) -> None:
        self._link.send_binary(data)

    def ready(self) -> None:
        self._link.accepted()
        self._agent.session_accepted()

    def reconnect(self, reason: str) -> None:
        self._link.replace(reason)

    def failed(self, kind: FailureKind, reason: str) -> None:
        self._link.give_up(kind, reason)

    def ended(self, reason: str) -> None:
        self._agent.emit(AgentEnded(reason))

    def ignored(self, why: str, detail: str = "") -> None:
        self._agent.ignored(why, detail)

    def caller_started(self, at: float | None = None) -> None:
        self._own.drop_needless()
        self._own.service_stopped()
        self._talk.caller_started(at)

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        return self._talk.caller_stopped(last_speech_at)

    def caller_partial(self, text: str) -> None:
        self._talk.caller_partial(text)

    def caller_text(self, text: str, turn: int | None = None) -> None:
        self._talk.caller_text(text, turn)
        if text.strip():
            self._agent.caller_said(text)

    def agent_words(self, text: str) -> None:
        self._talk.agent_words(text)

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        self._talk.agent_sound(sound, item)

    def waiting_sound(self, sound: bytes) -> None:
        self._talk.waiting_sound(sound)

    def agent_speech(self, speech: Speech | None) -> None:
        self._talk.agent_speech(speech)

    def unsaid(self, speech: Speech) -> None:
        self._own.service_refused(speech)

    def answer_done(self) -> None:
        self._own.service_stopped()
        self._talk.answer_done()

    def answer_broke(self) -> None:
        self._talk.answer_broke()

    def interrupted(self) -> None:
        self._own.service_stopped()
        self._talk.cut()

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        self._talk.tool_asked(call_id, name, arguments)

    def tool_cancelled(self, call_id: str) -> None:
        self._talk.tool_cancelled(call_id)

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        self._talk.used(model, amounts)
