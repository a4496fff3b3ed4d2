"""Tools for a small model: described in its prompt, called by one line of text.

    CALL book_table {"day": "friday", "people": 4}

Small models call tools more reliably by such a line than by their own template's format
(docs/language-models.md has the figures). A grammar for llama.cpp allows nothing but plain speech
or one such line, with the name of a tool and arguments that fit its schema. For an argument that
the caller has not said the model may write "?"; then the tool is not called, and the engine asks
for the argument. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Message,
    ModelRequest,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.llm.wire import arguments_of
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject

UNSAID = "?"
"""Written by the model in place of a required argument that the caller has not said."""
INSTRUCTIONS = """You have these tools:
{}

To use a tool, answer with only one line: CALL name {{arguments as JSON}}
Write "?" for each argument that the caller has not said. Never make up an argument or a fact. \
If no tool does what the caller asks for, answer in a short sentence."""
EXAMPLES = (
    ("Hi there.", "Hello! How can I help you?"),
    ("Will it rain in Bergen tomorrow?", 'CALL get_weather {"city": "Bergen", "day": "tomorrow"}'),
    ("I need a plumber.", 'CALL book_plumber {"day": "?", "time": "?", "workers": "?"}'),
    ("Hello? Are you there?", "Yes, I am here. How can I help you?"),
    (
        "Can you turn the heating to twenty one degrees in the kitchen?",
        'CALL set_heating {"room": "kitchen", "degrees": 21}',
    ),
    ("What does a ticket cost?", 'CALL ticket_price {"zone": "?", "people": "?"}'),
    ("Who won the football match?", "I am sorry, I cannot help with that."),
    (
        "A plumber on Tuesday at quarter past two in the afternoon.",
        'CALL book_plumber {"day": "tuesday", "time": "14:15", "workers": "?"}',
    ),
    ("Do you have a garden?", "I am sorry, I do not know that."),
    ("Where is my order?", 'CALL find_order {"order_number": "?"}'),
    ("Thank you, you are great.", "You are welcome! Is there anything else?"),
)
"""Turns before the conversation, about half of them without a tool: with calls alone the model
calls a tool for small talk too. Their tools do not exist, and the grammar does not allow them."""

_JSON_STYLE: JsonObject = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
}
"""llguidance: JSON as in `EXAMPLES`; keywords of a schema that it does not know are ignored,
because the desk checks the arguments anyway."""
UNSAID_BIAS = [['"?', 2.0], [' "?', 2.0], ['?"', 2.0]]
"""llama.cpp's `logit_bias`: without it the model rather invents an argument than write `UNSAID`."""
_NO_SPEECH = r"\n{}\[\]<>|`_*#\\"
_SPEECH = rf"/([^C{_NO_SPEECH}]|C[^A{_NO_SPEECH}])[^{_NO_SPEECH}]*/"
"""One line without the characters of machines, and not beginning like a call."""
_TIME_OR_DATE = re.compile(r"\d{1,2}:\d{2}(:\d{2})?|\d{4}-\d{2}-\d{2}.*")
_FEWEST_DIGITS = 3
"""Digits of a code: shorter numbers are often said in other words (`half past`, `a couple`)."""
_DIGIT_WORDS = {
    word: str(digit)
    for digit, word in enumerate("zero one two three four five six seven eight nine".split())
} | {"oh": "0"}


_GOODBYE = ("No, that was everything. Goodbye.", "CALL hangup_call {}")
"""One more example where the engine's own tool is in the toolbox: else the model says goodbye and
leaves the line open."""


def chat_messages(request: ModelRequest) -> list[JsonObject]:
    """Return a request as messages of Chat Completions that need no support of tools."""
    system = [request.system] if request.system else []
    examples: list[JsonObject] = []
    if request.tools:
        system.append(INSTRUCTIONS.format("\n".join(map(_listed, request.tools))))
        ends = any(tool.name == "hangup_call" for tool in request.tools)
        for caller, agent in (*EXAMPLES, *((_GOODBYE,) if ends else ())):
            examples += (_spoken("user", caller), _spoken("assistant", agent))
    said = [_spoken("system", "\n\n".join(system))] if system else []
    following = (*request.messages[1:], None)
    return [*said, *examples, *map(_message, request.messages, following)]


