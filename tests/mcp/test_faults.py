"""The fault table of MCP servers over stdio: one test for each row, with real processes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from cordboard.config.mcp import McpServer
from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.mcp import large_result
from cordboard.mcp.stdio import transport
from cordboard.mcp.stdio.process import Launch
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.stdio.stderr import StderrTail
from cordboard.mcp.stdio.transport import Allowance, StdioTransport
from cordboard.mcp.supervision.server import ServerState, SupervisedServer

from .conftest import READY_SECONDS, Journal, Start, faulty, gone, until

NO_RESTART = {"restart": {"enabled": False}}


def _our_children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def words(result: object) -> str:
    return result.content[0].text  # type: ignore[attr-defined, no-any-return]


class Counted(Allowance):
    """A limit that counts what has been read against it."""

    def __init__(self, all_of_them: list[Counted], per_second: float) -> None:
        super().__init__(per_second)
        all_of_them.append(self)
        self.per_second = per_second
        self.spent = self.largest = self.began = self.latest = 0.0
        self.pauses = False

    def spend(self, amount: float, now: float) -> float:
        self.began = self.began or now
        self.latest = now
        self.spent += amount
        self.largest = max(self.largest, amount)
        pause = super().spend(amount, now)
        self.pauses = self.pauses or pause > 0
        return pause

    @property
    def allowed(self) -> float:
        """A second's worth at once, then the rate; the last line, and 50 ms that are not waited."""
        return self.per_second * (self.latest - self.began + 1.05) + self.largest


async def test_a_good_server_answers(start: Start) -> None:
    server = await start()
    result = await server.call("echo", {"text": "hello"}, 60)
    assert result.structured_content["text"] == "hello"
    status = server.status()
    assert status.state is ServerState.READY
    assert status.protocol == "2025-11-25"
    assert "echo" in status.tools


async def test_command_that_does_not_exist_fails_at_once_and_for_good() -> None:
    server = SupervisedServer("ghost", McpServer(command=("no-such-program-anywhere",)))
    server.start()
    await asyncio.wait_for(server.settled.wait(), 60)
    assert server.state is ServerState.FAILED
    assert "no-such-program-anywhere" in server.status().last_error
    assert "not found on PATH" in server.status().last_error
    with pytest.raises(McpUnavailable):
        await server.call("echo", {}, 60)
    await server.close()


async def test_exits_at_start_is_tried_again_then_given_up(start: Start) -> None:
    journal = Journal()
    server = await start("exits", wait=False, observer=journal, restart={"max_restarts": 2})
    await until(lambda: server.state is ServerState.FAILED)
    assert journal.restarts == 2
    assert journal.up == [False]
    error = server.status().last_error
    assert "exited with status 1 before it was ready" in error
    assert "cannot open the database" in error


async def test_never_answers_is_a_timeout_not_a_hang(start: Start) -> None:
    server = await start("mute", wait=False, start_timeout_ms=300, stop_grace_ms=200, **NO_RESTART)
    await until(lambda: server.state is ServerState.FAILED)
    assert server.status().last_error == "it did not answer in time"


async def test_a_slow_start_is_waited_for(start: Start) -> None:
    server = await start("slow-start")
    assert server.state is ServerState.READY


async def test_a_tool_list_of_the_wrong_shape_is_one_clear_error(start: Start) -> None:
    server = await start("bad-list", wait=False, **NO_RESTART)
    await until(lambda: server.state is ServerState.FAILED)
    assert "wrong shape" in server.status().last_error


async def test_a_banner_on_stdout_does_no_harm(start: Start) -> None:
    server = await start("banner")
    assert (await server.call("plain", {}, 60)).content


async def test_half_a_character_in_the_arguments_costs_nothing(start: Start) -> None:
    server = await start()
    for _ in range(2):  # and the connection is as good as before
        result = await server.call("echo", {"text": "cut \ud83d off"}, 60)
        assert result.structured_content["text"] == "cut ? off"


async def test_death_in_a_call_fails_it_at_once_and_the_server_comes_back(start: Start) -> None:
    journal = Journal()
    server = await start(observer=journal)
    hanging = asyncio.create_task(server.call("hangs", {}, 60))
    first = server.status().pid
    with pytest.raises(McpUnavailable):  # not the McpTimeout after 60 s
        await server.call("exits", {}, 60)
    with pytest.raises(McpUnavailable):
        await hanging
    await until(lambda: server.state is ServerState.READY and server.status().pid != first)
    assert server.status().last_error == "it exited with status 3"
    assert server.status().restarts == 1
    assert journal.up == [False, True, False, True]
    assert (await server.call("echo", {"text": "back"}, 60)).structured_content["text"] == "back"


