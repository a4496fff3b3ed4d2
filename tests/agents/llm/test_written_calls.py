"""Calls and thoughts that a model writes into its text: found, never spoken, however it is cut."""

from __future__ import annotations

import time
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.agent_api.language_model import TextPiece, ToolWish
from cordboard.agents.llm.written_calls import MOST_BARE, WrittenCalls
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject

_PLACE = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
}
TOOLS = (
    ProviderTool("get_weather", "The weather.", _PLACE),
    ProviderTool("hangup_call", "Ends the call.", None),
    ProviderTool("call_back", "Calls back later.", None),
    ProviderTool("transfer", "Transfers the call.", {"type": "object", "properties": {}}),
)
Call = tuple[str, JsonObject | str]
OSLO: Call = ("get_weather", {"place": "Oslo"})
HANGUP: Call = ("hangup_call", {})


def read(*pieces: str, cut: bool = False) -> tuple[str, list[Call]]:
    """The spoken words, and the calls; arguments that are not JSON stay text."""
    reader = WrittenCalls(TOOLS)
    found = [one for piece in pieces for one in reader.feed(piece)] + reader.flush(cut=cut)
    words = "".join(one.text for one in found if isinstance(one, TextPiece))
    return words, [_call(one) for one in found if isinstance(one, ToolWish)]


def _call(wish: ToolWish) -> Call:
    try:
        return wish.name, orjson.loads(wish.arguments)
    except orjson.JSONDecodeError:
        return wish.name, wish.arguments


