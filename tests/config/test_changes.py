from __future__ import annotations

from typing import Any

import pytest

from cordboard.config.changes import changes, needs_restart
from cordboard.config.schema import Config


def config(**tree: Any) -> Config:
    return Config.model_validate({"contexts": {"demo": {}}, **tree})


def server(**more: Any) -> dict[str, Any]:
    return {"servers": {"s": {"command": ["x"], **more}}}


CHANGES = {
    "nothing": (config(), config(), ()),
    "a text": (config(), config(contexts={"demo": {"prompt": "x"}}), ("contexts.demo.prompt",)),
    "a list is one thing": (
        config(contexts={"demo": {"tools": ["a", "b"]}}),
        config(contexts={"demo": {"tools": ["b", "a"]}}),
        ("contexts.demo.tools",),
    ),
    "a name that came": (config(), config(mcp=server()), ("mcp.servers.s",)),
    "a name that went": (config(mcp=server()), config(), ("mcp.servers.s",)),
    "a section that came": (
        config(),
        config(asterisk={"password": "secret"}),
        ("asterisk",),
    ),
    "deep inside": (
        config(mcp=server(env={"A": "1", "B": "2"})),
        config(mcp=server(env={"A": "1", "B": "3"}, restart={"max_restarts": 1})),
        ("mcp.servers.s.env.B", "mcp.servers.s.restart.max_restarts"),
    ),
    "a secret": (
        config(admin={"token": "one"}),
        config(admin={"token": "two"}),
        ("admin.token",),
    ),
    "in the order of the schema": (
        config(calls={"max_calls": 1}, health={"port": 1}),
        config(calls={"max_calls": 2}, health={"port": 2}),
        ("health.port", "calls.max_calls"),
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_differs(before: Config, after: Config, expected: tuple[str, ...]) -> None:
    assert changes(before, after) == expected
    assert sorted(changes(after, before)) == sorted(expected)


def test_what_waits_for_the_next_start() -> None:
    fixed = (
        "health.port",
        "asterisk",
        "asterisk.media",
        "audiosocket.port",
        "calls.directory",
        "calls.index.enabled",
        "outbound.campaigns",
    )
    assert [key for key in fixed if not needs_restart(key)] == []
    free = (
        "outbound.enabled",
        "healthy",
        "audiosocket.context",
        "calls.max_calls",
        "mcp.servers.asterisk.command",
    )
    assert [key for key in free if needs_restart(key)] == []
