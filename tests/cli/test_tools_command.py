"""`cordboard tools`, without an engine: the file's servers are started for the look."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from cordboard.api.administration import ServerOperations
from cordboard.api.app import create_app
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard.generation.tool_arrow import as_columns, as_structs, read_tools
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard_testkit.fake_administration import FakeAdministration
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.mcp_servers import FAULTY_SERVER

from .commands import typed


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "agent.yaml"
    config = {
        "health": {"port": free_port()},
        "contexts": {
            "demo": {"tools": ["hangup_call", "look", "transfer", "lost"]},
            "all": {"tools": ["shop.*", "off.*"]},
        },
        "tools": {
            "look": {"kind": "mcp", "server": "shop", "tool": "echo", "effects": "read_only"},
            "find": {
                "kind": "http",
                "url": "https://example.com/{name}",
                "parameters": {"name": {"type": "string"}},
                "description": "Find it.",
            },
            "lost": {"kind": "python", "function": "json:nothing_like_it"},
            "dump": {"kind": "python", "function": "json:dumps"},
            "both": {
                "kind": "workflow",
                "description": f"Look twice. {'So that nothing is missed. ' * 5}",
                "steps": [{"id": "a", "tool": "look"}],
            },
        },
        "mcp": {
            "lock": "off",
            "servers": {
                "shop": {
                    "command": [sys.executable, str(FAULTY_SERVER)],
                    "start": "lazy",
                    "tools": [{"name": "ghost"}],
                },
                "off": {"command": ["x"], "enabled": False, "tools": [{"name": "sleep"}]},
            },
        },
    }
    path.write_text(json.dumps(config))
    return str(path)


def test_all_kinds_in_one_table(file: str) -> None:
    done = typed("tools", "-c", file)
    assert done.status == 0
    assert "the MCP servers are started aside" in done.err
    lines = {line.split()[0]: line.split() for line in done.out.splitlines()[1:]}
    assert lines["hangup_call"][1:6] == [
        "builtin",
        "builtin:hangup_call",
        "idempotent",
        "none",
        "yes",
    ]
    assert lines["look"][1:6] == ["mcp", "mcp:shop:echo", "read_only", "none", "yes"]
    assert lines["find"][1:3] == ["http", "http:find"]
    assert lines["both"][1:6] == ["workflow", "workflow:both", "read_only", "none", "yes"]
    assert "missed. So tha…" in " ".join(done.out.split()), "what is cut can be seen"
    assert "no: there is nowhere to transfer to" in done.out
    assert "no: the tool lost is not offered:" in done.out
    assert "no: the server has no tool 'ghost'" in done.out
    assert "no: mcp.servers.off.enabled is false" in done.out


def test_one_context_as_json_and_for_a_provider(file: str) -> None:
    done = typed("tools", "-c", file, "-C", "demo", "--aside", "--format", "json")
    answer = json.loads(done.out)
    assert answer["context"] == "demo"
    rows = {row["name"]: row for row in answer["tools"]}
    assert list(rows) == ["hangup_call", "look", "transfer", "lost"]
    assert rows["look"]["parameters"]["type"] == "object"
    assert [row["offered"] for row in rows.values()] == [True, True, False, False]
    done = typed("tools", "-c", file, "-C", "demo", "--aside", "-p", "gemini")
    provider = json.loads(done.out)["provider"]
    assert [tool["name"] for tool in provider["tools"]] == ["hangup_call", "look"]
    assert "additionalProperties" not in json.dumps(provider["tools"][0]["parameters"])
    done = typed("tools", "-c", file, "-C", "all", "--aside")
    assert "off.*" in done.out
    assert "mcp:shop:echo" in done.out


class NoView:
    def readiness(self) -> dict[str, object]:
        return {}

    def health(self) -> dict[str, object]:
        return {}

    async def metrics(self) -> bytes:
        return b""


async def test_the_running_engine_is_asked_when_there_is_one(tmp_path: Path) -> None:
    fake = FakeAdministration()
    row = ToolRow("look", "http", "http:look", description="\x1b[31mRed.", offered=True)
    fake.listing = ToolListing("demo", (row,), ())
    application = create_app(
        NoView(),  # type: ignore[arg-type]
        loopback_only=True,
        administration=ServerOperations(fake),
    )
    with capture_logs():
        server = HttpServer(Health(port=0), application)
        await server.start()
        path = tmp_path / "agent.yaml"
        path.write_text(f"health: {{port: {server.port}}}\ncontexts: {{demo: {{}}, other: {{}}}}\n")
        done = await asyncio.to_thread(typed, "tools", "-c", str(path), "-C", "demo")
        wrong = await asyncio.to_thread(typed, "tools", "-c", str(path), "-C", "other")
        await server.close()
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[1].split()[:3] == ["look", "http", "http:look"]
    assert "\x1b" not in done.out, "nobody's words steer the terminal"
    assert wrong.status == 1
    assert "there is no context 'other'" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("-C", "dmo"), 1, "there is no context 'dmo'; known: demo, all"),
        (("-p", "gemni"), 1, "there is no provider type 'gemni'; known: anthropic, deepgram"),
        (("-p", "gemini", "-f", "arrow"), 2, "--provider goes with --format json"),
        (("-f", "csv"), 2, "'csv' is not one of"),
    ],
)
def test_what_is_asked_wrongly(
    file: str, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = typed("tools", "-c", file, "--aside", *arguments)
    assert done.status == status
    assert message in done.err


def test_an_arrow_file(file: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.arrow"
    done = typed("tools", "-c", file, "-C", "demo", "--aside", "-f", "arrow", "-o", str(path))
    assert (done.status, done.out) == (0, "")
    with path.open("rb") as stream:
        table = pa.ipc.open_stream(stream).read_all()
    assert table.column("name").to_pylist() == ["hangup_call", "look", "transfer", "lost"]


ROW: dict[str, Any] = {
    "name": "look",
    "kind": "mcp",
    "origin": "mcp:s:look",
    "server": "s",
    "effects": "read_only",
    "approval": "none",
    "description": "Sieht nach \u202e\U0001f600.",
    "parameters": {"type": "object", "properties": {"ü": {"maximum": 2**70}}},
    "offered": True,
    "why_not": "",
}


def test_arrow_gives_back_what_was_put_in() -> None:
    other = ROW | {"name": "other", "kind": "http", "offered": False, "why_not": "down"}
    table = pa.ipc.open_stream(as_columns([ROW, other, {"error": "cannot be shown"}])).read_all()
    rows = table.to_pylist()
    assert as_columns([ROW | {"description": "\ud800"}]), "half a surrogate is no reason to fail"
    assert [row | {"parameters": json.loads(row["parameters"])} for row in rows] == [ROW, other]
    kinds = table.schema.field("kind").type
    assert (pa.types.is_dictionary(kinds), kinds.value_type) == (True, pa.string())
    assert pa.types.is_dictionary(table.schema.field("effects").type)
    assert pa.ipc.open_stream(as_columns([])).read_all().num_rows == 0


def test_tools_of_all_kinds_in_one_struct_column(file: str, tmp_path: Path) -> None:
    path, again = tmp_path / "tools.arrow", tmp_path / "again.arrow"
    done = typed("tools", "-c", file, "--aside", "-f", "arrow-struct", "-o", str(path))
    assert (done.status, done.out) == (0, "")
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert table.schema.names == ["tool"]
    fields = table.schema.field("tool").type
    assert [(field.name, str(field.type)) for field in fields] == [
        *(("0", "int8"), ("1", "string"), ("2", "string"), ("3", "string"), ("4", "string")),
        *(("5", "string"), ("6", "int32"), ("7", "binary"), ("8", "string")),
    ]
    tools = {value["1"]: value for value in table.column("tool").to_pylist()}
    assert {name: tools[name]["0"] for name in ("both", "look", "hangup_call", "find")} == {
        "both": 0,
        "look": 1,
        "hangup_call": 2,
        "find": 3,
    }
    assert (tools["look"]["8"], tools["both"]["8"], tools["look"]["6"]) == (
        "mcp:shop:echo",
        None,
        -1,
    )
    assert json.loads(tools["find"]["3"])["properties"].keys() == {"name"}
    read = typed("tools", "--input", str(path))
    assert (read.status, read.err) == (0, "")
    assert "mcp:shop:echo" in read.out
    typed("tools", "--input", str(path), "-f", "arrow-struct", "-o", str(again))
    assert again.read_bytes() == path.read_bytes()


def test_both_forms_are_read_back() -> None:
    other = ROW | {"name": "other", "kind": "http", "offered": False, "why_not": "down"}
    assert read_tools(as_columns([ROW, other])) == [ROW, other]
    (tool,) = read_tools(as_structs([ROW, other]))
    assert tool == ROW | {"effects": "", "approval": ""}, "only what is offered"


def test_a_tool_of_a_plug_in_is_python_in_the_struct_column() -> None:
    for kind in ("dice", "python"):
        table = pa.ipc.open_stream(as_structs([ROW | {"kind": kind}])).read_all()
        (value,) = table.column("tool").to_pylist()
        assert (value["0"], value["8"]) == (4, None)


def test_a_table_that_lacks_columns(tmp_path: Path) -> None:
    path, table = tmp_path / "x.arrow", pa.table({"name": ["look"], "parameters": ["{}"]})
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
    done = typed("tools", "--input", str(path))
    assert (done.status, "not a table of tools: KeyError('kind')" in done.err) == (1, True)


def test_what_is_no_table_of_tools(tmp_path: Path) -> None:
    other = tmp_path / "x"
    other.write_bytes(b"ARROW1")
    done = typed("tools", "--input", str(other))
    assert (done.status, "this is not a table of tools" in done.err) == (1, True)
    done = typed("tools", "--input", str(tmp_path / "nowhere"))
    assert (done.status, "nowhere cannot be read: No such file" in done.err) == (1, True)


def test_without_the_extra_it_says_so_before_anything_is_started(file: str) -> None:
    with mock.patch.dict(sys.modules, {"pyarrow": None}):
        done = typed("tools", "-c", file, "--aside", "-f", "arrow", "-o", "x")
    assert done.status == 1
    assert "pip install 'cordboard[arrow]'" in done.err
