"""Signing in and out, elevation, passwords, the second factor, keys, users."""

from __future__ import annotations

import json

import pytest

from cordboard.accounts import passwords
from cordboard.accounts.factors import code_at
from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role

from .conftest import GOOD, Browser, Room, code

OTHER = "quiet marble window 7"


def sign_in(name: str = "anna", password: str = GOOD, **more: str) -> dict[str, str]:
    return {"name": name, "password": password, **more}


async def test_without_users_the_page_says_which_command_makes_the_first(room: Room) -> None:
    me = (await room.browser().get("/session")).json()
    assert me["signed_in"] is False
    assert "cordboard users add" in me["advice"]
    assert (await room.browser().get("/calls/live")).status_code == 401


async def test_a_first_link_sets_the_password_signs_in_and_is_used_up(room: Room) -> None:
    room.accounts.add("anna", Role.ADMIN, (), EVERYWHERE)
    token = room.accounts.reset("anna")
    browser = room.browser()
    weak = await browser.post("/session/link", {"token": token, "password": "anna-anna-1"})
    assert (weak.status_code, code(weak)) == (422, "weak_password")
    used = await browser.post("/session/link", {"token": token, "password": GOOD})
    assert (used.status_code, used.json()["name"]) == (200, "anna")
    assert (await browser.get("/calls/live")).status_code == 200
    again = await room.browser().post("/session/link", {"token": token, "password": OTHER})
    assert (again.status_code, code(again)) == (401, "wrong")
    assert (await room.browser().post("/session", sign_in(password=OTHER))).status_code == 401
    assert (await room.browser().post("/session", sign_in())).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        sign_in(password=OTHER),
        sign_in(name="nobody"),
        sign_in(name="gone"),
        sign_in(name="invited"),
        sign_in(name="ANNA"),
    ],
)
async def test_a_wrong_name_and_a_wrong_password_have_the_same_answer(
    room: Room, wrong: dict[str, str]
) -> None:
    room.add("anna")
    room.add("gone", Role.VIEWER)
    room.accounts.change("gone", Role.VIEWER, (), EVERYWHERE, disabled=True)
    room.accounts.add("invited", Role.VIEWER, (), EVERYWHERE)
    browser = room.browser()
    answer = await browser.post("/session", wrong)
    assert (answer.status_code, browser.cookies) == (401, {})
    assert answer.json()["error"]["message"] == "name, password or code are wrong"
    (entry,) = room.entries()
    assert (entry["action"], entry["result"], entry["who"]) == (
        "session.begin",
        "refused",
        wrong["name"],
    )
    assert GOOD not in room.audit.path.read_text()
    assert OTHER not in room.audit.path.read_text()


async def test_a_session_ends_when_one_signs_out_and_its_cookie_is_worth_nothing(
    room: Room,
) -> None:
    room.add("anna")
    browser = room.browser()
    await browser.post("/session", sign_in())
    kept = dict(browser.cookies)
    assert (await browser.ask("DELETE", "/session")).status_code == 200
    assert browser.cookies == {}
    browser.cookies = kept
    assert (await browser.get("/calls/live")).status_code == 401
    assert [entry["action"] for entry in room.entries()] == ["session.begin", "session.end"]


async def test_signing_in_again_ends_the_session_before_and_gives_another_id(room: Room) -> None:
    """A cookie that an attacker has planted before does not become a session of the victim."""
    room.add("anna")
    browser = room.browser("anna")
    planted = dict(browser.cookies)
    await browser.post("/session", sign_in())
    assert browser.cookies != planted
    other = room.browser()
    other.cookies = planted
    assert (await other.get("/calls/live")).status_code == 401


