"""One connection to the emulated Deepgram Voice Agent: its input, refusals, speech and faults.

Only `agent`, the server around it, uses this.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from cordboard.audio.g711 import alaw_to_linear, linear_to_alaw, linear_to_ulaw, ulaw_to_linear
from cordboard_testkit.emulators.deepgram import agent_messages as wire
from cordboard_testkit.emulators.script import (
    Answer,
    CallerTurn,
    Fault,
    Prompter,
    Use,
    When,
    results_said,
)
from cordboard_testkit.emulators.speech import Speaker, TurnGate

WELCOME_S = 0.01
"""Delay of Welcome, to notice a client that sends before it."""
CONFIRM_S = 0.1
"""Time from the first guess of the caller's end of turn until it is certain."""
CHUNK_MS = 100
FASTER = 5.0
"""Speed of the outgoing audio, as a multiple of real time."""
CLOSE_CODE = 1011


@dataclass(frozen=True, slots=True)
class Received:
    """One text message of a client's."""

    at: float
    """`time.monotonic`."""
    connection: int
    """Counted from 1."""
    message: dict[str, Any]


@dataclass(slots=True)
class Book:
    """Record of all connections."""

    received: list[Received] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    sound_bytes: int = 0
    calls_made: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def keep(self, connection: int, message: dict[str, Any]) -> None:
        """Notify that a message has arrived."""
        self.received.append(Received(time.monotonic(), connection, message))
        self.news.set()


@dataclass(frozen=True, slots=True)
class Habits:
    """Optional behaviour of the service."""

    speaker: Speaker
    speculative: bool
    idle_s: float
    injections: Literal["refused", "warned", "ignored"]
    """Reaction to an injected sentence that it will not say: `InjectionRefused`, a warning, or
    nothing; `ignored`: it never says any."""


class _Refused(Exception):
    """The session ends with this error."""

    def __init__(self, code: str, description: str, *, scripted: bool = False) -> None:
        super().__init__(f"{code}: {description}")
        self.code, self.description = code, description
        self.scripted = scripted
        """True if the script caused the error and no client violated the protocol."""


class _Over(Exception):
    """The connection has ended."""


