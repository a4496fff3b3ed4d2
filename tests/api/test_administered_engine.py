"""An engine with real MCP servers, administered over its HTTP port."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cordboard.config.load import ConfigSource, load
from cordboard.runtime.engine import Engine
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.patience import PATIENCE

from .conftest import Answer, ask

SECRET = "hunter2-hunter2"
CHATTY = f"""
import os, runpy, sys
print("my key is", os.environ["SHOP_KEY"], file=sys.stderr, flush=True)
sys.argv = [{str(FAULTY_SERVER)!r}]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Administered:
    """The engine, its file, and somebody with the token."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "agent.yaml"
        self.config: dict[str, Any] = {
            "health": {"port": 0},
            "audiosocket": {"port": 0},
            "admin": {"token": "${TOKEN}"},
            "reload": {"watch": False},
            "calls": {"directory": str(folder / "calls")},
            "contexts": {"demo": {"greeting": "Hello.", "tools": ["mcp_shop_echo"]}},
            "mcp": {
                "servers": {
                    "shop": {
                        "command": [sys.executable, "-c", CHATTY],
                        "env": {"SHOP_KEY": "${SHOP_KEY}"},
                        "start_timeout_ms": 60_000,
                    },
                    "off": {
                        "command": [sys.executable, str(FAULTY_SERVER)],
                        "enabled": False,
                        "start_timeout_ms": 60_000,
                    },
                    "flaky": {  # dies at its first start only
                        "command": [sys.executable, str(FAULTY_SERVER), "flaky", f"{folder}/seen"],
                        "restart": {"max_restarts": 0},
                        "start_timeout_ms": 60_000,
                    },
                }
            },
        }
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.config, indent=1))

    async def start(self) -> None:
        environ = {"TOKEN": "correct-horse", "SHOP_KEY": SECRET}
        loaded = load(self.path, environ)
        source = ConfigSource(self.path, environ, loaded.digests)
        self.engine = Engine(loaded.config, source=source, sheds_load=False)
        await self.engine.start()

    async def get(self, path: str) -> Any:
        answer = await ask(self.engine.http_port, path)
        assert answer.status == 200
        assert SECRET.encode() not in answer.body
        return answer.json

    async def post(self, path: str) -> Answer:
        headers = {"Authorization": "Bearer correct-horse"}
        return await ask(self.engine.http_port, path, method="POST", headers=headers)

    async def server(self, name: str, state: str) -> dict[str, Any]:
        """The server's status as soon as it is in that state."""
        async with asyncio.timeout(PATIENCE):
            while True:
                servers = {s["server"]: s for s in (await self.get("/mcp/status"))["servers"]}
                if name in servers and servers[name]["state"] == state:
                    return dict(servers[name])
                await asyncio.sleep(0.02)


@pytest.fixture
async def shop(tmp_path: Path, lent_models: None) -> AsyncIterator[Administered]:
    administered = Administered(tmp_path)
    await administered.start()
    yield administered
    await administered.engine.stop(grace=0)


