"""Shared part of the emulated language models: a script, its faults, and events by HTTP.

A request's place in the script is the number of the caller's texts in it, so that a repeated
request for a turn (an eager start, a retry) gets the same answer. Results of tools are answered by
`Answer.then`. A fault before the answer is an HTTP status, or silence; one within it cuts, stalls
or spoils the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cordboard.agents.llm.messages import CALL_BEGINS
from cordboard_testkit.emulators.http_service import Asked, Book, HttpService, Refused, in_pieces
from cordboard_testkit.emulators.script import (
    Answer,
    CallerTurn,
    Fault,
    Prompter,
    Script,
    Use,
    When,
    results_said,
)

KEY = "test-key"
GARBAGE = b"event: message\ndata: {]\n\ndata: [1]\n\n"
_BEFORE: tuple[When, ...] = ("connect", "setup", "turn", "answer")

Part: TypeAlias = Literal["start", "text", "ask", "end"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of an answer's stream, framed."""

    part: Part
    data: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The content of an accepted request."""

    caller_texts: int
    """Number of the caller's texts."""
    results: tuple[str, ...]
    """Contents of the tools' results, if it ends with results."""
    stream: bool = True
    may_ask: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer."""

    text: str
    asks: tuple[Use, ...] = ()


class Language(Protocol):
    """The requests and answers of one vendor's protocol."""

    def model(self, request: Request, name: Any) -> str:
        """Return the model of that name. Raises `Refused` for a wrong key or name."""
        ...

    def check(self, request: Request, body: Any) -> Wanted:
        """Raises `Refused`."""
        ...

    def events(self, body: dict[str, Any], reply: Reply) -> Iterable[Event]: ...

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]: ...

    def refusal(self, refused: Refused) -> tuple[int, dict[str, Any]]:
        """Status and body of an HTTP error."""
        ...

    def error_event(self, code: int | str) -> bytes:
        """An error in the middle of a stream."""
        ...


