"""The configuration over HTTP: holes, checks, edits, publishing, versions, drafts, secrets."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.history.ledgers import Told

from cordboard import private_files
from cordboard.accounts.rights import Grant, Role
from cordboard.admin.services import MOST_CHECKS
from cordboard.config import drafts
from cordboard.config.files import digest_of
from cordboard.config.versions import Author
from cordboard.errors import VersionsUnusable
from cordboard_testkit.patience import until

from .conftest import Browser, Room, code

TOKEN = "hunter2-literal-token"
TEXT = f"""\
# The front desk.
contexts:
  demo: {{greeting: Good morning.}}   # before noon
  sales:
    greeting: Hello.
    prompt: "${{PROMPT:-none}}"
admin: {{token: {TOKEN}}}
health: {{port: 15000}}
"""


@pytest.fixture
def anna(room: Room) -> Browser:
    """An admin with all grants, whose file is `TEXT`."""
    room.use(TEXT)
    room.add("anna", Role.ADMIN, tuple(Grant))
    return room.browser("anna", elevated=True)


def path_of(room: Room) -> Path:
    return room.fake.source.path


def digest(room: Room) -> str:
    return digest_of(path_of(room).read_bytes())


async def put(browser: Browser, path: str, body: Any) -> httpx2.Response:
    return await browser.ask("PUT", path, body)


def place(text: str, marked: str) -> list[int]:
    """Line, column, end line and end column of a part of one line."""
    line = next(n for n, each in enumerate(text.splitlines(), 1) if marked in each)
    column = text.splitlines()[line - 1].index(marked) + 1
    return [line, column, line, column + len(marked)]


# The text.


async def test_the_file_is_shown_with_holes_values_and_places(room: Room, anna: Browser) -> None:
    answer = await anna.get("/config")
    shown = answer.json()
    assert TOKEN not in answer.text
    assert shown["text"] == TEXT.replace(TOKEN, "«secret:1»")
    assert (shown["digest"], shown["in_order"], shown["problems"]) == (digest(room), True, [])
    assert (shown["writable"], shown["reason"], shown["generation"]) == (True, "", 3)
    assert shown["tree"]["admin"] == {"token": "«secret:1»"}
    assert shown["tree"]["contexts"]["sales"]["prompt"] == "${PROMPT:-none}"
    assert shown["places"]["contexts.demo.greeting"] == place(TEXT, "greeting: Good morning.")
    assert shown["places"]["admin.token"] == place(shown["text"], "token: «secret:1»")


async def test_a_known_answer_is_not_sent_again_until_something_changes(
    room: Room, anna: Browser
) -> None:
    secret = path_of(room).with_name("name.txt")
    secret.write_text("Erika")
    room.use(TEXT.replace("Hello.", "${file:name.txt}"))
    tag = (await anna.get("/config")).headers["etag"]
    same = await anna.get("/config", headers={"If-None-Match": tag})
    assert (same.status_code, same.content) == (304, b"")
    secret.unlink()
    other = await anna.get("/config", headers={"If-None-Match": tag})
    assert (other.status_code, other.json()["in_order"]) == (200, False)
    secret.write_text("Erika")
    room.add("vera", Role.VIEWER)
    path_of(room).chmod(0o444)
    mode = await anna.get("/config", headers={"If-None-Match": tag})
    assert (mode.status_code, mode.json()["writable"]) == (200, False)


async def test_a_file_that_is_not_yaml_is_not_shown_and_can_be_mended(
    room: Room, anna: Browser
) -> None:
    room.fake.versions.add(TEXT.encode(), Author())
    path_of(room).write_text(TEXT + "a: [\n")
    shown = (await anna.get("/config")).json()
    assert (shown["text"], shown["in_order"], TOKEN in str(shown)) == ("", False, False)
    assert shown["problems"][0]["line"] == 10
    version = digest_of(TEXT.encode())
    assert (await anna.post(f"/config/versions/{version[:6]}/restore", {})).status_code == 200
    assert path_of(room).read_text() == TEXT


async def test_a_scope_of_some_contexts_shows_their_values_alone(room: Room) -> None:
    room.use(TEXT + "routes: {'100': demo}\n")
    room.add("paula", Role.VIEWER, (), ("demo",))
    paula = room.browser("paula")
    answer = await paula.get("/config")
    shown = answer.json()
    assert shown["tree"] == {"contexts": {"demo": {"greeting": "Good morning."}}}
    assert (shown["text"], shown["digest"], shown["places"]) == ("", "", {})
    assert "sales" not in answer.text
    assert "scope" in shown["reason"]
    refused = await paula.get("/config/versions")
    assert (refused.status_code, "scope of all contexts" in refused.text) == (403, True)
    path_of(room).write_text(TEXT.replace("Hello.", "{typo}"))
    assert (await paula.get("/config")).json()["problems"] == []
    path_of(room).write_text(TEXT.replace("Good morning.", '"{typo}"'))
    (problem,) = (await paula.get("/config")).json()["problems"]
    assert problem["key"] == "contexts.demo.greeting"


async def test_the_schema_says_all_that_a_form_needs(anna: Browser) -> None:
    answer = await anna.get("/config/schema")
    known = answer.json()["$defs"]
    context = known["Context"]["properties"]
    assert context["provider"]["reference"] == "providers"
    assert context["on_failure"]["reference"] == "destinations"
    assert "withheld" in context["greeting"]["placeholders"]["caller_number"]
    assert context["pre_call_timeout_ms"]["unit"] == "ms"
    assert context["pre_call_timeout_ms"]["expected"] == "a whole number from 50 to 30000"
    assert [each["order"] for each in context.values()] == [*range(len(context))]
    assert known["Config"]["properties"]["routes"]["reference"] == "contexts"
    assert known["Admin"]["properties"]["token"]["secret"] is True
    again = await anna.get("/config/schema", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


async def test_the_uses_of_each_context_are_those_in_force_and_within_the_scope(
    room: Room,
) -> None:
    more = "routes: {'100': sales}\ntools: {transfer: {destinations: {desk: {target: '2'}}}}\n"
    room.use(TEXT.replace("greeting: Hello.", "tools: [transfer]") + more)
    room.add("paula", Role.VIEWER, (), ("sales",))
    now = dt.datetime.now(dt.UTC)
    old = Told("old", now - dt.timedelta(days=40), context="sales")
    room.on_record = [old, Told("one", now, context="sales"), Told("two", now, context="demo")]
    uses = (await room.browser("paula").get("/config/uses")).json()
    assert uses == {
        "contexts": [
            {
                "context": "sales",
                "providers": ["local"],
                "tools": ["transfer"],
                "numbers": ["100"],
                "is_default": False,
                "recent_calls": 1,
            }
        ],
        "destinations": ["desk"],
        "takeovers": [],
    }
    room.services.history = lambda: None
    (sales,) = (await room.browser("paula").get("/config/uses")).json()["contexts"]
    assert sales["recent_calls"] is None, "without an index it is not known"


async def test_the_calls_of_more_contexts_than_an_answer_has_are_known(room: Room) -> None:
    names = [f"c{number}" for number in range(60)]
    room.use("contexts:\n" + "".join(f"  {name}: {{}}\n" for name in names))
    room.add("vera", Role.VIEWER)
    now = dt.datetime.now(dt.UTC)
    room.on_record = [Told(name, now, context=name) for name in names]
    uses = (await room.browser("vera").get("/config/uses")).json()
    assert {each["recent_calls"] for each in uses["contexts"]} == {1}


# Drafts are checked and edited.


async def test_the_holes_of_a_draft_stand_for_the_secrets(room: Room, anna: Browser) -> None:
    text = (await anna.get("/config")).json()["text"]
    draft = text.replace("Hello.", "Good day.").replace("15000", "far")
    checked = (await anna.post("/config/check", {"text": draft})).json()
    (problem,) = checked["problems"]
    keys = ("line", "column", "end_line", "end_column")
    assert [problem[key] for key in keys] == place(draft, "port: far")
    checked = (await anna.post("/config/check", {"text": draft.replace("far", "15000")})).json()
    assert checked["changes"] == [{"key": "contexts.sales.greeting", "takes_effect": "now"}]
    assert checked["tree"]["admin"]["token"] == "«secret:1»"


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("«secret:1»", "«secret:2»", "admin.token", "is not a secret of this file"),
        ("«secret:1»", f"«secret:{10**30}»", "admin.token", "is not a secret of this file"),
        ("Hello.", "«secret:1»", "admin.token", "appears twice"),
        ("{token: «secret:1»}", '{} # "', "", ""),
    ],
)
async def test_holes_that_are_invented_or_copied_are_problems_with_their_place(
    anna: Browser, old: str, new: str, key: str, words: str
) -> None:
    text = (await anna.get("/config")).json()["text"].replace(old, new)
    answer = await anna.post("/config/check", {"text": text})
    problems = answer.json()["problems"]
    assert [(each["key"], words in each["message"]) for each in problems] == [(key, True)] * bool(
        key
    )
    assert TOKEN not in answer.text


async def test_a_secret_does_not_come_out_by_a_hole_at_another_place(
    room: Room, anna: Browser
) -> None:
    text = (await anna.get("/config")).json()["text"].replace("admin: {token: «secret:1»}\n", "")
    spoken = text.replace("Hello.", "«secret:1»")
    checked = await anna.post("/config/check", {"text": spoken})
    (problem,) = checked.json()["problems"]
    assert (checked.json()["in_order"], "would be visible" in problem["message"]) == (False, True)
    quoted = text + "default_provider: «secret:1»\n"
    for path, body in (
        ("/config/check", {"text": quoted}),
        ("/config/diff", {"text": spoken}),
        ("/config/edit", {"text": quoted, "edits": [{"op": "remove", "path": ["health"]}]}),
    ):
        answer = await anna.post(path, body)
        assert TOKEN not in answer.text, path
    refused = await put(anna, "/config", {"text": spoken, "base": digest(room)})
    assert (refused.status_code, code(refused)) == (422, "edit_refused")
    assert path_of(room).read_text() == TEXT


LONG = "plum-" + "0123456789abcdef" * 30
GUESS = (
    "tools: {t: {kind: http, url: 'https://a.example/', parameters: {n: {type: '${file:key}'}}}}\n"
)


async def test_a_problem_does_not_quote_the_beginning_of_a_long_secret(
    room: Room, anna: Browser
) -> None:
    path_of(room).with_name("key").write_text(LONG + '"\n\x1b\u00fc end')
    python = GUESS.replace("http, url: 'https://a.example/'", "python, function: 'm:f'")
    for more in (GUESS, python, GUESS.replace("${file:key}", "${SHOP_KEY}")):
        room.fake.source = room.services.source = replace(
            room.fake.source, environ={"SHOP_KEY": LONG}
        )
        room.services.editing = room.editing()
        answer = await anna.post("/config/check", {"text": TEXT + more})
        assert not answer.json()["in_order"]
        assert LONG[:12] not in answer.text


async def test_who_may_not_publish_learns_nothing_of_values_that_the_file_does_not_read(
    room: Room,
) -> None:
    text = TEXT + "asterisk: {password: '${ARI_PASSWORD}', url: 'http://127.0.0.1:8088'}\n"
    room.use(text, ARI_PASSWORD="orbit-41", CODE="demo")
    for name in ("otto", "otto-0", "otto-1", "otto-2", "otto-3"):  # checks have a pace
        room.add(name, Role.OPERATOR)
    room.add("paula", Role.OPERATOR, (Grant.PUBLISH,))
    otto, paula = room.browser("otto"), room.browser("paula")
    path_of(room).with_name("key").write_text("string")
    shown = (await otto.get("/config")).json()["text"]
    drafts = (
        shown + "default_context: ${CODE}\n",
        shown + "default_context: ${CODE:-x}\n",
        shown + GUESS,
        shown.replace("greeting: Good", "prompt: «secret:1», greeting: Good"),
    )
    for number, draft in enumerate(drafts):
        answers, own = [], room.browser(f"otto-{number}")
        for value in ("demo", "other"):
            room.use(text, ARI_PASSWORD="orbit-41", CODE=value)
            checked = (await own.post("/config/check", {"text": draft})).json()
            assert not checked["in_order"]
            answers.append(checked)
        assert answers[0] == answers[1]
        (problem,) = answers[0]["problems"]
        assert ("config.publish" in problem["message"], problem["line"] is not None) == (True, True)
        edit = {"op": "set", "path": ["contexts", "demo", "greeting"], "value": "Hi."}
        edited = await own.post("/config/edit", {"text": draft, "edits": [edit]})
        assert edited.status_code == 200, edited.text
        assert [each["key"] for each in edited.json()["problems"]] == [problem["key"]]
    room.use(text, ARI_PASSWORD="orbit-41", CODE="demo")
    named = {"text": shown + "default_context: ${CODE}\n"}
    assert (await paula.post("/config/check", named)).json()["in_order"]
    harmless = shown.replace("Hello.", "Good day.").replace("15000", "15002")
    assert (await otto.post("/config/check", {"text": harmless})).json()["in_order"]


async def test_a_check_tells_who_may_not_publish_nothing_about_a_guess_at_its_own_place(
    room: Room,
) -> None:
    text = TEXT.replace("Hello.", "'${file:pin.txt}'")
    pin = path_of(room).with_name("pin.txt")
    pin.write_text("gate-1234")
    room.use(text)
    room.add("paula", Role.OPERATOR, (Grant.PUBLISH,))
    for name in ("otto", "olga"):  # checks have a pace
        room.add(name, Role.OPERATOR)
    for name, draft in {
        "otto": text.replace("'${file:pin.txt}'", "gate-1234"),
        "olga": text + "default_context: gate-1234\n",
    }.items():
        answers = []
        for value in ("gate-1234", "gate-9999"):
            pin.write_text(value)
            room.use(text)
            answers.append((await room.browser(name).post("/config/check", {"text": draft})).json())
        assert answers[0] == answers[1]
        assert "gate-9999" not in str(answers)
        changed = [each["key"] for each in answers[0]["changes"]]
        assert ("contexts.sales.greeting" in changed) == (name == "otto")
    pin.write_text("gate-1234")
    room.use(text)
    same = {"text": text.replace("'${file:pin.txt}'", "gate-1234")}
    assert (await room.browser("paula").post("/config/check", same)).json()["changes"] == []


async def test_a_difference_tells_who_may_not_publish_nothing_about_a_guess(room: Room) -> None:
    text = TEXT + "asterisk: {password: '${ARI_PASSWORD}', url: 'http://127.0.0.1:8088'}\n"
    room.use(text, ARI_PASSWORD="orbit-41", CODE="4711-0815")
    room.add("otto", Role.OPERATOR)
    room.add("sally", Role.OPERATOR, (), ("sales",))
    otto = room.browser("otto")
    path_of(room).with_name("pin.txt").write_text("gate-1234")
    shown = (await otto.get("/config")).json()["text"]
    guesses = ["# gate-1234", "# gate-9999", "# 4711-0815", "# orbit-41", f"# {TOKEN}"]
    draft = shown.replace("Hello.", "'${file:pin.txt} ${CODE}'") + "\n".join(guesses) + "\n"
    answer = await otto.post("/config/diff", {"text": draft})
    lines = answer.json()["lines"]
    assert [line[1:] for line in lines if line.startswith("+#")] == guesses
    assert "+    greeting: '${file:pin.txt} ${CODE}'" in lines
    assert not [line for line in lines if line.startswith("-") and TOKEN in line]
    unchanged = await otto.post("/config/diff", {"text": shown})
    assert unchanged.json()["lines"] == []
    for value in ("4711-0815", "4711-0816"):  # a problem that quotes the author says no more
        wrong = {"text": shown + f"default_context: {value}\n"}
        (problem,) = (await otto.post("/config/check", wrong)).json()["problems"]
        assert value in problem["message"]
    assert (await room.browser("sally").post("/config/diff", {"text": ""})).status_code == 403


async def test_secrets_that_are_found_once_the_file_can_be_loaded_become_holes(
    room: Room, anna: Browser
) -> None:
    path = path_of(room)
    path.write_text(TEXT.replace("Hello.", "${file:name.txt}") + f"# was: {TOKEN}\n")
    before = (await anna.get("/config")).json()
    assert not before["in_order"]
    path.with_name("name.txt").write_text("Erika")
    after = (await anna.get("/config")).json()
    assert (after["in_order"], TOKEN in after["text"]) == (True, False)
    draft = {"text": before["text"], "base": before["digest"]}
    assert (await anna.post("/config/check", draft)).json()["in_order"], "its holes still stand"


async def test_checks_that_wait_are_limited_so_that_the_port_goes_on(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    otto = room.browser("otto")
    await room.services._checking_config.acquire()
    waiting = [asyncio.create_task(otto.get("/config")) for _ in range(MOST_CHECKS)]
    await until(lambda: room.services._checks == MOST_CHECKS, "the queue")
    refused = await otto.post("/config/check", {"text": TEXT})
    assert (refused.status_code, code(refused)) == (503, "busy")
    assert refused.headers["retry-after"]
    room.services._checking_config.release()
    assert {(await each).status_code for each in waiting} == {200}
    assert (await otto.post("/config/check", {"text": TEXT})).status_code == 200


async def test_edits_of_every_kind_leave_the_rest_as_it_is(room: Room, anna: Browser) -> None:
    more = "routes: {'100': demo}\naudiosocket: {allow_from: [localhost, 10.0.0.5]}\n"
    room.use(TEXT + more)
    text = (await anna.get("/config")).json()["text"]
    wanted = [
        {"op": "set", "path": ["contexts", "demo", "greeting"], "value": "Good day."},
        {"op": "rename", "path": ["contexts", "sales"], "key": "shop"},
        {"op": "insert", "path": ["routes", "200"], "value": "shop", "before": "100"},
        {"op": "move", "path": ["audiosocket", "allow_from", 0], "index": 1},
        {"op": "remove", "path": ["health"]},
    ]
    edited = (await anna.post("/config/edit", {"text": text, "edits": wanted})).json()
    assert edited["text"] == (
        text.replace("Good morning.", "Good day.")
        .replace("  sales:", "  shop:")
        .replace("{'100'", "{200: shop, '100'")
        .replace("[localhost, 10.0.0.5]", "[10.0.0.5, localhost]")
        .replace("health: {port: 15000}\n", "")
    )
    assert edited["touched"] == [[3, 4], [8, 9]]
    impossible = [{"op": "remove", "path": ["nowhere"]}]
    refused = await anna.post("/config/edit", {"text": text, "edits": impossible})
    assert (refused.status_code, code(refused)) == (422, "edit_refused")
    assert path_of(room).read_text() == TEXT + more


async def test_a_text_that_is_no_yaml_has_no_edits_and_no_differences(anna: Browser) -> None:
    bad = "contexts: [\n"
    remove = {"edits": [{"op": "remove", "path": ["a"]}]}
    for path, more in (("/config/edit", remove), ("/config/diff", {})):
        answer = await anna.post(path, {"text": bad, **more})
        assert (answer.status_code, code(answer)) == (422, "not_usable"), path
        assert answer.json()["error"]["at"][0]["line"] is not None


async def test_bodies_have_a_size(room: Room, anna: Browser) -> None:
    large = TEXT + "#" * (1024 * 1024)
    for method, path in (("POST", "/config/check"), ("PUT", "/config"), ("PUT", "/drafts/mine")):
        body = {"text": large} | ({"base": digest(room)} if method == "PUT" else {})
        answer = await anna.ask(method, path, body)
        assert (answer.status_code, code(answer)) == (422, "invalid"), path
        twice = await anna.ask(method, path, {"text": large * 2})
        assert (twice.status_code, code(twice)) == (413, "too_large"), path
    assert path_of(room).read_text() == TEXT


# Publishing.


async def test_a_draft_is_published_with_its_secrets_and_the_audit_has_both_digests(
    room: Room, anna: Browser
) -> None:
    before, text = digest(room), (await anna.get("/config")).json()["text"]
    draft = {"text": text.replace("Hello.", "Good day."), "base": before, "comment": "polite"}
    answer = await put(anna, "/config", draft)
    published = answer.json()
    assert path_of(room).read_text() == TEXT.replace("Hello.", "Good day.")
    assert (published["applied"], published["version"]) == (True, digest(room))
    assert published["on_the_phone"] == [
        {"context": "demo", "calls": 1},
        {"context": "sales", "calls": 1},
    ]
    (entry,) = room.entries()
    assert (entry["action"], entry["result"]) == ("config.publish", "done")
    assert entry["detail"] == {"before": before, "after": digest(room), "why": "polite"}
    versions = (await anna.get("/config/versions")).json()["versions"]
    assert [(each["who"], each["why"], each["source"]) for each in versions] == [
        ("anna", "polite", "page"),
        ("", "", "file"),
    ]
    assert TOKEN not in room.audit.path.read_text() + answer.text


async def test_of_two_who_publish_at_once_the_second_gets_both_changes(
    room: Room, anna: Browser
) -> None:
    base, text = digest(room), (await anna.get("/config")).json()["text"]
    mine = {"text": text.replace("Hello.", "Good day."), "base": base}
    other = {"text": text.replace("before noon", "until noon"), "base": base}
    answers = await asyncio.gather(put(anna, "/config", mine), put(anna, "/config", other))
    late = next(each for each in answers if each.status_code == 409)
    assert sorted(each.status_code for each in answers) == [200, 409]
    error = late.json()["error"]
    assert (error["code"], error["digest"], error["conflicts"]) == ("conflict", digest(room), [])
    assert TOKEN not in late.text
    again = await put(anna, "/config", {"text": error["merged"], "base": error["digest"]})
    assert again.status_code == 200
    expected = TEXT.replace("Hello.", "Good day.").replace("before noon", "until noon")
    assert path_of(room).read_text() == expected
    clash = await put(anna, "/config", {"text": text.replace("Hello.", "Hi."), "base": base})
    conflicts = clash.json()["error"]["conflicts"]
    assert (clash.json()["error"]["merged"], conflicts[0]["line"]) == (None, 5)
    kept = clash.json()["error"]["with_ours"].splitlines(keepends=True)
    assert kept[conflicts[0]["at"] - 1] == conflicts[0]["ours"]
    results = [entry["result"] for entry in room.entries()]
    assert sorted(results) == ["done"] * 4 + ["failed"] * 2


async def test_a_text_that_no_engine_could_run_with_is_not_published(
    room: Room, anna: Browser
) -> None:
    text = TEXT.replace("greeting: Hello.", "greting: Hello.")
    refused = await put(anna, "/config", {"text": text, "base": digest(room)})
    assert (refused.status_code, code(refused)) == (422, "not_usable")
    (at,) = refused.json()["error"]["at"]
    assert (at["key"], at["line"], at["column"]) == ("contexts.sales.greting", 5, 5)
    assert path_of(room).read_text() == TEXT
    assert [entry["result"] for entry in room.entries()] == ["done", "failed"]


async def test_the_values_of_a_problem_are_not_shown_to_who_publishes(
    room: Room, anna: Browser
) -> None:
    room.use(TEXT, DATABASE="postgres://shop:hunter3@db {hunter3}")
    text = TEXT.replace("Hello.", "${DATABASE}")
    refused = await put(anna, "/config", {"text": text, "base": digest(room)})
    assert (refused.status_code, "hunter3" in refused.text) == (422, False)
    assert "hunter3" not in room.audit.path.read_text()


async def test_holes_keep_their_secrets_while_a_draft_is_open(room: Room, anna: Browser) -> None:
    """A named file that is gone makes the text unloadable, and secrets are then found by names."""
    name = path_of(room).with_name("name.txt")
    name.write_text("Erika")
    server = "{transport: http, url: 'http://127.0.0.1:9/', headers: {A-Shop: two words}}"
    text = f"mcp: {{servers: {{shop: {server}}}}}\n" + TEXT.replace("Hello.", "${file:name.txt}")
    base = room.use(text)
    shown = (await anna.get("/config")).json()["text"]
    name.unlink()
    assert (await anna.get("/config")).json()["text"] == shown
    name.write_text("Erika")
    draft = shown.replace("Good morning.", "Good day.")
    assert (await put(anna, "/config", {"text": draft, "base": base})).status_code == 200
    assert path_of(room).read_text() == text.replace("Good morning.", "Good day.")


@pytest.mark.parametrize("off", [True, False], ids=["off", "read-only"])
async def test_a_file_that_is_changed_elsewhere_gets_a_patch(
    room: Room, anna: Browser, tmp_path: Path, off: bool
) -> None:
    ended = TEXT.removesuffix("\n").replace("Hello.\n", "Hello.\r\n")
    path_of(room).write_bytes(ended.encode())
    room.services.editing = room.editing(writes=not off)
    if not off:
        path_of(room).chmod(0o444)
    shown = (await anna.get("/config")).json()
    assert (shown["writable"], bool(shown["reason"])) == (False, True)
    new = shown["text"].replace("Good morning.", "Good day.") + "\ncalls: {max_calls: 9}"
    answer = await put(anna, "/config", {"text": new, "base": digest(room)})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "read_only")
    assert error["patch"] == "", "its lines stand beside a secret"
    small = shown["text"].replace("# The front", "# A front")
    answer = await put(anna, "/config", {"text": small, "base": digest(room)})
    patch = answer.json()["error"]["patch"]
    # Whoever may publish has it before a refusal; others do not.
    asked = {"text": small, "base": digest(room)}
    assert (await anna.post("/config/diff", asked)).json()["patch"] == patch
    room.add("otto", Role.OPERATOR)
    assert (await room.browser("otto").post("/config/diff", asked)).json()["patch"] == ""
    assert path_of(room).read_bytes() == ended.encode()
    repository = tmp_path / "repository"
    (repository / "deep").mkdir(parents=True)
    target = repository / "deep" / path_of(room).name
    target.write_bytes(ended.encode())
    git = ["git", "-C", str(repository / "deep")]
    await asyncio.to_thread(subprocess.run, [*git, "init", "-q", str(repository)], check=True)
    apply = [*git, "apply", "-"]
    await asyncio.to_thread(subprocess.run, apply, input=patch.encode(), check=True)
    assert target.read_bytes() == ended.replace("# The front", "# A front").encode()
    path_of(room).chmod(0o644)


async def test_an_engine_that_does_not_take_the_text_says_so(room: Room, anna: Browser) -> None:
    room.fake.failure = None
    room.fake.reloaded = type(room.fake.reloaded)(False, 2)
    text = TEXT.replace("Hello.", "Hi.")
    published = (await put(anna, "/config", {"text": text, "base": digest(room)})).json()
    assert (published["applied"], published["version"]) == (False, digest(room))


async def test_versions_that_cannot_be_kept_stop_a_publication(
    room: Room, anna: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(content: bytes) -> str:
        raise VersionsUnusable("No space left on device")

    monkeypatch.setattr(room.fake.versions, "keep", full)
    text = TEXT.replace("Hello.", "Hi.")
    refused = await put(anna, "/config", {"text": text, "base": digest(room)})
    assert (refused.status_code, "No space" in refused.text) == (409, True)
    assert path_of(room).read_text() == TEXT
    assert [entry["result"] for entry in room.entries()] == ["done", "failed"]


# Versions.


async def test_versions_are_paged_and_compared_and_restored(room: Room, anna: Browser) -> None:
    digests = []
    for number in range(5):
        text = TEXT.replace("Hello.", f"Hello {number}.")
        answer = await put(anna, "/config", {"text": text, "base": digest(room)})
        digests.append(answer.json()["version"])
    first = (await anna.get("/config/versions?limit=4")).json()
    rest = (await anna.get(f"/config/versions?limit=4&cursor={first['next']}")).json()
    listed = [each["digest"] for each in first["versions"] + rest["versions"]]
    assert listed == [*digests[::-1], digest_of(TEXT.encode())]
    assert (rest["next"], first["versions"][0]["in_file"]) == ("", True)
    shown = await anna.get(f"/config/versions/{digests[1]}")
    assert "Hello 1." in shown.json()["text"]
    assert TOKEN not in shown.text
    compared = await anna.get(f"/config/versions/{digests[0]}/diff?to={digests[1]}")
    changed = [line for line in compared.json()["lines"] if line[:1] in "+-"]
    assert changed[2:] == ["-    greeting: Hello 0.", "+    greeting: Hello 1."]
    restored = (await anna.post(f"/config/versions/{digests[1][:8]}/restore", {})).json()
    assert (restored["version"], digest(room)) == (digests[1], digests[1])
    newest = (await anna.get("/config/versions?limit=1")).json()["versions"][0]
    assert (newest["source"], newest["why"]) == ("restore", f"back to {digests[1][:12]}")
    for bad in ("ffffffff", "zz", digests[0][:3]):
        assert (await anna.get(f"/config/versions/{bad}")).status_code == 404


async def test_a_version_whose_file_is_gone_is_not_restored(room: Room, anna: Browser) -> None:
    secret = path_of(room).with_name("name.txt")
    secret.write_text("Erika")
    old = room.use(TEXT.replace("Hello.", "${file:name.txt}"))
    await put(anna, "/config", {"text": TEXT, "base": old})
    secret.unlink()
    refused = await anna.post(f"/config/versions/{old}/restore", {})
    assert (refused.status_code, code(refused)) == (422, "not_usable")
    assert refused.json()["error"]["at"][0]["key"] == "contexts.sales.greeting"
    assert path_of(room).read_text() == TEXT
    object_of = room.audit.path.parent / "versions" / "objects" / f"{old}.yaml"
    object_of.write_text("damaged")
    assert (await anna.post(f"/config/versions/{old}/restore", {})).status_code == 404


# Saved drafts.


async def test_a_draft_is_kept_for_its_author_alone_and_outlives_a_restart(
    room: Room, anna: Browser
) -> None:
    text = "contexts: [not yet\n# «secret:1»"
    saved = await put(anna, "/drafts/front-desk", {"text": text, "base": digest(room)})
    assert (saved.status_code, saved.json()["stale"]) == (200, False)
    room.services.editing = room.editing()
    assert (await anna.get("/drafts/front-desk")).json()["text"] == text
    room.add("otto", Role.OPERATOR)
    otto = room.browser("otto")
    assert (await otto.get("/drafts/front-desk")).status_code == 404
    assert (await otto.get("/drafts")).json()["drafts"] == []
    assert (await otto.ask("DELETE", "/drafts/front-desk")).status_code == 404
    folder = room.audit.path.parent / "drafts"
    (file,) = folder.glob("*/*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    path_of(room).write_text(TEXT + "#\n")
    assert (await anna.get("/drafts")).json()["drafts"][0]["stale"] is True
    assert (await anna.ask("DELETE", "/drafts/front-desk")).status_code == 200
    assert (await anna.get("/drafts")).json()["drafts"] == []


async def test_drafts_are_bounded_and_expire(
    room: Room, anna: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "MOST_DRAFTS", 3)
    body = {"text": "a", "base": digest(room)}
    for name in ("a", "b", "c", "c"):
        assert (await put(anna, f"/drafts/{name}", body)).status_code == 200
    refused = await put(anna, "/drafts/d", body)
    assert (refused.status_code, code(refused)) == (422, "draft_refused")
    for name in ("A", "..", "a" * 65, "%2e%2e%2fa"):
        assert (await put(anna, f"/drafts/{name}", body)).status_code in (404, 422), name
    folder = room.audit.path.parent / "drafts"
    for file in folder.glob("*/*"):
        os.utime(file, (room.clock.now, room.clock.now))
    room.clock.now += 31 * 86_400
    room.add("late", Role.OPERATOR)
    late = room.browser("late")
    assert (await put(late, "/drafts/d", body)).status_code == 200
    assert [file.name for file in folder.glob("*/*")] == ["d.json"]


async def test_a_full_disk_keeps_the_draft_as_it_was(
    room: Room, anna: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"text": "a", "base": digest(room)}
    await put(anna, "/drafts/mine", body)

    def full(path: Path, content: bytes, *, sync: bool = False) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private_files, "replace", full)
    refused = await put(anna, "/drafts/mine", body | {"text": "b"})
    assert (refused.status_code, code(refused)) == (503, "store_unavailable")
    assert (await anna.get("/drafts/mine")).json()["text"] == "a"


# Secrets.


async def test_secrets_are_listed_with_their_uses_and_never_shown(
    room: Room, anna: Browser
) -> None:
    text = TEXT.replace("Hello.", "${SHOP_KEY}${OTHER:-}").replace("none", "")
    room.use(text, SHOP_KEY="hunter3-environment", PROMPT="hunter4-prompt")
    value = "hunter5-stored"
    answers = [await put(anna, f"/secrets/{name}", {"value": value}) for name in ("OTHER", "SPARE")]
    answers.append(await put(anna, "/secrets/SHOP_KEY", {"value": value}))
    assert answers[-1].json()["shadowed"] is True
    answers.append(await anna.get("/secrets"))
    rows = {row["name"]: row for row in answers[-1].json()["secrets"]}
    key = "contexts.sales.greeting"
    assert {name: (row["state"], row["source"], row["used_by"]) for name, row in rows.items()} == {
        "OTHER": ("set", "stored", [key]),
        "PROMPT": ("set", "environment", ["contexts.sales.prompt"]),
        "SHOP_KEY": ("set", "environment", [key]),
        "SPARE": ("set", "stored", []),
    }
    assert rows["OTHER"]["fingerprint"] == rows["SPARE"]["fingerprint"] != ""
    assert rows["OTHER"]["fingerprint"] != rows["SHOP_KEY"]["fingerprint"]
    assert (rows["OTHER"]["set_by"], rows["PROMPT"]["set_by"]) == ("anna", "")
    answers.append(await anna.ask("DELETE", "/secrets/OTHER"))
    rows = {row["name"]: row for row in answers[-1].json()["secrets"]}
    assert (rows["OTHER"]["state"], rows["OTHER"]["source"]) == ("default", "")
    assert (await anna.ask("DELETE", "/secrets/OTHER")).status_code == 404
    shown = "".join(answer.text for answer in answers) + room.audit.path.read_text()
    assert "hunter" not in shown
    actions = [(entry["action"], entry["on"], entry["detail"]) for entry in room.entries()[:3]]
    assert actions == [
        ("secret.set", "OTHER", {}),
        ("secret.set", "SPARE", {}),
        ("secret.set", "SHOP_KEY", {}),
    ]


async def test_a_secret_that_cannot_be_stored_is_not_quoted(
    room: Room, anna: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, body, status in (
        ("/secrets/not-a-name", {"value": "hunter2"}, 422),
        ("/secrets/KEY", {"value": ""}, 422),
        ("/secrets/KEY", {"value": "hunter2\0"}, 409),
        ("/secrets/KEY", {"value": "hunter2" * 20_000}, 422),
        ("/secrets/KEY", {"value": {"x": "hunter2"}}, 422),
    ):
        answer = await put(anna, path, body)
        assert (answer.status_code, "hunter" in answer.text) == (status, False), body
    assert not (room.audit.path.parent / "secrets.env").exists()

    def full(path: Path, content: bytes, *, sync: bool = False) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private_files, "replace", full)
    answer = await put(anna, "/secrets/KEY", {"value": "hunter2"})
    assert (answer.status_code, "No space" in answer.text) == (409, True)
    assert "hunter" not in room.audit.path.read_text()


async def test_an_engine_without_a_file_says_so(room: Room, anna: Browser) -> None:
    room.services.editing = None
    for path in ("/config", "/config/versions", "/drafts", "/secrets"):
        answer = await anna.get(path)
        assert (answer.status_code, code(answer)) == (409, "no_file"), path
