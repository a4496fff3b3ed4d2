"""The transfers of one call: check the destination, then transfer the caller.

`consultation.Consultation` decides about an attended transfer; `_Attended` carries out its
commands on the line (`calls.offer.SecondLeg`) and by the agent's voice, and passes it the events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import structlog

from cordboard.calls import events
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import CallEnding
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.offer import (
    CallerKey,
    LineControl,
    Party,
    PartyAnswered,
    PartyEvent,
    SecondLeg,
)
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.calls.transfer.consultation import (
    Cancelled,
    Consultation,
    ConsultationEvent,
    ConsultationResult,
    ConsultationRules,
    Do,
    Done,
    Refused,
    State,
    TimedOut,
    Verdict,
)
from cordboard.calls.transfer.destination import briefing_of, notice_of, target_of, why_closed
from cordboard.config.schema import Config
from cordboard.config.tools.entry import BRIEFING_AGAIN, TransferDestination
from cordboard.errors import (
    LineError,
    LineGone,
    PartyUnreachable,
    TransferFailed,
)
from cordboard.tools.call_line import TransferOutcome, TransferResult
from cordboard.tools.speech.speakable import plain

log = structlog.get_logger()

CALLER_GONE = "I am sorry, the caller has hung up. Goodbye."
MOST_REASON = 300
"""Characters of the caller's concern that the human hears."""

STATUSES: Mapping[str, TransferOutcome] = {
    "ANSWER": "accepted", "CONTINUE": "accepted", "SUCCESS": "accepted",
    "BUSY": "busy", "FULL": "busy",
    "TIMEOUT": "no_answer", "NOANSWER": "no_answer",
    "JOINEMPTY": "unavailable", "LEAVEEMPTY": "unavailable", "JOINUNAVAIL": "unavailable",
    "LEAVEUNAVAIL": "unavailable", "CHANUNAVAIL": "unavailable",
    "CANCEL": "cancelled", "WITHDRAW": "cancelled", "USEREXIT": "cancelled",
}  # fmt: skip
"""Outcome by the status with which the dialplan hands the caller back: QUEUESTATUS, VMSTATUS,
DIALSTATUS, TRANSFERSTATUS. Others are a failure."""

Joined: TypeAlias = Callable[[], None]
"""Called when caller and other party talk, or the caller has left for the dialplan."""


def _ignore() -> None:
    """Do nothing: no person waits for the talk."""


def sentences(config: Config) -> Iterator[str]:
    """Yield the sentences of attended transfers, and of conferences, that are known in advance."""
    for name, destination in config.destinations.items():
        if destination.mode != "blind" or destination.takeover:
            yield from (CALLER_GONE, BRIEFING_AGAIN)
        if destination.mode != "blind":
            yield destination.introduction
        if destination.takeover:
            yield briefing_of(destination, "")
            yield from (notice_of(context, name) for context in config.contexts.values())


@dataclass(frozen=True, slots=True)
class TransferParts:
    """The call, as its transfers see it."""

    control: LineControl
    destinations: Mapping[str, TransferDestination]
    ending: CallEnding
    ledger: Ledger
    recording: CallRecording
    transferring: Callable[[bool], None]
    """Called when a transfer begins and when it is over."""


