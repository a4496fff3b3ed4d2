"""A strict OpenAI Live (GPT-Live) by websocket on loopback, for tests without a key.

    async with OpenAILiveEmulator(script) as emulator:
        ...  # base_url: emulator.url, key: emulator.key
    assert not emulator.violations

Its sound is one track without end: a piece each 100 ms, silent (with a little dither) while
the model does not speak, several times as fast as real time. It stops when the caller speaks over
it. Tasks are delegated to its Responses model, whose events it wraps. Shapes: openai 3.54,
`types/live`; order and behaviour as pydantic-ai has recorded them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections import deque
from http import HTTPStatus
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard.audio import g711
from cordboard_testkit.emulators.openai.realtime_conversation import Event, message_of
from cordboard_testkit.emulators.openai.realtime_wire import (
    Refused,
    Shape,
    by_type,
    either,
    fields,
    flag,
    list_of,
    name,
    null,
    number,
    one_of,
    schema,
    sound,
    text,
)
from cordboard_testkit.emulators.script import (
    Answer,
    CallerTurn,
    Fault,
    Prompter,
    Script,
    results_said,
)
from cordboard_testkit.emulators.speech import Beeper, Speaker, TurnGate

PIECE_MS = 100
MODELS = ("gpt-live-1",)
BACKENDS = ("gpt-5.4-mini", "gpt-5.5", "gpt-6-luna")
VOICES = (
    *("alloy", "ash", "ballad", "beacon", "bossa", "cedar", "cinder", "coral", "delta", "echo"),
    *("gleam", "marin", "meridian", "quartz", "ripple", "sage", "shida", "shimmer", "stone"),
    *("tempo", "verse", "vesper", "willow"),
)
SESSION_SECONDS = 3600
_MOST_CONTEXT = 500
"""UTF-8 bytes that stand for the 500 tokens of an added context: a token has at least one."""


def _part(kind: str) -> Shape:
    one = fields({"text": text()}, {"type": one_of(kind)})
    return list_of(one, 1)


_ITEM = either(
    fields({"role": one_of("user", "developer"), "content": _part("input_text")}),
    fields({"role": one_of("assistant"), "content": _part("output_text")}),
)
_FORMAT = by_type(
    {
        "audio/pcm": fields({"type": text(), "rate": one_of(16000, 24000)}),
        "audio/pcmu": fields({"type": text(), "rate": one_of(8000)}),
        "audio/pcma": fields({"type": text(), "rate": one_of(8000)}),
    }
)
_RESPONSES = fields(
    {"model": text()},
    {
        "instructions": text(),
        "max_output_tokens": number(16, 1e6, whole=True),
        "parallel_tool_calls": flag,
        "reasoning": fields({}, {"effort": text(), "summary": text()}),
        "service_tier": one_of("auto", "default", "flex", "priority"),
        "text": fields({}, {"verbosity": one_of("low", "medium", "high")}),
        "tool_choice": one_of("auto", "none", "required"),
        "tools": list_of(
            fields(
                {"type": one_of("function"), "name": name},
                {"description": text(), "parameters": schema, "strict": flag},
            )
        ),
    },
)
_SESSION = fields(
    {"model": text()},
    {
        "audio": fields(
            {},
            {
                "format": _FORMAT,
                "output": fields({}, {"voice": either(one_of(*VOICES), fields({"id": text()}))}),
            },
        ),
        "delegation": either(
            null,
            by_type(
                {
                    "client": fields({"type": text()}),
                    "responses": fields({"type": text(), "responses": _RESPONSES}),
                }
            ),
        ),
        "input": list_of(_ITEM, 128),
        "instructions": text(),
        "safety_identifier": text(),
        "store": flag,
    },
)


def _context(value: Any, path: str) -> None:
    text()(value, path)
    if len(value.encode()) > _MOST_CONTEXT:
        raise Refused("string_above_max_length", f"{path} has more than 500 tokens.", path)


_CONTEXT = {"content": _context, "delegation_id": either(null, text())}
_OUTPUT = fields({"type": one_of("function_call_output"), "call_id": text(64), "output": text()})


def _command(**required: Shape) -> Shape:
    return fields({"type": text(), **required}, {"event_id": text(512)})


check: Shape = by_type(
    {
        "session.start": _command(session=_SESSION),
        "session.input_audio.append": _command(audio=sound),
        "session.commentary.append": _command(**_CONTEXT),
        "session.thinking.append": _command(**_CONTEXT),
        "session.instructions.append": _command(**_CONTEXT),
        "response.item.create": _command(item=_OUTPUT),
        "response.create": _command(),
        "session.close": _command(),
    }
)
"""Raises `Refused` for messages that the service would not accept."""


class OpenAILiveEmulator:
    """The service. One script at a time, over all connections."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        speaker: Speaker | None = None,
        key: str = "sk-emulated",
        port: int = 0,
        speed: float = 20.0,
    ) -> None:
        """`speed`: speed of the track, as a multiple of real time."""
        self.key, self.speed = key, speed
        self._port = port
        self.speaker = speaker or Beeper()
        self.prompter = Prompter(script or Script())
        self.received: list[Event] = []
        """The messages of all connections, without sound."""
        self.violations: list[str] = []
        self.connections = 0
        self.sessions: list[_Session] = []
        self._server: Server | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the emulator is not running")
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def of_type(self, kind: str) -> list[Event]:
        return [message for message in self.received if message["type"] == kind]

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self._port,
            process_request=self._refuse,
            compression=None,
            close_timeout=0.2,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        status = None
        model = request.path.removeprefix("/v1/models/")
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            status = HTTPStatus.UNAUTHORIZED
        elif model in (*MODELS, *BACKENDS):
            return connection.respond(HTTPStatus.OK, json.dumps({"id": model, "object": "model"}))
        elif request.path != "/v1/live/sessions":
            status = HTTPStatus.NOT_FOUND
        self.connections += 1
        self.prompter.connections += 1
        fault = self.prompter.fault("connect")
        if fault is not None and fault.do == "refuse":
            status = HTTPStatus(int(fault.code))
        return connection.respond(status, "{}") if status is not None else None

    async def _serve(self, connection: ServerConnection) -> None:
        session = _Session(self, connection)
        self.sessions.append(session)
        with contextlib.suppress(ConnectionClosed):
            await session.run()


