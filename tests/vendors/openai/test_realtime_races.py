"""Messages that cross: a small model of the service, and every order of events that chance finds.

What must hold in each: the service is never asked for a response while it has not followed or
refused our last request; whoever speaks, each turn of the caller is answered; each result of a tool
is known by a response that the caller could hear; and nothing is asked for that is not needed.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.vendors.host import RecordingHost, a_session

from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})


@dataclass
class Made:
    """A response of the service."""

    response_id: str
    knows: set[str]
    asked_for: bool
    needed: bool
    """A result was told by nobody yet, or a turn was not answered."""
    status: str = "in_progress"
    sounded: bool = False
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def heard(self) -> bool:
        return self.status == "completed" or self.sounded


class Service:
    """The rules of the service, with a wire that takes its time in both directions."""

    def __init__(self, stops_by_itself: bool) -> None:
        self.stops_by_itself = stops_by_itself
        self.up: deque[dict[str, Any]] = deque()
        self.down: deque[dict[str, Any]] = deque()
        self.made: list[Made] = []
        self.outputs: set[str] = set()
        self.errors: list[str] = []
        self.speaking = False
        self.answers_turns = True
        self.turns = 0
        self.unanswered_turn = False
        self._count = 0

    @property
    def active(self) -> Made | None:
        last = self.made[-1] if self.made else None
        return last if last is not None and last.status == "in_progress" else None

    @property
    def known(self) -> set[str]:
        """The results that the caller could hear of."""
        return {each for made in self.made if made.heard for each in made.knows}

    def say(self, kind: str, **values: Any) -> None:
        self._count += 1
        self.down.append({"type": kind, "event_id": f"e{self._count}", **values})

    def take(self) -> None:
        """One message of the client arrives."""
        message = self.up.popleft()
        match message["type"]:
            case "session.update":
                detection = message["session"]["audio"]["input"]["turn_detection"]
                self.answers_turns = detection["create_response"]
                self.say("session.updated", session=message["session"])
            case "conversation.item.create":
                self.outputs.add(message["item"]["call_id"])
                self.say("conversation.item.added", item=message["item"])
            case "response.create" if self.active is not None:
                self._error("conversation_already_has_active_response", message)
            case "response.create":
                self._begin(message["response"]["metadata"])
            case "response.cancel":
                if self.active is None or self.active.response_id != message["response_id"]:
                    self._error("response_cancel_not_active", message)
                else:
                    self.finish("cancelled", "client_cancelled")

    def _error(self, code: str, message: dict[str, Any]) -> None:
        self.errors.append(code)
        self.say("error", error={"code": code, "message": "", "event_id": message["event_id"]})

    def _begin(self, metadata: Any) -> None:
        needed = self.unanswered_turn or bool(self.outputs - self.known)
        response_id, asked_for = f"r{len(self.made)}", metadata is not None
        made = Made(response_id, set(self.outputs), asked_for, needed)
        self.made.append(made)
        self.unanswered_turn = False
        response = {"id": made.response_id, "metadata": metadata}
        self.say("response.created", response=response)

    def start(self) -> None:
        """The caller begins to speak."""
        if self.speaking:
            return
        self.speaking = True
        self.turns += 1
        item = f"u{self.turns}"
        self.say("input_audio_buffer.speech_started", item_id=item, audio_start_ms=0)
        if self.active is not None and self.stops_by_itself and self.answers_turns:
            self.finish("cancelled", "turn_detected")

    def stop(self) -> None:
        """The caller's turn is over."""
        if not self.speaking:
            return
        self.speaking = False
        item = f"u{self.turns}"
        self.say("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=0)
        self.unanswered_turn = True
        if self.answers_turns and self.active is None:
            self._begin(None)

    def sound(self) -> None:
        if self.active is not None:
            self.active.sounded = True
            where = {"response_id": self.active.response_id, "item_id": self.active.response_id}
            self.say("response.output_audio.delta", **where, delta="AAAA")

    def call(self) -> None:
        made = self.active
        if made is None or made.asked_for or len(made.calls) > 2:
            return
        call_id = f"c{made.response_id}{len(made.calls)}"
        item = {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": "{}"}
        made.calls.append({**item, "status": "completed"})
        self.say("response.output_item.done", response_id=made.response_id, item=made.calls[-1])

    def finish(self, status: str = "completed", reason: str = "") -> None:
        made = self.active
        if made is not None:
            made.status = status
            response: dict[str, Any] = {"id": made.response_id, "status": status}
            response |= {"status_details": {"reason": reason}, "output": made.calls}
            self.say("response.done", response=response)


class Client(RecordingHost):
    """The protocol on the other end of the wire; whoever speaks over the agent cuts it."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.service = service
        values = {"interrupt_response": service.stops_by_itself}
        provider = {"type": "openai_realtime", "turn_detection": values}
        self.protocol = OpenAIProtocol(OpenAIRealtimeProvider.model_validate(provider), "k")
        self.answered: set[str] = set()
        self.open_requests = 0
        self.protocol.begin(a_session(greeting="", toolbox=(WEATHER,)), self, None)

    def send_text(self, message: bytes) -> None:
        read = json.loads(message)
        if read["type"] == "response.create":
            self.open_requests += 1
            assert self.open_requests == 1, "a request before the last one was settled"
        self.service.up.append(read)

    def caller_started(self, at: float | None = None) -> None:
        super().caller_started(at)
        self.protocol.interrupted(())

    def take(self) -> None:
        """One message of the service arrives."""
        message = self.service.down.popleft()
        response = message.get("response", {})
        if message["type"] == "response.created" and response["metadata"] is not None:
            self.open_requests -= 1
        if message["type"] == "error" and message["error"]["code"].startswith("conversation"):
            self.open_requests -= 1
        self.protocol.receive_text(json.dumps(message).encode())

    def answer(self) -> bool:
        """One tool is done."""
        for call_id, name, _ in self.all("tool_asked"):
            if call_id not in self.answered:
                self.answered.add(call_id)
                self.protocol.answer_tool(ToolReply(call_id, name, Status.OK, "Sun."))
                return True
        return False


STEPS = ("up", "down", "start", "stop", "sound", "call", "finish", "answer", "aside", "together")


def play(service: Service, client: Client, step: str) -> None:
    match step:
        case "up":
            if service.up:
                service.take()
        case "down":
            if service.down:
                client.take()
        case "answer":
            client.answer()
        case "aside":
            client.protocol.listen_aside(True)
        case "together":
            client.protocol.listen_aside(False)
        case "finish":
            service.finish()
        case _:
            getattr(service, step)()


def come_to_rest(service: Service, client: Client) -> None:
    """All is delivered, said and answered."""
    client.protocol.listen_aside(False)
    for _ in range(300):
        if service.up:
            service.take()
        elif service.down:
            client.take()
        elif service.speaking:
            service.stop()
        elif service.active is not None:
            service.sound()
            service.finish()
        elif not client.answer():
            return
    raise AssertionError("it goes on and on")


@given(st.booleans(), st.lists(st.sampled_from(STEPS), max_size=60))
def test_whatever_crosses_on_the_wire(stops_by_itself: bool, steps: list[str]) -> None:
    service = Service(stops_by_itself)
    client = Client(service)
    service.take()
    client.take()
    for step in steps:
        play(service, client, step)
    come_to_rest(service, client)
    assert set(service.errors) <= {
        "conversation_already_has_active_response",
        "response_cancel_not_active",
    }
    assert not service.unanswered_turn or "aside" in steps
    # What was asked for while the engine's own question ended may cross the service's next answer.
    assert "aside" in steps or all(made.needed for made in service.made if made.asked_for)
    assert client.answered <= service.known
    answered = {entry[0] for entry in client.all("tool_asked")}
    assert answered <= service.outputs