def grammar(request: ModelRequest) -> str:
    """Return the grammar of an answer, in the language of llguidance (the library of grammars in
    llama.cpp as xllamacpp 2026.10 builds it)."""
    tools = request.tools if request.may_ask else ()
    calls = [f'"CALL {tool.name} " arguments{n}' for n, tool in enumerate(tools)]
    arguments = [
        f"arguments{n}: %json {orjson.dumps(_with_unsaid(tool.parameters)).decode()}"
        for n, tool in enumerate(tools)
    ]
    start = f"start: {' | '.join(['SPEECH', *calls])}"
    return "\n".join(["%llguidance {}", start, *arguments, f"SPEECH: {_SPEECH}", ""])


def unsaid(wish: ToolWish, request: ModelRequest) -> tuple[str, ...]:
    """Return the arguments of a call that the model does not know: marked by it, or codes (such as
    a customer's number) that occur nowhere in the conversation."""
    arguments = arguments_of(wish) or {}
    known = _squeezed(_words(request))
    return tuple(
        name for name, value in arguments.items() if value == UNSAID or _invented(value, known)
    )


def question(names: Sequence[str], words: str) -> str:
    """Return the question for arguments; `words` has the place `{arguments}`."""
    spoken = [f"the {name.replace('_', ' ')}" for name in names]
    listed = " and ".join(filter(None, (", ".join(spoken[:-1]), spoken[-1])))
    return words.replace("{arguments}", listed)


def _listed(tool: ProviderTool) -> str:
    schema = tool.parameters or {}
    required = schema.get("required", ())
    parameters = (
        _parameter(name, one, required=name in required)
        for name, one in schema.get("properties", {}).items()
    )
    return f"- {tool.name}({', '.join(parameters)}): {tool.description}"


def _parameter(name: str, schema: Any, *, required: bool) -> str:
    schema = schema if isinstance(schema, dict) else {}
    kind = "|".join(map(str, schema.get("enum", ()))) or str(schema.get("type", "text"))
    note = schema.get("description") or schema.get("pattern") or schema.get("format")
    kind = {"string": "text", "integer": "number"}.get(kind, kind)
    shown = f"{name}: {kind}|{UNSAID}" if required else f"{name} (optional): {kind}"
    return f"{shown} ({note})" if note else shown


def _with_unsaid(parameters: JsonObject | None) -> JsonObject:
    """Return the schema of a tool's arguments in which a required one may be `UNSAID`."""
    schema = parameters or {"type": "object", "properties": {}, "additionalProperties": False}
    properties = {
        name: {"anyOf": [{"const": UNSAID}, one]} if name in schema.get("required", ()) else one
        for name, one in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties, "x-guidance": _JSON_STYLE}


def _message(message: Message, following: Message | None) -> JsonObject:
    match message:
        case CallerSaid(text):
            return _spoken("user", text)
        case AgentSaid(text, wishes, _):
            return _spoken("assistant", "\n".join(filter(None, (text, *map(_call, wishes)))))
        case ToolAnswered(_, _, payload, _):
            told = {"status": payload["status"]} if _is_spoken(payload, following) else payload
            return _spoken("user", f"RESULT {orjson.dumps(told).decode()}")


def _is_spoken(payload: JsonObject, following: Message | None) -> bool:
    """True if the words of a result are in the conversation already, as far as they were heard: a
    report's data may be a thousand tokens, which take the model many seconds to read."""
    words = str(payload.get("message") or "")
    said = following.text if isinstance(following, AgentSaid) else ""
    return bool(words and said) and (words in said or said in words)


def _call(wish: ToolWish) -> str:
    """Return a call as the model wrote it: then llama.cpp finds it among the text it has read."""
    return f"CALL {wish.name} {json.dumps(arguments_of(wish) or {}, ensure_ascii=False)}"


def _spoken(role: str, text: str) -> JsonObject:
    return {"role": role, "content": text}


def _invented(value: Any, known: str) -> bool:
    if not isinstance(value, str) or _TIME_OR_DATE.fullmatch(value):
        return False
    digits = sum(map(str.isdigit, value))
    return digits >= _FEWEST_DIGITS and _squeezed([value]) not in known


def _words(request: ModelRequest) -> Iterable[str]:
    """Yield all text of a conversation that a code may come from: not the model's own calls."""
    yield request.system
    for message in request.messages:
        match message:
            case CallerSaid(text) | AgentSaid(text, _, _):
                yield text
            case ToolAnswered(_, _, payload, _):
                yield orjson.dumps(payload).decode()


def _squeezed(texts: Iterable[str]) -> str:
    """Return the letters and figures alone, digits in words as figures."""
    words = (word for text in texts for word in re.findall(r"[a-z0-9]+", text.lower()))
    return "".join(_DIGIT_WORDS.get(word, word) for word in words)
