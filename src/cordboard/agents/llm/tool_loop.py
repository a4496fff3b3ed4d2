"""One answer of a model, with its tools: the same loop for all models, calls and chats.

    request → text, sentence by sentence → wishes → tools, side by side → request → …

It runs in its own task, so that the model continues to write while a sentence is turned into sound,
and tools run while the words before them are spoken. It may begin before the turn is certain
(`Answering.sure`): until then it only reads.

Calls that a model writes into its text are found there (`WrittenCalls`), except in the text of a
vendor's own service (`SendsCalls`): its models do not write any, and what one reads aloud, from the
result of a tool for example, must not become a call.

Every failure of a tool goes back to the model: an unknown tool, arguments that are not JSON, a
refusal of the desk. After `most_rounds` the model must answer with the results it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import orjson
import structlog

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.dialogue import AskTool
from cordboard.agent_api.language_model import (
    AgentSaid,
    Finished,
    Kept,
    LanguageModel,
    Message,
    ModelRequest,
    Reason,
    SendsCalls,
    TextPiece,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.llm.messages import Turn, complete, with_own_ids
from cordboard.agents.llm.wire import arguments_of
from cordboard.agents.llm.written_calls import Written, WrittenCalls
from cordboard.errors import BrainError
from cordboard.speech.sentences import SentenceSplitter, split_sentences
from cordboard.tools.payload import as_payload
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.speech.speech import summary
from cordboard.tools.tool import JsonObject, Status, ToolReply

NOT_JSON = "The arguments are not a JSON object. Ask again with valid JSON."
TOO_MANY = "Not run: too many tools at once. Ask for fewer."
NOTHING_SAID = "Sorry, I did not get that. Could you say it again?"
"""Spoken where a model answers with nothing at all: silence would be taken for a broken line."""
REFUSED = "Sorry, I cannot help with that."
MOST_AT_ONCE = 16
"""Most tools of one round."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The resources of an answer."""

    model: LanguageModel
    system: str
    tools: tuple[ProviderTool, ...]
    ask_tool: AskTool
    used: Callable[[Usage], None]
    most_rounds: int = 5
    speak_results: bool = False
    """Speak the sentences of tools' results instead of asking the model again."""


