"""OpenAI's text: the vendor's SDK against the emulator, and its types over what we send."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from openai import (
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    RateLimitError,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from tests.agents.llm.conversation import conversation

from cordboard.vendors.openai.chat_completions import OpenAIChatWire
from cordboard.vendors.openai.config import OpenAIChatBrain, OpenAIResponsesBrain
from cordboard.vendors.openai.responses import OpenAIResponsesWire
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

MODEL = "gpt-5.4-mini"
PARAMETERS = {"type": "object", "properties": {"icao": {"type": "string"}}}
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


def client(emulator: OpenAITextEmulator, key: str = "test-key") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=emulator.url, max_retries=0)


async def test_chat_completions_with_the_sdk() -> None:
    tools: Any = [{"type": "function", "function": {"name": "get_atis", "parameters": PARAMETERS}}]
    messages: list[Any] = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    async with OpenAITextEmulator(SCRIPT) as emulator, client(emulator) as openai:
        first = await openai.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        assert first.choices[0].message.content == "Hello there."
        messages += [first.choices[0].message.model_dump(exclude_none=True)]
        messages += [{"role": "user", "content": "weather?"}]
        async with openai.chat.completions.stream(
            model=MODEL, messages=messages, tools=tools, stream_options={"include_usage": True}
        ) as stream:
            async for _ in stream:
                pass
            whole = await stream.get_final_completion()
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 0
        message = whole.choices[0].message
        assert whole.choices[0].finish_reason == "tool_calls"
        assert message.content == "One moment."
        calls = message.tool_calls or []
        assert [json.loads(call.function.arguments)["icao"] for call in calls] == ["ENGM", "KJFK"]
        said = message.model_dump(exclude_none=True)
        for call in said["tool_calls"]:
            call["function"].pop("parsed_arguments", None)
        said.pop("parsed", None)
        messages += [said]
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": '{"message": "calm."}'}
            for call in calls
        ]
        text = ""
        async for chunk in await openai.chat.completions.create(
            model=MODEL, messages=messages, tools=tools, stream=True
        ):
            text += chunk.choices[0].delta.content or ""
        assert text == "It says: calm. calm."
        assert emulator.violations == []


async def test_responses_with_the_sdk() -> None:
    tools: Any = [
        {"type": "function", "name": "get_atis", "parameters": PARAMETERS, "strict": False}
    ]
    items: list[Any] = [{"role": "user", "content": "hi"}]
    async with OpenAITextEmulator(SCRIPT) as emulator, client(emulator) as openai:
        first = await openai.responses.create(model=MODEL, input=items, tools=tools, store=False)
        assert first.output_text == "Hello there."
        items += [{"role": "assistant", "content": first.output_text}]
        items += [{"role": "user", "content": "weather?"}]
        async with openai.responses.stream(model=MODEL, input=items, tools=tools) as stream:
            async for _ in stream:
                pass
            whole = await stream.get_final_response()
        calls = [item for item in whole.output if item.type == "function_call"]
        assert [json.loads(call.arguments)["icao"] for call in calls] == ["ENGM", "KJFK"]
        assert whole.output_text == "One moment."
        assert whole.usage is not None
        items += [{"role": "assistant", "content": whole.output_text}]
        for call in calls:
            named = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            items.append({"type": "function_call", **named})
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": "calm."}
            for call in calls
        ]
        last = await openai.responses.create(model=MODEL, input=items, tools=tools)
        assert last.output_text == "It says: calm. calm."
        assert emulator.violations == []


_REFUSED_BY_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"no_such": 1}, "Unrecognized request argument supplied: no_such"),
    ({"max_tokens": 5}, "Use 'max_completion_tokens' instead"),
    ({"parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
    ({"temperature": 3}, "temperature"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "does not match"),
    (
        {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": 1}}}]},
        "Invalid schema for function 'a'",
    ),
    (
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": ""}]},
        "must be a response to a preceeding message",
    ),
    (
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "x",
                            "type": "function",
                            "function": {"name": "a", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "user", "content": "hi"},
            ]
        },
        "must be followed by tool messages",
    ),
]


async def test_chat_refuses_what_the_service_refuses() -> None:
    async with OpenAITextEmulator(SCRIPT) as emulator, client(emulator) as openai:
        for changed, words in _REFUSED_BY_CHAT:
            body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **changed}
            with pytest.raises(BadRequestError, match=words):
                await openai.chat.completions.create(model=MODEL, messages=[], extra_body=body)


_REFUSED_BY_RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"no_such": 1}, "Unknown parameter: 'no_such'"),
    ({"reasoning": {"effort": "immense"}}, "reasoning.effort"),
    ({"tools": [{"type": "function", "name": "a", "parameters": None}]}, "strict"),
    ({"input": [{"type": "function_call_output", "call_id": "x", "output": ""}]}, "No tool"),
    (
        {"input": [{"type": "function_call", "call_id": "x", "name": "a", "arguments": ""}]},
        "No tool output found for function call x",
    ),
]


async def test_responses_refuse_what_the_service_refuses() -> None:
    async with OpenAITextEmulator(SCRIPT) as emulator, client(emulator) as openai:
        for changed, words in _REFUSED_BY_RESPONSES:
            body = {"model": MODEL, "input": "hi", **changed}
            with pytest.raises(BadRequestError, match=words):
                await openai.responses.create(model=MODEL, input="hi", extra_body=body)


async def test_failures_are_the_sdks_failures() -> None:
    script = Script(faults=(Fault("answer", "refuse", 429),), thinking_ms=1)
    async with OpenAITextEmulator(script) as emulator:
        async with client(emulator, "wrong") as openai:
            with pytest.raises(AuthenticationError):
                await openai.responses.create(model=MODEL, input="hi")
        async with client(emulator) as openai:
            with pytest.raises(NotFoundError):
                await openai.responses.create(model="gpt-none", input="hi")
            with pytest.raises(RateLimitError):
                await openai.responses.create(model=MODEL, input="hi")
            assert (await openai.models.retrieve(MODEL)).id == MODEL
            assert MODEL in [model.id async for model in openai.models.list()]


@pytest.mark.parametrize("may_ask", [True, False])
def test_what_we_send_is_of_the_sdks_types(may_ask: bool) -> None:
    """Nothing of it is dropped when the SDK's types read it."""
    chat = OpenAIChatWire(
        OpenAIChatBrain.model_validate(
            {
                "type": "openai_chat",
                "temperature": 0.5,
                "top_p": 0.9,
                "reasoning_effort": "low",
                "verbosity": "low",
                "parallel_tool_calls": True,
                "max_completion_tokens": 100,
                "service_tier": "priority",
            }
        )
    )
    responses = OpenAIResponsesWire(
        OpenAIResponsesBrain.model_validate(
            {
                "type": "openai_responses",
                "temperature": 0.5,
                "reasoning": {"effort": "low", "mode": "standard"},
                "text": {"verbosity": "low"},
                "max_output_tokens": 100,
                "parallel_tool_calls": False,
            }
        )
    )
    chat_type: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
    responses_type: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
    for sent_type, wire in ((chat_type, chat), (responses_type, responses)):
        body = wire.body(conversation(wire.schemas, may_ask=may_ask))
        read = sent_type.validate_python(body)
        assert orjson.loads(sent_type.dump_json(read, warnings=False)) == body
