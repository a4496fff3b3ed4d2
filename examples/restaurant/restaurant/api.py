"""The backend's REST API, under `/api/v1`. JSON; a bearer token with `backend.read` or `.write`.

    GET    /tables                                    all tables
    GET    /customers, /feedback                      ?limit=&skip=&sort=&customQuery=
    POST   /feedback                                  rating, comment, booking_code
    GET    /opening-hours                             ?from=2026-11-27&days=14
    GET    /opening-hours/{date}
    GET    /availability                              ?people=&date=&time=
    POST   /bookings                                  people, date, time, name, phone
    GET    /bookings/{code}, DELETE /bookings/{code}  read back; cancel

An error is `{"error": {"code", "message", "problems": [{"field", "problem"}]}}` with its status.
`GET /health` needs no token. The database is used in threads, never on the event loop.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from .book import Book
from .errors import ApiError, BadRequest, Forbidden, Invalid, Problem, TooLarge, Unauthorized
from .faults import Faults, FaultsAsked
from .listing import MAX_LIMIT, read_whole_number
from .model import MAX_PEOPLE, NewBooking, NewFeedback
from .records import Records
from .tokens import TokenRefused, Verifier

READ, WRITE = "backend.read", "backend.write"
MAX_BODY = 32 * 1024
MAX_DAYS = 31
MAX_SKIP = 1_000_000

Endpoint = Callable[[Request], Awaitable[Response]]
Asked = TypeVar("Asked", bound=BaseModel)
log = logging.getLogger(__name__)


class ClientGone(Exception):
    """The client no longer waits for the answer; no change was made."""


class Api:
    """The endpoints."""

    def __init__(
        self,
        records: Records,
        book: Book,
        verifier: Verifier,
        faults: Faults,
        now: Callable[[], dt.datetime],
    ) -> None:
        self._records = records
        self._book = book
        self._verifier = verifier
        self._faults = faults
        self._now = now

    def routes(self) -> list[Route]:
        table = (
            ("GET", "/tables", READ, self.tables),
            ("GET", "/customers", READ, self.customers),
            ("GET", "/feedback", READ, self.feedback),
            ("POST", "/feedback", WRITE, self.give_feedback),
            ("GET", "/opening-hours", READ, self.opening_hours),
            ("GET", "/opening-hours/{date}", READ, self.opening_hours_of_a_day),
            ("GET", "/availability", READ, self.availability),
            ("POST", "/bookings", WRITE, self.book),
            ("GET", "/bookings/{code}", READ, self.booking),
            ("DELETE", "/bookings/{code}", WRITE, self.cancel),
        )
        return [
            Route(path, self._guarded(scope, endpoint), methods=[method])
            for method, path, scope, endpoint in table
        ]

    async def tables(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._records.tables))

    async def customers(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._records.customers, *_page(request)))

    async def feedback(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._records.feedback, *_page(request)))

    async def give_feedback(self, request: Request) -> Response:
        new = await _body(request, NewFeedback)
        await _still_there(request)
        return _json(await asyncio.to_thread(self._records.give_feedback, new), 201)

    async def opening_hours(self, request: Request) -> Response:
        text = request.query_params.get("from")
        first = _date(text, "from") if text else self._now().date()
        days = read_whole_number(request.query_params.get("days"), "days", 14, 1, MAX_DAYS)
        return _json(await asyncio.to_thread(self._records.opening_hours, first, days))

    async def opening_hours_of_a_day(self, request: Request) -> Response:
        date = _date(request.path_params["date"], "date")
        return _json(await asyncio.to_thread(self._records.opening_hours, date, 1))

    async def availability(self, request: Request) -> Response:
        query = request.query_params
        people = read_whole_number(query.get("people"), "people", 0, 1, MAX_PEOPLE)
        if not people:
            raise _wrong("people", f"expected a whole number from 1 to {MAX_PEOPLE}")
        date, time = _date(query.get("date", ""), "date"), _time(query.get("time", ""))
        return _json(await asyncio.to_thread(self._book.availability, people, date, time))

    async def book(self, request: Request) -> Response:
        new = await _body(request, NewBooking)
        await _still_there(request)
        booking = await asyncio.to_thread(self._book.book, new)
        log.info("booked code=%s people=%d starts_at=%s", *_of(booking))
        return _json(booking, 201)

    async def booking(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._book.find, request.path_params["code"]))

    async def cancel(self, request: Request) -> Response:
        await _still_there(request)
        return _json(await asyncio.to_thread(self._book.cancel, request.path_params["code"]))

    def _guarded(self, scope: str, endpoint: Endpoint) -> Endpoint:
        """The endpoint for tokens with the scope, with the effects of the faults."""

        @functools.wraps(endpoint)
        async def guarded(request: Request) -> Response:
            if self._faults.delay_ms:
                await asyncio.sleep(self._faults.delay_ms / 1000)
            await self._admit(request, scope)
            if self._faults.status:
                raise HTTPException(self._faults.status, "this fault was asked for")
            return await endpoint(request)

        return guarded

    async def _admit(self, request: Request, scope: str) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("a bearer token is needed")
        try:
            grant = await self._verifier.verify(token.strip())
        except TokenRefused as error:
            raise Unauthorized(str(error)) from None
        if scope not in grant.scopes:
            raise Forbidden(scope)


def backend_app(api: Api, faults: Faults, *, faults_route: bool = False) -> Starlette:
    """The backend, ready to be served."""

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def admin_faults(request: Request) -> Response:
        _only_this_machine(request)
        if request.method == "GET":
            return JSONResponse(faults.as_dict())
        changed = faults.change(await _body(request, FaultsAsked))
        log.warning("faults are now %s", changed)
        return JSONResponse(changed)

    routes: list[Route | Mount] = [Route("/health", health), Mount("/api/v1", routes=api.routes())]
    if faults_route:
        routes.append(Route("/admin/faults", admin_faults, methods=["GET", "PUT"]))
    return Starlette(
        routes=routes,
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            ClientGone: _client_gone,
            Exception: _crash,
        },
    )


def _page(request: Request) -> tuple[int, int, str, str]:
    query = request.query_params
    limit = read_whole_number(query.get("limit"), "limit", MAX_LIMIT, 1, MAX_LIMIT)
    skip = read_whole_number(query.get("skip"), "skip", 0, 0, MAX_SKIP)
    return limit, skip, query.get("sort", ""), query.get("customQuery", "")


async def _body(request: Request, kind: type[Asked]) -> Asked:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge(f"expected at most {MAX_BODY} bytes")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest("expected application/json")
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError as error:
        problems = [
            Problem(".".join(map(str, found["loc"])) or "body", found["msg"])
            for found in error.errors(include_url=False, include_input=False)
        ]
        if any(found["type"] == "json_invalid" for found in error.errors(include_url=False)):
            raise BadRequest("the body is not JSON", problems) from None
        raise Invalid(_sentence(problems), problems) from None


def _sentence(problems: list[Problem]) -> str:
    return f"I cannot take that {problems[0].field}." if problems else "I cannot take that."


async def _still_there(request: Request) -> None:
    """A client whose timeout is over has reported a failure: then the request must not succeed."""
    if await request.is_disconnected():
        raise ClientGone


def _date(text: str, name: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise _wrong(name, "expected a date such as 2026-11-27") from None


def _time(text: str) -> dt.time:
    try:
        return dt.time.fromisoformat(text)
    except ValueError:
        raise _wrong("time", "expected a time such as 19:30") from None


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"I cannot take that {field}.", [Problem(field, problem)])


def _of(booking: Any) -> tuple[str, int, str]:
    return booking.code, booking.people, booking.starts_at


def _json(model: BaseModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status, media_type="application/json")


def _only_this_machine(request: Request) -> None:
    host = request.client.host if request.client else ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here:
        raise HTTPException(403, "only from this machine")


def _error(status: int, code: str, message: str, problems: tuple[Problem, ...] = ()) -> Response:
    told = [{"field": p.field, "problem": p.problem} for p in problems]
    return JSONResponse({"error": {"code": code, "message": message, "problems": told}}, status)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - registered for it
    answer = _error(error.status, error.code, str(error), error.problems)
    answer.headers.update(error.headers)
    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return _error(error.status_code, "http", error.detail)


async def _client_gone(request: Request, error: Exception) -> Response:
    log.info("the client went before anything was done: %s", request.url.path)
    return Response(status_code=499)


async def _crash(request: Request, error: Exception) -> Response:
    return _error(500, "internal", "something broke in the backend")
