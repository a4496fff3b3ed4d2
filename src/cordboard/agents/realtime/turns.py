"""Translate a service's reports into the call's events: turns, answers and tools.

`Turns` is the part of the shell that the protocol reports to. It knows neither the connection nor
the engine's voice: it reaches them through `Stage`. Turns of the caller count from 1; 0 is the
greeting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentBroke,
    AgentEvent,
    AgentSession,
    AgentText,
    AgentWords,
    CallerPartial,
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
from cordboard.agents.realtime.unanswered_speech import SURELY_A_VOICE, UnansweredSpeech
from cordboard.audio.format import AudioFormat
from cordboard.audio.voice_trace import VoiceTrace
from cordboard.tools.tool import JsonObject, ToolAsk

LONGEST_PAUSE = 10.0
"""Seconds without a voice after which the caller counts as finished without a report of the
service: the slowest turn detection of any service waits 8 s (semantic VAD, eagerness low)."""
FALTERS = 2.0
"""Seconds without sound or words in the middle of an answer, after all its sound was heard; the
pieces of a working answer follow faster."""
PROMPT = 1.5
"""Seconds from the caller's last sample within which a prompt service reports the end of the turn.
A later report shortens the service's time to think before the caller hears something."""
MAX_HELD_BYTES = 960_000
"""Sound of an answer that waits for a sentence of the engine: a minute of G.711 and more."""


MAX_TURNS = 4
"""Turns that may still be on their way to the caller; older ones have been heard."""


@dataclass(slots=True)
class _Piece:
    turn: int
    item: str
    size: int


class SpokenItems:
    """The pieces of the service's sound that were handed over, so that a cut can name them. Pure
    bookkeeping, in bytes of the session's format.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._pieces: list[_Piece] = []

    def add(self, turn: int, item: str, size: int) -> None:
        """Note that `size` more bytes of this piece were handed over."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.turn == turn and last.item == item:
            last.size += size
            return
        self._pieces.append(_Piece(turn, item, size))
        if self._pieces[0].turn < turn - MAX_TURNS:
            self._pieces = [p for p in self._pieces if p.turn >= turn - MAX_TURNS]

    def cut(self, heard_ms: int, turn: int) -> tuple[CutItem, ...]:
        """Return the pieces that the caller did not hear completely, given `heard_ms` of sound
        heard since the first sound of `turn`. Forgets all pieces."""
        cut: list[CutItem] = []
        begin = 0.0
        for piece in self._pieces:
            if piece.turn < turn:
                continue
            length = self._format.duration_ms(piece.size)
            if heard_ms < begin + length:
                heard = max(0, min(int(heard_ms - begin), int(length)))
                cut.append(CutItem(piece.item, heard))
            begin += length
        self._pieces.clear()
        return tuple(cut)


class Stage(Protocol):
    """The part of the shell that `Turns` uses."""

    def emit(self, event: AgentEvent) -> None:
        """Pass the event to the call; do nothing once the agent is closed."""

    def ignored(self, why: str, detail: str = "") -> None: ...


class EngineSentences(Protocol):
    """The engine's sentences that the service was given."""

    def answer_begins(self) -> Speech | None:
        """Note that the model begins an answer. Return the late answer that it includes, if any."""

    def begins(self, speech: Speech) -> bool:
        """Note that the service begins a sentence of the engine. True if it must still be
        spoken."""

    def settled(self) -> None:
        """Note that the model owes nothing any more."""


