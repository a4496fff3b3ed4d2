"""One conversation with an emulated ElevenLabs agent: a websocket from its start to its end.

    initiation → metadata → greeting → (turn → transcript → words and sound, tools)* → close

Audio is sent faster than real time, as by the service; the clock determines the part that has been
spoken, and hence interruptions. Event ids count up; words and audio of one answer share one. As the
service was seen to do (pydantic-ai, 2026): the words follow when the model has finished writing,
after the first audio; the words of an answer that is cut before that follow the interruption, cut;
overrides are refused after the metadata; no tentative transcript ever comes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.websockets import WebSocket, WebSocketDisconnect

from cordboard.audio import g711
from cordboard.tools.tool import JsonObject
from cordboard_testkit.emulators.elevenlabs import wire
from cordboard_testkit.emulators.script import (
    Answer,
    CallerTurn,
    Prompter,
    Use,
    When,
    results_said,
)
from cordboard_testkit.emulators.speech import Speaker, TurnGate

CHUNK_MS = 200
ALWAYS = frozenset({"conversation_initiation_metadata", "error", "queue_status"})
"""Events that no agent turns off."""
QUEUE_TIMEOUT = 4300
"""Close code for a caller who has waited too long in the queue."""
_GARBAGE = (
    "no json",
    "[]",
    '{"type":7}',
    '{"type":"audio","audio_event":{"event_id":"x","audio_base_64":"%%"}}',
    '{"type":"client_tool_call","client_tool_call":{"parameters":[]}}',
    '{"type":"user_transcript"}',
)


class Over(Exception):
    """The conversation has ended."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a conversation."""

    agent: JsonObject
    tools: Mapping[str, JsonObject]
    """The agent's client tools, by name."""
    any_tool: bool
    """True if it may also request tools that the agent does not have."""
    prompter: Prompter
    speaker: Speaker
    ping_s: float
    faster: float
    """Speed of the outgoing audio, as a multiple of real time."""
    voices: frozenset[str]
    writes: float
    """Share of an answer's audio that is sent before its words."""
    queue_s: float
    """Seconds in the queue, with music; 0: the agent is free."""
    admits: bool
    """False: the queue ends with `timed_out`."""
    note: Callable[[Any], None]
    """Callback for each message of the client."""
    violate: Callable[[str], None]
    closed: Callable[[int, str], None]