NOTATIONS: dict[str, tuple[str, list[Call]]] = {
    "bare json": ('{"name": "get_weather", "arguments": {"place": "Oslo"}}', [OSLO]),
    "json with parameters": ('{"name": "get_weather", "parameters": {"place": "Oslo"}}', [OSLO]),
    "json of the api": (
        '{"type": "function", "function": {"name": "get_weather",'
        ' "arguments": "{\\"place\\": \\"Oslo\\"}"}}',
        [OSLO],
    ),
    "json with action": ('{"action": "get_weather", "action_input": {"place": "Oslo"}}', [OSLO]),
    "json with only the name": ('{"name": "hangup_call"}', [HANGUP]),
    "json under the name": ('{"get_weather": {"place": "Oslo"}}', [OSLO]),
    "json list": (
        '[{"name": "get_weather", "arguments": {"place": "Oslo"}}, {"name": "hangup_call"}]',
        [OSLO, HANGUP],
    ),
    "two objects": (
        '{"name": "get_weather", "parameters": {"place": "Oslo"}}; {"name": "hangup_call"}',
        [OSLO, HANGUP],
    ),
    "a line break in a string": (
        '{"name": "get_weather", "arguments": {"place": "Oslo\n}"}}',
        [("get_weather", {"place": "Oslo\n}"})],
    ),
    "last braces forgotten": ('{"name": "get_weather", "arguments": {"place": "Oslo"', [OSLO]),
    "fence": ('```json\n{"name": "get_weather", "arguments": {"place": "Oslo"}}\n```', [OSLO]),
    "fence of python": ('```tool_code\nprint(get_weather(place="Oslo"))\n```', [OSLO]),
    "hermes": (
        '<tool_call>\n{"name": "get_weather", "arguments": {"place": "Oslo"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "hangup_call", "arguments": {}}\n</tool_call>',
        [OSLO, HANGUP],
    ),
    "hermes without its end": (
        '<tool_call>\n{"name": "get_weather", "arguments": {"place": "Oslo"}}',
        [OSLO],
    ),
    "tools": (
        '<tools>{"name": "get_weather", "arguments": {"place": "Oslo"}}</tools>',
        [OSLO],
    ),
    "xml of qwen": (
        "<tool_call>\n<function=get_weather>\n<parameter=place>\nOslo\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        [("get_weather", {"place": "Oslo", "days": 3})],
    ),
    "function with json": ('<function=get_weather>{"place": "Oslo"}</function>', [OSLO]),
    "invoke": (
        '<function_calls>\n<invoke name="get_weather">\n<parameter name="place">Oslo</parameter>\n'
        "</invoke>\n</function_calls>",
        [OSLO],
    ),
    "pairs of glm": (
        "<tool_call>get_weather\n<arg_key>place</arg_key>\n<arg_value>Oslo</arg_value></tool_call>",
        [OSLO],
    ),
    "tag with the name": ("<get_weather><place>Oslo</place></get_weather>", [OSLO]),
    "empty tag": ("<hangup_call/>", [HANGUP]),
    "mistral list": (
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"place": "Oslo"}}]',
        [OSLO],
    ),
    "mistral names": (
        '[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{"place": "Oslo"}'
        "[TOOL_CALLS]hangup_call[ARGS]{}",
        [OSLO, HANGUP],
    ),
    "lm studio": (
        '[TOOL_REQUEST]{"name": "get_weather", "arguments": {"place": "Oslo"}}[END_TOOL_REQUEST]',
        [OSLO],
    ),
    "llama": (
        '<|python_tag|>{"name": "get_weather", "parameters": {"place": "Oslo"}}<|eom_id|>',
        [OSLO],
    ),
    "llama in python": ("[get_weather(place='Oslo'), hangup_call()]", [OSLO, HANGUP]),
    "phi": ('functools[{"name": "get_weather", "arguments": {"place": "Oslo"}}]', [OSLO]),
    "granite": ('<|tool_call|>[{"name": "get_weather", "arguments": {"place": "Oslo"}}]', [OSLO]),
    "deepseek": (
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
        '<\uff5ctool\u2581sep\uff5c>get_weather\n```json\n{"place": "Oslo"}\n```'
        "<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>",
        [OSLO],
    ),
    "deepseek's markup": (
        '<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name="get_weather">\n'
        '<\uff5cDSML\uff5cparameter name="place" string="true">Oslo</\uff5cDSML\uff5cparameter>\n'
        "</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>",
        [OSLO],
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"place": "Oslo"}<|tool_call_end|>'
        "<|tool_calls_section_end|>",
        [OSLO],
    ),
    "harmony": (
        "<|channel|>analysis<|message|>I need the weather.<|end|><|start|>assistant<|channel|>"
        "commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"place": "Oslo"}<|call|>',
        [OSLO],
    ),
    "harmony, recipient in the role": (
        "<|start|>assistant to=functions.get_weather<|channel|>analysis code<|message|>"
        '{"place": "Oslo"}',
        [OSLO],
    ),
    "line": ('CALL get_weather {"place": "Oslo"}', [OSLO]),
    "line without arguments": ("CALL hangup_call", [HANGUP]),
    "name and json": ('get_weather {"place": "Oslo"}', [OSLO]),
    "name and brackets": ('get_weather({"place": "Oslo"})', [OSLO]),
    "the name alone": ("hangup_call", [HANGUP]),
    "a name that begins with call": ("call_back()", [("call_back", {})]),
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_call_is_found_and_not_spoken(notation: str) -> None:
    text, calls = NOTATIONS[notation]
    assert read(text) == read(*text)
    words, found = read(text)
    assert found == calls
    assert words.strip() == ""


