from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from functools import partial

import mcp_types as types

from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.supervision.life import LIST_AGAIN_SECONDS
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.server import ServerState
from cordboard.tools.builtin import BUILTIN_NAMES
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Status, ToolAsk, ToolReply
from cordboard_testkit.mcp_servers import FAULTY_SERVER

from .conftest import until


def server(*behaviour: str, **settings: object) -> dict[str, object]:
    return {
        "command": [sys.executable, str(FAULTY_SERVER), *behaviour],
        "restart": {"backoff_ms": 20},
        "start_timeout_ms": 60_000,
        "stop_grace_ms": 400,
        **settings,
    }


def config(servers: dict[str, object], *tools: str) -> Config:
    return Config.model_validate(
        {
            "contexts": {"demo": {"tools": list(tools)}},
            "mcp": {"servers": servers},
        }
    )


Line = partial(NoCaller, "c1", "demo", "local")


async def ask(generation: Generation, name: str, **arguments: object) -> ToolReply:
    desk = Desk(generation.toolbox("demo"), Line())
    return await desk.run(ToolAsk("1", name, arguments))


async def test_five_broken_servers_delay_nobody() -> None:
    good = {f"good{number}": server() for number in range(2)}
    broken = {
        "mute": server("mute", start_timeout_ms=60_000),
        "exits": server("exits", restart={"max_restarts": 0}),
        "ghost": {"command": ["no-such-program"]},
        "bad": server("bad-list", restart={"enabled": False}),
        "deaf": server("deaf", start_timeout_ms=60_000),
    }
    generation = Generation(config({**broken, **good}, "mcp_good1_echo", "mcp_mute_echo"))
    generation.start()
    try:
        fleet = generation.fleet
        assert await fleet.servers["good0"].wait_ready(60)
        assert await fleet.servers["good1"].wait_ready(60)
        reply = await ask(generation, "mcp_good1_echo", text="hi")
        assert (reply.status, reply.data["text"]) == (Status.OK, "hi")
        assert generation.toolbox("demo").missing == ("mcp_mute_echo",)
        assert await fleet.wait_settled(0.01) is False
        await until(lambda: fleet.servers["ghost"].state is ServerState.FAILED)
        await until(lambda: fleet.servers["bad"].state is ServerState.FAILED)
        problems = "\n".join(str(problem) for problem in fleet.problems())
        assert "mcp.servers.ghost: the server is failed: the command 'no-such-program'" in problems
        assert "mcp.servers.mute: the server is starting" in problems
        assert "good" not in problems
    finally:
        await asyncio.wait_for(generation.close(), 60)
    assert {status.state for status in fleet.status()} == {ServerState.STOPPED}


async def test_a_tool_of_a_restarting_server_answers_at_once_and_works_again_later() -> None:
    generation = Generation(
        config({"s": server(restart={"backoff_ms": 2_000})}, "mcp_s_exits", "mcp_s_echo")
    )
    generation.start()
    try:
        supervised = generation.fleet.servers["s"]
        assert await supervised.wait_ready(60)
        desk = Desk(generation.toolbox("demo"), Line())
        died = await desk.run(ToolAsk("1", "mcp_s_exits", {}, turn=1))
        assert died.status is Status.ERROR
        assert died.message == "Sorry, that service is not available right now."
        down = await desk.run(ToolAsk("2", "mcp_s_echo", {"text": ""}, turn=2))
        assert down.status is Status.ERROR
        assert "mcp_s_echo" in generation.catalogue, "still offered while it restarts"
        assert await supervised.wait_ready(60)
        back = await desk.run(ToolAsk("3", "mcp_s_echo", {"text": "again"}, turn=3))
        assert back.data["text"] == "again", "the call's own toolbox works on"
    finally:
        await generation.close()


async def test_tools_of_a_server_that_is_given_up_are_withdrawn() -> None:
    generation = Generation(config({"s": server(restart={"enabled": False})}, "mcp_s_exits"))
    generation.start()
    try:
        assert await generation.fleet.servers["s"].wait_ready(60)
        kept = generation.toolbox("demo")
        await ask(generation, "mcp_s_exits")
        await until(lambda: generation.fleet.servers["s"].state is ServerState.FAILED)
        assert generation.toolbox("demo").missing == ("mcp_s_exits",)
        desk = Desk(kept, Line())
        reply = await desk.run(ToolAsk("1", "mcp_s_exits", {}))
        assert reply.status is Status.ERROR, "a call that began before is told so"
    finally:
        await generation.close()


