"""What a person is told about a wrong `speech_template` and its neighbours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cordboard.config.load import read
from cordboard.config.mcp import McpServer
from cordboard.config.tools.rules import ErrorMessages
from cordboard.errors import ConfigError

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PRICE": "free"}


def server(key: str, value: str) -> McpServer:
    text = f"""\
contexts: {{demo: {{}}}}
mcp:
  servers:
    shop:
      command: [cat]
      tools:
        - name: find
          {key}: {json.dumps(value)}
"""
    return read(text, Path("a.yaml"), ENVIRONMENT).config.mcp.servers["shop"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("speech_template", "Hello {name", "at character 12: expected '.', ':', '|' or '}'"),
        ("speech_template", "{price:euros}", "at character 8: expected a format"),
        ("speech_template", "{n:plural(table)}", "expected plural with 2 arguments, got 1"),
        ("speech_template", "50 } 3", "at character 4: expected '}}'"),
        ("speech_field", "a..b", "at character 3: expected the name of a field"),
    ],
)
def test_the_file_line_key_and_place_are_told(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        server(key, value)
    message = str(caught.value)
    assert message.startswith("a.yaml:8")
    assert f"mcp.servers.shop.tools[0].{key}" in message
    assert expected in message


def test_a_template_is_kept_as_it_is_written() -> None:
    words = '{"a.b".0:money(EUR)|nothing} {{and}} {n} {n:plural(table,tables)}'
    assert server("speech_template", words).tools[0].speech_template == words
    assert server("speech_template", "$${a} ${PRICE}").tools[0].speech_template == "${a} free"


def test_error_messages_are_taken_sentence_by_sentence() -> None:
    own = ErrorMessages(timeout="Too slow.")
    defaults = ErrorMessages(timeout="Slow.", error="Broken.")
    assert own.over(defaults) == ErrorMessages(timeout="Too slow.", error="Broken.")


@pytest.mark.parametrize("words", ["See {url}", "<b>No</b>", "a\nb", "at https://x", "x" * 201])
def test_an_error_message_is_words(words: str) -> None:
    with pytest.raises(ValueError, match=r"expected plain words|at most 200"):
        ErrorMessages(error=words)
