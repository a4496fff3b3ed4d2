"""`cordboard mcp-server`: a child process, the official client, an engine with a real call."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard.calls.events import AudioEnded, LedgerEvent
from cordboard.config.load import ConfigSource, load
from cordboard.mcp_servers.engine.waits import explain
from cordboard.runtime.engine import Engine
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE, until

READS = {"calls.read", "engine.read", "config.read", "config.draft", "personal"}
CONFIG = """
contexts: {demo: {greeting: "Good morning, this is the demo."}, other: {}}
health: {port: 0}
audiosocket: {port: 0, context: demo}
reload: {watch: false}
calls: {directory: calls, index: {enabled: true}}
admin: {ui: {enabled: true, port: 0, data: admin}}
"""


class Place:
    """A running engine, and keys to it."""

    def __init__(self, engine: Engine, folder: Path, events: list[LedgerEvent]) -> None:
        self.engine = engine
        self.events = events
        self._folder = folder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.engine.admin_port}"

    def key(self, permissions: set[str], scope: tuple[str, ...] = EVERYWHERE) -> str:
        accounts = Accounts(self._folder / "admin")
        try:
            if accounts.user("anna") is None:
                accounts.add("anna", Role.ADMIN, tuple(Grant), EVERYWHERE)
            allowed = {Permission(each) for each in permissions}
            return accounts.add_key("anna", "assistant", allowed, scope, 600)[1]
        finally:
            accounts.close()


@pytest.fixture
async def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent_models: None
) -> AsyncIterator[Place]:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "agent.yaml"
    path.write_text(CONFIG)
    loaded = load(path, {})
    source = ConfigSource(path, {}, loaded.digests, loaded.content)
    events: list[LedgerEvent] = []
    listen = lambda call_id, at_ms, event: events.append(event)  # noqa: E731
    engine = Engine(loaded.config, listen, source, sheds_load=False)
    await engine.start()
    try:
        yield Place(engine, tmp_path, events)
    finally:
        await engine.stop(grace=0)


@asynccontextmanager
async def by_stdio(place: Place, key: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "cordboard", "mcp-server", "--url", place.url],
        env={"CORDBOARD_API_KEY": key, "PATH": os.environ["PATH"]},
    )
    async with Client(stdio_client(server)) as client:
        yield client


def found(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


def refusal(result: CallToolResult) -> str:
    assert result.is_error
    return str(getattr(result.content[0], "text", ""))


async def test_an_assistant_sees_the_calls_now_and_why_one_was_slow(place: Place) -> None:
    async with by_stdio(place, place.key(READS)) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} >= {"live_calls", "find_calls", "why_slow"}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert found(await client.call_tool("engine_state", {}))["ready"] is True
        port = place.engine.audiosocket_port
        async with SimulatedCaller("127.0.0.1", port) as caller:
            await caller.hear_speech()
            done = lambda: any(isinstance(event, AudioEnded) for event in place.events)  # noqa: E731
            await until(done, "the greeting: only what was heard is found")
            [live] = found(await client.call_tool("live_calls", {}))["calls"]
            assert live["context"] == "demo"
            call = next(iter(place.engine.registry.calls.values()))
            call.end("completed", "operator_hangup")
        await asyncio.wait_for(place.engine.calls_recorded(), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            page: dict[str, Any] = {"rows": []}
            while not (page["rows"] and page["rows"][0]["reason"]):
                page = found(await client.call_tool("find_calls", {}))
                await asyncio.sleep(0.1)
        [row] = page["rows"]
        assert row["reason"] == "operator_hangup"
        filters = {"text": "demo", "agent_context": "demo", "outcome": "completed"}
        assert found(await client.call_tool("find_calls", filters))["rows"] == [row]
        times = {"since": "2026-01-01", "until": "2099-01-01T00:00:00+00:00"}
        assert found(await client.call_tool("find_calls", times))["rows"] == [row]
        others = {"tool": "hangup_call", "waited_over_ms": 60_000}
        assert found(await client.call_tool("find_calls", others))["rows"] == []
        whole = found(await client.call_tool("get_call", {"call_id": row["id"]}))
        assert whole["turns"][0]["agent"]["text"] == "Good morning, this is the demo."
        waits = found(await client.call_tool("why_slow", {"call_id": row["id"]}))
        assert waits["call_id"] == row["id"]
        assert waits["summary"] == "The caller waited for no answer in this call."


async def test_the_configuration_is_checked_and_its_versions_are_compared(place: Place) -> None:
    async with by_stdio(place, place.key(READS)) as client:
        wrong = found(await client.call_tool("check_config", {"yaml": "contexts: {demo: {x: 1}}"}))
        assert (wrong["in_order"], wrong["checked"]) == (False, "the draft")
        assert wrong["problems"][0]["key"] == "contexts.demo.x"
        versions = found(await client.call_tool("config_versions", {}))["versions"]
        assert versions


async def test_it_sees_what_its_key_may_see(place: Place) -> None:
    async with by_stdio(place, place.key({"calls.read"}, ("other",))) as client:
        async with SimulatedCaller("127.0.0.1", place.engine.audiosocket_port):
            await until(lambda: bool(place.engine.registry.calls), "the call")
            assert found(await client.call_tool("live_calls", {}))["calls"] == []
            [call_id] = place.engine.registry.calls
            assert "engine refused" in refusal(
                await client.call_tool("get_call", {"call_id": call_id})
            )
        assert "config.draft" in refusal(await client.call_tool("check_config", {}))
    async with by_stdio(place, "cbk_wrong") as client:
        assert "unknown or has expired" in refusal(await client.call_tool("live_calls", {}))


async def test_an_engine_that_is_not_there_is_said(place: Place) -> None:
    key = place.key({"calls.read"})
    async with by_stdio(place, key) as client:
        await place.engine.stop(grace=0)
        assert "cannot be reached" in refusal(await client.call_tool("live_calls", {}))


async def test_by_http_each_request_has_its_own_key(place: Place) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cordboard", "mcp-server", "--url", place.url),
        *("--http", f"127.0.0.1:{port}"),
        env={"PATH": os.environ["PATH"]},
    )
    try:
        await _listening(port)
        for key, ok in ((place.key({"calls.read"}), True), ("cbk_wrong", False), ("", False)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            async with httpx2.AsyncClient(
                headers=headers, trust_env=False, timeout=PATIENCE
            ) as http:
                transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
                async with Client(transport) as client:
                    result = await client.call_tool("live_calls", {})
                    assert result.is_error is not ok
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
            foreign = await http.post(
                f"http://127.0.0.1:{port}/mcp", json={}, headers={"Host": "evil.example"}
            )
            assert foreign.status_code == 421
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE)


async def _listening(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return


@pytest.mark.parametrize("place_", ["0.0.0.0:15002", "example.org:80", "127.0.0.1:x"])
async def test_it_opens_no_door_to_the_network(place_: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cordboard", "mcp-server", "--url", "http://x", "--http", place_),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"loopback" in err


async def test_nothing_of_the_folder_in_which_the_assistant_starts_it_is_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "mcp.py").write_text("open('ran', 'w')")
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("cordboard"), "mcp-server", "--url", "http://127.0.0.1:9"),
        cwd=tmp_path,
        env={"CORDBOARD_API_KEY": "cbk_x", "PATH": os.environ["PATH"]},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert not (tmp_path / "ran").exists()


# The explanation of waits.


def turn(number: int, **waited: int) -> dict[str, Any]:
    total = sum(waited.values())
    return {
        "number": number,
        "caller": {"text": f"words {number}"},
        "waited": {**waited, "total": total},
    }


def test_the_longest_wait_is_explained_by_its_stage_and_tool() -> None:
    tools = [
        {"name": "look", "turn": 2, "begin_ms": 100, "end_ms": 1_300, "status": "ok"},
        {"name": "other", "turn": 1, "begin_ms": 0, "end_ms": 9_000, "status": "ok"},
    ]
    turns = [turn(1, brain=200, tts=100), turn(2, endpoint=300, brain=1_500, tts=200)]
    told = explain({"row": {"id": "c"}, "turns": turns, "tools": tools})
    assert [wait.turn for wait in told.waits] == [2, 1]
    assert told.waits[0].explanation == (
        "2000 ms, 1500 of them for the model's first sentence; the tool look took 1200 ms"
    )
    assert told.summary.startswith("1 of 2 waits took a second or more, the longest 2000 ms")


def test_a_quick_call_is_not_called_slow() -> None:
    told = explain({"row": {"id": "c"}, "turns": [turn(1, brain=300)], "tools": []})
    assert told.summary == "It was not slow: the longest of 1 waits took 300 ms."


@pytest.mark.parametrize("call", [{}, {"turns": None}, {"turns": [{}]}, {"turns": [], "row": {}}])
def test_a_call_without_waits_is_no_error(call: dict[str, Any]) -> None:
    assert explain(call).waits == []
