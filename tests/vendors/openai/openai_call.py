"""OpenAI Realtime's protocol with a fake host, and a service that says what a test has it say."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import Resumed
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

FRAME = b"\x01" * 160
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
KEY = "sk-secret-key"


def settings(**values: Any) -> OpenAIRealtimeProvider:
    return OpenAIRealtimeProvider.model_validate({"type": "openai_realtime", **values})


def reply(call_id: str, message: str = "It is sunny.", **values: Any) -> ToolReply:
    return ToolReply(call_id, "weather", Status.OK, message, **values)


class Call:
    """A protocol with its fake host, and a service that only says what the test has it say."""

    def __init__(
        self,
        *,
        session: AgentSession | None = None,
        resumed: Resumed | None = None,
        accept: bool = True,
        **values: Any,
    ) -> None:
        self.host = RecordingHost()
        self.protocol = OpenAIProtocol(settings(**values), KEY)
        self.session = session or a_session(greeting="", toolbox=(WEATHER,))
        self.protocol.begin(self.session, self.host, resumed)
        self._events = 0
        if accept:
            self.say("session.created", session={})
            self.say("session.updated", session={})

    def say(self, kind: str, **values: Any) -> None:
        self._events += 1
        message = {"type": kind, "event_id": f"event_{self._events}", **values}
        self.protocol.receive_text(json.dumps(message).encode())

    def again(self, resumed: Resumed) -> None:
        """Another connection."""
        self.host.sent.clear()
        self.protocol.begin(self.session, self.host, resumed)
        self.say("session.updated", session={})

    def created(self, response_id: str = "r1", *, asked: bool = False) -> None:
        """A response begins; `asked`: the last one that we asked for."""
        mark = self.creates[-1]["response"]["metadata"] if asked else None
        self.say("response.created", response={"id": response_id, "metadata": mark})

    def sound(self, ms: int = 100, item: str = "i1", response_id: str = "r1") -> None:
        delta = base64.b64encode(b"\x02" * 8 * ms).decode()
        self.say("response.output_audio.delta", response_id=response_id, item_id=item, delta=delta)

    def done(self, response_id: str = "r1", status: str = "completed", **values: Any) -> None:
        self.say("response.done", response={"id": response_id, "status": status, **values})

    def asks(self, call_id: str, response_id: str = "r1", arguments: str = "{}") -> None:
        item = {"type": "function_call", "call_id": call_id, "name": "weather"}
        item |= {"arguments": arguments, "status": "completed"}
        self.say("response.output_item.done", response_id=response_id, item=item)

    def stored(self, call_id: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
        self.say("conversation.item.added", item=item)

    def turn(self, item: str = "u1") -> None:
        self.say("input_audio_buffer.speech_started", item_id=item, audio_start_ms=0)
        self.say("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=0)

    def error(
        self, code: str, message: str = "No.", event_id: str | None = None, **more: Any
    ) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, **more}
        self.say("error", error={**error, "event_id": event_id})

    @property
    def creates(self) -> list[dict[str, Any]]:
        return self.host.sent_of("response.create")

    @property
    def outputs(self) -> list[str]:
        items = [message["item"] for message in self.host.sent_of("conversation.item.create")]
        return [item["call_id"] for item in items if item["type"] == "function_call_output"]

    def ignored(self) -> list[str]:
        return [why for why, _ in self.host.all("ignored")]
