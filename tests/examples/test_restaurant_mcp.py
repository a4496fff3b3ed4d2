"""The restaurant's MCP server as Cordboard sees it: with the shipped configuration and its own
client, which fetches tokens from the issuer by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cordboard.config.load import load
from cordboard.config.mcp import McpServer
from cordboard.errors import McpError
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.tools.speech.speech import sentence
from cordboard.tools.tool import Effects, ToolSpec
from cordboard_testkit.patience import PATIENCE

from .conftest import ENGINE_CLIENT, EXAMPLE, System, opened, settings_for

# isort: split
from restaurant.backend_client import BROKEN, NO_ACCESS, NO_ANSWER
from restaurant.mcp_server import NOT_ALLOWED

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECONDS = PATIENCE
EVENING = {"people": 2, "date": "2026-11-27", "time": "19:30", "name": "Mary Jones"}


def _config(system: System, **auth: Any) -> McpServer:
    """The server of ai-agent.yaml, for this run; `auth` replaces keys of its login."""
    environment = system.restaurant.engine_environment()
    shipped = load(EXAMPLE / "ai-agent.yaml", environment).config.mcp.servers["restaurant"]
    assert shipped.auth is not None
    tokens = shipped.auth.model_copy(update=auth)
    return shipped.model_copy(update={"auth": tokens})


@asynccontextmanager
async def _connected(system: System, **auth: Any) -> AsyncIterator[SupervisedServer]:
    server = SupervisedServer("restaurant", _config(system, **auth))
    server.start()
    try:
        assert await server.wait_ready(SECONDS), server.status()
        yield server
    finally:
        await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(system: System) -> AsyncIterator[SupervisedServer]:
    async with _connected(system) as found:
        yield found


async def _data(server: SupervisedServer, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await server.call(tool, arguments, SECONDS)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def _refused(server: SupervisedServer) -> None:
    """Until the first start has failed."""
    async with asyncio.timeout(SECONDS):
        while not server.status().last_error:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    assert server.status().protocol == ""


async def _refusal(server: SupervisedServer, tool: str, **arguments: Any) -> str:
    """What is said when a tool does not work."""
    result = await server.call(tool, arguments, SECONDS)
    assert result.is_error
    assert result.structured_content is None
    [text] = [part.text for part in result.content if part.type == "text"]
    return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(system: System) -> dict[str, ToolSpec]:
    """The tools of ai-agent.yaml as an agent is offered them."""
    config = load(EXAMPLE / "ai-agent.yaml", system.restaurant.engine_environment()).config.mcp
    fleet = Fleet(config)
    fleet.start()
    try:
        assert await fleet.wait_settled(SECONDS)
        assert [str(problem) for problem in fleet.tool_problems()] == []
        return {entry.tool.spec.name: entry.tool.spec for entry in fleet.tools()}
    finally:
        await fleet.close()


async def test_the_tools_say_what_they_do_to_the_world(tools: dict[str, ToolSpec]) -> None:
    reading = {"find_booking", "find_free_table", "opening_hours", "get_tables", "get_customers"}
    reading.add("get_feedback")
    assert set(tools) == reading | {"book_table", "cancel_booking", "give_feedback"}
    assert {name for name, spec in tools.items() if spec.effects is Effects.READ_ONLY} == reading
    for name in ("book_table", "cancel_booking", "give_feedback"):
        assert tools[name].effects is Effects.DESTRUCTIVE, "never tried again by itself"
    asked_first = {name for name, spec in tools.items() if spec.approval == "caller"}
    assert asked_first == {"book_table", "cancel_booking"}
    assert tools["book_table"].parameters["required"] == ["people", "date", "time", "name"]


async def test_a_table_is_booked_read_back_and_cancelled(
    system: System, server: SupervisedServer
) -> None:
    seen = await _data(server, "find_free_table", people=2, date="2026-11-27", time="19:30")
    assert seen["free"] is True
    booking = await _data(server, "book_table", **EVENING)
    assert booking["when"] == "Friday, November 27th at 7:30 PM"
    assert await _data(server, "get_booking", code=booking["code"]) == booking
    known = (await system.api("GET", f"/bookings/{booking['code']}")).json()
    assert known == booking, "it is in the backend"
    assert (await _data(server, "cancel_booking", code=booking["code"]))["status"] == "cancelled"


async def test_what_is_spoken_comes_from_the_result(tools: dict[str, ToolSpec]) -> None:
    booking = {
        "code": "471103",
        "name": "Mary Jones",
        "people": 4,
        "when": "Friday, November 27th at 7:30 PM",
        "status": "cancelled",
    }
    assert sentence(booking, tools["book_table"].speech, "") == (
        "Your table for 4 is booked for Friday, November 27th at 7:30 PM, in the name of Mary"
        " Jones. Your booking code is 4 7 1, 1 0 3."
    )
    assert sentence(booking, tools["find_booking"].speech, "") == (
        "The booking of Mary Jones, for 4 on Friday, November 27th at 7:30 PM, is cancelled."
    )


async def test_lists_come_in_pages(server: SupervisedServer) -> None:
    page = await _data(
        server, "get_customers", limit=3, sort="name", custom_query="booking_count > 5"
    )
    assert len(page["items"]) == 3
    assert page["total"] > 3
    assert len((await _data(server, "get_tables"))["tables"]) == 6
    hours = await _data(server, "get_opening_hours", from_date="2026-11-23", days=1)
    assert hours["summary"] == "We are closed on Monday, November 23rd."
    given = await _data(server, "give_feedback", rating=4, comment="Nice.")
    assert (await _data(server, "get_feedback", limit=1))["items"][0]["id"] == given["id"]


async def test_a_refusal_of_the_backend_is_a_sentence(server: SupervisedServer) -> None:
    evening = {**EVENING, "people": 8, "date": "2026-12-08"}
    await _data(server, "book_table", **evening)
    told = await _refusal(server, "book_table", **evening)
    assert told == (
        "There is no table for 8 on Tuesday, December 8th at 7:30 PM."
        " There is one at 5:30 PM, 5:15 PM or 5 PM."
    )
    assert await _refusal(server, "get_booking", code="000000") == (
        "There is no booking with that code."
    )
    for code in ("../tables", "", "12345"):
        assert await _refusal(server, "get_booking", code=code) == "A booking code has six digits."
    assert (await _refusal(server, "book_table", **{**EVENING, "date": "2026-11-23"})) == (
        "We are closed on Monday, November 23rd."
    )


async def test_who_may_only_read_books_nothing(system: System) -> None:
    async with _connected(system, scopes=("mcp.read",)) as reader:
        assert (await _data(reader, "get_tables"))["tables"]
        assert await _refusal(reader, "book_table", **EVENING) == NOT_ALLOWED
        assert await _refusal(reader, "cancel_booking", code="000000") == NOT_ALLOWED


async def test_without_the_right_secret_there_is_no_way_in(system: System) -> None:
    config = _config(system)
    assert config.auth is not None
    wrong = type(config.auth).model_validate(
        {**config.auth.model_dump(exclude={"client_secret"}), "client_secret": "wrong" * 5}
    )
    server = SupervisedServer("restaurant", config.model_copy(update={"auth": wrong}))
    server.start()
    try:
        await _refused(server)
        assert "refuses us: invalid_client" in server.status().last_error
        assert "wrongwrong" not in server.status().last_error
        with pytest.raises(McpError):
            await server.call("get_tables", {}, 5)
    finally:
        await server.close()


async def test_a_token_that_no_longer_counts_is_replaced_once_on_both_legs(
    system: System, server: SupervisedServer
) -> None:
    """The issuer's key changes: the engine's token and the MCP server's own are refused (401)."""
    await _data(server, "get_tables")
    await asyncio.sleep(1.1)  # keys are fetched at most once a second
    await system.restaurant.issuer.change_key()
    await system.api("GET", "/tables")  # with a new token: the backend sees the new key
    headers = {"Authorization": f"Bearer {await system.token(ENGINE_CLIENT)}"}
    await system.http.post(system.restaurant.mcp_url, json={}, headers=headers)  # so does the other
    issued = system.restaurant.issuer.issued
    assert (await _data(server, "get_tables"))["tables"]
    assert system.restaurant.issuer.issued == issued + 2
    assert (await _data(server, "get_tables"))["tables"]
    assert system.restaurant.issuer.issued == issued + 2, "and then kept"


