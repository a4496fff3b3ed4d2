"""One endpoint of the admin port: method, path, permission, scope, types, audit, handler.

The table of all (`cordboard.admin.table`) is the only source of routes, the OpenAPI document, the
page of permissions and the tests of them. An endpoint without a stated permission, scope, answer
and audit cannot be made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

import structlog
from pydantic import BaseModel, ConfigDict
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from cordboard.accounts.audit import AuditEntry
from cordboard.accounts.rights import Permission, Rights
from cordboard.accounts.store import Key, Session
from cordboard.admin.first_answers import Attempt
from cordboard.admin.guard import Arrival
from cordboard.admin.other_engines import Place
from cordboard.admin.pace import CHANGE, Pace
from cordboard.admin.services import AdminServices
from cordboard.admin.sockets import Socket
from cordboard.errors import RequestRefused

LAST_PART_SECONDS = 1.0
"""Timeout for the regular end of a stream, after which its connection is cut."""

log = structlog.get_logger()


class Takes(BaseModel):
    """The base of bodies and queries: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def facts(self) -> dict[str, Any]:
        """Return what the audit keeps of a body. No secrets, no words of a call."""
        return {}

    def subject(self) -> str:
        """Return what the act is on, for the audit, if the path does not say it."""
        return ""


class Gives(BaseModel):
    """The base of answers."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Done(Gives):
    """It was done."""

    done: Literal[True] = True


@dataclass(frozen=True, slots=True)
class Content:
    """Answers that are not JSON: the handler returns a `Response` of one of these media types."""

    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Frames:
    """A websocket. It is a GET whose handler works with `Ask.socket`, until it returns or the
    client goes. Closed with 4000 and the HTTP status when it is refused later."""

    protocol: str
    """Name in `Sec-WebSocket-Protocol`, such as `cordboard.live.v1`. The client must offer it."""
    receives: tuple[type[BaseModel], ...]
    """Text frames of the client."""
    sends: tuple[type[BaseModel], ...]
    """Text frames of the server. Binary frames are described on the subject's page."""
    ticket: str = ""
    """Purpose of the one-time ticket that the client must have (`cordboard.admin.tickets`)."""


