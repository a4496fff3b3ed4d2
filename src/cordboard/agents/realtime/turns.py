"""What a service reports, as the call's events: turns numbered, answers opened and closed, tools.

`Turns` is the part of the shell that the protocol tells things to. It knows no connection and no
engine's voice: `Stage` is its way to those. Turns of the caller count from 1; 0 is the greeting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentSession,
    AgentText,
    AgentWords,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
    Usage,
    Used,
)
from cordboard.agent_api.service_protocol import CutItem
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.audio_replay import AudioReplay
from cordboard.agents.realtime.greetings import GreetingListener
from cordboard.agents.realtime.spoken_items import SpokenItems
from cordboard.agents.realtime.unanswered_speech import SURELY_A_VOICE, UnansweredSpeech
from cordboard.audio.voice_trace import VoiceTrace
from cordboard.tools.tool import JsonObject, ToolAsk

LONGEST_PAUSE = 10.0
"""Seconds without a voice after which the caller is taken to have stopped, whatever the service
says: the slowest turn detection of any of them waits 8 s (semantic VAD, eagerness low)."""
FALTERS = 2.0
"""Seconds without sound or words in the middle of an answer, of which nothing is left to be heard:
between two pieces of a living one there is less."""
PROMPT = 1.5
"""A service that tells later than so many seconds after the caller's last sample that they have
finished has so much less time to think before they hear something."""
MAX_HELD_BYTES = 960_000
"""Sound of an answer that waits for a sentence of the engine's: a minute of G.711 and more."""


class Stage(Protocol):
    """The rest of the shell, as the talk sees it."""

    def emit(self, event: AgentEvent) -> None:
        """Tell the call; nothing, once the agent is closed."""
        ...

    def ignored(self, why: str, detail: str = "") -> None: ...


class EngineSentences(Protocol):
    """The engine's sentences that the service was given."""

    def answer_begins(self) -> Speech | None:
        """The model begins an answer; the late answer that it tells with it, if there is one."""
        ...

    def begins(self, speech: Speech) -> bool:
        """The service begins a sentence of the engine. Whether it is still to be said."""
        ...

    def settled(self) -> None:
        """The model owes nothing any more."""
        ...


