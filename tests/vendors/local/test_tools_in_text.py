"""Tools in text: the prompt, the grammar, and the arguments that nobody said."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    ModelRequest,
    ToolAnswered,
    ToolWish,
)
from cordboard.tools.provider_schema import ProviderTool
from cordboard.vendors.local.tools_in_text import chat_messages, grammar, question, unsaid

TAXI = ProviderTool(
    "order_taxi",
    "Orders a taxi.",
    {
        "type": "object",
        "properties": {
            "door": {"type": "string", "enum": ["north", "south"]},
            "people": {"type": "integer", "minimum": 1, "description": "Grown-ups and children."},
            "note": {"type": "string"},
        },
        "required": ["door", "people"],
    },
)
HANGUP = ProviderTool("hangup_call", "Ends the call.", None)

_leaf = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": ["a", 'say "b"\n']}, {}])
_schema = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(
            lambda fields: {"type": "object", "properties": fields, "required": [*fields][:1]},
            st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
        ),
    ),
    max_leaves=5,
)
_parameters = st.one_of(
    st.none(),
    st.builds(
        lambda fields, count: {
            "type": "object",
            "properties": fields,
            "required": [*fields][:count],
        },
        st.dictionaries(st.text(min_size=1, max_size=8), _schema, max_size=4),
        st.integers(0, 4),
    ),
)
_tools = st.lists(
    st.builds(ProviderTool, st.from_regex(r"\A[a-z_]{1,12}\Z"), st.text(), _parameters), max_size=4
)


def request(*messages: Any, system: str = "", tools: Any = (TAXI, HANGUP)) -> ModelRequest:
    return ModelRequest(system, messages, tuple(tools))


@given(_tools)
def test_each_tool_is_one_line_of_the_grammar_whatever_its_schema(
    tools: list[ProviderTool],
) -> None:
    head, start, *lines, speech, end = grammar(request(tools=tools)).split("\n")
    assert (head, end) == ("%llguidance {}", "")
    assert speech.startswith("SPEECH: /")
    calls = [f'"CALL {tool.name} " arguments{n}' for n, tool in enumerate(tools)]
    assert start == "start: " + " | ".join(["SPEECH", *calls])
    assert len(lines) == len(tools)
    for number, (tool, line) in enumerate(zip(tools, lines, strict=True)):
        name, _, schema = line.partition(": %json ")
        assert name == f"arguments{number}"
        read, given_schema = orjson.loads(schema), tool.parameters or {}
        assert read["properties"].keys() == given_schema.get("properties", {}).keys()
        for key, one in given_schema.get("properties", {}).items():
            required = key in given_schema["required"]
            known = {"anyOf": [{"const": "?"}, one]} if required else one
            assert read["properties"][key] == known


def test_a_model_that_may_not_call_only_speaks() -> None:
    only = ModelRequest("", (), (TAXI,), may_ask=False)
    assert "start: SPEECH\n" in grammar(only)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("Hello! How can I help you?", True),
        ("Can I help?", True),
        ("Certainly.", True),
        ('CALL order_taxi {"door"', False),
        ("Two\nlines", False),
        ('{"name": "x"}', False),
        ("<tool_call>", False),
        ("order_taxi", False),
        ("It is 5 o'clock, isn't it? 20 euros.", True),
    ],
)
def test_speech_is_one_line_without_machine_words(text: str, allowed: bool) -> None:
    (pattern,) = re.findall(r"^SPEECH: /(.*)/$", grammar(request()), re.MULTILINE)
    assert bool(re.fullmatch(pattern, text)) is allowed


def test_the_prompt_lists_the_tools_and_shows_turns_with_and_without_one() -> None:
    system, *examples, last = chat_messages(request(CallerSaid("Hi."), system="Be kind."))
    assert system["content"].startswith("Be kind.\n\nYou have these tools:\n- order_taxi(")
    line = "- order_taxi(door: north|south|?, people: number|? (Grown-ups and children.), "
    assert f"{line}note (optional): text): Orders a taxi.\n" in system["content"]
    assert "- hangup_call(): Ends the call." in system["content"]
    assert last == {"role": "user", "content": "Hi."}
    answers = [one["content"] for one in examples if one["role"] == "assistant"]
    assert [one["role"] for one in examples] == ["user", "assistant"] * len(answers)
    calls = [answer.startswith("CALL ") for answer in answers]
    assert 0.4 <= sum(calls) / len(calls) <= 0.6
    assert answers[-1] == "CALL hangup_call {}"


def test_without_tools_there_are_no_examples() -> None:
    assert chat_messages(request(CallerSaid("Hi."), tools=())) == [
        {"role": "user", "content": "Hi."}
    ]


def test_calls_and_results_are_text_in_the_conversation() -> None:
    wish = ToolWish("a", "order_taxi", '{"door":"north"}')
    told = chat_messages(
        request(AgentSaid("Wait.", (wish,)), ToolAnswered("a", "order_taxi", {"status": "ok"}))
    )
    assert told[-2:] == [
        {"role": "assistant", "content": 'Wait.\nCALL order_taxi {"door": "north"}'},
        {"role": "user", "content": 'RESULT {"status":"ok"}'},
    ]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (AgentSaid("It rains in Oslo. It is cold."), '{"status":"ok"}'),
        (AgentSaid("It rains"), '{"status":"ok"}'),  # the caller interrupted
        (AgentSaid("Rain."), '{"status":"ok","message":"It rains in Oslo.","data":{"mm":3}}'),
        (CallerSaid("Hm?"), '{"status":"ok","message":"It rains in Oslo.","data":{"mm":3}}'),
    ],
)
def test_a_result_that_was_spoken_is_not_read_twice(said: Any, shown: str) -> None:
    payload = {"status": "ok", "message": "It rains in Oslo.", "data": {"mm": 3}}
    told = chat_messages(request(ToolAnswered("a", "weather", payload), said))
    assert told[-2]["content"] == f"RESULT {shown}"


@pytest.mark.parametrize(
    ("value", "heard", "asked"),
    [
        ("?", "anything", True),
        (4, "for us", False),  # not a code
        ("RB482913", "It is RB 48 29 13.", False),
        ("730419", "seven three oh four one nine", False),
        ("730419", "my number is 730418", True),
        ("EY1234", "when does my flight leave", True),
        ("19:30", "at half past seven in the evening", False),
        ("2026-11-24", "tomorrow", False),
        ("Marsh End", "nothing like it", False),
    ],
)
def test_an_argument_that_nobody_said(value: Any, heard: str, asked: bool) -> None:
    wish = ToolWish("a", "x", orjson.dumps({"customer_number": value}).decode())
    assert unsaid(wish, request(CallerSaid(heard))) == (("customer_number",) if asked else ())


def test_a_code_may_come_from_a_result_or_the_prompt_but_not_from_an_earlier_call() -> None:
    wish = ToolWish("a", "x", '{"order":"A4711"}')
    result = ToolAnswered("b", "orders", {"data": {"order": "A-4711"}})
    assert unsaid(wish, request(result)) == ()
    assert unsaid(wish, request(system="Our own order is A 4711.")) == ()
    assert unsaid(wish, request(AgentSaid("", (wish,)))) == ("order",)


@given(st.from_regex(r"\A[A-Z]{0,2}[0-9]{3,8}\Z"), st.text(), st.text())
def test_a_code_that_was_said_is_never_asked_for(code: str, before: str, after: str) -> None:
    wish = ToolWish("a", "x", orjson.dumps({"code": code}).decode())
    heard = f"{before} {' '.join(code)} {after}".encode("utf-8", "replace").decode()
    assert unsaid(wish, request(CallerSaid(heard))) == ()


def test_the_question_names_every_argument() -> None:
    words = "Please tell me {arguments}."
    assert question(["day"], words) == "Please tell me the day."
    assert question(["day", "start_time", "people"], words) == (
        "Please tell me the day, the start time and the people."
    )