class _Session:
    """One connection."""

    def __init__(self, emulator: OpenAILiveEmulator, connection: ServerConnection) -> None:
        self._emulator = emulator
        self._connection = connection
        self._settings: Event = {}
        self._gate = TurnGate(8000)
        self._track: deque[tuple[bytes, str]] = deque()
        """Pieces of speech to come, each with its words."""
        self._track_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids = 0
        self._works: dict[str, tuple[Answer, dict[str, str | None]]] = {}
        """Delegated tasks: call → result."""
        self._ended = False

    async def run(self) -> None:
        try:
            async for message in self._connection:
                await self._take(message)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _take(self, message: str | bytes) -> None:
        try:
            event = json.loads(message)
            check(event, "")
            if event["type"] != "session.input_audio.append":
                self._emulator.received.append(event)
            if not self._settings and event["type"] != "session.start":
                raise Refused("session_not_started", "Send session.start first.")
            await self._handle(event)
        except Refused as refused:
            self._refuse(refused)

    def _refuse(self, refused: Refused) -> None:
        self._emulator.violations.append(f"{refused.code}: {refused}")
        error = {"type": "invalid_request_error", "code": refused.code, "message": str(refused)}
        self._say("error", error={**error, "param": refused.param})

    async def _handle(self, event: Event) -> None:
        match event["type"]:
            case "session.start":
                await self._start(event["session"])
            case "session.input_audio.append":
                self._hear(base64.b64decode(event["audio"]))
            case "session.commentary.append":
                at = {"start_ms": self._track_ms, "end_ms": self._track_ms}
                self._say("session.commentary.appended", **at)
                self._speak(event["content"].split("\n\n")[-1])
            case "response.item.create":
                self._result(event["item"])
            case "response.create":
                self._resume()
            case "session.close":
                await self._close("close_requested")

    async def _start(self, settings: Event) -> None:
        fault = self._emulator.prompter.fault("setup")
        if fault is not None and fault.do == "error":
            self._refuse(Refused(str(fault.code), "The session cannot be started."))
            return
        if fault is not None:
            self._connection.transport.abort()
            return
        if settings["model"] not in MODELS:
            words = f"The model `{settings['model']}` does not exist."
            raise Refused("model_not_found", words)
        self._settings = settings
        self._say("session.started", session=self._resource())
        self._spawn(self._play())

    def _resource(self) -> Event:
        expires_at = int(time.time()) + SESSION_SECONDS
        return {**self._settings, "id": "live_1", "expires_at": expires_at, "status": "active"}

    async def _close(self, reason: str) -> None:
        self._ended = True
        usage = {"seconds": self._track_ms / 1000}
        self._say("session.closed", reason=reason, session=self._resource(), usage=usage)
        await self._connection.close()

    # The track.

    async def _play(self) -> None:
        silence = self._coded(bytes(2 * 8 * PIECE_MS))
        dither = self._coded(b"\x14\x00\xec\xff" * (4 * PIECE_MS))
        while not self._ended:
            piece, words = self._track.popleft() if self._track else (b"", "")
            idle = dither if self._track_ms < 2 * PIECE_MS else silence
            start, self._track_ms = self._track_ms, self._track_ms + PIECE_MS
            if words:
                at = {"start_ms": start, "end_ms": self._track_ms}
                self._say("session.output_transcript.delta", delta=words, **at)
            delta = base64.b64encode(piece or idle).decode()
            self._say("session.output_audio.delta", delta=delta)
            if self._track_ms % 1000 == 0:
                usage = {"seconds": self._track_ms / 1000}
                self._say("session.usage.updated", usage=usage)
            fault = self._emulator.prompter.fault("sound") if piece else None
            if fault is not None:
                await self._perform(fault)
            await asyncio.sleep(PIECE_MS / 1000 / self._emulator.speed)

    async def _perform(self, fault: Fault) -> None:
        if fault.do == "go_away":
            await self._close("expired")
            return
        self._ended = True
        if fault.do == "close":
            await self._connection.close(int(fault.code) or 1011, "The server had an error.")
        else:
            self._connection.transport.abort()

    def _speak(self, words: str) -> None:
        if not words:
            return
        pcm = self._emulator.speaker.speak(words, 8000)
        pcm += bytes(-len(pcm) % (16 * PIECE_MS))
        pieces = [pcm[at : at + 16 * PIECE_MS] for at in range(0, len(pcm), 16 * PIECE_MS)]
        parts = words.split(" ")
        for place, piece in enumerate(pieces):
            share = -(-len(parts) // (len(pieces) - place))
            told, parts = parts[:share], parts[share:]
            lead = " " if place and told else ""
            self._track.append((self._coded(piece), lead + " ".join(told)))

    def _coded(self, pcm: bytes) -> bytes:
        alaw = self._settings["audio"]["format"]["type"] == "audio/pcma"
        return g711.linear_to_alaw(pcm) if alaw else g711.linear_to_ulaw(pcm)

    # The caller.

    def _hear(self, coded: bytes) -> None:
        alaw = self._settings["audio"]["format"]["type"] == "audio/pcma"
        pcm = g711.alaw_to_linear(coded) if alaw else g711.ulaw_to_linear(coded)
        match self._gate.hear(pcm):
            case "started":
                self._track.clear()
            case "stopped":
                self._turn()

    def _turn(self) -> None:
        backend = (self._settings.get("delegation") or {}).get("responses") or {}
        turn = CallerTurn(sound=bytes(self._gate.sound), tools=tuple(backend.get("tools", ())))
        answer = self._emulator.prompter.answer(turn)
        at, words = self._gate.started_ms, answer.heard.split(" ")
        step = max(1, (self._gate.stopped_ms - at) // len(words))
        for place, word in enumerate(words):
            span = {"start_ms": at + place * step, "end_ms": at + (place + 1) * step}
            delta = f" {word}" if place else word
            self._say("session.input_transcript.delta", delta=delta, **span)
        self._spawn(self._answer(answer))

    async def _answer(self, answer: Answer) -> None:
        fault = self._emulator.prompter.fault("turn")
        if fault is not None:
            await self._perform(fault)
            return
        await asyncio.sleep(self._emulator.prompter.thinking)
        self._speak(answer.says)
        if answer.asks:
            await self._delegate(answer)

    # Delegation.

    async def _delegate(self, answer: Answer) -> None:
        backend = (self._settings.get("delegation") or {}).get("responses") or {}
        if backend.get("model") not in BACKENDS:
            words = f"The model `{backend.get('model')}` does not exist."
            self._refuse(Refused("invalid_request", words))
            return
        task_id = self._new_id("dlg")
        delegation = {"id": task_id, "type": "delegation", "target": "responses"}
        self._say("session.delegation.created", delegation=delegation, offset_ms=self._track_ms)
        self._nested(task_id, "response.created", response={"status": "in_progress"})
        fault = self._emulator.prompter.fault("ask")
        calls: dict[str, str | None] = {}
        for use in answer.asks:
            call_id = self._new_id("call")
            calls[call_id] = None
            item = {"type": "function_call", "id": self._new_id("fc"), "call_id": call_id}
            item |= {"name": use.name, "status": "completed"}
            item["arguments"] = json.dumps(use.arguments)
            self._nested(task_id, "response.output_item.done", item=item)
        if fault is not None and fault.do == "error":
            self._nested(task_id, "response.failed", response={"status": "failed"})
            self._speak("That did not work.")
            return
        self._works[task_id] = answer, calls
        self._completed(task_id)
        if fault is not None:
            await self._perform(fault)

    def _result(self, item: Event) -> None:
        for _, calls in self._works.values():
            if calls.get(item["call_id"], "") is None:
                calls[item["call_id"]] = message_of(item["output"])
                return
        raise Refused("invalid_tool_call_id", f"There is no call '{item['call_id']}'.")

    def _resume(self) -> None:
        ripe = [task for task, (_, calls) in self._works.items() if None not in calls.values()]
        if not ripe:
            raise Refused("missing_output", "No tool output found for a function call.")
        for task_id in ripe:
            answer, calls = self._works.pop(task_id)
            self._nested(task_id, "response.created", response={"status": "in_progress"})
            self._completed(task_id)
            self._speak(results_said(answer.then, [told or "" for told in calls.values()]))

    def _completed(self, task_id: str) -> None:
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        usage["input_tokens_details"] = {"cached_tokens": 40}  # type: ignore[assignment]
        response = {"status": "completed", "output": [], "usage": usage}
        self._nested(task_id, "response.completed", response=response)

    def _nested(self, task_id: str, kind: str, **values: Any) -> None:
        self._say("response.event", delegation_id=task_id, event={"type": kind, **values})

    # All.

    def _say(self, kind: str, **values: Any) -> None:
        event = {"type": kind, **values}
        if kind != "session.output_audio.delta":  # the only event without an id
            event["event_id"] = self._new_id("event")
        if self._connection.state.name == "OPEN":
            self._connection.protocol.send_text(json.dumps(event).encode())
            self._connection.send_data()

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids}"

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
