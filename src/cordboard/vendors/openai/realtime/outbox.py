"""Outgoing messages to OpenAI Realtime: each has an id that an error refers to."""

from __future__ import annotations

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.realtime.messages import encoded

_REMEMBERED = 64


class Outbox:
    """The messages of one connection, all but the caller's sound."""

    def __init__(self, host: ProtocolHost) -> None:
        self._host = host
        self._count = 0
        self._about: dict[str, str] = {}

    def send(self, message: JsonObject, about: str = "") -> None:
        """Send a message. `about`: its purpose, if its refusal has a meaning."""
        message_id = self.next_id
        self._count += 1
        if about:
            self._about[message_id] = about
            if len(self._about) > _REMEMBERED:
                del self._about[next(iter(self._about))]
        self._host.send_text(encoded({**message, "event_id": message_id}))

    def store(self, item: JsonObject) -> None:
        """Put an item at the end of the conversation."""
        is_output = item["type"] == "function_call_output"
        about = f"output {item['call_id']}" if is_output else ""
        self.send({"type": "conversation.item.create", "item": item}, about)

    @property
    def next_id(self) -> str:
        """Return the id of the next message."""
        return f"cordboard_{self._count + 1}"

    def refused(self, message_id: str) -> str:
        """Return the purpose of the message that an error refers to."""
        return self._about.pop(message_id, "")