class LastingAnswer(StreamingResponse):
    """Server-sent events. Like a websocket it takes no place of the requests, and ends with the
    rights of its caller and with the engine."""

    def __init__(self, lines: AsyncIterator[bytes], ask: Ask, on_close: Callable[[], None]) -> None:
        """`on_close` is called at the end, also if not one line was sent."""
        super().__init__(lines, media_type="text/event-stream")
        self._ask = ask
        self._on_close = on_close
        self._task: asyncio.Future[None] | None = None
        self._ended = self._started = False

    def end(self, code: int, reason: str) -> None:
        """End it, whatever the reason."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            self._on_close()
            await Response(media_type=self.media_type)(scope, receive, send)
            return
        who, services = self._ask.who, self._ask.services

        async def started(message: Message) -> None:
            self._started = True
            await send(message)

        try:
            with services.sockets.entry(self, who.holder, who.rights):
                self._task = asyncio.ensure_future(super().__call__(scope, receive, started))
                await self._task
            return
        except asyncio.CancelledError:
            if not self._ended:  # the server cancels us
                raise
        except ClientDisconnect:
            return
        except Exception as error:  # border of the stream
            if not self._started:  # the application answers
                raise
            if not isinstance(error, RequestRefused):
                log.exception("admin_stream_failed", request=self._ask.request, error=repr(error))
                services.internal_error("live")
        finally:
            self._on_close()
        if not self._started:
            return
        with suppress(TimeoutError):  # the client may not read
            async with asyncio.timeout(LAST_PART_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


class NotModified(Exception):
    """The caller has the present state already: the answer is 304."""


class Open(Enum):
    """Permissions of endpoints that need no right."""

    ANYONE = "anyone"
    """Also without a session: only to sign in, and to see whether one is signed in."""
    SIGNED_IN = "signed in"
    """A person with a session, no key."""


class Scope(Enum):
    """How an endpoint keeps to the scope of the caller, other than by one context."""

    NONE = "none"
    """It is not about contexts."""
    FILTERED = "filtered"
    """The answer has only what is within the scope."""
    ALL = "all contexts"
    """It is about the calls of all contexts: a limited scope excludes it (403)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A person or a program, recognised by a session or a key."""

    name: str
    """The user's name, or `key:` and the key's id."""
    rights: Rights
    role: str
    session: Session | None = None
    token: str = field(default="", repr=False)
    """Of the session."""
    key: Key | None = None
    node: str = ""
    """Node of the engine at which they are signed in, if it is another one."""
    foreign: str = ""
    """`holder` of a caller of another engine."""

    @property
    def holder(self) -> str:
        """The session or key, as one word. It opens nothing, and outlives an elevation."""
        if self.node:
            return self.foreign
        if self.session is not None:
            return f"session:{self.session.id}"
        return f"key:{self.key.id if self.key is not None else ''}"


@dataclass(slots=True)
class Ask:
    """One request that may be served, for its handler."""

    endpoint: Endpoint
    services: AdminServices
    arrival: Arrival
    request: str
    """Its id, which the answer and the audit have too."""
    caller: Caller | None
    params: Mapping[str, str]
    body: Any = None
    """An instance of `Endpoint.takes`."""
    query: Any = None
    """An instance of `Endpoint.asks`."""
    context: str = ""
    """The context that the request is about, if it is about one."""
    subject: Any = None
    """Set by the endpoint's scope: the call that the request is about, for the handler."""
    elsewhere: Place | None = None
    """The other engine that has the call; the request is carried out there."""
    method: str = "GET"
    """`HEAD` too, for an endpoint of GET: the answer's body is not sent then."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    cookie: Callable[[str], str] = field(default=lambda name: "", repr=False)
    """Returns a cookie of the browser; empty without one."""
    etag: str = ""
    """Set by `unchanged`; sent with the answer."""
    new_session: str | None = None
    """Set by the handler: the token of a session that begins here; empty to sign out."""
    recorded: bool = False
    """True if the audit has a line about it."""
    connection: Socket | None = None
    """Of an endpoint that gives `Frames`."""
    attempt: Attempt | None = None
    """Of a request with an `Idempotency-Key`."""
    done: tuple[int, AuditEntry] | None = None
    """Its line in the audit, with its number: the act is allowed, and begins after it."""

    @property
    def who(self) -> Caller:
        """The caller of an endpoint that needs one."""
        if self.caller is None:
            raise RequestRefused(401, "signed_out", "sign in first")
        return self.caller

    @property
    def who_node(self) -> str:
        """Node at which the caller is signed in, if it is another one; empty otherwise."""
        return self.caller.node if self.caller is not None else ""

    @property
    def socket(self) -> Socket:
        """The socket of an endpoint that gives `Frames`."""
        if self.connection is None:
            raise RuntimeError(f"{self.endpoint.path} is not a websocket")
        return self.connection

    def unchanged(self, digest: str) -> None:
        """Send `digest` as the answer's ETag: it stands for all that the answer depends on, the
        caller's rights too. Raises `NotModified` if the caller has this answer already."""
        self.etag = f'"{digest}"'
        tags = self.headers.get("if-none-match", "").split(",")
        known = {tag.strip().removeprefix("W/") for tag in tags}
        if self.etag in known:
            raise NotModified

    def need(self, permission: Permission) -> None:
        """Raise `RequestRefused` 403 unless the caller has this right too."""
        if not self.who.rights.may(permission):
            raise lacks(permission)

    def need_all_contexts(self) -> None:
        """Raise `RequestRefused` 403 if the caller's scope is limited."""
        if not self.who.rights.everywhere:
            message = "this is about all contexts, and needs the scope of all"
            raise RequestRefused(403, "forbidden", message)

    async def record(self, **differs: Any) -> None:
        """Write a line of the audit, before the act. `differs` has the fields of `AuditEntry` that
        are not as the request says. Raises `StoreUnavailable`."""
        caller = self.caller
        facts: dict[str, Any] = {
            "who": caller.name if caller is not None else "",
            "role": caller.role if caller is not None else "",
            "via": "" if caller is None else _way(caller),
            "action": self.endpoint.audit,
            "on": "/".join(self.params.values()) or (self.body.subject() if self.body else ""),
            "client": self.arrival.client,
            "context": self.context,
            "detail": (self.body.facts() if self.body is not None else {}) | self._nodes(),
            "request": self.request,
        }
        entry = AuditEntry(**(facts | differs))
        seq = await self.services.run(self.services.audit.append, entry)
        self.recorded = True
        if entry.result == "done":
            self.done = seq, entry

    def _nodes(self) -> dict[str, str]:
        """Return the other node that takes part, for the audit."""
        if self.elsewhere is not None:
            return {"on_node": self.elsewhere.node}
        return {"from_node": self.who_node} if self.who_node else {}

    async def record_failure(self, why: str) -> None:
        """Add to the last line of the audit that its act has failed. Raises `StoreUnavailable`."""
        if self.done is None:
            return
        seq, entry = self.done
        failed = replace(entry, result="failed", detail={"of": seq, "why": why})
        await self.services.run(self.services.audit.append, failed)


