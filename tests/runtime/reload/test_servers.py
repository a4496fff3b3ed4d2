"""MCP servers at a reload: unchanged ones are shared, changed ones replaced when none is harmed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cordboard.agents.providers import Providers
from cordboard.api.administration_view import Deferred
from cordboard.mcp.supervision.status import ServerState
from cordboard.tools.tool import Status
from cordboard_testkit.patience import until

from .conftest import Stand, context, lives, server

TOOLS = ("mcp_s_echo", "mcp_s_environment")
IDLE = (Deferred("mcp.servers.s", "no call is active"),)


def tree(*tools: str, mode: str = "idle", **servers: Any) -> dict[str, Any]:
    return {
        "contexts": {"demo": context(*(tools or TOOLS))},
        "reload": {"watch": False, "mcp": mode},
        "mcp": {"servers": servers},
    }


async def test_unchanged_servers_go_on_new_ones_start_removed_ones_end_with_their_last_call(
    stand: Stand,
) -> None:
    stand.write(**tree("mcp_s_echo", "mcp_old_echo", s=server(), old=server()))
    await stand.begin()
    kept, ending = stand.pid("s"), stand.pid("old")
    call = await stand.ring()
    stand.write(**tree("mcp_s_echo", "mcp_new_echo", s=server(), new=server()))
    report = await stand.reload()
    assert report.changed == ("contexts.demo.tools", "mcp.servers.new", "mcp.servers.old")
    assert report.deferred == (Deferred("mcp.servers.old", "the calls that use it have ended"),)
    await stand.ready("new")
    assert await call.pid("old") == ending, "a live call keeps its servers"
    assert await call.pid("s") == stand.pid("s") == kept
    next_call = await stand.ring()
    assert next_call.tools == ["mcp_s_echo", "mcp_new_echo"]
    await call.hang_up()
    await until(lambda: not lives(ending), "the end of the removed server")
    assert stand.succession.deferred() == ()
    assert await next_call.pid("s") == kept
    series = b'ai_agent_mcp_server_up{server="old"}'
    await until(lambda: series not in stand.metrics.render(), "the end of its series")


async def test_what_only_the_engine_looks_at_restarts_nothing(stand: Stand) -> None:
    stand.write(**tree(s=server()))
    await stand.begin()
    pid, call = stand.pid(), await stand.ring()
    named = [{"name": "plain", "expose_as": "runway", "speech_template": "It is so."}]
    defaults = {"timeout_ms": 1_234}
    stand.write(**tree("runway", s=server(tools=named, defaults=defaults)))
    report = await stand.reload()
    assert report.deferred == ()
    assert "mcp.servers.s.tools" in report.changed
    after = await stand.ring()
    assert after.tools == ["runway"]
    assert (await after.ask("runway")).message == "It is so."
    assert after.agent.session is not None
    box = stand.succession.generation.toolbox("demo")
    assert box.specs[0].limits.timeout_ms == 1_234
    assert await call.pid() == stand.pid() == pid
    assert call.tools == [*TOOLS]


async def test_a_changed_server_waits_until_no_call_is_active_and_then_changes_by_itself(
    stand: Stand,
) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    old = stand.pid()
    first = await stand.ring()
    stand.write(**tree(s=server(version="2")))
    report = await stand.reload()
    assert report.changed == ("mcp.servers.s.env.VERSION",)
    assert report.deferred == IDLE
    second = await stand.ring()
    assert await first.version() == await second.version() == "1", "also for new calls"
    assert stand.pid() == old
    await first.hang_up()
    assert stand.succession.deferred() == IDLE, "there is another call"
    assert await second.version() == "1"
    await second.hang_up()
    await until(lambda: stand.succession.deferred() == ())
    third = await stand.ring()
    assert third.tools == [*TOOLS], "those of the old server, until the new one's are known"
    await stand.ready()
    assert await third.version() == "2"
    assert not lives(old)
    events = [entry["event"] for entry in stand.log]
    assert events.count("mcp_servers_replaced") == 1
    assert len(stand.logged("mcp_server_ready")) == 2


async def test_without_calls_it_is_replaced_at_once_the_old_one_first(
    stand: Stand, tmp_path: Path
) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    old = stand.pid()
    stand.write(**tree(s=server(version="2")))
    assert (await stand.reload()).deferred == ()
    assert stand.state() is ServerState.STARTING
    assert b'ai_agent_mcp_server_up{server="s"} 0.0' in stand.metrics.render()
    await stand.ready()
    assert not lives(old)
    assert await (await stand.ring()).version() == "2"
    assert b'ai_agent_mcp_server_up{server="s"} 1.0' in stand.metrics.render()


async def test_two_of_one_server_never_run_at_once_unless_that_is_wanted(
    stand: Stand, tmp_path: Path
) -> None:
    """A server may own a file or a port: the new one is started when the old one has ended."""
    script = tmp_path / "owner.py"
    script.write_text(OWNER)

    def owner(version: str) -> dict[str, Any]:
        return {
            "command": ["python3", str(script), str(tmp_path / "owned")],
            "env": {"VERSION": version},
            "restart": {"enabled": False},
        }

    stand.write(**tree("mcp_s_environment", s=owner("1")))
    await stand.begin()
    assert stand.state() is ServerState.READY
    stand.write(**tree("mcp_s_environment", s=owner("2")))
    await stand.reload()
    await until(lambda: stand.state() is not ServerState.STARTING)
    assert stand.state() is ServerState.READY, stand.succession.generation.fleet.status()


OWNER = """
import fcntl, json, sys
owned = open(sys.argv[1], "w")
fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"name": "owner", "version": "1"}
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info
            },
            "tools/list": {"tools": [{"name": "environment", "inputSchema": {"type": "object"}}]},
        }
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        print(json.dumps(answer), flush=True)
"""


async def test_live_starts_the_new_one_at_once_and_the_old_one_serves_its_calls_to_the_end(
    stand: Stand,
) -> None:
    stand.write(**tree(mode="live", s=server(version="1")))
    await stand.begin()
    old = stand.pid()
    first = await stand.ring()
    stand.write(**tree(mode="live", s=server(version="2")))
    assert (await stand.reload()).deferred == ()
    await stand.ready()
    second = await stand.ring()
    assert (await first.version(), await second.version()) == ("1", "2")
    assert lives(old)
    assert b'ai_agent_mcp_server_up{server="s"} 1.0' in stand.metrics.render()
    await first.hang_up()
    await until(lambda: not lives(old), "the end of the old server")
    assert await second.version() == "2"
    assert b'ai_agent_mcp_server_up{server="s"} 1.0' in stand.metrics.render(), "the new one is up"


async def test_a_second_reload_while_one_waits_goes_by_the_last_file(stand: Stand) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    call = await stand.ring()
    for version in ("2", "3"):
        stand.write(**tree(s=server(version=version)))
        assert (await stand.reload()).deferred == IDLE
    assert await (await stand.ring()).version() == "1"
    for guest in stand.guests:
        await guest.hang_up()
    await until(lambda: stand.succession.deferred() == ())
    await stand.ready()
    assert await (await stand.ring()).version() == "3"
    assert len(stand.logged("mcp_server_ready")) == 2, "the one between was never started"
    del call


async def test_a_change_that_is_taken_back_waits_for_nothing(stand: Stand) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    pid, call = stand.pid(), await stand.ring()
    stand.write(**tree(s=server(version="2")))
    assert (await stand.reload()).deferred == IDLE
    stand.write(**tree(s=server(version="1")))
    assert (await stand.reload()).deferred == ()
    await call.hang_up()
    await until(lambda: len(stand.logged("generation_closed")) == 2)
    assert stand.pid() == pid
    assert stand.logged("mcp_servers_replaced") == []


async def test_a_reload_while_the_new_server_is_being_started(stand: Stand) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    for version in ("2", "3", "4"):
        stand.write(**tree(s=server(version=version)))
        assert (await stand.reload()).applied
    await stand.ready()
    assert await (await stand.ring()).version() == "4"


async def test_a_server_that_never_gets_ready_is_replaced(stand: Stand) -> None:
    stand.write(**tree(s=server("mute", start_timeout_ms=600_000)))
    await stand.begin(wait=False)
    assert stand.state() is ServerState.STARTING
    stand.write(**tree(s=server(version="2")))
    await stand.reload()
    await stand.ready()
    assert await (await stand.ring()).version() == "2"


async def test_a_changed_server_that_does_not_start_harms_no_call_that_lives(stand: Stand) -> None:
    stand.write(**tree(mode="live", s=server(version="1")))
    await stand.begin()
    call = await stand.ring()
    stand.write(**tree(mode="live", s=server("exits", restart={"enabled": False})))
    assert (await stand.reload()).applied
    await until(lambda: stand.state() is ServerState.FAILED)
    assert await call.version() == "1"
    (problem,) = stand.succession.generation.fleet.problems()
    assert "cannot open the database" in problem.message
    assert (await stand.ring()).tools == []


async def test_a_server_that_was_given_up_is_replaced_at_once(stand: Stand) -> None:
    """An operator mends it while calls go on; nobody can miss the broken one."""
    stand.write(**tree(s=server("exits", restart={"enabled": False})))
    await stand.begin()
    await stand.ring()
    stand.write(**tree(s=server()))
    assert (await stand.reload()).deferred == ()
    await stand.ready()
    assert (await stand.ring()).tools == [*TOOLS]


async def test_the_engine_stops_while_a_change_waits(stand: Stand) -> None:
    stand.write(**tree(s=server(version="1")))
    await stand.begin()
    await stand.ring()
    stand.write(**tree(s=server(version="2")))
    assert (await stand.reload()).deferred == IDLE
    await stand.end()  # ends the call, and that is no moment to start a server
    assert len(stand.logged("mcp_server_ready")) == 1
    assert stand.logged("mcp_servers_replaced") == []


async def test_servers_that_are_switched_off_end_and_come_back(stand: Stand) -> None:
    stand.write(**tree(s=server()))
    await stand.begin()
    pid = stand.pid()
    stand.write(**tree(s=server(enabled=False)))
    assert (await stand.reload()).changed == ("mcp.servers.s.enabled",)
    await until(lambda: not lives(pid))
    assert (await stand.ring()).tools == []
    stand.write(**tree(s=server()))
    await stand.reload()
    await stand.ready()
    assert (await stand.ring()).tools == [*TOOLS]


async def test_a_lazy_server_starts_with_the_first_call_that_may_need_it(stand: Stand) -> None:
    named = [{"name": "echo"}, {"name": "environment"}]
    contexts = {"demo": context(*TOOLS), "other": context()}
    stand.write(**tree(s=server(start="lazy", tools=named)) | {"contexts": contexts})
    await stand.begin()
    await stand.ring(AI_CONTEXT="other")
    assert stand.state() is ServerState.IDLE
    call = await stand.ring()
    assert call.tools == [*TOOLS]
    assert await call.version() == "1"
    pid = stand.pid()
    stand.write(**tree(s=server(start="boot", tools=named)))
    assert (await stand.reload()).changed == ("contexts.other", "mcp.servers.s.start")
    assert await call.pid() == pid


async def test_a_lazy_server_that_is_wanted_at_once_now_starts(stand: Stand) -> None:
    named = [{"name": "echo"}, {"name": "environment"}]
    stand.write(**tree(s=server(start="lazy", tools=named)))
    await stand.begin()
    assert stand.state() is ServerState.IDLE
    stand.write(**tree(s=server(start="boot", tools=named)))
    await stand.reload()
    await stand.ready()


async def test_tools_that_changed_while_the_old_generation_lived_on(stand: Stand) -> None:
    """Both generations share the server; each new call has what it lists by then."""
    stand.write(**tree("mcp_s_new_tool", "mcp_s_surprise", s=server()))
    await stand.begin()
    old = await stand.ring()
    stand.write(**tree("mcp_s_new_tool", "mcp_s_surprise", s=server(), other=server()))
    await stand.reload()
    assert (await stand.ring()).tools == ["mcp_s_new_tool"]
    assert (await old.ask("mcp_s_new_tool")).status is Status.OK
    await until(lambda: "mcp_s_surprise" in stand.succession.generation.catalogue)
    assert (await stand.ring()).tools == ["mcp_s_new_tool", "mcp_s_surprise"]
    assert old.tools == ["mcp_s_new_tool"]


async def test_many_reloads_leave_nothing(stand: Stand) -> None:
    stand.write(**tree(s=server()))
    await stand.begin()
    tasks, pid = len(asyncio.all_tasks()), stand.pid()
    for number in range(30):
        changed = tree(s=server())
        changed["contexts"]["demo"]["prompt"] = f"Number {number}."
        stand.path.write_text(json.dumps(changed))
        assert (await stand.reload()).generation == number + 2
    await until(lambda: len(stand.logged("generation_closed")) == 30)
    assert stand.pid() == pid
    assert len(stand.pool.entries) == 1
    assert len(stand.pool.entries[0].leases) == 1
    assert len(asyncio.all_tasks()) <= tasks


@pytest.mark.parametrize("mode", ["idle", "live"])
async def test_reloads_beside_calls_that_come_and_go(stand: Stand, mode: str) -> None:
    """Whatever the order, no call is ever without its server for longer than a start."""
    stand.write(**tree(mode=mode, s=server(version="0")))
    await stand.begin()
    answered = 0

    async def caller() -> None:
        nonlocal answered
        call = await stand.ring()
        for _ in range(3):
            reply = await call.ask("mcp_s_environment")
            answered += reply.status is Status.OK
        await call.hang_up()

    for number in range(1, 5):
        callers = [asyncio.create_task(caller()) for _ in range(3)]
        stand.write(**tree(mode=mode, s=server(version=str(number))))
        await asyncio.gather(stand.reload(), *callers)
    await until(lambda: stand.succession.deferred() == ())
    await stand.ready()
    assert await (await stand.ring()).version() == "4"
    assert answered > 0


async def test_servers_end_although_a_part_of_the_agents_cannot_be_closed(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(providers: Providers) -> None:
        raise OSError("the connection is gone")

    monkeypatch.setattr(Providers, "close", refuses)
    stand.write(mcp={"servers": {"s": server()}})
    await stand.begin()
    pid = stand.pid()
    assert lives(pid)
    await stand.end()
    assert not lives(pid)
    (told,) = stand.logged("succession_failed")
    assert "the connection is gone" in told["error"]