class Transfers:
    """The transfers of one call, one at a time."""

    def __init__(self, parts: TransferParts) -> None:
        self._parts = parts
        self._conversation: Conversation | None = None
        self._sound: CallSound | None = None
        self._busy = False
        self._attended: _Attended | None = None
        self.asks_elsewhere = False
        """The caller waits with music while another telephone is asked (`calls.second_phone`)."""
        self.gives_away = False
        """The caller is about to leave for the dialplan, or is there, by our own act."""

    def connect(self, conversation: Conversation, sound: CallSound) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation, self._sound = conversation, sound

    @property
    def asks_a_human(self) -> bool:
        """True during an attended transfer: a key that reaches the agent is the human's. (The
        caller's goes to the transfer.)"""
        return self._attended is not None

    @property
    def busy(self) -> bool:
        """True during a transfer, from the request to its outcome."""
        return self._busy

    @property
    def human(self) -> Party | None:
        """The human who was called, while they are asked or talk with the caller."""
        return self._attended.human if self._attended is not None else None

    @property
    def apart(self) -> bool:
        """True while caller and human talk without the agent."""
        return self._attended is not None and self._attended.joined

    def agent_failed(self) -> bool:
        """Note that the agent cannot continue. True if that must wait: the caller is elsewhere, or
        on the way back."""
        if self._attended is not None:
            self._attended.agent_failed()
        return self._attended is not None or self.gives_away or self.asks_elsewhere

    async def run(
        self,
        destination: str,
        reason: str,
        answered: Callable[[], None] = _ignore,
        *,
        blind: bool,
        joined: Joined | None = None,
    ) -> TransferResult:
        """Let the agent finish, then transfer the caller. Raises `LineError`; then the call
        continues. `answered` is called when the human has answered, or the caller has left for the
        dialplan: the engine does not see more. `blind`: whatever the destination's mode, because
        no agent can speak. `joined`: set for an operator who takes the call over; called when
        operator and caller talk, or, with `blind`, when the caller has left for a dialplan that may
        hand them back."""
        parts, conversation, sound = self._parts, self._conversation, self._sound
        configured = parts.destinations[destination]
        if conversation is None or sound is None:
            raise TransferFailed("the call is not connected")
        if self._busy:
            raise TransferFailed("another transfer is under way")
        self._busy = True
        try:
            await parts.ending.unless_over(conversation.heard_by_caller())
            self._raise_if_over()
            closed = await why_closed(parts.control, configured)
            if closed is not None:
                result, detail = closed
                self._record(destination, result.outcome, detail)
            else:
                parts.transferring(True)
                attends = not blind and (joined is not None or configured.mode != "blind")
                if attends:
                    self._attended = _Attended(
                        parts, conversation, sound, destination, configured, answered, joined
                    )
                    result = await self._attended.run(reason)
                else:
                    result = await self._send(
                        conversation, destination, configured, answered, joined or _ignore
                    )
        except LineGone as error:
            self._record(destination, "cancelled", str(error))
            parts.ending.end("completed", "caller_hangup")
            raise
        except LineError as error:
            self._record(destination, "failed", str(error))
            raise
        finally:
            self._busy, self._attended = False, None
            parts.transferring(False)
        return result

    async def _send(
        self,
        conversation: Conversation,
        name: str,
        destination: TransferDestination,
        answered: Callable[[], None],
        left: Callable[[], None],
    ) -> TransferResult:
        """Send the caller into the dialplan; wait for their return where it may hand them back."""
        parts = self._parts
        target = target_of(name, destination)
        if not target.away_seconds:
            self.gives_away = True
            try:
                await parts.control.transfer(target, _ignore)
                answered()
            finally:
                self.gives_away = False
            self._record(name, "accepted")
            parts.ending.end("transferred", f"transfer:{name}")
            return TransferResult("accepted")
        conversation.consult(True)
        self.gives_away = True

        def gone() -> None:
            answered()
            left()

        try:
            parts.ledger.record(events.TransferStep(name, "away"))
            status = await parts.ending.unless_over(parts.control.transfer(target, gone))
            self._raise_if_over()
            if status is None:
                self._record(name, "accepted")
                parts.ending.end("transferred", f"transfer:{name}")
                return TransferResult("accepted")
        finally:
            self.gives_away = False
            conversation.consult(False)
        outcome = STATUSES.get(status, "failed")
        parts.ledger.record(events.TransferStep(name, "back", status))
        self._record(name, outcome, "" if outcome == "accepted" else status)
        return TransferResult(outcome, returned=True, away=True)

    def _raise_if_over(self) -> None:
        if self._parts.ending.is_over:
            raise _call_over(self._parts.ending)

    def _record(self, name: str, outcome: TransferOutcome, detail: str = "") -> None:
        ok = outcome == "accepted"
        self._parts.ledger.record(events.Transferred(name, ok, "" if ok else detail, outcome))


