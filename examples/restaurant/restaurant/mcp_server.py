"""The MCP side: the restaurant's tools over streamable HTTP, for clients with a token.

A caller's token must be for the audience `mcp` with the scope `mcp.read`, and `mcp.write` for the
tools that change something. The caller's token ends here: requests to the backend use our own.
Results have structured content that fits the tool's output schema; a failure is a
result with `isError` whose only text is a sentence for the guest.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import AnyHttpUrl, BaseModel, Field

from .backend_client import BackendClient, BackendError
from .errors import IssuerUnavailable
from .model import (
    CODE,
    MAX_PEOPLE,
    Availability,
    Booking,
    CustomerPage,
    Feedback,
    FeedbackPage,
    OpeningHours,
    TableList,
)
from .tokens import TokenRefused, Verifier

READ, WRITE = "mcp.read", "mcp.write"
NOT_ALLOWED = "I am sorry, I am not allowed to change bookings."
log = logging.getLogger(__name__)

Ask = Callable[[], Awaitable[BaseModel]]

_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""Adds data, twice when called twice; changes no existing data."""
_REMOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

# Formats and patterns are published but not enforced here: the SDK's refusals cannot be spoken,
# and the backend names the expected value.
People = Annotated[
    int,
    Field(
        description="How many people come",
        json_schema_extra={"minimum": 1, "maximum": MAX_PEOPLE},
    ),
]
Date = Annotated[
    str,
    Field(description="A date such as 2026-11-27", json_schema_extra={"format": "date"}),
]
Time = Annotated[
    str,
    Field(
        description="A time of day such as 19:30, on a quarter of an hour",
        json_schema_extra={"pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    ),
]
Code = Annotated[
    str,
    Field(description="The six digits of a booking", json_schema_extra={"pattern": CODE}),
]
Limit = Annotated[int, Field(description="At most so many, up to 100")]
Skip = Annotated[int, Field(description="Leave out so many at the beginning")]
Sort = Annotated[str, Field(description="Fields to sort by, - for descending: -created_at,name")]
CustomQuery = Annotated[
    str,
    Field(description='Conditions joined by "and": booking_count >= 3 and name ~ "brown"'),
]


class CallerTokens:
    """Checks the callers' tokens; implements the SDK's `TokenVerifier`."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            grant = await self._verifier.verify(token)
        except (TokenRefused, IssuerUnavailable) as error:
            log.info("a caller is refused: %s", error)
            return None
        return AccessToken(
            token=token,
            client_id=grant.client_id,
            scopes=sorted(grant.scopes),
            expires_at=grant.expires_at,
            subject=grant.client_id,
            claims={"iss": grant.issuer},
        )


def build_server(
    backend: BackendClient, verifier: Verifier, *, issuer_url: str, mcp_url: str
) -> MCPServer:
    """The server with its tools, not serving yet."""
    server: MCPServer = MCPServer(
        "restaurant",
        version="1.0.0",
        instructions="Tables of a restaurant: look whether one is free before you book it, and"
        " read the booking code back digit by digit.",
        token_verifier=CallerTokens(verifier),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(issuer_url),
            resource_server_url=AnyHttpUrl(mcp_url),
            required_scopes=[READ],
            validate_token_resource=False,  # `CallerTokens` checks the audience
        ),
        log_level="WARNING",
    )
    _add_lists(server, backend)
    _add_bookings(server, backend)
    return server


def _add_lists(server: MCPServer, backend: BackendClient) -> None:
    @server.tool(title="Tables", annotations=_READS)
    async def get_tables() -> Annotated[CallToolResult, TableList]:
        """All tables of the restaurant, with their seats."""
        return await _answer(lambda: backend.ask(TableList, "GET", "/tables"))

    @server.tool(title="Customers", annotations=_READS)
    async def get_customers(
        limit: Limit = 20, skip: Skip = 0, sort: Sort = "", custom_query: CustomQuery = ""
    ) -> Annotated[CallToolResult, CustomerPage]:
        """Customers, page by page, sorted and filtered."""
        query = {"limit": limit, "skip": skip, "sort": sort, "customQuery": custom_query}
        return await _answer(lambda: backend.ask(CustomerPage, "GET", "/customers", query=query))

    @server.tool(title="Feedback of guests", annotations=_READS)
    async def get_feedback(
        limit: Limit = 20, skip: Skip = 0, sort: Sort = "", custom_query: CustomQuery = ""
    ) -> Annotated[CallToolResult, FeedbackPage]:
        """What guests said, page by page, sorted and filtered."""
        query = {"limit": limit, "skip": skip, "sort": sort, "customQuery": custom_query}
        return await _answer(lambda: backend.ask(FeedbackPage, "GET", "/feedback", query=query))

    @server.tool(title="Opening hours", annotations=_READS)
    async def get_opening_hours(
        from_date: Annotated[str, Field(description="First day; empty = today")] = "",
        days: Annotated[int, Field(description="How many days, 1 to 31")] = 7,
    ) -> Annotated[CallToolResult, OpeningHours]:
        """When the restaurant is open, day by day and in a sentence."""
        query = {"from": from_date, "days": days}
        return await _answer(
            lambda: backend.ask(OpeningHours, "GET", "/opening-hours", query=query)
        )

    @server.tool(title="Give feedback", annotations=_ADDS)
    async def give_feedback(
        rating: Annotated[int, Field(description="1 (bad) to 5 (very good)")],
        comment: Annotated[str, Field(description="The guest's own words")] = "",
        booking_code: Annotated[str, Field(description="Six digits, if it is known")] = "",
    ) -> Annotated[CallToolResult, Feedback]:
        """Write down what a guest thinks of the restaurant."""
        body = {"rating": rating, "comment": comment, "booking_code": booking_code or None}
        return await _change(lambda: backend.ask(Feedback, "POST", "/feedback", body=body))


def _add_bookings(server: MCPServer, backend: BackendClient) -> None:
    @server.tool(title="Find a free table", annotations=_READS)
    async def find_free_table(
        people: People, date: Date, time: Time
    ) -> Annotated[CallToolResult, Availability]:
        """Whether a table is free, and at which other times of the day one is."""
        query = {"people": people, "date": date, "time": time}
        return await _answer(lambda: backend.ask(Availability, "GET", "/availability", query=query))

    @server.tool(title="Book a table", annotations=_ADDS)
    async def book_table(
        people: People,
        date: Date,
        time: Time,
        name: Annotated[str, Field(description="In whose name")],
        phone: Annotated[str, Field(description="The guest's telephone number")] = "",
    ) -> Annotated[CallToolResult, Booking]:
        """Book a table for two hours; answers with the booking code."""
        body = {"people": people, "date": date, "time": time, "name": name, "phone": phone or None}
        return await _change(lambda: backend.ask(Booking, "POST", "/bookings", body=body))

    @server.tool(title="Find a booking", annotations=_READS)
    async def get_booking(code: Code) -> Annotated[CallToolResult, Booking]:
        """A booking by its code."""
        return await _answer(lambda: backend.ask(Booking, "GET", _path_of(code)))

    @server.tool(title="Cancel a booking", annotations=_REMOVES)
    async def cancel_booking(code: Code) -> Annotated[CallToolResult, Booking]:
        """Cancel a booking by its code. It cannot be undone."""
        return await _change(lambda: backend.ask(Booking, "DELETE", _path_of(code)))


def _path_of(code: str) -> str:
    if not re.fullmatch(CODE, code):
        raise BackendError("A booking code has six digits.")
    return f"/bookings/{code}"


async def _change(ask: Ask) -> CallToolResult:
    """The same as `_answer`, for tokens that may change data."""
    token = get_access_token()
    if token is None or WRITE not in token.scopes:
        return _failure(NOT_ALLOWED)
    return await _answer(ask)


async def _answer(ask: Ask) -> CallToolResult:
    began = time.monotonic()
    try:
        found = await ask()
    except BackendError as error:
        return _failure(str(error))
    took_ms = (time.monotonic() - began) * 1000
    log.info("answered with a %s in %.0f ms", type(found).__name__, took_ms)
    return CallToolResult(
        content=[TextContent(type="text", text=found.model_dump_json())],
        structured_content=found.model_dump(mode="json"),
    )


def _failure(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)