class Turns:
    """The turns and answers of one call."""

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
        """Number of the caller's last turn."""
        self._started_at = 0.0
        """Loop time at which the caller's current utterance began."""
        self._missed = False
        """The service has not reacted to the caller's current utterance, and was replaced for
        that."""
        self.stopped_at = self._loop.time()
        """Loop time of the end of the caller's last turn."""
        self.thinks_since = self.stopped_at
        """Loop time from which the service has had the time to answer it."""
        self.answered_at = 0.0
        """Loop time of the last piece of an answer."""
        self.caller_speaks = False
        self._textless = False
        """The last turn has no text yet."""
        self._asked_in = 0
        """The last turn in which the model asked for a tool. It is the next turn if the model asked
        before it was sure that the caller had finished."""
        self.asks: dict[str, int] = {}
        """Tool calls that the model waits for, with their turns."""
        self._known_calls: set[str] = set()
        self._answer_turn: int | None = None
        """The turn of the sentence that the service speaks."""
        self._given: Speech | None = None
        """The engine's sentence that the service speaks; None: the model's own words."""
        self._late: Speech | None = None
        """The late answer that the model tells now."""
        self._muted = False
        """The call has cut an answer that the service continues: the rest is not heard."""
        self._done_pending = False
        """The service reported a complete answer while a tool was running."""
        self.owes = bool(session.greeting) and not session.history
        """The service owes the caller an answer, or gives one."""
        self._greeting: GreetingListener | None = None
        self._held: list[AgentEvent] | None = None
        """Events of the service while the engine speaks; None while it does not."""
        self._held_bytes = 0
        self._waits: int | None = None
        """The turn in which the service's last sound filled a wait; None: it did not."""
        self._reopens = False
        """The engine has spoken in the middle of an answer: the rest is a separate sentence."""

    def listen_to_greeting(self, listener: GreetingListener) -> None:
        """Record the service's first words as its greeting."""
        self._greeting = listener

    # The caller.

    def hear(self, sound: bytes) -> None:
        """Take a frame of the caller's sound."""
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

    def caller_partial(self, text: str) -> None:
        """Pass on the words so far of a turn that has no final text yet."""
        words = text.strip()
        if words and (self.caller_speaks or self._textless):
            self._stage.emit(CallerPartial(words))

    def caller_text(self, text: str, turn: int | None) -> None:
        if turn is None:
            turn = self.turn if self._textless else self.caller_stopped(None)
        if turn == self.turn:
            self._textless = False
        self._stage.emit(CallerText(turn, text.strip(), self._loop.time()))

    def keep_for_another(self, sound: bytes, lately: AudioReplay) -> None:
        """Keep this frame of the caller for a new connection, in case this one is lost."""
        lately.keep(sound, self._loop.time(), self._trace, lambda: self.not_written_down)

    @property
    def owes_greeting(self) -> bool:
        """True if the caller waits for the greeting, or for the rest of it, and hears nothing."""
        nothing_yet = self.turn == 0 and not self.caller_speaks and not self._session.speaking()
        return self.owes and nothing_yet

    @property
    def not_written_down(self) -> bool:
        """True if the caller's current or last words would be lost with the connection: the service
        has heard a voice and reported no words. A model that has answered, or has asked for a tool,
        has understood them."""
        if self.asks or self.answering:
            return False
        unwritten = self._textless and self.owes and self._asked_in < self.turn
        return unwritten or (self.caller_speaks and self._asked_in <= self.turn)

    @property
    def unheard(self) -> bool:
        """True if a new connection would have to hear the caller's last voice."""
        began = self._trace.began_at
        if self.not_written_down:
            return True
        if self.asks or self.answering or self._session.speaking() or began is None:
            return False
        return began > self.stopped_at and self._asked_in <= self.turn

    def caller_waits(self, now: float) -> float | None:
        """Return the time since which the caller has been silent if the end of their turn was not
        reported and they should hear something; None otherwise."""
        if self.caller_speaks:
            return self._patience.waits_since(now, self._started_at)
        began = self._trace.began_at
        busy = self.owes or self.asks or self.answering or self._session.speaking()
        if busy or began is None or began <= self.stopped_at:
            return None
        return self._patience.waits_since(now, None)

    def notice_silence(self, now: float, service_at: float) -> bool:
        """True when the service itself has been silent for long: it has reported nothing about the
        caller's words (`service_at`: time of its last report), or has asked for a tool then and
        says nothing about its answer.

        It may also have taken a noise for a voice and report nothing more about it: if no voice was
        heard for long, the caller is not speaking, and there is nothing to answer."""
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
        """End the caller's turn without a report of the service."""
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
        """True if the service is in the middle of speaking."""
        return self._answer_turn is not None

    @property
    def falters(self) -> bool:
        """True if the service has stopped in the middle of an answer, and the caller hears
        nothing."""
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
        """Mark the words and the sound that follow as this sentence of the engine; None: as the
        model's own again."""
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

    def waiting_sound(self, sound: bytes) -> None:
        """Pass on sound that fills a wait: what is owed stays owed. The engine's voice needs no
        such sound before or after it."""
        if self._held is not None:
            return
        if self._waits != self.turn:
            self._waits, self._reopens = self.turn, self.answering
            self._tell(AgentText(self.turn, "", self._loop.time(), Speech("", "filler")))
        self._tell(AgentAudio(self.turn, sound))

    def answer_done(self) -> None:
        turn = self._answer_turn if self._answer_turn is not None else self.turn
        if self._greeting is not None and self._answer_turn is not None:
            self._greeting.done()
            self._greeting = None
        given = self._given
        self._close()
        self._muted = False
        if given is not None and given.bridges and (self.owes or self.asks):
            return  # the answer follows
        if self.asks:
            self._done_pending = True
            return
        self._done(turn)

    def answer_broke(self) -> None:
        """Break off the sentence that the service could not finish: what follows is another one.
        Without effect on a sentence that the engine's speech has ended already."""
        if self._answer_turn is None or self._reopens:
            return
        self._forget_greeting()
        self._reopens = True
        self._tell(AgentBroke())

    def cut(self) -> None:
        """Take back the unheard audio and close the answer: the caller has the floor."""
        was = self._answer_turn
        self._close()
        self._muted = False
        self._forget_greeting()
        self._drop_held(0)
        if self._session.speaking():
            self._stage.emit(Interrupted(self._loop.time()))
        if was is not None and not self.asks:
            self._done(was)

    def cut_by_call(self) -> None:
        """Note that the call has taken back the unheard audio. The service may not know yet: the
        rest that it sends is not heard."""
        self._forget_greeting()
        if self._answer_turn is not None:
            self._close()
            self._muted = True

    def cut_items(self, heard_ms: int, turn: int) -> tuple[CutItem, ...]:
        """Return the service's pieces that the caller did not hear completely."""
        return self._items.cut(heard_ms, turn)

    def lost(self) -> None:
        """Close the answer: the connection is gone. A turn with a tool call of the model is over,
        though the model was not yet sure of that; so is one that was only a sentence of the
        engine, which a new connection does not repeat."""
        late, given, turn = self._late, self._given, self._answer_turn
        if turn is not None:
            self._tell(AgentBroke())
        if late is not None and self._answer_turn == self.turn:
            self.owes = False  # the late answer is told again; nothing else was owed
        self._close()
        held = enumerate(self._held or (), 1)
        self._drop_held(max((n for n, e in held if isinstance(e, AgentAudioDone)), default=0))
        if late is not None:
            late.cut()
        if given is not None and turn is not None:
            given.cut()
            if not (self.owes or self.asks):
                self._tell(AgentAudioDone(turn))
        self._muted = False
        self._forget_greeting()
        if self.caller_speaks and self._asked_in > self.turn:
            self.caller_stopped(None)

    def given_up(self) -> None:
        """Note that there will be no new connection: this service owes nothing any more. A voice
        that it has not reported is reported here, so that the next agent hears it."""
        began, last = self._trace.began_at, self._trace.last_voice_at or 0.0
        unreported = self.unheard and not self.not_written_down
        if unreported and began is not None and self._loop.time() - last <= LONGEST_PAUSE:
            self._stage.emit(CallerStarted(began))
        self.lost()
        self.owes = self._done_pending = False
        self.asks.clear()

    def _open(self, given: Speech | None = None) -> int:
        self.answered_at = self._loop.time()
        self._waits = None
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
        self._reopens, self._waits = False, None

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
        """Keep the service's events while the engine speaks. The sentence in the middle of which it
        does so is broken off: the rest of it may never come."""
        self.answer_broke()
        if self._held is None:
            self._held, self._held_bytes = [], 0

    def release(self) -> None:
        """Emit the kept events: the engine has spoken."""
        held, self._held = self._held or [], None
        for event in held:
            self._stage.emit(event)

    def _drop_held(self, start: int) -> None:
        """Drop the kept events from this one on: nothing of them was heard."""
        if self._held is None:
            return
        dropped, self._held[start:] = self._held[start:], []
        self._held_bytes = sum(len(e.pcm) for e in self._held if isinstance(e, AgentAudio))
        for event in dropped:
            if isinstance(event, AgentText) and event.speech is not None:
                event.speech.drop()

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
        """True if the model still waits for it."""
        return self.asks.pop(call_id, None) is not None

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        self._stage.emit(Used(Usage(self._provider, model, dict(amounts))))