async def test_a_call_to_a_server_that_is_down_is_answered_at_once(start: Start) -> None:
    server = await start(restart={"backoff_ms": 30_000})
    with pytest.raises(McpUnavailable):
        await server.call("exits", {}, 60)
    await until(lambda: server.state is ServerState.RESTARTING)
    with pytest.raises(McpUnavailable, match="restarting"):
        await asyncio.wait_for(server.call("echo", {"text": ""}, 60), 60)


async def test_killed_while_a_grandchild_holds_the_pipe(start: Start) -> None:
    server = await start(**NO_RESTART)
    group = server.status().pid
    assert group
    with pytest.raises(McpUnavailable):
        await asyncio.wait_for(server.call("killed_with_grandchild", {}, 60), 60)
    assert await gone(group), "the grandchild is left"
    await until(lambda: server.state is ServerState.FAILED)
    assert "SIGKILL" in server.status().last_error


async def test_a_grandchild_does_not_outlive_a_server_that_ends_well(start: Start) -> None:
    server = await start()
    child = int(words(await server.call("leaves_grandchild", {}, 60)))
    os.kill(child, 0)
    group = server.status().pid
    assert group
    await server.close()
    assert await gone(group)


async def test_bytes_that_are_not_utf8_lose_only_themselves(start: Start) -> None:
    server = await start()
    assert words(await server.call("not_utf8", {}, 60)) == "caf\ufffd"
    assert (await server.call("plain", {}, 60)).content


async def test_garbage_lines_are_skipped(start: Start) -> None:
    server = await start()
    assert words(await server.call("garbage", {}, 60)) == "clean"


async def test_a_flood_on_stderr_blocks_nothing_and_is_kept_in_part(start: Start) -> None:
    server = await start()
    assert words(await server.call("stderr_flood", {"kilobytes": 20_000}, 60)) == "still here"
    await until(lambda: len(server.status().stderr) > 0)
    assert sum(len(line) for line in server.status().stderr) <= 64 * 1024


async def test_a_flood_on_stderr_at_start_does_not_stop_the_start(start: Start) -> None:
    server = await start("stderr-flood")
    assert len(server.status().stderr) <= 200


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
async def test_megabytes_of_text_arrive(start: Start, size: int) -> None:
    server = await start()
    assert len(words(await server.call("huge", {"bytes": size}, 60))) == size


