"""Tools of every kind come and go with the file; calls that live keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.errors import NotThere
from cordboard.tools.tool import Status

from .conftest import Stand, context, server

CODE = '''\
from cordboard.tools.tool import ToolRun

def price(guests: int) -> dict[str, int]:
    """The price of a dinner."""
    return {"price": guests * FACTOR}

async def who(run: ToolRun) -> str:
    """Who calls."""
    return f"{run.line.context_name} {run.line.variables['caller_number']}"
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the operator's; its name."""
    name = f"dinner_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE.replace("FACTOR", "40"))
    monkeypatch.syspath_prepend(tmp_path)
    return name


def workflow(**more: object) -> dict[str, object]:
    return {
        "kind": "workflow",
        "description": "The price of a dinner, in words.",
        "parameters": {"guests": {"type": "integer"}},
        "steps": [{"id": "p", "tool": "price", "arguments": {"guests": "{args.guests}"}}],
        "speech_template": "{steps.p.data.price} euros for {args.guests}.",
        **more,
    }


async def test_they_come_into_force_with_the_file(stand: Stand, module: str) -> None:
    stand.write(contexts={"demo": context("hangup_call")})
    await stand.begin()
    before = await stand.ring()
    tools = {
        "price": {"kind": "python", "function": f"{module}:price"},
        "who": {"kind": "python", "function": f"{module}:who"},
        "lost": {"kind": "python", "function": f"{module}:lost"},
        "dinner": workflow(),
        "find": {"kind": "http", "url": "https://example.com/"},
    }
    listed = context("price", "who", "lost", "dinner", "find")
    stand.write(contexts={"demo": listed}, tools=tools)
    report = await stand.reload()
    assert report.applied
    assert report.changed == ("contexts.demo.tools", *(f"tools.{name}" for name in tools))
    after = await stand.ring()
    assert (before.tools, after.tools) == (["hangup_call"], ["price", "who", "dinner", "find"])
    reply = await after.ask("dinner", guests=3)
    assert (reply.status, reply.message) == (Status.OK, "120 euros for 3.")
    assert (await after.ask("who")).message.startswith("demo ")
    assert (await before.ask("price", guests=3)).status is Status.REFUSED
    listing = stand.administration.tools("demo")
    assert [row.name for row in listing.rows if row.offered] == after.tools
    (lost,) = [row for row in listing.rows if not row.offered]
    assert lost.why_not == f"the tool lost is not offered: the module {module} has no function lost"
    with pytest.raises(NotThere):
        stand.administration.tools("demmo")


async def test_changed_code_needs_a_restart_and_a_changed_workflow_does_not(
    stand: Stand, module: str, tmp_path: Path
) -> None:
    price = {"kind": "python", "function": f"{module}:price", "effects": "read_only"}
    contexts = {"demo": context("price", "dinner")}
    stand.write(contexts=contexts, tools={"price": price, "dinner": workflow()})
    await stand.begin()
    before = await stand.ring()
    (tmp_path / f"{module}.py").write_text(CODE.replace("FACTOR", "50"))
    said = workflow(speech_template="It is {steps.p.data.price}.")
    stand.write(contexts=contexts, tools={"price": price | {"per_call": 1}, "dinner": said})
    report = await stand.reload()
    assert report.changed == ("tools.price.per_call", "tools.dinner.speech_template")
    assert (await before.ask("dinner", guests=1)).message == "40 euros for 1."
    after = await stand.ring()
    assert (await after.ask("dinner", guests=1)).message == "It is 40."
    assert (await after.ask("price", guests=2)).status is Status.REFUSED, "once in a call"


async def test_a_tool_of_a_server_is_renamed_without_a_restart(stand: Stand) -> None:
    echo = {"kind": "mcp", "server": "s", "tool": "echo", "effects": "read_only"}
    servers = {"servers": {"s": server()}}
    stand.write(contexts={"demo": context("say", "s.*")}, mcp=servers, tools={"say": echo})
    await stand.begin()
    before = await stand.ring()
    pid = (await before.ask("say", text="a")).data["pid"]
    assert "mcp_s_echo" not in before.tools
    assert "mcp_s_environment" in before.tools
    stand.write(contexts={"demo": context("tell", "s.*")}, mcp=servers, tools={"tell": echo})
    report = await stand.reload()
    assert report.deferred == ()
    after = await stand.ring()
    assert (await after.ask("tell", text="b")).data["pid"] == pid
    assert (await after.ask("say", text="c")).status is Status.REFUSED
    assert (await before.ask("say", text="d")).data["pid"] == pid, "a call keeps what it began with"
