"""Calls, the engine, MCP servers, tools and the check of the configuration, over the admin port."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import sys
import traceback
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from cordboard.accounts.rights import Grant, Role
from cordboard.api.app import ComponentState
from cordboard.calls.call import CallState
from cordboard.errors import ConfigProblem, LineError, McpUnavailable, TransferFailed
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.telephony.scripted_caller import SOURCE
from cordboard_testkit.fake_administration import Reloaded
from cordboard_testkit.patience import PATIENCE, until

from .conftest import CONFIG, LiveCall, Room, code


async def test_live_calls_are_those_of_the_scope_with_numbers_by_grant(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (Grant.PERSONAL,), ("sales",))
    masked = (await room.browser("vera").get("/calls/live")).json()["calls"]
    assert {call["call_id"] for call in masked} == {"call-demo", "call-sales"}
    assert {(call["caller_number"], call["caller_name"]) for call in masked} == {
        ("*******3456", "")
    }
    assert "4930" not in str(masked)
    assert "Erika" not in str(masked)
    (shown,) = (await room.browser("paula").get("/calls/live")).json()["calls"]
    assert (shown["caller_number"], shown["caller_name"]) == ("+4930123456", "Erika Mustermann")
    assert (shown["state"], shown["context"], shown["cost"]) == ("talking", "sales", 0.25)


async def test_a_hang_up_ends_the_call_and_its_reason_names_the_operator(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    assert (await browser.post("/calls/call-demo/hangup")).status_code == 200
    assert room.calls["call-demo"].ended == [("completed", "operator_hangup")]
    (entry,) = room.entries()
    assert (entry["who"], entry["role"], entry["action"], entry["on"], entry["context"]) == (
        "otto",
        "operator",
        "call.hangup",
        "call-demo",
        "demo",
    )
    room.calls["call-demo"].state = CallState.ENDING
    over = await browser.post("/calls/call-demo/hangup")
    assert (over.status_code, code(over)) == (409, "ended")
    assert [entry["result"] for entry in room.entries()] == ["done", "done", "failed"]
    assert room.entries()[2]["detail"] == {"of": 2, "why": "the call is over"}


async def test_a_call_outside_the_scope_is_as_one_that_does_not_exist(room: Room) -> None:
    room.add("otto", Role.OPERATOR, (), ("demo",))
    browser = room.browser("otto")
    outside = await browser.post("/calls/call-sales/hangup")
    missing = await browser.post("/calls/call-none/hangup")
    for answer in (outside, missing):
        assert (answer.status_code, code(answer)) == (404, "not_there")
    assert outside.json()["error"]["message"] == missing.json()["error"]["message"]
    assert room.calls["call-sales"].ended == []
    assert [entry["result"] for entry in room.entries()] == ["refused", "refused"]


async def test_a_transfer_goes_to_a_configured_destination_only(room: Room) -> None:
    room.add("otto", Role.OPERATOR, (), ("demo",))
    browser, call = room.browser("otto"), room.calls["call-demo"]
    path = "/calls/call-demo/transfer"
    unknown = await browser.post(path, {"destination": "+49900123456"})
    assert (unknown.status_code, "known: desk" in unknown.text) == (422, True)
    assert (await browser.post(path, {"destination": "desk"})).status_code == 200
    assert call.operator.asked == [("transfer", "desk")]
    assert room.entries()[-1]["detail"] == {"destination": "desk"}
    call.operator.failure = KeyError("desk")
    newer = await browser.post(path, {"destination": "desk"})
    assert (newer.status_code, "newer than the call" in newer.text) == (422, True)
    call.operator.failure = TransferFailed("extension 200 is busy")
    failed = await browser.post(path, {"destination": "desk"})
    assert (failed.status_code, "is busy" in failed.text) == (409, True)
    call.operator.failure = None
    call.state = CallState.TRANSFERRING
    again = await browser.post(path, {"destination": "desk"})
    assert (again.status_code, code(again)) == (409, "not_now")
    outside = await browser.post("/calls/call-sales/transfer", {"destination": "nowhere"})
    assert outside.status_code == 404, "not even the known destinations"


async def test_a_call_is_taken_over_to_a_phone_that_is_meant_for_it(room: Room) -> None:
    room.add("otto", Role.OPERATOR, (), ("demo",))
    room.add("vera", Role.VIEWER)
    browser, call = room.browser("otto"), room.calls["call-demo"]
    path = "/calls/call-demo/takeover"
    assert (await room.browser("vera").post(path, {"destination": "otto"})).status_code == 403
    other = await browser.post(path, {"destination": "desk"})
    assert (other.status_code, "known: otto" in other.text) == (422, True)
    assert (await browser.post(path, {"destination": "otto"})).status_code == 200
    assert call.operator.asked == [("take_over", "otto", "otto")]
    last = room.entries()[-1]
    assert (last["action"], last["detail"]) == ("call.takeover", {"destination": "otto"})
    call.operator.failure = LineError("not taken over: busy")
    failed = await browser.post(path, {"destination": "otto"})
    assert (failed.status_code, "busy" in failed.text) == (409, True)


async def test_an_operator_joins_a_call_and_whispers_and_the_audit_has_no_words(
    room: Room,
) -> None:
    room.add("otto", Role.OPERATOR, (), ("demo",))
    room.add("vera", Role.VIEWER)
    browser, call = room.browser("otto"), room.calls["call-demo"]
    path, joins = "/calls/call-demo/conference", {"destination": "otto", "agent": "quiet"}
    assert (await room.browser("vera").post(path, joins)).status_code == 403
    other = await browser.post(path, {"destination": "desk"})
    assert (other.status_code, "known: otto" in other.text) == (422, True)
    wrong = await browser.post(path, {"destination": "otto", "agent": "loud"})
    assert (wrong.status_code, "agent" in wrong.text) == (422, True)
    assert (await browser.post(path, joins)).status_code == 200
    assert call.operator.asked == [("confer", "otto", "otto", "quiet")]
    assert (room.entries()[-1]["action"], room.entries()[-1]["detail"]) == (
        "call.conference",
        joins,
    )
    words = {"text": "Offer her a discount.", "to": "operator"}
    whispered = await browser.post("/calls/call-demo/whisper", words)
    assert (whispered.status_code, whispered.json()) == (200, {"state": "begun"})
    assert call.operator.asked[-1] == ("whisper", "Offer her a discount.", "otto", "operator")
    last = room.entries()[-1]
    assert (last["action"], last["detail"]) == (
        "call.whisper",
        {"characters": 21, "to": "operator"},
    )
    call.operator.failure = LineError("not joined: machine")
    failed = await browser.post(path, {"destination": "otto"})
    assert (failed.status_code, "machine" in failed.text) == (409, True)
    call.operator.failure = LineError("there is no human on the line")
    refused = await browser.post("/calls/call-demo/whisper", {"text": "Hello."})
    assert (refused.status_code, "no human" in refused.text) == (409, True)
    outside = await browser.post("/calls/call-sales/conference", {"destination": "nowhere"})
    assert outside.status_code == 404


async def test_the_engine_shows_its_state_without_the_calls(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    browser = room.browser("vera")
    shown = (await browser.get("/engine")).json()
    assert (shown["ready"], shown["version"], shown["active_calls"]) == (True, "1.2.3", 2)
    assert shown["load"]["lag_p99_ms"] == 1.5
    assert shown["load"]["late_frames"] == 4
    assert [(each["number"], each["calls"]) for each in shown["generations"]] == [(3, 1), (2, 1)]
    assert shown["deferred"] == [{"what": "health.port", "until": "the engine is restarted"}]
    assert "call-sales" not in str(shown)
    room.view.components["ari"] = ComponentState(False, "no connection to Asterisk")
    shown = (await browser.get("/engine")).json()
    assert shown["ready"] is False
    assert shown["components"]["ari"]["detail"] == "no connection to Asterisk"


async def test_a_reload_is_the_engines_own_with_its_problems(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    room.fake.reloaded = replace(
        Reloaded(), applied=False, problems=(ConfigProblem("bad", "a.b", "f.yaml", 7),)
    )
    report = (await browser.post("/engine/reload")).json()
    assert (report["applied"], report["problems"][0]["line"]) == (False, 7)
    assert room.fake.asked == ["reload"]


async def test_mcp_servers_are_operated_one_at_a_time_from_whichever_port(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    (server,) = (await browser.get("/mcp")).json()["servers"]
    assert (server["server"], server["state"], server["pid"]) == ("atis", "ready", 4711)
    room.fake.hold = asyncio.Event()
    working = asyncio.create_task(room.services.operations.move("atis", "restart"))
    await room.fake.held.wait()
    busy = await asyncio.wait_for(browser.post("/mcp/atis/stop"), PATIENCE)
    assert (busy.status_code, "worked on already" in busy.text) == (409, True)
    room.fake.hold.set()
    await working
    acts = ("start", "stop", "restart", "test")
    for act in acts:
        assert (await browser.post(f"/mcp/atis/{act}")).status_code == 200
    assert room.fake.asked == [
        "restart atis",
        *(f"{a} atis" for a in ("start", "stop", "restart", "test")),
    ]
    assert (await browser.post("/mcp/nowhere/stop")).status_code == 404
    room.fake.failure = McpUnavailable("it is switched off")
    assert "switched off" in (await browser.post("/mcp/atis/stop")).text
    assert (await browser.post("/mcp/atis/stop", {"force": True})).status_code == 422


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.VIEWER, set()),
        (Role.OPERATOR, {"look", "book"}),
        (Role.ADMIN, {"look", "book", "delete"}),
    ],
)
async def test_a_tool_is_tried_by_its_effects(room: Room, role: Role, allowed: set[str]) -> None:
    room.add("tina", role)
    browser = room.browser("tina")
    for name in ("look", "book", "delete"):
        body = {"context": "demo", "arguments": {"secret": "hunter2"}, "confirm": name}
        answer = await browser.post(f"/tools/{name}/try", body)
        assert answer.status_code == (200 if name in allowed else 403), name
    assert {name for name, _, _ in room.trials.tried} == allowed
    assert "hunter2" not in room.audit.path.read_text(), "arguments may be secret"
    done = [entry for entry in room.entries() if entry["result"] == "done"]
    assert [entry["detail"]["arguments"] for entry in done] == [["secret"]] * len(allowed)


@pytest.mark.parametrize(("role", "status"), [(Role.OPERATOR, 404), (Role.ADMIN, 200)])
async def test_a_tool_of_unknown_effects_is_tried_by_those_alone_who_may_try_all(
    room: Room, monkeypatch: pytest.MonkeyPatch, role: Role, status: int
) -> None:
    """Its server is down, and may be back a moment later with a tool that deletes."""
    rows = (ToolRow("delete", "mcp", why_not="its server is starting"),)
    monkeypatch.setattr(room.fake, "tools", lambda context=None: ToolListing(context, rows, ()))
    room.add("tina", role)
    answer = await room.browser("tina").post("/tools/delete/try", {"context": "demo"})
    assert answer.status_code == status
    assert [name for name, _, _ in room.trials.tried] == ["delete"] * (status == 200)


async def test_a_try_is_within_the_scope_and_its_body_is_checked(room: Room) -> None:
    room.add("tina", Role.OPERATOR, (), ("demo",))
    browser = room.browser("tina")
    for context in ("sales", "nowhere"):
        assert (await browser.post("/tools/look/try", {"context": context})).status_code == 404
    for bad in ({}, {"context": "demo", "arguments": []}, {"context": "demo", "provider": "x"}):
        assert (await browser.post("/tools/look/try", bad)).status_code == 422
    assert room.trials.tried == []
    tried = (await browser.post("/tools/look/try", {"context": "demo"})).json()
    assert (tried["outcome"], tried["status"], tried["data"]) == ("run", "ok", {"rows": [1]})


async def test_tools_with_odd_texts_are_listed(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """An MCP server may list half a surrogate or a number of a thousand digits."""
    rows = (ToolRow("odd", "mcp", description="\ud800", parameters={"maximum": 10**400}),)
    monkeypatch.setattr(room.fake, "tools", lambda context=None: ToolListing(context, rows, ()))
    room.add("vera", Role.VIEWER)
    listed = await room.browser("vera").get("/tools?context=demo")
    assert listed.status_code == 200
    assert listed.json()["tools"][0]["name"] == "odd"


async def test_a_list_of_tools_names_the_contexts_that_offer_each(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a limited scope it has only the tools of its contexts."""
    look, sell = ToolRow("look", "python", offered=True), ToolRow("sell", "python", offered=True)
    down = ToolRow("sell", "python", why_not="it is down")
    rows = {None: (look, sell, ToolRow("unused", "python")), "demo": (look, sell)}
    monkeypatch.setattr(
        room.fake,
        "tools",
        lambda context=None: ToolListing(context, rows.get(context, (down,)), ()),
    )
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (), ("sales",))
    listed = (await room.browser("vera").get("/tools")).json()["tools"]
    assert {each["name"]: each["contexts"] for each in listed} == {
        "look": ["demo"],
        "sell": ["demo"],
        "unused": [],
    }
    paula = room.browser("paula")
    (only,) = (await paula.get("/tools")).json()["tools"]
    assert (only["name"], only["contexts"], only["why_not"]) == ("sell", [], "it is down")
    assert (await paula.get("/tools?context=sales")).status_code == 200
    assert (await paula.get("/tools?context=demo")).status_code == 404


