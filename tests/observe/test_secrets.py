"""A server that says its password wherever it can: it must be read nowhere."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cordboard.config.mcp import McpServer
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.observe.logging import configure
from cordboard.observe.open_tracing import open_tracing
from cordboard_testkit.fake_agent import FakeAgent

from .conftest import Collector, room

PASSWORD = "pa55-word-of-the-crm"
ARGUMENT = "the-callers-own-secret"
SERVER = Path(__file__).with_name("leaky_server.py")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything logged, at the lowest level, by anybody; no secret is known to the log itself."""
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    stream = io.StringIO()
    configure(json=True, level="DEBUG", stream=stream)
    yield stream
    root.setLevel(level)
    root.handlers[:] = handlers
    structlog.reset_defaults()


async def test_a_servers_password_is_read_nowhere(
    tmp_path: Path, log: io.StringIO, collector: Collector
) -> None:
    asks = ("fails", "refuses", "mangles", "babbles", "works", "dies", "works")
    replies: list[str] = []

    async def script(agent: FakeAgent) -> None:
        for turn, tool in enumerate(asks, start=1):
            reply = await agent.ask(f"mcp_crm_{tool}", {"pin": ARGUMENT}, turn)
            replies.append(f"{reply.status} {reply.message} {reply.data}")

    server = {
        "command": [sys.executable, str(SERVER)],
        "env": {"CRM_PASSWORD": PASSWORD},
        "restart": {"backoff_ms": 5_000},
    }
    tracing = open_tracing(collector.url, "test", "0")
    tools = [f"mcp_crm_{tool}" for tool in set(asks)]
    async with room(tmp_path, {"crm": server}, tools, tracing) as place:
        ledger = await place.call(script)
        status = repr(place.generation.fleet.status())
        problems = repr(place.generation.fleet.problems())
        metrics = place.metrics.render().decode()
    await asyncio.to_thread(tracing.close)

    assert [reply.split()[0] for reply in replies] == [
        "error", "error", "error", "ok", "ok", "error", "error",
    ]  # fmt: skip
    written = {
        "log": log.getvalue(),
        "status": status,
        "problems": problems,
        "metrics": metrics,
        "ledger": "\n".join(ledger),
        "replies": "\n".join(replies),
        "spans": b"".join(collector.bodies).decode("latin-1"),
    }
    for where, text in written.items():
        assert text, where
        assert PASSWORD[:8] not in text, where
    for where in ("log", "status", "metrics", "spans"):
        assert ARGUMENT not in written[where], where
    assert "starting with password=***" in written["log"]
    assert "starting with password=***" in written["status"]
    assert "Welcome! Your password is ***." in written["log"]


def test_what_a_remote_server_was_given_is_masked_too() -> None:
    login = {
        "type": "private_key_jwt",
        "token_url": "https://login.example.org/token",
        "client_id": "cordboard",
        "private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n",
    }
    url = "https://crm.example.org/c4f1d2c9e11aa4b7e/mcp"
    settings = {"url": url, "headers": {"x-api-key": "key-of-ours"}}
    config = McpServer.model_validate({"transport": "http", "auth": login, **settings})
    server = SupervisedServer("crm", config)
    words = "x-api-key: key-of-ours does not go with MIIEvQIBADANBg\\nkqhkiG9w0BAQEF"
    assert server.mask(words) == "x-api-key: *** does not go with ***\\n***"
    assert server.mask("nothing at /c4f1d2c9e11aa4b7e/mcp") == "nothing at /***/mcp"
