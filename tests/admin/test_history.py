"""The call history over HTTP: who finds, sees, hears and erases what."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import threading
import time
import zipfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.history.ledgers import NOON, Told, refuse

from cordboard.accounts.rights import Grant, Permission, Role
from cordboard.calls import events
from cordboard.config.load import ConfigSource
from cordboard.config.versions import Author, Versions
from cordboard.history.call_record import CallOnDisk
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.privacy.sealed_file import CallSeal

from .conftest import Browser, LiveCall, Room, code, record

SCRIPT = '<script>alert("1")</script>'


def everything(room: Room) -> Browser:
    """The browser of an elevated admin with all grants."""
    room.add("anna", Role.ADMIN, tuple(Grant))
    return room.browser("anna", elevated=True)


def ids(answer: Any) -> list[str]:
    return [row["id"] for row in answer.json()["rows"]]


async def test_calls_are_listed_in_pages_and_a_cursor_serves_its_own_filters_alone(
    room: Room,
) -> None:
    room.on_record = [
        Told(f"c{number}", NOON + timedelta(minutes=number), context="demo") for number in range(5)
    ]
    anna = everything(room)
    first = (await anna.get("/calls?limit=2&context=demo")).json()
    assert ([row["id"] for row in first["rows"]], first["up_to_date"]) == (["c4", "c3"], True)
    second = await anna.get(f"/calls?limit=2&context=demo&cursor={first['next']}")
    assert ids(second) == ["c2", "c1"]
    for wrong in (f"/calls?limit=2&cursor={first['next']}", "/calls?cursor=made-up"):
        answer = await anna.get(wrong)
        assert (answer.status_code, code(answer)) == (422, "invalid")


async def test_filters_are_alternatives_when_repeated_and_wrong_ones_are_named(room: Room) -> None:
    outcomes = ("failed", "completed", "transferred")
    room.on_record = [Told(each, context="demo", outcome=each) for each in outcomes]
    anna = everything(room)
    answer = await anna.get("/calls?outcome=failed&outcome=completed")
    assert set(ids(answer)) == {"failed", "completed"}
    assert ids(await anna.get("/calls?text=table&who=caller&number=%2B4533112233&id=failed")) == [
        "failed"
    ]
    assert ids(await anna.get("/calls?text=nothing")) == []
    for wrong in (
        "since=yesterday", "who=me", "text=%2C", "colour=red", "limit=201", "limit=0",
        "cost_over=much", "number=1&number=2", "&".join(["tag=a"] * 10_000),
        "&".join(f"f{n}=1" for n in range(6_000)),
    ):  # fmt: skip
        refused = await anna.get(f"/calls?{wrong}")
        assert (refused.status_code, code(refused)) == (422, "invalid"), wrong[:50]


async def test_calls_of_one_version_of_the_configuration_are_found(room: Room) -> None:
    room.on_record = [Told("old", config="a" * 64), Told("new", config="b" * 64)]
    anna = everything(room)
    assert ids(await anna.get(f"/calls?config={'b' * 64}")) == ["new"]
    facets = (await anna.get("/calls/facets")).json()["facets"]
    assert facets["config"] == {"a" * 64: 1, "b" * 64: 1}


async def test_calls_that_the_engine_placed_are_found(room: Room) -> None:
    room.on_record = [Told("came"), Told("placed", direction="out")]
    anna = everything(room)
    assert ids(await anna.get("/calls?direction=out")) == ["placed"]
    facets = (await anna.get("/calls/facets")).json()["facets"]
    assert facets["direction"] == {"in": 1, "out": 1}


async def test_outside_of_the_scope_a_call_is_neither_listed_nor_counted_nor_exported(
    room: Room,
) -> None:
    refuse(room.calls_folder, "refused-1")
    room.on_record.append(Told("call-more", context="demo-2"))
    room.add("bert", Role.OPERATOR, scope=("demo*",))
    bert, anna = room.browser("bert"), everything(room)
    assert set(ids(await bert.get("/calls"))) == {"call-demo", "call-more"}
    assert ids(await bert.get("/calls?context=sales")) == []
    facets = (await bert.get("/calls/facets")).json()["facets"]
    assert facets["context"] == {"demo": 1, "demo-2": 1}
    assert b"sales" not in (await bert.get("/calls/export")).content
    for path in ("call-sales", "call-sales/picture", "refused-1", "call-sales/bundle"):
        answer = await bert.get(f"/calls/{path}")
        assert (answer.status_code, code(answer)) == (404, "not_there"), path
    assert "refused-1" in ids(await anna.get("/calls"))
    shown = (await anna.get("/calls/refused-1")).json()["call"]
    assert (shown["row"]["outcome"], shown["row"]["reason"]) == ("refused", "busy")
    assert (await anna.get("/calls/refused-1/ledger")).status_code == 404


async def test_without_the_grant_numbers_are_masked_words_are_absent_and_neither_can_be_guessed(
    room: Room,
) -> None:
    words, tool = "my secret word", [("find", "ok")]
    told = Told(
        "call-demo", context="demo", name="Erika Muster", turns=[(words, "Heard secret word.")],
        interrupted="Heard secret", tools=tool, troubles=["stt"],
        more=[
            (1500, events.Key("7")),
            (1600, events.Silence("reprompt", 5000, "secret reprompt")),
            (1700, events.Trouble("tts", "cannot say: secret word")),
            (1710, events.OperatorSaid("anna", "secret word")),
            (1720, events.OperatorHint("anna", "it is about a secret word")),
            (1730, events.Flagged("anna", "a secret word")),
            (1740, events.OperatorHangup("anna", "enough of the secret word")),
            (1750, events.ToolCalled(1, "x", "list", "http:list", {})),
            (1760, events.ToolAnswered("x", "list", "ok", "", 9, cut=["secret word: 1 of 2"])),
        ],
    )  # fmt: skip
    room.on_record = [told]
    room.add("vera", Role.OPERATOR)
    vera = room.browser("vera")
    for path in ("/calls", "/calls/call-demo", "/calls/call-demo/picture", "/calls/export"):
        text = (await vera.get(path)).text
        assert "secret" not in text.replace("secret_", ""), path
        assert "Erika" not in text, path
        assert "453311" not in text, path
    shown = (await vera.get("/calls/call-demo")).json()
    assert shown["personal"] is False
    assert shown["call"]["row"]["caller_number"] == "*******2233"
    assert shown["call"]["turns"][0]["waited"]["total"] == 500
    assert [(each["name"], each["status"]) for each in shown["call"]["tools"]] == [
        ("find", "ok"),
        ("list", "ok"),
    ]
    assert "7" not in [mark["text"] for mark in shown["call"]["marks"]]
    for filters in ("text=secret", "number=%2B4533112233", "number_prefix=%2B45"):
        answer = await vera.get(f"/calls?{filters}")
        assert (answer.status_code, code(answer)) == (403, "forbidden")
    assert ids(await vera.get("/calls?number_last4=2233")) == ["call-demo"]
    files = zipfile.ZipFile(io.BytesIO((await vera.get("/calls/call-demo/bundle")).content))
    assert "ledger.jsonl" not in files.namelist()
    assert all(b"secret word" not in files.read(name) for name in files.namelist())
    whole = (await everything(room).get("/calls/call-demo")).text
    assert words in whole
    assert "Erika" in whole


async def test_what_callers_say_is_never_a_script_a_page_or_a_formula(room: Room) -> None:
    room.on_record = [
        Told("call-demo", context="demo", name=f"=HYPERLINK(1){SCRIPT}", turns=[(SCRIPT, SCRIPT)])
    ]
    anna, kinds = everything(room), {}
    for path in ("", "/ledger", "/picture", "/bundle"):
        answer = await anna.get(f"/calls/call-demo{path}")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        kinds[path] = answer.headers["content-type"].partition(";")[0]
        if path == "/picture":
            assert "<script" not in answer.text
            assert "&lt;script" in answer.text
    assert kinds == {
        "": "application/json",
        "/ledger": "application/x-ndjson",
        "/picture": "image/svg+xml",
        "/bundle": "application/zip",
    }
    table = await anna.get("/calls/export")
    assert table.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    assert "'=HYPERLINK" in table.text
    assert ",=HYPERLINK" not in table.text


async def test_one_picture_at_a_time_is_drawn_and_not_on_the_loop_that_carries_the_calls(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, threads, draw = everything(room), [], CallOnDisk.picture
    one = threading.Lock()

    def picture(call: CallOnDisk, **allowed: bool) -> bytes:
        threads.append(threading.current_thread())
        assert one.acquire(blocking=False), "two at once take the interpreter from the calls"
        try:
            time.sleep(0.05)
            return draw(call, **allowed)
        finally:
            one.release()

    monkeypatch.setattr(CallOnDisk, "picture", picture)
    paths = ("picture", "bundle", "picture")
    answers = await asyncio.gather(*(anna.get(f"/calls/call-demo/{path}") for path in paths))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len(threads) == 3
    assert threading.current_thread() not in threads


async def test_an_export_has_all_pages_and_one_line_in_the_audit(room: Room) -> None:
    room.on_record = [Told(f"c{number:03}", context="demo") for number in range(450)]
    anna = everything(room)
    lines = (await anna.get("/calls/export?format=jsonl&context=demo")).text.splitlines()
    assert len(lines) == 450
    assert [entry["action"] for entry in room.entries()] == ["calls.export"]


async def test_a_page_that_has_the_call_already_gets_no_second_copy_until_it_changes(
    room: Room,
) -> None:
    anna = everything(room)
    first = await anna.get("/calls/call-demo")
    tag = {"If-None-Match": first.headers["etag"]}
    assert (await anna.get("/calls/call-demo", headers=tag)).status_code == 304
    note = {"revision": "", "tags": ["refund"]}
    assert (await anna.ask("PUT", "/calls/call-demo/tags", note)).status_code == 200
    again = await anna.get("/calls/call-demo", headers=tag)
    assert again.json()["call"]["notes"]["tags"] == ["refund"]


async def test_a_live_call_is_shown_as_far_as_it_is_though_the_index_does_not_have_it_yet(
    room: Room,
) -> None:
    anna = everything(room)
    await anna.get("/calls")
    path = Told("call-new", context="demo", ended=False).write(room.calls_folder)
    assert room.keeper is not None
    room.calls["call-new"] = LiveCall("call-new", "demo")
    with path.open("ab") as file:
        file.write(b'{"at_ms":9000,"type":"caller.te')  # the engine is writing
    shown = (await anna.get("/calls/call-new")).json()
    assert (shown["live"], shown["call"]["row"]["outcome"]) == (True, "not ended")


# Sound.


async def test_sound_is_played_in_ranges_and_the_audit_has_one_line_for_each_session_and_call(
    room: Room,
) -> None:
    samples = record(room, "call-demo", 1.0)
    anna = everything(room)
    whole = await anna.get("/calls/call-demo/audio")
    assert (whole.status_code, whole.content[44:]) == (200, samples)
    assert whole.headers["content-type"] == "audio/wav"
    part = await anna.get("/calls/call-demo/audio", headers={"Range": "bytes=44-143"})
    assert (part.status_code, part.content) == (206, samples[:100])
    assert part.headers["content-range"] == f"bytes 44-143/{len(samples) + 44}"
    head = await anna.ask("HEAD", "/calls/call-demo/audio?track=agent")
    assert (head.content, int(head.headers["content-length"])) == (b"", len(samples) // 2 + 44)
    changed = {"Range": "bytes=0-9", "If-Range": '"other"'}
    assert (await anna.get("/calls/call-demo/audio", headers=changed)).status_code == 200
    beyond = await anna.get("/calls/call-demo/audio", headers={"Range": "bytes=999999999-"})
    assert (beyond.status_code, code(beyond)) == (416, "range")
    peaks = await anna.get("/calls/call-demo/peaks?from_ms=100&to_ms=200")
    assert len(peaks.content) == 5 * 4
    assert [entry["action"] for entry in room.entries()] == ["recording.played"]
    await room.browser("anna").get("/calls/call-demo/audio")
    assert len(room.entries()) == 2, "another session"


async def test_a_call_without_sound_says_why(room: Room) -> None:
    declined = [(1200, events.RecordingDeclined())]
    room.on_record = [Told("off"), Told("no", more=declined), Told("gone")]
    record(room, "gone")
    (room.calls_folder / room.on_record[2].recording).unlink()
    anna = everything(room)
    states = {
        each: (await anna.get(f"/calls/{each}")).json()["call"]["recording"]["state"]
        for each in ("off", "no", "gone")
    }
    assert states == {"off": "off", "no": "declined", "gone": "deleted"}
    assert (await anna.get("/calls/gone/audio")).status_code == 404


# Notes.


async def test_of_two_who_change_notes_at_once_one_is_told_and_nobody_changes_anothers(
    room: Room,
) -> None:
    anna = everything(room)
    room.add("bert", Role.VIEWER)
    bert, path = room.browser("bert"), "/calls/call-demo/notes"
    mine = await anna.ask("PUT", path, {"revision": "", "notes": [{"text": "call back"}]})
    (note,), revision = mine.json()["notes"]["notes"], mine.json()["revision"]
    assert note["by"] == "anna"
    late = await bert.ask("PUT", path, {"revision": "", "notes": [note, {"text": "me too"}]})
    assert (late.status_code, code(late)) == (409, "conflict")
    forged = {**note, "text": "do not call back"}
    for notes in ([], [forged], [note, {**note, "text": "more"}]):
        answer = await bert.ask("PUT", path, {"revision": revision, "notes": notes})
        assert (answer.status_code, code(answer)) == (403, "not_yours")
    both = {"revision": revision, "notes": [note, {"text": "me too"}]}
    assert (await bert.ask("PUT", path, both)).status_code == 200
    review = {"revision": (await anna.get("/calls/call-demo")).json()["call"]["notes_revision"]}
    await anna.ask("PUT", "/calls/call-demo/review", {**review, "review": "bad", "why": "late"})
    assert room.keeper is not None
    room.keeper.catch_up()
    assert ids(await anna.get("/calls?review=bad")) == ["call-demo"]


# Erasing.


async def test_an_erasure_by_number_says_first_what_would_go_and_then_leaves_no_word(
    room: Room,
) -> None:
    room.on_record = [
        Told("a", number="+4533110011", turns=[("a rare word", "yes")]),
        Told("b", number="+4533110011", turns=[("a rare word", "yes")], ended=False),
        Told("c", number="+4522"),
    ]
    refuse(room.calls_folder, "r", "+4533110011")
    record(room, "a")
    anna = everything(room)
    room.add("bert", Role.VIEWER, (Grant.PERSONAL,))
    for name, number in (("theirs", "+45 33110011"), ("other", "+4522")):
        view = {"name": name, "filters": {"number": [number]}, "shared": True}
        assert (await room.browser("bert").ask("PUT", f"/views/{name}", view)).is_success
    queue = room.calls_folder.parent / "campaigns.db"
    outbound = room.running.outbound.model_copy(update={"campaigns": queue})
    room.running = room.running.model_copy(update={"outbound": outbound})
    with closing(CampaignStore(queue)) as store:
        people = (Row(2, each, "Europe/Oslo", {}) for each in ("+4533110011", "+4522000000"))
        assert not list(store.add_people(store.add("spring", CampaignSettings("demo")), people))
    plan = (await anna.post("/erasures", {"number": "+4533110011"})).json()
    assert (plan["erased"], plan["calls"], plan["running"], plan["refused"]) == (
        False, ["a"], ["b"], ["r"],
    )  # fmt: skip
    assert set(ids(await anna.get("/calls"))) == {"a", "b", "c", "r"}
    done = await anna.post("/erasures", {"number": "+4533110011", "dry_run": False})
    certificate = done.json()["certificate"]
    problem = "the erasure is not complete: 1 calls have not ended; repeat it afterwards"
    assert done.json() == plan | {"erased": True, "certificate": certificate, "problem": problem}
    (written,) = (room.calls_folder / "certificates").glob(f"*-{certificate}.json")
    assert '"anna"' in written.read_text()
    assert "people with the number" in str(json.loads(written.read_bytes())["removed_from"])
    assert set(ids(await anna.get("/calls"))) == {"b", "c"}
    assert not (room.calls_folder / room.on_record[0].file).exists()
    assert not (room.calls_folder / room.on_record[0].recording).exists()
    assert [view["id"] for view in (await anna.get("/views")).json()["views"]] == ["other"]
    assert "+453311" not in room.audit.path.read_text()
    with closing(CampaignStore(queue)) as store:
        assert [row["number"] for row in store.results("spring")] == ["+4522000000"]
    erasures = [entry for entry in room.entries() if entry["action"] == "calls.erase"]
    assert [entry["detail"]["dry_run"] for entry in erasures] == [True, False]


async def test_an_erasure_beside_an_unreadable_call_says_that_it_is_not_complete(
    room: Room,
) -> None:
    room.on_record = [Told("a", number="+4533110011"), Told("b", number="+4533110011")]
    anna = everything(room)
    assert ids(await anna.get("/calls")) == ["b", "a"]
    path = room.calls_folder / room.on_record[1].file
    sealed = CallSeal("ab" * 16, b"k" * 32).whole("ledger", path.read_bytes())
    path.write_bytes(sealed)  # it stays in the index as it was
    path.with_name("c.jsonl").write_bytes(sealed)
    plan = (await anna.post("/erasures", {"number": "+4533110011"})).json()
    assert (plan["calls"], plan["problem"]) == (["a", "b"], "")
    assert plan["unreadable"] == [f"{path.parent.name}/c.jsonl"]
    done = (await anna.post("/erasures", {"number": "+4533110011", "dry_run": False})).json()
    assert done["calls"] == ["a", "b"]
    assert "files of 1 calls could not be deleted" in done["problem"]  # there is no key to delete
    assert "1 calls could not be read" in done["problem"]
    assert path.with_name("c.jsonl").exists()


async def test_nothing_is_erased_while_the_views_with_the_number_cannot_be(room: Room) -> None:
    room.on_record = [Told("a", number="+4533110011")]
    anna = everything(room)
    views = room.calls_folder.parent / "admin" / "views.json"
    views.write_text("{")
    erasure = {"number": "+4533110011", "dry_run": False}
    refused = await anna.post("/erasures", erasure)
    assert (refused.status_code, "nothing was done" in refused.text) == (503, True)
    assert ids(await anna.get("/calls")) == ["a"]
    assert (room.calls_folder / room.on_record[0].file).exists()
    views.unlink()
    assert (await anna.post("/erasures", erasure)).json()["calls"] == ["a"]


async def test_a_live_call_is_not_erased(room: Room) -> None:
    room.on_record = [Told("call-demo", context="demo", ended=False)]
    anna = everything(room)
    answer = await anna.ask("DELETE", "/calls/call-demo")
    assert (answer.status_code, code(answer)) == (409, "not_ended")
    assert (room.calls_folder / room.on_record[0].file).exists()
    assert [entry["result"] for entry in room.entries()] == ["done", "failed"]


# Bundles.


async def test_a_bundle_has_the_change_of_configuration_before_the_call_without_its_secrets(
    room: Room, tmp_path: Path
) -> None:
    path = tmp_path / "agent.yaml"
    versions = Versions(tmp_path / "versions", path)
    text = 'contexts: {{demo: {{greeting: "{}"}}}}\nadmin: {{token: "a-very-secret-token-1"}}\n'
    with versions.locked():
        versions.add(text.format("Hello").encode(), Author())
        digest = versions.add(text.format("Good morning").encode(), Author())
    room.services.versions, room.services.source = versions, ConfigSource(path, {})
    room.on_record = [Told("call-demo", context="demo", config=digest)]
    samples = record(room, "call-demo")
    answer = await everything(room).get("/calls/call-demo/bundle")
    assert answer.headers["content-disposition"] == 'attachment; filename="call-call-demo.zip"'
    files = zipfile.ZipFile(io.BytesIO(answer.content))
    assert files.testzip() is None
    assert sorted(files.namelist()) == [
        "call.json", "config.diff", "engine.json", "ledger.jsonl", "picture.svg", "recording.wav",
    ]  # fmt: skip
    diff = files.read("config.diff").decode()
    assert '+contexts: {demo: {greeting: "Good morning"}}' in diff
    assert "very-secret" not in diff
    assert files.read("recording.wav").endswith(samples)
    assert files.read("ledger.jsonl") == (room.calls_folder / room.on_record[0].file).read_bytes()


# Views.


async def test_views_are_of_one_person_or_shared_and_give_no_hint_of_what_one_may_not_see(
    room: Room,
) -> None:
    anna = everything(room)
    room.add("bert", Role.VIEWER, scope=("demo",))
    bert = room.browser("bert")
    for name, filters, shared in (
        ("failed", {"outcome": ["failed"]}, True),
        ("own", {"outcome": ["failed"]}, False),
        ("number", {"number": ["+4533110011"]}, True),
        ("sales", {"context": ["sales"]}, True),
    ):
        body = {"name": name, "filters": filters, "shared": shared, "columns": ["started_at"]}
        assert (await anna.ask("PUT", f"/views/{name}", body)).status_code == 200
    assert len((await anna.get("/views")).json()["views"]) == 4
    assert [view["id"] for view in (await bert.get("/views")).json()["views"]] == ["failed"]
    taken = await bert.ask("PUT", "/views/own", {"name": "mine"})
    assert (taken.status_code, code(taken)) == (404, "not_there")
    assert (await bert.ask("DELETE", "/views/failed")).status_code == 404
    assert (await anna.ask("DELETE", "/views/failed")).status_code == 200
    assert (await bert.get("/views")).json() == {"views": []}
    for wrong in ({"filters": {"colour": ["red"]}}, {"columns": ["colour"]}):
        answer = await anna.ask("PUT", "/views/x", {"name": "x", **wrong})
        assert (answer.status_code, code(answer)) == (422, "invalid")


# Faults.


async def test_without_an_index_the_answer_says_what_to_switch_on(room: Room) -> None:
    room.has_history = False
    anna = everything(room)
    starting = await anna.get("/calls")
    assert (starting.status_code, code(starting)) in ((503, "index_unavailable"), (409, "no_index"))
    off = await anna.get("/calls/call-demo")
    assert (off.status_code, code(off)) == (409, "no_index")
    assert "calls.index.enabled: true" in off.json()["error"]["message"]


async def test_a_damaged_index_is_made_anew_and_the_answer_says_when_to_come_again(
    room: Room,
) -> None:
    room.on_record = [Told(f"c{number}", context="demo") for number in range(300)]
    anna = everything(room)
    await anna.get("/calls")
    assert room.keeper is not None
    index = room.calls_folder / "history" / "index.sqlite3"
    room.keeper.store.close()  # so that nothing of it is in memory
    for path in index.parent.glob("index.sqlite3-*"):
        path.unlink()
    index.write_bytes(b"nonsense" * 1000)
    broken = await anna.get("/calls")
    assert (broken.status_code, code(broken)) == (503, "index_unavailable")
    assert int(broken.headers["retry-after"]) > 0
    room.keeper.catch_up()
    assert len(ids(await anna.get("/calls?limit=200"))) == 200
    assert (await anna.get("/calls/live")).status_code == 200


async def test_notes_that_do_not_fit_on_the_disk_are_refused_and_the_old_ones_stay(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    anna = everything(room)
    tags = {"revision": "", "tags": ["refund"]}
    with monkeypatch.context() as patched:
        patched.setattr("cordboard.history.notes.private_files.replace", full)
        answer = await anna.ask("PUT", "/calls/call-demo/tags", tags)
    assert (answer.status_code, code(answer)) == (503, "store_unavailable")
    assert "No space left" in answer.json()["error"]["message"]
    assert (await anna.ask("PUT", "/calls/call-demo/tags", tags)).status_code == 200


async def test_a_call_whose_ledger_was_deleted_by_hand_is_gone(room: Room) -> None:
    anna = everything(room)
    await anna.get("/calls")
    (room.calls_folder / room.on_record[0].file).unlink()
    for path in ("", "/picture", "/ledger", "/bundle"):
        answer = await anna.get(f"/calls/call-demo{path}")
        assert (answer.status_code, code(answer)) == (404, "not_there")


async def test_a_key_needs_both_permissions_for_a_ledger(room: Room) -> None:
    everything(room)
    program = room.program("anna", {Permission.PERSONAL})
    assert (await program.get("/calls/call-demo/ledger")).status_code == 403
    program = room.program("anna", {Permission.PERSONAL, Permission.CALLS_READ})
    assert (await program.get("/calls/call-demo/ledger")).status_code == 200


async def test_a_scenario_is_made_by_those_who_may_test_and_see_words(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("vera", Role.VIEWER, (Grant.PERSONAL,))
    room.add("paul", Role.OPERATOR, (Grant.PERSONAL,), ("demo",))
    for name in ("otto", "vera"):
        answer = await room.browser(name).post("/calls/call-demo/scenario", {"name": "a-table"})
        assert (answer.status_code, code(answer)) == (403, "forbidden"), name
    paul = room.browser("paul")
    outside = await paul.post("/calls/call-sales/scenario", {"name": "a-table"})
    assert outside.status_code == 404
    for wrong in ("../x", "A", "", "x" * 65):
        assert (await paul.post("/calls/call-demo/scenario", {"name": wrong})).status_code == 422
    made = (await paul.post("/calls/call-demo/scenario", {"name": "a-table"})).json()
    path = room.services.scenarios / "a-table.yaml"
    assert (made["file"], made["text"]) == (str(path), path.read_text())
    assert "says: a table for two please" in made["text"]
    again = await paul.post("/calls/call-demo/scenario", {"name": "a-table"})
    assert (again.status_code, code(again)) == (409, "refused")
    entries = [each for each in room.entries() if each["action"] == "call.scenario"]
    assert (entries[-2]["result"], entries[-2]["detail"]) == ("done", {"name": "a-table"})
    assert "table for two" not in room.audit.path.read_text()