async def test_a_configuration_is_checked_with_lines_and_what_takes_effect_when(
    room: Room,
) -> None:
    room.use(CONFIG)
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    path = room.services.source.path if room.services.source else None
    assert path is not None
    draft = path.read_text() + "health: {port: 15999}\ncalls: {max_calls: 7}\n"
    checked = (await browser.post("/config/check", {"text": draft})).json()
    assert checked["in_order"] is True
    assert {row["key"]: row["takes_effect"] for row in checked["changes"]} == {
        "health.port": "restart",
        "calls.max_calls": "now",
    }
    bad = (await browser.post("/config/check", {"text": draft + "calls2: {}\n"})).json()
    (problem,) = bad["problems"]
    assert (bad["in_order"], problem["key"], problem["line"], bad["changes"]) == (
        False,
        "calls2",
        draft.count("\n") + 1,
        [],
    )
    same = (await browser.post("/config/check", {})).json()
    assert (same["in_order"], same["changes"]) == (True, [])
    assert path.read_text() not in (draft,)
    assert room.entries() == [], "a check changes nothing"


async def test_a_draft_reads_no_variable_of_the_engines_environment(room: Room) -> None:
    """A problem quotes the text that it is about, and a draft may put any variable there."""
    assert room.services.source is not None
    environ = {"DATABASE_URL": "postgres://shop:hunter2@db/shop", "SHOP": "hunter2"}
    room.use(CONFIG, **environ)
    room.add("otto", Role.OPERATOR)
    draft = "contexts: {demo: {provider: '${SHOP}'}}\nhealth: {port: '${DATABASE_URL}'}\n"
    answer = await room.browser("otto").post("/config/check", {"text": draft})
    assert answer.json()["in_order"] is False
    assert "hunter2" not in answer.text


