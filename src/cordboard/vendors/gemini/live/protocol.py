"""Gemini Live: its wire as a `ServiceProtocol`.

    setup → setupComplete → (realtimeInput | clientContent | toolResponse)*
          ← (serverContent | toolCall | toolCallCancellation | sessionResumptionUpdate | goAway)*

Sound is 16 kHz towards it and 24 kHz back. The model waits for a tool, and must hear nothing
meanwhile (it would cancel the call, or close with 1008), so the caller's sound is left out until
the answer, the cancellation, or ten seconds. Look-ups that may take longer run beside the
conversation (`function_behavior`).

A lost connection resumes by the newest handle of the service, and the events since that handle are
sent again (`memory`); without a handle a new session begins with the conversation so far. A session
that was lost in the middle of a tool call is stuck there when it resumes, and would take the next
input for the rest of that exchange: the calls are answered with an error first. Sources: the types
and converters of google-genai 3.4, Google's pages on the Live API, the reports named in `errors`,
and what the authors of pydantic-ai saw (October 2026).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import SLIN_8K, SLIN_16K, AudioFormat
from cordboard.net.service_websocket import Address
from cordboard.tools.tool import JsonObject, ToolReply
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.limits import LIVE_PAYLOAD
from cordboard.vendors.gemini.live import messages as say
from cordboard.vendors.gemini.live.answers import Answers
from cordboard.vendors.gemini.live.errors import (
    Circumstances,
    amounts_of,
    meaning,
    seconds_left,
)
from cordboard.vendors.gemini.live.floor import Floor
from cordboard.vendors.gemini.live.memory import Memory, bounded
from cordboard.vendors.gemini.live.sound import SoundToService
from cordboard.vendors.gemini.live.tools import ToolCalls
from cordboard.vendors.gemini.live.turns import CallerTurns
from cordboard.vendors.gemini.models import live_model

BASE_URL = "https://generativelanguage.googleapis.com"
PATH = "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"
GREET = "[Greet the caller now. Say exactly this, word for word, and nothing else: “{greeting}”]"
CALL_BEGINS = "[The call begins.]"
GO_ON = "[The line to you was interrupted for a moment. Answer the caller now.]"
CLOSING_S = 1.0
"""Longest wait for the end of a cut-off exchange; the caller's sound is kept meanwhile."""
_LEAVE_BEFORE = 2.0
"""Seconds for a change of connection, before the service closes the old one."""