class Conversation:
    """Runs on one accepted websocket."""

    def __init__(self, socket: WebSocket, setting: Setting) -> None:
        self._socket = socket
        self._setting = setting
        config = setting.agent["conversation_config"]
        self._config: JsonObject = config
        self._events = frozenset(config["conversation"]["client_events"])
        self._input = str(config["asr"]["user_input_audio_format"])
        self._output = str(config["tts"]["agent_output_audio_format"])
        self._step = 1 if self._input == "ulaw_8000" else 2
        self._gate = TurnGate(_rate(self._input))
        self._ids = itertools.count(1)
        self._last_id = 0
        self._last_text = ""
        self._begun = False
        self._stalled = False
        self._ended = False
        self._turn: asyncio.Task[None] | None = None
        self._pinging: asyncio.Task[None] | None = None
        self._spoken = ("", 0.0, 0.0)
        """The sentence, its start and its duration."""
        self._unwritten = False
        """The words of the sentence are still to be sent."""
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._was_waiting: set[str] = set()
        self._pings: dict[int, bool] = {}

    async def run(self) -> None:
        """Until either side ends it."""
        try:
            while True:
                received = await self._socket.receive()
                if received["type"] == "websocket.disconnect":
                    break
                await self._take(received)
        except (Over, WebSocketDisconnect):
            pass
        finally:
            self._ended = True
            tasks = [task for task in (self._pinging, self._turn) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # Messages from the client.

    async def _take(self, received: Mapping[str, Any]) -> None:
        text = received.get("text")
        try:
            message: Any = json.loads(text) if text is not None else None
        except ValueError:
            message = None
        self._setting.note(message)
        problem = wire.problem_of(message, self._step)
        if problem:
            await self._refuse("invalid_message", problem)
        if not self._begun:
            if message.get("type") != "conversation_initiation_client_data":
                await self._refuse("invalid_message", "the first message is the initiation")
            await self._begin(message)
        elif "user_audio_chunk" in message:
            await self._hear(base64.b64decode(message["user_audio_chunk"]))
        else:
            await self._take_event(message)

    async def _take_event(self, message: JsonObject) -> None:
        match message["type"]:
            case "conversation_initiation_client_data":
                await self._refuse("invalid_message", "the conversation has begun")
            case "pong":
                if self._pings.pop(message["event_id"], None) is None:
                    self._setting.violate(f"a pong to no ping: {message['event_id']}")
            case "client_tool_result":
                self._take_result(message)
            case "user_message":
                await self._interrupt()
                self._new_turn(self._next_answer(str(message.get("text", ""))), said=False)

    def _take_result(self, message: JsonObject) -> None:
        call_id = message["tool_call_id"]
        waiting = self._waiting.pop(call_id, None)
        if waiting is None:
            if call_id not in self._was_waiting:
                self._setting.violate(f"a result that nothing waits for: {call_id}")
        elif not waiting.done():
            waiting.set_result(_message_of(message["result"]))

    async def _begin(self, message: JsonObject) -> None:
        if await self._suffer("setup"):
            return
        self._begun = True
        await self._send(
            "conversation_initiation_metadata",
            "conversation_initiation_metadata_event",
            conversation_id=f"conv_{self._setting.prompter.connections:04d}",
            agent_output_audio_format=self._output,
            user_input_audio_format=self._input,
        )
        overrides = message.get("conversation_config_override") or {}
        allowed = self._setting.agent["platform_settings"]["overrides"]
        problem = wire.permitted(overrides, allowed["conversation_config_override"])
        if problem:
            await self._refuse("override_error", problem)
        if message.get("custom_llm_extra_body") and not allowed["custom_llm_extra_body"]:
            await self._refuse("override_error", "custom_llm_extra_body is not allowed by config.")
        voice = (overrides.get("tts") or {}).get("voice_id")
        if voice is not None and voice not in self._setting.voices:
            await self._refuse("value_error", f"A voice for the voice_id '{voice}' was not found.")
        own, over = self._config["agent"], overrides.get("agent") or {}
        prompt = (over.get("prompt") or {}).get("prompt")
        greeting = over.get("first_message")
        prompt = own["prompt"]["prompt"] if prompt is None else prompt
        greeting = own["first_message"] if greeting is None else greeting
        places = own["dynamic_variables"]["dynamic_variable_placeholders"]
        given = {**places, **(message.get("dynamic_variables") or {})}
        missing = wire.missing_variables((prompt, greeting), given)
        if missing:
            reason = f"Missing required dynamic variables: {', '.join(missing)}"
            await self._refuse("missing_dynamic_variable", reason)
        self._pinging = asyncio.create_task(self._ping())
        if greeting or self._setting.queue_s:
            opening = self._open(wire.filled(greeting, given))
            self._turn = asyncio.create_task(self._guarded(opening))

    # Turns.

    async def _open(self, greeting: str) -> None:
        if self._setting.queue_s:
            await self._queue()
        if greeting and not await self._suffer("greeting"):
            await self._speak(greeting)

    async def _queue(self) -> None:
        """Hold the caller, with music as ordinary audio."""
        await self._send("queue_status", "queue_status_event", status="waiting")
        until = time.monotonic() + self._setting.queue_s
        music = base64.b64encode(self._coded(b"\x00\x10" * (_rate(self._output) // 5))).decode()
        while time.monotonic() < until:
            await self._send("audio", "audio_event", audio_base_64=music, event_id=next(self._ids))
            await asyncio.sleep(CHUNK_MS / 1000 / self._setting.faster)
        status = "admitted" if self._setting.admits else "timed_out"
        await self._send("queue_status", "queue_status_event", status=status)
        if not self._setting.admits:
            await self._close(QUEUE_TIMEOUT, "Timed out waiting in the queue.")

    async def _hear(self, sound: bytes) -> None:
        pcm = g711.ulaw_to_linear(sound) if self._input == "ulaw_8000" else sound
        heard = self._gate.hear(pcm)
        if heard == "started":
            await self._interrupt()
        elif heard == "stopped":
            self._new_turn(self._next_answer(sound=bytes(self._gate.sound)), said=True)

    def _next_answer(self, words: str = "", sound: bytes = b"") -> Answer:
        tools = tuple(self._setting.tools.values())
        turn = CallerTurn(words, sound, _rate(self._input), tools)
        return self._setting.prompter.answer(turn)

    def _new_turn(self, answer: Answer, *, said: bool) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._waiting.clear()
        self._turn = asyncio.create_task(self._guarded(self._answer(answer, said=said)))

    async def _interrupt(self) -> None:
        """The caller speaks over the agent."""
        text, began, length = self._spoken
        heard = time.monotonic() - began
        if not text or heard >= length:
            return
        if self._turn is not None:
            self._turn.cancel()
        self._spoken = ("", 0.0, 0.0)
        await self._send("interruption", "interruption_event", event_id=next(self._ids))
        words = text.split()
        kept = " ".join(words[: int(len(words) * heard / length)])
        if self._unwritten:
            await self._write(f"{kept}...")
            return
        await self._send(
            "agent_response_correction",
            "agent_response_correction_event",
            original_agent_response=text,
            corrected_agent_response=f"{kept}...",
            event_id=self._last_id,
        )

    async def _answer(self, answer: Answer, *, said: bool) -> None:
        if await self._suffer("turn"):
            return
        if said:
            await self._send(
                "user_transcript",
                "user_transcription_event",
                user_transcript=answer.heard,
                event_id=next(self._ids),
            )
        await asyncio.sleep(self._setting.prompter.thinking)
        if await self._suffer("answer"):
            return
        if answer.says:
            await self._speak(answer.says)
        if not answer.asks:
            return
        results = await asyncio.gather(*[self._ask(use) for use in answer.asks])
        if await self._suffer("result"):
            return
        await asyncio.sleep(self._setting.prompter.thinking)
        await self._speak(results_said(answer.then, results))

    async def _speak(self, text: str) -> None:
        if not text.strip():
            return
        rate = _rate(self._output)
        pcm = self._setting.speaker.speak(text, rate)
        sound = self._coded(pcm)
        size = CHUNK_MS * rate // 1000 * (1 if self._output == "ulaw_8000" else 2)
        began = max(time.monotonic(), self._spoken[1] + self._spoken[2])
        self._spoken = (text, began, len(pcm) / 2 / rate)
        event_id = self._last_id = next(self._ids)
        self._unwritten = True
        starts = range(0, len(sound), size)
        half, written = len(starts) // 2, int((len(starts) - 1) * self._setting.writes)
        for count, start in enumerate(starts):
            chunk = base64.b64encode(sound[start : start + size]).decode()
            await self._send("audio", "audio_event", audio_base_64=chunk, event_id=event_id)
            if count == written:
                await self._write(text)
            if count == half and await self._suffer("sound"):
                return
            await asyncio.sleep(CHUNK_MS / 1000 / self._setting.faster)
        await self._send(
            "agent_response_complete", "agent_response_complete_event", event_id=event_id
        )

    async def _write(self, text: str) -> None:
        """Send the words of the current answer."""
        self._unwritten = False
        told = {"agent_response": text, "event_id": self._last_id}
        await self._send("agent_response", "agent_response_event", **told)

    def _coded(self, pcm: bytes) -> bytes:
        return g711.linear_to_ulaw(pcm) if self._output == "ulaw_8000" else pcm

    async def _ask(self, use: Use) -> str:
        tool = self._setting.tools.get(use.name)
        if tool is None and not self._setting.any_tool:
            self._setting.violate(f"the agent has no tool {use.name}")
            return f"There is no tool {use.name}."
        seconds = tool["response_timeout_secs"] if tool is not None else 20
        call_id = f"call_{next(self._ids)}"
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = waiting
        self._was_waiting.add(call_id)
        await self._send(
            "client_tool_call",
            "client_tool_call",
            tool_name=use.name,
            tool_call_id=call_id,
            parameters=use.arguments,
            event_id=next(self._ids),
        )
        if await self._suffer("ask"):
            return ""
        if tool is not None and not tool["expects_response"]:
            return ""
        try:
            return await asyncio.wait_for(waiting, None if seconds == -1 else seconds)
        except TimeoutError:
            self._waiting.pop(call_id, None)
            return f"The tool {use.name} did not answer."

    # To the client.

    async def _send(self, kind: str, key: str, **content: Any) -> None:
        if kind not in ALWAYS and kind not in self._events:
            return
        if await self._suffer("message"):
            return
        await self._raw(json.dumps({"type": kind, key: content}))

    async def _raw(self, text: str) -> None:
        if self._stalled or self._ended:
            return
        self._last_text = text
        await self._socket.send_text(text)

    async def _ping(self) -> None:
        with contextlib.suppress(Over, WebSocketDisconnect, RuntimeError):
            while True:
                if len(self._pings) > 5:
                    self._setting.violate("pings are not answered")
                    self._pings.clear()
                event_id = next(self._ids)
                if "ping" in self._events:
                    self._pings[event_id] = True
                await self._send("ping", "ping_event", event_id=event_id, ping_ms=20)
                await asyncio.sleep(self._setting.ping_s)

    async def _refuse(self, error_type: str, reason: str) -> NoReturn:
        """Send the reason, close, and end the conversation."""
        self._setting.violate(reason)
        await self._fail(error_type, reason, 1008)

    async def _fail(self, error_type: str, reason: str, code: int) -> NoReturn:
        event = {"code": code, "error_type": error_type, "message": reason, "reason": reason}
        await self._raw(json.dumps({"type": "error", "error_event": event}))
        await self._close(code, reason)

    async def _close(self, code: int, reason: str) -> NoReturn:
        self._ended = True
        self._setting.closed(code, reason)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._socket.close(code, reason[:120])
        raise Over

    async def _suffer(self, when: When) -> bool:
        """Cause the script's fault; return True if no speech follows. `go_away` and
        `cancel_tool` are ignored: this service has no message for them."""
        fault = self._setting.prompter.fault(when)
        if fault is None:
            return self._stalled
        match fault.do:
            case "close":
                await self._close(int(fault.code) or 1011, "Unexpected server error.")
            case "drop":
                self._ended = True
                self._socket.scope["extensions"]["drop"]["abort"]()
                raise Over
            case "stall":
                self._stalled = True
            case "garbage":
                for text in _GARBAGE:
                    await self._raw(text)
                await self._socket.send_bytes(b"\0\1")
            case "error":
                await self._fail(str(fault.code or "llm_error"), "Something failed.", 1002)
            case "duplicate":
                await self._raw(self._last_text)
        return self._stalled

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(Over, WebSocketDisconnect, RuntimeError):
            await work


def _rate(name: str) -> int:
    return int(name.partition("_")[2])


def _message_of(result: str) -> str:
    """Return the part of a result that may be spoken."""
    try:
        told = json.loads(result)
    except ValueError:
        return result
    if not isinstance(told, dict):
        return result
    return str(told.get("message") or "")