def _way(caller: Caller) -> Literal["session", "key", "node"]:
    return "node" if caller.node else "key" if caller.key else "session"


OneContext: TypeAlias = Callable[[Ask], str | Awaitable[str | None] | None]
"""Returns the context that a request is about, at once or after a look at a disk; None if there is
no such thing. May raise `RequestRefused` for what the table cannot say, such as a permission that
depends on a tool."""
Handler: TypeAlias = Callable[[Ask], Awaitable[BaseModel | Response | None]]
"""Returns the answer; None from a websocket."""
_METHODS = ("GET", "POST", "PUT", "DELETE")
UNRECORDED = ""
"""Value of `audit` for what changes nothing and shows nothing personal."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    """After `/api/v1`, such as `/calls/{call_id}/hangup`."""
    _: KW_ONLY
    may: Permission | Open
    scope: Scope | OneContext
    takes: type[Takes] | None
    """The JSON body; None for none."""
    gives: type[BaseModel] | Content | Frames
    audit: str
    """Name of the act in the audit, or `UNRECORDED`."""
    does: Handler
    """Its docstring is the description in the documentation."""
    asks: type[Takes] | None = None
    """The query."""
    elevated: bool = False
    """True if the caller must have given the password or a code again; keys cannot."""
    records_itself: bool = False
    """True if the handler writes the audit, because it first decides who the caller is."""
    from_elsewhere: bool = False
    """True for a GET to which another web page may send the browser."""
    pace: Pace | None = CHANGE
    """How often a caller may do it, if it is a change or a websocket; None: the handler
    decides."""
    most_bytes: int = 1024 * 1024
    """Bytes of the body."""
    forwards: bool = False
    """True if it may be asked for at any engine of a cluster: the one that has the call serves
    it."""
    kept: bool = False
    """True if it `forwards`, and is about what is left of a call: an engine that has its files
    serves it."""
    repeatable: bool = False
    """True if the header `Idempotency-Key` is honoured: a repeated request gets the first one's
    answer, and does nothing."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for an endpoint that would be unguarded."""
        problems = {
            "method": self.method not in _METHODS,
            "path": not re.fullmatch(r"(/[a-z][a-z-]*|/\{[a-z_]+\})+", self.path),
            "may": not isinstance(self.may, (Permission, Open)),
            "scope": not (isinstance(self.scope, Scope) or callable(self.scope)),
            "audit": not isinstance(self.audit, str),
            "takes": self.takes is not None and self.method == "GET",
            "from_elsewhere": self.from_elsewhere and self.method != "GET",
            "does": not (self.does.__doc__ or "").strip(),
            "gives": isinstance(self.gives, Frames) and self.method != "GET",
        }
        for name, wrong in problems.items():
            if wrong:
                message = f"{self.method} {self.path}: {name}={getattr(self, name)!r}"
                raise ValueError(message)

    @property
    def frames(self) -> Frames | None:
        """The frames of a websocket; None for other endpoints."""
        return self.gives if isinstance(self.gives, Frames) else None

    @property
    def body_optional(self) -> bool:
        """True if a request without a body is as one with `{}`."""
        fields = () if self.takes is None else self.takes.model_fields.values()
        return not any(field.is_required() for field in fields)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parts of the path that vary."""
        return tuple(re.findall(r"\{([a-z_]+)\}", self.path))


def lacks(permission: Permission) -> RequestRefused:
    """Return the refusal of a caller without this right."""
    return RequestRefused(403, "forbidden", f"this needs the permission {permission}")
