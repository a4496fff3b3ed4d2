"""llama.cpp itself: grammars, what it has read ahead, giving up."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Finished,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ToolWish,
)
from cordboard.errors import BrainError
from cordboard.tools.provider_schema import ProviderTool
from cordboard.vendors.local.config import GgufBrain
from cordboard.vendors.local.gguf import BATCH_TOKENS, GgufModel

PATIENCE = dict.fromkeys(("wait_ms", "first_token_ms", "stall_ms"), 120_000)
ODD: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}},
    {"type": "object", "properties": {"a": {"type": "string", "format": "no-such-format"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"],
     "$defs": {"b": {"type": "array", "items": {"type": ["number", "null"]}}}},
    {"type": "object", "properties": {'q"\n': {"enum": ["é", 1, None, {"x": []}]}}},
    {"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]},
]  # fmt: skip
"""Schemas that tools of MCP servers may have, and a grammar may not express."""


@pytest.fixture(scope="module")
def model(model_file: Path) -> Iterator[GgufModel]:
    settings = GgufBrain(type="gguf", model=str(model_file), n_threads=1, **PATIENCE)
    made = GgufModel(settings)
    made.load()
    yield made
    asyncio.run(made.close())


def request(*said: str, system: str = "Be brief.", tools: Any = ()) -> ModelRequest:
    return ModelRequest(system, tuple(map(CallerSaid, said)), tuple(tools))


async def answer(model: GgufModel, asked: ModelRequest) -> list[ModelEvent]:
    return [event async for event in model.stream(asked)]


def taxi(schema: dict[str, Any]) -> ProviderTool:
    return ProviderTool("order_taxi", "Orders a taxi.", schema)


async def test_a_call_has_the_form_of_its_schema(model: GgufModel) -> None:
    colours = {"type": "object", "properties": {"colour": {"enum": ["vermilion", "cobalt"]}},
               "required": ["colour"], "additionalProperties": False}  # fmt: skip
    paint = ProviderTool("paint_room", "Paints the caller's room in a colour.", colours)
    events = await answer(model, request("Paint my room in red, please.", tools=[paint]))
    assert isinstance(events[-1], Finished)
    (wish,) = (event for event in events if isinstance(event, ToolWish))
    assert wish.name == "paint_room"
    assert orjson.loads(wish.arguments)["colour"] in ("vermilion", "cobalt")


@pytest.mark.parametrize("number", range(len(ODD)))
async def test_no_schema_keeps_the_model_from_answering(model: GgufModel, number: int) -> None:
    events = await answer(model, request("Hello.", tools=[taxi(ODD[number])]))
    assert isinstance(events[-1], Finished)


async def test_what_was_read_ahead_is_not_read_again(model: GgufModel) -> None:
    tool = taxi({"type": "object", "properties": {}})
    begun = [
        ModelRequest(f"You are the telephone desk of {shop}.", (AgentSaid("Hello!"),), (tool,))
        for shop in ("a furniture shop", "a bakery")
    ]
    with capture_logs() as logged:
        for beginning in begun:
            await asyncio.wrap_future(model.read_ahead(beginning))
        conversation = (*begun[0].messages, CallerSaid("Hi."))
        events = await answer(model, replace(begun[0], messages=conversation))
    tokens = [entry["tokens"] for entry in logged if entry["event"] == "gguf_read_ahead"]
    assert len(tokens) == 2
    assert min(tokens) > 100
    (finished,) = (event for event in events if isinstance(event, Finished))
    assert finished.amounts["input_text_tokens"] < 40
    assert finished.amounts["cached_text_tokens"] > 100


async def test_an_answer_comes_in_the_middle_of_a_reading_which_then_goes_on(
    model: GgufModel,
) -> None:
    desk = " ".join(f"Room {number} is free." for number in range(80))
    await answer(model, request("Say only: yes."))
    with capture_logs() as logged:
        reading = model.read_ahead(ModelRequest(desk, (AgentSaid("Hello!"),)))
        events = await answer(model, request("Say only: yes."))
        assert isinstance(events[-1], Finished)
        assert not reading.done()
        await asyncio.wrap_future(reading)
    assert [entry["event"] for entry in logged].count("gguf_read_ahead") == 1
    asked = ModelRequest(desk, (AgentSaid("Hello!"), CallerSaid("Which rooms are free?")))
    (finished,) = (e for e in await answer(model, asked) if isinstance(e, Finished))
    assert finished.amounts["cached_text_tokens"] > 3 * BATCH_TOKENS


async def test_an_answer_that_is_given_up_frees_the_model(model: GgufModel) -> None:
    asked = request("Tell me a very long story about a lighthouse.")
    async with aclosing(model.stream(asked)) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                break
    began = time.monotonic()
    short = await answer(model, request("Say only: yes."))
    assert isinstance(short[-1], Finished)
    assert time.monotonic() - began < 60


async def test_a_request_beyond_the_context_is_refused(model: GgufModel) -> None:
    with pytest.raises(BrainError) as caught:
        await answer(model, request("word " * 9_000))
    assert caught.value.kind in ("refused", "dropped")


async def test_nobody_else_can_use_its_port(model: GgufModel) -> None:
    """llama.cpp listens on a port of this machine whether one wants it or not."""
    host, _, port = model._server.listening_address.removeprefix("http://").rpartition(":")

    def ask() -> bytes:
        body = b'{"messages":[{"role":"user","content":"Hi."}],"max_tokens":1}'
        with socket.create_connection((host, int(port)), timeout=60) as line:
            head = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
            line.sendall(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body))
            return line.recv(200)

    assert b" 401 " in (await asyncio.to_thread(ask)).split(b"\r\n")[0]
