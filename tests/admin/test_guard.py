"""Foreign pages, foreign names, and proxies that nobody has named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.admin.guard import Arrival, Guard, neighbourhood
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import RequestRefused

from .conftest import Browser, Room, code

LOCAL = AdminUi()
PROXIED = AdminUi(
    host="0.0.0.0",
    public_url="https://voice.example.org",
    trusted_proxies=("10.0.0.1", "10.9.0.0/16"),
)
TLS = AdminUi(host="0.0.0.0", tls={"certificate": "c", "key": "k"})  # type: ignore[arg-type]
OURS = {"host": "127.0.0.1:15001", "origin": "http://127.0.0.1:15001", "x-cordboard": "1"}


def checked(
    method: str, headers: dict[str, str], settings: AdminUi = LOCAL, peer: str = "127.0.0.1"
) -> str:
    """The code of the refusal; empty if the request may go on."""
    guard = Guard(settings)
    try:
        guard.check(method, headers, guard.arrival(headers, peer))
    except RequestRefused as error:
        return error.code
    return ""


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_our_own_page_and_a_program_may_go_on(method: str) -> None:
    assert checked(method, OURS) == ""
    assert checked(method, {"host": "localhost:15001", "authorization": "Bearer x"}) == ""
    tunnel = {**OURS, "host": "localhost:9999", "origin": "http://localhost:9999"}
    assert checked(method, tunnel) == ""
    fetched = {"host": "[::1]:15001", "sec-fetch-site": "same-origin", "x-cordboard": "1"}
    assert checked(method, fetched) == ""


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:15001", "127.0.0.1.evil.example", "localhost.evil.example", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_that_points_its_name_here_is_refused(method: str, host: str) -> None:
    """DNS rebinding: to the browser the request has one origin, of which only Host tells."""
    headers = {**OURS, "host": host, "origin": f"http://{host}"}
    assert checked(method, headers) == "foreign_host"
    assert checked(method, {**headers, "authorization": "Bearer x"}) == "foreign_host"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:8080",
        "http://127.0.0.1",
        "https://127.0.0.1:15001",
        "http://127.0.0.1:15001.evil.example",
        "null",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_origin_is_refused_also_on_another_port_of_localhost(
    method: str, origin: str
) -> None:
    assert checked(method, {**OURS, "origin": origin}) == "foreign_origin"
    with_key = {**OURS, "origin": origin, "authorization": "Bearer x"}
    assert checked(method, with_key) == "foreign_origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_or_picture_of_another_page_is_refused(site: str) -> None:
    assert checked("GET", {"host": "localhost", "sec-fetch-site": site}) == "foreign_origin"


@pytest.mark.parametrize("lacking", ["origin", "x-cordboard"])
def test_a_change_needs_proofs_that_no_form_can_send(lacking: str) -> None:
    headers = {name: value for name, value in OURS.items() if name != lacking}
    assert checked("POST", headers) == "not_our_page"
    assert checked("GET", headers) == ""


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "x-real-ip"]
)
@pytest.mark.parametrize("settings", [LOCAL, PROXIED, TLS])
def test_a_proxy_that_is_not_named_is_refused_with_what_to_write(
    header: str, settings: AdminUi
) -> None:
    with pytest.raises(RequestRefused, match=r"admin\.ui\.trusted_proxies") as refused:
        Guard(settings).arrival({header: "1.2.3.4"}, "10.0.0.2")
    assert (refused.value.status, refused.value.code) == (400, "untrusted_proxy")


def test_behind_a_proxy_the_port_is_for_the_proxy_alone_and_only_by_https() -> None:
    host = {"host": "voice.example.org", "origin": "https://voice.example.org", "x-cordboard": "1"}
    https = {**host, "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
    assert checked("POST", https, PROXIED, "10.0.0.1") == ""
    assert checked("POST", {**https, "host": "10.0.0.5:15001"}, PROXIED, "::ffff:10.9.1.1") == ""
    assert checked("POST", host, PROXIED, "10.0.0.7") == "unencrypted"
    assert checked("POST", {**https, "x-forwarded-proto": "http"}, PROXIED, "10.0.0.1") == (
        "unencrypted"
    )
    assert checked("POST", host, PROXIED, "10.0.0.1") == "unencrypted"
    assert checked("POST", host, PROXIED, "") == "unencrypted"


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.9.0.3", "203.0.113.9"),
        ("evil, 10.9.0.3", "10.9.0.3"),
        ("", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_client_is_the_last_address_that_a_trusted_proxy_names(
    forwarded: str, client: str
) -> None:
    """The first ones are the client's own words: with them it would choose its own pace."""
    headers = {"x-forwarded-for": forwarded, "x-forwarded-proto": "https"}
    assert Guard(PROXIED).arrival(headers, "10.0.0.1") == Arrival(client, secure=True)


