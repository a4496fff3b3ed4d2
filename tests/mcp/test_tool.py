from __future__ import annotations

import threading

import mcp_types as types
import pytest

from cordboard.config.mcp import McpDefaults
from cordboard.config.tools.entry import McpTool as ToolConfig
from cordboard.mcp import tool
from cordboard.mcp.tool import effects_of, make_spec, read_any_result, read_result
from cordboard.tools.tool import Effects, Speech, Status


def result(**fields: object) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": [], **fields})


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def test_structured_content_goes_before_text() -> None:
    got = read_result(result(content=text("words"), structuredContent={"atis_text": "Alpha"}))
    assert (got.status, got.data) == (Status.OK, {"atis_text": "Alpha"})


def test_json_in_text_is_data() -> None:
    assert read_result(result(content=text(' {"a": [1]}'))).data == {"a": [1]}


@pytest.mark.parametrize("words", ['{"a": [%s1]}', '{"a": [%s1', "[%s1]", "just text %s", " %s"])
@pytest.mark.parametrize("size", [1, 30_000])
async def test_a_long_text_is_read_as_a_short_one(words: str, size: int) -> None:
    long = result(content=text(words % ("1," * size)))
    assert await read_any_result(long) == read_result(long)


@pytest.mark.parametrize("letter", ["a", "語"])
async def test_a_long_text_is_not_read_by_the_event_loop(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its length counts in bytes, as the parser counts."""
    threads: list[str] = []

    def parse(found: bytes) -> object:
        threads.append(threading.current_thread().name)
        return {"size": len(found)}

    monkeypatch.setattr(tool, "parse_large", parse)
    long = '["%s"]' % (letter * (90_000 // len(letter.encode())))
    assert (await read_any_result(result(content=text(long)))).data == {"size": 90_004}
    assert threads != [threading.main_thread().name]


async def test_a_long_error_is_an_error() -> None:
    long = result(content=text("[" * 90_000), isError=True)
    assert (await read_any_result(long)).status is Status.ERROR


def test_plain_text_is_spoken_as_it_is() -> None:
    got = read_result(result(content=text("Wind calm.")))
    assert (got.message, got.data) == ("Wind calm.", {"text": "Wind calm."})


def test_a_wrapped_string_is_spoken() -> None:
    assert read_result(result(structuredContent={"result": "Wind calm."})).message == "Wind calm."


def test_an_error_of_the_tool_is_an_error_and_spoken_when_it_can_be() -> None:
    words = "Error executing tool get_atis: No METAR for that aerodrome."
    got = read_result(result(content=text(words), isError=True))
    assert got.status is Status.ERROR
    assert got.message == "No METAR for that aerodrome."


@pytest.mark.parametrize("words", ["", "KeyError: 'x'", "Traceback (most recent call last)\n..."])
def test_a_technical_error_is_not_spoken(words: str) -> None:
    got = read_result(result(content=text(words), isError=True))
    assert got.message == "Sorry, that did not work."


def test_pictures_are_named_not_forwarded() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert read_result(result(content=[image])).data == {"not_text": ["a picture (image/png)"]}


@pytest.mark.parametrize(
    ("hints", "effects"),
    [
        (None, Effects.DESTRUCTIVE),
        ({}, Effects.DESTRUCTIVE),
        ({"readOnlyHint": True}, Effects.READ_ONLY),
        ({"idempotentHint": True, "destructiveHint": False}, Effects.IDEMPOTENT),
        ({"idempotentHint": True}, Effects.DESTRUCTIVE),
        ({"destructiveHint": False}, Effects.DESTRUCTIVE),
    ],
)
def test_effects(hints: dict[str, bool] | None, effects: Effects) -> None:
    annotations = None if hints is None else types.ToolAnnotations.model_validate(hints)
    assert effects_of(annotations) is effects


def test_the_operator_goes_before_the_server() -> None:
    listed = types.Tool(name="get_atis", description="theirs", input_schema={"type": "object"})
    override = ToolConfig.model_validate(
        {
            "name": "get_atis",
            "expose_as": "atis",
            "description": "ours",
            "speech_field": "atis_text",
            "timeout_ms": 700,
        }
    )
    spec = make_spec("aviation", listed, McpDefaults(slow_response_threshold_ms=2000), override)
    assert (spec.name, spec.description, spec.origin) == ("atis", "ours", "mcp:aviation:get_atis")
    assert spec.speech == Speech(field="atis_text")
    assert spec.limits.timeout_ms == 700
    assert spec.filler.threshold_ms == 2000


def test_without_override_the_defaults_hold() -> None:
    listed = types.Tool(name="getAtis", input_schema={"type": "object"})
    spec = make_spec("aviation", listed, McpDefaults(timeout_ms=1234), None)
    assert spec.name == "mcp_aviation_get_atis"
    assert spec.limits.timeout_ms == 1234