@pytest.mark.parametrize("notation", NOTATIONS)
def test_the_words_before_a_call_are_spoken_at_once(notation: str) -> None:
    text, calls = NOTATIONS[notation]
    reader = WrittenCalls(TOOLS)
    words = "".join(one.text for one in reader.feed("One moment. \n") if isinstance(one, TextPiece))
    assert words == "One moment. \n"
    found = reader.feed(text) + reader.flush()
    assert [_call(one) for one in found if isinstance(one, ToolWish)] == calls


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        (
            "<think>They want hours. I must be careful.</think>\n\nWe open at nine.",
            "We open at nine.",
        ),
        ("[THINK]Hm.[/THINK]We open at nine.", "We open at nine."),
        ("Thoughts end here.</think>We open.", "Thoughts end here. We open."),
        ('<think>CALL hangup_call {"a": 1}\n{"name": "hangup_call"}</think>No.', "No."),
        ("<think>never ended {", ""),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
            "We open at nine.<|return|>",
            "We open at nine.",
        ),
        ("analysisWe need to answer. In a word.assistantfinalNine.", "Nine."),
        ("<tool_response>Sunny.</tool_response>It is sunny.", "It is sunny."),
        ("We open at nine.<|im_end|>", "We open at nine."),
        ("We open at nine.</s>", "We open at nine."),
    ],
)
def test_thoughts_and_marks_are_not_spoken(text: str, spoken: str) -> None:
    words, calls = read(*text)
    assert " ".join(words.split()) == spoken
    assert calls == []


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('{"name": "delete_all", "arguments": {"a": 1}}', ("delete_all", {"a": 1})),
        ('<tool_call>{"name": "delete_all"}</tool_call>', ("delete_all", {})),
        ("<function=mcp.delete_all></function>", ("mcp_delete_all", {})),
        ('CALL delete_all {"a": 1}', ("delete_all", {"a": 1})),
    ],
)
def test_a_tool_that_does_not_exist_is_asked_for_under_its_name(text: str, call: Call) -> None:
    """The desk refuses it, and the model hears of that."""
    words, calls = read(*text)
    assert calls == [call]
    assert words.strip() == ""


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "get_weather", "arguments": {"place": "Os',
        '<tool_call>{"name": "get_weather", "arguments": {"place": "Os',
        '{"name": "get_weather", "arguments": {"place": oslo}}',
        'CALL get_weather {"place": oslo}',
        "get_weather(place=Oslo)",
    ],
)
def test_arguments_that_are_not_json_stay_as_they_are(text: str) -> None:
    """The tool loop then says so to the model."""
    words, ((name, arguments),) = read(*text)
    assert name == "get_weather"
    assert isinstance(arguments, str)
    assert words.strip() == ""


def test_an_answer_that_was_cut_off_is_not_completed() -> None:
    text = '{"name": "get_weather", "arguments": {"days": 1'
    assert read(text)[1] == [("get_weather", {"days": 1})]
    ((_, arguments),) = read(text, cut=True)[1]
    assert isinstance(arguments, str), "it may have been going to be 14"


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_call_that_was_cut_off_runs_with_all_its_arguments_or_not_at_all(notation: str) -> None:
    text, calls = NOTATIONS[notation]
    for end in range(len(text)):
        for name, arguments in read(text[:end], cut=True)[1]:
            assert (name, arguments) in calls or isinstance(arguments, str), text[:end]


@pytest.mark.parametrize("arguments", ["{[1]: 2}", "a={{}}", "a=b", "a=10**9"])
def test_python_that_has_no_value_is_not_an_error(arguments: str) -> None:
    assert read(f"get_weather({arguments})")[1] in ([], [("get_weather", arguments)])


