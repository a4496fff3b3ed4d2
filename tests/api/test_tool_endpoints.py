"""Trying a tool and looking at how tools are used, as an HTTP client does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp
from tests.chat.conftest import Parlour, parlour, server

from cordboard.api.app import create_app
from cordboard.observe.tool_usage_files import ToolUsageFiles

from .conftest import Answer, ShownEngine, ask_app

__all__ = ["parlour"]

TOKEN = "correct-horse-battery"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
CONTEXTS = {"demo": {"tools": ["echo", "book"]}, "other": {"tools": ["plain"]}}
TOOLS = [
    {"name": "echo", "expose_as": "echo", "speech_field": "text"},
    {"name": "slow", "expose_as": "book", "effects": "destructive"},
    {"name": "plain", "expose_as": "plain"},
]


class Client:
    def __init__(self, parlour: Parlour, folder: Path, *, loopback_only: bool = True) -> None:
        self.parlour = parlour
        self.app: ASGIApp = create_app(
            ShownEngine(),
            loopback_only=loopback_only,
            token=lambda: SecretStr(TOKEN),
            trials=parlour.trials,
            usage=ToolUsageFiles(parlour.metrics.usage, folder),
        )

    async def try_it(self, tool: str, body: Any, **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await ask_app(
            self.app,
            f"/tools/{tool}/try",
            method="POST",
            headers={**AUTHORISED, **headers},
            body=content,
        )


@pytest.fixture
async def client(parlour: Parlour, tmp_path: Path) -> Client:
    await parlour.open(contexts=CONTEXTS, mcp={"servers": {"s": server(tools=TOOLS)}})
    return Client(parlour, tmp_path / "calls")


async def test_a_try_shows_speech_data_and_payloads(client: Client) -> None:
    answer = await client.try_it("echo", {"context": "demo", "arguments": {"text": "It is 7 pm."}})
    assert answer.status == 200
    body = answer.json
    assert body["status"] == "ok"
    assert body["message"]
    assert body["data"]["text"] == "It is 7 pm."
    assert body["payloads"]["pipeline"]["payload"]["data"]["text"] == "It is 7 pm."
    assert body["cut"] == []
    assert body["took_ms"] >= 0
    (entry,) = client.parlour.logged("tool_tried")
    assert (entry["call_id"], entry["exposed_name"]) == (body["call_id"], "echo")
    assert client.parlour.ledger(body["call_id"])[-1]["type"] == "call.ended"


@pytest.mark.parametrize(("tool", "status"), [("plain", 403), ("nothing", 404)])
async def test_a_tool_outside_of_the_toolbox_is_neither_run_nor_told_of(
    client: Client, tool: str, status: int
) -> None:
    answer = await client.try_it(tool, {"context": "demo"})
    assert answer.status == status
    assert answer.json["status"] == "refused"
    assert "Available: echo, book" in answer.json["error"]
    assert not any("tools/call" in line for line in client.parlour.told())
    assert len(client.parlour.logged("tool_refused")) == 1
    usage = (await ask_app(client.app, "/tools/usage")).json
    assert [(row["context"], row["tool"], row["refused"]) for row in usage["rows"]] == [
        ("demo", "unknown", 1)
    ]


async def test_what_changes_the_world_needs_approve(client: Client) -> None:
    body = {"context": "demo", "arguments": {"seconds": 0}}
    refused = await client.try_it("book", body)
    assert (refused.status, refused.json["status"]) == (409, "refused")
    done = await client.try_it("book", {**body, "approve": True})
    assert (done.status, done.json["message"]) == (200, "At last.")


BAD: list[tuple[Any, int, str]] = [
    (b"{", 400, "not JSON"),
    ({}, 400, "context: expected"),
    ({"context": 7}, 400, "context: expected a text"),
    ({"context": "demo", "arguments": []}, 400, "arguments: expected an object"),
    ({"context": "demo", "approve": "yes"}, 400, "approve: expected true or false"),
    ({"context": "demo", "provider": "nobody"}, 400, "provider: expected one of "),
    ({"context": "nowhere"}, 404, "there is no context 'nowhere'"),
    ({"context": "demo", "arguments": {"text": "x" * 2_100_000}}, 413, "bytes"),
]


async def test_bad_input(client: Client) -> None:
    for body, status, words in BAD:
        answer = await client.try_it("echo", body)
        assert answer.status == status, words
        assert words in answer.json["error"]


async def test_an_argument_of_a_megabyte_is_answered(client: Client) -> None:
    given = {"context": "demo", "arguments": {"text": "x" * 1_000_000, "more": 1}}
    answer = await client.try_it("echo", given)
    assert answer.status == 200
    assert answer.json["status"] in ("ok", "refused", "error")
    (asked,) = [
        line
        for line in client.parlour.ledger(answer.json["call_id"])
        if line["type"] == "tool.asked"
    ]
    assert len(json.dumps(asked)) < 10_000


async def test_a_try_needs_the_token_and_json(client: Client) -> None:
    body = {"context": "demo", "arguments": {"text": "x"}}
    assert (await client.try_it("echo", body, Authorization="Bearer wrong")).status == 401
    kind = {"Content-Type": "text/plain"}
    assert (await client.try_it("echo", body, **kind)).status == 415
    assert not any("tools/call" in line for line in client.parlour.told())


async def test_usage_by_days_and_context(client: Client, tmp_path: Path) -> None:
    for text in ("a", "b"):
        await client.try_it("echo", {"context": "demo", "arguments": {"text": text}})
    usage = (await ask_app(client.app, "/tools/usage?days=7&context=demo")).json
    assert usage["context"] == "demo"
    (row,) = usage["rows"]
    assert (row["tool"], row["calls"], row["ok"], row["errors"]) == ("echo", 2, 2, 0)
    assert row["p50_ms"] <= row["p95_ms"] <= row["longest_ms"]
    assert (await ask_app(client.app, "/tools/usage?context=other")).json["rows"] == []
    for bad in ("0", "91", "seven", "-1", "1e1", "99999999999999999999", ""):
        answer = await ask_app(client.app, f"/tools/usage?days={bad}")
        assert answer.status == 400, bad
    outside = Client(client.parlour, tmp_path, loopback_only=False).app
    assert (await ask_app(outside, "/tools/usage")).status == 401
    assert (await ask_app(outside, "/tools/usage", headers=AUTHORISED)).status == 200
