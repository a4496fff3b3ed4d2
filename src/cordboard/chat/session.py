"""One written conversation: a context's dialogue, toolbox and desk without a telephone.

    open → (answering → open | waiting for a yes or no → answering)* → ended

It is pinned to the generation in force when it began, and leaves the same ledger as a call. One
message is answered at a time. While a tool waits for a yes or no, the answer so far ends with an
`approval`, and the next message continues it.

A client that stops reading gives the answer up: tools that only read are cancelled, one that
changes the world continues. Its answer, like any late one, is kept for the next message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog

from cordboard.agent_api.dialogue import Brain, Dialogue, Preparer
from cordboard.agent_api.speech import ABOUT_EARLIER
from cordboard.calls import events
from cordboard.calls.offer import CallTest
from cordboard.calls.services import CallServices
from cordboard.chat.answer import Answer, ChatEvent, EventName
from cordboard.chat.opening import Opening
from cordboard.chat.tool_record import ToolRecord
from cordboard.chat.trial_runs import Trial
from cordboard.config.schema import Chat
from cordboard.errors import ChatRefused, CordboardError, LineError, LineGone
from cordboard.generation.generation import Generation
from cordboard.observe.tool_metrics import APPROVAL_ANSWERS
from cordboard.observe.tracing import Tracing
from cordboard.speech.yes_or_no import read_yes_or_no
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import TOOL_GRACE, Desk
from cordboard.tools.tool import JsonObject, ToolAsk, ToolReply
from cordboard.tools.tool_use import REAL, ToolUse

UNCLEAR = "Please answer yes or no."
_SHORT = {"y": True, "1": True, "n": False, "2": False}
"""Yes and no as typed, and as pressed on a telephone."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChatLine(NoCaller):
    """The line of a written conversation: it can be ended, spoken on and used for yes-or-no
    questions. Tools that need keys, recorded audio or a transfer get an error text that the other
    side may read."""

    no_transfer = "a written conversation cannot be transferred"
    no_keys = "a written conversation has no keys"
    no_voice = "a written conversation has no voice"
    session: ChatSession = field(repr=False, kw_only=True)

    def end_after_speech(self, reason: str) -> None:
        self.session.leave(reason)

    def say(self, text: str) -> None:
        self.session.say(text)

    async def confirm(self, question: str) -> bool | None:
        return await self.session.confirm(question)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTest:
    """Facts of a conversation that a person makes to try the agent."""

    owner: str
    """The person or key that it belongs to."""
    tools: ToolUse = REAL
    trial: Trial | None = None
    """It runs on this one; None: on the configuration in force."""

    @property
    def facts(self) -> CallTest:
        """The same for the phases and the ledger."""
        return CallTest(self.tools, self.trial.id if self.trial is not None else "")


