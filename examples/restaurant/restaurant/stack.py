"""Everything together: issuer, backend and MCP server, in this process and on their own ports."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx2

from .api import READ, WRITE, Api, backend_app
from .backend_client import BackendClient, BackendLogin
from .book import Book
from .database import Database
from .faults import Faults
from .issuer import Client, Issuer, issuer_app
from .mcp_server import READ as MCP_READ
from .mcp_server import WRITE as MCP_WRITE
from .mcp_server import build_server
from .records import Records
from .serving import listener, served, url_of
from .settings import Settings
from .tokens import Verifier

ENGINE_CLIENT, MCP_CLIENT = "cordboard", "restaurant-mcp"
HTTP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Restaurant:
    """The running system."""

    settings: Settings
    issuer_url: str
    backend_url: str
    """With `/api/v1`."""
    mcp_url: str
    database: Database
    issuer: Issuer
    faults: Faults

    @property
    def token_url(self) -> str:
        return f"{self.issuer_url}/token"

    def engine_environment(self) -> dict[str, str]:
        """The variables of this run for ai-agent.yaml, secrets included."""
        return {
            "RESTAURANT_MCP_URL": self.mcp_url,
            "RESTAURANT_TOKEN_URL": self.token_url,
            "RESTAURANT_CLIENT_SECRET": self.settings.engine_secret,
            "CORDBOARD_TOKEN": self.settings.admin_token,
        }


def local_time() -> dt.datetime:
    """The restaurant's clock: this machine's, without a zone, as all times of the book are."""
    return dt.datetime.now().replace(microsecond=0)  # noqa: DTZ005 - see above


@asynccontextmanager
async def running(
    settings: Settings, *, now: Callable[[], dt.datetime] = local_time
) -> AsyncIterator[Restaurant]:
    """Run the system, from open to closed ports. Raises `PortTaken` or `DatabaseError`."""
    faults = Faults()
    async with AsyncExitStack() as stack:
        ports = (settings.issuer_port, settings.backend_port, settings.mcp_port)
        sockets = [stack.enter_context(listener(settings.host, port)) for port in ports]
        issuer_url, backend_url, mcp_url = (url_of(sock) for sock in sockets)
        database = Database(settings.database_url)
        stack.callback(database.close)
        await asyncio.to_thread(database.prepare, now)
        issuer = await asyncio.to_thread(
            Issuer, issuer_url, _clients(settings), settings.token_lifetime, faults
        )
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=HTTP_SECONDS, trust_env=False)
        )
        restaurant = Restaurant(
            settings,
            issuer_url,
            f"{backend_url}/api/v1",
            f"{mcp_url}/mcp",
            database,
            issuer,
            faults,
        )
        await _serve(stack, restaurant, sockets, http, now)
        yield restaurant


async def _serve(
    stack: AsyncExitStack,
    restaurant: Restaurant,
    sockets: list[socket.socket],
    http: httpx2.AsyncClient,
    now: Callable[[], dt.datetime],
) -> None:
    settings, issuer_url = restaurant.settings, restaurant.issuer_url
    await stack.enter_async_context(served(issuer_app(restaurant.issuer), sockets[0]))
    api = Api(
        Records(restaurant.database, now),
        Book(restaurant.database, now),
        Verifier(issuer_url, "backend", http),
        restaurant.faults,
        now,
    )
    backend = backend_app(api, restaurant.faults, faults_route=settings.faults_route)
    await stack.enter_async_context(served(backend, sockets[1]))
    login = BackendLogin(restaurant.token_url, MCP_CLIENT, settings.mcp_secret, http)
    client = BackendClient(restaurant.backend_url, login, http, settings.backend_timeout)
    server = build_server(
        client,
        Verifier(issuer_url, "mcp", http),
        issuer_url=issuer_url,
        mcp_url=restaurant.mcp_url,
    )
    app = server.streamable_http_app(json_response=True, stateless_http=True, host=settings.host)
    await stack.enter_async_context(served(app, sockets[2]))


def _clients(settings: Settings) -> tuple[Client, ...]:
    return (
        Client(ENGINE_CLIENT, settings.engine_secret, {"mcp": (MCP_READ, MCP_WRITE)}),
        Client(MCP_CLIENT, settings.mcp_secret, {"backend": (READ, WRITE)}),
    )
