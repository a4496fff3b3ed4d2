"""The responses of an emulated OpenAI Realtime session: their speech, events and pace.

One response at a time belongs to the conversation; others run beside it. Audio is made in pieces of
100 ms, several times as fast as real time, so that it can be cut in the middle.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any

from cordboard.audio import g711
from cordboard_testkit.emulators.openai.realtime_conversation import Event, Work
from cordboard_testkit.emulators.openai.realtime_session import RealtimeSession
from cordboard_testkit.emulators.openai.realtime_wire import MODELS, Refused
from cordboard_testkit.emulators.script import Use, When, results_said

PIECE_MS = 100
FAULT_PIECE = 3
"""The piece before which a fault in the middle of the audio happens."""


@dataclass(slots=True)
class Plan:
    """The task of one response."""

    says: str = ""
    asks: tuple[Use, ...] = ()
    work: Work | None = None
    """The work that it begins."""
    tells: tuple[Work, ...] = ()
    """The work whose results it speaks about."""
    greets: bool = False
    writes: bool = False


@dataclass(slots=True)
class Running:
    """A response being made."""

    response_id: str
    plan: Plan
    in_conversation: bool
    metadata: Any = None
    tool_choice: Any = "auto"
    output: list[Event] = field(default_factory=list)
    sound_ms: int = 0
    breaks_with: str = ""
    """The code of the error with which it fails in the middle of its sound."""
    task: asyncio.Task[None] | None = None


class ResponseBreaks(Exception):
    """A response fails in the middle of its sound."""


class Responses:
    """All responses of one connection."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._active: Running | None = None
        self._beside: dict[str, Running] = {}
        self._instructed = 0

    # Begun and cut.

    def create(self, wanted: Event) -> None:
        """As `response.create` wants it."""
        aside = wanted.get("conversation") == "none"
        if not aside and self._active is not None:
            words = (
                "Conversation already has an active response in progress: "
                f"{self._active.response_id}. Wait until the response is finished before creating "
                "a new one."
            )
            raise Refused("conversation_already_has_active_response", words)
        fault = self._session.emulator.prompter.fault("request")
        if fault is not None and fault.do == "error":
            raise Refused(str(fault.code), "Conversation already has an active response.")
        plan = self._instructions(wanted) if "instructions" in wanted else self._next()
        if fault is not None:
            plan.writes = fault.do == "write"
            plan.says = f"Of course! {plan.says}" if fault.do == "misread" else plan.says
        self._begin(plan, not aside, wanted.get("metadata"), wanted.get("tool_choice"))

    def create_for_turn(self) -> None:
        """The caller's turn is over."""
        if self._active is not None:
            return
        work, ripe = self._session.emulator.works[-1], self._ripe()
        says = " ".join(filter(None, [*(_told(each) for each in ripe), work.answer.says]))
        self._begin(Plan(says, work.answer.asks, work, ripe), True)

    def cancel(self, response_id: str | None) -> None:
        running = self._active
        if response_id is not None:
            known = [*self._beside.values(), *([running] if running else [])]
            running = next((each for each in known if each.response_id == response_id), None)
        if running is None:
            words = "Cancellation failed: no active response found"
            raise Refused("response_cancel_not_active", words)
        self._stop(running, "client_cancelled")

    def interrupt(self) -> None:
        """The caller speaks: cut the response of the conversation."""
        if self._active is not None:
            self._stop(self._active, "turn_detected")

    def _stop(self, running: Running, reason: str) -> None:
        if running.task is not None:
            running.task.cancel()
        for item in running.output:
            if item.get("status") == "in_progress":
                item["status"] = "incomplete"
                self._say_of(running, "response.output_item.done", item=item)
        self._done(running, "cancelled", {"type": "cancelled", "reason": reason})

    # Content.

    def _instructions(self, wanted: Event) -> Plan:
        self._instructed += 1
        words = str(wanted["instructions"]).split("\n\n")[-1]
        first = self._instructed == 1 and wanted.get("conversation") != "none"
        return Plan(words, greets=first)

    def _next(self) -> Plan:
        session, emulator = self._session, self._session.emulator
        ripe = self._ripe()
        if ripe:
            return Plan(" ".join(map(_told, ripe)), tells=ripe)
        work = emulator.works[-1] if emulator.works else None
        if work is not None and not work.said:
            return Plan(work.answer.says, work.answer.asks, work)
        written = session.conversation.asked_in_writing()
        if written:
            return Plan(written)
        if work is not None and work.missing:
            emulator.violations.append("a response was asked for while tool results miss")
            return Plan()
        emulator.works.append(Work(emulator.prompter.answer()))
        return self._next()

    def _ripe(self) -> tuple[Work, ...]:
        number = self._session.number
        return tuple(work for work in self._session.emulator.works if work.ripe(number))

    # Generation.

    def _begin(
        self, plan: Plan, in_conversation: bool, metadata: Any = None, tool_choice: Any = None
    ) -> None:
        session = self._session
        tool_choice = tool_choice or session.settings["tool_choice"]
        running = Running(session.new_id("resp"), plan, in_conversation, metadata, tool_choice)
        for work in plan.tells:
            work.telling = session.number
        if in_conversation:
            self._active = running
        else:
            self._beside[running.response_id] = running
        session.say("response.created", response=self._shown(running, "in_progress"))
        running.task = session.spawn(self._make(running))

    async def _make(self, running: Running) -> None:
        session, plan = self._session, running.plan
        if session.settings["model"] not in MODELS:
            self._fail(running, "model_not_found", "The model does not exist.")
            return
        if not plan.greets and running.in_conversation:
            fault = session.emulator.prompter.fault("answer")
            if fault is not None and fault.do == "error":
                self._fail(running, str(fault.code or "server_error"), "The server had an error.")
                return
            if fault is not None and fault.do == "write":
                plan.writes = True
            elif fault is not None:
                await session.perform(fault)
        limits = [{"name": "requests", "limit": 100, "remaining": 99, "reset_seconds": 1.0}]
        session.say("rate_limits.updated", rate_limits=limits)
        await asyncio.sleep(session.emulator.prompter.thinking)
        self._obey(running)
        try:
            if plan.says:
                await (self._write if plan.writes else self._speak)(running, plan.says)
        except ResponseBreaks:
            self._fail(running, running.breaks_with, "The server had an error.")
            return
        for use in plan.asks:
            self._ask(running, use)
        if plan.work is not None:
            plan.work.said = True
        self._done(running, "completed", None)
        if plan.asks:
            await session.fault("ask")

    def _obey(self, running: Running) -> None:
        """Call a tool if `tool_choice` demands one: it counts for every response, also for those
        about a tool's result."""
        choice, tools = running.tool_choice, self._session.settings["tools"]
        forced = choice == "required" or isinstance(choice, dict)
        if forced and tools and not running.plan.asks:
            named = choice["name"] if isinstance(choice, dict) else tools[0]["name"]
            running.plan.says, running.plan.asks = "", (Use(named),)

    def _message(self, running: Running) -> tuple[Event, Event]:
        """Open the item of a sentence; return it and its place in events."""
        session = self._session
        item: Event = {"id": session.new_id("item"), "object": "realtime.item", "type": "message"}
        item |= {"status": "in_progress", "role": "assistant", "content": []}
        item["phase"] = "commentary" if running.plan.asks else "final_answer"
        self._open(running, item)
        return item, {"item_id": item["id"], "content_index": 0}

    async def _write(self, running: Running, text: str) -> None:
        """Answer in text, as the service does now and then in a session for audio."""
        item, where = self._message(running)
        part = {"type": "text", "text": ""}
        self._say_of(running, "response.content_part.added", **where, part=part)
        self._say_of(running, "response.output_text.delta", **where, delta=text)
        self._say_of(running, "response.output_text.done", **where, text=text)
        part = {"type": "text", "text": text}
        self._say_of(running, "response.content_part.done", **where, part=part)
        item["content"] = [{"type": "output_text", "text": text}]
        self._close(running, item)

    async def _speak(self, running: Running, text: str) -> None:
        session = self._session
        item, where = self._message(running)
        part = {"type": "audio", "transcript": ""}
        self._say_of(running, "response.content_part.added", **where, part=part)
        kind = session.settings["audio"]["output"]["format"]["type"]
        rate = 24000 if kind == "audio/pcm" else 8000
        sound = session.emulator.speaker.speak(text, rate)
        size = 2 * rate * PIECE_MS // 1000
        pieces = [sound[at : at + size] for at in range(0, len(sound), size)]
        words = [word + " " for word in text.split(" ")]
        words[-1] = words[-1][:-1]
        for place, piece in enumerate(pieces):
            if place in (0, FAULT_PIECE):
                await self._sound_fault(running, place)
            said, words = _share(words, len(pieces) - place)
            if said:
                name = "response.output_audio_transcript.delta"
                self._say_of(running, name, **where, delta=said)
            delta = base64.b64encode(_coded(piece, kind)).decode()
            piece_ms = len(piece) * 1000 // (2 * rate)
            running.sound_ms += piece_ms
            if running.in_conversation:
                made = session.conversation.made_ms
                made[item["id"]] = made.get(item["id"], 0) + piece_ms
            self._say_of(running, "response.output_audio.delta", **where, delta=delta)
            await asyncio.sleep(piece_ms / 1000 / session.emulator.speed)
        self._say_of(running, "response.output_audio.done", **where)
        name = "response.output_audio_transcript.done"
        self._say_of(running, name, **where, transcript=text)
        part = {"type": "audio", "transcript": text}
        self._say_of(running, "response.content_part.done", **where, part=part)
        item["content"] = [{"type": "output_audio", "transcript": text}]
        self._close(running, item)

    async def _sound_fault(self, running: Running, place: int) -> None:
        session = self._session
        when: When = "greeting" if running.plan.greets else "sound"
        if place == (0 if running.plan.greets else FAULT_PIECE):
            fault = session.emulator.prompter.fault(when)
            if fault is not None and fault.do == "error":
                running.breaks_with = str(fault.code or "server_error")
            elif fault is not None:
                await session.perform(fault)
        if place == FAULT_PIECE and running.breaks_with:
            raise ResponseBreaks

    def _ask(self, running: Running, use: Use) -> None:
        session = self._session
        call_id, arguments = session.new_id("call"), json.dumps(use.arguments)
        item: Event = {"id": session.new_id("item"), "object": "realtime.item"}
        item["type"] = "function_call"
        item |= {"status": "in_progress", "name": use.name, "call_id": call_id, "arguments": ""}
        if running.plan.work is not None:
            running.plan.work.calls.append(call_id)
        self._open(running, item)
        where = {"item_id": item["id"], "call_id": call_id}
        name = "response.function_call_arguments."
        self._say_of(running, name + "delta", **where, delta=arguments)
        self._say_of(running, name + "done", **where, name=use.name, arguments=arguments)
        item["arguments"] = arguments
        self._close(running, item)

    def _open(self, running: Running, item: Event) -> None:
        session = self._session
        running.output.append(item)
        self._say_of(running, "response.output_item.added", item=item)
        if running.in_conversation:
            previous = session.conversation.last_id
            shown = session.conversation.add(item)
            shown["status"] = item["status"]
            session.say("conversation.item.added", previous_item_id=previous, item=item)

    def _close(self, running: Running, item: Event) -> None:
        session = self._session
        item["status"] = "completed"
        self._say_of(running, "response.output_item.done", item=item)
        if running.in_conversation:
            session.conversation.items[item["id"]] |= item
            session.say("conversation.item.done", previous_item_id=None, item=item)

    def _say_of(self, running: Running, kind: str, **fields: Any) -> None:
        index = max(0, len(running.output) - 1)
        ids = {"response_id": running.response_id, "output_index": index}
        self._session.say(kind, **ids, **fields)

    def _fail(self, running: Running, code: str, words: str) -> None:
        kind = "server_error" if code == "server_error" else "invalid_request_error"
        if code == "rate_limit_exceeded":
            kind = "tokens"
            words = (
                "Rate limit reached for gpt-realtime on tokens per min (TPM): Limit 40000, Used "
                "39500, Requested 600. Please try again in 150ms."
            )
        error = {"type": kind, "code": code, "message": words}
        self._done(running, "failed", {"type": "failed", "error": error})

    def _done(self, running: Running, status: str, details: Event | None) -> None:
        session = self._session
        for work in running.plan.tells:
            work.told = status != "failed"
            work.telling = 0
        if self._active is running:
            self._active = None
        self._beside.pop(running.response_id, None)
        shown = self._shown(running, status)
        calls = sum(item["type"] == "function_call" for item in running.output)
        instructions = str(session.settings["instructions"])
        says = running.plan.says if running.sound_ms else ""
        usage = session.conversation.usage(instructions, says, running.sound_ms, calls)
        shown |= {"status_details": details, "usage": None if status == "failed" else usage}
        session.say("response.done", response=shown)

    def _shown(self, running: Running, status: str) -> Event:
        session = self._session
        audio = session.settings["audio"]["output"]
        return {
            "object": "realtime.response",
            "id": running.response_id,
            "status": status,
            "status_details": None,
            "output": running.output,
            "conversation_id": "conv_1" if running.in_conversation else None,
            "output_modalities": ["audio"],
            "max_output_tokens": session.settings["max_output_tokens"],
            "audio": {"output": {"format": audio["format"], "voice": audio["voice"]}},
            "usage": None,
            "metadata": running.metadata,
        }


def _told(work: Work) -> str:
    return results_said(work.answer.then, [work.results[call] for call in work.calls])


def _share(words: list[str], pieces: int) -> tuple[str, list[str]]:
    """Return the words that belong to the next of `pieces` pieces of audio."""
    count = -(-len(words) // max(1, pieces))
    return "".join(words[:count]), words[count:]


def _coded(pcm: bytes, kind: str) -> bytes:
    match kind:
        case "audio/pcmu":
            return g711.linear_to_ulaw(pcm)
        case "audio/pcma":
            return g711.linear_to_alaw(pcm)
    return pcm