async def test_tokens_are_renewed_before_they_end(tmp_path: Path) -> None:
    async with (
        opened(settings_for(tmp_path, token_lifetime=2.0)) as system,
        _connected(system) as server,
    ):
        issuer = system.restaurant.issuer
        at_first = issuer.issued
        async with asyncio.timeout(SECONDS):
            while issuer.issued < at_first + 2:  # no call fails meanwhile
                assert (await _data(server, "get_tables"))["tables"]
                await asyncio.sleep(0.2)


async def test_tokens_that_are_over_at_once_are_told_and_not_asked_for_again_and_again(
    tmp_path: Path,
) -> None:
    async with opened(settings_for(tmp_path)) as system:
        system.restaurant.faults.expired_tokens = True
        async with _failing(system) as server:
            assert "401" in server.status().last_error
            assert system.restaurant.issuer.issued <= 4
        system.restaurant.faults.expired_tokens = False
        async with _connected(system) as server:
            system.restaurant.faults.expired_tokens = True  # only the MCP server's own is bad
            assert await _refusal(server, "get_tables") == NO_ACCESS
            system.restaurant.faults.expired_tokens = False
            assert (await _data(server, "get_tables"))["tables"], "as soon as it can be had"


@asynccontextmanager
async def _failing(system: System) -> AsyncIterator[SupervisedServer]:
    server = SupervisedServer("restaurant", _config(system))
    server.start()
    try:
        await _refused(server)
        yield server
    finally:
        await server.close()


async def test_a_slow_backend_is_given_up_in_time_and_nothing_is_booked(tmp_path: Path) -> None:
    evening = {**EVENING, "people": 8, "date": "2026-12-09"}
    async with (
        opened(settings_for(tmp_path, backend_timeout=4.0)) as system,
        _connected(system) as server,
    ):
        await _data(server, "get_tables")
        system.restaurant.faults.delay_ms = 5_000
        assert await _refusal(server, "book_table", **evening) == NO_ANSWER
        system.restaurant.faults.delay_ms = 0
        await asyncio.sleep(1.5)  # until the backend has slept
        query = {"people": 8, "date": "2026-12-09", "time": "19:30"}
        assert (await _data(server, "find_free_table", **query))["free"] is True


@pytest.mark.parametrize(
    ("status", "told"), [(500, BROKEN), (503, BROKEN), (403, NO_ACCESS), (401, NO_ACCESS)]
)
async def test_a_failing_backend_is_a_sentence(
    system: System, server: SupervisedServer, status: int, told: str
) -> None:
    await _data(server, "get_tables")
    issued = system.restaurant.issuer.issued
    system.restaurant.faults.status = status
    try:
        assert await _refusal(server, "get_tables") == told
    finally:
        system.restaurant.faults.status = 0
    renewed = system.restaurant.issuer.issued - issued
    assert renewed == (1 if status == 401 else 0), "one new token for a 401"
    assert (await _data(server, "get_tables"))["tables"]