@dataclass(slots=True, eq=False)
class _Call:
    """A requested function."""

    call_id: str
    use: Use
    answered: asyncio.Future[str] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ClientSession:
    """One connection."""

    def __init__(
        self, connection: ServerConnection, prompter: Prompter, book: Book, habits: Habits
    ) -> None:
        self._connection = connection
        self._prompter = prompter
        self._book = book
        self._habits = habits
        self._welcomed = False
        self._settings: wire.Settings | None = None
        self._gate: TurnGate | None = None
        self._turn: asyncio.Task[None] | None = None
        """The answer in progress."""
        self._said: asyncio.Task[None] | None = None
        """Speech that is not an answer: the greeting, injected sentences."""
        self._calls: dict[str, _Call] = {}
        self._functions: dict[str, wire.Function] = {}
        self._mouth = asyncio.Lock()
        self._speaks_until = 0.0
        self._resumed: Answer | None = None
        """An answer that was begun too early."""
        self._mute = False
        self._last: str | bytes = ""
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end.add_done_callback(lambda end: end.cancelled() or end.exception())

    async def serve(self) -> None:
        reader = asyncio.create_task(self._read())
        try:
            await asyncio.sleep(WELCOME_S)
            if not self._end.done():
                self._welcomed = True
                await self._send("Welcome", request_id=f"request-{self._prompter.connections}")
            await asyncio.wait((reader, self._end), return_when=asyncio.FIRST_COMPLETED)
            for ended in (reader, self._end):
                if ended.done():
                    ended.result()
        except _Refused as refused:
            if not refused.scripted:
                self._book.violations.append(str(refused))
            await self._send("Error", description=refused.description, code=refused.code)
            await self._connection.close(CLOSE_CODE)
        except _Over:
            pass
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def over(self) -> None:
        tasks = [task for task in (self._turn, self._said) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end.cancel()

    # Messages from the client.

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._habits.idle_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    message = await self._connection.recv()
            except TimeoutError:
                raise _Refused(
                    "CLIENT_MESSAGE_TIMEOUT", "We waited too long for a message from the client."
                ) from None
            if not self._welcomed:
                raise _Refused("NON_SETTINGS_MESSAGE_BEFORE_SETTINGS", "before Welcome")
            if isinstance(message, bytes):
                await self._hear(message)
            else:
                await self._take(message)
            kept_alive = isinstance(message, str) and '"KeepAlive"' in message
            if not kept_alive:
                deadline = loop.time() + self._habits.idle_s

    async def _take(self, text: str) -> None:
        try:
            raw = json.loads(text)
            self._book.keep(self._prompter.connections, raw if isinstance(raw, dict) else {"": raw})
            message = wire.READER.validate_python(raw)
        except (ValueError, ValidationError) as error:
            reason = " ".join(str(error).split())[:300]
            raise _Refused("UNPARSABLE_CLIENT_MESSAGE", reason) from None
        if isinstance(message, wire.Settings):
            await self._introduced(message)
        elif self._settings is None:
            raise _Refused("NON_SETTINGS_MESSAGE_BEFORE_SETTINGS", "Settings come first")
        elif isinstance(message, wire.FunctionCallResponse):
            await self._answered(message)
        elif isinstance(message, wire.InjectAgentMessage):
            await self._inject(message)
        elif isinstance(message, wire.InjectUserMessage):
            self._begin_turn(message.content, spoken=False)
        elif isinstance(message, wire.UpdatePrompt):
            await self._send("PromptUpdated")

    async def _introduced(self, settings: wire.Settings) -> None:
        if self._settings is not None:
            raise _Refused("SETTINGS_ALREADY_APPLIED", "Settings come once")
        if (wrong := next(wire.objections(settings), None)) is not None:
            raise _Refused("INVALID_SETTINGS", wrong)
        if await self._fault("setup"):
            return
        self._settings = settings
        functions = settings.agent.thinks()[0].functions
        self._functions = {function.name: function for function in functions}
        self._gate = TurnGate(settings.audio.input.sample_rate)
        await self._send("SettingsApplied")
        if settings.agent.greeting:
            self._said = asyncio.create_task(
                self._guarded(self._say(settings.agent.greeting, "greeting"))
            )

    async def _hear(self, data: bytes) -> None:
        self._book.sound_bytes += len(data)
        if self._settings is None or self._gate is None:
            raise _Refused("NON_SETTINGS_MESSAGE_BEFORE_SETTINGS", "sound before Settings")
        encoding = self._settings.audio.input.encoding
        if encoding == "linear16" and len(data) % 2:
            raise _Refused("USER_AUDIO_FORMAT", "half a sample")
        decoders = {"mulaw": ulaw_to_linear, "alaw": alaw_to_linear}
        decode = decoders.get(encoding)
        event = self._gate.hear(decode(data) if decode is not None else data)
        if event == "started":
            await self._caller_started()
        elif event == "stopped":
            self._begin_turn(None, spoken=True)

    async def _caller_started(self) -> None:
        """The caller has the floor: drop speech and requests in progress."""
        loop = asyncio.get_running_loop()
        tasks = [task for task in (self._turn, self._said) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._speaks_until = loop.time()
        await self._send("UserStartedSpeaking")
        await self._cancel_calls()

    async def _cancel_calls(self) -> None:
        open_calls = [call for call in self._calls.values() if not call.answered.done()]
        for call in open_calls:
            del self._calls[call.call_id]
        if open_calls:
            cancelled = [{"id": call.call_id, "name": call.use.name} for call in open_calls]
            await self._send("FunctionCallCancelled", functions=cancelled)

    async def _answered(self, response: wire.FunctionCallResponse) -> None:
        call = self._calls.get(response.id)
        if call is None or call.answered.done():
            self._book.violations.append(f"no call {response.id!r} waits for an answer")
            await self._send("Warning", code="FUNCTION_CALL_FAILED", description="unknown id")
        elif call.use.name != response.name:
            raise _Refused("NON_EXISTENT_FUNCTION_CALLED", f"{response.name!r} was not asked for")
        elif not await self._fault("result"):
            call.answered.set_result(response.content)

    async def _inject(self, message: wire.InjectAgentMessage) -> None:
        caller = self._gate is not None and self._gate.speaking
        thinking = self._turn is not None and not self._turn.done()
        speaking = asyncio.get_running_loop().time() < self._speaks_until or self._mouth.locked()
        busy = caller or ((speaking or thinking) and message.behavior == "default")
        if self._habits.injections == "ignored":
            return
        if busy and message.behavior != "interrupt":
            self._book.violations.append("InjectAgentMessage: refused")
            if self._habits.injections == "warned":
                code = f"INJECT_AGENT_MESSAGE_DURING_{'USER' if caller else 'AGENT'}_SPEECH"
                await self._send("Warning", code=code, description="The message is ignored.")
            else:
                await self._send("InjectionRefused", message="Cannot inject a message now")
            return
        before = self._said
        if message.behavior == "interrupt":
            tasks = [task for task in (self._turn, before) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._said = asyncio.create_task(self._guarded(self._say(message.message, after=before)))

    # Actions of the service.

    def _begin_turn(self, text: str | None, *, spoken: bool) -> None:
        if self._turn is not None:
            self._turn.cancel()
        turn = self._caller_turn(text)
        self._turn = asyncio.create_task(self._guarded(self._turn_of(text, turn, spoken=spoken)))

    def _caller_turn(self, text: str | None) -> CallerTurn:
        tools = tuple(function.model_dump() for function in self._functions.values())
        if text is not None or self._gate is None or self._settings is None:
            return CallerTurn(text or "", tools=tools)
        rate = self._settings.audio.input.sample_rate
        return CallerTurn(sound=bytes(self._gate.sound), rate=rate, tools=tools)

    async def _turn_of(self, text: str | None, turn: CallerTurn, *, spoken: bool) -> None:
        if self._prompter.improvises:
            self._resumed = None
        answer, self._resumed = self._resumed or self._prompter.answer(turn), None
        calls = [self._new_call(use) for use in answer.asks]
        ahead = spoken and self._habits.speculative and not answer.says
        early = [call for call in calls if ahead and not self._waits(call)]
        try:
            await self._ask(early)
            await asyncio.sleep(CONFIRM_S if spoken else 0)
        except asyncio.CancelledError:
            self._resumed = answer
            raise
        await self._send("ConversationText", role="user", content=text or answer.heard)
        if await self._fault("turn"):
            return
        await asyncio.sleep(self._prompter.thinking)
        if await self._fault("answer"):
            return
        if answer.says:
            await self._say(answer.says)
        if answer.asks:
            await self._ask([call for call in calls if call not in early])
            contents = [await call.answered for call in calls]
            await asyncio.sleep(self._prompter.thinking)
            await self._say(results_said(answer.then, map(_message_in, contents)))

    def _new_call(self, use: Use) -> _Call:
        self._book.calls_made += 1
        return _Call(f"call_{self._book.calls_made}", use)

    def _waits(self, call: _Call) -> bool:
        """True if the function is requested only when the end of the turn is certain."""
        function = self._functions.get(call.use.name)
        return function is not None and function.defer_until_eot

    async def _ask(self, calls: list[_Call]) -> None:
        if not calls:
            return
        self._calls |= {call.call_id: call for call in calls}
        functions = [
            {
                "id": call.call_id,
                "name": call.use.name,
                "arguments": json.dumps(call.use.arguments),
                "client_side": True,
            }
            for call in calls
        ]
        await self._send("FunctionCallRequest", functions=functions)
        await self._fault("ask")

    async def _say(
        self, text: str, when: When = "sound", after: asyncio.Task[None] | None = None
    ) -> None:
        """Speak it after the current speech."""
        loop = asyncio.get_running_loop()
        if after is not None and not after.done():
            await asyncio.wait((after,))
        async with self._mouth:
            await self._send("ConversationText", role="assistant", content=text)
            sound = self._sound_of(text)
            chunk, per_ms = self._chunk()
            for start in range(0, len(sound), chunk):
                piece = sound[start : start + chunk]
                now = loop.time()
                self._speaks_until = max(self._speaks_until, now) + len(piece) / per_ms / 1000
                await self._send_sound(piece)
                if start == 0 and when == "greeting" and await self._fault("greeting"):
                    return
                if start >= len(sound) // 2 and when == "sound" and await self._fault("sound"):
                    return
                await asyncio.sleep(CHUNK_MS / 1000 / FASTER)
            await self._send("AgentAudioDone")

    def _sound_of(self, text: str) -> bytes:
        output = self._output
        pcm = self._habits.speaker.speak(text, output.sample_rate)
        encoders = {"mulaw": linear_to_ulaw, "alaw": linear_to_alaw}
        encode = encoders.get(output.encoding)
        return encode(pcm) if encode is not None else pcm

    def _chunk(self) -> tuple[int, float]:
        """Bytes of one piece of sound, and of a millisecond."""
        output = self._output
        per_ms = output.sample_rate / 1000 * (2 if output.encoding == "linear16" else 1)
        return int(per_ms * CHUNK_MS), per_ms

    @property
    def _output(self) -> wire.AudioOutput:
        if self._settings is None:
            raise RuntimeError("no settings yet")
        return self._settings.audio.output

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A task of the service; an error in it ends the connection."""
        try:
            await work
        except (_Refused, _Over) as error:
            if not self._end.done():
                self._end.set_exception(error)
        except ConnectionClosed:
            return

    async def _send(self, kind: str, **values: Any) -> None:
        message = {"type": kind, **values}
        if self._mute:
            return
        self._book.sent.append(message)
        self._last = json.dumps(message)
        await self._connection.send(self._last)
        if kind != "Error":
            await self._fault("message")

    async def _send_sound(self, data: bytes) -> None:
        if not self._mute:
            self._last = data
            await self._connection.send(data)

    # Faults.

    async def _fault(self, when: When) -> bool:
        """True if a fault replaces the current action."""
        fault = self._prompter.fault(when)
        return fault is not None and await self._break(fault)

    async def _break(self, fault: Fault) -> bool:
        match fault.do:
            case "stall":
                self._mute = True
                return True
            case "garbage":
                for nonsense in ("{", "[]", '{"type": 7}', '{"type": "FunctionCallRequest"}', "7"):
                    await self._connection.send(nonsense)
                return False
            case "duplicate":
                await self._connection.send(self._last)
                return False
            case "cancel_tool":
                await self._cancel_calls()
                return True
            case "go_away":
                raise _Refused("SERVER_GOING_AWAY", "The server is shutting down.", scripted=True)
            case "error":
                code = str(fault.code or "INTERNAL_SERVER_ERROR")
                raise _Refused(code, "as scripted", scripted=True)
            case "drop":
                self._connection.transport.abort()
            case _:
                await self._connection.close(int(fault.code or CLOSE_CODE))
        raise _Over


def _message_in(content: str) -> str:
    """Return the text of a function's answer."""
    try:
        parsed = json.loads(content)
    except ValueError:
        return content
    return str(parsed.get("message", content)) if isinstance(parsed, dict) else content
