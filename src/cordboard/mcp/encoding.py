"""A message as bytes, whatever is in it. Pure.

Half a surrogate pair is no character and cannot be sent, but a model may well write one into the
arguments of a tool ("\\ud83d" alone, out of an emoji cut in two). It goes out as a question mark;
one odd character must not cost the call, let alone the connection.
"""

from __future__ import annotations

import json

import mcp_types as types


def encoded(message: types.JSONRPCMessage) -> bytes:
    """The message as JSON in UTF-8, on one line."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:  # pydantic's own encoder, about a surrogate
        fields = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