class Turns:
    """One call's turns and answers."""

    def __init__(
        self, session: AgentSession, provider: str, stage: Stage, engine: EngineSentences
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._provider = provider
        self._stage = stage
        self._engine = engine
        self._items = SpokenItems(session.format)
        self._trace = VoiceTrace(session.format)
        self._patience = UnansweredSpeech(self._trace)
        self.turn = 0
        """The caller's last turn."""
        self._started_at = 0.0
        """When the caller began what they are saying."""
        self._missed = False
        """The service has said nothing to what the caller is saying, and was replaced for it."""
        self.stopped_at = self._loop.time()
        """When the caller's last turn was over."""
        self.thinks_since = self.stopped_at
        """Since when the service has had the time to answer it."""
        self.answered_at = 0.0
        """When the last piece of an answer came."""
        self.caller_speaks = False
        self._textless = False
        """The last turn has not got its text yet."""
        self._asked_in = 0
        """The last turn in which the model asked for a tool; the next one, if it did so before it
        was sure that the caller had finished."""
        self.asks: dict[str, int] = {}
        """Tools that the model waits for, with the turns in which it asked."""
        self._known_calls: set[str] = set()
        self._answer_turn: int | None = None
        """The turn of the sentence being spoken by the service."""
        self._given: Speech | None = None
        """The sentence of the engine that the service speaks; None: the model's own words."""
        self._late: Speech | None = None
        """The late answer that the model tells now."""
        self._muted = False
        """The call has cut an answer that the service goes on with: it is not heard."""
        self._done_pending = False
        """The service has said that its answer is complete, while a tool was at work."""
        self.owes = bool(session.greeting) and not session.history
        """The service owes the caller an answer, or gives one."""
        self._greeting: GreetingListener | None = None
        self._held: list[AgentEvent] | None = None
        """What the service says while the engine speaks; None: the engine does not."""
        self._held_bytes = 0
        self._reopens = False
        """The engine has said something in the middle of an answer: what goes on is a sentence of
        its own."""

    def listen_to_greeting(self, listener: GreetingListener) -> None:
        """What the service says first is its greeting."""
        self._greeting = listener

    # The caller.

    def hear(self, sound: bytes) -> None:
        """A frame of the caller's."""
        if self._trace.hear(sound, self._loop.time()):
            self._patience.voice_heard(alone=not self._session.speaking())

    def caller_started(self, at: float | None) -> None:
        now = self._loop.time()
        if not self.caller_speaks:
            self.caller_speaks, self._missed = True, False
            self._started_at = now
            self._patience.begins_anew()
            self._stage.emit(CallerStarted(min(at, now) if at is not None else now))
        self.cut()

    def caller_stopped(self, last_speech_at: float | None) -> int:
        now = self._loop.time()
        if last_speech_at is None:
            last_speech_at = self._trace.last_voice_at
        last = now if last_speech_at is None else min(last_speech_at, now)
        self.stopped_at = now
        self.thinks_since = min(now, last + PROMPT)
        self.caller_speaks = False
        self._patience.service_noticed()
        self._textless = True
        self.turn += 1
        self.owes = True
        self._done_pending = False
        self._stage.emit(CallerStopped(self.turn, last, now))
        return self.turn

    def caller_text(self, text: str, turn: int | None) -> None:
        if turn is None:
            turn = self.turn if self._textless else self.caller_stopped(None)
        if turn == self.turn:
            self._textless = False
        self._stage.emit(CallerText(turn, text.strip(), self._loop.time()))

    def keep_for_another(self, sound: bytes, lately: AudioReplay) -> None:
        """Keep this frame of the caller's for another connection, should this one be lost."""
        lately.keep(sound, self._loop.time(), self._trace, lambda: self.not_written_down)

    @property
    def owes_greeting(self) -> bool:
        """Whether the caller waits for the greeting, or for the rest of it, and hears nothing."""
        nothing_yet = self.turn == 0 and not self.caller_speaks and not self._session.speaking()
        return self.owes and nothing_yet

    @property
    def not_written_down(self) -> bool:
        """Whether what the caller says, or has just said, would be lost with the connection: the
        service has heard a voice, and told no words. A model that has answered, or has asked for a
        tool, has understood it."""
        if self.asks or self.answering:
            return False
        unwritten = self._textless and self.owes and self._asked_in < self.turn
        return unwritten or (self.caller_speaks and self._asked_in <= self.turn)

    @property
    def unheard(self) -> bool:
        """Whether another connection would have to hear the last voice that there was."""
        began = self._trace.began_at
        if self.not_written_down:
            return True
        if self.asks or self.answering or self._session.speaking() or began is None:
            return False
        return began > self.stopped_at and self._asked_in <= self.turn

    def caller_waits(self, now: float) -> float | None:
        """Since when the caller has been silent, if nobody has told that their turn is over and
        they should hear something."""
        if self.caller_speaks:
            return self._patience.waits_since(now, self._started_at)
        began = self._trace.began_at
        busy = self.owes or self.asks or self.answering or self._session.speaking()
        if busy or began is None or began <= self.stopped_at:
            return None
        return self._patience.waits_since(now, None)

    def notice_silence(self, now: float, service_at: float) -> bool:
        """True when it is the service that has fallen silent for long: it has told nothing of what
        the caller said (`service_at`: when it last told anything), or has asked for a tool then and
        says nothing about its answer.

        It may also have taken a noise for a voice and say nothing more about it: somebody of whom
        nothing has been heard for long is not speaking; it was nothing to be answered."""
        voice_at, began = self._trace.last_voice_at or 0.0, self._trace.began_at or 0.0
        asked_ahead = self._asked_in > self.turn
        since = max(self._started_at, voice_at, service_at if asked_ahead else 0.0)
        if now - since <= LONGEST_PAUSE:
            return False
        spoke = self.caller_speaks or (self.unheard and voice_at - began >= SURELY_A_VOICE)
        if spoke and service_at < voice_at and not (self._missed or self.asks):
            self._missed = True
            return True
        if self.caller_speaks:
            self._conclude(since, real=asked_ahead)
        return asked_ahead and not self.asks

    def _conclude(self, since: float, *, real: bool) -> None:
        """The caller has stopped, without the service saying so."""
        owed = self.owes
        turn = self.caller_stopped(since)
        if real:
            return
        self.caller_text("", turn)
        self.owes = owed
        if not (owed or self.asks or self.answering):
            self._done(turn)

    # The answer.

    @property
    def answering(self) -> bool:
        """Whether the service is in the middle of speaking."""
        return self._answer_turn is not None

    @property
    def falters(self) -> bool:
        """Whether the service stops in the middle of an answer, and the caller hears nothing."""
        since = self._loop.time() - self.answered_at
        waits = self.answering and not self.asks and since >= FALTERS
        return waits and not self._session.speaking()

    def agent_words(self, text: str) -> None:
        if not text or self._muted:
            return
        if self._greeting is not None:
            self._greeting.words(text)
        turn = self._open()
        if self._given is None:
            self._tell(AgentWords(turn, text))

    def agent_speech(self, speech: Speech | None) -> None:
        """The words and the sound that follow are this sentence of the engine; None: the model's
        own again."""
        if speech is self._given or self._muted:
            return
        if speech is None:
            self._close()
        elif self._engine.begins(speech):
            self._close()
            self._open(speech)

    def agent_sound(self, sound: bytes, item: str) -> None:
        if not sound or self._muted:
            return
        if self._greeting is not None:
            self._greeting.sound(sound)
        turn = self._open()
        if self._given is None:
            self._items.add(turn, item, len(sound))
        self._tell(AgentAudio(turn, sound))

    def answer_done(self) -> None:
        turn = self._answer_turn if self._answer_turn is not None else self.turn
        if self._greeting is not None and self._answer_turn is not None:
            self._greeting.done()
            self._greeting = None
        given = self._given
        self._close()
        self._muted = False
        if given is not None and given.bridges and (self.owes or self.asks):
            return  # the answer is still to come
        if self.asks:
            self._done_pending = True
            return
        self._done(turn)

    def cut(self) -> None:
        """The caller has the floor: what is not yet heard is taken back, and no answer is open."""
        was = self._answer_turn
        self._close()
        self._muted = False
        self._forget_greeting()
        held, self._held_bytes = self._held, 0
        if held is not None:
            self._held = []
            for event in held:
                if isinstance(event, AgentText) and event.speech is not None:
                    event.speech.drop()
        if self._session.speaking():
            self._stage.emit(Interrupted(self._loop.time()))
        if was is not None and not self.asks:
            self._done(was)

    def cut_by_call(self) -> None:
        """The call has taken back what is not yet heard. What the service goes on with, it does not
        know better, is not heard."""
        self._forget_greeting()
        if self._answer_turn is not None:
            self._close()
            self._muted = True

    def cut_items(self, heard_ms: int, turn: int) -> tuple[CutItem, ...]:
        """What of the service's pieces was not heard whole."""
        return self._items.cut(heard_ms, turn)

    def lost(self) -> None:
        """The connection is gone: what it was saying goes on no more. A turn in which it had
        asked for a tool was over, though it was not yet sure of it."""
        late = self._late
        if late is not None and self._answer_turn == self.turn:
            self.owes = False  # it is told anew, and nothing else was owed
        self._close()
        if late is not None:
            late.cut()
        self._muted = False
        self._forget_greeting()
        if self.caller_speaks and self._asked_in > self.turn:
            self.caller_stopped(None)

    def given_up(self) -> None:
        """There will be no other one: nothing more is owed by this service."""
        self.lost()
        self.owes = self._done_pending = False
        self.asks.clear()

    def _open(self, given: Speech | None = None) -> int:
        self.answered_at = self._loop.time()
        if self._answer_turn is None:
            speech = given or self._engine.answer_begins()
            self._given, self._answer_turn = given, self.turn
            self._late = speech if given is None else None
            self._done_pending = self._reopens = False
            self._patience.service_noticed()
            words = given.text if given is not None else ""
            self._tell(AgentText(self.turn, words, self._loop.time(), speech))
        elif self._reopens:
            self._reopens = False
            self._tell(AgentText(self._answer_turn, "", self._loop.time()))
        return self._answer_turn

    def _close(self) -> None:
        self._answer_turn = None
        self._given = self._late = None
        self._reopens = False

    def _forget_greeting(self) -> None:
        if self._greeting is not None:
            self._greeting.give_up()
            self._greeting = None

    def _done(self, turn: int) -> None:
        self.owes = self._done_pending = False
        self._tell(AgentAudioDone(turn))
        self._engine.settled()

    # While the engine speaks, the service waits.

    def hold(self) -> None:
        """The engine speaks: keep what the service says."""
        self._reopens = self.answering
        if self._held is None:
            self._held, self._held_bytes = [], 0

    def release(self) -> None:
        """The engine has spoken: the service's turn."""
        held, self._held = self._held or [], None
        for event in held:
            self._stage.emit(event)

    def _tell(self, event: AgentEvent) -> None:
        if self._held is None:
            self._stage.emit(event)
            return
        if isinstance(event, AgentAudio):
            before, self._held_bytes = self._held_bytes, self._held_bytes + len(event.pcm)
            if self._held_bytes > MAX_HELD_BYTES:
                if before <= MAX_HELD_BYTES:
                    self._stage.ignored("too_much")
                return
        self._held.append(event)

    # Tools.

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        if call_id in self._known_calls:
            self._stage.ignored("duplicate", "a tool call")
            return
        self._known_calls.add(call_id)
        self._asked_in = self.turn + self.caller_speaks
        self.asks[call_id] = self.turn
        self._stage.emit(ToolAsked(ToolAsk(call_id, name, arguments, self.turn)))

    def tool_cancelled(self, call_id: str) -> None:
        if self.asks.pop(call_id, None) is None:
            self._stage.ignored("late", "a cancellation of a tool call")
            return
        self._stage.emit(ToolCancelled(call_id))
        if not self.asks:
            self._asked_in = min(self._asked_in, self.turn)
        if not self.asks and self._done_pending:
            self._done(self.turn)

    def tool_answered(self, call_id: str) -> bool:
        """Whether the model still waits for it."""
        return self.asks.pop(call_id, None) is not None

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        self._stage.emit(Used(Usage(self._provider, model, dict(amounts))))
