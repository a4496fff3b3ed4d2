"""Trials and conversations over the admin port, by fakes and by a whole engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard.config.load import ConfigSource, load
from cordboard.errors import (
    ChatRefused,
    ConfigError,
    ConfigProblem,
    EditRefused,
    NeedsPublish,
)
from cordboard.runtime.engine import Engine
from cordboard.tools.tool import Effects
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Room, code

DRAFT = {"text": "contexts: {demo: {}}", "context": "demo"}


async def test_only_who_may_publish_tries_what_needs_it(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("paula", Role.OPERATOR, (Grant.PUBLISH,))
    for name, may in (("otto", False), ("paula", True)):
        assert (await room.browser(name).post("/trials", DRAFT)).status_code == 200
        draft, who = room.runs.begun[-1]
        assert (draft.may_publish, draft.context, who) == (may, "demo", name)
    assert [entry["action"] for entry in room.entries()] == ["trial.start"] * 2
    assert "contexts" not in json.dumps(room.entries()), "no text in the audit"
    key = room.program("paula", {Permission.CONFIG_DRAFT})
    assert (await key.post("/trials", DRAFT)).status_code == 200
    assert room.runs.begun[-1][0].may_publish is False, "a key has its own permissions"


@pytest.mark.parametrize(
    ("failure", "status", "word"),
    [
        (NeedsPublish([ConfigProblem("too much", "mcp.servers.s", line=7)]), 403, "needs_publish"),
        (ConfigError([ConfigProblem("wrong", "tools", line=3)]), 422, "not_in_order"),
        (EditRefused("«secret:9» is not a secret of this file"), 422, "invalid"),
        (ChatRefused("full", "2 trials run already"), 429, "too_often"),
        (ChatRefused("not_ready", "the engine is busy with calls"), 503, "busy"),
        (ChatRefused("unknown_context", "no such context"), 404, "not_there"),
    ],
)
async def test_a_refused_draft_says_why(
    room: Room, failure: Exception, status: int, word: str
) -> None:
    room.add("otto", Role.OPERATOR)
    room.runs.failure = failure
    answer = await room.browser("otto").post("/trials", DRAFT)
    assert (answer.status_code, code(answer)) == (status, word)
    at = answer.json()["error"]["at"]
    if isinstance(failure, ConfigError):
        (problem,) = failure.problems
        assert at == [{"line": problem.line, "key": problem.key, "message": problem.message}]
    assert [entry["result"] for entry in room.entries()] == ["failed", "done"][::-1]


async def test_a_problem_never_quotes_a_value_from_outside(room: Room) -> None:
    assert room.services.source is not None
    source = replace(room.services.source, environ={"DB_PASSWORD": "hunter-two-4711"})
    room.services.source = source
    room.add("otto", Role.OPERATOR)
    room.runs.failure = ConfigError(
        [
            ConfigProblem("expected one of a, b, not 'hunter'", "tools.x", from_outside=True),
            ConfigProblem("'hunter-two-4711' is no number", "tools.y"),
        ]
    )
    answer = await room.browser("otto").post("/trials", DRAFT)
    assert "hunter" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"context": "demo"},
        {"context": "demo", "text": "a: 1", "version": "ab12cd34"},
        {"text": "a: 1"},
        {**DRAFT, "may_publish": True},
    ],
)
async def test_a_body_that_is_not_in_order(room: Room, body: Any) -> None:
    room.add("otto", Role.OPERATOR)
    answer = await room.browser("otto").post("/trials", body)
    assert (answer.status_code, code(answer), room.runs.begun) == (422, "invalid", [])


ALL = set(Effects)


@pytest.mark.parametrize(
    ("role", "tools", "effects"),
    [
        (Role.OPERATOR, "real", ALL - {Effects.DESTRUCTIVE}),
        (Role.OPERATOR, "read_only", {Effects.READ_ONLY}),
        (Role.ADMIN, "real", ALL),
        (Role.ADMIN, "canned", set()),
    ],
)
async def test_the_tools_of_a_conversation_are_those_that_its_author_may_try(
    room: Room, role: Role, tools: str, effects: Collection[Effects]
) -> None:
    room.add("otto", role)
    answers = {"look": {"message": "There.", "data": [1], "after_ms": 5}}
    body = {"context": "demo", "tools": tools, "caller": {"number": "+49", "variables": {"a": "b"}}}
    if tools == "canned":
        body["answers"] = answers
    begun = await room.browser("otto").post("/chats", body)
    assert begun.status_code == 200, begun.text
    context, given, model, test = room.chats.opened[0]
    assert (context, given, model) == ("demo", {"a": "b", "caller_number": "+49"}, None)
    assert (set(test.tools.effects), test.owner) == (effects, "otto")
    canned = test.tools.canned
    assert (canned is not None) == (tools == "canned")
    assert canned is None or canned["look"].data == [1]
    wrong = {"context": "demo", "tools": "real", "answers": answers}
    assert (await room.browser("otto").post("/chats", wrong)).status_code == 422


async def test_a_conversation_on_a_trial_names_it(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    assert (await browser.post("/chats", {"trial": "trial-sales"})).status_code == 200
    assert room.chats.opened[0][3].facts.trial == "trial-sales"
    assert (await browser.post("/chats", {"trial": "trial-none"})).status_code == 404
    room.services.runs = None
    without = await browser.post("/trials", DRAFT)
    assert (without.status_code, code(without)) == (409, "no_file")


async def test_a_yes_is_taken_only_when_one_is_asked_for(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser, chat = room.browser("otto"), room.chats.chats["chat-demo"]
    early = await browser.post("/chats/chat-demo/messages", {"approve": True})
    assert (early.status_code, code(early), chat.taken) == (409, "not_now", [])
    chat.asks = True
    for said in ({"approve": False}, {"message": "Hello."}, {}):
        answer = await browser.post("/chats/chat-demo/messages", said)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.startswith("event: done\ndata: {")
    assert chat.taken == ["no", "Hello.", None]
    for wrong in ({"approve": True, "message": "x"}, {"message": " "}):
        assert (await browser.post("/chats/chat-demo/messages", wrong)).status_code == 422


# A whole engine.


def tree(folder: Path, version: str, greeting: str) -> dict[str, Any]:
    return {
        "contexts": {"demo": {"greeting": greeting, "tools": ["where"], "rules": {}}},
        "health": {"port": 0},
        "reload": {"watch": False},
        "audiosocket": {"port": 0, "context": "demo"},
        "calls": {"directory": str(folder / "calls")},
        "mcp": {
            "servers": {
                "s": {
                    "command": [sys.executable, str(FAULTY_SERVER), "good"],
                    "env": {"VERSION": version},
                    "start_timeout_ms": 60_000,
                    "tools": [
                        {"name": "environment", "expose_as": "where", "effects": "read_only"}
                    ],
                }
            }
        },
        "admin": {"ui": {"enabled": True, "port": 0, "data": str(folder / "admin")}},
    }


def keys_of(folder: Path) -> list[str]:
    """Keys of an admin with all grants, of an operator, and of another operator."""
    accounts = Accounts(folder / "admin")
    found = []
    people = (("anna", Role.ADMIN, tuple(Grant)), ("otto", Role.OPERATOR, ()))
    for name, role, grants in (*people, ("olga", Role.OPERATOR, ())):
        accounts.add(name, role, grants, EVERYWHERE)
        user = accounts.user(name)
        assert user is not None
        found.append(accounts.add_key(name, "k", user.rights.permissions, EVERYWHERE, 3_600)[1])
    accounts.close()
    return found


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, _, data = block.partition("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def first_lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    paths = (folder / "calls").glob(f"????-??-??/{pattern}.jsonl")
    return [json.loads(path.read_text().splitlines()[0]) for path in paths]


@pytest.mark.usefixtures("lent_models")
async def test_a_draft_is_tried_by_chat_and_tool_while_a_call_has_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.admin.trials.SETTLE_SECONDS", PATIENCE)
    path = tmp_path / "agent.yaml"
    path.write_text(json.dumps(tree(tmp_path, "1", "Good morning.")))
    anna, otto, olga = keys_of(tmp_path)
    loaded = load(path, {})
    leaks = LeakSnapshot.take()
    source = ConfigSource(path, {}, loaded.digests, loaded.content)
    engine = Engine(loaded.config, source=source, sheds_load=False)
    await engine.start()
    try:
        base = f"http://127.0.0.1:{engine.admin_port}/api/v1"
        assert await engine.tools_settled(PATIENCE)
        async with (
            httpx2.AsyncClient(base_url=base, trust_env=False, timeout=PATIENCE) as client,
            SimulatedCaller("127.0.0.1", engine.audiosocket_port),
        ):
            await until(lambda: bool(engine.registry.calls), "the call")

            async def post(key: str, where: str, body: Any) -> httpx2.Response:
                headers = {"Authorization": f"Bearer {key}"}
                return await client.post(where, json=body, headers=headers)

            draft = {"text": json.dumps(tree(tmp_path, "2", "Draft.")), "context": "demo"}
            refused = await post(otto, "/trials", draft)
            assert (refused.status_code, code(refused)) == (403, "needs_publish")
            assert refused.json()["error"]["at"][0]["key"] == "mcp.servers.s.env.VERSION"
            begun = (await post(anna, "/trials", draft)).json()
            assert [(each["server"], each["state"], each["own"]) for each in begun["mcp"]] == [
                ("s", "ready", True)
            ]
            trial = begun["trial"]
            chat = (await post(anna, "/chats", {"trial": trial})).json()
            assert (chat["trial"], chat["version"]) == (trial, begun["version"])
            said = await post(anna, f"/chats/{chat['chat']}/messages", {})
            shown = events(said.text)
            assert [name for name, _ in shown] == ["session", "token", "done"]
            assert shown[1][1]["text"] == "Draft."
            tried = {"context": "demo", "trial": trial, "arguments": {}}
            where = (await post(anna, "/tools/where/try", tried)).json()
            assert where["data"]["VERSION"] == "2"
            now = await post(anna, "/tools/where/try", {"context": "demo", "arguments": {}})
            assert now.json()["data"]["VERSION"] == "1"
            for path_of, body in (
                ("/chats", {"trial": trial}),
                (f"/chats/{chat['chat']}/messages", {}),
                ("/tools/where/try", tried),
            ):
                assert (await post(olga, path_of, body)).status_code == 404
            words = tree(tmp_path, "1", "Other words.")
            own = await post(otto, "/trials", {"text": json.dumps(words), "context": "demo"})
            assert [each["own"] for each in own.json()["mcp"]] == [False]
            ended = await client.delete(
                f"/trials/{trial}", headers={"Authorization": f"Bearer {anna}"}
            )
            assert ended.status_code == 200
            over = await post(anna, f"/chats/{chat['chat']}/messages", {"message": "Hi."})
            assert over.status_code == 404
    finally:
        await engine.stop(grace=0)
    await leaks.assert_nothing_left()
    for pattern in ("chat-*", "try-*"):
        lines = [line for line in first_lines(tmp_path, pattern) if line["trial"]]
        assert [(line["test"], line["trial"], line["config"]) for line in lines] == [
            (True, trial, begun["version"])
        ]
    (call,) = [line for line in first_lines(tmp_path, "*") if line["source"] == "audiosocket"]
    assert (call["test"], call["trial"]) == (False, "")
