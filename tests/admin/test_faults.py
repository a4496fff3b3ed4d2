"""A full disk, a broken database, floods, large and slow clients, errors of our own."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cordboard.accounts import passwords
from cordboard.accounts.audit import verify
from cordboard.accounts.rights import Role
from cordboard.admin.application import BASE
from cordboard.api.server import HttpServer
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import StoreUnavailable
from cordboard_testkit.patience import PATIENCE, until

from .conftest import GOOD, Room, code

JSON = "application/json"
SIGN_IN = {"name": "anna", "password": GOOD}


@contextmanager
def full_disk(room: Room) -> Iterator[None]:
    """A limit of the size of files at the end of the audit: the database grows no more either."""
    size = room.audit.path.stat().st_size if room.audit.path.exists() else 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


async def test_without_room_for_its_line_an_act_does_not_happen(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna", elevated=True)
    await browser.post("/mcp/atis/test")
    with full_disk(room):
        refused = [
            await browser.post("/calls/call-demo/hangup"),
            await browser.post("/mcp/atis/restart"),
            await browser.post("/users", {"name": "bert", "role": "viewer"}),
            await browser.post("/engine/reload"),
            await room.browser().post("/session", SIGN_IN),
        ]
        live = await browser.get("/calls/live")
    for answer in refused:
        assert (answer.status_code, code(answer)) == (503, "store_unavailable")
        assert "nothing was done: the audit" in answer.json()["error"]["message"]
        assert "File too large" in answer.json()["error"]["message"]
    assert live.status_code == 200, "looking goes on"
    assert room.calls["call-demo"].ended == []
    assert room.fake.asked == ["test atis"]
    assert room.accounts.user("bert") is None
    assert (await browser.post("/calls/call-demo/hangup")).status_code == 200
    assert verify(room.audit.path).problem == ""
    assert room.errors == []


async def test_an_act_that_fails_after_its_line_has_another(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.add("anna")

    def broken(server: str) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(room.fake, "mcp_stop", broken)
    answer = await room.browser("anna").post("/mcp/atis/stop")
    assert (answer.status_code, code(answer)) == (500, "internal")
    assert "oh" not in answer.text
    assert room.errors == ["admin"], "it is counted"
    first, second = room.entries()
    assert (first["result"], second["result"]) == ("done", "failed")
    assert second["detail"]["of"] == first["seq"]
    assert first["request"] == answer.headers["x-request-id"]
    assert (await room.browser("anna").get("/engine")).status_code == 200


async def test_a_sign_in_that_fails_after_its_line_has_another(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is full, and the audit is not."""
    room.add("anna")

    def full(*_: object) -> str:
        raise StoreUnavailable("the accounts cannot be used: database or disk is full")

    monkeypatch.setattr(room.accounts, "begin_session", full)
    browser = room.browser()
    answer = await browser.post("/session", SIGN_IN)
    assert (answer.status_code, code(answer), browser.cookies) == (503, "store_unavailable", {})
    entries = [(entry["who"], entry["action"], entry["result"]) for entry in room.entries()]
    assert entries == [("anna", "session.begin", "done"), ("anna", "session.begin", "failed")]


