"""The allowlist, for every kind of tool and every way in: what a context does not list is neither
shown nor run, and the attempt is answered, counted, logged and on record.

The desk's own part of it is in `tests/tools`; here the tools are real ones of a configuration, and
that each of them would run where it is listed is part of the test.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cordboard.tools.tool import ToolReply

from .conftest import Parlour, Script, read, server

MODULE = '''
from cordboard.tools.tool import ToolRun

ran: list[str] = []


def alone() -> str:
    """Not for everybody."""
    ran.append("alone")
    return "done"


async def step_to(name: str, run: ToolRun) -> str:
    """Has another tool run, as a workflow does."""
    return str((await run.step(name, {})).status)
'''
FORBIDDEN = {
    "transfer": "builtin", "mcp_s_plain": "mcp", "fetch": "http", "alone": "python",
    "flow": "workflow",
}  # fmt: skip

TRANSFER = {"destination": "sales"}
LISTED = {"demo": {"mcp_s_echo", "step_to"}, "other": {*FORBIDDEN}}


class Shop:
    """A context `demo`, and one `other` that has a tool of each kind."""

    def __init__(self, parlour: Parlour, ran: list[str], requests: list[str]) -> None:
        self.parlour = parlour
        self.ran = ran
        self.requests = requests

    @property
    def has_run(self) -> list[str]:
        """What was done by any of the five."""
        told = [line for line in self.parlour.told() if "tools/call" in line]
        return [*self.ran, *self.requests, *told]

    async def asked(self, context: str, name: str, /, **arguments: Any) -> ToolReply:
        """An agent of that context asks for it."""
        session, answer = self.parlour.sessions.begin(context, "go")
        self.session_id = session.session_id
        script = self.parlour.script
        assert script is not None
        self.wanted = name, arguments
        events = await read(answer)
        shown = {*events[0].data["tools"], *(spec.name for spec in script.sessions[-1].toolbox)}
        assert shown == LISTED[context]
        return script.replies[-1]

    async def think(self, script: Script, text: str) -> AsyncGenerator[str, None]:
        name, arguments = self.wanted
        reply = await script.ask(name, **arguments)
        yield reply.message


@pytest.fixture
async def shop(
    parlour: Parlour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Shop]:
    module = f"allowlisted_{id(parlour)}"
    (tmp_path / f"{module}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    http = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}/"
    made = Shop(parlour, [], requests)
    await parlour.open(
        made.think,
        contexts={
            "demo": {
                "greeting": "{known|Hello.}",
                "tools": [*LISTED["demo"]],
                "pre_call": [{"tool": "look_up", "save_as": "known"}],
            },
            "other": {"tools": [*LISTED["other"]]},
        },
        tools={
            "transfer": {"destinations": {"sales": {"target": "6001"}}},
            "fetch": {"kind": "http", "description": "It.", "url": url, "allow_private": True},
            "alone": {"kind": "python", "function": f"{module}:alone"},
            "look_up": {"kind": "python", "function": f"{module}:alone"},
            "step_to": {"kind": "python", "function": f"{module}:step_to"},
            "flow": {
                "kind": "workflow",
                "description": "It.",
                "steps": [{"id": "a", "tool": "alone"}],
            },
        },
        mcp={"servers": {"s": server()}},
    )
    made.ran = importlib.import_module(module).ran
    async with http:
        yield made


def refusals(shop: Shop) -> list[tuple[str, str]]:
    return [
        (entry["context_name"], entry["exposed_name"])
        for entry in shop.parlour.logged("tool_refused")
    ]


async def test_what_a_context_lists_is_run(shop: Shop) -> None:
    """Of each kind: so that the refusals below are not for another reason."""
    for name, kind in FORBIDDEN.items():
        before = len(shop.has_run)
        reply = await shop.asked("other", name, **TRANSFER if name == "transfer" else {})
        assert reply.refused == "", name
        assert kind == "builtin" or len(shop.has_run) > before, "a transfer leaves no trace here"
    assert refusals(shop) == []


@pytest.mark.parametrize("way", ["agent", "step", "try"])
async def test_what_it_does_not_list_is_not_by_any_way(shop: Shop, way: str) -> None:
    for number, name in enumerate(FORBIDDEN, start=1):
        shop.ran.clear()  # what `pre_call` looks up is not the agent's doing
        if way == "try":
            report = await shop.parlour.trials.run(name, "demo", {}, limits={}, approve=True)
            status, outcome = str(report.reply.status), report.outcome
            assert outcome == "not_in_toolbox"
            call_id = report.call_id
        else:
            wanted: tuple[str, dict[str, str]]
            wanted = (name, {}) if way == "agent" else ("step_to", {"name": name})
            reply = await shop.asked("demo", wanted[0], **wanted[1])
            status = str(reply.status) if way == "agent" else reply.message
            call_id = shop.session_id
            await asyncio.to_thread(shop.parlour.writer.flush)
        assert status == "refused", name
        assert [done for done in shop.has_run if done != "alone"] == []
        assert shop.ran == ([] if way == "try" else ["alone"]), "once, by pre_call"
        assert refusals(shop)[-1] == ("demo", name)
        page = shop.parlour.metrics.render().decode()
        assert f'ai_agent_tool_refused_total{{reason="not_in_toolbox"}} {number}.0' in page
        assert f'tool_calls_total{{status="refused",tool="unknown"}} {number}.0' in page
        answered = [
            line for line in shop.parlour.ledger(call_id) if line["type"] == "tool.answered"
        ]
        assert (name, "not_in_toolbox") in [(line["name"], line["reason"]) for line in answered]
    assert len(refusals(shop)) == len(FORBIDDEN)


async def test_what_is_run_before_a_call_is_not_the_agents(shop: Shop) -> None:
    assert (await shop.asked("demo", "look_up")).refused == "not_in_toolbox"
    assert shop.ran == ["alone"], "once, by pre_call"
