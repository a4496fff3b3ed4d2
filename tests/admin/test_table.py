"""The table of endpoints: each caller gets what the table says, and each act leaves its line."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cordboard.accounts.rights import GRANTS, ROLES, Grant, Permission, Role
from cordboard.admin import session
from cordboard.admin.application import BASE
from cordboard.admin.endpoint import Endpoint, Open, Scope
from cordboard.admin.other_engines import OtherEngines
from cordboard.admin.table import ENDPOINTS, openapi, openapi_text, permissions_page
from cordboard.chat.tool_examples import ToolExample
from cordboard.config.files import digest_of
from cordboard.config.sections.admin import AdminUi
from cordboard.config.stored_secrets import StoredSecrets
from cordboard.history.views import View
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore

from .conftest import CONFIG, GOOD, STORED, Browser, Room, code, record
from .neighbours import Doors, NearDoor

ROOT = Path(__file__).parents[2]
DIGEST = digest_of(CONFIG.encode())
RIGHTS = {"role": "viewer", "grants": [], "scope": ["*"]}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/session"): {"name": "victim", "password": GOOD},
    ("POST", "/session/elevate"): {"password": GOOD},
    ("POST", "/session/oidc"): {},
    ("PUT", "/session/password"): {"password": GOOD, "new": "other plum orbit 42"},
    ("POST", "/users"): {"name": "newcomer", **RIGHTS},
    ("PUT", "/users/{name}"): RIGHTS,
    ("POST", "/api-keys"): {"label": "bot", "permissions": ["calls.read"]},
    ("POST", "/calls/{call_id}/transfer"): {"destination": "desk"},
    ("POST", "/calls/{call_id}/takeover"): {"destination": "otto"},
    ("POST", "/calls/{call_id}/conference"): {"destination": "otto", "agent": "quiet"},
    ("POST", "/calls/{call_id}/whisper"): {"text": "Be kind.", "to": "human"},
    ("POST", "/calls/{call_id}/say"): {"text": "Please hold."},
    ("POST", "/calls/{call_id}/hint"): {"text": "Offer Thursday."},
    ("POST", "/config/check"): {},
    ("POST", "/voices/{voice}/sample"): {"text": "Good morning."},
    ("POST", "/mcp/lock/accept"): {"server": "atis", "digest": "0" * 64},
    ("POST", "/config/diff"): {"text": CONFIG},
    ("POST", "/config/edit"): {"text": CONFIG, "edits": [{"op": "remove", "path": ["tools"]}]},
    ("PUT", "/config"): {"text": CONFIG + "# new\n", "base": DIGEST},
    ("POST", "/config/versions/{version}/restore"): {},
    ("PUT", "/drafts/{draft}"): {"text": CONFIG, "base": DIGEST},
    ("PUT", "/secrets/{secret}"): {"value": "hunter2hunter2"},
    ("POST", "/alarms/{alarm}/acknowledge"): {"note": "I see"},
    ("PUT", "/calls/{call_id}/notes"): {"revision": "", "notes": [{"text": "call back"}]},
    ("POST", "/calls/{call_id}/scenario"): {"name": "late-parcel"},
    ("PUT", "/calls/{call_id}/tags"): {"revision": "", "tags": ["refund"]},
    ("PUT", "/calls/{call_id}/review"): {"revision": "", "review": "good"},
    ("POST", "/erasures"): {"number": "+4533112233"},
    ("PUT", "/views/{view_id}"): {"name": "Failed", "filters": {"outcome": ["failed"]}},
    ("POST", "/trials"): {"text": "contexts: {demo: {}}", "context": "demo"},
    ("POST", "/chats/{chat_id}/messages"): {"message": "Good morning."},
    ("POST", "/do-not-call"): {"numbers": ["+4722000001"]},
    ("POST", "/do-not-call/remove"): {"number": "+4722000000"},
}
OF_THE_WHOLE_FILE = "/config/versions"
"""Beginning of paths for which `config.read` is not enough with a limited scope."""
CALLERS = ("nobody", "viewer", "operator", "admin", "elevated", "granted", "scoped", "key")
ROLE_OF = {
    "viewer": Role.VIEWER,
    "operator": Role.OPERATOR,
    "admin": Role.ADMIN,
    "elevated": Role.ADMIN,
    "granted": Role.VIEWER,
    "scoped": Role.ADMIN,
    "key": Role.ADMIN,
}
ABOUT_ALL = {
    Permission.CONFIG_DRAFT,
    Permission.MCP_CONTROL,
    Permission.CONFIG_PUBLISH,
    Permission.ENGINE_CONTROL,
    Permission.PEOPLE_MANAGE,
    Permission.AUDIT_READ,
    Permission.MCP_ACCEPT,
    Permission.PROVIDERS_CHECK,
    Permission.SECRETS_LIST,
    Permission.SECRETS_WRITE,
    Permission.DATA_ERASE,
}


def browser_of(room: Room, caller: str) -> Browser:
    if caller == "nobody":
        return room.browser()
    grants = tuple(Grant) if caller == "granted" else ()
    scope = ("demo",) if caller == "scoped" else ("*",)
    room.add(caller, ROLE_OF[caller], grants, scope)
    if caller == "key":
        return room.program("key")
    return room.browser(caller, elevated=caller == "elevated")


def expected(endpoint: Endpoint, caller: str, context: str) -> int:
    """The status, by the table and the page of roles alone."""
    if endpoint.may is Open.ANYONE:
        return 200
    if caller == "nobody":
        return 401
    if isinstance(endpoint.may, Permission):
        has = ROLES[ROLE_OF[caller]] - (ABOUT_ALL if caller == "scoped" else set())
        has |= set(GRANTS.values()) if caller == "granted" else set()
        if endpoint.may not in has:
            return 403
        if endpoint.path.endswith("/scenario"):
            return 403  # needs the grant `personal` too: tests/admin/test_history.py
        if caller == "scoped" and endpoint.path.startswith(OF_THE_WHOLE_FILE):
            return 403
    elif caller == "key":
        return 403
    if endpoint.elevated and caller != "elevated":
        return 403
    if endpoint.scope is Scope.ALL and caller == "scoped":
        return 403
    if not isinstance(endpoint.scope, Scope) and caller == "scoped" and context != "demo":
        return 404
    return 426 if endpoint.frames is not None else 200


def of_configuration(room: Room, endpoint: Endpoint, path: str) -> str:
    """The path with a version, a draft of each caller, and a stored secret that are there."""
    if "{draft}" in path and room.services.editing is not None and endpoint.method != "PUT":
        keys = [f"key:{key.id}" for key in room.accounts.keys()]  # noqa: SIM118 - a method
        for who in (*CALLERS, *keys):
            room.services.editing.drafts.put(who, "mine", DIGEST, CONFIG)
    room.fake.versions.keep(CONFIG.encode())
    if "{secret}" in path:
        StoredSecrets(room.audit.path.parent).put("SHOP_KEY", "hunter2hunter2")
    path = path.replace("{draft}", "mine").replace("{version}", DIGEST)
    return path.replace("{secret}", "SHOP_KEY")


def of_campaigns(room: Room, path: str, body: Any, context: str) -> tuple[str, Any]:
    """The path with a campaign that is there, and a list for another one; one blocked number."""
    with closing(CampaignStore(room.running.outbound.campaigns)) as store:
        store.block(["+4722000000"])
        store.add(context, CampaignSettings(context))
    if path == "/campaigns":
        return path, {"name": "spring", "context": context, "csv": "number\n+4722000002\n"}
    return path.replace("{campaign}", context), body


async def of_calls(room: Room, endpoint: Endpoint, context: str) -> None:
    """Record a call that is to be heard; end those that are to be erased; place one."""
    if endpoint.path.endswith(("/peaks", "/audio")):
        record(room, f"call-{context}")
    elif (endpoint.method, endpoint.path) == ("DELETE", "/calls/{call_id}"):
        room.calls.clear()
    elif endpoint.path == "/outbound/calls/{call_id}":
        assert await room.placed.begin(f"call-{context}", context)


def of_cluster(room: Room, path: str) -> str:
    """The path with a node that is there."""
    if "{node}" in path:
        door = NearDoor(Doors(), "a")
        room.services.others = OtherEngines(door, room.services.feed.live, room.errors.append)
    return path.replace("{node}", "a")


async def arguments(room: Room, endpoint: Endpoint, context: str) -> tuple[str, Any]:
    """A path and a body that would be served."""
    room.add("victim", Role.VIEWER)
    path = endpoint.path.replace("{call_id}", f"call-{context}").replace("{server}", "atis")
    path = path.replace("{provider}", "local").replace("{voice}", "local")
    path = of_configuration(room, endpoint, path)
    path = of_cluster(room, path)
    path = path.replace("{measure}", "calls").replace("{alarm}", f"{context}-busy")
    body = BODIES.get((endpoint.method, endpoint.path))
    path = path.replace("{view_id}", "mine")
    await of_calls(room, endpoint, context)
    if "/users/{name}" in endpoint.path:
        path = path.replace("{name}", "victim")
    elif "{example_id}" in path:
        room.services.examples.put(ToolExample("one", "look", context, "", {}, "x", "y"))
        path = path.replace("{name}", "look").replace("{example_id}", "one")
        body = {"context": context, "arguments": {}} if endpoint.method == "PUT" else None
    elif "{name}" in path:
        path = path.replace("{name}", "look").replace("/why", f"/why?context={context}")
        body = body if endpoint.method == "GET" else {"context": context}
    elif "{session_id}" in path:
        room.accounts.begin_session("victim", "10.1.1.1", STORED)
        path = path.replace("{session_id}", room.accounts.sessions()[0].id)
    elif "{key_id}" in path:
        path = path.replace("{key_id}", room.accounts.add_key("victim", "b", (), ("*",), 9)[0].id)
    elif path == "/session/link":
        room.accounts.add("invited", Role.VIEWER, (), ("*",))
        body = {"token": room.accounts.reset("invited"), "password": GOOD}
    elif path in ("/browser-calls", "/chats", "/engine/setup/test-call"):
        body = {"context": context}
    elif path in ("/calls", "/calls/check-number") and endpoint.method == "POST":
        body = {"context": context, "number": "+4722000000"}
    elif path.startswith(("/campaigns", "/do-not-call")):
        path, body = of_campaigns(room, path, body, context)
    elif "{chat_id}" in path or "{trial_id}" in path:
        path = path.replace("{chat_id}", f"chat-{context}")
        path = path.replace("{trial_id}", f"trial-{context}")
    elif path == "/tools":
        path = f"/tools?context={context}"
    return path, body


def prepared(room: Room, endpoint: Endpoint, caller: str, body: Any) -> Any:
    """A body that depends on the caller: the code of a second factor."""
    if endpoint.path == "/views/{view_id}" and endpoint.method != "PUT":
        room.services.views.put(View("mine", caller, "Mine", False, {}, ()))
    if endpoint.path != "/session/factor/confirm":
        return body
    if caller in ("nobody", "key"):
        return {"code": "123456"}
    from cordboard.accounts.factors import code_at

    secret = room.accounts.begin_factor(caller)
    return {"code": code_at(secret, int(room.clock.now) // 30)}


@pytest.mark.parametrize(
    "endpoint",
    [
        each
        for each in ENDPOINTS
        if each.frames is None and not each.path.startswith("/session/oidc")  # test_oidc.py
    ],
    ids=lambda endpoint: f"{endpoint.method} {endpoint.path}",
)
@pytest.mark.parametrize("context", ["demo", "sales"])
async def test_each_caller_gets_what_the_table_says_and_each_act_has_one_line(
    tmp_path: Path, endpoint: Endpoint, context: str
) -> None:
    found: dict[str, int] = {}
    for caller in CALLERS:
        (tmp_path / caller).mkdir()
        room = Room(tmp_path / caller, AdminUi())
        browser = browser_of(room, caller)
        await room.fire("demo", "sales")
        path, body = await arguments(room, endpoint, context)
        body = prepared(room, endpoint, caller, body)
        if endpoint.frames is not None:
            visit = await browser.connect(path, endpoint.frames.protocol)
            found[caller] = 200 if visit.status == 101 else visit.status
            assert found[caller] == expected(endpoint, caller, context)
            await visit.leave()
            room.services.close()
            continue
        # Only the headers of an answer that lasts.
        lasts = endpoint.path == "/live/sse"
        answer = await browser.ask("HEAD" if lasts else endpoint.method, path, body)
        found[caller] = answer.status_code
        outside = caller == "scoped" and context == "sales"
        if endpoint.path in ("/tools", "/tools/{name}/why") and outside:
            assert answer.status_code == 404
            found[caller] = 200  # filtered
        wanted = expected(endpoint, caller, context)
        lines = room.entries()
        if endpoint.frames is not None:
            assert "done" not in [line["result"] for line in lines]
        elif not endpoint.audit:
            assert lines == []
        elif wanted == 200:
            assert [line["action"] for line in lines] == [endpoint.audit], answer.text
            assert lines[0]["result"] == "done"
        elif caller != "nobody":
            assert [(line["result"], line["who"]) for line in lines] in (
                [("refused", "key:" + lines[0]["who"][4:])] if caller == "key" else [],
                [("refused", caller)],
            )
        else:
            assert lines == []
        room.close()
    assert found == {caller: expected(endpoint, caller, context) for caller in CALLERS}


def test_every_endpoint_says_what_it_needs() -> None:
    """A change of the table that forgets one is refused when it is imported."""
    good = session.ENDPOINTS[0]
    required = {
        field.name
        for field in dataclasses.fields(Endpoint)
        if field.default is dataclasses.MISSING and field.init
    }
    assert required >= {"method", "path", "may", "scope", "takes", "gives", "audit", "does"}
    for change in (
        {"may": None},
        {"may": "people.manage"},
        {"scope": None},
        {"audit": None},
        {"path": "no/slash"},
        {"path": "/a/{B}"},
        {"method": "PATCH"},
        {"takes": session.SignIn},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            dataclasses.replace(good, **change)  # type: ignore[arg-type]


def test_no_two_endpoints_have_the_same_address_or_name() -> None:
    addresses = [(endpoint.method, endpoint.path) for endpoint in ENDPOINTS]
    names = [endpoint.does.__name__ for endpoint in ENDPOINTS]
    assert len(set(addresses)) == len(addresses)
    assert len(set(names)) == len(names)


def test_only_signing_in_needs_no_session() -> None:
    assert {
        (endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.may is Open.ANYONE
    } == {
        ("GET", "/session"),
        ("POST", "/session"),
        ("POST", "/session/link"),
        ("POST", "/session/oidc"),
        ("GET", "/session/oidc/callback"),
    }


def test_the_openapi_document_has_exactly_these_endpoints_and_every_reference_leads_somewhere() -> (
    None
):
    document = openapi()
    assert document["openapi"] == "3.1.0"
    paths = {
        (method.upper(), path.removeprefix(BASE))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert paths == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    text = json.dumps(document)
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= document["components"]["schemas"].keys()
    assert "-Input" not in text, "a model has one form"


def test_the_committed_documents_are_current() -> None:
    """python -m cordboard.admin.table admin-ui/openapi.json docs/admin-permissions.md"""
    assert (ROOT / "admin-ui" / "openapi.json").read_text("utf-8") == openapi_text()
    assert (ROOT / "docs" / "admin-permissions.md").read_text("utf-8") == permissions_page()


async def test_what_has_no_endpoint_is_not_there_and_says_so_in_the_same_form(room: Room) -> None:
    nowhere = await room.browser().get("/nowhere")
    assert (nowhere.status_code, code(nowhere)) == (404, "not_there")
    wrong = await room.browser().ask("PUT", "/session", {})
    assert (wrong.status_code, code(wrong)) == (405, "method_not_allowed")
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST", "DELETE"}
    head = await room.browser().ask("HEAD", "/session")
    assert (head.status_code, head.content) == (200, b"")
