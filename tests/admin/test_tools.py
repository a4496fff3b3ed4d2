"""Tools over the admin port: confirmation, places, saved examples, real uses, counts."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cordboard.accounts.rights import Grant, Permission, Role
from cordboard.chat.tool_examples import MOST_BYTES, MOST_OF_TOOL, ToolExample, ToolExamples
from cordboard.errors import StoreUnavailable, ToolExampleRefused
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.history.indexer import Indexer
from cordboard.history.keeper import IndexKeeper
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.tools.tool import Effects, ToolSpec

from .conftest import TOOLS, Room, code

TRY = {"context": "demo", "arguments": {}}


@pytest.mark.parametrize(("name", "needs"), [("look", False), ("book", True), ("delete", True)])
async def test_what_changes_the_world_is_run_after_its_name_alone(
    room: Room, name: str, needs: bool
) -> None:
    room.add("anna", Role.ADMIN)
    browser = room.browser("anna")
    for confirm in ("", "yes", name.upper()):
        answer = await browser.post(f"/tools/{name}/try", TRY | {"confirm": confirm})
        assert (answer.status_code == 409) == needs
        assert not needs or code(answer) == "needs_confirmation"
    assert (room.trials.tried == []) == needs
    answer = await browser.post(f"/tools/{name}/try", TRY | {"confirm": name})
    assert answer.status_code == 200


async def test_the_run_itself_is_told_which_effects_were_agreed_to(room: Room) -> None:
    """Between the check and the run a server may list the tool anew, as one that deletes."""
    room.add("otto", Role.OPERATOR)
    room.add("anna", Role.ADMIN)
    await room.browser("otto").post("/tools/look/try", TRY | {"confirm": "look"})
    await room.browser("anna").post("/tools/look/try", TRY)
    await room.browser("anna").post("/tools/look/try", TRY | {"confirm": "look"})
    operator, unconfirmed, admin = room.trials.effects
    assert Effects.DESTRUCTIVE not in operator
    assert set(unconfirmed) == {Effects.READ_ONLY}
    assert set(admin) == set(Effects)


async def test_by_no_endpoint_a_session_of_an_operator_runs_what_destroys(room: Room) -> None:
    room.add("otto", Role.OPERATOR, tuple(Grant))
    assert not {Permission.TOOLS_TRY_DESTRUCTIVE} & set(_rights(room, "otto"))
    for body in (TRY, TRY | {"confirm": "delete", "approve": True}):
        for browser in (room.browser("otto"), room.browser("otto", elevated=True)):
            assert (await browser.post("/tools/delete/try", body)).status_code == 403
    assert (await room.program("otto").post("/tools/delete/try", TRY)).status_code == 403
    assert room.trials.tried == []


def _rights(room: Room, name: str) -> frozenset[Permission]:
    user = room.accounts.user(name)
    assert user is not None
    return user.rights.permissions


async def test_a_tool_shows_where_it_is_offered_and_why_not_elsewhere(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "demo": (ToolRow("shop_look", "mcp", server="shop", offered=True, description="Looks."),),
        "sales": (ToolRow("mcp.shop", "mcp", server="shop", why_not="its server is failed"),),
    }
    spec = ToolSpec("shop_look", "mcp", "Looks.", {"type": "object"}, server="shop")
    hidden = ToolRow("hidden", "mcp", server="shop", why_not="it is new")
    monkeypatch.setattr(
        room.fake,
        "tools",
        lambda context=None: ToolListing(
            context,
            rows.get(context, (*rows["demo"], hidden)),
            (spec,) if context == "demo" else (),
        ),
    )
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (), ("sales",))
    shown = (await room.browser("vera").get("/tools/shop_look")).json()
    places = {place["context"]: place for place in shown["places"]}
    assert (places["demo"]["offered"], places["demo"]["why_not"]) == (True, "")
    assert places["sales"]["why_not"] == "the context does not list it under `tools`"
    assert shown["offered"] is True
    why = (await room.browser("vera").get("/tools/shop_look/why?context=demo")).json()
    assert why == places["demo"]
    wrong = await room.browser("vera").get("/tools/shop_look/why?context=demo&provider=nobody")
    assert (wrong.status_code, "it uses" in wrong.text) == (404, True)
    only = (await room.browser("vera").get("/tools/hidden")).json()
    assert (only["offered"], {place["offered"] for place in only["places"]}) == (False, {False})
    for name in ("shop_look", "hidden", "nowhere"):
        assert (await room.browser("paula").get(f"/tools/{name}")).status_code == 404


async def test_tools_of_two_servers_with_one_name_are_both_listed(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = ToolRow("look", "mcp", "mcp:a:look", "a", offered=True)
    theirs = ToolRow("look", "mcp", "mcp:b:look", "b", why_not="the name is taken")
    rows = {None: (mine, theirs), "demo": (mine,)}
    monkeypatch.setattr(
        room.fake, "tools", lambda context=None: ToolListing(context, rows.get(context, ()), ())
    )
    room.add("vera", Role.VIEWER)
    tools = (await room.browser("vera").get("/tools")).json()["tools"]
    assert [(each["server"], each["contexts"]) for each in tools] == [("a", ["demo"]), ("b", [])]


async def test_examples_are_saved_for_those_of_their_context(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("paula", Role.OPERATOR, (), ("sales",))
    otto, paula = room.browser("otto"), room.browser("paula")
    path = "/tools/look/examples/oslo"
    body = {"context": "demo", "label": "rain", "arguments": {"city": "Oslo"}}
    saved = await otto.ask("PUT", path, body)
    assert (saved.json()["saved_by"], saved.json()["arguments"]) == ("otto", {"city": "Oslo"})
    assert "Oslo" not in room.audit.path.read_text()
    assert room.entries()[-1]["detail"] == {"arguments": ["city"]}
    file = room.accounts.path.with_name("tool-examples.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = (await otto.get("/tools/look/examples")).json()["examples"]
    assert [each["id"] for each in listed] == ["oslo"]
    assert (await paula.get("/tools/look/examples")).json() == {"examples": []}
    for answer in (
        await paula.get(path),
        await paula.ask("DELETE", path),
        await paula.ask("PUT", path, body | {"context": "sales"}),
        await paula.ask("PUT", "/tools/look/examples/other", body),
    ):
        assert answer.status_code == 404
    assert (await otto.ask("PUT", "/tools/look/examples/A B", body)).status_code == 422
    secret = await otto.ask("PUT", path, body | {"arguments": {"password": "x"}})
    assert (secret.status_code, "no secrets" in secret.text) == (409, True)
    again = ToolExamples(file.parent)
    again.open()
    assert [each.id for each in again.of_tool("look")] == ["oslo"]
    assert (await otto.ask("DELETE", path)).status_code == 200
    assert (await otto.get(path)).status_code == 404


async def test_an_example_keeps_no_value_that_the_tool_declares_as_secret(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.add("otto", Role.OPERATOR)
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"code": {**text, "secret": True}, "door": text}}
    spec = ToolSpec("look", "http", "Looks.", schema, secret_arguments=frozenset({"door"}))
    monkeypatch.setattr(
        room.fake, "tools", lambda context=None: ToolListing(context, TOOLS, (spec,))
    )
    otto = room.browser("otto")
    for arguments, status in (({"code": "4711"}, 409), ({"door": "9"}, 409), ({"at": "x"}, 200)):
        body = {"context": "demo", "label": "", "arguments": arguments}
        saved = await otto.ask("PUT", "/tools/look/examples/oslo", body)
        assert saved.status_code == status, saved.text


async def test_an_example_of_a_tool_that_is_not_offered_now_is_not_kept(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of its arguments are secret is not known then."""
    room.add("otto", Role.OPERATOR)
    monkeypatch.setattr(room.fake, "tools", lambda context=None: ToolListing(context, (), ()))
    body = {"context": "demo", "label": "", "arguments": {"door": "4711"}}
    saved = await room.browser("otto").ask("PUT", "/tools/look/examples/oslo", body)
    assert (saved.status_code, code(saved)) == (409, "not_offered")
    assert room.services.examples.of_tool("look") == []


