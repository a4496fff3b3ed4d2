"""What a person is told about wrong steps before and after calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import LoadedConfig, read
from cordboard.errors import ConfigError

FILE = """\
contexts:
  demo:
    variables: [TIER]
    tools: [book]
{lines}
  other: {{tools: [hangup_call]}}
tools:
  find: {{kind: http, url: "https://x.example/{{number}}", parameters: {{number: {{}}}}}}
  book: {{kind: http, url: "https://x.example/{{call.customer}}"}}
  both:
    kind: workflow
    description: "Both."
    steps: [{{id: a, tool: find, arguments: {{number: "1"}}}}, {{id: b, tool: book}}]
"""


def load(text: str) -> LoadedConfig:
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    return read(FILE.format(lines=lines), Path("a.yaml"), {})


SAVES = "pre_call: [{tool: find, save_as: customer, arguments: {number: '{call.TIER}'}}]\n"


def test_whole_ones() -> None:
    text = (
        SAVES
        + "greeting: 'Hello {customer.name|there}, {customer}.'\n"
        + "prompt: '{customer.orders.0}'\n"
        + "post_call:\n"
        + "  - {tool: find, arguments: {number: '{results.customer.id}', a: '{call.customer}'}}\n"
        + "  - {tool: both, arguments: {a: '{call.summary.caller_turns}', b: '{call.outcome}'}}\n"
    )
    config = load(text).config
    assert config.contexts["demo"].uses_pre_call
    assert config.contexts["demo"].pre_call_timeout_ms == 2_500
    assert config.calls.post_call.give_up_ms == 86_400_000


@pytest.mark.parametrize(
    ("text", "is_used"),
    [
        ("greeting: Hello.", False),
        ("greeting: '{caller_name}'", False),
        ("greeting: '{customer|x}'", True),
        ("prompt: '{customer.name}'", True),
        ("rules: {intents: {hi: {sentences: [hi], say: 'Hi {customer}.'}}}", True),
        ("rules: {intents: {hi: {sentences: [hi], say: 'Hi {TIER}.'}}}", False),
    ],
)
def test_whether_anybody_waits_for_a_result(text: str, is_used: bool) -> None:
    assert load(SAVES + text).config.contexts["demo"].uses_pre_call is is_used


def place(key: str, line: int = 5) -> str:
    return f"a.yaml:{line}: contexts.demo.{key}"


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("pre_call: [{tool: fnd}]", place("pre_call[0].tool"), "did you mean find?"),
        ("pre_call: [{tool: hangup_call}]", place("pre_call[0].tool"), "needs a caller"),
        ("post_call: [{tool: transfer}]", place("post_call[0].tool"), "needs a caller"),
        (
            "pre_call: [{tool: find, save_as: caller_name}]",
            place("pre_call[0].save_as"),
            "the name of something else already",
        ),
        (
            "pre_call: [{tool: find, save_as: a}, {tool: find, save_as: a}]",
            place("pre_call[1].save_as"),
            "the name of something else already",
        ),
        (
            "pre_call: [{tool: find, arguments: {number: '{call.caler_number}'}}]",
            place("pre_call[0].arguments.number"),
            "there is no variable {call.caler_number}; did you mean",
        ),
        (
            "pre_call: [{tool: find, arguments: {number: '{call.outcome}'}}]",
            place("pre_call[0].arguments.number"),
            "there is no variable {call.outcome}",
        ),
        (
            "pre_call: [{tool: find, arguments: {number: '{number}'}}]",
            place("pre_call[0].arguments.number"),
            "there is no value {number}; expected {call.…}",
        ),
        (
            "pre_call: [{tool: find, arguments: {number: '{call.TIER'}}]",
            place("pre_call[0].arguments.number"),
            "at character 11",
        ),
        ("pre_call: [{tool: find, arguments: [1]}]", place("pre_call[0].arguments"), "by name"),
        ("pre_call: [{tool: find, timeout_ms: 1}]", place("pre_call[0].timeout_ms"), "from 50"),
        (
            "post_call: [{tool: find, arguments: {a: '{results.customer.id}'}}]",
            place("post_call[0].arguments.a"),
            "there is no result {results.customer}; no step of `pre_call` saves one",
        ),
        (
            SAVES + "post_call: [{tool: find, arguments: {a: [{b: '{results.custmer}'}]}}]",
            place("post_call[0].arguments.a[0].b", 6),
            "did you mean customer?",
        ),
        ("greeting: '{customer|x}'", place("greeting"), "there is no call variable {customer}"),
        (
            "post_call: [{tool: both}]\npre_call: []",
            place("post_call[0].tool"),
            "the workflow both uses find, which this context does not list",
        ),
    ],
)
def test_the_place_and_what_was_expected(text: str, where: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text if "book" in text or SAVES in text else text + "\n" + "prompt: x")
    message = str(caught.value)
    assert where in message, message
    assert expected in message, message


def test_pauses_that_shrink_are_told() -> None:
    text = "contexts: {demo: {}}\ncalls: {post_call: {first_retry_ms: 100, max_retry_ms: 50}}"
    with pytest.raises(ConfigError, match=r"max_retry_ms: expected at least `first_retry_ms`"):
        read(text, Path("a.yaml"), {})
