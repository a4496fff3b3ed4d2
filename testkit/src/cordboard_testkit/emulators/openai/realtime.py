"""A strict OpenAI Realtime (GA) by websocket on loopback, for tests without a key.

    async with OpenAIRealtimeEmulator(script) as emulator:
        ...  # base_url: emulator.url, key: emulator.key
    assert not emulator.violations

It hears with `TurnGate`, speaks with its `Speaker` (several times as fast as real time), and
follows the script; for a response with instructions it speaks their last paragraph. It answers
refused messages with the service's `error` and keeps them in `violations`. Only the model's
obedience is easier than with the real service.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard.audio import g711
from cordboard_testkit.emulators.openai.realtime_conversation import (
    Conversation,
    Event,
    Work,
    default_session,
    message_of,
    updated,
)
from cordboard_testkit.emulators.openai.realtime_responses import Responses
from cordboard_testkit.emulators.openai.realtime_session import Gone
from cordboard_testkit.emulators.openai.realtime_wire import (
    MODELS,
    TRANSCRIBERS,
    Refused,
    check,
)
from cordboard_testkit.emulators.script import CallerTurn, Fault, Prompter, Script, When
from cordboard_testkit.emulators.speech import Beeper, Speaker, TurnGate

_BENIGN = frozenset({"conversation_already_has_active_response", "response_cancel_not_active"})
"""Errors that crossing messages cause: refused, but not violations."""
_NAMELESS = "invalid_tool_call_id"
"""The error that the service reports without the id of the refused message."""
SESSION_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a client."""

    at: float
    """`time.monotonic`."""
    connection: int
    message: Event


class OpenAIRealtimeEmulator:
    """The service. One script at a time, over all connections."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        speaker: Speaker | None = None,
        key: str = "sk-emulated",
        port: int = 0,
        speed: float = 8.0,
        transcription_seconds: float = 0.03,
        azure: bool = False,
        deployments: Mapping[str, str] | None = None,
    ) -> None:
        """`azure`: it is Azure's, at another path, and the key stands in `api-key`; `deployments`:
        the customer's names → their models, Azure knows no others then. `speed`: speed of the
        audio, as a multiple of real time; `transcription_seconds`: from the end of the
        caller's turn to its text."""
        self.key = key
        self._port = port
        self.speaker = speaker or Beeper()
        self.speed = speed
        self.transcription_seconds = transcription_seconds
        self._root = "/openai/v1" if azure else "/v1"
        self._azure = azure
        self._deployments = deployments
        self.shutdown_dates: dict[str, str] = {}
        """Model → the day of its announced end."""
        self.prompter = Prompter(script or Script())
        self.works: list[Work] = []
        """The caller's turns, the last one last."""
        self.received: list[Received] = []
        self.violations: list[str] = []
        self.closed_with: list[int] = []
        """Codes with which it has closed connections."""
        self.connections = 0
        self.sessions: list[_Session] = []
        """One for each connection, the last one last."""
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """The base URL, as for the SDK."""
        if self._server is None:
            raise RuntimeError("the emulator is not running")
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"http://127.0.0.1:{port}{self._root}"

    def play(self, script: Script) -> None:
        """Replace the script from now on."""
        self.prompter, self.works = Prompter(script), []

    def of_type(self, kind: str) -> list[Event]:
        """The messages of that type, in order."""
        return [each.message for each in self.received if each.message.get("type") == kind]

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self._port,
            process_request=self._refuse,
            compression=None,
            max_size=16 * 1024 * 1024,
            close_timeout=0.2,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            for session in self.sessions:
                session.end()
            self._server.close()
            await self._server.wait_closed()

    def _refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        parts = urlsplit(request.path)
        if parts.path == f"{self._root}/realtime":
            self.connections += 1
            self.prompter.connections += 1
        bearer = f"Bearer {self.key}"
        own, other = (self.key, None) if self._azure else (None, bearer)
        told = request.headers.get("api-key"), request.headers.get("Authorization")
        if told != (own, other):
            return self._no(connection, HTTPStatus.UNAUTHORIZED, "invalid_api_key")
        if parts.path == f"{self._root}/models":
            return connection.respond(HTTPStatus.OK, json.dumps({"object": "list", "data": []}))
        if parts.path.startswith(f"{self._root}/models/"):
            return self._model(connection, parts.path.removeprefix(f"{self._root}/models/"))
        if parts.path != f"{self._root}/realtime" or not parse_qs(parts.query).get("model"):
            return self._no(connection, HTTPStatus.BAD_REQUEST, "missing_model")
        fault = self.prompter.fault("connect")
        if fault is not None and fault.do == "refuse":
            return self._no(connection, HTTPStatus(int(fault.code)), "refused")
        connection.fault = fault  # type: ignore[attr-defined]
        return None

    def _model(self, connection: ServerConnection, name: str) -> Response:
        """`GET /v1/models/{model}`: 200 if the model exists."""
        if name in MODELS or name in TRANSCRIBERS:
            told = {"id": name, "object": "model", "shutdown_date": self.shutdown_dates.get(name)}
            return connection.respond(HTTPStatus.OK, json.dumps(told))
        return self._no(connection, HTTPStatus.NOT_FOUND, "model_not_found")

    def _no(self, connection: ServerConnection, status: HTTPStatus, code: str) -> Response:
        if status < HTTPStatus.TOO_MANY_REQUESTS:
            self.violations.append(f"{code}: HTTP {status.value}")
        words = {"error": {"type": "invalid_request_error", "code": code, "message": code}}
        return connection.respond(status, json.dumps(words))

    async def _serve(self, connection: ServerConnection) -> None:
        request = connection.request
        query = parse_qs(urlsplit(request.path).query) if request else {}
        name = query["model"][0]
        model = name if self._deployments is None else self._deployments.get(name, "")
        session = _Session(self, connection, model)
        self.sessions.append(session)
        try:
            if request is not None and "OpenAI-Beta" in request.headers:
                words = "The Realtime Beta API is no longer supported."
                session.refuse(Refused("beta_api_shape_disabled", words))
                await connection.close(4000, "invalid_request_error.beta_api_shape_disabled")
                return
            fault: Fault | None = getattr(connection, "fault", None)
            if fault is not None:
                with contextlib.suppress(Gone):
                    await session.perform(fault)
            await session.run()
        except (Gone, ConnectionClosed):
            pass
        finally:
            session.end()
            self.closed_with.append(connection.close_code or 0)