async def test_only_the_named_tools_are_offered_under_the_operators_names() -> None:
    named = [
        {
            "name": "json_text",
            "expose_as": "weather",
            "speech_template": "Expect {weather.0.summary}.",
        },
        {"name": "no-such-tool"},
    ]
    generation = Generation(config({"s": server(tools=named)}, "weather"))
    generation.start()
    try:
        assert await generation.fleet.wait_settled(60)
        offered = [name for name in generation.catalogue if name not in BUILTIN_NAMES]
        assert offered == ["weather"]
        assert (await ask(generation, "weather")).message == "Expect rain."
        (problem,) = generation.fleet.problems()
        assert problem.key == "mcp.servers.s.tools.1.name"
        assert "no-such-tool" in problem.message
    finally:
        await generation.close()


async def test_bad_structured_results_are_errors() -> None:
    tools = ("mcp_s_bad_structured", "mcp_s_no_structured", "mcp_s_wrong_shape", "mcp_s_rpc_error")
    generation = Generation(config({"s": server()}, *tools))
    generation.start()
    try:
        assert await generation.fleet.wait_settled(60)
        for tool in tools:
            reply = await ask(generation, tool)
            assert reply.status is Status.ERROR
            assert reply.message == "Sorry, that service gave an answer I cannot use."
    finally:
        await generation.close()


async def test_hostile_schemas_are_refused_and_the_others_offered() -> None:
    generation = Generation(config({"s": server("hostile")}))
    generation.start()
    try:
        assert await generation.fleet.wait_settled(60)
        assert "mcp_s_fine" in generation.catalogue
        refused = "\n".join(str(problem) for problem in generation.fleet.problems())
        for tool in ("remote", "deep", "no_type"):
            assert f"mcp_s_{tool}" not in generation.catalogue
            assert f"mcp.servers.s: the tool '{tool}' is not offered:" in refused
    finally:
        await generation.close()


async def test_unusual_names_are_usable_and_clashes_named() -> None:
    generation = Generation(config({"s": server("names")}))
    generation.start()
    try:
        assert await generation.fleet.wait_settled(60)
        names = [name for name in generation.catalogue if name.startswith("mcp_")]
        assert "mcp_s_v1_cafe_u" in names
        assert "mcp_s_get_atis" not in names
        assert len([name for name in names if name.startswith("mcp_s_get_atis_")]) == 2
        assert len(names) == 5
        assert all(len(name) <= 64 for name in names)
        (clash,) = generation.fleet.problems()
        assert "mcp:s:get-atis and mcp:s:getAtis" in str(clash)
        assert "expose_as" in str(clash)
    finally:
        await generation.close()


async def test_disabled_servers_do_not_exist() -> None:
    generation = Generation(config({"s": server(enabled=False)}))
    generation.start()
    assert generation.fleet.servers == {}
    await generation.close()


async def test_a_server_that_renames_its_tools_again_and_again_fills_no_memory() -> None:
    fleet = Fleet(config({"s": server()}).mcp, ServerPool(is_open=False))
    fleet.start()  # which waits for the pool
    (only,) = fleet.servers.values()
    only._set_state(ServerState.READY)
    forgotten = []
    for number in range(5):
        only.listing = (
            types.Tool.model_validate({"name": f"t{number}", "inputSchema": {"type": "object"}}),
        )
        (entry,) = fleet.tools()
        assert fleet.tools()[0].tool is entry.tool
        forgotten.append(weakref.ref(entry.tool))
        del entry
    gc.collect()
    assert [tool() is None for tool in forgotten] == [True] * 4 + [False]
    await fleet.close()


STORMY = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
listings = 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        info = {"name": "stormy", "version": "1"}
        able = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-06-18", "capabilities": able, "serverInfo": info}
        send(id=asked["id"], result=result)
    elif asked["method"] == "tools/list":
        listings += 1
        tool = {"name": f"t{listings}", "inputSchema": {"type": "object"}}
        send(id=asked["id"], result={"tools": [tool]})
        send(method="notifications/tools/list_changed")
"""


async def test_a_server_whose_tools_change_without_end_does_not_keep_the_engine_busy() -> None:
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    command = [sys.executable, "-c", STORMY]
    fleet = Fleet(config({"s": {"command": command, "stop_grace_ms": 60_000}}).mcp)
    fleet.on_change(changed)
    fleet.start()
    (only,) = fleet.servers.values()
    try:
        assert await only.wait_ready(60)
        await until(lambda: only.listing[0].name == "t2")  # the first change is taken at once
        before, began = changes, time.monotonic()
        await asyncio.sleep(0.5)
        listings = (time.monotonic() - began) / LIST_AGAIN_SECONDS
        assert changes - before <= 1 + listings  # hundreds, before
    finally:
        began = time.monotonic()
        await fleet.close()
    assert time.monotonic() - began < 50, "it ends when its input closes"