async def test_a_database_that_is_gone_is_a_refusal_and_not_a_way_in(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    room.accounts.close()
    for answer in (
        await browser.get("/calls/live"),
        await room.browser().post("/session", SIGN_IN),
    ):
        assert (answer.status_code, code(answer)) == (503, "store_unavailable")


async def test_a_flood_of_sign_ins_waits_for_one_thread_and_the_rest_is_refused(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From many addresses and for many names, so that no bucket but the last one is empty. The
    event loop, and with it the calls, is free meanwhile, and other answers come."""
    room.add("anna")
    begun, go, at_once, most = threading.Semaphore(0), threading.Event(), [0], [0]

    def slow(password: str, stored: str) -> bool:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        begun.release()
        go.wait(PATIENCE)
        at_once[0] -= 1
        return False

    monkeypatch.setattr(passwords, "is_right", slow)
    flood = [
        asyncio.create_task(
            room.browser(client=f"10.0.{number}.1").post(
                "/session", {"name": f"user{number}", "password": GOOD}
            )
        )
        for number in range(60)
    ]
    await asyncio.to_thread(begun.acquire)
    browser = room.browser("anna")
    assert (await browser.get("/calls/live")).status_code == 200
    assert (await browser.post("/calls/call-demo/hangup")).status_code == 200
    go.set()
    statuses = [(await answer).status_code for answer in flood]
    assert most == [1], "one password at a time"
    assert set(statuses) == {401, 429, 503}
    assert statuses.count(401) <= 9


@pytest.fixture
async def port(room: Room) -> AsyncIterator[int]:
    server = HttpServer(AdminUi(port=0), room.app, key="admin.ui.port", idle_seconds=1.2)
    await server.start()
    yield server.port
    await server.close()


HEAD = (
    "POST /api/v1/config/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Authorization: Bearer TOKEN\r\n"
)


@pytest.mark.parametrize(
    ("length", "sent"),
    [
        ("Content-Length: 50000000", b""),
        ("Transfer-Encoding: chunked", (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 33),
    ],
)
async def test_a_body_of_50_mb_is_refused_before_it_is_kept(
    room: Room, port: int, length: str, sent: bytes
) -> None:
    """By its length at once, and else after the 2 MiB that a configuration may have."""
    room.add("otto", Role.OPERATOR)
    token = room.program("otto").headers["Authorization"].removeprefix("Bearer ")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{HEAD.replace('TOKEN', token)}{length}\r\n\r\n".encode() + sent)
    got = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE)
    assert got.startswith(b"HTTP/1.1 413")
    assert b'"too_large"' in got
    writer.close()


async def test_a_large_body_of_an_unknown_client_is_not_even_read(room: Room, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((HEAD + "Content-Length: 50000000\r\n\r\n").encode())
    got = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE)
    assert got.startswith(b"HTTP/1.1 401")
    writer.close()


@pytest.mark.parametrize(
    "sent", ["", "POST /api/v1/ses", HEAD, HEAD + "Content-Length: 9\r\n\r\n{"]
)
async def test_a_slow_client_is_given_up_while_others_are_answered(
    tmp_path: Path, sent: str
) -> None:
    room = Room(tmp_path, AdminUi(), body_seconds=0.2)
    room.add("otto", Role.OPERATOR)
    token = room.program("otto").headers["Authorization"].removeprefix("Bearer ")
    server = HttpServer(AdminUi(port=0), room.app, idle_seconds=0.2)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent.replace("TOKEN", token).encode())
    assert (await room.browser().get("/session")).status_code == 200
    got = await asyncio.wait_for(reader.read(), PATIENCE)
    assert got == b"" or got.startswith(b"HTTP/1.1 408")
    writer.close()
    await server.close()
    room.close()


@pytest.mark.parametrize("path", ["engine", "live/sse?topics=engine"])
async def test_a_client_that_reads_no_answers_is_given_up(
    room: Room, port: int, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    room.add("otto", Role.OPERATOR)
    token = room.program("otto").headers["Authorization"].removeprefix("Bearer ")
    room.view.components.clear()
    asked, huge = asyncio.Event(), "x" * 40_000_000

    def health() -> dict[str, Any]:
        asked.set()
        return {**room.view.counts(), "huge": huge}

    monkeypatch.setattr(room.view, "health", health)
    request = (
        f"GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request.encode())
        await asyncio.wait_for(asked.wait(), PATIENCE)
        if "sse" in path:
            await until(lambda: len(room.services.sockets) == 1, "its begin")
        lasting = room.services.sockets
        await until(lambda: room.app._answering + len(lasting) == 0, "the end of the request")
    assert (await room.browser().get("/session")).status_code == 200


async def test_more_requests_than_room_are_refused_at_once(tmp_path: Path) -> None:
    room = Room(tmp_path, AdminUi(), most_at_once=2)
    room.add("anna")
    browser = room.browser("anna")
    room.fake.hold = asyncio.Event()
    waiting = [asyncio.create_task(browser.post("/mcp/atis/stop"))]
    await room.fake.held.wait()
    waiting.append(asyncio.create_task(room.services.operations.move("x", "stop")))  # type: ignore[arg-type]
    answers = await asyncio.gather(*(browser.get("/engine") for _ in range(4)))
    assert sorted({answer.status_code for answer in answers}) == [200, 503]
    assert {answer.headers.get("retry-after") for answer in answers} == {None, "1"}
    room.fake.hold.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    room.close()


async def test_refused_changes_do_not_fill_the_audit(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    browser = room.browser("vera")
    statuses = [(await browser.post("/mcp/atis/stop")).status_code for _ in range(70)]
    assert statuses == [403] * 60 + [429] * 10
    assert len(room.entries()) == 60


async def test_refused_requests_take_no_place(tmp_path: Path) -> None:
    room = Room(tmp_path, AdminUi(), most_at_once=1)
    room.add("anna")
    room.fake.hold = asyncio.Event()
    waiting = asyncio.create_task(room.browser("anna").post("/mcp/atis/stop"))
    await room.fake.held.wait()
    evil = room.browser("anna", headers={"Origin": "https://evil.example"})
    assert [(await evil.get("/engine")).status_code for _ in range(3)] == [403] * 3
    assert (await room.browser("anna").get("/engine")).status_code == 503
    room.fake.hold.set()
    assert (await waiting).status_code == 200
    assert (await room.browser("anna").get("/engine")).status_code == 200
    room.close()


async def test_malformed_bodies_are_named(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    for content, kind, status in (
        (b"{", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"\xff\xfe", "application/json", 422),
        (b'{"text": "\\ud800"}', "application/json", 422),
        (b'{"text": 5}', "application/json; charset=utf-8", 422),
        (b"{}", "text/plain", 415),
        (b"text=x", "application/x-www-form-urlencoded", 415),
        (b"[" * 100_000, "application/json", 422),
        (b'{"text": NaN}', "application/json", 422),
        (b"{" + b",".join(b'"k%d":1' % number for number in range(101)) + b"}", JSON, 422),
    ):
        room.clock.now += 1
        headers = {"Content-Type": kind}
        answer = await browser.post("/config/check", content=content, headers=headers)
        assert answer.status_code == status, content[:20]
    assert answer.json()["error"]["at"] == [], "many wrong keys are not looked at singly"
    assert room.errors == []


async def test_a_try_takes_no_number_that_json_has_not(room: Room) -> None:
    """No limit of a tool's schema holds back a NaN: each comparison with it is false."""
    room.add("otto", Role.OPERATOR)
    for number in ("NaN", "Infinity", "-Infinity"):
        body = f'{{"context": "demo", "arguments": {{"amount": {number}}}}}'
        answer = await room.browser("otto").post(
            "/tools/look/try", content=body.encode(), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, code(answer)) == (422, "invalid")
    assert room.trials.tried == []


@pytest.mark.parametrize(
    "headers",
    [
        [("Cookie", 'a="' + "\\" * 60_000 + '"')],
        [("Cookie", ";".join(f"a{number}=b" for number in range(8_000)))],
        [(f"X-{number}", "b") for number in range(5_000)],
    ],
    ids=["quoted cookie", "many cookies", "many headers"],
)
async def test_no_headers_of_a_stranger_hold_up_the_calls(
    room: Room, headers: list[tuple[str, str]]
) -> None:
    """Python needs 12 s for the first, and no call would have sound meanwhile."""
    transport = room.browser()._transport
    sent = [("Host", "localhost"), *headers]
    begun = time.thread_time()
    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.get(f"{BASE}/session", headers=sent)
    assert answer.status_code == 200
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize("order", ["other={}; {}={}", "{1}=planted; {1}={2}", " {1} = {2} ;x"])
async def test_the_sessions_cookie_is_found_among_others(room: Room, order: str) -> None:
    room.add("anna")
    browser = room.browser("anna")
    ((name, token),) = browser.cookies.items()
    browser.cookies = {}
    headers = {"Cookie": order.format("x", name, token)}
    assert (await browser.get("/session", headers=headers)).json()["name"] == "anna"


async def test_a_place_in_the_audit_may_be_any_number(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    await browser.post("/mcp/atis/stop")
    for before in (1, 100, 10**9, 10**30):
        assert (await browser.get(f"/audit?before={before}")).status_code == 200


async def test_dripping_sign_ins_leave_room_for_those_who_are_signed_in(tmp_path: Path) -> None:
    room = Room(tmp_path, AdminUi(), most_at_once=4, body_seconds=PATIENCE)
    room.add("anna")
    server = HttpServer(AdminUi(port=0), room.app)
    await server.start()
    drip = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: localhost:{server.port}\r\nX-Cordboard: 1\r\n"
        f"Origin: http://localhost:{server.port}\r\nContent-Length: 9\r\n\r\n{{"
    )
    writers = []
    for number in range(6):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(drip.encode())
        writers.append(writer)
        if number < 2:
            await until(lambda: room.app._answering == len(writers), "a request without its body")
        else:
            got = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE)
            assert got.startswith(b"HTTP/1.1 503")
    browser = room.browser("anna")
    assert (await browser.get("/calls/live")).status_code == 200
    assert (await browser.post("/mcp/atis/stop")).status_code == 200
    for writer in writers:
        writer.close()
    await server.close()
    room.close()


def test_an_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("a file")
    with pytest.raises(StoreUnavailable, match=r"accounts\.db cannot be used"):
        Room(tmp_path, AdminUi())
