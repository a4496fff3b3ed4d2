"""What an operator may do with the servers of a running engine."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from cordboard.errors import ConfigError, CordboardError, LockChanged, McpUnavailable
from cordboard.mcp.definitions.lock import Lock, load_lock, save_lock
from cordboard.mcp.supervision.status import ServerState
from cordboard_testkit.patience import PATIENCE, until

from .conftest import FAULTY_SERVER, Stand, context, lives, server

TOOLS = ("mcp_s_echo", "mcp_s_environment")


async def begun(stand: Stand, **servers: object) -> None:
    stand.write(mcp={"servers": servers}, contexts={"demo": context(*TOOLS)})
    await stand.begin()


async def test_stop_start_and_restart(stand: Stand) -> None:
    await begun(stand, s=server())
    call, first = await stand.ring(), stand.pid()
    stopped = await stand.administration.mcp_stop("s")
    assert (stopped.state, stopped.pid) == (ServerState.STOPPED, None)
    assert not lives(first)
    assert (await stand.ring()).tools == [], "withdrawn"
    assert "not available" in await call.version()
    assert (await stand.administration.mcp_start("s")).state is ServerState.STARTING
    await stand.ready()
    second = stand.pid()
    assert await call.pid() == second, "the call's own tools work again"
    await stand.administration.mcp_restart("s")
    await stand.ready()
    assert await call.pid() not in (first, second)


async def test_a_reload_leaves_a_stopped_server_stopped(stand: Stand) -> None:
    await begun(stand, s=server())
    await stand.administration.mcp_stop("s")
    stand.write(
        mcp={"servers": {"s": server()}}, contexts={"demo": context(*TOOLS, greeting="New.")}
    )
    assert (await stand.reload()).applied
    assert stand.state() is ServerState.STOPPED


async def test_a_server_that_was_given_up_is_started_again(stand: Stand) -> None:
    marker = stand.path.parent / "flaky"
    await begun(stand, s=server("flaky", str(marker), restart={"enabled": False}))
    assert stand.state() is ServerState.FAILED
    await stand.administration.mcp_start("s")
    await stand.ready()


async def test_a_test_of_a_running_server_asks_that_one(stand: Stand) -> None:
    await begun(stand, s=server())
    pid = stand.pid()
    report = await stand.administration.mcp_test("s")
    assert (report.ok, report.error, report.protocol) == (True, "", "2025-11-25")
    assert "echo" in report.tools
    assert len(stand.logged("mcp_server_ready")) == 1
    assert stand.pid() == pid


async def test_a_test_of_a_server_that_does_not_run_starts_it_aside_and_ends_it(
    stand: Stand,
) -> None:
    await begun(stand, s=server(enabled=False), broken=server("exits", restart={"enabled": False}))
    report = await stand.administration.mcp_test("s")
    assert report.ok
    assert "echo" in report.tools
    (ready,) = stand.logged("mcp_server_ready")
    assert not lives(ready["pid"])
    assert [status.server for status in stand.administration.mcp_status()] == ["broken"]
    assert ready["server"] == "s (trial)"
    failed = await stand.administration.mcp_test("broken")
    assert not failed.ok
    assert "cannot open the database" in failed.error
    given_up, tried = stand.logged("mcp_server_failed")
    assert (given_up["server"], tried["server"]) == ("broken", "broken (trial)")


async def test_a_test_that_is_given_up_leaves_nothing(stand: Stand) -> None:
    await begun(stand, s=server(), mute=server("mute", enabled=False, start_timeout_ms=600_000))
    asked = asyncio.create_task(stand.administration.mcp_test("mute"))
    await asyncio.sleep(0.2)
    asked.cancel()
    await asyncio.wait({asked}, timeout=PATIENCE)
    assert asked.cancelled()
    assert not [task for task in asyncio.all_tasks() if "mcp server mute" in task.get_name()]


async def test_a_changed_server_that_waits_for_its_moment_is_tried_as_it_will_be(
    stand: Stand,
) -> None:
    await begun(stand, s=server())
    await stand.ring()
    ghost = {"command": ["no-such-program-anywhere"]}
    stand.write(mcp={"servers": {"s": ghost}}, contexts={"demo": context(*TOOLS)})
    await stand.reload()
    assert stand.state() is ServerState.READY
    assert "no-such-program-anywhere" in (await stand.administration.mcp_test("s")).error


@pytest.mark.parametrize("what", ["mcp_test", "mcp_start", "mcp_stop", "mcp_restart"])
async def test_nobody_of_that_name(stand: Stand, what: str) -> None:
    await begun(stand, s=server())
    with pytest.raises(KeyError):
        await getattr(stand.administration, what)("nobody")


async def test_a_server_that_is_switched_off_cannot_be_moved(stand: Stand) -> None:
    await begun(stand, s=server(enabled=False))
    with pytest.raises(McpUnavailable, match="switched off"):
        await stand.administration.mcp_start("s")


async def test_every_listed_tool_is_shown_and_why_it_is_not_offered(stand: Stand) -> None:
    twice = {"command": [sys.executable, str(FAULTY_SERVER), "names"]}
    named = [{"name": "plain", "expose_as": "runway"}, {"name": "echo"}]
    stand.write(
        mcp={"servers": {"s": server(tools=named), "odd": twice, "bad": server("hostile")}},
        contexts={"demo": context("runway")},
    )
    await stand.begin()
    shown = stand.administration.mcp_tools()
    assert json.loads(json.dumps(shown)) == shown, "fit for JSON"
    by_origin = {tool["origin"]: tool for tool in shown}
    runway = by_origin["mcp:s:plain"]
    assert (runway["exposed"], runway["server"], runway["tool"]) == ("runway", "s", "plain")
    assert (runway["offered"], runway["why_not"]) == (True, "")
    assert runway["description"] == "Does plain."
    assert runway["parameters"] == {"type": "object"}
    assert "mcp:s:slow" not in by_origin, "the operator has not named it"
    refused = by_origin["mcp:bad:remote"]
    assert not refused["offered"]
    assert refused["why_not"]
    offered = {tool["exposed"] for tool in shown if tool["offered"]}
    assert offered == {name for name in stand.succession.generation.catalogue if "mcp" in name} | {
        "runway"
    }
    assert all(bool(tool["why_not"]) is not tool["offered"] for tool in shown)


async def test_a_changed_file_is_taken_by_itself(stand: Stand) -> None:
    """Also a bad one, which changes nothing, and then the mended one."""
    stand.write(reload={"watch": True})
    await stand.begin()
    stand.write(reload={"watch": True}, contexts={"demo": context(greeting="Watched.")})
    await until(lambda: stand.succession.generation.number == 2)
    assert (await stand.ring()).greeting == "Watched."
    stand.path.write_text("contexts:\n  demo: {greetin: x}\n")
    await until(lambda: stand.logged("reload_refused") != [])
    assert stand.logged("reload_refused")[0]["why"] == "file changed"
    assert (await stand.ring()).greeting == "Watched."
    stand.write(reload={"watch": False}, contexts={"demo": context(greeting="Mended.")})
    await until(lambda: (stand.succession.config.contexts["demo"].greeting) == "Mended.")
    await until(lambda: stand.administration._watch is None, "the end of the watch")


async def test_a_reason_is_logged_also_of_a_file_that_cannot_be_read(stand: Stand) -> None:
    stand.write(reload={"watch": True})
    await stand.begin()
    with stand.path.open("wb") as file:
        file.truncate(50_000_000)
    await until(lambda: stand.logged("reload_refused") != [])
    (problem,) = stand.logged("reload_refused")[0]["problems"]
    assert "cannot be read: larger than 1024 KiB" in problem
    assert stand.logged("reload_failed") == []


async def test_a_changed_secret_is_taken_by_itself(stand: Stand) -> None:
    secret = stand.path.parent / "secrets" / "token"
    secret.parent.mkdir()
    secret.write_text("the old secret")
    stand.write(reload={"watch": True}, admin={"token": "${file:secrets/token}"})
    await stand.begin()
    secret.write_text("the new secret")
    await until(lambda: stand.succession.generation.number == 2)
    token = stand.succession.config.admin.token
    assert token is not None
    assert token.get_secret_value() == "the new secret"
    assert stand.logged("reloaded")[0]["changed"] == ["admin.token"]


async def test_newly_accepted_tools_are_taken_by_themselves(stand: Stand) -> None:
    stand.write(
        reload={"watch": True},
        mcp={"lock": "enforce", "servers": {"s": server()}},
        contexts={"demo": context(*TOOLS)},
    )
    await stand.begin()
    (status,) = stand.administration.mcp_status()
    assert "echo" in status.quarantined
    shown = {tool["tool"]: tool for tool in stand.administration.mcp_tools()}
    assert shown["echo"]["quarantined"]
    assert not shown["echo"]["offered"]
    listing = stand.succession.generation.fleet.servers["s"].listing
    save_lock(stand.path.parent / "mcp.lock", Lock().accepted("s", listing))
    await until(lambda: "mcp_s_echo" in stand.succession.generation.catalogue)


async def test_a_file_that_changed_during_the_start_is_taken(stand: Stand) -> None:
    stand.write(reload={"watch": True})

    def written_meanwhile() -> None:
        stand.write(reload={"watch": True}, contexts={"demo": context(greeting="Meanwhile.")})

    await stand.begin(meanwhile=written_meanwhile)
    await until(lambda: stand.succession.generation.number == 2)
    assert (await stand.ring()).greeting == "Meanwhile."


async def test_a_watch_that_cannot_be_is_said_and_no_more(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr("cordboard.config.watch.FileWatch.start", refuse)
    stand.write(reload={"watch": True})
    await stand.begin()
    assert "inotify" in stand.logged("config_not_watched")[0]["error"]
    stand.write(contexts={"demo": context(greeting="By hand.")})
    assert (await stand.reload()).applied


async def test_tools_are_accepted_as_they_were_seen_without_a_reload(stand: Stand) -> None:
    stand.write(
        reload={"watch": False},
        mcp={"lock": "enforce", "servers": {"s": server()}},
        contexts={"demo": context(*TOOLS)},
    )
    await stand.begin()
    administration = stand.administration
    (new,) = await administration.mcp_lock()
    assert (new.server, new.state) == ("s", "new")
    assert "mcp:s:echo (new)" in new.diff
    with pytest.raises(LockChanged, match="no longer those that you have seen"):
        await administration.mcp_accept("s", "0" * 64)
    assert not administration._succession.lock_path.exists()
    await administration.mcp_accept("s", new.digest)
    assert "mcp_s_echo" in stand.succession.generation.catalogue, "at once"
    assert stand.succession.generation.number == 1
    (same,) = await administration.mcp_lock()
    assert (same.state, same.diff) == ("same", ())
    with pytest.raises(KeyError):
        await administration.mcp_accept("nowhere", same.digest)


async def test_a_lock_file_that_changed_meanwhile_is_not_overwritten(stand: Stand) -> None:
    stand.write(
        reload={"watch": False},
        mcp={"lock": "enforce", "servers": {"s": server()}},
        contexts={"demo": context(*TOOLS)},
    )
    await stand.begin()
    (seen,) = await stand.administration.mcp_lock()
    path = stand.path.parent / "mcp.lock"
    listing = stand.succession.generation.fleet.servers["s"].listing
    save_lock(path, Lock().accepted("s", listing[:1]).accepted("old", listing[:1]))
    before = path.read_bytes()
    with pytest.raises(LockChanged):
        await stand.administration.mcp_accept("s", seen.digest)
    assert path.read_bytes() == before
    changed, gone = await stand.administration.mcp_lock()
    assert (changed.state, gone.server, gone.state) == ("changed", "old", "gone")
    await stand.administration.mcp_accept("old", gone.digest)
    assert set(load_lock(path).servers) == {"s"}
    path.write_text("{")
    with pytest.raises(ConfigError, match="is not JSON"):
        await stand.administration.mcp_lock()


async def test_servers_without_a_listing_have_nothing_to_accept(stand: Stand) -> None:
    await begun(stand, s=server(start="lazy", tools=[{"name": "echo"}, {"name": "environment"}]))
    (unseen,) = await stand.administration.mcp_lock()
    assert (unseen.state, unseen.digest) == ("unseen", "")
    with pytest.raises(CordboardError, match="has not listed its tools"):
        await stand.administration.mcp_accept("s", "0" * 64)


async def test_stderr_and_messages_of_a_server_are_read_on(stand: Stand) -> None:
    await begun(stand, s=server())
    first = await stand.administration.mcp_protocol("s", 0)
    assert first.items[-1].kind == "answer"
    await stand.administration.mcp_test("s")
    more = await stand.administration.mcp_protocol("s", first.last)
    assert [each.method for each in more.items if each.method] == ["tools/list"]
    assert stand.administration.mcp_stderr("s", 0).lost == 0
    with pytest.raises(KeyError):
        stand.administration.mcp_stderr("nowhere", 0)
