"""A message of a service that names its kind in the field `type`. Pure."""

from __future__ import annotations

import orjson

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import JsonObject


def typed_message(message: bytes, host: ProtocolHost) -> tuple[str, JsonObject] | None:
    """Return the type and the whole message; None for a malformed one, which is reported to the
    host."""
    try:
        read = orjson.loads(message)
    except orjson.JSONDecodeError:
        host.ignored("malformed", "no JSON")
        return None
    kind = read.get("type") if isinstance(read, dict) else None
    if not isinstance(kind, str):
        host.ignored("malformed", "no type")
        return None
    return kind, read