class TextEmulator:
    """An emulated language model; a context manager."""

    def __init__(
        self, script: Script, routes: Sequence[Route], retry_after: float = 1, port: int = 0
    ) -> None:
        self.script = script
        self._prompter = Prompter(script)
        self._answers: dict[int, Answer] = {}
        self._retry_after = retry_after
        self._service = HttpService([*routes], port=port)
        self._book = Book()
        self.streams = True
        """False: it sends each answer at once, whatever was asked for, as simple servers do."""
        self.cold_seconds = 0.0
        """Time that the model takes to load; the first request waits for it, and others with it."""
        self._loaded_at: float | None = None
        self.gave_up = 0
        """Number of answers whose reader left before the end."""

    @property
    def origin(self) -> str:
        return self._service.origin

    @property
    def url(self) -> str:
        """For `base_url`."""
        return self.origin

    @property
    def received(self) -> list[Asked]:
        return self._book.received

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests for an answer."""
        return [one.body for one in self._book.received if one.method == "POST"]

    @property
    def violations(self) -> list[str]:
        return self._book.violations

    @property
    def connections(self) -> int:
        """Requests for an answer so far."""
        return self._prompter.connections

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._service.__aexit__()

    def look(
        self, request: Request, language: Language, name: str, found: Callable[[str], Any]
    ) -> Response:
        """A GET about this model, answered with `found(its name)`."""
        try:
            model = language.model(request, name)
        except Refused as refused:
            return self.refuse(language, refused)
        self._note(request, None)
        return JSONResponse(found(model))

    async def answer(self, request: Request, language: Language) -> Response:
        """A POST for an answer."""
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError:
            body = None
        self._note(request, body)
        self._prompter.connections += 1
        try:
            wanted = language.check(request, body)
        except Refused as refused:
            return self.refuse(language, refused)
        fault = self._fault_before(wanted)
        if fault is not None:
            return await self._fail(request, language, fault)
        await self._load()
        unasked = _last_words(body) == CALL_BEGINS
        reply = Reply("And so on. ") if unasked else self._reply(wanted, body)
        await asyncio.sleep(self._prompter.thinking)
        if not (wanted.stream and self.streams):
            return JSONResponse(language.whole(body, reply))
        events = self._events(request, language, body, reply)
        return StreamingResponse(in_pieces(events), media_type="text/event-stream")

    def refuse(self, language: Language, refused: Refused) -> Response:
        self._book.violations.append(refused.message)
        status, told = language.refusal(refused)
        return JSONResponse(told, status, headers=refused.headers)

    def cools_down(self, cold_seconds: float) -> None:
        """Unload the model; the next request loads it, in `cold_seconds`."""
        self.cold_seconds, self._loaded_at = cold_seconds, None

    async def _load(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._loaded_at is None:
            self._loaded_at = now + self.cold_seconds
        await asyncio.sleep(self._loaded_at - now)

    def _note(self, request: Request, body: Any) -> None:
        query = dict(request.query_params)
        self._book.note(request.method, request.url.path, query, dict(request.headers), body)

    def _reply(self, wanted: Wanted, body: dict[str, Any]) -> Reply:
        answer = self._answers.get(wanted.caller_texts)
        if answer is None or (self._prompter.improvises and not wanted.results):
            turn = CallerTurn(_last_words(body), tools=tuple(_declared(body)))
            answer = self._answers[wanted.caller_texts] = self._prompter.answer(turn)
        if wanted.results:
            return Reply(results_said(answer.then, map(_message, wanted.results)))
        if answer.asks and not wanted.may_ask:
            return Reply(answer.says or "I cannot look that up now.")
        return Reply(answer.says, answer.asks)

    # Faults.

    def _fault_before(self, wanted: Wanted) -> Fault | None:
        for when in (*_BEFORE, *(("result",) if wanted.results else ())):
            fault = self._prompter.fault(when)
            if fault is not None:
                return fault
        return None

    async def _fail(self, request: Request, language: Language, fault: Fault) -> Response:
        match fault.do:
            case "refuse" | "error":
                status = fault.code if isinstance(fault.code, int) and fault.code else 500
                headers = {"retry-after": f"{self._retry_after:g}"} if status == 429 else {}
                status, told = language.refusal(Refused(status, "emulated fault", "", headers))
                return JSONResponse(told, status, headers=headers)
            case "garbage":
                return Response(GARBAGE, media_type="text/event-stream")
            case "stall":
                await self._until_gone(request)
            case _:
                self._service.drop(request)
        return Response(status_code=499)

    async def _events(
        self, request: Request, language: Language, body: dict[str, Any], reply: Reply
    ) -> AsyncGenerator[bytes, None]:
        whole = False
        try:
            for event in language.events(body, reply):
                yield event.data
                if event.part == "text" and _last_words(body) == CALL_BEGINS:
                    # Without a question and a limit, the model writes until its reader leaves.
                    await self._until_gone(request)
                    return
                fault = self._fault_after(event.part)
                if fault is None:
                    continue
                match fault.do:
                    case "stall":
                        await self._until_gone(request)
                        return
                    case "garbage":
                        yield GARBAGE
                    case "duplicate":
                        yield event.data
                    case "error" | "refuse":
                        yield language.error_event(fault.code)
                        return
                    case _:
                        self._service.drop(request)
                        return
            whole = True
        finally:
            self.gave_up += not whole

    def _fault_after(self, part: Part) -> Fault | None:
        when: dict[Part, tuple[When, ...]] = {
            "text": ("sound", "message"),
            "ask": ("ask", "message"),
        }
        for one in when.get(part, ("message",)):
            fault = self._prompter.fault(one)
            if fault is not None:
                return fault
        return None

    @staticmethod
    async def _until_gone(request: Request) -> None:
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                return


def in_words(text: str) -> list[str]:
    """Split as a model writes: word by word, each with the space before it."""
    words = text.split(" ")
    return [word if at == 0 else f" {word}" for at, word in enumerate(words)] if text else []


def pieces(text: str, most: int = 7) -> list[str]:
    return [text[at : at + most] for at in range(0, len(text), most)]


def tokens(text: str) -> int:
    """Return a deterministic token count."""
    return max(1, len(text) // 4)


def _last_words(body: dict[str, Any]) -> str:
    """Return the caller's last text in a request of any of the protocols."""
    messages = body.get("messages") or body.get("contents") or body.get("input") or ()
    if isinstance(messages, str):
        return messages
    for message in reversed(messages):
        if message.get("role") != "user":
            continue
        content = message.get("content") or message.get("parts") or ""
        if isinstance(content, str):
            return content
        if texts := [part["text"] for part in content if isinstance(part.get("text"), str)]:
            return " ".join(texts)
    return ""


def _declared(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tools of a request in any of the protocols."""
    for tool in body.get("tools") or ():
        functions = tool.get("functionDeclarations") or [tool.get("function") or tool]
        for function in functions:
            known = ("parameters", "input_schema", "parametersJsonSchema")
            schema: dict[str, Any] = next((function[key] for key in known if function.get(key)), {})
            yield {
                "name": function["name"],
                "description": function.get("description") or "",
                "parameters": schema,
            }


def _message(result: str) -> str:
    try:
        told = orjson.loads(result)
    except orjson.JSONDecodeError:
        return result
    return str(told.get("message", "")) if isinstance(told, dict) else result
