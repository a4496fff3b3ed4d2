"""The beginning of an outbound call: dial, judge who has answered, and decide the opening.

    dial ──▶ human, silence ──▶ the agent greets ──(15 s)──▶ a machine after all
         ├─▶ voicemail ──▶ after the beep: the message, then the end
         ├─▶ screening ──▶ who calls and why; the agent goes on ──▶ human: the announcements
         ├─▶ menu ──▶ the order's keys, step by step; then judged anew
         └─▶ fax, announcement, busy tone; nothing of these in three minutes ──▶ the end

Until the opening is decided the agent hears nothing and says nothing. After a greeting the judging
goes on for 15 s beside the agent: what turns out to be a machine gets the message, not the agent.
Announcements are for people: after a screening service they are spoken as soon as one is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import structlog

from cordboard.agent_api.agent import Interrupted
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import SLIN_8K
from cordboard.audio.transcoder import Transcoder
from cordboard.calls import events
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import CallEnding, heard_out
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.offer import LineControl
from cordboard.calls.outbound_order import Dialling, NotReached, OutboundCall, OutboundResult
from cordboard.speech.answer.classifier import (
    FRAME_BYTES,
    LATE_WORDS,
    NOTHING,
    REVISABLE,
    Verdict,
)
from cordboard.speech.answer.listening import AnswerListening, Transcribe
from cordboard.speech.answer.phrases import Answer, asks_to_wait

log = structlog.get_logger()

OPENING_SECONDS = 180.0
"""Longest time from the answer to the opening: time for a menu of several steps, or for a forwarded
call that rings on."""
UNDECIDED = "undecided"
"""Reason of a call that ends without any verdict."""
BEEP_SECONDS = 30.0
"""Longest wait for a voicemail's beep, or for the end of a recording."""
MESSAGE_SECONDS = 60.0
"""Longest message to a voicemail."""
PROMPT_PAUSE = 0.7
"""Seconds of quiet after which a menu or a screening service waits for us."""
STALLED = NOTHING + 1
"""Seconds without a verdict, because no sound arrives at all."""
WORDS_SECONDS = 2.0
"""Longest wait for the words of a screening service, and of the voice behind it."""
_WAITS = frozenset({None, Answer.SCREENING, Answer.SILENCE, Answer.RINGBACK, Answer.MACHINE})
"""Verdicts behind a screening service after which a human may still be put through."""
_LIVE = frozenset({Answer.HUMAN, Answer.SILENCE})
"""Verdicts that count as a human, who hears the greeting."""
_OPEN = frozenset({None, *_LIVE, Answer.MACHINE, Answer.RINGBACK})
"""Verdicts that do not take the conversation from the agent."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How the agent opens an outbound call."""

    kind: Literal["greeting", "message", "introduction"]
    introduction: str = ""

    def first_words(self, parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return kind and text of the agent's first words; `parts` are those for a human. A message
        is left by the call itself."""
        if self.kind == "greeting":
            return parts
        return [(self.kind, self.introduction)] if self.introduction else []


class AnswerEar:
    """The caller's sound in 8 kHz frames for the listening. Implements `SoundRecorder`."""

    def __init__(self, sound: CallSound, take: Callable[[bytes], None], now: float) -> None:
        self.started_at = now
        self._transcoder = Transcoder(sound.format, SLIN_8K)
        self._take = take
        self._rest = b""

    def hear_caller(self, pcm: bytes, at: float) -> None:
        self._rest += self._transcoder.convert(pcm)
        while len(self._rest) >= FRAME_BYTES:
            frame, self._rest = self._rest[:FRAME_BYTES], self._rest[FRAME_BYTES:]
            self._take(frame)

    def hear_agent(self, pcm: bytes, at: float) -> None:
        """Ignore the agent."""

    def mute(self, since: float, until: float | None) -> None:
        """Ignore it: nothing is kept."""

    def unmute(self, at: float) -> None:
        """Ignore it: nothing is kept."""

    def pause(self, at: float) -> None:
        """Ignore it: nothing is kept."""

    def resume(self, at: float) -> None:
        """Ignore it: nothing is kept."""


class Reaching:
    """The beginning of one outbound call, from `reach` to `close`."""

    def __init__(
        self,
        call: OutboundCall,
        introduction: str,
        line: LineControl,
        ending: CallEnding,
        ledger: Ledger,
        transcribe: Transcribe | None,
        failed: Callable[[BaseException], None],
    ) -> None:
        """`introduction` says who calls and why. `failed` is called when the judging fails by a
        mistake of ours."""
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._introduction = introduction
        self._line = line
        self._ending = ending
        self._ledger = ledger
        self._transcribe = transcribe
        self._failed = failed
        self._listening = AnswerListening(transcribe, failed)
        self._told: Verdict | None = None
        """The verdict that the ledger has."""
        self._waiting: tuple[Callable[[], bool], asyncio.Future[None]] | None = None
        self._sound: CallSound | None = None
        self._ear: AnswerEar | None = None
        self._watching: asyncio.Task[None] | None = None
        self._screened = False
        """True if the agent's first words are for a screening service."""
        self._unanswered: Conversation | None = None
        """Set while the agent answers no turn, because a screening service speaks."""
        self._dialling: Dialling | None = None
        self._steps = list(call.order.keys)

    async def reach(self, sound: CallSound) -> Opening | None:
        """Dial, and return the opening; None when the call ends without one. Raises `NotReached`,
        `LineError`."""
        began = self._loop.time()
        try:
            await self._call.dial()
        except NotReached as error:
            self._tell_dialling(error.dialling, began)
            raise
        self._tell_dialling(Dialling("answered"), began)
        self._sound = sound
        self._ear = AnswerEar(sound, self._hear, self._loop.time())
        sound.add(self._ear)
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                return await self._open()
        except TimeoutError:
            told = self._told.answer.value if self._told is not None else UNDECIDED
            self._ending.end("completed", told)
            return None

    def watch(
        self,
        conversation: Conversation,
        announce: Callable[[], None],
        retract: Callable[[], None],
    ) -> None:
        """Go on judging beside the agent, which has begun to greet. `announce()` has the
        announcements spoken to a human behind a screening service; `retract()` says that a machine
        has heard those that were spoken."""
        watch = self._watch(conversation, announce, retract)
        self._watching = self._loop.create_task(watch, name="answer")
        self._watching.add_done_callback(self._watched)

    def leave_message(self, conversation: Conversation) -> None:
        """Have the message spoken, then end the call."""
        self._ending.after(self._speak_message(conversation))

    def result(self, outcome: str, reason: str, duration_ms: int) -> OutboundResult:
        """Return how the order ended, from the call's own end."""
        dialled: str = self._dialling.outcome if self._dialling is not None else "failed"
        if self._dialling is None and outcome == "not_reached":
            dialled = reason
        answer = self._told.answer.value if self._told is not None else ""
        order = self._call.order
        return OutboundResult(order.call_id, dialled, reason, answer, duration_ms)

    def settle(self) -> None:
        """Stop judging now: in a transfer the line carries other voices than the callee's."""
        if self._watching is not None:
            self._watching.cancel()
        self._answer_again()
        self._stop_hearing()

    async def close(self) -> None:
        """Stop judging, and wait until that is done. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        await self._stop_listening()

    # The opening.

    async def _open(self) -> Opening | None:
        while True:
            verdict = await self._verdict()
            answer = Answer.SILENCE if verdict is None else verdict.answer
            if answer in _LIVE:
                return Opening("greeting")
            if answer is Answer.SCREENING:
                await self._until(self._prompt_over, BEEP_SECONDS)
                if self._present in (None, Answer.SCREENING):
                    await self._listen_anew()
                    self._screened = True
                    return Opening("introduction", self._introduction)
            elif answer in (Answer.VOICEMAIL, Answer.MACHINE):
                if await self._record_begins(answer):
                    await self._stop_listening()
                    return Opening("message")
            elif answer is Answer.IVR and self._steps:
                await self._press()
            elif answer is Answer.RINGBACK:
                await self._listen_anew()
            else:
                self._ending.end("completed", answer.value)
            if self._ending.is_over:
                return None

    async def _verdict(self) -> Verdict | None:
        """Wait for a verdict; None if no sound arrives."""
        classifier = self._listening.classifier
        seconds = STALLED
        while classifier.verdict is None:
            frames = classifier.now
            await self._until(lambda: classifier.verdict is not None, seconds)
            if classifier.verdict is None and classifier.now - frames < seconds / 2:
                return None
        return classifier.verdict

    @property
    def _present(self) -> Answer | None:
        verdict = self._listening.classifier.verdict
        return verdict.answer if verdict is not None else None

    def _prompt_over(self) -> bool:
        """True if the machine waits for us, or turns out to be another."""
        classifier = self._listening.classifier
        return classifier.quiet >= PROMPT_PAUSE

    async def _record_begins(self, answer: Answer) -> bool:
        """Wait until a voicemail records. False if the verdict has changed, or the call is over:
        without a message, a voicemail is hung up on as soon as it is known."""
        classifier = self._listening.classifier
        message = self._call.order.message
        if answer is Answer.VOICEMAIL and not message:
            self._ending.end("completed", answer.value)
            return False

        def decided() -> bool:
            present = self._present
            known = present is not None and present not in (answer, Answer.VOICEMAIL)
            hang_up = present is Answer.VOICEMAIL and not message
            return classifier.message_due or known or hang_up

        await self._until(decided, BEEP_SECONDS)
        present = self._present
        if classifier.message_due and message:
            return True
        if present in (Answer.VOICEMAIL, Answer.MACHINE):
            self._ending.end("completed", present.value)
        return False

    async def _press(self) -> None:
        """Send the next keys once the menu pauses, and judge anew what follows."""
        await self._until(self._prompt_over, BEEP_SECONDS)
        keys = self._steps.pop(0)
        await self._line.dtmf(keys)
        self._ledger.record(events.KeysSent(keys.replace("w", "")))
        await self._listen_anew()

    # After the greeting.

    async def _watch(
        self,
        conversation: Conversation,
        announce: Callable[[], None],
        retract: Callable[[], None],
    ) -> None:
        """Act on a human that turns out to be a machine, or to stand behind one. A task border."""
        while True:
            if self._screened and await self._person_behind():
                conversation.hush()
                announce()
            await self._until(self._settled, REVISABLE + LATE_WORDS)
            answer = self._present
            if answer in _OPEN or self._ending.is_over:
                await self._stop_listening()
                return
            retract()
            self._screened = answer is Answer.SCREENING
            if not self._screened:
                break
            await self._introduce(conversation)
        if answer is Answer.VOICEMAIL and self._call.order.message:
            conversation.take(Interrupted(self._loop.time()))
            self._ending.after(self._late_message(conversation))
        elif answer is not None:
            self._ending.end("completed", answer.value)

    async def _introduce(self, conversation: Conversation) -> None:
        """Say who calls, and why, to a screening service that has seemed human: in place of the
        greeting, and of an answer to its words."""
        conversation.take(Interrupted(self._loop.time()))
        conversation.consult(True)
        self._unanswered = conversation
        await self._until(self._prompt_over, BEEP_SECONDS)
        await self._until(lambda: not conversation.hearing, WORDS_SECONDS)
        self._answer_again()
        conversation.say_besides(Speech(self._introduction, "operator", interrupts=True))
        await self._listen_anew()

    def _answer_again(self) -> None:
        """Have the agent answer again, after the words of a screening service. Idempotent."""
        conversation, self._unanswered = self._unanswered, None
        if conversation is not None:
            conversation.consult(False)

    def _settled(self) -> bool:
        """True if a machine is known, or if no words are to come that could show one."""
        classifier = self._listening.classifier
        over = classifier.now > REVISABLE and not classifier.words_due
        return over or self._present not in _OPEN

    async def _person_behind(self) -> bool:
        """Wait until a screening service has put us through to a human. False if another machine
        answers. The service itself may speak meanwhile: "thank you, please hold"."""
        while True:
            await self._verdict()
            if self._present is Answer.HUMAN:
                await self._until(lambda: not self._listening.classifier.recognising, WORDS_SECONDS)
            if self._present is Answer.HUMAN:
                if not asks_to_wait(self._listening.classifier.text):
                    return True
            elif self._present not in _WAITS:
                return False
            await self._listen_anew()

    def _watched(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            log.error("answer_watch_failed", exc_info=error)
            self._answer_again()
            self._failed(error)

    async def _late_message(self, conversation: Conversation) -> None:
        classifier = self._listening.classifier
        await self._until(lambda: classifier.message_due, BEEP_SECONDS)
        if classifier.message_due:
            await self._speak_message(conversation)
        else:
            self._ending.end("completed", Answer.VOICEMAIL.value)

    async def _speak_message(self, conversation: Conversation) -> None:
        conversation.speech.say(Speech(self._call.order.message, "farewell"))
        await heard_out(conversation, MESSAGE_SECONDS)
        self._ending.end("completed", "voicemail_message")

    # Listening.

    def _hear(self, frame: bytes) -> None:
        listening = self._listening
        listening.hear(frame)
        verdict, told = listening.classifier.verdict, self._told
        news = verdict is not None and (
            told is None or verdict.answer not in (told.answer, Answer.SILENCE)
        )
        if verdict is not None and news:
            revised = told is not None
            self._told = verdict
            heard_ms = round(verdict.at * 1000)
            judged = events.AnswerJudged(verdict.answer.value, verdict.by, heard_ms, revised)
            self._ledger.record(judged)
        if self._waiting is not None and self._waiting[0]() and not self._waiting[1].done():
            self._waiting[1].set_result(None)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until a frame makes the condition true, or the time is up."""
        if condition():
            return
        self._waiting = (condition, self._loop.create_future())
        try:
            await asyncio.wait((self._waiting[1],), timeout=seconds)
        finally:
            self._waiting = None

    async def _listen_anew(self) -> None:
        """Judge from the beginning: something else will be heard now."""
        await self._listening.close()
        self._listening = AnswerListening(self._transcribe, self._failed)

    def _stop_hearing(self) -> None:
        if self._sound is not None and self._ear is not None:
            self._sound.remove(self._ear)
            self._ear = None

    async def _stop_listening(self) -> None:
        self._stop_hearing()
        await self._listening.close()

    def _tell_dialling(self, dialling: Dialling, began: float) -> None:
        self._dialling = dialling
        took_ms = round((self._loop.time() - began) * 1000)
        event = events.Dialled(
            dialling.outcome, took_ms, dialling.rang, dialling.cause, dialling.sip
        )
        self._ledger.record(event)