class ChatSession:
    """One conversation."""

    def __init__(
        self,
        context: str,
        provider: str,
        generation: Generation,
        brain: Brain,
        services: CallServices,
        variables: Mapping[str, str],
        settings: Chat,
        on_over: Callable[[str], None],
        *,
        tool_grace: float = TOOL_GRACE,
        test: ChatTest | None = None,
    ) -> None:
        """`variables`: of the line, such as `caller_number`, and those that the context declares.
        `on_over` is called with the session's id once everything is closed. `tool_grace`: seconds
        for which a tool that changes the world may continue after the conversation."""
        self._loop = asyncio.get_running_loop()
        self._generation = generation
        self._metrics = services.metrics
        self._settings = settings
        self._on_over = on_over
        self._tool_grace = tool_grace
        self.owner = test.owner if test is not None else None
        """The person or key that it belongs to, if it is a test."""
        facts = test.facts if test is not None else None
        opening = self._opening = Opening(
            context, provider, generation, brain, services, variables, self._spent, facts
        )
        self.session_id = opening.session_id
        self.context_name = context
        self._ledger = opening.ledger
        self._record = ToolRecord(self._ledger, services.metrics, context, self._tell)
        self._desk = self._make_desk(brain, services.tracing)
        self._dialogue: Dialogue | None = None
        """Opened with the first message, after the context's look-ups."""
        self._introduced = False
        self._turn = 0
        self._asked = 0
        self._said: list[str] = []
        """Pieces of the turn's answer so far."""
        self._answer: Answer | None = None
        """Reader of the present answer."""
        self._answering: asyncio.Task[None] | None = None
        self._question: asyncio.Future[str | None] | None = None
        """Waits for the message that answers; None: none will come."""
        self._limit: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._leaving = False
        self._goodbye: str | None = None
        """Spoken at the end of the answer that reached the budget."""
        self._ending: asyncio.Task[None] | None = None
        self._began_turn = self._loop.time()
        generation.acquire()
        opening.begin()
        self._wait_for_a_message()

    def _make_desk(self, brain: Brain, tracing: Tracing) -> Desk:
        opening = self._opening
        line = ChatLine(
            self.session_id,
            self.context_name,
            opening.provider_name,
            opening.variables,
            session=self,
        )
        context = self._generation.config.contexts[self.context_name]
        opening.firewall.connect(line, context, opening.toolbox.specs)
        return Desk(
            opening.toolbox,
            line,
            self._record,
            self._loop.time,
            payload=lambda: brain.payload,
            tracing=tracing,
            guard=opening.firewall,
        )

    @property
    def model(self) -> str:
        """The language model that answers, or `rules`."""
        return self._opening.model

    @property
    def provider_name(self) -> str:
        return self._opening.provider_name

    @property
    def over(self) -> bool:
        """True if it is ending or has ended."""
        return self._ending is not None

    @property
    def generation(self) -> int:
        """Number of its configuration."""
        return self._opening.generation

    @property
    def opening(self) -> Opening:
        """Its beginning: provider, model and tools."""
        return self._opening

    @property
    def asks(self) -> bool:
        """True while it waits for a yes or no."""
        return self._question is not None

    # Messages.

    def take(self, message: str | None) -> Answer:
        """Take a message and return its answer, which is made while it is read. None begins the
        conversation with the greeting alone. Raises `ChatRefused`."""
        if self.over:
            raise ChatRefused("unknown_session", "this conversation is over")
        if self._answer is not None or (self._answering is not None and self._question is None):
            raise ChatRefused("busy", "the last message is still being answered")
        check_length(message, self._settings)
        answer = self._answer = Answer(self._reader_left)
        self._stop_timers()
        self._began_turn = self._loop.time()
        self._introduce()
        if message is not None:
            self._turn += 1
            self._said = []
        self._limit = self._loop.call_later(self._settings.turn_timeout_ms / 1000, self._too_long)
        if self._question is not None:
            self._note(message)
            self._question.set_result(message)
            self._question = None
        else:
            self._answering = self._loop.create_task(self._respond(message))
            self._answering.add_done_callback(self._responded)
        return answer

    def _introduce(self) -> None:
        data: dict[str, Any] = {"session_id": self.session_id, "context": self.context_name}
        if not self._introduced:
            self._introduced = True
            opening = self._opening
            data["provider"] = opening.provider_name
            data["model"] = opening.model
            data["notice"] = opening.notice
            data["generation"] = opening.generation
            data["tools"] = [spec.name for spec in opening.toolbox.specs]
            data["missing_tools"] = list(opening.toolbox.missing)
        self._emit("session", data)

    async def _respond(self, message: str | None) -> None:
        structlog.contextvars.bind_contextvars(
            call_id=self.session_id,
            context_name=self.context_name,
            provider_name=self._opening.provider_name,
        )
        try:
            if self._dialogue is None:
                self._dialogue, greeting = await self._opening.dialogue(self._ask_tool)
                self._greet(greeting)
            else:
                self._disclose(self._turn)
            if message is None:
                return
            self._note(message)
            self._tell_late()
            async with aclosing(self._dialogue.respond(message)) as sentences:
                async for sentence in sentences:
                    self.say(sentence)
            self._tell_late()
        except CordboardError as error:
            self._trouble("agent_failed", str(error))
        except Exception as error:  # task border: the conversation continues
            log.exception("chat_turn_failed")
            self._metrics.internal_error("chat_turn")
            self._trouble("internal_error", f"internal error: {type(error).__name__}")

    def _note(self, message: str | None) -> None:
        self._ledger.record(events.TurnEnded(self._turn, self._ledger.ms(self._began_turn)))
        self._ledger.record(events.Heard(self._turn, message or "", 1.0))

    def _greet(self, greeting: str) -> None:
        disclosed = self._disclose(0)
        if greeting:
            self._ledger.record(events.Answering(0, greeting))
            self._emit("token", {"turn": 0, "text": f" {greeting}" if disclosed else greeting})

    def _disclose(self, turn: int) -> bool:
        """Begin the answer with the disclosure; False if the client has it, or there is none."""
        disclosure = self._opening.disclosure
        words = disclosure.words()
        if not words:
            return False
        self._ledger.record(events.Answering(turn, words))
        self._emit("token", {"turn": turn, "text": words}, disclosure.taken)
        if turn:
            self._said.append(words)
        return True

    def _responded(self, _: asyncio.Task[None]) -> None:
        self._answering = None
        if self._ending is not None:
            return
        if self._goodbye is not None:
            self.say(self._goodbye)
            self.end_soon("completed", "budget")
        elif self._leaving:
            self.end_soon("completed", "agent_hangup")
        else:
            self._close_answer("open")
            self._wait_for_a_message()

    def _trouble(self, code: str, message: str) -> None:
        self._ledger.record(events.Trouble(code, message))
        self._emit("error", {"code": code, "message": message})

    # Giving up.

    def _reader_left(self, answer: Answer) -> None:
        if answer is self._answer:
            self._answer = None
            self._opening.disclosure.left()
            self._give_up()

    def _too_long(self) -> None:
        seconds = self._settings.turn_timeout_ms / 1000
        log.warning("chat_turn_too_long", call_id=self.session_id, seconds=seconds)
        self._trouble("turn_timeout", f"no answer within {seconds:g} s")
        self._give_up()

    def _give_up(self) -> None:
        """Stop answering. The desk decides about a running tool."""
        self._stop_timers()
        if self._answering is not None:
            self._answering.cancel()
            if self._dialogue is not None:
                self._dialogue.interrupted(" ".join(self._said))
        else:
            self._wait_for_a_message()

    # Actions on the line.

    def leave(self, reason: str) -> None:
        """End the conversation with this answer: the agent hangs up."""
        log.info("agent_hangs_up", call_id=self.session_id, why=reason)
        self._leaving = True

    def _spent(self, goodbye: str) -> None:
        """End with this answer: the conversation has reached its budget."""
        self._goodbye = goodbye
        if self._answering is None:
            self.end_soon("completed", "budget")

    def say(self, text: str) -> None:
        """Emit a sentence of the agent now."""
        if not text:
            return
        self._ledger.record(events.Answering(self._turn, text))
        self._emit("token", {"turn": self._turn, "text": f" {text}" if self._said else text})
        self._said.append(text)

    async def confirm(self, question: str) -> bool | None:
        """Ask, and read the next message; ask once more if it is unclear. Raises `LineError` while
        another question is open, `LineGone` when the conversation ends meanwhile."""
        if self._question is not None:
            raise LineError("another question is waiting for its answer")
        words = question
        for _ in range(2):
            if self.over:
                raise LineGone("the conversation is over")
            if self._answer is None:
                raise LineError("the question has no reader")
            waiting: asyncio.Future[str | None] = self._loop.create_future()
            self._question = waiting
            self._ledger.record(events.Answering(self._turn, words))
            asked_at = self._loop.time()
            self._emit("approval", {"turn": self._turn, "question": words})
            self._close_answer("approval")
            self._wait_for_a_message()
            try:
                message = await waiting
            finally:
                if self._question is waiting:
                    self._question = None
            agreed = _agreed(message) if message is not None else None
            given = APPROVAL_ANSWERS[agreed]
            self._metrics.tools.approval(given)
            waited = round((self._loop.time() - asked_at) * 1000)
            by = "text" if message is not None else ""
            self._ledger.record(events.ToolApproval(words, given, waited, by))
            if agreed is not None:
                return agreed
            words = f"{UNCLEAR} {question}"
        return None

    # Tools.

    async def _ask_tool(
        self, name: str, arguments: JsonObject, confirmed: bool = False
    ) -> ToolReply:
        self._asked += 1
        ask = ToolAsk(f"{self._turn}.{self._asked}", name, arguments, self._turn, confirmed)
        return await self._desk.run(ask)

    def _tell_late(self) -> None:
        """Report the results of tool calls that were given up."""
        for words in self._record.take_late(self._turn):
            self.say(f"{ABOUT_EARLIER} {words}")

    # The end.

    def end_soon(self, outcome: str, reason: str) -> asyncio.Task[None]:
        """Begin to end it, with words as in `call.ended`; the first given reason counts."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(outcome, reason))
        return self._ending

    async def end(self, outcome: str, reason: str) -> None:
        """End it, and wait until everything is closed."""
        await asyncio.shield(self.end_soon(outcome, reason))

    async def close(self, grace: float, tool_grace: float) -> None:
        """End it because the engine stops. An unfinished answer has `grace` seconds, a tool that
        changes the world `tool_grace`, both from now."""
        until = self._loop.time() + tool_grace
        if self._answering is not None and self._question is None:
            await asyncio.wait((self._answering,), timeout=grace)
        ending = self.end_soon("shutdown", "engine_stopped")
        await asyncio.wait((ending,), timeout=until - self._loop.time())
        await self._desk.close(0)
        await self._opening.stop_lookups()
        await asyncio.shield(ending)

    async def _end(self, outcome: str, reason: str) -> None:
        self._stop_timers()
        if self._question is not None and not self._question.done():
            self._question.set_result(None)
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait((self._answering,))
        if self._dialogue is not None and isinstance(self._dialogue, Preparer):
            self._dialogue.close()
        self._close_answer("ended", reason)
        try:
            await self._desk.close(self._tool_grace)
            self._record.close()
            await self._opening.close(outcome, reason, self._tool_grace)
        finally:
            self._generation.release()
            self._on_over(self.session_id)
        log.info("chat_ended", call_id=self.session_id, outcome=outcome, reason=reason)

    # Internals.

    def _emit(
        self, name: EventName, data: dict[str, Any], taken: Callable[[], None] | None = None
    ) -> None:
        self._tell(ChatEvent(name, data), taken)

    def _tell(self, event: ChatEvent, taken: Callable[[], None] | None = None) -> None:
        if self._answer is not None:
            self._answer.put(event, taken)

    def _close_answer(self, state: Literal["open", "approval", "ended"], reason: str = "") -> None:
        """End the present answer; `state` is the new state of the conversation."""
        answer, self._answer = self._answer, None
        if answer is not None:
            took = round((self._loop.time() - self._began_turn) * 1000)
            data = {"turn": self._turn, "state": state, "reason": reason, "took_ms": took}
            answer.put(ChatEvent("done", data))
            answer.end()

    def _wait_for_a_message(self) -> None:
        self._stop_timers()
        if not self.over:
            self._idle = self._loop.call_later(
                self._settings.idle_ms / 1000, self.end_soon, "completed", "caller_silent"
            )

    def _stop_timers(self) -> None:
        for timer in (self._limit, self._idle):
            if timer is not None:
                timer.cancel()
        self._limit = self._idle = None


def check_length(message: str | None, settings: Chat) -> None:
    """Raise `ChatRefused` for a message that is too long."""
    most = settings.max_message_chars
    if message is not None and len(message) > most:
        raise ChatRefused("too_long", f"a message may have at most {most} characters")


def _agreed(message: str) -> bool | None:
    short = _SHORT.get(message.strip().casefold())
    return read_yes_or_no(message) if short is None else short