class _Session:
    """One connection."""

    def __init__(
        self, emulator: OpenAIRealtimeEmulator, connection: ServerConnection, model: str
    ) -> None:
        self.emulator = emulator
        self.connection = connection
        self.number = emulator.connections
        self.settings = default_session(model)
        self.conversation = Conversation()
        self.responses = Responses(self)
        self.stalled = False
        self._ids = 0
        self._last = ""
        self._ear = 24000, 500
        """Rate of the caller's audio; silence that ends a turn."""
        self._gate = TurnGate(*self._ear)
        self._gate_from_ms, self._in_gate_ms = 0, 0.0
        self._speech_item = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Callable[[Event], None]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": lambda _: self.say("input_audio_buffer.cleared"),
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve,
            "conversation.item.delete": self._delete,
            "conversation.item.truncate": self._truncate,
            "response.create": lambda event: self.responses.create(event.get("response") or {}),
            "response.cancel": lambda event: self.responses.cancel(event.get("response_id")),
        }

    # Both ways.

    async def run(self) -> None:
        if self.settings["model"] not in MODELS:
            self.emulator.violations.append(f"model_not_found: {self.settings['model']}")
        expires_at = int(time.time()) + SESSION_SECONDS
        shown = {**self.settings, "id": self.new_id("sess"), "expires_at": expires_at}
        self.say("session.created", session=shown)
        async for message in self.connection:
            if not self.stalled:
                await self._take(message)

    async def _take(self, message: str | bytes) -> None:
        event: Any = None
        try:
            event = json.loads(message) if isinstance(message, str) else None
            if not isinstance(event, dict):
                raise Refused("invalid_json", "Could not parse the message as a JSON object.")
            self.emulator.received.append(Received(time.monotonic(), self.number, event))
            check(event, "")
            if event["type"] == "session.update" and await self.fault("setup"):
                return
            self._handlers[event["type"]](event)
            if event.get("item", {}).get("type") == "function_call_output":
                await self.fault("result")
        except Gone:
            pass  # a stalled service continues to read
        except Refused as refused:
            named = isinstance(event, dict) and refused.code != _NAMELESS
            self.refuse(refused, event.get("event_id") if named else None)
        except ValueError:
            self.refuse(Refused("invalid_json", "Could not parse the message as JSON."))

    def say(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        if self.stalled:
            return
        fault = self.emulator.prompter.fault("message")
        if fault is not None:
            self.spawn(self.perform(fault))
        event = {"type": kind, "event_id": self.new_id("event"), **fields}
        self._last = json.dumps(event)
        self._write(self._last)

    def _write(self, text: str) -> None:
        # The protocol below takes it at once: this keeps the order without a task per message.
        if self.connection.state.name == "OPEN":
            self.connection.protocol.send_text(text.encode())
            self.connection.send_data()

    def refuse(self, refused: Refused, event_id: str | None = None) -> None:
        if refused.code not in _BENIGN:
            self.emulator.violations.append(f"{refused.code}: {refused.message}")
        self.error(refused.code, refused.message, refused.param, event_id)

    def error(self, code: str, message: str, param: str = "", event_id: str | None = None) -> None:
        kind = "server_error" if code == "server_error" else "invalid_request_error"
        error = {"type": kind, "code": code, "message": message}
        self.say("error", error={**error, "param": param or None, "event_id": event_id})

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self.number}_{self._ids}"

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, (Gone, ConnectionClosed)):
            self.emulator.violations.append(f"the emulator failed: {problem!r}")

    def end(self) -> None:
        self.stalled = True
        for task in list(self._tasks):
            task.cancel()

    # Faults.

    async def fault(self, when: When) -> bool:
        """Return True if there was one. Raises `Gone` when the connection is dead."""
        fault = self.emulator.prompter.fault(when)
        if fault is not None:
            await self.perform(fault)
        return fault is not None

    async def perform(self, fault: Fault) -> None:
        match fault.do:
            case "close":
                self.stalled = True
                await self.connection.close(int(fault.code) or 1011, "The server had an error.")
                raise Gone
            case "drop" | "refuse":
                self.stalled = True
                self.connection.transport.abort()
                raise Gone
            case "stall":
                self.stalled = True
                raise Gone
            case "garbage":
                for text in ('{"type": "response.out', "[]", '{"type": 7}', '{"type":"x.y"}'):
                    self._write(text)
                self.say("response.output_audio.delta", response_id=3, item_id=None, delta="%%%")
                self.say("response.done", response="?")
            case "duplicate":
                self._write(self._last)
            case "error":
                self.error(str(fault.code or "server_error"), "The server had an error.")
            case "go_away":
                words = "Your session hit the maximum duration of 60 minutes."
                self.error("session_expired", words)
                self.stalled = True
                await self.connection.close(1001, words)
                raise Gone
            case "cancel_tool":
                pass  # this service has no such message

    # The session and its items.

    def _update(self, event: Event) -> None:
        spoken = bool(self.conversation.made_ms)
        self.settings = updated(self.settings, event["session"], spoken=spoken)
        rate = 24000 if self._encoding("input") == "audio/pcm" else 8000
        vad = self.settings["audio"]["input"]["turn_detection"] or {}
        ear = rate, int(vad.get("silence_duration_ms", 500))
        if ear != self._ear:
            self._gate_from_ms += int(self._in_gate_ms)
            self._ear, self._in_gate_ms, self._gate = ear, 0.0, TurnGate(*ear)
        self.say("session.updated", session=self.settings)

    def _encoding(self, way: str) -> str:
        return str(self.settings["audio"][way]["format"]["type"])

    def _create_item(self, event: Event) -> None:
        item = {"id": self.new_id("item"), **event["item"]}
        previous = self.conversation.last_id
        shown = self.conversation.add(item)
        if item["type"] == "function_call_output":
            for work in self.emulator.works:
                if item["call_id"] in work.calls:
                    work.results[item["call_id"]] = message_of(item["output"])
        self.show_item(shown, previous)

    def show_item(self, item: Event, previous: str | None) -> None:
        self.say("conversation.item.added", previous_item_id=previous, item=item)
        self.say("conversation.item.done", previous_item_id=previous, item=item)

    def _retrieve(self, event: Event) -> None:
        item = self.conversation.items.get(event["item_id"])
        if item is None:
            raise Refused("item_retrieve_invalid_item_id", "Item not found.", "item_id")
        self.say("conversation.item.retrieved", item=item)

    def _delete(self, event: Event) -> None:
        if self.conversation.items.pop(event["item_id"], None) is None:
            raise Refused("item_delete_invalid_item_id", "Item not found.", "item_id")
        self.say("conversation.item.deleted", item_id=event["item_id"])

    def _truncate(self, event: Event) -> None:
        self.conversation.truncate(event["item_id"], event["audio_end_ms"])
        parts = {name: event[name] for name in ("item_id", "content_index", "audio_end_ms")}
        self.say("conversation.item.truncated", **parts)

    # The caller.

    def _append(self, event: Event) -> None:
        sound = base64.b64decode(event["audio"])
        match self._encoding("input"):
            case "audio/pcmu":
                sound = g711.ulaw_to_linear(sound)
            case "audio/pcma":
                sound = g711.alaw_to_linear(sound)
        vad = self.settings["audio"]["input"]["turn_detection"]
        self._in_gate_ms += len(sound) / (2 * self._ear[0] / 1000)
        what = self._gate.hear(sound)
        if vad is None or not what:
            return
        if what == "started":
            self._speech_item = self.new_id("item")
            start = max(0, self._gate_from_ms + self._gate.started_ms - self._padding(vad))
            name = "input_audio_buffer.speech_started"
            self.say(name, item_id=self._speech_item, audio_start_ms=start)
            if vad.get("interrupt_response", True):
                self.responses.interrupt()
            return
        end = self._gate_from_ms + self._gate.stopped_ms + vad.get("silence_duration_ms", 500)
        name = "input_audio_buffer.speech_stopped"
        self.say(name, item_id=self._speech_item, audio_end_ms=end)
        self._turn(vad)

    def _padding(self, vad: Event) -> int:
        return int(vad.get("prefix_padding_ms", 300)) if vad["type"] == "server_vad" else 0

    def _commit(self, event: Event) -> None:
        if self._in_gate_ms < 100:
            words = "Error committing input audio buffer: the buffer is too small."
            raise Refused("input_audio_buffer_commit_empty", words)
        self._speech_item = self.new_id("item")
        self._turn({"create_response": False})

    def _turn(self, vad: Event) -> None:
        item_id, previous = self._speech_item, self.conversation.last_id
        emulator, gate = self.emulator, self._gate
        tools = tuple(self.settings["tools"])
        turn = CallerTurn(sound=bytes(gate.sound), rate=self._ear[0], tools=tools)
        work = Work(emulator.prompter.answer(turn))
        emulator.works.append(work)
        self.conversation.heard_ms += max(0, gate.stopped_ms - gate.started_ms)
        self.say("input_audio_buffer.committed", item_id=item_id, previous_item_id=previous)
        content = [{"type": "input_audio", "transcript": None}]
        item = {"id": item_id, "type": "message", "role": "user", "content": content}
        self.show_item(self.conversation.add(item), previous)
        self.spawn(self._transcribe(item_id, work.answer.heard))
        self.spawn(self._after_turn(vad))

    async def _after_turn(self, vad: Event) -> None:
        await self.fault("turn")
        if vad.get("create_response", True):
            self.responses.create_for_turn()

    async def _transcribe(self, item_id: str, words: str) -> None:
        if self.settings["audio"]["input"]["transcription"] is None:
            return
        await asyncio.sleep(self.emulator.transcription_seconds)
        name = "conversation.item.input_audio_transcription."
        where = {"item_id": item_id, "content_index": 0}
        for number, word in enumerate(words.split()):
            self.say(name + "delta", **where, delta=f" {word}" if number else word)
        tokens = len(words.split())
        details = {"audio_tokens": 10, "text_tokens": 0}
        usage = {"type": "tokens", "input_tokens": 10, "output_tokens": tokens}
        usage |= {"total_tokens": 10 + tokens, "input_token_details": details}
        self.say(name + "completed", **where, transcript=words, usage=usage)
