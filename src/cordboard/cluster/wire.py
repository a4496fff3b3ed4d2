"""The messages of a cluster, as bytes. Pure.

Each is JSON with its kind and the version of its form: `{"v": 1, "kind": "lease", ...}`. A reader
ignores fields it does not know, so that a later program may add some; it refuses a higher version,
whose fields may mean something else. Engines of neighbouring versions run side by side during an
upgrade: `tests/cluster/test_wire.py` holds recorded messages of each version.

A batch of events is such a line of JSON, followed by the lines of the ledger as they are; what the
administrations of two engines exchange has its content there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from hashlib import blake2b
from typing import Any, TypeVar, get_type_hints

import orjson

from cordboard.errors import WireTooNew, WireUnreadable

VERSION = 1
MOST_BYTES = 1_000_000
"""Size limit of a message: NATS' own default (`max_payload`) is 1 MiB."""
_MOST_INT = 2**63 - 1
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True)
class EngineLease:
    """An engine that is alive. Its entry expires unless it is renewed."""

    instance: str
    """`<node>-<6 hex digits>`: fresh at each start of an engine."""
    node: str
    version: str = ""
    """Version of the program."""
    labels: tuple[str, ...] = ()
    region: str = ""
    free_slots: int = 0
    """Calls that it would take now; 0 while it drains."""
    live_calls: int = 0
    draining: bool = False
    asterisk: str = ""
    """`host:port` of the Asterisk that it controls; empty: none, or it cannot reach it now."""
    started_at: str = ""
    """Wall-clock time of its start, ISO 8601 with zone."""
    revoked_by: str = ""
    """Instance that has taken this one for dead. The revoked instance must drop its calls."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The owner of a call, and where another engine finds the caller."""

    call_id: str
    owner: str
    """Instance that serves the call."""
    epoch: int = 0
    """Revision at which the owner got the call: grows with each owner. 0: that of this entry."""
    asterisk: str = ""
    """`host:port` of the Asterisk that has the caller; empty: the call cannot be taken over."""
    caller_channel: str = ""
    context: str = ""
    provider: str = ""
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The call's channel variables."""
    started_at: str = ""
    """Wall-clock time of the offer, ISO 8601 with zone."""
    state: str = "offered"
    """As far as the call has come: `offered`, `answered`, `talking`, `ending`."""
    handing_over_to: str = ""
    """Instance that the owner is about to give the call to."""
    labels: tuple[str, ...] = ()
    """Labels of the nodes that can serve the call; empty: all can."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Lines of a call's ledger, one after the other."""

    call_id: str
    epoch: int
    """Epoch of the owner that wrote them."""
    first: int
    """Number of the first line; the first line of a ledger has number 1."""
    count: int
    begin: int
    """Bytes of the ledger before the first line."""
    end: int
    """Bytes of the ledger up to the end of the last line."""
    lines: bytes = b""

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the first line: of one call, no two batches have the same."""
        return self.epoch, self.first


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request to the administration of another engine, on behalf of a person or a program that is
    signed in at the sender's, which has checked their rights. It has no cookie, token or
    password."""

    session: str
    """Names the request, and the subjects of its frames."""
    sender: str
    """Instance that sends it."""
    node: str
    """Node of the sender."""
    sent_ms: int
    """Wall-clock time, ms since 1970."""
    method: str
    path: str
    """After `/api/v1`."""
    query: str = ""
    websocket: bool = False
    request: str = ""
    """Id of the request, for both audits."""
    headers: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    """Subprotocols that a websocket offers."""
    who: str = ""
    """Name of the person or key; empty: the engine itself."""
    role: str = ""
    holder: str = ""
    """The session or key there, as one word. It opens nothing."""
    client: str = ""
    """IP address of the browser."""
    permissions: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """Each a JSON array of patterns of contexts."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class AdminFrame:
    """A piece of the exchange that an `AdminRequest` has begun, in either direction."""

    number: int
    """1 for the first one of its sender."""
    type: str
    """`alive`, `taken` (of `code` frames), `accept`, `start`, `body`, `text`, `bytes` or `end`."""
    code: int = 0
    """HTTP status of `start`, close code of `end`."""
    reason: str = ""
    """Of `end`; the subprotocol of `accept`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    part: bool = False
    """True if the content goes on in the next frame."""
    more: bool = False
    """Of `body`: another one follows."""
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class ServerHolder:
    """The engine that runs an MCP server for the cluster. The entry expires unless renewed."""

    server: str
    instance: str
    life: str
    """One life of the server; never comes back."""
    ready: bool = False
    """True while other engines may call its tools."""
    tools: str = ""
    """Hash of the tools' definitions: another one after each change."""


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """An engine's breaker of an MCP server is open. The entry expires unless renewed."""

    server: str
    instance: str


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request to the engine that runs an MCP server."""

    request_id: str
    """`<name of the relay>-<number>`: each relay counts its requests from 1."""
    life: str
    """Life of the server that it is meant for; any other one must not carry it out."""
    method: str
    """`tools/list`, `tools/call`, or `cancel`: of the request with the same id."""
    tool: str = ""
    timeout_ms: int = 0
    patience_ms: int = 0
    """Time after the timeout in which a late answer is still wanted."""
    hidden: tuple[str, ...] = ()
    """Values in the arguments that must not be shown to operators."""
    arguments: bytes = b""
    """JSON."""


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The answer to a `ServerRequest`."""

    outcome: str
    """`result`, or the kind of the failure: `timeout`, `unavailable`, `refused`, `error`."""
    words: str = ""
    """Of the failure."""
    request_id: str = ""
    """Of the request; empty: the answer is of a program that did not tell it."""
    result: bytes = b""
    """JSON."""


