"""A message as bytes, even if it contains invalid characters. Pure.

Half a surrogate pair is not a character and cannot be sent, but a model may write one into the
arguments of a tool ("\\ud83d" alone, from an emoji cut in two). It is sent as a question mark: one
odd character must not fail the call, let alone the connection.
"""

from __future__ import annotations

import json

import mcp_types as types


def encoded(message: types.JSONRPCMessage) -> bytes:
    """Return the message as JSON in UTF-8, on one line."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:  # raised by pydantic's own encoder for a surrogate
        fields = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
