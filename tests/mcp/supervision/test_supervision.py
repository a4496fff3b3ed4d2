"""How a server is started, left alone, restarted and stopped; with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest
from tests.mcp.conftest import READY_SECONDS, Journal, Start, faulty, gone, until

from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.mcp.supervision.breaker import BreakerState
from cordboard.mcp.supervision.server import ServerState, SupervisedServer

LAZY = {"start": "lazy", "tools": [{"name": "echo", "description": "Says it again."}]}


async def hang(server: SupervisedServer) -> None:
    with pytest.raises(McpTimeout):
        await server.call("hangs", {}, 0.05)


async def test_a_lazy_server_waits_for_its_first_call(start: Start) -> None:
    server = await start(begin=False, **LAZY)
    assert server.state is ServerState.IDLE
    assert server.status().pid is None
    assert [tool.name for tool in server.listing] == ["echo"]
    assert not server.discovered
    result = await server.call("echo", {"text": "first"}, READY_SECONDS)
    assert result.structured_content["text"] == "first"
    assert server.discovered
    assert "plain" in server.status().tools
    assert "tools" in server.status().capabilities


async def test_a_first_call_waits_no_longer_than_its_own_timeout(start: Start) -> None:
    server = await start("mute", begin=False, start_timeout_ms=60_000, stop_grace_ms=200, **LAZY)
    with pytest.raises(McpTimeout, match="starting"):
        await asyncio.wait_for(server.call("echo", {}, 0.1), 60)
    assert server.state is ServerState.STARTING, "the start goes on without the caller"


async def test_a_first_call_to_a_server_that_cannot_start_fails_when_that_is_known(
    start: Start,
) -> None:
    server = await start("exits", begin=False, restart={"enabled": False}, **LAZY)
    with pytest.raises(McpUnavailable):
        await asyncio.wait_for(server.call("echo", {}, 60), 60)
    await until(lambda: server.state is ServerState.FAILED)
    assert server.listing == ()


async def test_many_first_calls_start_it_once(start: Start) -> None:
    server = await start(begin=False, **LAZY)
    calls = [server.call("echo", {"text": "x"}, READY_SECONDS) for _ in range(5)]
    results = await asyncio.gather(*calls)
    assert len({result.structured_content["pid"] for result in results}) == 1


async def test_it_can_be_asked_to_start_ahead_of_the_first_call(start: Start) -> None:
    server = await start(begin=False, **LAZY)
    server.request_start()
    assert await server.wait_ready(READY_SECONDS)
    await server.stop()
    server.request_start()
    assert server.state is ServerState.STOPPED, "what the operator has stopped stays so"


async def test_a_server_that_was_stopped_answers_at_once_and_can_be_started_again(
    start: Start,
) -> None:
    server = await start()
    group = server.status().pid
    assert group
    await server.stop()
    assert await gone(group)
    assert (server.state, server.listing) == (ServerState.STOPPED, ())
    with pytest.raises(McpUnavailable, match="stopped"):
        await asyncio.wait_for(server.call("echo", {}, 60), 60)
    server.start()
    assert await server.wait_ready(READY_SECONDS)
    assert (await server.call("echo", {"text": "again"}, 60)).structured_content["text"] == "again"


async def test_a_start_while_it_is_being_stopped_is_not_lost(start: Start) -> None:
    server = await start("ignores-end", stop_grace_ms=200)
    first = server.status().pid
    stopping = asyncio.create_task(server.stop())
    await until(lambda: server.status().pid is None)
    assert not stopping.done()
    server.start()
    await stopping
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().pid != first


async def test_a_closed_server_cannot_be_started_again(start: Start) -> None:
    server = await start()
    await server.close()
    server.start()
    await server.restart()
    assert server.state is ServerState.STOPPED
    await server.close()


async def test_a_restart_is_a_new_life_that_keeps_the_tools(start: Start) -> None:
    journal = Journal()
    server = await start(observer=journal)
    first = server.status().pid
    restarting = asyncio.create_task(server.restart())
    await until(lambda: server.status().pid != first)
    assert "echo" in server.status().tools, "its tools stay offered"
    await restarting
    answer = await server.call("echo", {"text": "hi"}, READY_SECONDS)
    assert answer.structured_content["pid"] == server.status().pid != first
    assert (server.status().restarts, journal.restarts) == (1, 1)
    assert journal.up[-1] is True


async def test_a_restart_lets_calls_under_way_end(start: Start) -> None:
    server = await start(stop_grace_ms=10_000)
    slow = asyncio.create_task(server.call("slow", {"seconds": 0.3}, 60))
    await asyncio.sleep(0)
    await server.restart()
    assert (await slow).content


async def test_a_restart_does_not_wait_for_ever_for_a_call_that_hangs(start: Start) -> None:
    server = await start(stop_grace_ms=200)
    hanging = asyncio.create_task(server.call("hangs", {}, 60))
    await asyncio.sleep(0)
    await asyncio.wait_for(server.restart(), 60)
    with pytest.raises(McpUnavailable):
        await hanging
    assert await server.wait_ready(READY_SECONDS)


async def test_an_operator_who_goes_away_does_not_leave_it_half_restarted(start: Start) -> None:
    server = await start()
    first = server.status().pid
    restarting = asyncio.create_task(server.restart())
    await asyncio.sleep(0)
    restarting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restarting
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().pid != first


async def test_a_server_that_was_given_up_is_tried_again_by_itself_after_the_window(
    start: Start,
) -> None:
    server = await start(restart={"max_restarts": 0, "window_ms": 1_000})
    first = server.status().pid
    with pytest.raises(McpUnavailable):
        await server.call("exits", {}, 60)
    await until(lambda: server.status().pid not in (None, first))
    assert await server.wait_ready(READY_SECONDS)
    assert (await server.call("echo", {"text": "back"}, READY_SECONDS)).is_error is False


@pytest.mark.parametrize("again", ["start", "stop and start"])
async def test_a_server_that_was_given_up_is_started_at_the_operators_word(
    start: Start, again: str
) -> None:
    server = await start("exits", wait=False, restart={"max_restarts": 0, "window_ms": 600_000})
    await until(lambda: server.state is ServerState.FAILED)
    down = server.status()
    assert down.again_at == pytest.approx(down.since + 600, abs=30)
    server.config = server.config.model_copy(
        update={"command": tuple(word for word in server.config.command if word != "exits")}
    )
    if again == "stop and start":
        await server.stop()
        assert server.state is ServerState.STOPPED
        assert server.status().again_at is None
    server.start()
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().again_at is None


async def test_a_server_that_was_given_up_is_tried_afresh_by_a_restart(start: Start) -> None:
    server = await start(restart={"max_restarts": 1})
    for _ in range(2):
        assert await server.wait_ready(READY_SECONDS)
        with pytest.raises(McpUnavailable):
            await server.call("exits", {}, 60)
        await until(lambda: server.state is not ServerState.READY)
    await until(lambda: server.state is ServerState.FAILED)
    assert server.listing == ()
    with pytest.raises(McpUnavailable, match="failed"):
        await server.call("echo", {"text": ""}, 60)
    await server.restart()
    assert await server.wait_ready(READY_SECONDS)
    with pytest.raises(McpUnavailable):
        await server.call("exits", {}, 60)
    assert await server.wait_ready(READY_SECONDS), "its failures were forgiven"


async def test_a_healthy_spell_forgives_restarts(start: Start) -> None:
    server = await start(restart={"max_restarts": 1, "healthy_ms": 100})
    for _ in range(3):
        assert await server.wait_ready(READY_SECONDS)
        await asyncio.sleep(0.15)
        with pytest.raises(McpUnavailable):
            await server.call("exits", {}, 60)
        await until(lambda: server.state is not ServerState.READY)
    assert await server.wait_ready(READY_SECONDS)


async def test_death_between_calls_is_noticed_and_spoils_no_other_server(start: Start) -> None:
    server, other = await start(), await start()
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: server.status().restarts == 1)
    assert server.status().last_error == "it was killed by SIGKILL"
    assert (await other.call("echo", {"text": "fine"}, 60)).structured_content["text"] == "fine"
    assert other.status().restarts == 0
    assert await server.wait_ready(READY_SECONDS)


async def test_the_breaker_refuses_calls_at_once(start: Start) -> None:
    journal = Journal()
    server = await start(observer=journal, breaker={"failures": 2, "open_ms": 60_000})
    await hang(server)
    await hang(server)
    assert server.status().breaker is BreakerState.OPEN
    assert journal.breaker == [True]
    with pytest.raises(McpUnavailable, match="is not called"):
        await asyncio.wait_for(server.call("plain", {}, 60), 60)


async def test_a_good_probe_closes_the_breaker(start: Start) -> None:
    journal = Journal()
    server = await start(observer=journal, breaker={"failures": 2, "open_ms": 100})
    await hang(server)
    await hang(server)
    await asyncio.sleep(0.1)
    assert (await server.call("plain", {}, 60)).content
    assert server.status().breaker is BreakerState.CLOSED
    assert journal.breaker == [True, False]
    assert server.status().restarts == 0


async def test_a_subprocess_that_leaves_the_probe_unanswered_is_restarted(start: Start) -> None:
    journal = Journal()
    server = await start(
        observer=journal, stop_grace_ms=200, breaker={"failures": 1, "open_ms": 100}
    )
    first = server.status().pid
    await hang(server)
    await asyncio.sleep(0.1)
    with contextlib.suppress(McpUnavailable):  # on a busy machine it is being restarted by then
        await hang(server)
    await until(lambda: server.status().restarts == 1)
    assert server.status().last_error == "it did not answer"
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().pid != first
    assert server.status().breaker is BreakerState.PROBING
    assert (await server.call("plain", {}, 60)).content
    assert server.status().breaker is BreakerState.CLOSED
    assert journal.breaker == [True, False]


async def test_errors_of_tools_and_deaths_do_not_open_the_breaker(start: Start) -> None:
    server = await start(breaker={"failures": 1, "open_ms": 60_000})
    assert (await server.call("fails", {}, 60)).is_error
    with pytest.raises(McpError):
        await server.call("rpc_error", {}, 60)
    with pytest.raises(McpError):
        await server.call("wrong_shape", {}, 60)
    assert (await server.call("plain", {}, 60)).content
    with pytest.raises(McpUnavailable):
        await server.call("exits", {}, 60)
    await until(lambda: server.status().restarts == 1)
    assert await server.wait_ready(READY_SECONDS)
    assert (await server.call("plain", {}, 60)).content, "a new process starts with a clean slate"


async def test_a_caller_who_hangs_up_says_nothing_about_the_server(start: Start) -> None:
    server = await start(breaker={"failures": 1})
    call = asyncio.create_task(server.call("hangs", {}, 60))
    await server.call("plain", {}, 60)
    call.cancel()
    await asyncio.wait({call})
    assert server.status().breaker is BreakerState.CLOSED


async def test_servers_that_ignore_their_end_are_ended_side_by_side(start: Start) -> None:
    servers = [await start("ignores-end", stop_grace_ms=2_000) for _ in range(10)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(server.close() for server in servers))
    assert loop.time() - began < 17, "one after another would take 20 s at least"


def asked(server: SupervisedServer) -> list[str]:
    return [line.removeprefix("asked ") for line in server.status().stderr]


async def test_what_a_server_speaks_is_asked_once(start: Start) -> None:
    server = await start("modern-only", "--tells")
    assert server.status().protocol == "2026-07-28"
    await until(lambda: "subscriptions/listen" in asked(server))
    assert asked(server)[:3] == ["initialize", "server/discover", "tools/list"]
    await server.restart()
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().protocol == "2026-07-28"
    await until(lambda: asked(server).count("subscriptions/listen") == 2)
    questions = [asked(server).count(method) for method in ("initialize", "server/discover")]
    assert questions == [1, 1]


@pytest.mark.parametrize("order", [("good", "modern-only"), ("modern-only", "strict")])
async def test_a_program_that_is_replaced_by_another_may_speak_another_protocol(
    order: tuple[str, str],
) -> None:
    server = SupervisedServer("s", faulty(order[0]))
    server.start()
    assert await server.wait_ready(READY_SECONDS)
    before = server.status().protocol
    await server.stop()
    server.config = faulty(order[1])
    server.start()
    assert await server.wait_ready(READY_SECONDS)
    assert server.status().protocol != before
    await server.close()


@pytest.mark.parametrize(
    ("protocol", "behaviour", "first"),
    [("legacy", "good", "initialize"), ("2026-07-28", "modern-only", "server/discover")],
)
async def test_the_operators_choice_of_protocol_is_kept(
    start: Start, protocol: str, behaviour: str, first: str
) -> None:
    server = await start(behaviour, "--tells", protocol=protocol)
    assert asked(server)[0] == first
    wrong = {"good": "modern-only", "modern-only": "good"}[behaviour]
    other = await start(wrong, wait=False, protocol=protocol, restart={"enabled": False})
    await until(lambda: other.state is ServerState.FAILED)


async def test_a_server_of_2026_tells_its_changes_to_who_subscribes(start: Start) -> None:
    server = await start("modern-only", "--tells")
    await until(lambda: "subscriptions/listen" in asked(server))
    await server.call("new_tool", {}, 60)
    await until(lambda: "surprise" in server.status().tools)