@dataclass(frozen=True, slots=True)
class HandOverStep:
    """A message between two engines, one of which hands a call over: docs/cluster-calls.md."""

    step: str
    """`take`: the owner asks the other engine to make the call ready. `ready`: that is done, and it
    asks for the caller. `failed`: it gives the call up; the owner keeps it."""
    call_id: str
    sender: str
    """Instance that sends it."""
    lines: int = 0
    """Lines of the call's ledger that the other engine goes on from."""
    why: str = ""
    """Reason of a failure."""


@dataclass(frozen=True, slots=True)
class HandOverAnswer:
    """The answer to a step."""

    agreed: bool
    why: str = ""
    """Reason for which it is not agreed."""


def token(name: str) -> str:
    """Return a name that may stand in a subject. Raises `ValueError` for any other."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"not a name for the bus: {name!r}")
    return name


def place_of(asterisk: str) -> str:
    """Return the name of an Asterisk (`host:port`) in the subjects of its engines and calls; `none`
    for engines without one. Two Asterisks might share a name: what is done with an entry depends on
    the `asterisk` in it."""
    return blake2b(asterisk.encode(), digest_size=6).hexdigest() if asterisk else "none"


def encode_lease(lease: EngineLease) -> bytes:
    return encode_message("lease", fields_of(lease))


def decode_lease(data: bytes) -> EngineLease:
    """Raises `WireUnreadable`."""
    return _decode(EngineLease, "lease", data)


def encode_record(record: CallRecord) -> bytes:
    return encode_message("call", fields_of(record))


def decode_record(data: bytes) -> CallRecord:
    """Raises `WireUnreadable`."""
    return _decode(CallRecord, "call", data)


def encode_step(step: HandOverStep) -> bytes:
    return encode_message("hand_over", fields_of(step))


def decode_step(data: bytes) -> HandOverStep:
    """Raises `WireUnreadable`."""
    return _decode(HandOverStep, "hand_over", data)


def encode_answer(answer: HandOverAnswer) -> bytes:
    return encode_message("hand_over_answer", fields_of(answer))


def decode_answer(data: bytes) -> HandOverAnswer:
    """Raises `WireUnreadable`."""
    return _decode(HandOverAnswer, "hand_over_answer", data)


def encode_batch(batch: EventBatch) -> bytes:
    return _with_rest("events", fields_of(batch), "lines")


def decode_batch(data: bytes) -> EventBatch:
    """Raises `WireUnreadable`."""
    head, _, lines = data.partition(b"\n")
    batch = _decode(EventBatch, "events", head, lines=lines)
    if batch.first < 1 or batch.begin > batch.end:
        raise WireUnreadable("events: a batch that begins nowhere")
    if not lines.endswith(b"\n") or lines.count(b"\n") != batch.count:
        raise WireUnreadable(f"events: expected {batch.count} whole lines")
    return batch


def encode_request(request: AdminRequest) -> bytes:
    return _with_rest("admin-request", fields_of(request), "body")


def decode_request(data: bytes) -> AdminRequest:
    """Raises `WireUnreadable`."""
    head, _, body = data.partition(b"\n")
    return _decode(AdminRequest, "admin-request", head, body=body)


def encode_frame(frame: AdminFrame) -> bytes:
    return _with_rest("admin-frame", fields_of(frame), "content")


def decode_frame(data: bytes) -> AdminFrame:
    """Raises `WireUnreadable`."""
    head, _, content = data.partition(b"\n")
    return _decode(AdminFrame, "admin-frame", head, content=content)


def _with_rest(kind: str, message: dict[str, Any], rest: str) -> bytes:
    """Return a message whose field `rest` follows its line as it is."""
    content: bytes = message.pop(rest)
    return encode_message(kind, message) + b"\n" + content


def encode_holder(holder: ServerHolder) -> bytes:
    return encode_message("mcp_holder", fields_of(holder))


def decode_holder(data: bytes) -> ServerHolder:
    """Raises `WireUnreadable`."""
    return _decode(ServerHolder, "mcp_holder", data)


def encode_report(report: BreakerReport) -> bytes:
    return encode_message("mcp_breaker", fields_of(report))


def decode_report(data: bytes) -> BreakerReport:
    """Raises `WireUnreadable`."""
    return _decode(BreakerReport, "mcp_breaker", data)


def encode_server_request(request: ServerRequest) -> bytes:
    return _with_rest("mcp_request", fields_of(request), "arguments")


def decode_server_request(data: bytes) -> ServerRequest:
    """Raises `WireUnreadable`. The arguments are not looked at."""
    head, _, arguments = data.partition(b"\n")
    return _decode(ServerRequest, "mcp_request", head, arguments=arguments)


def encode_server_answer(answer: ServerAnswer) -> bytes:
    return _with_rest("mcp_answer", fields_of(answer), "result")


def decode_server_answer(data: bytes) -> ServerAnswer:
    """Raises `WireUnreadable`. The result is not looked at."""
    head, _, result = data.partition(b"\n")
    return _decode(ServerAnswer, "mcp_answer", head, result=result)


def fields_of(message: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name. What they hold is no copy, as `asdict` makes one,
    which took longer than all else of a batch; `encode_message` writes dataclasses, too."""
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def encode_message(kind: str, message: Mapping[str, Any], version: int = VERSION) -> bytes:
    """Return a message of that kind and version as one line of JSON."""
    whole = {"v": version, "kind": kind, **message}
    try:
        return orjson.dumps(whole)
    except TypeError:  # lone surrogates, which a caller's name may have
        return json.dumps(whole, ensure_ascii=False, default=asdict).encode("utf-8", "replace")


