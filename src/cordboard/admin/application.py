"""The HTTP application of the admin port: the order of all checks of a request.

    way and Host, Origin → endpoint → caller → pace → permission → elevation → body and query
    → scope → audit → the act → its answer

Each check is the same for all endpoints, and follows from the table. A request outside of the
caller's scope gets the answer of a thing that does not exist. Errors are
`{"error": {"code", "message", "at", "request"}}`; `code` is a stable word. A websocket passes the
same checks in its handshake; one that is refused gets the same answer in place of a socket.

Paths outside of `/api` are those of the interface (`page.py`): they pass the first check alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router, WebSocketRoute
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope
from starlette.websockets import WebSocket, WebSocketState

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import (
    UNRECORDED,
    Ask,
    Caller,
    Endpoint,
    Frames,
    LastingAnswer,
    NotModified,
    Open,
    Scope,
    Takes,
)
from cordboard.admin.forwarding import Bridge, answer_of, why_refused
from cordboard.admin.guard import SAFE, WEBSOCKET, Arrival, Guard, joined
from cordboard.admin.other_engines import Place
from cordboard.admin.page import Page
from cordboard.admin.services import AdminServices
from cordboard.admin.sockets import INTERNAL, Socket, SocketClosed
from cordboard.admin.tickets import PREFIX
from cordboard.api.answers import JsonAnswer, read_body, to_json
from cordboard.api.chat import http_refusal
from cordboard.api.gate import SECURITY_HEADERS
from cordboard.errors import (
    AccountRefused,
    ChatRefused,
    ClusterError,
    CordboardError,
    IndexUnavailable,
    NotThere,
    RequestRefused,
    StoreUnavailable,
)

BASE = "/api/v1"
MOST_AT_ONCE = 64
"""Requests that are answered at the same time; further ones get 503."""
MOST_KEYS = 100
"""Keys of a body or query. To list 100,000 wrong ones holds the interpreter for half a second, also
in a thread."""
BODY_SECONDS = 5.0
"""Timeout for receiving a body."""
_HEADERS = {
    **SECURITY_HEADERS,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
}
_HTTPS_ONLY = "max-age=31536000"
_CODES = {
    400: "bad_request",
    404: "not_there",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "not_json",
    429: "too_often",
    503: "busy",
}
_RECORDED_REFUSALS = frozenset({"forbidden", "not_elevated", "not_there"})
"""Refused changes that the audit has too. Others say nothing about a person."""

log = structlog.get_logger()


class AdminApplication:
    """An ASGI application over a table of endpoints."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        services: AdminServices,
        guard: Guard,
        page: Page,
        *,
        most_at_once: int = MOST_AT_ONCE,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._services = services
        self._guard = guard
        self._page = page
        self._most_at_once = most_at_once
        self._body_seconds = body_seconds
        self._answering = 0
        self._strangers_bodies = 0
        by_path: dict[str, dict[str, Endpoint]] = {}
        self._from_elsewhere: set[str] = set()
        for endpoint in endpoints:
            if endpoint.from_elsewhere:
                self._from_elsewhere.add(BASE + endpoint.path)
            by_path.setdefault(BASE + endpoint.path, {})[endpoint.method] = endpoint
        routes = [
            Route(path, self._serving(by_method), methods=[*by_method])
            for path, by_method in sorted(by_path.items(), key=_names_first)
        ]
        self._router = Router(routes, redirect_slashes=False)
        self._sockets = [
            (endpoint, endpoint.frames, WebSocketRoute(path, self._serve_socket))
            for path, by_method in by_path.items()
            for endpoint in by_method.values()
            if endpoint.frames is not None
        ]

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        request_id = scope["cordboard.request"] = secrets.token_hex(8)
        scope["app"] = self  # makes the router raise its 404 and 405
        request, secure = HTTPConnection(scope), False
        headers, is_socket = joined(request.headers), scope["type"] == "websocket"

        async def send_with_headers(message: Message) -> None:
            if message["type"].endswith("http.response.start"):  # of a refused websocket, too
                ours = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    ours.setdefault(name, value)
                ours["X-Request-Id"] = request_id
                if secure:
                    ours["Strict-Transport-Security"] = _HTTPS_ONLY
            await send(message)

        try:
            arrival = scope["cordboard.arrival"] = self._guard.arrival(
                headers, request.client.host if request.client else ""
            )
            secure = arrival.secure
            method = WEBSOCKET if is_socket else scope["method"]
            of_page = not is_socket and not scope["path"].startswith("/api/")
            from_elsewhere = of_page or scope["path"] in self._from_elsewhere
            self._guard.check(method, headers, arrival, from_elsewhere=from_elsewhere)
            if self._answering >= self._most_at_once and not is_socket:
                raise _busy()
        except RequestRefused as error:  # it takes no place
            await _refusal(error, request_id)(scope, receive, send_with_headers)
            return
        if is_socket:
            await self._serve_socket(WebSocket(scope, receive, send_with_headers))
            return
        if of_page and method in SAFE:
            shown = self._page.answer(scope["path"], headers.get("accept-encoding", ""))
            if shown is not None:
                await shown(scope, receive, send_with_headers)
                return
        await self._routed(scope, receive, send_with_headers)

    async def forwarded(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve a request of another engine (`admin.forwarded`), which has checked its way and its
        caller: `scope` has `cordboard.caller`."""
        scope["app"] = self
        if scope["type"] == "websocket":
            await self._serve_socket(WebSocket(scope, receive, send))
        elif self._answering >= self._most_at_once:
            await _refusal(_busy(), scope["cordboard.request"])(scope, receive, send)
        else:
            await self._routed(scope, receive, send)

    async def _routed(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request_id: str = scope["cordboard.request"]
        self._answering += 1
        scope["cordboard.place"] = True
        try:
            await self._router(scope, receive, send)
        except (HTTPException, RequestRefused) as error:  # 404 and 405; a stream without a place
            await _refusal(_as_refusal(error), request_id)(scope, receive, send)
        finally:
            self._answering -= scope["cordboard.place"]

    def _serving(
        self, by_method: Mapping[str, Endpoint]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            endpoint = by_method["GET" if request.method == "HEAD" else request.method]
            ask = self._ask(endpoint, request, request.path_params)
            ask.method, ask.headers = request.method, joined(request.headers)
            answer: Response | None = None
            try:
                answer = await self._answer(ask, request)
                if isinstance(answer, LastingAnswer):  # it is among the sockets from here on
                    request.scope["cordboard.place"] = False
                    self._answering -= 1
                return answer
            except NotModified:
                return Response(status_code=304, headers={"ETag": ask.etag})
            except Exception as error:  # noqa: BLE001 - task border of a request
                answer = _refusal(await self._explained(ask, error), ask.request)
            finally:
                if ask.attempt is not None:
                    ask.attempt.settle(answer)
            return answer

        return serve

    def _ask(self, endpoint: Endpoint, request: HTTPConnection, params: Mapping[str, str]) -> Ask:
        arrival: Arrival = request.scope["cordboard.arrival"]
        request_id: str = request.scope["cordboard.request"]
        cookie = partial(_cookie, request)
        return Ask(endpoint, self._services, arrival, request_id, None, params, cookie=cookie)

    async def _admit(self, ask: Ask, request: HTTPConnection) -> None:
        """Make all checks between the arrival of a request and its act, the audit too."""
        endpoint = ask.endpoint
        ask.caller = await self._recognised(request, ask.arrival)
        changes = endpoint.method not in SAFE or endpoint.frames is not None
        if changes and endpoint.pace is not None:
            self._services.paces.take(endpoint.pace, ask.who.name)
        if ask.who_node and not endpoint.forwards:
            raise RequestRefused(403, "forbidden", "this is not for another engine's people")
        self._check_permission(ask)
        if endpoint.asks is not None:
            ask.query = _read(endpoint.asks, _given(request.query_params), "the query")
        elif request.query_params:
            raise RequestRefused(422, "invalid", "this takes no query")
        if isinstance(request, Request):
            ask.body = await self._body(ask, request)
        await self._check_scope(ask)
        if isinstance(request, WebSocket):
            if ask.elsewhere is None:
                self._check_ticket(ask, request)
        elif endpoint.frames is not None:
            headers = {"Upgrade": "websocket"}
            raise RequestRefused(426, "websocket", "this is a websocket", headers=headers)
        key = request.headers.get("idempotency-key")
        if endpoint.repeatable and key is not None:
            content = ask.body.model_dump_json() if ask.body is not None else ""
            place = (ask.who.name, request.url.path, key)
            ask.attempt = self._services.first_answers.attempt(place, content)
            if not ask.attempt.first:
                return
        if endpoint.audit != UNRECORDED and not endpoint.records_itself:
            await ask.record()

    async def _answer(self, ask: Ask, request: Request) -> Response:
        endpoint, services = ask.endpoint, self._services
        await self._admit(ask, request)
        if ask.attempt is not None and not ask.attempt.first:
            return await ask.attempt.answer()
        if ask.elsewhere is not None:
            path = request.url.path.removeprefix(BASE)
            answer = await answer_of(ask, path, request.url.query)
            if answer.status_code >= 400:
                await ask.record_failure(why_refused(answer))
            return answer
        given = await endpoint.does(ask)
        if endpoint.audit != UNRECORDED and not ask.recorded:
            raise RuntimeError(f"{endpoint.method} {endpoint.path} left no line in the audit")
        if isinstance(given, Response):
            answer = given
        elif given is None:
            raise RuntimeError(f"{endpoint.method} {endpoint.path} gave no answer")
        else:
            answer = JsonAnswer(await services.run(_written, given))
        if ask.etag:
            answer.headers["ETag"] = ask.etag
        if ask.new_session is not None:
            self._set_cookie(answer, ask.new_session, ask.arrival)
        return answer

    # Websockets.

    async def _serve_socket(self, websocket: WebSocket) -> None:
        """Serve one websocket from its handshake to its end. Border of its task."""
        request_id: str = websocket.scope["cordboard.request"]
        found = self._socket_at(websocket.scope)
        if found is None:
            error = RequestRefused(404, "not_there", "Not Found")
            await websocket.send_denial_response(_refusal(error, request_id))
            return
        endpoint, frames, params = found
        ask = self._ask(endpoint, websocket, params)
        ask.connection = socket = Socket(websocket)
        try:
            await self._admit(ask, websocket)
            who, foreign = ask.who, bool(ask.who_node)
            with self._services.sockets.entry(socket, who.holder, who.rights, foreign=foreign):
                if ask.elsewhere is not None:
                    code, reason = await self._bridged(ask, websocket, frames)
                else:
                    await socket.accept(frames.protocol)
                    code, reason = await socket.serve(endpoint.does(ask))
        except SocketClosed:
            return
        except Exception as error:  # noqa: BLE001 - task border of a socket
            refused = await self._explained(ask, error)
            if websocket.application_state is WebSocketState.CONNECTING:
                await websocket.send_denial_response(_refusal(refused, request_id))
                return
            code, reason = INTERNAL, str(refused)
        await socket.close(code, reason)

    @staticmethod
    async def _bridged(ask: Ask, websocket: WebSocket, frames: Frames) -> tuple[int, str]:
        """Serve a websocket that the engine with the call serves."""
        bridge, path = Bridge(ask), websocket.url.path.removeprefix(BASE)
        try:
            await bridge.open(path, websocket.url.query, websocket.scope["subprotocols"])
            await ask.socket.accept(frames.protocol)
            return await ask.socket.serve(bridge.run())
        finally:
            await bridge.close()

    def _socket_at(self, scope: AsgiScope) -> tuple[Endpoint, Frames, Mapping[str, str]] | None:
        for endpoint, frames, route in self._sockets:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return endpoint, frames, found["path_params"]
        return None

    def _check_ticket(self, ask: Ask, websocket: WebSocket) -> None:
        """Check the subprotocols of a handshake: the endpoint's name, and its one-time ticket."""
        offered: list[str] = websocket.scope["subprotocols"]
        frames = ask.endpoint.frames
        if frames is None or frames.protocol not in offered:
            name = frames.protocol if frames is not None else ""
            message = f"offer {name} in the header Sec-WebSocket-Protocol"
            raise RequestRefused(400, "wrong_protocol", message)
        about = "/".join(ask.params.values())
        tickets = self._services.tickets
        if frames.ticket and not tickets.take(offered, ask.who.holder, frames.ticket, about):
            message = f"this needs a new ticket, as {PREFIX}VALUE in Sec-WebSocket-Protocol"
            raise RequestRefused(403, "no_ticket", message)

    # The caller.

    async def _recognised(self, request: HTTPConnection, arrival: Arrival) -> Caller | None:
        """Return the caller; None without session and key. Raises `RequestRefused`."""
        given_caller: Caller | None = request.scope.get("cordboard.caller")
        if given_caller is not None:  # of another engine
            return given_caller
        accounts, cookie = self._services.accounts, self._cookie_name(arrival)
        token = _cookie(request, cookie)
        given = request.headers.getlist("authorization")
        if given:
            if token:
                message = "send either the session's cookie or an API key, not both"
                raise RequestRefused(400, "two_callers", message)
            scheme, _, text = given[0].partition(" ")
            known = len(given) == 1 and scheme.lower() == "bearer"
            key = await self._services.run(accounts.key, text.strip()) if known else None
            if key is None:
                headers = {"WWW-Authenticate": 'Bearer realm="cordboard", error="invalid_token"'}
                raise RequestRefused(
                    401, "bad_key", "the API key is unknown or has expired", headers=headers
                )
            return Caller(f"key:{key.id}", key.rights, str(key.owner.role), key=key)
        session = await self._services.run(accounts.session, token) if token else None
        if session is None:
            return None
        user = session.user
        return Caller(user.name, user.rights, str(user.role), session, token)

    @staticmethod
    def _check_permission(ask: Ask) -> None:
        may = ask.endpoint.may
        if may is Open.ANYONE:
            return
        if isinstance(may, Permission):
            ask.need(may)
        elif ask.who.key is not None:
            raise RequestRefused(403, "forbidden", "this is for people, not for keys")
        if not ask.endpoint.elevated:
            return
        session = ask.who.session
        if session is None:
            raise RequestRefused(403, "forbidden", "this is for people, not for keys")
        if not session.elevated:
            message = "give your password or a code again first (POST /session/elevate)"
            raise RequestRefused(403, "not_elevated", message)

    @staticmethod
    async def _check_scope(ask: Ask) -> None:
        scope = ask.endpoint.scope
        if scope is Scope.ALL:
            ask.need_all_contexts()
        if isinstance(scope, Scope):
            ask.elsewhere = await _of_node(ask)
            return
        ask.elsewhere = await _elsewhere(ask)
        context = ask.elsewhere.context if ask.elsewhere is not None else scope(ask)
        if isinstance(context, Awaitable):
            context = await context  # it may find the call elsewhere, too
        if context is None and (place := await _kept_elsewhere(ask)) is not None:
            ask.elsewhere, context = place, place.context
        if context is None or not ask.who.rights.covers(context):
            message = "there is no such thing, or you may not know of it"
            raise RequestRefused(404, "not_there", message)
        ask.context = context

    # What it sends and gets.

    async def _body(self, ask: Ask, request: Request) -> Takes | None:
        endpoint = ask.endpoint
        if endpoint.method in SAFE:
            return None
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:12]) > endpoint.most_bytes:
            raise HTTPException(413, f"a body may have at most {endpoint.most_bytes} bytes")
        if ask.caller is None:
            content = await self._strangers_body(request, endpoint.most_bytes)
        else:
            content = await read_body(request, endpoint.most_bytes, self._body_seconds)
        if endpoint.takes is None:
            if content.strip() not in (b"", b"{}"):
                raise RequestRefused(422, "invalid", "this takes no body")
            return None
        if not content.strip() and endpoint.body_optional:
            return endpoint.takes()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            message = "send JSON, with the header Content-Type: application/json"
            raise RequestRefused(415, "not_json", message)
        return await self._services.run(_read, endpoint.takes, content, "the body")

    async def _strangers_body(self, request: Request, most_bytes: int) -> bytes:
        """Read the body of a sign-in. Dripping ones take at most half of the places, so that those
        who are signed in can go on."""
        if self._strangers_bodies >= max(1, self._most_at_once // 2):
            raise _busy()
        self._strangers_bodies += 1
        try:
            return await read_body(request, most_bytes, self._body_seconds)
        finally:
            self._strangers_bodies -= 1

    def _cookie_name(self, arrival: Arrival) -> str:
        """Return the session's cookie: a browser sends it to this port alone. Cookies are not
        separated by port, hence its number."""
        return "__Host-cordboard" if arrival.secure else f"cordboard-{self._services.port()}"

    def _set_cookie(self, answer: Response, token: str, arrival: Arrival) -> None:
        answer.set_cookie(
            self._cookie_name(arrival),
            token,
            max_age=None if token else 0,
            httponly=True,
            secure=arrival.secure,
            samesite="strict",
        )

    # Failures.

    async def _explained(self, ask: Ask, error: Exception) -> RequestRefused:
        """Return the answer to an error; log and count it if it is our own. A change that the audit
        has as done, or that its maker may not make, gets another line."""
        refused = _as_refusal(error)
        if refused.code == "internal":
            log.exception("admin_request_failed", request=ask.request, exc_info=error)
            self._services.internal_error("admin")
        endpoint = ask.endpoint
        try:
            if ask.done is not None:
                await ask.record_failure(str(refused))
            elif (
                ask.caller is not None
                and endpoint.audit != UNRECORDED
                and refused.code in _RECORDED_REFUSALS
            ):
                await ask.record(result="refused", detail={"why": str(refused)})
        except StoreUnavailable as unavailable:
            log.error("audit_not_written", error=str(unavailable))
        return refused


async def _of_node(ask: Ask) -> Place | None:
    """Return the engine whose history is asked for, if it is another one. Raises `RequestRefused`
    404 for a node that is not there."""
    node: str = getattr(ask.query, "node", "")
    others = ask.services.others
    if not node or not ask.endpoint.forwards or (others is not None and node == others.door.node):
        return None
    if (keeper := ask.services.history()) is not None and keeper.store.node:
        return None  # a filter: the index has the calls of all nodes
    place = await others.node(node) if others is not None else None
    if place is None or ask.who_node:
        raise RequestRefused(404, "not_there", f"there is no node {node!r} in the cluster")
    return place


async def _kept_elsewhere(ask: Ask) -> Place | None:
    """Return the other engine that has the files of a call that is over."""
    others, call_id = ask.services.others, ask.params.get("call_id", "")
    if others is None or not ask.endpoint.kept or ask.who_node:
        return None
    return await others.locate(call_id)


async def _elsewhere(ask: Ask) -> Place | None:
    """Return the other engine that has the call of a request; None if there is none."""
    others, call_id = ask.services.others, ask.params.get("call_id", "")
    if others is None or not ask.endpoint.forwards or not call_id or ask.who_node:
        return None
    return None if call_id in ask.services.calls() else await others.find(call_id)


def _cookie(request: HTTPConnection, name: str) -> str:
    """Return a cookie as it was sent. `Request.cookies` would also decode all quoted ones: 60 kB of
    backslashes from a stranger take 12 s on the event loop (CVE-2024-7592, in Python < 3.12.6).

    Of two with this name the last one counts: browsers send it for `/`, as we have set it.
    """
    found = ""
    for part in "; ".join(request.headers.getlist("cookie")).split(";"):
        key, _, value = part.partition("=")
        found = value.strip() if key.strip() == name else found
    return found


def _names_first(path: tuple[str, Any]) -> list[bool]:
    """Return the order in which routes are tried: `/calls/live` before `/calls/{call_id}`."""
    return [part.startswith("{") for part in path[0].split("/")]


def _given(query: QueryParams) -> dict[str, Any]:
    """Return the values of a query by key; those of a key that is repeated as a list."""
    found: dict[str, list[str]] = {}
    for key, value in query.multi_items():
        found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def _read(kind: type[Takes], content: bytes | dict[str, Any], what: str) -> Takes:
    """Return the checked body or query. Raises `RequestRefused` 422 with every fault."""
    try:
        if isinstance(content, bytes):
            content = from_json(content, allow_inf_nan=False)
        if isinstance(content, dict) and len(content) > MOST_KEYS:
            raise ValueError(f"it has more than {MOST_KEYS} keys")
        return kind.model_validate(content)
    except ValidationError as error:
        at = [
            {"key": ".".join(map(str, fault["loc"])), "message": fault["msg"]}
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        ][:20]
        told = "; ".join(f"{place['key']}: {place['message']}".lstrip(": ") for place in at)
        raise RequestRefused(422, "invalid", f"{what} is not in order: {told}", at=at) from None
    except ValueError as error:  # also of text that is not JSON
        raise RequestRefused(422, "invalid", f"{what} is not in order: {error}") from None


def _busy() -> RequestRefused:
    headers = {"Retry-After": "1"}
    return RequestRefused(503, "busy", "too many requests at once", headers=headers)


def _written(given: BaseModel) -> bytes:
    return to_json(given.model_dump(mode="json", warnings=False))


def _as_refusal(error: Exception) -> RequestRefused:
    """Return the answer to any error of a request."""
    if isinstance(error, ChatRefused):
        error = http_refusal(error)
    if isinstance(error, RequestRefused):
        return error
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "refused")
        return RequestRefused(error.status_code, code, error.detail, headers=error.headers)
    if isinstance(error, IndexUnavailable):
        headers = {"Retry-After": "5"}
        return RequestRefused(503, "index_unavailable", str(error), headers=headers)
    if isinstance(error, StoreUnavailable):
        return RequestRefused(503, "store_unavailable", f"nothing was done: {error}")
    if isinstance(error, NotThere):
        return RequestRefused(404, "not_there", str(error))
    if isinstance(error, AccountRefused):
        return RequestRefused(409, "refused", str(error))
    if isinstance(error, ClusterError):
        return RequestRefused(503, "bus_away", str(error), headers={"Retry-After": "2"})
    if isinstance(error, CordboardError):
        return RequestRefused(409, "impossible", str(error))
    return RequestRefused(500, "internal", "an error of the engine; its log has the details")


def _refusal(error: RequestRefused, request_id: str) -> Response:
    body = {
        "error": {
            "code": error.code,
            "message": str(error),
            "at": list(error.at),
            "request": request_id,
            **error.more,
        }
    }
    return JsonAnswer(body, status_code=error.status, headers=error.headers)
