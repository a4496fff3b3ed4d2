"""Servers of other projects over stdio, all in one fleet: what is offered, called, and left."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cordboard.config.mcp import Mcp
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.supervision.server import ServerState
from cordboard.tools.call_line import CallLine, NoCaller
from cordboard.tools.catalogue import Catalogue
from cordboard.tools.schema.checker import compile_schema
from cordboard.tools.tool import Status, ToolResult

from .installed import Installed, installed

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "sk-a-key-of-the-engine"
TOOLS = {
    "everything": 13,
    "filesystem": 14,
    "memory": 9,
    "sequential_thinking": 1,
    "time": 2,
    "git": 12,
}
"""How many tools each server has, in the locked versions."""


@dataclass
class Run:
    """A run for a call that wants nothing but an answer."""

    line: CallLine = field(default_factory=lambda: NoCaller("c1", "demo"))
    ask_id: str = "1"
    idempotency_key: str = "c1:1"
    unrecorded: tuple[str, ...] = ()

    def progress(self, note: str = "") -> None:
        """Nobody waits."""

    async def step(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        raise NotImplementedError


def servers(programs: Installed, folder: Path) -> dict[str, Any]:
    root = folder / "root"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "hours.txt").write_text("open from nine to five\n")
    (folder / "secret.txt").write_text("not for callers\n")
    subprocess.run(["git", "init", "--quiet", str(folder / "repository")], check=True)
    (folder / "repository" / "new.txt").write_text("x\n")
    return {
        "everything": {
            "command": programs.npm_server("server-everything"),
            "env": {"SHOP": "exchange"},
        },
        "filesystem": {"command": [*programs.npm_server("server-filesystem"), str(root)]},
        "memory": {
            "command": programs.npm_server("server-memory"),
            "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
        },
        "sequential_thinking": {"command": programs.npm_server("server-sequential-thinking")},
        "time": {
            "command": [
                *programs.python_server("time", "mcp_server_time"),
                "--local-timezone=Europe/Warsaw",
            ]
        },
        "git": {
            "command": [
                *programs.python_server("git", "mcp_server_git"),
                f"--repository={folder / 'repository'}",
            ]
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real-servers")


@pytest.fixture(scope="module")
def engine_key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", SECRET)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(folder: Path, engine_key: None) -> AsyncIterator[Fleet]:
    """All six, started together; afterwards nothing of them may be left."""
    configured = {
        name: {**server, "start_timeout_ms": 60_000, "stop_grace_ms": 60_000}
        for name, server in servers(installed(), folder).items()
    }
    fleet = Fleet(Mcp.model_validate({"servers": configured}))
    fleet.start()
    settled = await fleet.wait_settled(120)
    groups = [status.pid for status in fleet.status() if status.pid is not None]
    if settled:
        yield fleet
    began = time.monotonic()
    await fleet.close()
    assert settled, fleet.status()
    assert time.monotonic() - began < 55, "they end when their input closes; none is killed"
    assert {status.state for status in fleet.status()} == {ServerState.STOPPED}
    assert [member for group in groups for member in living(group)] == []


def living(group: int) -> list[int]:
    """The processes of a group that are not dead."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(member_of) == group and state != "Z":
            found.append(int(entry.name))
    return found


async def call(fleet: Fleet, name: str, **arguments: object) -> ToolResult:
    by_name = {entry.tool.spec.name: entry.tool for entry in fleet.tools()}
    return await by_name[name].run(arguments, Run())


async def test_all_are_ready_with_their_tools(fleet: Fleet) -> None:
    found = {status.server: (status.state, len(status.tools)) for status in fleet.status()}
    assert found == {name: (ServerState.READY, count) for name, count in TOOLS.items()}, [
        (status.server, status.last_error, status.stderr) for status in fleet.status()
    ]
    assert fleet.problems() == ()


async def test_all_tools_are_offered_under_their_exposed_names(fleet: Fleet) -> None:
    entries = fleet.tools()
    catalogue = Catalogue(entries)  # refuses bad names, collisions and schemas
    names = list(catalogue)
    assert len(names) == len(entries) == sum(TOOLS.values())
    assert all(re.fullmatch(r"mcp_[a-z0-9_]{1,60}", name) for name in names)
    assert {
        "mcp_everything_get_structured_content",
        "mcp_filesystem_read_text_file",
        "mcp_memory_create_entities",
        "mcp_sequential_thinking_sequentialthinking",
        "mcp_time_get_current_time",
        "mcp_git_git_status",
    } <= set(names)
    origins = {name: catalogue[name].spec.origin for name in names}
    assert origins["mcp_filesystem_read_text_file"] == "mcp:filesystem:read_text_file"


