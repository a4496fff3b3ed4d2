"""Anthropic's Messages: the vendor's SDK against the emulator, and its types over what we send."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anthropic import (
    AsyncAnthropic,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    RateLimitError,
)
from anthropic.types import (
    TextBlockParam,
    ThinkingBlockParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
)
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter
from tests.agents.llm.conversation import conversation

from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.anthropic.messages import AnthropicWire
from cordboard_testkit.emulators.anthropic.text import THOUGHT, AnthropicEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

MODEL = "claude-haiku-5-5"
PARAMETERS = {"type": "object", "properties": {"icao": {"type": "string"}}}
TOOLS: Any = [{"name": "get_atis", "input_schema": PARAMETERS}]
SCRIPT = Script(
    (
        Answer("Hello there."),
        Answer(
            "One moment.",
            asks=(Use("get_atis", {"icao": "ENGM"}), Use("get_atis", {"icao": "KJFK"})),
            then="It says: {results}",
        ),
    ),
    thinking_ms=1,
)


def client(emulator: AnthropicEmulator, key: str = "test-key") -> AsyncAnthropic:
    return AsyncAnthropic(api_key=key, base_url=emulator.url, max_retries=0)


@pytest.mark.parametrize("thinking", [None, {"type": "adaptive"}])
async def test_messages_with_the_sdk(thinking: Any) -> None:
    more: dict[str, Any] = {"thinking": thinking} if thinking else {}
    common: dict[str, Any] = {"model": MODEL, "max_tokens": 900, "tools": TOOLS, **more}
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    async with AnthropicEmulator(SCRIPT) as emulator, client(emulator) as anthropic:
        first = await anthropic.messages.create(messages=messages, **common)
        assert first.content[-1].to_dict() == {"type": "text", "text": "Hello there."}
        messages += [{"role": "assistant", "content": [b.to_dict() for b in first.content]}]
        messages += [{"role": "user", "content": "weather?"}]
        async with anthropic.messages.stream(messages=messages, **common) as stream:
            async for _ in stream:
                pass
            whole = await stream.get_final_message()
        uses = [block for block in whole.content if block.type == "tool_use"]
        assert [use.input for use in uses] == [{"icao": "ENGM"}, {"icao": "KJFK"}]
        assert whole.stop_reason == "tool_use"
        assert whole.usage.output_tokens > 1
        thoughts = [block.to_dict() for block in whole.content if block.type == "thinking"]
        assert thoughts == ([THOUGHT] if thinking else [])
        messages += [{"role": "assistant", "content": [b.to_dict() for b in whole.content]}]
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": '{"message": "calm."}'}
            for use in uses
        ]
        messages += [{"role": "user", "content": results}]
        async with anthropic.messages.stream(messages=messages, **common) as stream:
            assert "".join([text async for text in stream.text_stream]) == "It says: calm. calm."
        assert emulator.violations == []
        settings = AnthropicBrain(type="anthropic", model=MODEL)
        ours = AnthropicWire(settings).headers("test-key")
        sent = emulator.received[0].headers
        assert {name: sent.get(name.lower()) for name in ours} == ours
        assert "x-api-key" not in sent


_USE = {"type": "tool_use", "id": "x", "name": "a", "input": {}}
_RESULT = {"type": "tool_result", "tool_use_id": "x", "content": "y"}
_HI = {"role": "user", "content": "hi"}


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"no_such": 1}, "no_such: Extra inputs are not permitted"),
    ({"temperature": 1}, "temperature: Extra inputs are not permitted"),
    ({"max_tokens": 0}, "max_tokens: "),
    ({"messages": [{"role": "assistant", "content": "hi"}]}, "first message must use"),
    ({"messages": [_HI, {"role": "assistant", "content": "a"}]}, "prefill"),
    ({"messages": [{"role": "user", "content": ""}]}, "non-empty"),
    ({"messages": [_HI, {"role": "assistant", "content": [_USE]}, _HI]}, "without"),
    ({"messages": [{"role": "user", "content": [_RESULT]}]}, "unexpected `tool_use_id`"),
    ({"tools": [{"name": "a b", "input_schema": PARAMETERS}]}, "match pattern"),
    ({"tools": [{"name": "a", "input_schema": {}}]}, "Input should be 'object'"),
    ({"tool_choice": {"type": "auto"}}, "while providing tools"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "budget_tokens"),
    (
        {
            "messages": [
                _HI,
                {"role": "assistant", "content": [_USE]},
                {"role": "user", "content": [_RESULT]},
            ],
            "tools": TOOLS,
            "thinking": {"type": "adaptive"},
        },
        "Expected `thinking`",
    ),
]


async def test_it_refuses_what_the_service_refuses() -> None:
    async with AnthropicEmulator(SCRIPT) as emulator, client(emulator) as anthropic:
        for changed, words in _REFUSED:
            body = {"model": MODEL, "max_tokens": 900, "messages": [_HI], **changed}
            with pytest.raises(BadRequestError, match=words):
                await anthropic.messages.create(
                    model=MODEL, max_tokens=900, messages=[], extra_body=body
                )


async def test_failures_are_the_sdks_failures() -> None:
    script = Script(faults=(Fault("answer", "refuse", 429),), thinking_ms=1)
    ask: dict[str, Any] = {"max_tokens": 9, "messages": [_HI]}
    async with AnthropicEmulator(script) as emulator:
        async with client(emulator, "wrong") as anthropic:
            with pytest.raises(AuthenticationError):
                await anthropic.messages.create(model=MODEL, **ask)
        async with client(emulator) as anthropic:
            with pytest.raises(NotFoundError):
                await anthropic.messages.create(model="none", **ask)
            with pytest.raises(RateLimitError):
                await anthropic.messages.create(model=MODEL, **ask)
            assert (await anthropic.models.retrieve(MODEL)).id == MODEL


@pytest.mark.parametrize("may_ask", [True, False])
def test_what_we_send_is_of_the_sdks_types(may_ask: bool) -> None:
    """Nothing of it is dropped when the SDK's types read it: the body, and block by block."""
    wire = AnthropicWire(
        AnthropicBrain.model_validate(
            {
                "type": "anthropic",
                "thinking": {"type": "enabled", "budget_tokens": 1_500},
                "output_config": {"effort": "low"},
                "parallel_tool_calls": False,
                "service_tier": "auto",
            }
        )
    )
    body = wire.body(conversation(wire.schemas, may_ask=may_ask, kept=(dict(THOUGHT),)))
    whole: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
    read = orjson.loads(whole.dump_json(whole.validate_python(body), warnings=False))
    assert {**read, "messages": None} == {**body, "messages": None}
    kinds: dict[str, TypeAdapter[Any]] = {
        "text": TypeAdapter(TextBlockParam),
        "thinking": TypeAdapter(ThinkingBlockParam),
        "tool_use": TypeAdapter(ToolUseBlockParam),
        "tool_result": TypeAdapter(ToolResultBlockParam),
    }
    seen = set()
    for message in body["messages"]:
        assert message.keys() == {"role", "content"}
        for block in message["content"]:
            kind = kinds[block["type"]]
            seen.add(block["type"])
            assert orjson.loads(kind.dump_json(kind.validate_python(block))) == block
    assert seen == set(kinds)
