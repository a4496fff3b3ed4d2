from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from cordboard.errors import McpLoginFailed
from cordboard.mcp.negotiation import Negotiation, is_closed


class Session:
    """As much of a session as a negotiation needs."""

    def __init__(self, **refusals: MCPError) -> None:
        self.refusals = refusals
        self.asked: list[str] = []
        self.discover_result: types.DiscoverResult | None = None

    async def initialize(self) -> None:
        self._ask("initialize")

    async def discover(self) -> None:
        self._ask("discover")
        self.discover_result = types.DiscoverResult(
            supported_versions=["2026-07-28"], capabilities=types.ServerCapabilities()
        )

    def adopt(self, result: types.DiscoverResult) -> None:
        self.asked.append("adopt")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refusals:
            raise self.refusals[what]


def refusal(code: int, message: str, data: object = None) -> MCPError:
    return MCPError(code=code, message=message, data=data)


CLOSED = refusal(types.CONNECTION_CLOSED, "Connection closed")
NOT_INITIALIZED = refusal(-32000, "Bad Request: Server not initialized")
NO_METHOD = refusal(types.METHOD_NOT_FOUND, "Method not found")
NOT_LET_IN = refusal(types.INTERNAL_ERROR, "no", McpLoginFailed("it does not let us in"))


async def asked(negotiation: Negotiation, **refusals: MCPError) -> list[str]:
    session: Any = Session(**refusals)
    await negotiation.run(session)
    return list(session.asked)


@pytest.mark.parametrize("said", [NO_METHOD, NOT_INITIALIZED])
async def test_over_http_an_old_server_is_found_by_its_refusal_and_remembered(
    said: MCPError,
) -> None:
    """-32000 is what servers on the TypeScript SDK answer to anything before `initialize`."""
    negotiation = Negotiation(handshake_first=False)
    assert await asked(negotiation, discover=said) == ["discover", "initialize"]
    assert await asked(negotiation, discover=said) == ["initialize"]
    negotiation.forget()
    assert await asked(negotiation, discover=said) == ["discover", "initialize"]


@pytest.mark.parametrize("said", [CLOSED, NOT_LET_IN])
async def test_over_http_what_no_handshake_can_change_is_not_tried_again(said: MCPError) -> None:
    with pytest.raises(MCPError) as raised:
        await asked(Negotiation(handshake_first=False), discover=said, initialize=NO_METHOD)
    assert raised.value is said


async def test_over_stdio_a_new_server_is_found_by_its_refusal_and_costs_nothing_later() -> None:
    negotiation = Negotiation()
    assert await asked(negotiation, initialize=NO_METHOD) == ["initialize", "discover"]
    assert await asked(negotiation) == ["adopt"]


async def test_what_the_operator_chose_is_all_that_is_tried() -> None:
    assert await asked(Negotiation("legacy", handshake_first=False)) == ["initialize"]
    assert await asked(Negotiation("2026-07-28")) == ["discover"]
    with pytest.raises(MCPError):
        await asked(Negotiation("2026-07-28"), discover=NO_METHOD)


def test_a_servers_own_error_is_not_the_end_of_the_connection() -> None:
    assert is_closed(CLOSED)
    assert is_closed(refusal(types.CONNECTION_CLOSED, "lost", McpLoginFailed("lost")))
    assert not is_closed(NOT_INITIALIZED)
    assert not is_closed(NO_METHOD)