class Answering:
    """One answer, from `Answering(...)` until it is read to its end or stopped."""

    def __init__(self, parts: LoopParts, before: Sequence[Message], turn: Turn) -> None:
        """`before`: the conversation so far; `turn`: the turn to answer, to which messages are
        added."""
        self._parts = parts
        self._before = tuple(before)
        self.turn = turn
        self._sure = asyncio.Event()
        self._out: asyncio.Queue[str | BrainError | None] = asyncio.Queue()
        self._said: list[str] = []
        """Sentences of the message being written."""
        self._any_said = False
        self._answers: dict[str, ToolAnswered] = {}
        """Answers to the tool calls that are running, as they arrive."""
        self._ends = False
        """A tool has ended the call: no more words are needed."""
        self._stopped = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def sure(self) -> None:
        """Note that the turn is certain: from now on tools may run."""
        self._sure.set()

    async def sentences(self) -> AsyncGenerator[str, None]:
        """Yield the sentences to be spoken. Raises `BrainError`. Closing it stops the answer."""
        try:
            while (item := await self._out.get()) is not None:
                if isinstance(item, BrainError):
                    raise item
                yield item
        finally:
            self.stop()
            await asyncio.wait((self._task,))

    def stop(self) -> None:
        """Cancel the request and the tools. The part of the turn already written stays."""
        if self._stopped:
            return
        self._stopped = True
        self._task.cancel()
        self._write_down((), ())
        self.turn.messages += self._answers.values()
        complete(self.turn.messages)

    @property
    def going_on(self) -> bool:
        return not self._task.done()

    async def stopped(self) -> None:
        """Stop it, and wait until all of it has ended."""
        self.stop()
        await asyncio.wait((self._task,))

    # The task.

    async def _run(self) -> None:
        try:
            await self._rounds()
        except BrainError as error:
            self._out.put_nowait(error)
        except Exception as error:  # task border: the reader gets it, and counts it
            log.exception("brain_failed", model=self._parts.model.model)
            failure = BrainError(f"internal error: {type(error).__name__}")
            failure.__cause__ = error
            self._out.put_nowait(failure)
        else:
            self._out.put_nowait(None)

    async def _rounds(self) -> None:
        for number in range(self._parts.most_rounds + 1):
            may_ask = number < self._parts.most_rounds
            wishes, reason = await self._ask_model(may_ask=may_ask)
            if not wishes and not (reason == "paused" and may_ask):
                self._end_with_words(reason)
                return
            await self._sure.wait()
            await self._run_tools(wishes)
            if wishes and self._parts.speak_results and self._spoke_results(len(wishes)):
                return

    def _spoke_results(self, count: int) -> bool:
        """Speak the results of the last tools; False where the model must go on, because one of
        them has no words for the caller."""
        answers = [m for m in self.turn.messages[-count:] if isinstance(m, ToolAnswered)]
        words = [_words_of(answer.payload) for answer in answers]
        if not all(words):
            return False
        self._say([sentence for text in words for sentence in split_sentences(text)])
        self._write_down((), ())
        return True

    def _end_with_words(self, reason: Reason) -> None:
        if self._any_said or (self._ends and reason != "refused"):
            return
        words = REFUSED if reason == "refused" else NOTHING_SAID
        self._say([words])
        self._write_down((), ())

    async def _ask_model(self, *, may_ask: bool) -> tuple[tuple[ToolWish, ...], Reason]:
        """Send one request; return the tool calls."""
        parts = self._parts
        splitter = SentenceSplitter()
        model = parts.model
        apart = isinstance(model, SendsCalls) and model.sends_calls
        reader = None if apart else WrittenCalls(parts.tools)
        wishes: list[ToolWish] = []
        written: list[ToolWish] = []
        kept: list[Kept] = []
        reason: Reason = "other"
        messages = (*self._before, *self.turn.messages)
        request = ModelRequest(parts.system, messages, parts.tools, may_ask)
        async with aclosing(parts.model.stream(request)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextPiece(text):
                        words = [piece] if reader is None else reader.feed(text)
                        written += self._say_words(splitter, words)
                    case ToolWish():
                        wishes.append(piece)
                    case Kept():
                        kept.append(piece)
                    case Finished(why, amounts):
                        reason = why
                        parts.used(Usage(parts.model.provider, parts.model.model, amounts))
        if reader is not None:
            written += self._say_words(splitter, reader.flush(cut=reason == "length"))
        self._say(splitter.flush())
        # Some servers send a call, and leave its text in the words.
        sent = {(wish.name, wish.arguments) for wish in map(_compact, wishes)}
        wishes += (one for one in map(_compact, written) if (one.name, one.arguments) not in sent)
        if not may_ask:
            wishes = []
        taken = (m.wish_id for m in messages if isinstance(m, ToolAnswered))
        named = with_own_ids(wishes, taken)
        needed = [one for one in kept if one.lasting or named or reason == "paused"]
        self._write_down(tuple(map(_sendable, named)), needed)
        return named, reason

    async def _run_tools(self, wishes: tuple[ToolWish, ...]) -> None:
        answers = self._answers
        answers |= {wish.wish_id: _problem(wish, TOO_MANY) for wish in wishes[MOST_AT_ONCE:]}
        async with asyncio.TaskGroup() as group:
            for wish in wishes[:MOST_AT_ONCE]:
                group.create_task(self._run_tool(wish))
        self.turn.messages += (answers[wish.wish_id] for wish in wishes)
        answers.clear()

    async def _run_tool(self, wish: ToolWish) -> None:
        arguments = arguments_of(wish)
        if arguments is None:
            self._answers[wish.wish_id] = _problem(wish, NOT_JSON)
            return
        reply: ToolReply = await self._parts.ask_tool(wish.name, arguments)
        self._ends = self._ends or bool(reply.control.get("call_ends"))
        answer = ToolAnswered(wish.wish_id, wish.name, as_payload(reply), failed=not reply.ok)
        self._answers[wish.wish_id] = answer

    # The text so far.

    def _say(self, sentences: list[str]) -> None:
        for sentence in sentences:
            self._any_said = True
            self._said.append(sentence)
            self._out.put_nowait(sentence)

    def _say_words(self, splitter: SentenceSplitter, pieces: Sequence[Written]) -> list[ToolWish]:
        """Say the words among the pieces; return the calls."""
        for piece in pieces:
            if isinstance(piece, TextPiece):
                self._say(splitter.feed(piece.text))
        return [piece for piece in pieces if isinstance(piece, ToolWish)]

    def _write_down(self, wishes: tuple[ToolWish, ...], kept: Sequence[Kept]) -> None:
        text, self._said = " ".join(self._said), []
        thoughts = tuple(one.block for one in kept if not one.lasting)
        lasting = tuple(one.block for one in kept if one.lasting)
        if text or wishes or thoughts:
            self.turn.messages.append(AgentSaid(text, wishes, thoughts, lasting))


def _compact(wish: ToolWish) -> ToolWish:
    """Return it with its arguments in the shortest form, to compare it with others."""
    arguments = arguments_of(wish)
    return wish if arguments is None else replace(wish, arguments=orjson.dumps(arguments).decode())


def _sendable(wish: ToolWish) -> ToolWish:
    """Return it in a form that can be sent back: some services reject their own broken JSON."""
    return wish if arguments_of(wish) is not None else replace(wish, arguments="{}")


def _words_of(payload: JsonObject) -> str:
    """Return a result's own words for the caller; empty for a refusal, which the model may mend,
    and for data that no rule turns into words."""
    message = str(payload.get("message") or "")
    told = payload["status"] in (Status.OK, Status.ERROR, Status.TIMEOUT)
    return message if told and message != summary(payload.get("data")) else ""


def _problem(wish: ToolWish, message: str) -> ToolAnswered:
    payload = {"status": "refused", "message": message}
    return ToolAnswered(wish.wish_id, wish.name, payload, failed=True)