class _Attended:
    """One attended transfer."""

    def __init__(
        self,
        parts: TransferParts,
        conversation: Conversation,
        sound: CallSound,
        name: str,
        destination: TransferDestination,
        answered: Callable[[], None],
        joined: Joined | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._parts = parts
        self._conversation = conversation
        self._sound = sound
        self._name = name
        self._destination = destination
        self._answered = answered
        self._machine = Consultation(
            ConsultationRules(
                destination.ring_ms / 1000,
                destination.briefing_ms / 1000,
                introduces=destination.mode == "warm" and joined is None,
                returns=destination.return_on_hangup,
            )
        )
        self._is_takeover = joined is not None
        """True if an operator takes the call over: the other party is the operator."""
        self._talk_began = joined or _ignore
        self._leg: SecondLeg | None = None
        self._reason = ""
        self._commands: deque[Do] = deque()
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._paused = False
        """The recording was paused here."""

    async def run(self, reason: str) -> TransferResult:
        """Consult, and return the outcome; nothing of it is left then. Raises `LineError`."""
        self._reason = plain(reason, MOST_REASON)
        if self._reason and self._reason[-1] not in ".!?":
            self._reason += "."
        parts = self._parts
        leg = self._leg = parts.control.consult(
            target_of(self._name, self._destination), self._party
        )
        self._conversation.consult(True)
        try:
            if not self._destination.record and parts.recording.state in ("on", "muted"):
                self._paused = parts.recording.pause()
            result = await parts.ending.unless_over(self._consult())
            if result is None:
                raise _call_over(parts.ending)
            self._record(result)
            if not result.returned and not result.caller_gone:
                await parts.control.hangup()
            if not result.returned:
                parts.ending.end(*_ending_of(result, self._name))
        except Exception:
            if not parts.ending.is_over:
                await leg.back()  # the caller is not left with music
            raise
        except asyncio.CancelledError:
            if not parts.ending.is_over:
                await self._come_back(leg)
            raise
        finally:
            await leg.close()
            self._sound.suspend(False)
            if self._paused and not parts.ending.is_over:
                parts.recording.resume()
            self._conversation.consult(False)
        return TransferResult(result.outcome, returned=result.returned)

    def agent_failed(self) -> None:
        """Bring the caller back, unless they talk with the human already, or an operator takes the
        call over: neither needs the agent."""
        if self._machine.state is not State.JOINED and not self._is_takeover:
            self._take(Cancelled())

    async def _come_back(self, leg: SecondLeg) -> None:
        """Bring the caller back from a transfer that was cancelled. Closing drops the human."""
        try:
            await leg.back()
        except LineError as error:
            log.warning("caller_not_back", destination=self._name, error=str(error))
        self._take(Cancelled())
        self._take(Done(Do.BACK))
        if self._machine.result is not None:
            self._record(self._machine.result)

    @property
    def human(self) -> Party | None:
        """The other party, once they have answered, as long as they are there."""
        talks = self._machine.state in (State.BRIEFING, State.INTRODUCING, State.JOINED)
        return self._leg if talks else None

    @property
    def joined(self) -> bool:
        """True while caller and other party talk without the agent."""
        return self._machine.state is State.JOINED

    async def _consult(self) -> ConsultationResult:
        self._follow(self._machine.start(self._loop.time()))
        self._step(State.HOLDING)
        try:
            while True:
                while self._commands:
                    await self._carry_out(self._commands.popleft())
                if self._machine.result is not None:
                    return self._machine.result
                self._news.clear()
                if self._speaking is not None and self._speaking.done():
                    self._speaking.result()  # raises what went wrong in it
                await self._news.wait()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._hush()

    # Events.

    def _party(self, event: PartyEvent) -> None:
        """Take an event of the line."""
        if isinstance(event, PartyAnswered):
            self._answered()
        if not isinstance(event, CallerKey):
            self._take(event)
        elif event.key == self._destination.cancel_key and self._machine.state in (
            State.HOLDING,
            State.RINGING,
            State.BRIEFING,
        ):
            self._take(Cancelled())

    def _take(self, event: ConsultationEvent) -> None:
        before = self._machine.state
        self._follow(self._machine.take(event, self._loop.time()))
        if self._machine.state is not before:
            self._step(self._machine.state)

    def _follow(self, commands: list[Do]) -> None:
        self._commands.extend(commands)
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._machine.deadline is not None:
            self._timer = self._loop.call_at(self._machine.deadline, self._take, TimedOut())

    def _step(self, state: State) -> None:
        detail = ""
        if state is State.JOINED and self._parts.recording.state != "off":
            detail = "the recording pauses" if self._paused else "the recording goes on"
        elif state is State.OVER and self._machine.result is not None:
            detail = self._machine.result.detail
        self._parts.ledger.record(events.TransferStep(self._name, str(state), detail))

    def _record(self, result: ConsultationResult) -> None:
        accepted = result.outcome == "accepted"
        error = "" if accepted else result.detail
        self._parts.ledger.record(events.Transferred(self._name, accepted, error, result.outcome))

    # Commands.

    async def _carry_out(self, command: Do) -> None:
        """Carry out one command. Speech is a task, since a party may hang up meanwhile."""
        leg = self._leg
        assert leg is not None  # noqa: S101 - `run` has set it
        try:
            match command:
                case Do.HOLD:
                    await leg.hold()
                case Do.DIAL:
                    await leg.dial()
                case Do.BRIEF:
                    await leg.brief()
                    self._speak(command, self._brief)
                    return
                case Do.HUSH:
                    await self._hush()
                case Do.INTRODUCE:
                    await leg.introduce()
                    self._speak(
                        command, partial(self._tell, command, self._destination.introduction)
                    )
                    return
                case Do.JOIN:
                    await leg.join()
                    self._talk_began()
                    await self._record_talk(leg)
                case Do.PART:
                    self._speak(command, partial(self._tell, command, CALLER_GONE))
                    return
                case Do.DROP:
                    await leg.drop()
                case Do.BACK:
                    self._sound.suspend(False)
                    await leg.back()
        except LineError as error:
            log.info("transfer_command_failed", command=str(command), error=str(error))
            self._take(Refused(command, str(error), isinstance(error, PartyUnreachable)))
        else:
            self._take(Done(command))

    async def _record_talk(self, leg: SecondLeg) -> None:
        """Let the recording follow caller and human, if it goes on."""
        if not self._destination.record or self._parts.recording.state not in ("on", "muted"):
            return
        self._sound.suspend(True)
        try:
            await leg.follow()
        except LineError as error:  # they talk all the same
            self._paused = self._parts.recording.pause()
            self._parts.ledger.record(events.Trouble("recording", str(error)))

    async def _brief(self) -> None:
        needs_key = self._destination.accept == "key"
        takes = await self._conversation.brief(
            briefing_of(self._destination, self._reason),
            BRIEFING_AGAIN,
            needs_key=needs_key,
            expects_key=self._is_takeover,
        )
        self._take(Verdict(takes))

    async def _tell(self, command: Do, words: str) -> None:
        await self._conversation.tell(words)
        self._take(Done(command))

    def _speak(self, command: Do, words: Callable[[], Coroutine[None, None, None]]) -> None:
        """Have the agent speak to the other party, beside the commands."""

        async def speak() -> None:
            try:
                await words()
            except LineError as error:
                self._take(Refused(command, str(error)))

        self._speaking = self._loop.create_task(speak(), name=f"transfer {command}")
        self._speaking.add_done_callback(lambda _: self._news.set())

    async def _hush(self) -> None:
        """Stop the sentence to the other party."""
        speaking, self._speaking = self._speaking, None
        if speaking is not None and not speaking.done():
            speaking.cancel()
            await asyncio.wait((speaking,))
        self._conversation.hush()


def _call_over(ending: CallEnding) -> LineGone:
    """Return the error of a transfer during which the call has ended: by an operator, say."""
    _, reason = ending.result
    return LineGone(f"the call has ended: {reason}")


def _ending_of(result: ConsultationResult, name: str) -> tuple[str, str]:
    """Return outcome and reason of a call that ends with its transfer."""
    if result.outcome == "accepted":
        return "transferred", f"transfer:{name}"
    return ("completed", "caller_hangup") if result.caller_gone else ("failed", "line_failed")
