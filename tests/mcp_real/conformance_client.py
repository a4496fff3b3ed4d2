"""The client that the MCP conformance suite examines: ours, as an engine would use it.

For each scenario the suite makes up a server, starts `relay.py` with its address, and judges what
that server sees. `Player` plays the scenarios in the test's own process. Everything between the
choice of the tools that are called and the wire is `cordboard.mcp`, with the defaults of a
configured server: the protocol revision, too, is found out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import httpx2
import mcp_types as types

from cordboard.config.mcp import McpServer
from cordboard.errors import McpError
from cordboard.mcp.connection import connect
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.remote.http_transport import remote_transport

SECONDS = 45.0
"""For each wait. The suite gives a scenario 60 s."""
AT_ONCE = 4
ALONE = {"sse-retry"}
"""Scenarios that measure time to 0.2 s."""
ONLY_LISTED = {"json-schema-ref-no-deref"}
"""Scenarios whose server lists tools that it does not have."""

Problem = str


class Player:
    """Plays the scenarios that come in through `relay.py`."""

    def __init__(self, scenarios: int) -> None:
        """None begins before that many have come: until then the suite is busy starting them."""
        self.problems: dict[str, Problem] = {}
        """Scenario → what went wrong for the client; "" when nothing did."""
        self._free = asyncio.Semaphore(AT_ONCE)
        self._expected = scenarios
        self._all_here = asyncio.Event()

    async def serve(self) -> asyncio.Server:
        """Listen on a port of the loopback."""
        return await asyncio.start_server(self._on_scenario, "127.0.0.1", 0, limit=1_000_000)

    async def _on_scenario(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        scenario = json.loads(await reader.readline())
        self._expected -= 1
        if self._expected <= 0:
            self._all_here.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await self._all_here.wait()
        needed = AT_ONCE if scenario["name"] in ALONE else 1
        for _ in range(needed):
            await self._free.acquire()
        try:
            problem = await outcome(scenario["name"], scenario["url"], scenario["context"])
        finally:
            for _ in range(needed):
                self._free.release()
        self.problems[scenario["name"]] = problem
        with suppress(ConnectionError):
            writer.write(problem.encode())
            writer.close()
            await writer.wait_closed()


async def outcome(name: str, url: str, context: dict[str, Any]) -> Problem:
    """Play one scenario, and say what went wrong."""
    try:
        await play(name, url, context)
    except McpError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001  (task border: it is the scenario that has failed)
        return f"unexpected {type(error).__name__}: {error}"
    return ""


async def play(name: str, url: str, context: dict[str, Any]) -> None:
    """Connect, list the tools, call what is to be called. Raises `McpError`."""
    settings: dict[str, Any] = {"transport": "http", "url": url}
    if name.startswith("auth/client-credentials-"):
        settings["auth"] = await client_credentials(url, context)
    config = McpServer.model_validate(settings)
    negotiation = Negotiation(config.protocol, handshake_first=False)
    transport = remote_transport("conformance", config)
    failed: list[McpError] = []
    async with connect(transport, SECONDS, negotiation) as connection:
        listed = await connection.list_tools(SECONDS)
        tools = [tool for tool in listed if not tool.refusal]  # the others are not offered
        for tool, arguments in calls(() if name in ONLY_LISTED else tools, context):
            try:
                await connection.call(tool, arguments, SECONDS)
            except McpError as error:  # as in an engine, the next call is not harmed by it
                failed.append(error)
    if failed:
        raise failed[0]


def calls(
    tools: Sequence[types.Tool], context: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that the scenario names; else one of each tool, with what it requires."""
    if "toolCalls" in context:
        for named in context["toolCalls"]:
            yield named["name"], named["arguments"]
        return
    by_type: dict[str, Any] = {"number": 1.5, "integer": 5, "string": "x", "boolean": True}
    for tool in tools:
        if tool.name == "json_schema_echo":  # wants to see what has become of the other's schema
            by_type["object"] = tools[0].input_schema
        properties = tool.input_schema.get("properties", {})
        required = tool.input_schema.get("required", ())
        yield tool.name, {key: by_type.get(properties[key].get("type"), {}) for key in required}


async def client_credentials(url: str, context: dict[str, Any]) -> dict[str, Any]:
    """The `auth:` that an operator would write, with what the server says of itself looked up."""
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        place = httpx2.URL(url).join(f"/.well-known/oauth-protected-resource{httpx2.URL(url).path}")
        [issuer] = (await client.get(place)).json()["authorization_servers"]
        place = httpx2.URL(issuer).join("/.well-known/oauth-authorization-server")
        described = (await client.get(place)).json()
    auth = {"token_url": described["token_endpoint"], "client_id": context["client_id"]}
    if "client_secret" in context:
        secret = context["client_secret"]
        return {**auth, "type": "client_credentials", "client_secret": secret}
    return {
        **auth,
        "type": "private_key_jwt",
        "assertion_audience": issuer,
        "private_key": context["private_key_pem"],
        "algorithm": context["signing_algorithm"],
    }