async def test_five_megabytes_of_data_arrive_and_are_parsed_beside_the_event_loop(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long the loop is held is measured in bench/; here, that nothing long is parsed on it."""
    readers: set[int] = set()

    def read_large(line: bytes, tool_calls: set[int]) -> object:
        readers.add(threading.get_ident())
        return large_result.read_large(line, tool_calls)

    monkeypatch.setattr(transport, "read_large", read_large)
    server = await start()
    result = await server.call("rows", {"count": 140_000}, 60)
    assert result.structured_content["rows"][139_999] == {"id": 139_999, "name": "row 139999"}
    assert words(result) == "many"
    assert readers
    assert threading.get_ident() not in readers


async def test_a_result_of_too_many_parts_is_refused(start: Start) -> None:
    server = await start()
    with pytest.raises(McpError, match="more than 1000 parts"):
        await server.call("parts", {"count": 100_000}, 60)
    assert (await server.call("plain", {}, 60)).content


@pytest.mark.parametrize("tool", ["huge", "huge_id_last"])
async def test_fifty_megabytes_fail_that_call_only(start: Start, tool: str) -> None:
    server = await start()
    with pytest.raises(McpError, match="longer than"):
        await server.call(tool, {"bytes": 50_000_000}, 60)
    assert words(await server.call("plain", {}, 60)) == "Runway two seven is in use."


async def test_an_overlong_answer_is_matched_to_its_call_among_several(start: Start) -> None:
    server = await start()
    hanging = asyncio.create_task(server.call("hangs", {}, 60))
    await asyncio.sleep(0)
    with pytest.raises(McpError, match="longer than"):
        await server.call("huge_id_last", {"bytes": 9_000_000}, 60)
    assert not hanging.done()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging


async def test_a_hanging_tool_times_out_and_is_cancelled_at_the_server(start: Start) -> None:
    server = await start()
    with pytest.raises(McpTimeout):
        await server.call("hangs", {}, 0.2)
    await until(lambda: any(line.startswith("cancelled") for line in server.status().stderr))
    assert (await server.call("plain", {}, 60)).content


async def test_a_cancelled_call_is_cancelled_at_the_server(start: Start) -> None:
    server = await start()
    call = asyncio.create_task(server.call("hangs", {}, 60))
    await server.call("plain", {}, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: any(line.startswith("cancelled") for line in server.status().stderr))


async def test_closing_stdout_ends_that_life(start: Start) -> None:
    server = await start(stop_grace_ms=400)
    with pytest.raises(McpUnavailable):
        await asyncio.wait_for(server.call("closes_stdout", {}, 60), 60)
    await until(lambda: server.status().restarts == 1)
    assert server.status().last_error == "it closed its output"


@pytest.mark.parametrize("tool", ["pretty", "wrong_id", "null_id"])
async def test_what_answers_no_call_leaves_it_to_its_timeout(start: Start, tool: str) -> None:
    server = await start()
    with pytest.raises(McpTimeout):
        await server.call(tool, {}, 0.2)
    assert (await server.call("plain", {}, 60)).content


async def test_a_partial_line_costs_its_call_and_the_one_it_runs_into(start: Start) -> None:
    server = await start()
    with pytest.raises(McpTimeout):
        await server.call("partial", {}, 0.2)
    with pytest.raises(McpError):
        await server.call("plain", {}, 0.2)
    assert (await server.call("plain", {}, 60)).content


@pytest.mark.parametrize(
    ("tool", "answer"), [("twice", "first"), ("to_nobody", "for you"), ("string_id", "same")]
)
async def test_odd_answers(start: Start, tool: str, answer: str) -> None:
    server = await start()
    assert words(await server.call(tool, {}, 60)) == answer
    assert words(await server.call("plain", {}, 60)) == "Runway two seven is in use."


async def test_an_answer_of_the_wrong_shape_is_an_error_of_that_call(start: Start) -> None:
    server = await start()
    with pytest.raises(McpError, match="wrong shape"):
        await server.call("wrong_shape", {}, 60)
    assert (await server.call("plain", {}, 60)).content


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("no_result", {}), *(("deep", {"levels": levels}) for levels in (300, 10_000, 100_000))],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(
    start: Start, tool: str, arguments: dict[str, int]
) -> None:
    server = await start()
    with pytest.raises(McpError, match="cannot be read"):
        await asyncio.wait_for(server.call(tool, arguments, 60), 60)
    assert (await server.call("plain", {}, 60)).content


async def test_an_error_reply_is_an_error(start: Start) -> None:
    server = await start()
    with pytest.raises(McpError, match="no such thing"):
        await server.call("rpc_error", {}, 60)


async def test_control_characters_do_not_reach_the_operators_terminal(start: Start) -> None:
    server = await start()
    with pytest.raises(McpError) as caught:
        await server.call("controls", {}, 60)
    assert str(caught.value) == "it answered with error -32000: red [31m forged line gnp"
    await until(lambda: server.status().stderr == (" [2Jwiped ",))


@pytest.mark.parametrize(
    "line",
    [
        "x",
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":77,"result":{}}',
        '{"jsonrpc":"2.0","id":77,"result":{"a":[' + "{}," * 30_000 + "{}]}}",
    ],
    ids=["garbage", "notifications", "requests of one id", "replies to nobody", "long replies"],
)
async def test_a_flood_on_stdout_is_slowed_down_and_harms_nobody_else(
    start: Start, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[Counted] = []
    monkeypatch.setattr(transport, "Allowance", partial(Counted, limits))
    server, other = await start(stop_grace_ms=200), await start()
    assert words(await server.call("floods", {"line": line}, 60)) == "here it comes"
    await until(lambda: any(limit.pauses for limit in limits))
    for _ in range(10):
        result = await other.call("echo", {"text": "unharmed"}, 60)
        assert result.structured_content["text"] == "unharmed"
        await asyncio.sleep(0.05)
    for limit in limits:
        assert limit.spent <= limit.allowed, "it keeps the engine busy"
    await server.close()


async def test_a_server_that_ignores_the_end_and_sigterm_is_killed(start: Start) -> None:
    server = await start("ignores-end", stop_grace_ms=400)
    group = server.status().pid
    assert group
    await asyncio.wait_for(server.close(), 60)
    assert await gone(group)
    assert server.state is ServerState.STOPPED


async def test_a_server_that_never_reads_does_not_hold_up_its_end(start: Start) -> None:
    server = await start("deaf", wait=False, start_timeout_ms=200, stop_grace_ms=200, **NO_RESTART)
    await until(lambda: server.state is ServerState.FAILED)


async def test_a_server_that_stops_reading_costs_no_caller_more_than_his_time(start: Start) -> None:
    server = await start(stop_grace_ms=200, breaker={"failures": 0})
    await server.call("stops_reading", {}, 60)
    texts = ["x" * 300_000, *["short"] * 300]
    calls = [server.call("echo", {"text": text}, 1.0) for text in texts]
    began = time.monotonic()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {McpTimeout}
    assert time.monotonic() - began < 120, "300 s, one after the other"


async def test_a_server_that_stops_reading_is_restarted(start: Start) -> None:
    def impatient(
        name: str, config: McpServer, stderr: StderrTail, turns: SpawnTurns, _: object
    ) -> StdioTransport:
        launch = Launch(config.command, config.env, config.cwd)
        return StdioTransport(name, launch, stderr, 0.2, turns=turns, stuck_seconds=0.2)

    server = await start(transport=impatient)
    await server.call("stops_reading", {}, 60)
    with pytest.raises(McpUnavailable):
        await asyncio.wait_for(server.call("echo", {"text": "x" * 300_000}, 60), 60)
    await until(lambda: server.status().restarts == 1)
    assert server.status().last_error == "it does not read its input"
    assert await server.wait_ready(READY_SECONDS)


async def test_close_during_the_start_leaves_nothing() -> None:
    others = _our_children()
    server = SupervisedServer("faulty", faulty("mute", stop_grace_ms=200, start_timeout_ms=600_000))
    server.start()
    await until(lambda: bool(_our_children() - others))
    await asyncio.wait_for(server.close(), 60)
    assert _our_children() <= others
    assert server.state is ServerState.STOPPED
    children = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert children == []


async def test_a_first_failure_heals(start: Start, tmp_path: object) -> None:
    server = await start("flaky", f"{tmp_path}/seen")
    assert server.status().restarts == 1


async def test_pages_of_tools_are_read_to_the_end(start: Start) -> None:
    server = await start("paged")
    assert server.status().tools == ("page_0", "page_1", "page_2", "page_3", "page_4")


async def test_a_server_without_handshake_is_discovered(start: Start) -> None:
    server = await start("modern-only")
    assert server.status().protocol == "2026-07-28"
    assert "echo" in server.status().tools


async def test_changed_tools_are_listed_again(start: Start) -> None:
    server = await start()
    assert "surprise" not in server.status().tools
    await server.call("new_tool", {}, 60)
    await until(lambda: "surprise" in server.status().tools)


async def test_progress_is_passed_on(start: Start) -> None:
    server = await start()
    seen: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    await server.call("progress", {}, 60, progress)
    await until(lambda: seen == [1, 2, 3])


async def test_the_child_gets_its_own_environment_and_none_of_our_keys(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    monkeypatch.setenv("ASTERISK_ARI_PASSWORD", "ours too")
    server = await start(env={"METNO_USER_AGENT": "tests"})
    environment = (await server.call("environment", {}, 60)).structured_content
    assert environment["METNO_USER_AGENT"] == "tests"
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"OPENAI_API_KEY", "ASTERISK_ARI_PASSWORD"} & set(environment)


async def test_a_server_dies_with_the_engine(start: Start) -> None:
    """A parent that is killed outright takes its direct child with it."""
    script = (
        "import asyncio, sys\n"
        "from cordboard.config.mcp import McpServer\n"
        "from cordboard.mcp.supervision.server import SupervisedServer\n"
        "async def main():\n"
        "    server = SupervisedServer('s', McpServer(command=tuple(sys.argv[1:])))\n"
        "    server.start()\n"
        "    assert await server.wait_ready(60)\n"
        "    print(server.status().pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    command = faulty("ignores-end").command
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *command, stdout=asyncio.subprocess.PIPE
    )
    assert engine.stdout
    async for line in engine.stdout:
        if line.strip().isdigit():
            break
    engine.kill()
    await engine.wait()
    assert await gone(int(line))


def test_the_same_on_uvloop() -> None:
    """The engine runs on uvloop, whose own subprocess would not notice the closed output."""
    uvloop = pytest.importorskip("uvloop")
    others = _our_children()

    async def live() -> None:
        server = SupervisedServer("faulty", faulty(stop_grace_ms=400))
        server.start()
        assert await server.wait_ready(READY_SECONDS)
        group = server.status().pid
        assert group
        with pytest.raises(McpUnavailable):
            await asyncio.wait_for(server.call("closes_stdout", {}, 60), 60)
        await until(lambda: server.status().restarts == 1)
        assert await server.wait_ready(READY_SECONDS)
        with pytest.raises(McpUnavailable):
            await asyncio.wait_for(server.call("killed_with_grandchild", {}, 60), 60)
        await server.close()
        assert await gone(group)

    uvloop.run(live())
    left = _our_children() - others
    assert not left, [Path(f"/proc/{child}/stat").read_text() for child in left]