def decode_message(kind: str, data: bytes, version: int = VERSION) -> dict[str, Any]:
    """Return the fields of a message, whose values are not checked. Raises `WireUnreadable` for
    another kind, `WireTooNew` for a later version than the given one."""
    if len(data) > MOST_BYTES:
        raise WireUnreadable(f"{kind}: longer than {MOST_BYTES} bytes")
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise WireUnreadable(f"{kind}: expected JSON") from None
    if not isinstance(found, dict) or not is_count(found.get("v")) or found["v"] < 1:
        raise WireUnreadable(f"{kind}: expected an object with its version `v`")
    if found["v"] > version:
        raise WireTooNew(
            f"{kind}: of version {found['v']}, and this engine reads up to {version}: update it"
        )
    if found.get("kind") != kind:
        raise WireUnreadable(f"{kind}: expected a message of this kind")
    return found


Message = TypeVar("Message")


def _decode(form: type[Message], kind: str, data: bytes, **given: Any) -> Message:
    found = decode_message(kind, data)
    values = dict(given)
    for name, check, needed in _FIELDS[form]:
        if name in found and name not in given:
            if not check(found[name]):
                raise WireUnreadable(f"{kind}.{name}: a value of another type")
            value = found[name]
            values[name] = tuple(value) if isinstance(value, list) else value
        elif needed and name not in given:
            raise WireUnreadable(f"{kind}.{name}: missing")
    return form(**values)


Check = Callable[[Any], bool]


def _fields_of(form: type[Any]) -> tuple[tuple[str, Check, bool], ...]:
    """Return each field's name, the check of its values, and True if it has no default."""
    hints = get_type_hints(form)
    return tuple(
        (
            each.name,
            _CHECKS[str(hints[each.name])],
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(form)
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """True for an integer from 0 that fits 63 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_INT


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _maps_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_CHECKS: Mapping[str, Check] = {
    str(str): _is_text,
    str(int): is_count,
    str(bool): lambda value: isinstance(value, bool),
    str(bytes): lambda value: False,
    str(tuple[str, ...]): _are_texts,
    str(Mapping[str, str]): _maps_texts,
}
_FIELDS: Mapping[type[Any], tuple[tuple[str, Check, bool], ...]] = {
    form: _fields_of(form)
    for form in (
        EngineLease,
        CallRecord,
        EventBatch,
        HandOverStep,
        HandOverAnswer,
        AdminRequest,
        AdminFrame,
        ServerHolder,
        BreakerReport,
        ServerRequest,
        ServerAnswer,
    )
}
