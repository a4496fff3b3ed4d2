"""Gemini's text: the vendor's SDK against the emulator, and its types over what we send."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types
from tests.agents.llm.conversation import conversation

from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.gemini.llm import GeminiWire
from cordboard_testkit.emulators.gemini.text import GeminiTextEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

MODEL = "gemini-3.8-flash"
PARAMETERS = {"type": "OBJECT", "properties": {"icao": {"type": "STRING"}}}
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


@asynccontextmanager
async def client(
    emulator: GeminiTextEmulator, key: str = "test-key"
) -> AsyncIterator[genai.Client]:
    async with httpx2.AsyncClient() as http:
        options = types.HttpOptions(base_url=emulator.url, httpx_async_client=http)
        yield genai.Client(api_key=key, http_options=options)


def config(**more: Any) -> types.GenerateContentConfig:
    return types.GenerateContentConfig.model_validate(
        {
            "system_instruction": "Be brief.",
            "temperature": 0.5,
            "thinking_config": {"thinking_level": "LOW"},
            "automatic_function_calling": {"disable": True},
            "tools": [{"function_declarations": [{"name": "get_atis", "parameters": PARAMETERS}]}],
            **more,
        }
    )


async def test_a_conversation_with_the_sdk() -> None:
    async with GeminiTextEmulator(SCRIPT) as emulator, client(emulator) as gemini:
        models = gemini.aio.models
        contents: list[Any] = [types.UserContent("hi")]
        first = await models.generate_content(model=MODEL, contents=contents, config=config())
        assert first.text == "Hello there."
        assert first.candidates is not None
        contents += [first.candidates[0].content, types.UserContent("weather?")]
        parts: list[types.Part] = []
        async for chunk in await models.generate_content_stream(
            model=MODEL, contents=contents, config=config()
        ):
            assert chunk.candidates is not None
            content = chunk.candidates[0].content
            parts += (content.parts if content else None) or []
        calls = [part.function_call for part in parts if part.function_call]
        assert [call.args for call in calls] == [{"icao": "ENGM"}, {"icao": "KJFK"}]
        assert "".join(part.text or "" for part in parts) == "One moment."
        contents.append(types.ModelContent([part for part in parts if part.function_call]))
        contents.append(
            types.UserContent(
                [
                    types.Part.from_function_response(
                        name=call.name or "", response={"message": "calm."}
                    )
                    for call in calls
                ]
            )
        )
        text = ""
        async for chunk in await models.generate_content_stream(
            model=MODEL, contents=contents, config=config()
        ):
            text += chunk.text or ""
        assert text == "It says: calm. calm."
        assert emulator.violations == []


_HI = {"role": "user", "parts": [{"text": "hi"}]}
_CALL = {"functionCall": {"name": "a", "args": {}}}
_SEALED = {**_CALL, "thoughtSignature": "c2VhbGVk"}


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"no_such": 1}, 'Unknown name "no_such"'),
    ({"generationConfig": {"no_such": 1}}, "generation_config"),
    ({"contents": []}, "contents is not specified"),
    ({"contents": [{"role": "model", "parts": [{"text": "a"}]}]}, "end with a user role"),
    ({"contents": [{"role": "assistant", "parts": [{"text": "a"}]}]}, "valid role"),
    ({"contents": [_HI, {"role": "model", "parts": [_SEALED]}, _HI]}, "function response part"),
    ({"contents": [_HI, {"role": "model", "parts": [_CALL]}]}, "thought_signature"),
    ({"contents": [{"role": "model", "parts": [_SEALED]}]}, "immediately after a user turn"),
    (
        {"tools": [{"functionDeclarations": [{"name": "a", "parameters": {"type": "STRING"}}]}]},
        "OBJECT",
    ),
    (
        {
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": "a", "parameters": {"type": "OBJECT", "oneOf": []}}
                    ]
                }
            ]
        },
        'Unknown name "oneOf"',
    ),
]


async def test_it_refuses_what_the_service_refuses() -> None:
    async with GeminiTextEmulator(SCRIPT) as emulator, client(emulator) as gemini:
        for changed, words in _REFUSED:
            body = types.HttpOptions(extra_body=changed)
            with pytest.raises(errors.ClientError) as caught:
                await gemini.aio.models.generate_content(
                    model=MODEL, contents="hi", config={"http_options": body}
                )
            assert words in str(caught.value)
            assert caught.value.code == 400


async def test_failures_are_the_sdks_failures() -> None:
    script = Script(faults=(Fault("answer", "refuse", 429),), thinking_ms=1)
    async with GeminiTextEmulator(script) as emulator:
        for key, model, code, words in (
            ("wrong", MODEL, 400, "API key not valid"),
            ("test-key", "gemini-none", 404, "is not found"),
            ("test-key", MODEL, 429, "emulated fault"),
        ):
            async with client(emulator, key) as gemini:
                with pytest.raises(errors.ClientError, match=words) as caught:
                    await gemini.aio.models.generate_content(model=model, contents="hi")
                assert caught.value.code == code


@pytest.mark.parametrize("may_ask", [True, False])
def test_what_we_send_is_of_the_sdks_types(may_ask: bool) -> None:
    """Nothing of it is dropped when the SDK's types, which allow nothing else, read it."""
    wire = GeminiWire(
        GeminiBrain.model_validate(
            {
                "type": "gemini",
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 10,
                "max_output_tokens": 100,
                "thinking_config": {"thinking_level": "low"},
            }
        )
    )
    body = wire.body(conversation(wire.schemas, may_ask=may_ask))

    def read(kind: Any, sent: Any) -> Any:
        parsed = kind.model_validate(sent)
        return parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)

    for content in body["contents"]:
        assert read(types.Content, content) == content
    for tool in body["tools"]:
        sent = read(types.Tool, tool)
        assert len(sent["functionDeclarations"]) == 2
        for told, ours in zip(
            sent["functionDeclarations"], tool["functionDeclarations"], strict=True
        ):
            assert _lower(told) == _lower(ours)
    config = read(types.GenerationConfig, body["generationConfig"])
    assert config == body["generationConfig"]
    instruction = body["systemInstruction"]
    assert read(types.Content, instruction) == instruction
    if not may_ask:
        assert read(types.ToolConfig, body["toolConfig"]) == body["toolConfig"]
    known = {"contents", "tools", "generationConfig", "systemInstruction", "toolConfig"}
    assert body.keys() <= known


def _lower(value: Any) -> Any:
    """The SDK writes types in capitals, and bounds as texts."""
    if isinstance(value, dict):
        return {key: _lower(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_lower(one) for one in value]
    if isinstance(value, str):
        return float(value) if value.replace(".", "").isdigit() else value.lower()
    return value