@given(
    st.dictionaries(
        st.sampled_from(["host", "origin", "sec-fetch-site", "x-forwarded-for"]), st.text()
    )
)
def test_any_header_is_refused_or_let_through_and_never_an_error(headers: dict[str, str]) -> None:
    for settings in (LOCAL, PROXIED, TLS):
        checked("POST", headers, settings, "10.0.0.1")


async def test_the_answer_to_a_refusal_says_why_and_carries_every_header(room: Room) -> None:
    evil = Browser(room, headers={"Origin": "https://evil.example", "X-Cordboard": "1"})
    answer = await evil.get("/session")
    assert (answer.status_code, code(answer)) == (403, "foreign_origin")
    assert "https://evil.example" in answer.json()["error"]["message"]
    headers = answer.headers
    assert headers["x-request-id"] == answer.json()["error"]["request"]
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "strict-transport-security" not in headers


async def test_a_foreign_page_with_the_browsers_cookie_changes_nothing(room: Room) -> None:
    room.add("anna")
    for headers in (
        {"Origin": "http://localhost:8080", "X-Cordboard": "1"},
        {"Sec-Fetch-Site": "same-site", "X-Cordboard": "1"},
        {"Content-Type": "text/plain"},
        {},
    ):
        browser = room.browser("anna", headers=headers)
        answer = await browser.post("/calls/call-demo/hangup")
        assert answer.status_code == 403
    assert room.calls["call-demo"].ended == []
    assert room.entries() == []


async def test_cookies_are_bound_to_https_where_there_is_https(tmp_path: Path) -> None:
    made: list[Any] = []
    for settings, browser in (
        (LOCAL, {}),
        (
            PROXIED,
            {
                "host": "voice.example.org",
                "client": "10.0.0.1",
                "headers": {
                    "Origin": "https://voice.example.org",
                    "X-Cordboard": "1",
                    "X-Forwarded-Proto": "https",
                },
            },
        ),
    ):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        room = Room(folder, settings)
        room.add("anna")
        answer = await Browser(room, **browser).post(  # type: ignore[arg-type]
            "/session", {"name": "anna", "password": "plum tangible orbit 41"}
        )
        assert answer.status_code == 200
        made.append(answer)
        room.close()
    local, secure = (answer.headers["set-cookie"] for answer in made)
    assert local.startswith("cordboard-15001=")
    assert secure.startswith("__Host-cordboard=")
    assert "Secure" in secure
    assert "Secure" not in local
    for cookie in (local, secure):
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
    assert "strict-transport-security" in made[1].headers


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::5", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::5", "2001:db8:1:3::5", False),
        ("203.0.113.9", "203.0.113.10", False),
        ("203.0.113.9", "::ffff:203.0.113.9", True),
        ("", "", True),
    ],
)
def test_guesses_from_one_network_of_ipv6_are_those_of_one_client(
    one: str, other: str, same: bool
) -> None:
    assert (neighbourhood(one) == neighbourhood(other)) is same


async def test_a_proxy_that_adds_a_line_of_its_own_is_believed_and_not_its_client(
    tmp_path: Path,
) -> None:
    """HAProxy's `option forwardfor` leaves the client's line and writes another below it."""
    room = Room(tmp_path, PROXIED)
    browser = Browser(room, client="10.0.0.1")
    sent = [
        ("Host", "voice.example.org"),
        ("Origin", "https://voice.example.org"),
        ("X-Cordboard", "1"),
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-For", "203.0.113.9"),
    ]
    wrong = {"name": "anna", "password": "plum tangible orbit 41"}
    async with httpx2.AsyncClient(transport=browser._transport, base_url="http://x") as client:
        await client.post("/api/v1/session", json=wrong, headers=sent)
        sent.append(("X-Forwarded-Proto", "http"))
        answer = await client.post("/api/v1/session", json=wrong, headers=sent)
    assert code(answer) == "unencrypted"
    assert [entry["client"] for entry in room.entries()] == ["203.0.113.9"]
    room.close()
