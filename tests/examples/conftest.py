"""The restaurant of examples/, running: issuer, backend and MCP server on ports of their own.

One system serves the tests of a file, at a fixed time of its own clock; each test books on a day of
its own.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio

from cordboard_testkit.patience import PATIENCE

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "restaurant"
sys.path.insert(0, str(EXAMPLE))

from restaurant.settings import Settings  # noqa: E402
from restaurant.stack import ENGINE_CLIENT, MCP_CLIENT, Restaurant, running  # noqa: E402

NOW = dt.datetime(2026, 11, 21, 10, 0)  # noqa: DTZ001 - the restaurant's own clock
"""A Saturday."""


@dataclass
class System:
    """The running restaurant, and a client program's way to it."""

    restaurant: Restaurant
    http: httpx2.AsyncClient

    async def ask_token(self, client: str = MCP_CLIENT, **form: str) -> httpx2.Response:
        """The issuer's answer; `secret` in the form replaces the right one."""
        settings = self.restaurant.settings
        right = {MCP_CLIENT: settings.mcp_secret, ENGINE_CLIENT: settings.engine_secret}
        login = (client, form.pop("secret", right.get(client, "")))
        asked = {"grant_type": "client_credentials", **form}
        return await self.http.post(self.restaurant.token_url, data=asked, auth=login)

    async def token(self, client: str = MCP_CLIENT, **form: str) -> str:
        answer = await self.ask_token(client, **form)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    async def api(
        self, method: str, path: str, token: str | None = None, **more: Any
    ) -> httpx2.Response:
        """A request to the backend, with a good token unless another one is given."""
        shown = await self.token() if token is None else token
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        url = f"{self.restaurant.backend_url}{path}"
        return await self.http.request(method, url, headers=headers, **more)

    async def book(self, date: str, time: str, people: int = 2, **more: Any) -> httpx2.Response:
        body = {"date": date, "time": time, "people": people, "name": "Mary Jones", **more}
        return await self.api("POST", "/bookings", json=body)


def settings_for(folder: Path, **more: Any) -> Settings:
    """Any free ports, and a database in the folder unless another one is given."""
    given = {"database_url": f"sqlite:///{folder / 'restaurant.sqlite'}", **more}
    return Settings(issuer_port=0, backend_port=0, mcp_port=0, **given)


@asynccontextmanager
async def opened(
    settings: Settings, now: Callable[[], dt.datetime] = lambda: NOW
) -> AsyncIterator[System]:
    """A system of the test's own."""
    async with (
        running(settings, now=now) as restaurant,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        yield System(restaurant, http)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: Any) -> AsyncIterator[System]:
    """The system that the tests of one file share."""
    folder = tmp_path_factory.mktemp("restaurant")
    async with opened(settings_for(folder, backend_timeout=PATIENCE)) as found:
        yield found
        assert found.restaurant.faults.as_dict() == {
            "delay_ms": 0,
            "status": 0,
            "expired_tokens": False,
        }
