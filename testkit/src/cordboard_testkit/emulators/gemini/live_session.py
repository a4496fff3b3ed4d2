"""One connection of the emulated Gemini Live: its input, speech, tool calls and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Coroutine
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from cordboard_testkit.emulators.gemini.live_state import CallState, LiveService
from cordboard_testkit.emulators.gemini.live_wire import (
    EXTENDED_THINKING,
    MAX_TOOL_RESPONSE,
    ClientContent,
    ClientMessage,
    FunctionDeclaration,
    RealtimeInput,
    Refused,
    Setup,
    ToolResponse,
    check_blob,
    waits_for,
)
from cordboard_testkit.emulators.script import Answer, CallerTurn, When, results_said
from cordboard_testkit.emulators.speech import TurnGate

RATE_OUT = 24_000
CHUNK_MS = 100
GRACE = 0.5
"""Seconds after a blocking function call in which audio may still be in transit."""
GO_AWAY = 3.0
"""Seconds until the close after a goAway."""
_QUOTED = re.compile(r"“(.+?)”", re.DOTALL)
_ANSWERED = re.compile(r"has answered: (\{.*?\})\]", re.DOTALL)
_GO_ON = re.compile(r"\[The line to you was interrupted")
_TOLD = re.compile(r"\[Tell the caller now: (.+)\]", re.DOTALL)


class Gone(Exception):
    """The connection has ended, or has gone silent."""


class LiveSession:
    """A session from its setup to the end of its connection."""

    def __init__(
        self,
        emulator: LiveService,
        socket: ServerConnection,
        state: CallState,
        setup: Setup,
    ) -> None:
        self._emulator = emulator
        self._socket = socket
        self._state = state
        self._setup = setup
        self._prompter = state.prompter
        detection = setup.realtime_input_config.automatic_activity_detection
        self._gate = TurnGate(16_000, detection.silence_duration_ms or 400)
        self._uncuttable = setup.realtime_input_config.activity_handling == "NO_INTERRUPTION"
        self._blocking = {
            declaration.name: waits_for(declaration, setup.model)
            for declaration in setup.declarations()
        }
        self._initial_history = setup.history_config.initial_history_in_client_content
        self._act: asyncio.Task[None] | None = None
        self._others: set[asyncio.Task[None]] = set()
        self._generating = False
        self._stalled = False
        self._asked_at = 0.0
        self._results: dict[str, str] = {}
        """Messages of the results that have arrived, for the calls in progress."""
        self._last: bytes = b""

    async def accept(self) -> bool:
        """Answer the setup. Return True if the connection continues."""
        try:
            await self._happen("setup")
            await self._send({"setupComplete": {"sessionId": "emulated"}})
            await self._keep()
        except Gone:
            return self._stalled
        return True

    async def take(self, message: ClientMessage, size: int) -> bool:
        """Take one message after the setup. Return True if the connection continues."""
        try:
            await self._taken(message, size)
        except Gone:
            return self._stalled
        return True

    async def _taken(self, message: ClientMessage, size: int) -> None:
        await self._happen("message")
        if message.setup is not None:
            raise Refused(1007, "setup must be the first message and only the first.")
        if message.realtime_input is not None:
            await self._realtime(message.realtime_input)
        elif message.client_content is not None:
            await self._told(message.client_content)
        elif message.tool_response is not None:
            await self._answered(message.tool_response, size)

    async def end(self) -> None:
        tasks = [task for task in (self._act, *self._others) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Incoming messages.

    async def _realtime(self, given: RealtimeInput) -> None:
        if self._initial_history:
            raise Refused(1007, "The initial history is not complete.")
        if given.activity_start is not None or given.activity_end is not None:
            raise Refused(1007, "Activity signals need automatic detection to be disabled.")
        if given.text is not None:
            await self._cut()
            self._begin(self._perform(self._next_answer(given.text), thinking=True))
        if given.audio is None:
            return
        check_blob(given.audio)
        if any(self._state.pending.values()) and time.monotonic() > self._asked_at + GRACE:
            raise Refused(1008, "Operation is not implemented, or supported, or enabled.")
        try:  # either alphabet, as Google's JSON allows: the vendor's SDK writes the one for URLs
            pcm = b64decode(given.audio.data.replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:
            raise Refused(1007, "Invalid value at 'realtime_input.audio.data'.") from None
        found = self._gate.hear(pcm)
        if found == "started":
            if self._generating and not self._uncuttable:
                await self._cut()
        elif found == "stopped" and self._state.cut_off:
            await self._close_exchange()
        elif found == "stopped":
            turn = self._turn(bytes(self._gate.sound))
            self._begin(turn, after=self._act if self._generating else None)

    async def _told(self, content: ClientContent) -> None:
        if self._initial_history:
            self._initial_history = not content.turn_complete
            return
        if self._state.cut_off:
            if content.turn_complete:
                await self._close_exchange()
            return
        waited = [call_id for call_id, blocking in self._state.pending.items() if blocking]
        if waited:
            await self._cancel(waited)
        await self._cut()
        if not content.turn_complete:
            return
        texts = [part.text or "" for turn in content.turns[-1:] for part in turn.parts]
        text = "\n".join(texts)
        if quoted := _QUOTED.search(text):
            self._state.owed = Answer(quoted.group(1))
            self._begin(self._say(quoted.group(1), greeting=True))
        elif results := _ANSWERED.findall(text):
            messages = [str(json.loads(result).get("message", "")) for result in results]
            owed = self._state.asked or self._state.current
            then = owed.then if owed is not None else "{results}"
            self._begin(self._say(results_said(then, messages)))
        elif told := _TOLD.search(text):
            self._begin(self._say(told.group(1)))
        else:
            owed = self._state.owed if _GO_ON.search(text) else None
            self._begin(self._perform(owed or self._next_answer(text), thinking=True))

    async def _answered(self, response: ToolResponse, size: int) -> None:
        if size > MAX_TOOL_RESPONSE:
            raise Refused(1011, "Internal error encountered: the tool response is too large.")
        state = self._state
        wake = False
        if state.cut_off & {answer.id for answer in response.function_responses}:
            await self._close_exchange()
            return
        for answer in response.function_responses:
            if answer.scheduling and self._setup.model.endswith(EXTENDED_THINKING):
                raise Refused(1007, f"Scheduling is not supported by {EXTENDED_THINKING}.")
            if answer.id is None or answer.id not in state.pending:
                code = 1011 if answer.id in state.cancelled else 1008
                raise Refused(code, f"No pending function call has the id {answer.id}.")
            waited = state.pending.pop(answer.id)
            wake = wake or waited or answer.scheduling != "SILENT"
            self._results[answer.id] = str(answer.response.get("message", answer.response))
        await self._happen("result")
        if not wake or state.pending:
            return
        if any(answer.scheduling == "INTERRUPT" for answer in response.function_responses):
            await self._cut()
        self._begin(self._conclude(), after=self._act)

    async def _close_exchange(self) -> None:
        """End the exchange that a lost connection has left open, without an answer."""
        self._state.cut_off.clear()
        await self._content(turnComplete=True)
        await self._keep()

    # Actions.

    def _next_answer(self, words: str = "", sound: bytes = b"") -> Answer:
        tools = tuple(_declared(each) for each in self._setup.declarations())
        turn = CallerTurn(words, sound, 16_000, tools)
        self._state.owed = self._state.current = self._prompter.answer(turn)
        return self._state.owed

    def _begin(
        self, work: Coroutine[Any, Any, None], after: asyncio.Task[None] | None = None
    ) -> None:
        previous = self._act
        if previous is not None and after is None:
            previous.cancel()
        self._act = asyncio.get_running_loop().create_task(_settled(work, after))
        self._others.add(self._act)
        self._act.add_done_callback(self._others.discard)

    async def _turn(self, sound: bytes) -> None:
        answer = self._next_answer(sound=sound)
        half = len(answer.heard) // 2
        for piece in (answer.heard[:half], answer.heard[half:]):
            if piece and self._setup.input_audio_transcription is not None:
                await self._content(inputTranscription={"text": piece})
        await self._happen("turn")
        await self._perform(answer, thinking=True)

    async def _perform(self, answer: Answer, *, thinking: bool) -> None:
        if thinking:
            await asyncio.sleep(self._prompter.thinking)
        await self._happen("answer")
        heard_at = 0.0
        if answer.says:
            heard_at = await self._speak(answer.says, ends=not answer.asks)
        if answer.asks:
            await self._ask(answer)
            if any(self._state.pending.values()):
                self._generating = False
                return
            if answer.says:
                await self._content(generationComplete=True)
            if self._emulator.guess:
                heard_at = await self._speak(self._emulator.guess)
        await self._complete(heard_at, owed=bool(answer.asks))

    async def _ask(self, answer: Answer) -> None:
        calls = [
            {"id": self._emulator.new_call_id(), "name": use.name, "args": use.arguments}
            for use in answer.asks
        ]
        self._asked_at = time.monotonic()
        self._state.asked = answer
        for call in calls:
            self._state.pending[str(call["id"])] = self._blocking.get(str(call["name"]), False)
        if any(self._state.pending.values()):
            await self._keep(resumable=False)
        await self._send({"toolCall": {"functionCalls": calls}})
        if not any(self._state.pending.values()):
            await self._keep()
        await self._happen("ask")

    async def _conclude(self) -> None:
        await asyncio.sleep(self._prompter.thinking)
        await self._happen("answer")
        answer = self._state.asked
        then = answer.then if answer is not None else "{results}"
        messages = list(self._results.values())
        self._results.clear()
        heard_at = await self._speak(results_said(then, messages))
        await self._complete(heard_at)

    async def _say(self, text: str, *, greeting: bool = False) -> None:
        await asyncio.sleep(self._prompter.thinking)
        if not greeting:
            await self._happen("answer")
        await self._complete(await self._speak(text, greeting=greeting))

    async def _speak(self, text: str, *, greeting: bool = False, ends: bool = True) -> float:
        """Returns the time at which its audio will have been heard."""
        self._generating = True
        pcm = self._emulator.speaker.speak(text, RATE_OUT)
        size = RATE_OUT * 2 * CHUNK_MS // 1000
        chunks = [pcm[at : at + size] for at in range(0, len(pcm), size)] or [b"\0\0"]
        begun, written = time.monotonic(), 0
        for place, chunk in enumerate(chunks):
            blob = {"mimeType": f"audio/pcm;rate={RATE_OUT}", "data": b64encode(chunk).decode()}
            upto = len(text) * (place + 1) // len(chunks)
            await self._content(modelTurn={"role": "model", "parts": [{"inlineData": blob}]})
            if upto > written and self._setup.output_audio_transcription is not None:
                await self._content(outputTranscription={"text": text[written:upto]})
                written = upto
            if greeting and place == 0:
                await self._happen("greeting")
            elif not greeting and place == len(chunks) // 2:
                await self._happen("sound")
            await asyncio.sleep(CHUNK_MS / 1000 / self._emulator.pace)
        if ends:
            await self._content(generationComplete=True)
        return begun + len(pcm) / (RATE_OUT * 2)

    async def _complete(self, heard_at: float, *, owed: bool = False) -> None:
        await asyncio.sleep(max(0.0, heard_at - time.monotonic()))
        self._generating = False
        if not owed:
            self._state.owed = None
        await self._send(
            {
                "serverContent": {"turnComplete": True},
                "usageMetadata": {
                    "promptTokenCount": 120,
                    "promptTokensDetails": [
                        {"modality": "TEXT", "tokenCount": 100},
                        {"modality": "AUDIO", "tokenCount": 20},
                    ],
                    "responseTokenCount": 30,
                    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}],
                    "totalTokenCount": 150,
                },
            }
        )
        await self._keep()

    async def _cut(self) -> None:
        """End the current speech."""
        if self._act is not None:
            self._act.cancel()
        if self._generating:
            self._generating = False
            self._state.owed = None
            await self._content(interrupted=True)
            await self._content(turnComplete=True)

    async def _cancel(self, ids: list[str]) -> None:
        for call_id in ids:
            del self._state.pending[call_id]
            self._state.cancelled.add(call_id)
        await self._send({"toolCallCancellation": {"ids": ids}})

    async def _keep(self, *, resumable: bool = True) -> None:
        if self._setup.session_resumption is None:
            return
        update: dict[str, Any] = {}
        if resumable:
            update = {"newHandle": self._emulator.new_handle(self._state), "resumable": True}
        await self._send({"sessionResumptionUpdate": update})

    # To the client, and faults.

    async def _content(self, **content: Any) -> None:
        await self._send({"serverContent": content})

    async def _send(self, message: dict[str, Any]) -> None:
        if not self._stalled:
            self._last = json.dumps(message).encode()
            await self._socket.send(self._last)

    async def _happen(self, when: When) -> None:
        """Cause the script's fault for this moment. Raises `Gone` if it ends the connection."""
        fault = self._prompter.fault(when)
        if fault is None:
            return
        match fault.do:
            case "close" | "error" | "refuse":
                code = fault.code if isinstance(fault.code, int) and fault.code >= 1000 else 1011
                await self._emulator.close(self._socket, code, "Internal error encountered.")
                raise Gone
            case "drop":
                self._socket.transport.abort()
                raise Gone
            case "stall":
                self._stalled = True
                raise Gone
            case "garbage":
                await self._garbage()
            case "duplicate":
                await self._socket.send(self._last)
            case "go_away":
                await self._send({"goAway": {"timeLeft": f"{GO_AWAY:g}s"}})
                task = asyncio.get_running_loop().create_task(self._leave())
                self._others.add(task)
                task.add_done_callback(self._others.discard)
            case "cancel_tool" if self._state.pending:
                await self._cancel(list(self._state.pending))
                await self._content(turnComplete=True)
                self._state.owed = None
                raise Gone

    async def _garbage(self) -> None:
        for message in (
            b"\x00{no json",
            b"[1, 2]",
            b'{"serverContent": 5, "toolCall": {"functionCalls": "x"}, "nonsense": {}}',
            b'{"serverContent": {"modelTurn": {"parts": [{"inlineData": {"data": "%"}}]}}}',
        ):
            await self._socket.send(message)

    async def _leave(self) -> None:
        await asyncio.sleep(GO_AWAY)
        await self._emulator.close(self._socket, 1008, "The session has been aborted.")


def _declared(declaration: FunctionDeclaration) -> dict[str, Any]:
    schema = declaration.parameters_json_schema
    if schema is None and declaration.parameters is not None:
        schema = declaration.parameters.model_dump(exclude_none=True)
    return {
        "name": declaration.name,
        "description": declaration.description or "",
        "parameters": schema or {},
    }


async def _settled(work: Coroutine[Any, Any, None], after: asyncio.Task[None] | None) -> None:
    """Run it once `after` is done; it ends with the connection."""
    if after is not None:
        await asyncio.wait([after])
    with contextlib.suppress(Gone, ConnectionClosed):
        await work