async def test_a_server_is_looked_at_tried_stopped_and_started(shop: Administered) -> None:
    ready = await shop.server("shop", "ready")
    assert ready["pid"] > 0
    assert ready["protocol"] == "2025-11-25"
    assert (ready["breaker"], ready["restarts"], ready["quarantined"]) == ("closed", 0, [])
    assert ready["stderr"][0] == "my key is ***"
    listed = (await shop.get("/mcp/tools"))["tools"]
    tools = {tool["tool"]: tool for tool in listed if tool["server"] == "shop"}
    assert tools["echo"]["offered"]
    assert tools["echo"]["exposed"] == "mcp_shop_echo"
    assert tools["echo"]["origin"] == "mcp:shop:echo"

    for name in ("shop", "off"):
        report = (await shop.post(f"/mcp/test/{name}")).json
        assert (report["ok"], report["error"], report["protocol"]) == (True, "", "2025-11-25")
        assert "echo" in report["tools"]
    assert (await shop.post("/mcp/test/nowhere")).status == 404
    assert (await shop.server("shop", "ready"))["pid"] == ready["pid"], "trying restarts nothing"

    assert (await shop.post("/mcp/servers/shop/restart")).status == 200
    again = await shop.server("shop", "ready")
    assert again["pid"] != ready["pid"]
    assert again["restarts"] == 1

    stopped = await shop.post("/mcp/servers/shop/stop")
    assert (stopped.status, stopped.json["state"], stopped.json["pid"]) == (200, "stopped", None)
    tools_now = (await shop.get("/mcp/tools"))["tools"]
    assert not any(tool["offered"] for tool in tools_now if tool["server"] == "shop")
    assert (await shop.post("/mcp/servers/shop/start")).status == 200
    assert (await shop.server("shop", "ready"))["pid"] != again["pid"]
    failed = await shop.server("flaky", "failed")
    assert "exited with status" in failed["last_error"]
    assert (await shop.post("/mcp/servers/flaky/start")).json["state"] == "starting"
    await shop.server("flaky", "ready")
    off = await shop.post("/mcp/servers/off/start")
    assert off.status == 409
    assert "switched off" in off.json["error"]


async def test_a_reload_changes_what_has_changed_and_a_bad_file_nothing(
    shop: Administered,
) -> None:
    before = await shop.server("shop", "ready")
    shop.config["contexts"]["demo"]["greeting"] = "Good day."
    shop.config["mcp"]["servers"]["off"]["enabled"] = True
    shop.write()
    report = await shop.post("/reload")
    assert (report.status, report.json["applied"], report.json["generation"]) == (200, True, 2)
    assert report.json["changed"][0] == "contexts.demo.greeting"
    assert any(key.startswith("mcp.servers.off") for key in report.json["changed"])
    await shop.server("off", "ready")
    assert (await shop.server("shop", "ready"))["pid"] == before["pid"], "it has not changed"

    shop.path.write_text('{"contexts": {"demo": {"greting": "Hi"}}}')
    bad = await shop.post("/reload")
    assert (bad.status, bad.json["applied"], bad.json["generation"]) == (422, False, 2)
    (problem,) = bad.json["problems"]
    assert problem["key"] == "contexts.demo.greting"
    assert (problem["file"], problem["line"], problem["fatal"]) == (str(shop.path), 1, True)
    assert len((await shop.get("/mcp/status"))["servers"]) == 3


async def test_it_talks_in_writing_tries_tools_and_counts_them(shop: Administered) -> None:
    await shop.server("shop", "ready")
    port = shop.engine.http_port
    headers = {"Authorization": "Bearer correct-horse", "Content-Type": "application/json"}

    async def post(path: str, **body: object) -> Answer:
        content = json.dumps(body).encode()
        return await ask(port, path, method="POST", headers=headers, body=content)

    talked = await post("/chat", context="demo", message="what can you do")
    assert talked.status == 200
    assert b'"text":"Hello."' in talked.body
    assert b"event: done" in talked.body
    tried = await post("/tools/mcp_shop_echo/try", context="demo", arguments={"text": "a"})
    assert (tried.status, tried.json["data"]["text"]) == (200, "a")
    assert (await shop.get("/health"))["chat_sessions"] == 1
    usage = await shop.get("/tools/usage?days=1&context=demo")
    assert [(row["tool"], row["ok"]) for row in usage["rows"]] == [("mcp_shop_echo", 1)]
    await shop.engine.stop(grace=0)
    calls = shop.path.parent / "calls"
    (talk,) = calls.glob("*/chat-*.jsonl")
    assert json.loads(talk.read_text().splitlines()[-1])["reason"] == "engine_stopped"
    (day,) = (calls / "usage").iterdir()
    assert json.loads(day.read_bytes())["tools"][0]["tool"] == "mcp_shop_echo"
