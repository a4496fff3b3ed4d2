"""Streams of the servers that only speak like OpenAI, with all that each of them does otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from cordboard.agent_api.language_model import Finished, TextPiece, ToolWish
from cordboard.agents.llm.wire import Broken, Read
from cordboard.agents.llm.written_calls import WrittenCalls
from cordboard.net.server_events import ServerSentEvent
from cordboard.tools.provider_schema import ProviderTool
from cordboard.vendors.openai.chat_completions import ChatReader, OpenAIChatWire
from cordboard.vendors.openai.config import OpenAIChatBrain

STREAMS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "compatible_streams.yaml").read_text()
)
_PLACE = {"type": "object", "properties": {"place": {"type": "string"}}}
TOOLS = (
    ProviderTool("get_weather", "The weather.", _PLACE),
    ProviderTool("hangup_call", "Ends the call.", None),
)


def read(reader: ChatReader, events: list[str]) -> list[Read]:
    taken = (reader.take(ServerSentEvent(data=data)) for data in events)
    return [*(one for batch in taken for one in batch), *reader.end()]


@pytest.mark.parametrize("stream", STREAMS, ids=[stream["server"] for stream in STREAMS])
def test_it_is_understood(stream: dict[str, Any]) -> None:
    reader = ChatReader()
    pieces = read(reader, stream["events"])
    written = WrittenCalls(TOOLS)
    texts = [one.text for one in pieces if isinstance(one, TextPiece)]
    found = [one for text in texts for one in written.feed(text)] + written.flush()
    calls = [one for one in (*pieces, *found) if isinstance(one, ToolWish)]
    assert reader.malformed == 0
    assert "".join(o.text for o in found if isinstance(o, TextPiece)).strip() == stream["spoken"]
    assert [[call.name, orjson.loads(call.arguments)] for call in calls] == stream["calls"]
    assert isinstance(pieces[-1], Finished)
    assert pieces[-1].reason == stream["reason"]


@pytest.mark.parametrize("events", [["[DONE]"], ['{"choices":[]}', "[DONE]"], []])
def test_an_end_without_any_answer_is_not_whole(events: list[str]) -> None:
    assert read(ChatReader(), events) == []


def test_an_error_as_vllm_sends_it_ends_the_answer() -> None:
    error = '{"object":"error","message":"out of memory","type":"InternalServerError","code":500}'
    (broken,) = read(ChatReader(), [error])
    assert broken == Broken("dropped", "out of memory", again=True)


def test_null_in_extra_leaves_a_setting_out() -> None:
    """Mistral answers 422 to `stream_options`."""
    from cordboard.agent_api.language_model import ModelRequest

    settings = OpenAIChatBrain(type="openai_chat", extra={"stream_options": None})
    assert "stream_options" not in OpenAIChatWire(settings).body(ModelRequest("", ()))
