"""Messages of ARI's websocket, without the socket: text in, messages out, and back.

One websocket carries both: events of our Stasis application, and REST requests with their
responses (`RESTRequest`, `RESTResponse`; asterisk 22 `rest-api/api-docs/events.json`, and measured
on 22.10.1). Only what the engine uses is typed; the rest of an event stays in `body`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from cordboard.errors import AsteriskError

Json = Any
"""Decoded JSON; each field is checked where it is used."""
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories: control, format (also direction of reading), surrogate, private use, line
ends."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as events and `GET channels` describe it. Fields that the caller controls (name,
    number, extension) are cleaned: see `one_line`."""

    id: str
    state: str = ""
    """`Up` once answered; `Ring`, `Ringing`, `Down` before."""
    caller_name: str = ""
    caller_number: str = ""
    exten: str = ""
    """Current extension in the dialplan."""
    application: str = ""
    """Dialplan application that runs the channel, e.g. `Stasis`."""
    name: str = ""
    """Technology, endpoint and a running number, e.g. `PJSIP/acme-0000001f`. No caller chooses
    any of it."""

    @classmethod
    def read(cls, body: Json) -> Channel:
        """Read a channel from its JSON. Missing parts become empty.

        Raises AsteriskError for a channel without an id.
        """
        if not isinstance(body, dict) or not isinstance(body.get("id"), str):
            raise AsteriskError("a channel without an id")
        caller, dialplan = _part(body, "caller"), _part(body, "dialplan")
        return cls(
            id=body["id"],
            state=_text(body, "state"),
            caller_name=one_line(_text(caller, "name")),
            caller_number=one_line(_text(caller, "number")),
            exten=one_line(_text(dialplan, "exten")),
            application=_text(dialplan, "app_name"),
            name=_text(body, "name"),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in our application."""

    type: str
    application: str = ""
    channel: Channel | None = None
    """The channel that it is about; of a `Dial`, the dialled one."""
    body: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one request."""

    request_id: str
    status: int
    body: Json
    """Decoded JSON; None for an empty body (204)."""

    @property
    def error(self) -> str:
        """Asterisk's description of the error."""
        if isinstance(self.body, dict):
            return _text(self.body, "message") or _text(self.body, "error")
        return ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Text that is not a message of ARI; it is logged and ignored."""

    problem: str


def encode_request(
    request_id: str, method: str, path: str, query: Mapping[str, str], body: Json = None
) -> str:
    """Return one REST request as websocket text. `path` is without `/ari/` and without query."""
    message: dict[str, Json] = {
        "type": "RESTRequest",
        "transaction_id": request_id,
        "request_id": request_id,
        "method": method,
        "uri": path,
    }
    if query:
        message["query_strings"] = [{"name": key, "value": query[key]} for key in query]
    if body is not None:
        message["content_type"] = "application/json"
        message["message_body"] = orjson.dumps(body).decode()
    return orjson.dumps(message).decode()


def decode(text: str | bytes) -> Event | Response | Malformed:
    """Read one websocket message. Never raises."""
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return Malformed(f"not JSON: {error}")
    if not isinstance(body, dict) or not isinstance(body.get("type"), str):
        return Malformed("no object with a type")
    if body["type"] == "RESTResponse":
        return _response(body)
    channel = None
    about = "peer" if body["type"] == "Dial" else "channel"
    if about in body:
        try:
            channel = Channel.read(body[about])
        except AsteriskError as error:
            return Malformed(f"{body['type']}: {error}")
    return Event(body["type"], _text(body, "application"), channel, body)


def _response(body: dict[str, Json]) -> Response | Malformed:
    request_id, status = body.get("request_id"), body.get("status_code")
    if not isinstance(request_id, str) or not isinstance(status, int):
        return Malformed("a RESTResponse without request_id or status_code")
    text = body.get("message_body")
    if not text:
        return Response(request_id, status, None)
    try:
        return Response(request_id, status, orjson.loads(text))
    except orjson.JSONDecodeError:
        # Only the status matters; a 500 may carry plain text.
        return Response(request_id, status, {"message": str(text)[:200]})


def one_line(text: str) -> str:
    """Return text from a caller as one plain line. Runs of invisible characters become one space:
    line breaks and other control characters (a SIP user may hold them percent-encoded), and
    characters that change the reading direction and so would show an operator another name."""
    if text.isascii() and text.isprintable():
        return text.strip()
    shown = (" " if unicodedata.category(c) in _UNSEEN else c for c in text)
    return " ".join("".join(shown).split())


def _part(body: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    part = body.get(key)
    return part if isinstance(part, dict) else {}


def _text(body: Mapping[str, Json], key: str) -> str:
    text = body.get(key)
    return text if isinstance(text, str) else ""