async def test_dangerous_acts_need_the_password_again_for_ten_minutes(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    newcomer = {"name": "bert", "role": "viewer"}
    refused = await browser.post("/users", newcomer)
    assert (refused.status_code, code(refused)) == (403, "not_elevated")
    for proof in ({"password": OTHER}, {"code": "123456"}, {}):
        assert (await browser.post("/session/elevate", proof)).status_code == 403
    before = dict(browser.cookies)
    elevated = await browser.post("/session/elevate", {"password": GOOD})
    assert (elevated.status_code, elevated.json()["elevated"]) == (200, True)
    assert browser.cookies != before
    made = await browser.post("/users", newcomer)
    assert made.status_code == 200
    assert made.json()["link"].startswith("http://127.0.0.1:15001/#link=")
    room.clock.now += 601
    assert code(await browser.post("/users/bert/reset")) == "not_elevated"
    results = [(entry["action"], entry["result"]) for entry in room.entries()]
    assert [each["on"] for each in room.entries() if each["result"] == "done"] == ["", "bert"]
    assert results == [
        ("user.add", "refused"),
        *[("session.elevate", "refused")] * 3,
        ("session.elevate", "done"),
        ("user.add", "done"),
        ("user.reset", "refused"),
    ]
    assert made.json()["link"].partition("=")[2] not in room.audit.path.read_text()


async def test_a_second_factor_is_asked_for_once_it_is_confirmed(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna", elevated=True)
    secret = (await browser.post("/session/factor")).json()["secret"]
    wrong = await browser.post("/session/factor/confirm", {"code": "000000x"})
    assert wrong.status_code == 409
    first = code_at(secret, int(room.clock.now) // 30)
    confirmed = await browser.post("/session/factor/confirm", {"code": first})
    recovery = confirmed.json()["codes"]
    assert len(recovery) == 10
    room.clock.now += 120  # the bucket of sign-ins fills again
    second = code_at(secret, int(room.clock.now) // 30)
    for proof, status in (
        ({}, 401),
        ({"code": first}, 401),
        ({"code": second}, 200),
        ({"code": second}, 401),
        ({"code": recovery[0]}, 200),
    ):
        answer = await room.browser().post("/session", sign_in(**proof))
        assert answer.status_code == status, proof
    assert all(text not in room.audit.path.read_text() for text in (secret, *recovery))
    assert (await browser.ask("DELETE", "/session/factor")).status_code == 200
    room.clock.now += 60
    assert (await room.browser().post("/session", sign_in())).status_code == 200


async def test_a_new_password_needs_the_old_one_and_ends_other_sessions(room: Room) -> None:
    room.add("anna")
    here, there = room.browser("anna"), room.browser("anna")
    change = {"password": OTHER, "new": OTHER}
    assert (await here.ask("PUT", "/session/password", change)).status_code == 403
    change = {"password": GOOD, "new": "password1234"}
    assert code(await here.ask("PUT", "/session/password", change)) == "weak_password"
    change = {"password": GOOD, "new": OTHER}
    assert (await here.ask("PUT", "/session/password", change)).status_code == 200
    assert (await here.get("/calls/live")).status_code == 200
    assert (await there.get("/calls/live")).status_code == 401
    assert (await room.browser().post("/session", sign_in(password=OTHER))).status_code == 200


async def test_guesses_are_held_back_for_an_address_and_for_a_name_but_not_for_ever(
    room: Room,
) -> None:
    room.add("anna")
    for _ in range(5):
        answer = await room.browser(client="10.1.1.1").post("/session", sign_in(password=OTHER))
        assert answer.status_code == 401
    held = await room.browser(client="10.1.1.1").post("/session", sign_in(name="bert"))
    assert (held.status_code, code(held), held.headers["retry-after"]) == (429, "too_often", "12")
    elsewhere = await room.browser(client="10.2.2.2").post("/session", sign_in())
    assert elsewhere.status_code == 429, "many addresses guess one name"
    room.clock.now += 12
    assert (await room.browser(client="10.3.3.3").post("/session", sign_in())).status_code == 200


async def test_a_key_does_what_it_may_and_never_with_a_cookie(room: Room) -> None:
    room.add("anna", Role.OPERATOR)
    program = room.program("anna", {Permission.CALLS_READ}, ("demo",))
    live = await program.get("/calls/live")
    assert [call["call_id"] for call in live.json()["calls"]] == ["call-demo"]
    assert code(await program.post("/calls/call-demo/hangup")) == "forbidden"
    me = (await program.get("/session")).json()
    assert (me["permissions"], me["name"][:4]) == (["calls.read"], "key:")
    both = room.browser("anna", headers=program.headers)
    assert code(await both.get("/calls/live")) == "two_callers"
    for header in ("Bearer nonsense", "Basic YTpi", "Bearer", "nonsense"):
        wrong = Browser(room, headers={"Authorization": header})
        answer = await wrong.get("/calls/live")
        assert (answer.status_code, code(answer)) == (401, "bad_key")
        assert "Bearer" in answer.headers["www-authenticate"]


async def test_users_and_keys_are_managed_by_an_elevated_admin(room: Room) -> None:
    room.add("anna", grants=(Grant.LISTEN,))
    browser = room.browser("anna", elevated=True)
    for bad in (
        {"name": "Bert K", "role": "viewer"},
        {"name": "bert", "role": "owner"},
        {"name": "bert", "role": "viewer", "password": GOOD},
        {"name": "bert"},
    ):
        answer = await browser.post("/users", bad)
        assert (answer.status_code, code(answer)) == (422, "invalid")
        assert answer.json()["error"]["at"]
    bert = {"name": "bert", "role": "operator", "scope": ["sales"], "grants": ["personal"]}
    assert (await browser.post("/users", bert)).status_code == 200
    assert code(await browser.post("/users", bert)) == "refused"
    changed = {"role": "viewer", "disabled": True}
    assert (await browser.ask("PUT", "/users/bert", changed)).json()["disabled"] is True
    assert (await browser.ask("PUT", "/users/nobody", changed)).status_code == 404
    last = await browser.ask("PUT", "/users/anna", changed)
    assert (last.status_code, "last admin" in last.text) == (409, True)
    rows = (await browser.get("/users")).json()["users"]
    assert [(row["name"], row["role"], row["disabled"]) for row in rows] == [
        ("anna", "admin", False),
        ("bert", "viewer", True),
    ]
    wanted = {"label": "wallboard", "permissions": ["calls.read"], "days": 7}
    made = (await browser.post("/api-keys", wanted)).json()
    program = Browser(room, headers={"Authorization": f"Bearer {made['token']}"})
    assert (await program.get("/calls/live")).status_code == 200
    assert made["token"] not in (await browser.get("/api-keys")).text
    assert made["token"] not in room.audit.path.read_text()
    too_much = {"label": "x", "permissions": ["recordings.play"]}
    assert code(await browser.post("/api-keys", too_much)) == "refused"
    gone = await browser.ask("DELETE", f"/api-keys/{made['key']['id']}")
    assert gone.status_code == 200
    assert (await program.get("/calls/live")).status_code == 401


async def test_a_change_of_rights_holds_at_once(room: Room) -> None:
    room.add("anna")
    room.add("bert", Role.OPERATOR)
    bert = room.browser("bert")
    assert (await bert.post("/mcp/atis/restart")).status_code == 200
    room.accounts.change("bert", Role.VIEWER, (), EVERYWHERE, disabled=False)
    assert (await bert.post("/mcp/atis/restart")).status_code == 403
    room.accounts.change("bert", Role.VIEWER, (), EVERYWHERE, disabled=True)
    assert (await bert.get("/calls/live")).status_code == 401


async def test_sessions_are_listed_and_ended_by_others(room: Room) -> None:
    room.add("anna")
    room.add("bert", Role.VIEWER)
    anna, bert = room.browser("anna"), room.browser("bert")
    rows = (await anna.get("/sessions")).json()["sessions"]
    assert {(row["user"], row["yours"]) for row in rows} == {("anna", True), ("bert", False)}
    other = next(row["id"] for row in rows if row["user"] == "bert")
    assert (await anna.ask("DELETE", f"/sessions/{other}")).status_code == 200
    assert (await bert.get("/calls/live")).status_code == 401
    assert (await anna.ask("DELETE", f"/sessions/{other}")).status_code == 404


async def test_people_see_and_end_their_own_other_sessions(room: Room) -> None:
    room.add("bert", Role.VIEWER)
    room.add("carl", Role.VIEWER)
    here, elsewhere, carl = room.browser("bert"), room.browser("bert"), room.browser("carl")
    rows = (await here.get("/session/others")).json()["sessions"]
    assert [(row["user"], row["yours"]) for row in rows] == [("bert", False)]
    assert (await here.ask("DELETE", "/session/others")).status_code == 200
    assert (await elsewhere.get("/calls/live")).status_code == 401
    assert (await carl.get("/calls/live")).status_code == 200
    assert (await here.get("/session/others")).json()["sessions"] == []


async def test_the_audit_is_read_in_pages(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    for _ in range(5):
        await browser.post("/mcp/atis/restart")
    page = (await browser.get("/audit?limit=3")).json()
    assert [entry["seq"] for entry in page["entries"]] == [5, 4, 3]
    rest = (await browser.get(f"/audit?limit=3&before={page['next']}")).json()
    assert ([entry["seq"] for entry in rest["entries"]], rest["next"]) == ([2, 1], 0)
    assert (await browser.get("/audit?who=bert&action=mcp.")).json()["entries"] == []
    found = (await browser.get("/audit?who=anna&action=mcp.&on=atis&limit=2")).json()
    assert ([entry["seq"] for entry in found["entries"]], found["next"]) == ([5, 4], 4)
    for bad in ("limit=0", "limit=201", "limit=x", "before=-1", "page=2"):
        assert code(await browser.get(f"/audit?{bad}")) == "invalid"
    table = await browser.get("/audit/export?action=mcp.&on=atis")
    heads, *rows = table.text.splitlines()
    assert heads.startswith("seq,at,who,action,on,")
    assert [row.split(",")[0] for row in rows] == ["5", "4", "3", "2", "1"]
    lines = await browser.get("/audit/export?format=jsonl&action=audit.")
    own = [json.loads(line) for line in lines.text.splitlines()]
    assert [(each["action"], each["seq"]) for each in own] == [
        ("audit.export", 7),
        ("audit.export", 6),
    ]
    assert code(await browser.get("/users?limit=1")) == "invalid"


async def test_the_audit_is_verified(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    await browser.post("/mcp/atis/restart")
    await browser.post("/mcp/atis/restart")
    good = (await browser.get("/audit/verify")).json()
    lines = room.services.audit.path.read_bytes().splitlines(keepends=True)
    assert (good["first"], good["lines"], good["problem"]) == (1, 2, "")
    assert good["head"].encode() in lines[-1]
    room.services.audit.path.write_bytes(lines[0] + lines[1].replace(b"atis", b"hotel"))
    assert "line 2: it was changed" in (await browser.get("/audit/verify")).json()["problem"]


async def test_guesses_of_others_keep_nobody_out_where_they_have_signed_in_before(
    room: Room,
) -> None:
    room.add("anna")
    anna = room.browser(client="10.1.1.1")
    assert (await anna.post("/session", sign_in())).status_code == 200
    for number in range(60):  # the buckets of her name and of all together are empty
        name = "anna" if number < 10 else f"user{number}"
        guess = sign_in(name, OTHER)
        held = await room.browser(client=f"10.2.{number}.1").post("/session", guess)
    assert held.status_code == 429
    elsewhere = await room.browser(client="10.3.3.3").post("/session", sign_in())
    assert elsewhere.status_code == 429
    assert (await anna.post("/session/elevate", {"password": GOOD})).status_code == 200
    assert (await room.browser(client="10.1.1.1").post("/session", sign_in())).status_code == 200
    statuses = [
        (
            await room.browser(client="10.1.1.1").post("/session", sign_in(password=OTHER))
        ).status_code
        for _ in range(5)
    ]
    assert statuses == [401] * 3 + [429] * 2, "guesses from there are held back as elsewhere"


async def test_guesses_of_others_keep_no_link_from_being_used(room: Room) -> None:
    room.accounts.add("anna", Role.ADMIN, (), EVERYWHERE)
    token = room.accounts.reset("anna")
    for number in range(40):
        guess = {"token": "x" * 43, "password": GOOD}
        await room.browser(client=f"10.2.{number}.1").post("/session/link", guess)
        await room.browser(client=f"10.3.{number}.1").post("/session", sign_in("link", OTHER))
    used = await room.browser().post("/session/link", {"token": token, "password": GOOD})
    assert used.status_code == 200


async def test_a_reset_during_a_sign_in_or_a_change_of_password_wins(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.add("anna")
    thief = room.browser("anna")

    def slow(password: str, stored: str) -> bool:
        room.accounts.reset("anna")
        return True

    monkeypatch.setattr(passwords, "is_right", slow)
    change = {"password": GOOD, "new": OTHER}
    assert code(await thief.ask("PUT", "/session/password", change)) == "refused"
    assert room.accounts.password("anna") is None
    room.accounts.use_link(room.accounts.reset("anna"), "hash")
    stranger = room.browser()
    answer = await stranger.post("/session", sign_in())
    assert (answer.status_code, code(answer), stranger.cookies) == (409, "refused", {})
    assert room.accounts.sessions() == []
