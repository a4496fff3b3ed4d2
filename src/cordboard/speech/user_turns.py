"""Build the caller's turns, with their text, from the events of the audio input.

The turn state machine decides; this is the shell around it. At each pause the recogniser makes a
draft and the end-of-turn model judges the melody, side by side, and the answers are fed back; while
a voice holds the agent's speech, the recogniser looks for words. Any of this work may turn out to
be needless. The draft is the text at the end of the turn, so that the recogniser's time hides in
the silence that ends the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from cordboard.agent_api.agent import (
    INTERNAL,
    AgentEvent,
    AgentSession,
    AgentTrouble,
    CallerPartial,
    CallerPauses,
    CallerStarted,
    CallerStopped,
    CallerText,
    OverlapBegan,
    OverlapDismissed,
    Used,
)
from cordboard.agent_api.dialogue import Dialogue, Preparer
from cordboard.agent_api.stt import (
    CallRecogniser,
    ListenedCall,
    Recogniser,
    Transcript,
    TurnVerdict,
    listen,
)
from cordboard.audio.vad import VoiceActivityBank
from cordboard.errors import FailureKind
from cordboard.observe.degradation import Degradation
from cordboard.speech.audio_input import AudioInput
from cordboard.speech.recognition import FAILED, Recognition
from cordboard.speech.turns.echo_watch import EchoAnswer, EchoWatch
from cordboard.speech.turns.events import (
    PERHAPS,
    AgentVoice,
    AsideEnded,
    OverlapHeld,
    OverlapLetPass,
    Paused,
    PauseGrows,
    Resumed,
    TurnBegan,
    TurnEnded,
    TurnEvent,
    TurnTaken,
    WordsWanted,
)
from cordboard.speech.turns.interruption import LONG_WORDS_SURE, OVERLAP_HINTS, judge_words
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.state_machine import SAMPLES_PER_MS
from cordboard.speech.turns.text_clues import TextClue, clue_of
from cordboard.speech.yes_or_no import YES_OR_NO_HINTS, is_plain_answer, read_yes_or_no

log = structlog.get_logger()

ANSWER_SURE = 0.25
"""Confidence below which a yes or a no does not count: noise was written as "Uh-huh." with 0.17 to
0.22, "yes" by telephone with 0.45 and more."""
RECOGNISER_FAILURES = 3
"""Failed recognitions in a row that end the call: the caller cannot be understood."""
LATE_SOUND_MS = 200
"""A soft last sound may come this long after the silence was noticed; anything later is noise."""
SHORTEST_SPEECH_MS = 250
"""Voice shorter than this without a recognised word is a noise, not a turn to be answered."""
MELODY_PAUSE_MS = 300
"""After a pause of this length within the turn, only the melody after the pause is judged. With the
pause in the middle, the model doubts 62 % of finished sentences (held-out half); of the last phrase
alone 41 %."""
ECHO_TAIL = 0.6
"""Seconds for which the echo of the agent's last words may still arrive."""


TurnOdds = Callable[[bytes], Awaitable[float]]
"""The end-of-turn model: s16 at 8 kHz of the utterance so far to the probability, 0..1, that the
turn is over."""


async def odds_of(pcm: bytes, turn_odds: TurnOdds, session: AgentSession) -> float | None:
    """Return the model's answer; None when it fails, which is logged and counted."""
    try:
        return await turn_odds(pcm)
    except Exception as error:  # border: the words decide without the model
        log.error("turn_model_failed", call_id=session.call_id, exc_info=error)
        session.emit(AgentTrouble(INTERNAL, f"end-of-turn model: {error!r}"))
        return None