def test_examples_are_bounded_and_a_damaged_file_is_left_alone(tmp_path: Path) -> None:
    examples = ToolExamples(tmp_path)
    one = ToolExample("a", "look", "demo", "", {}, "otto", "2026-11-23T12:00:00+00:00")
    with pytest.raises(ToolExampleRefused, match="bytes"):
        examples.put(replace(one, arguments={"text": "x" * MOST_BYTES}))
    for number in range(MOST_OF_TOOL):
        examples.put(replace(one, id=str(number)))
    with pytest.raises(ToolExampleRefused, match="already"):
        examples.put(one)
    examples.put(replace(one, id="7", label="another"))
    (tmp_path / "tool-examples.json").write_text("{")
    damaged = ToolExamples(tmp_path)
    damaged.open()
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        damaged.put(one)
    assert (tmp_path / "tool-examples.json").read_text() == "{"


LEDGER = Path(__file__).parents[2] / "src" / "cordboard" / "calls" / "example_ledger.jsonl"


async def test_real_uses_come_from_the_ledgers_and_words_by_grant(room: Room) -> None:
    day = room.calls_folder / "2026-11-21"
    day.mkdir(parents=True)
    text = LEDGER.read_text().replace('"cut":[]', '"cut":["caller"]')
    (day / "call-1.jsonl").write_text(text)
    offered = json.loads(text.splitlines()[0])
    tried = text.replace(f'"source":"{offered["source"]}"', '"source":"try"', 1)
    assert tried != text
    (day / "try-1.jsonl").write_text(tried)
    tested = json.dumps(offered | {"call_id": "chat-1", "test": True})
    (day / "chat-1.jsonl").write_text("\n".join([tested, *text.splitlines()[1:]]) + "\n")
    used = [json.loads(line) for line in text.splitlines() if '"tool.' in line]
    name = next(line["name"] for line in used if "name" in line)
    context = next(
        line["context"] for line in map(json.loads, text.splitlines()) if "context" in line
    )
    store = SqlHistoryStore(room.calls_folder)
    try:
        await asyncio.to_thread(Indexer(room.calls_folder, store).catch_up)
        room.services.history = lambda: IndexKeeper(room.calls_folder, store)
        room.add("vera", Role.VIEWER)
        room.add("paula", Role.VIEWER, (Grant.PERSONAL,))
        room.add("sally", Role.VIEWER, (Grant.PERSONAL,), ("nothing-*",))
        personal = (await room.browser("paula").get(f"/tools/{name}/uses")).json()["uses"]
        assert {use["call_id"] for use in personal} == {"call-1"}
        assert {use["context"] for use in personal} == {context}
        masked = (await room.browser("vera").get(f"/tools/{name}/uses")).json()["uses"]
        assert len(masked) == len(personal)
        for seen, whole in zip(masked, personal, strict=True):
            assert seen["arguments"].keys() == whole["arguments"].keys()
            assert set(seen["arguments"].values()) <= {"•••"}
            assert (seen["message"], seen["data"], seen["cut"]) == ("", {}, [])
            assert (whole["message"] != "", whole["cut"]) == (True, ["caller"])
        assert (await room.browser("sally").get(f"/tools/{name}/uses")).json() == {"uses": []}
    finally:
        store.close()
    room.services.history = lambda: None
    off = await room.browser("vera").get(f"/tools/{name}/uses")
    assert (off.status_code, code(off)) == (409, "no_index")


async def test_uses_are_counted_within_the_scope(room: Room) -> None:
    for context, tool in (("demo", "look"), ("demo", "look"), ("sales", "look"), ("sales", "buy")):
        room.usage.record(context, tool, "ok", 0.2)
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (), ("demo",))
    whole = (await room.browser("vera").get("/tool-usage")).json()
    assert {row["tool"]: row["calls"] for row in whole["tools"]} == {"look": 3, "buy": 1}
    assert {row["last_day"] for row in whole["tools"]} == {whole["last_day"]}
    scoped = (await room.browser("paula").get("/tool-usage?days=1")).json()
    assert {row["tool"]: row["calls"] for row in scoped["tools"]} == {"look": 2}
    assert {row["context"] for row in scoped["rows"]} == {"demo"}
    assert (await room.browser("paula").get("/tool-usage?context=sales")).status_code == 404
    assert (await room.browser("vera").get("/tool-usage?days=91")).status_code == 422