@pytest.mark.parametrize(
    "repeated", ["<a>", "<function=", "<arg_key>", "<arg_key>a</arg_key><arg_value>", "[", "<|"]
)
def test_a_model_that_repeats_itself_does_not_stop_the_engine(repeated: str) -> None:
    endless = repeated * (60_000 // len(repeated))
    for before in ("<function=get_weather>", "<tool_call>get_weather", "[TOOL_CALLS]"):
        began = time.process_time()
        read(before + endless)
        assert time.process_time() - began < 2.0, "it takes 9 to 23 s if each tag is searched for"


def test_a_declaration_is_not_a_call() -> None:
    declared = {"name": "get_weather", "description": "The weather.", "parameters": _PLACE}
    assert read(orjson.dumps(declared).decode()) == (" ", [])


ORDINARY = (
    "Is 3 < 5? Yes. <b>Bold</b> and <3.",
    "Use the set {a, b} or {}.",
    '{"answer": "nine"}',
    "Call me `at noon`, say call 911, or CALL us. Call: no.",
    "Call\ntransfer",
    "I can transfer (put through) you. A transfer: free. Transfer!",
    "```\nBring a coat.\n```",
    "See [the list](http://a.test/b) and [TOOL] or [1].",
    "analysis of the data",
    "I call functions.\nThe functions are get and set.",
    "a|b <a@b.test> <|> <",
    "ends with get_wea",
    "I have these tools:\n- get_weather\n* hangup_call\n> call_back",
    "ends with ``",
    "{ [ {",
    "<think",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_are_spoken_unhurt(text: str) -> None:
    assert read(text) == (text, [])
    assert read(*text) == (text, [])


def test_words_are_withheld_only_while_they_may_become_something() -> None:
    reader = WrittenCalls(TOOLS)
    for piece, spoken in (
        ("We are open, and a < b ", "We are open, and a < b "),
        ("get_wea", ""),
        ("k things ", "get_weak things "),
        ("{", ""),
        ("a} <", "{a} "),
        ("thin", ""),
        ("ner", "<thinner"),
    ):
        found = reader.feed(piece)
        assert "".join(one.text for one in found if isinstance(one, TextPiece)) == spoken


@pytest.mark.parametrize(
    "text",
    [
        "get_weather" + " " * 60_000 + "x",
        "<tool_call>" + "a" * 60_000 + '! {"x": 1}</tool_call>',
        "<tool_call>get_weather" + "<arg_key>" * 6_000 + "</tool_call>",
        "<tool_call>get_weather" + "<arg_key></arg_key>" * 3_400 + "</tool_call>",
        "<function=get_weather>" + "<a>" * 20_000 + "</function>",
        "<tool_call><function=" + "a" * 60_000 + " </tool_call>",
    ],
    ids=lambda text: text[:40].strip(),
)
def test_a_model_that_repeats_itself_holds_no_other_call_up(text: str) -> None:
    """All calls share the event loop; each of these took seconds."""
    began = time.thread_time()
    read(text)
    assert time.thread_time() - began < 1


def test_endless_text_is_not_kept() -> None:
    """A model in a loop: neither memory nor silence without end."""
    reader = WrittenCalls(TOOLS)
    assert reader.feed('{"a": "' + "x" * MOST_BARE), "that is not a call"
    reader = WrittenCalls(TOOLS)
    reader.feed("<think>")
    for _ in range(1_000):
        reader.feed("hm " * 100)
    assert len(reader._text) < 1_000
    reader = WrittenCalls(TOOLS)
    for _ in range(1_000):
        reader.feed('<tool_call>{"' + "x" * 100)
    assert len(reader._text) < 100_000


FRAGMENTS = (
    *(text for text, _ in NOTATIONS.values()),
    *ORDINARY,
    *(
        "<think>",
        "</think>",
        "```json\n",
        "```",
        "\n",
        " ",
        ";",
        "{",
        '{"',
        "}",
        "[",
        "]",
        "<",
        ">",
    ),
    *("<|channel|>", "<|message|>", "<|end|>", "<|start|>assistant", "analysisA", "assistantfinal"),
    *(
        "CALL ",
        "call ",
        "get_weather",
        "hangup",
        "_call",
        "a call",
        "_back",
        "(",
        ")",
        ": ",
        "functions.",
        "[ARGS]",
    ),
    *(
        "<tool_call>",
        "</tool_call>",
        "<function=",
        "\\",
        '"',
        "'",
        "\uff5c",
        "[TOOL_CALLS]",
        "Yes. ",
    ),
)
answers = st.lists(
    st.sampled_from(FRAGMENTS) | st.text("<>{}[]|`\"'\\ aC\n", max_size=6), max_size=6
).map("".join)


@given(text=answers, cuts=st.lists(st.integers(0, 400), max_size=12), at_length=st.booleans())
def test_the_pieces_do_not_matter(text: str, cuts: list[int], at_length: bool) -> None:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = read(text, cut=at_length)
    assert read(*pieces, cut=at_length) == whole
    assert read(*text, cut=at_length) == whole


@given(
    words=st.lists(
        st.sampled_from(
            [
                "We",
                "open",
                "<",
                "5",
                "{",
                "}",
                "`a`",
                "call",
                "[",
                "]",
                "name:",
                '"Oslo"',
                "transfer",
                "get",
                "weather",
                "think",
                "<br>",
                "|",
                "x.",
                "\n",
                "a<b",
                "(or)",
                "e{",
                "analysis",
            ]
        ),
        max_size=30,
    )
    .map(" ".join)
    .filter(
        lambda text: (
            not any(hurt in text.replace(" ", "") for hurt in ('{"', "{}", '[{"', "transfer{"))
        )
    )
)
def test_sentences_without_notations_are_unhurt(words: str) -> None:  # fmt: skip
    assert read(*words) == (words, [])