@dataclass(frozen=True, slots=True)
class HearingParts:
    """The models and helpers that recognise a caller's turns."""

    bank: VoiceActivityBank
    recogniser: Recogniser | CallRecogniser
    profile: TurnProfile
    turn_odds: TurnOdds | None = None
    echo: Callable[[str], EchoWatch] | None = None
    """Makes the echo watch of a call, by its id."""
    is_key_tone: Callable[[bytes], bool] = lambda _: False
    """True if s16 samples at 8 kHz are the tone of a telephone key."""
    degradation: Degradation = field(default_factory=Degradation)
    """Allowed work at present: under overload no speculative work is done."""
    promote: Callable[[asyncio.Task[Any]], None] = lambda _: None
    """Make the work that this task waits for final, because the caller now waits for its result."""


class HearingListener(Protocol):
    """Callbacks of the user turns. Synchronous, on the event loop."""

    def turn_heard(self, turn: int, text: str, *, wants_answer: bool) -> None:
        """Take a turn that is over, with its text if it could be understood."""

    def caller_cuts_in(self) -> None:
        """Note that the caller takes the floor while the agent speaks."""

    def agent_voice(self) -> AgentVoice: ...

    def hearing_failed(self, reason: str, kind: FailureKind = "internal") -> None: ...


class UserTurns:
    """The caller's turns in one call. Implements `AudioInputListener`."""

    def __init__(
        self,
        parts: HearingParts,
        session: AgentSession,
        dialogue: Dialogue,
        listener: HearingListener,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._parts = parts
        self._session = session
        self._dialogue = dialogue
        self._listener = listener
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._draft: asyncio.Task[Transcript] | None = None
        """Speculative recognition of the current pause."""
        self._melody: asyncio.Task[None] | None = None
        """The end-of-turn model's work on the current pause."""
        self._side_work: set[asyncio.Task[None]] = set()
        """Requests to models about the current pause or overlap."""
        self._failures = 0
        self._melody_from = 0
        """Sample at which the current phrase begins."""
        self._agent_heard_at = -ECHO_TAIL
        self._overlap_onset = 0
        self._murmured = False
        """The voice that began at `_overlap_onset` was taken for a murmur before."""
        self._yes_or_no = False
        """The engine asks the caller for a yes or a no: the dialogue does not take the answer."""
        self._echo = parts.echo(session.call_id) if parts.echo is not None else None
        if self._echo is not None:
            session.watch_playout(self._echo.sent)
        self.turn = 0
        """Number of the caller's last turn."""
        self.floor_is_free = asyncio.Event()
        """Cleared while the caller is taking a turn."""
        self.floor_is_free.set()
        self._pause = 0
        """Number of the last pause."""
        recogniser = parts.recogniser
        self._judged_outside = isinstance(recogniser, CallRecogniser) and recogniser.judges_turns
        """The recogniser decides the end of a turn."""
        self._said_over = False
        """The recogniser says that the caller's last words end the turn."""
        call = ListenedCall(
            session.call_id,
            used=lambda usage: self._emit(Used(usage)),
            failed=lambda error: listener.hearing_failed(str(error), error.kind),
            verdict=self._judge_from_outside,
        )
        self._recognition = Recognition(listen(recogniser, call), session.call_id)
        self._ear = AudioInput(parts.bank, parts.profile, self)

    def hear(self, pcm: bytes) -> None:
        """Take the next frame (s16 at 8 kHz)."""
        if self._echo is not None:
            self._echo.heard(pcm)
        self._ear.hear(pcm)

    def key_pressed(self) -> None:
        self._ear.key_pressed()

    def expect_yes_or_no(self, on: bool) -> None:
        """Read the caller's next turn as a yes or a no, if it may be one (`on`); stop that
        otherwise."""
        self._yes_or_no = on

    async def close(self) -> None:
        self._ear.close()
        tasks: list[asyncio.Task[Any]] = list(self._side_work)
        if self._draft is not None:
            tasks.append(self._draft)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._recognition.close()

    # `AudioInputListener`.

    def heard(self, pcm: bytes) -> None:
        self._recognition.hear(pcm)

    def agent_voice(self) -> AgentVoice:
        voice = self._listener.agent_voice()
        if voice is not AgentVoice.SILENT:
            self._agent_heard_at = self._loop.time()
        return voice

    def foreign(self, sound: bytes) -> str:
        if self._parts.is_key_tone(sound):
            return "key"
        if self._echo is None:
            return ""
        speaks = self.agent_voice() is not AgentVoice.SILENT
        if not speaks and self._loop.time() - self._agent_heard_at > ECHO_TAIL:
            return ""
        match self._echo.ask():
            case EchoAnswer.ECHO | EchoAnswer.NOISE as answer:
                return str(answer.value)
            case EchoAnswer.NOT_YET:
                return PERHAPS
            case EchoAnswer.VOICE:
                return ""

    def ear_failed(self, error: Exception) -> None:
        log.error("ear_failed", call_id=self._session.call_id, error=repr(error))
        self._listener.hearing_failed("voice activity detection failed")

    def noticed(self, event: TurnEvent) -> None:
        match event:
            case TurnBegan(onset):
                self._caller_started(onset)
            case Paused():
                self._look_at(event)
            case Resumed(sample, silence):
                self._drop_draft()
                if silence >= MELODY_PAUSE_MS * SAMPLES_PER_MS:
                    self._melody_from = sample
            case PauseGrows(quiet_since):
                self._emit(CallerPauses(self._loop.time(), self._ear.time_of(quiet_since)))
            case TurnEnded():
                self._turn_ended(event)
            case AsideEnded():
                self._spawn(self._take_aside(event, *self._what_was_said(event)))
            case OverlapHeld(onset):
                self._murmured = self._murmured and onset == self._overlap_onset
                self._overlap_onset = onset
                self._emit(OverlapBegan(self._loop.time(), self._ear.began_at(onset)))
            case WordsWanted():
                self._work_aside(self._look_for_words(event))
            case OverlapLetPass(_, why):
                self._emit(OverlapDismissed(self._loop.time(), why))
            case TurnTaken(onset):
                self._caller_started(onset)
                self._listener.caller_cuts_in()

    def _caller_started(self, onset: int) -> None:
        self.floor_is_free.clear()
        self._emit(CallerStarted(self._ear.began_at(onset)))

    # A pause: its text, and does it sound finished?

    def _look_at(self, pause: Paused) -> None:
        self._drop_draft()
        may = self._parts.degradation
        pcm = self._ear.utterance(self._ear.onset)
        if may.allows_speculation:
            self._draft = self._loop.create_task(self._recognise_draft(pause, pcm))
        self._pause = pause.pause
        turn_odds = None if self._judged_outside else self._parts.turn_odds
        if turn_odds is not None and may.allows_turn_model and not pause.aside:
            phrase = self._ear.utterance(max(self._ear.onset, self._melody_from))
            self._melody = self._work_aside(self._judge_melody(pause.pause, phrase, turn_odds))

    async def _recognise_draft(self, pause: Paused, pcm: bytes) -> Transcript:
        hints = self._hints()
        if pause.aside:
            hints = (*OVERLAP_HINTS, *hints)
        transcript = await self._recognition.recognise(pcm, hints, speculative=not pause.aside)
        if not pause.aside:
            transcript = await self._listen_again(transcript)
        if pause.aside:
            self._ear.learn_text(pause.pause, self._aside_clue(transcript, pause.voiced))
        else:
            self._emit(CallerPartial(transcript.words))
            clue = self._clue(transcript)
            self._ear.learn_text(pause.pause, self._by_verdict(clue))
            self._prepare_answer(transcript, clue)
        return transcript

    def _prepare_answer(self, transcript: Transcript, clue: TextClue) -> None:
        """Let the dialogue begin to think about a text that may be the whole turn."""
        may_be_whole = clue in (TextClue.COMPLETE, TextClue.ONE_WORD, TextClue.WORDS)
        if may_be_whole and not self._yes_or_no and isinstance(self._dialogue, Preparer):
            self._dialogue.prepare(transcript.words)

    async def _judge_melody(self, pause: int, pcm: bytes, turn_odds: TurnOdds) -> None:
        odds = await odds_of(pcm, turn_odds, self._session)
        if odds is not None:
            self._ear.learn_odds(pause, odds)

    def _clue(self, transcript: Transcript) -> TextClue:
        text = transcript.words
        if self._yes_or_no and read_yes_or_no(text) is False:
            return TextClue.COMPLETE  # at any length: no action follows in haste
        return clue_of(text, complete=self._is_complete(text))

    def _judge_from_outside(self, verdict: TurnVerdict) -> None:
        self._said_over = self._judged_outside and verdict is TurnVerdict.OVER
        if self._said_over:
            self._ear.learn_text(self._pause, TextClue.COMPLETE)

    def _by_verdict(self, clue: TextClue) -> TextClue:
        """Return the clue that follows from the recogniser's verdict: words end the turn when it
        says so. If it says nothing for long, silence ends the turn after all."""
        if not self._judged_outside or not clue.has_words:
            return clue
        return TextClue.COMPLETE if self._said_over else TextClue.DANGLING

    def _aside_clue(self, transcript: Transcript, voiced: int) -> TextClue:
        """Return the clue of an aside. Less certainty is enough where it cuts nothing off, and for
        the answer to a question."""
        clue, sure = self._judge_words(transcript, voiced)
        cuts = self._listener.agent_voice() is AgentVoice.OPEN and clue is not TextClue.COMPLETE
        if not cuts:
            sure = sure or transcript.confidence >= LONG_WORDS_SURE
        return clue if sure else TextClue.NOTHING

    def _judge_words(self, transcript: Transcript, voiced: int) -> tuple[TextClue, bool]:
        return judge_words(
            transcript,
            voiced // SAMPLES_PER_MS,
            complete=self._is_complete(transcript.text, over_agent=True),
            murmured=self._murmured,
        )

    def _is_complete(self, text: str, *, over_agent: bool = False) -> bool:
        if self._yes_or_no:
            # A caller who murmurs `mm-hmm` into the question has not heard all of it.
            return is_plain_answer(text) if over_agent else read_yes_or_no(text) is not None
        return bool(text) and self._dialogue.is_complete(text)

    def _hints(self) -> tuple[str, ...]:
        return YES_OR_NO_HINTS if self._yes_or_no else self._dialogue.hints()

    def _drop_draft(self) -> None:
        if isinstance(self._dialogue, Preparer):
            self._dialogue.forget()
        self._drop_melody()
        if self._draft is not None:
            self._draft.cancel()
            self._draft = None

    def _drop_melody(self) -> None:
        """Drop the end-of-turn model's work, which nothing depends on any more."""
        if self._melody is not None:
            self._melody.cancel()
            self._melody = None

    # A voice over the agent's speech: are there words in it?

    async def _look_for_words(self, wanted: WordsWanted) -> None:
        pcm = self._ear.utterance(wanted.onset)
        transcript = await self._recognition.recognise(
            pcm, OVERLAP_HINTS, speculative=False, goes_on=True
        )
        clue, sure = self._judge_words(transcript, wanted.voiced)
        if wanted.onset == self._overlap_onset:  # else it is about an earlier voice
            self._murmured = self._murmured or clue is TextClue.MURMUR
        self._ear.learn_words(wanted.overlap, clue, sure=sure)

    # The end of a turn.

    def _turn_ended(self, ended: TurnEnded) -> None:
        self.floor_is_free.set()
        pcm, draft = self._what_was_said(ended)
        turn = self._tell_stopped(ended)
        self._spawn(self._take_turn(turn, ended, pcm, draft))

    def _tell_stopped(self, ended: TurnEnded | AsideEnded) -> int:
        self.turn += 1
        ear = self._ear
        until = min(ended.sample, ended.noticed + LATE_SOUND_MS * SAMPLES_PER_MS)
        last = ear.last_audible(ended.onset, until)
        self._emit(
            CallerStopped(
                self.turn,
                last_speech_at=ear.time_of(ended.last_speech if last is None else last),
                at=self._loop.time(),
                silence_at=ear.time_of(ended.noticed),
            )
        )
        return self.turn

    def _what_was_said(
        self, ended: TurnEnded | AsideEnded
    ) -> tuple[bytes, asyncio.Task[Transcript] | None]:
        """Return the sound of the turn or aside that is over, and the draft made of it."""
        self._drop_melody()
        draft, self._draft = self._draft, None
        if draft is not None and self._judged_outside:
            draft.cancel()  # the text that came with the recogniser's verdict is final
            draft = None
        if draft is not None and not draft.done():
            self._parts.promote(draft)
        return self._ear.utterance(ended.onset, ended.sample), draft

    async def _take_turn(
        self, turn: int, ended: TurnEnded, pcm: bytes, draft: asyncio.Task[Transcript] | None
    ) -> None:
        transcript = await self._final(pcm, draft)
        self._count_failures(transcript)
        text = transcript.words
        self._tell_text(turn, transcript)
        if text:
            murmured = ended.over_agent and self._clue(transcript) is TextClue.MURMUR
            wants_answer = not murmured
        else:
            voiced_ms = (ended.last_speech - ended.onset) // SAMPLES_PER_MS
            wants_answer = not ended.over_agent and voiced_ms >= SHORTEST_SPEECH_MS
        self._listener.turn_heard(turn, self._said(transcript), wants_answer=wants_answer)

    async def _take_aside(
        self, ended: AsideEnded, pcm: bytes, draft: asyncio.Task[Transcript] | None
    ) -> None:
        """Take an aside as a turn if it has words; drop it otherwise."""
        transcript = await self._final(pcm, draft)
        if not self._aside_clue(transcript, ended.last_speech - ended.onset).has_words:
            return
        self._emit(CallerStarted(self._ear.began_at(ended.onset)))
        turn = self._tell_stopped(ended)
        self._tell_text(turn, transcript)
        if self._listener.agent_voice() is AgentVoice.OPEN:
            self._listener.caller_cuts_in()
        self._listener.turn_heard(turn, self._said(transcript), wants_answer=True)

    def _said(self, transcript: Transcript) -> str:
        """Return the words that count."""
        unsure = self._yes_or_no and transcript.confidence < ANSWER_SURE
        return "" if unsure else transcript.words

    def _tell_text(self, turn: int, transcript: Transcript) -> None:
        at, text = self._loop.time(), transcript.text
        understood = transcript.words
        if text and not self._yes_or_no:
            understood = self._dialogue.understood(understood)
        changed = understood if understood != text else ""
        self._emit(CallerText(turn, text, at, transcript.confidence, changed))

    def _count_failures(self, transcript: Transcript) -> None:
        self._failures = self._failures + 1 if transcript is FAILED else 0
        if self._failures >= RECOGNISER_FAILURES:
            reason = f"{self._failures} recognitions in a row failed"
            self._listener.hearing_failed(reason, self._recognition.failure)

    async def _final(self, pcm: bytes, draft: asyncio.Task[Transcript] | None) -> Transcript:
        if draft is not None:
            return await draft
        transcript = await self._recognition.recognise(pcm, self._hints(), speculative=False)
        return await self._listen_again(transcript)

    async def _listen_again(self, transcript: Transcript) -> Transcript:
        """Return the transcript with the result of listening again, where the words leave a name in
        doubt.

        Under much overload it does not listen again: the caller is asked instead.
        """
        if self._yes_or_no or not self._parts.degradation.allows_second_hearing:
            return transcript
        speculative = self._draft is asyncio.current_task()
        return await self._recognition.listen_again(
            transcript, self._dialogue, speculative=speculative
        )

    # Housekeeping.

    def _emit(self, event: AgentEvent) -> None:
        self._session.emit(event)

    def _work_aside(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._spawn(work)
        self._side_work.add(task)
        task.add_done_callback(self._side_work.discard)
        return task
