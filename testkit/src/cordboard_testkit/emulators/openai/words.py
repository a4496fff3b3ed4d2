"""Shared part of OpenAI's two emulated text interfaces: keys, models, tools."""

from __future__ import annotations

import re
from typing import Any

import orjson
from starlette.requests import Request

from cordboard_testkit.emulators.http_service import Refused, only
from cordboard_testkit.emulators.text_service import Reply, tokens

MODELS = ("gpt-5.4-mini", "gpt-5.4", "gpt-4.1-mini")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
EFFORTS = (None, "none", "minimal", "low", "medium", "high", "xhigh", "max")


class OpenAIWords:
    def __init__(self, key: str, models: tuple[str, ...]) -> None:
        self._key = key
        self._models = models
        self._number = 0

    def model(self, request: Request, name: Any) -> str:
        given = request.headers.get("authorization", "")
        if given != (f"Bearer {self._key}" if self._key else ""):
            message = "Incorrect API key provided: " + given.removeprefix("Bearer ")[:8] + "***."
            raise Refused(401, message, "invalid_api_key")
        if name not in self._models:
            message = f"The model `{name}` does not exist or you do not have access to it."
            raise Refused(404, message, "model_not_found")
        return str(name)

    def refusal(self, refused: Refused) -> tuple[int, dict[str, Any]]:
        kind = {429: "rate_limit_error", 401: "authentication_error"}.get(
            refused.status, "server_error" if refused.status >= 500 else "invalid_request_error"
        )
        error = {"message": refused.message, "type": kind, "param": None, "code": refused.code}
        return refused.status, {"error": error}

    def next_id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number:08x}"


def check_common(body: dict[str, Any]) -> None:
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        value = body.get(name)
        if value is not None and not (isinstance(value, int | float) and low <= value <= high):
            raise Refused(400, f"Invalid '{name}': must be between {low} and {high}.")
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in body and not body.get("tools"):
            raise Refused(400, f"'{name}' is only allowed when 'tools' are specified.")
    if len(body.get("tools") or ()) > 128:
        raise Refused(400, "Invalid 'tools': array too long. Expected maximum length 128.")


def check_function(function: Any, allowed: str, where: str) -> None:
    only(function, frozenset(allowed.split()), where, "Unknown parameter: '{where}'.")
    name = function.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.match(name):
        raise Refused(400, f"Invalid '{where}.name': string does not match '^[a-zA-Z0-9_-]+$'.")
    if len(function.get("description") or "") > 1024:
        raise Refused(400, f"Invalid '{where}.description': string too long.")
    schema = function.get("parameters")
    if schema is None:
        return
    if not isinstance(schema, dict) or schema.get("type") != "object":
        got = schema.get("type") if isinstance(schema, dict) else schema
        message = f"Invalid schema for function '{name}': schema must be a JSON Schema of "
        raise Refused(400, message + f"'type: \"object\"', got 'type: \"{got}\"'.")
    for word in ("anyOf", "oneOf", "allOf", "enum", "not"):
        if word in schema:
            message = f"Invalid schema for function '{name}': schema must have type 'object' and "
            raise Refused(400, message + f"not have '{word}' at the top level.")
    _check_arrays(schema, str(name))


def _check_arrays(schema: Any, name: str) -> None:
    if isinstance(schema, list):
        for one in schema:
            _check_arrays(one, name)
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and "items" not in schema:
            message = f"Invalid schema for function '{name}': array schema missing items."
            raise Refused(400, message)
        for value in schema.values():
            _check_arrays(value, name)


def text_of(content: Any, at: int) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    told = f"Invalid value for 'content': expected a string, got null. (messages[{at}])"
    raise Refused(400, told)


def spoken(reply: Reply) -> int:
    return tokens(reply.text + "".join(as_json(ask.arguments) for ask in reply.asks))


def as_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def framed(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