async def test_every_schema_can_be_compiled(fleet: Fleet) -> None:
    structured = 0
    for server in fleet.servers.values():
        for listed in server.listing:
            compile_schema(listed.input_schema)
            if listed.output_schema is not None:
                structured += 1
                compile_schema(listed.output_schema)
    assert structured >= 14 + 9 + 1 + 2 + 1


async def test_everything_gives_structured_content(fleet: Fleet) -> None:
    result = await call(fleet, "mcp_everything_get_structured_content", location="Chicago")
    assert result.status is Status.OK
    assert result.data.keys() == {"temperature", "conditions", "humidity"}
    result = await call(fleet, "mcp_everything_echo", message="zażółć")
    assert (result.status, result.message) == (Status.OK, "Echo: zażółć")


async def test_a_server_sees_what_it_was_given_and_no_key_of_ours(fleet: Fleet) -> None:
    result = await call(fleet, "mcp_everything_get_env")
    assert result.data["SHOP"] == "exchange"
    assert "PATH" in result.data
    assert SECRET not in json.dumps(result.data)


async def test_filesystem_reads_inside_its_root_only(fleet: Fleet, folder: Path) -> None:
    inside = str(folder / "root" / "notes" / "hours.txt")
    result = await call(fleet, "mcp_filesystem_read_text_file", path=inside)
    assert (result.status, result.data) == (Status.OK, {"content": "open from nine to five\n"})
    result = await call(
        fleet, "mcp_filesystem_read_text_file", path=str(folder / "root" / ".." / "secret.txt")
    )
    assert result.status is Status.ERROR
    assert "not for callers" not in json.dumps(result.data)


async def test_memory_remembers(fleet: Fleet) -> None:
    entity = {"name": "Ann", "entityType": "caller", "observations": ["calls on Mondays"]}
    result = await call(fleet, "mcp_memory_create_entities", entities=[entity])
    assert result.status is Status.OK
    result = await call(fleet, "mcp_memory_search_nodes", query="Mondays")
    assert (result.status, result.data) == (Status.OK, {"entities": [entity], "relations": []})


async def test_sequential_thinking_counts_its_thoughts(fleet: Fleet) -> None:
    for number in (1, 2):
        result = await call(
            fleet,
            "mcp_sequential_thinking_sequentialthinking",
            thought="Is it open?",
            thoughtNumber=number,
            totalThoughts=2,
            nextThoughtNeeded=number < 2,
        )
        assert result.status is Status.OK
        assert result.data["thoughtHistoryLength"] == number


async def test_time_converts_and_refuses_unknown_zones(fleet: Fleet) -> None:
    result = await call(
        fleet,
        "mcp_time_convert_time",
        source_timezone="Asia/Tokyo",
        time="14:30",
        target_timezone="Asia/Kolkata",
    )
    assert result.status is Status.OK
    assert result.data["target"]["datetime"].endswith("T11:00:00+05:30")
    assert result.data["time_difference"] == "-3.5h"
    result = await call(fleet, "mcp_time_get_current_time", timezone="Mars/Olympus")
    assert result.status is Status.ERROR


async def test_git_sees_a_fresh_repository(fleet: Fleet, folder: Path) -> None:
    repository = str(folder / "repository")
    result = await call(fleet, "mcp_git_git_status", repo_path=repository)
    assert result.status is Status.OK
    assert "new.txt" in json.dumps(result.data)
    result = await call(fleet, "mcp_git_git_status", repo_path=str(folder / "root"))
    assert result.status is Status.ERROR


async def test_answers_of_all_six_at_once_are_not_mixed_up(fleet: Fleet, folder: Path) -> None:
    hours = str(folder / "root" / "notes" / "hours.txt")
    results = await asyncio.gather(
        *(call(fleet, "mcp_everything_echo", message=str(number)) for number in range(20)),
        *(call(fleet, "mcp_filesystem_read_text_file", path=hours) for _ in range(5)),
        *(call(fleet, "mcp_time_get_current_time", timezone="UTC") for _ in range(5)),
    )
    assert [result.message for result in results[:20]] == [f"Echo: {n}" for n in range(20)]
    assert {result.data["content"] for result in results[20:25]} == {"open from nine to five\n"}
    assert {result.data["timezone"] for result in results[25:]} == {"UTC"}