async def test_a_draft_is_no_longer_than_a_file_may_be(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    comment = "contexts: {demo: {}}  #"
    for extra, status in ((0, 200), (1, 422)):
        draft = comment + "x" * (1024 * 1024 - len(comment) + extra)
        answer = await room.browser("otto").post("/config/check", {"text": draft})
        assert answer.status_code == status


async def test_checks_are_held_back(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    statuses = [(await browser.post("/config/check", {})).status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    room.clock.now += 1
    assert (await browser.post("/config/check", {})).status_code == 200


async def test_a_scope_shows_nothing_of_the_calls_and_contexts_outside_of_it(room: Room) -> None:
    """Neither in counts, nor in errors, nor in what a server has written about its calls."""
    room.add("otto", Role.OPERATOR, (), ("demo*",))
    browser = room.browser("otto")
    shown = (await browser.get("/engine")).json()
    assert (shown["active_calls"], shown["details"]) == (1, {})
    assert (shown["load"], shown["generations"], shown["deferred"]) == (None, [], [])
    (server,) = (await browser.get("/mcp")).json()["servers"]
    assert server["stderr"] == []
    missing = await browser.get("/tools?context=demo-nowhere")
    assert (missing.status_code, "sales" in missing.text) == (404, False)
    for path in ("/mcp/atis/stop", "/mcp/atis/test"):
        assert code(await browser.post(path)) == "forbidden", "others need the server too"
    assert code(await browser.post("/config/check", {"text": "contexts: {}"})) == "forbidden"
    room.add("vera", Role.OPERATOR)
    (server,) = (await room.browser("vera").get("/mcp")).json()["servers"]
    assert server["stderr"] != []


async def test_a_draft_reads_no_part_of_a_file(room: Room) -> None:
    """A wrong placeholder is quoted, and a draft may take its text from any file."""
    assert room.services.source is not None
    secret = room.services.source.path.with_name("credentials.json")
    secret.write_text("{hunter2 hunter2}")
    room.use(CONFIG, KEYS="a {hunter3 hunter3}")
    room.add("otto", Role.OPERATOR, (Grant.PUBLISH,))
    draft = (
        "contexts:\n  demo: {prompt: '${file:credentials.json}'}\n"
        "  sales: {greeting: '${KEYS}', prompt: '{typo}'}\n"
    )
    answer = await room.browser("otto").post("/config/check", {"text": draft})
    rows = {row["key"]: row["message"] for row in answer.json()["problems"]}
    assert "hunter" not in answer.text
    assert "cordboard check" in rows["contexts.demo.prompt"]
    assert "cordboard check" in rows["contexts.sales.greeting"]
    assert "{typo}" in rows["contexts.sales.prompt"], "of the draft's own text"


async def test_a_draft_imports_no_package(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for a module inside of a package would import the package."""
    assert room.services.source is not None
    folder = room.services.source.path.parent
    (folder / "bystander").mkdir()
    (folder / "bystander" / "__init__.py").write_text("")
    (folder / "bystander" / "inner.py").write_text("def f(): ...")
    monkeypatch.syspath_prepend(str(folder))
    room.add("otto", Role.OPERATOR)
    draft = (
        "contexts: {demo: {tools: [f]}}\n"
        "tools: {f: {kind: python, function: 'bystander.inner:f', description: a tool}}\n"
    )
    answer = await room.browser("otto").post("/config/check", {"text": draft})
    assert (answer.json()["in_order"], answer.json()["problems"]) == (True, [])
    assert [name for name in sys.modules if name.startswith("bystander")] == []


async def test_the_set_up_is_checked_once_at_a_time(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    found = (await browser.get("/engine/setup?freepbx=true")).json()
    fix = {"text": "extensions_custom.conf", "copy": "[cordboard]"}
    assert found == {
        "steps": [
            {
                "id": "dialplan",
                "state": "skipped",
                "what": "dialplan",
                "said": "add it",
                "fix": fix,
            }
        ]
    }
    room.may_check.clear()
    first = asyncio.create_task(browser.get("/engine/setup"))
    await until(room.services.checking_setup.locked)
    busy = await browser.get("/engine/setup")
    assert (busy.status_code, code(busy)) == (503, "busy")
    room.may_check.set()
    assert (await first).json()["steps"][0]["fix"]["text"] == "extensions.conf"


async def test_a_test_call_is_placed_one_at_a_time_and_within_the_scope(room: Room) -> None:
    room.add("otto", Role.OPERATOR, scope=("demo",))
    browser = room.browser("otto")
    for context, status in (("sales", 404), ("nowhere", 404), ("demo", 200)):
        answer = await browser.post("/engine/setup/test-call", {"context": context})
        assert answer.status_code == status, answer.text
    assert answer.json() == {"call_id": "call-1", "says": "Hello?"}
    assert room.tested == ["demo"]
    assert room.entries()[-1]["detail"] == {"context": "demo"}
    room.calls["call-1"] = LiveCall("call-1", "demo", source=SOURCE)
    busy = await browser.post("/engine/setup/test-call", {"context": "demo"})
    assert (busy.status_code, code(busy)) == (503, "busy")


async def test_the_set_up_of_an_engine_without_a_file_cannot_be_checked(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.services.source = None
    refused = await room.browser("otto").get("/engine/setup")
    assert (refused.status_code, code(refused)) == (409, "no_file")


async def test_messages_of_a_server_are_for_those_who_may_know_all_words(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (Grant.PERSONAL,))
    room.add("sally", Role.ADMIN, (Grant.PERSONAL,), ("sales",))
    path = "/mcp/atis/protocol"
    for name in ("vera", "sally"):
        refused = await room.browser(name).get(path)
        assert (refused.status_code, code(refused)) == (403, "forbidden")
    tail = (await room.browser("paula").get(path)).json()
    assert (tail["last"], tail["lost"]) == (1, 0)
    assert tail["messages"][0] | {"at": ""} == {
        "at": "",
        "direction": "sent",
        "kind": "request",
        "id": "1",
        "method": "tools/list",
        "content": "{}",
        "cut": False,
    }
    assert (await room.browser("paula").get(f"{path}?after=1")).json()["messages"] == []
    assert (await room.browser("paula").get("/mcp/nowhere/protocol")).status_code == 404
    assert (await room.browser("paula").get(f"{path}?after=-1")).status_code == 422


async def test_stderr_is_read_on_from_a_known_line(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    room.add("sally", Role.VIEWER, (), ("sales",))
    browser = room.browser("vera")
    whole = (await browser.get("/mcp/atis/stderr")).json()
    assert (whole["last"], len(whole["lines"])) == (50, 50)
    more = (await browser.get("/mcp/atis/stderr?after=48")).json()
    assert more["lines"] == ["line 48", "line 49"]
    assert (await room.browser("sally").get("/mcp/atis/stderr")).status_code == 403
    assert (await browser.get("/mcp/nowhere/stderr")).status_code == 404


async def test_only_what_was_seen_is_accepted(room: Room) -> None:
    room.add("anna", Role.ADMIN)
    room.add("otto", Role.OPERATOR)
    browser = room.browser("anna")
    shown = (await browser.get("/mcp/lock")).json()
    (server,) = shown["servers"]
    assert (shown["mode"], server["state"]) == ("warn", "changed")
    assert server["diff"] == ["mcp:atis:get_metar (new)"]
    body = {"server": "atis", "digest": server["digest"]}
    assert (await room.browser("otto").post("/mcp/lock/accept", body)).status_code == 403
    assert (await browser.post("/mcp/lock/accept", body)).status_code == 200
    changed = await browser.post("/mcp/lock/accept", body | {"digest": "f" * 64})
    assert (changed.status_code, code(changed)) == (409, "conflict")
    unknown = await browser.post("/mcp/lock/accept", body | {"server": "nowhere"})
    assert unknown.status_code == 404
    done = [line for line in room.entries() if line["result"] == "done"]
    assert done[0]["action"] == "mcp.accept"
    assert done[0]["detail"] == body


async def test_the_disks_are_shown_with_the_days_that_are_left(room: Room, tmp_path: Path) -> None:
    room.add("vera", Role.VIEWER)
    calls = tmp_path / "calls"
    room.use(f"contexts: {{demo: {{}}}}\ncalls: {{directory: {calls}}}\n")
    (disk,) = (await room.browser("vera").get("/engine/disks")).json()["disks"]
    assert disk["holds"] == ["calls", "admin"]
    assert (disk["bytes_per_day"], disk["days_left"]) == (None, None), "no whole day is there yet"
    now = datetime.datetime.now().astimezone()
    for ago, size in ((0, 9_000), (1, 3_000), (2, 1_000)):
        folder = calls / f"{now - datetime.timedelta(days=ago):%Y-%m-%d}"
        folder.mkdir(parents=True)
        (folder / "a.wav").write_bytes(bytes(size))
    (disk,) = (await room.browser("vera").get("/engine/disks")).json()["disks"]
    assert disk["bytes_per_day"] == 2_000, "the mean of the whole days, without today"
    assert disk["days_left"] == pytest.approx(disk["free_bytes"] / 2_000, rel=0.01)


def _raised() -> str:
    """Return an exception as the log has it, whose words are a caller's."""
    try:
        try:
            raise KeyError("I am ill")
        except KeyError as first:
            try:
                raise ValueError("Erika: I am ill\nErika: I am ill") from first
            except ValueError as second:
                raise ExceptionGroup("I am ill", [second]) from None
    except ExceptionGroup:
        return traceback.format_exc()


async def test_the_support_bundle_has_no_secret_and_no_words(room: Room) -> None:
    room.add("anna")
    room.add("otto", Role.OPERATOR)
    assert (await room.browser("otto").get("/engine/bundle")).status_code == 403
    room.use("contexts: {demo: {}}\nadmin: {token: correct-horse-battery} # mine\n")
    assert room.services.log is not None
    for event in (
        {"event": "sentence_unsaid", "level": "error", "call_id": "a", "text": "I am ill"},
        {"event": "engine_started", "level": "info"},
        {"event": "mcp_stderr", "level": "info", "server": "orders", "line": "I am ill"},
        {"event": "mcp_garbage", "level": "warning", "server": "orders", "line": "I am ill"},
        {"event": "heard: I am ill", "level": "info", "library": "mcp.client"},
        {
            "event": "tool_failed",
            "level": "error",
            "timestamp": "2026-11-24T10:00:00.5Z",
            "call_id": "1793872800.17",
            "tool": "mcp:orders/find",
            "context_name": "demo",
            "provider": "I am ill",
            "outcome": "failed",
            "reason": "I am ill",
            "error": "I am ill",
            "problem": "I am ill",
            "detail": {"why": ["I am ill"]},
            "channel": "PJSIP/4711000-1",
            "ms": 12.5,
            "fatal": False,
            "exception": _raised(),
        },
        {"event": "lost", "level": "error", "text": "I am ill", "error": "McpError"},
    ):
        room.services.log(None, "", event)
    browser = room.browser("anna")
    parts = (await browser.get("/engine/bundle/contents")).json()["parts"]
    answer = await browser.get("/engine/bundle")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        files = {name: found.read(name).decode() for name in found.namelist()}
    assert list(files) == ["contents.txt", *(each["name"] for each in parts)]
    assert "correct-horse" not in str(files)
    assert "token: «secret:1»} # mine" in files["config.yaml"]
    for words in ("I am ill", "Erika", "4711000"):
        assert words not in files["log.jsonl"], words
    unsaid, started, *servers, failed, lost = map(json.loads, files["log.jsonl"].splitlines())
    assert (unsaid["event"], unsaid["text"]) == ("sentence_unsaid", "...")
    assert started == {"event": "engine_started", "level": "info"}
    assert [each.get("server") for each in servers] == ["orders", "orders", None]
    assert (servers[2]["event"], servers[2]["library"]) == ("...", "mcp.client")
    shown = {key: value for key, value in failed.items() if value != "..."}
    places = shown.pop("exception").splitlines()
    assert list(shown) == (
        ["event", "level", "timestamp", "call_id", "tool", "context_name", "outcome", "ms", "fatal"]
    )
    assert (shown["ms"], shown["tool"]) == (12.5, "mcp:orders/find")
    assert [line for line in places if "line" not in line and "Trace" not in line] == (
        ["ExceptionGroup", "KeyError", "ValueError"]
    )
    assert any(line.endswith("in _raised") and "test_endpoints.py" in line for line in places)
    assert lost["error"] == "McpError"
    assert json.loads(files["engine.json"])["state"]["version"] == "1.2.3"
    assert json.loads(files["setup.json"])[0]["id"] == "dialplan"
    assert [entry["action"] for entry in room.entries()] == ["engine.bundle", "engine.bundle"]
    room.fake.source.path.unlink()
    answer = await browser.get("/engine/bundle")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        assert "cannot be read: No such file" in found.read("config.yaml").decode()
