"""GET /tools as a client sees it."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp

from cordboard.agent_api.provider import tool_users
from cordboard.api.administration import ServerOperations
from cordboard.api.app import create_app
from cordboard.config.plugins import installed
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.tools.tool import ToolSpec
from cordboard_testkit.fake_administration import FakeAdministration

from .conftest import ShownEngine, ask_app

SPEC = ToolSpec(
    "look",
    "python",
    "Looks.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "additionalProperties": False},
)
ROW = ToolRow("look", "python", offered=True, parameters=SPEC.parameters)


@pytest.fixture
def fake() -> FakeAdministration:
    fake = FakeAdministration()
    down = ToolRow("find", "mcp", "mcp:crm:find", "crm", why_not="its server is starting")
    fake.listing = ToolListing("demo", (ROW, down), (SPEC,))
    return fake


def app(engine: ShownEngine, fake: FakeAdministration, *, loopback_only: bool = True) -> ASGIApp:
    return create_app(
        engine,
        loopback_only=loopback_only,
        administration=ServerOperations(fake),
        token=lambda: SecretStr("correct-horse-battery"),
    )


async def test_every_tool_with_its_reason(engine: ShownEngine, fake: FakeAdministration) -> None:
    answer = await ask_app(app(engine, fake), "/tools?context=demo")
    assert answer.status == 200
    assert answer.json["context"] == "demo"
    assert [tool["name"] for tool in answer.json["tools"]] == ["look", "find"]
    assert answer.json["tools"][1]["why_not"] == "its server is starting"
    assert set(answer.json) == {"context", "tools"}


@pytest.mark.parametrize("provider", [*tool_users(installed()), "deepgram", "elevenlabs"])
async def test_as_a_provider_is_given_them(
    engine: ShownEngine, fake: FakeAdministration, provider: str
) -> None:
    answer = await ask_app(app(engine, fake), f"/tools?provider={provider}")
    (tool,) = answer.json["provider"]["tools"]
    assert (tool["name"], answer.json["provider"]["name"]) == ("look", provider)


async def test_a_tool_that_cannot_be_written_hides_no_other(
    engine: ShownEngine, fake: FakeAdministration
) -> None:
    bad = ToolRow("bad", "mcp", description="\ud800", parameters={"x": {1, 2}})
    fake.listing = ToolListing(None, (bad, ROW), ())
    answer = await ask_app(app(engine, fake), "/tools")
    assert [tool.get("name") for tool in answer.json["tools"]] == [None, "look"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/tools?context=dmo", "there is no context 'dmo'"),
        ("/tools?provider=gemni", "there is no provider type 'gemni'; known: anthropic,"),
    ],
)
async def test_unknown_names(
    engine: ShownEngine, fake: FakeAdministration, path: str, error: str
) -> None:
    answer = await ask_app(app(engine, fake), path)
    assert answer.status == 404
    assert answer.json["error"].startswith(error)


async def test_off_loopback_the_token_is_needed(
    engine: ShownEngine, fake: FakeAdministration
) -> None:
    remote = app(engine, fake, loopback_only=False)
    assert (await ask_app(remote, "/tools")).status == 401
    headers = {"Authorization": "Bearer correct-horse-battery"}
    assert (await ask_app(remote, "/tools", headers=headers)).status == 200