class GeminiProtocol:
    """One call's side of Gemini Live. Implements `ServiceProtocol`."""

    def __init__(self, settings: GeminiLiveProvider, key: str) -> None:
        allowed = settings.data == "allow"
        self.payload = replace(LIVE_PAYLOAD, data="always") if allowed else LIVE_PAYLOAD
        self._settings = settings
        self._key = key
        self._memory = Memory()
        self._floor: Floor | None = None
        """The current connection's floor; None before the first one."""
        self._answers: Answers
        self._tools: ToolCalls
        self._out: SoundToService
        self._handlers: dict[str, Callable[[JsonObject], None]] = {}
        """Handlers in the order in which the parts of one message count."""
        self._with_handle = False
        self._kept: list[bytes] = []
        """The caller's sound since the exchange that is to end was answered."""
        self._quick_losses = 0
        self._gap = False
        """Sound was left out."""
        self._leave_at: float | None = None

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_16K, SLIN_8K)

    @property
    def speaks_greeting(self) -> bool:
        return True

    @property
    def keep_alive_s(self) -> float:
        return 0.0

    def keep_alive(self) -> None:
        """Do nothing: no keep-alive is needed."""

    async def address(self) -> Address:
        base = (self._settings.base_url or BASE_URL).rstrip("/")
        scheme, _, rest = base.partition("://")
        path = PATH.format(version=self._settings.api_version)
        url = f"{'wss' if scheme == 'https' else 'ws'}://{rest}{path}"
        return Address(url, self._settings.request_headers(self._key))

    # The session.

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        cut_short = self._floor.turns.lost() if self._floor is not None else ""
        spoke = self._floor is not None and self._floor.greeted
        floor = self._connect(session, host)
        floor.greeted = spoke
        history = resumed.history if resumed is not None else ()
        handle = self._memory.handle if resumed is not None else ""
        self._with_handle = bool(handle)
        seed = [("user" if said.who == "caller" else "model", said.text) for said in history]
        if cut_short:
            seed.append(("user", cut_short))
        seed = [] if handle else bounded(seed)
        greeted = ""
        if [role for role, _ in seed] == ["model"]:  # no history is needed for that
            greeted, seed = seed[0][1], []
        elif seed and seed[0][0] == "model":
            seed.insert(0, ("user", CALL_BEGINS))  # a conversation begins with the user
        start = say.Start(handle, bool(seed), greeted)
        floor.send(say.setup(self._settings, session, start))
        if seed:
            floor.untold.append(say.turns(seed, complete=True))
        if resumed is not None:
            self._catch_up(floor, resumed.owes_answer or bool(cut_short))
        elif session.greeting:
            floor.note(GREET.format(greeting=session.greeting))

    def _connect(self, session: AgentSession, host: ProtocolHost) -> Floor:
        turns = CallerTurns(host, lambda text: self._memory.said("user", text))
        floor = self._floor = Floor(session, host, self._memory, turns)
        answers = self._answers = Answers(floor, self._settings)
        tools = self._tools = ToolCalls(floor, self._settings, answers.pause)
        self._out = SoundToService(session.format)
        self._handlers = {
            "toolCallCancellation": tools.cancelled,
            "voiceActivity": answers.voice_activity,
            "voiceActivityDetectionSignal": answers.voice_signal,
            "serverContent": answers.content,
            "toolCall": tools.called,
            "usageMetadata": self._usage,
            "sessionResumptionUpdate": self._resumption,
            "goAway": self._go_away,
            "error": self._error,
        }
        self._kept.clear()
        self._gap = False
        self._leave_at = None
        return floor

    def _catch_up(self, floor: Floor, owes: bool) -> None:
        """Send a new connection the state that it has forgotten, and whether it must answer now."""
        memory = self._memory
        unspoken = not floor.greeted and not memory.since
        if self._with_handle:
            untold = memory.resume(owes=owes)
        else:
            untold = [("user", text) for text in memory.afresh()]
        if memory.open_calls():
            owes = False  # the answer comes with the results
        if owes and unspoken and floor.session.greeting and not floor.session.history:
            floor.note(GREET.format(greeting=floor.session.greeting))
            owes = False
        elif owes:
            untold.append(("user", GO_ON))
        if untold:
            floor.untold.append(say.turns(untold, complete=owes))
        if owes:
            floor.owes()

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        floor, accepted_for = self._floor, None
        if floor is not None and floor.ready_at is not None:
            accepted_for = floor.host.now() - floor.ready_at
        circumstances = Circumstances(
            accepted_for, self._with_handle, self._quick_losses, self._settings.api_version
        )
        found = meaning(status, code, problem, circumstances)
        if accepted_for is not None:
            self._quick_losses = self._quick_losses + 1 if found.quick else 0
        if found.forget_handle:
            self._memory.forget_handle()
        if floor is not None:
            floor.ready_at = None
            floor.turns.lost()
        return found.lost

    # To the service.

    def hear(self, sound: bytes) -> None:
        floor = self._floor
        if floor is None:
            return
        now = floor.host.now()
        if floor.closing_until is not None:
            if now < floor.closing_until:
                self._kept.append(sound)
                return
            floor.catch_up()
        if self._memory.calls and self._memory.gated(now):
            self._kept.clear()
            self._gap = True  # skipped sound is not sent later: it would be heard too late
        else:
            if self._kept:
                kept, self._kept = self._kept, []
                for earlier in kept:
                    self._pass_on(floor, earlier)
            self._pass_on(floor, sound)
        if floor.turns.open:
            floor.turns.look(now)
        if self._leave_at is not None:
            self._leave(floor)

    def _pass_on(self, floor: Floor, sound: bytes) -> None:
        if self._gap:
            self._gap = False
            self._out.broken()
        if message := self._out.message(sound):
            floor.host.send_text(message)

    def answer_tool(self, reply: ToolReply) -> None:
        if self._floor is not None:
            self._tools.answer(reply)

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """Do nothing: the service cuts by itself, and has no message for it."""

    def speak(self, speech: Speech) -> bool:
        return False

    def inform(self, text: str) -> bool:
        floor = self._floor
        if floor is None or not floor.silent:
            return False
        floor.note(f"[Tell the caller now: {text}]")
        floor.tell_notes()
        return True

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        floor = self._floor
        if floor is None:
            return False
        floor.hint(text)
        floor.tell_notes()
        return True

    def listen_aside(self, on: bool) -> bool:
        return False

    def goodbye(self) -> None:
        floor = self._floor
        if floor is None or floor.ready_at is None or self._memory.gated(floor.host.now()):
            return
        floor.send({"realtimeInput": {"audioStreamEnd": True}})

    # From the service.

    def receive_binary(self, data: bytes) -> None:
        self.receive_text(data)  # the service sends its JSON in binary frames

    def receive_text(self, message: bytes) -> None:
        floor = self._floor
        if floor is None:
            return
        try:
            received = orjson.loads(message)
        except ValueError:
            received = None
        if not isinstance(received, dict):
            floor.host.ignored("malformed", "no JSON object")
            return
        for name in received:
            if name not in self._handlers and name != "setupComplete":
                floor.not_known(name)
        if "setupComplete" in received:
            self._accepted(floor)
        for name in self._handlers:
            if name not in received:
                continue
            if floor.ready_at is None and name != "error":
                floor.host.ignored("out_of_order", f"{name} before the session was accepted")
            else:
                self._read(floor, name, received[name])

    def _read(self, floor: Floor, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            floor.host.ignored("malformed", name)
            return
        if name in ("serverContent", "toolCall"):
            self._memory.heard_of()
        self._handlers[name](value)

    def _accepted(self, floor: Floor) -> None:
        if floor.ready_at is not None:
            floor.host.ignored("duplicate", "setupComplete")
            return
        floor.ready_at = floor.host.now()
        closes = self._with_handle and live_model(self._settings.model).closes_exchange
        if closes and (calls := self._memory.cut_off()):
            floor.closing_until = floor.ready_at + CLOSING_S
            floor.send(say.cut_off(calls))
        else:
            floor.catch_up()
        floor.host.ready()
        self._tools.deliver_waiting()

    def _usage(self, message: JsonObject) -> None:
        if self._floor is not None and (amounts := amounts_of(message)):
            self._floor.host.used(self._settings.model, amounts)

    def _resumption(self, message: JsonObject) -> None:
        handle = message.get("newHandle")
        if message.get("resumable") is True and isinstance(handle, str) and handle:
            self._memory.new_handle(handle)

    def _go_away(self, message: JsonObject) -> None:
        if self._floor is not None:
            left = seconds_left(message.get("timeLeft"))
            self._leave_at = self._floor.host.now() + max(0.0, left - _LEAVE_BEFORE)
            self._leave(self._floor)

    def _leave(self, floor: Floor) -> None:
        """Change the connection, between two turns if there is time for that."""
        if self._leave_at is None:
            return
        idle = floor.silent and not self._memory.open_calls()
        if idle or floor.host.now() >= self._leave_at:
            self._leave_at = None
            floor.host.reconnect("the service is going away")

    def _error(self, message: JsonObject) -> None:
        floor = self._floor
        if floor is None:
            return
        status = str(message.get("status", ""))[:60]
        reason = f"Gemini: {status} {str(message.get('message', ''))[:200]}".strip()
        if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            floor.host.failed("auth", reason)
        elif status == "RESOURCE_EXHAUSTED":
            floor.host.failed("quota", reason)
        elif status in ("INVALID_ARGUMENT", "NOT_FOUND") and floor.ready_at is None:
            floor.host.failed("refused", reason)
        else:
            floor.host.reconnect(reason)
