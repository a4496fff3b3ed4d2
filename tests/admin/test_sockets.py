"""Websockets of the admin port: their handshake, one-time tickets, limits, and withdrawn rights."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import connect

from cordboard.accounts.rights import EVERYWHERE, Permission, Role
from cordboard.admin.application import AdminApplication
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Frames, Scope
from cordboard.admin.guard import Guard
from cordboard.admin.sockets import OpenSockets
from cordboard.admin.tickets import Tickets
from cordboard.api.server import HttpServer
from cordboard.api.server_websocket import ServerWebSocket
from cordboard.config.sections.admin import AdminUi
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Browser, Room, Visit

ECHO = "test.echo.v1"


async def echo(ask: Ask) -> None:
    """Send back each frame."""
    while True:
        text = await ask.socket.receive()
        if text == "fail":
            raise ValueError("hunter2")
        if text == "enough":
            return
        await ask.socket.send(text)


def context_of(ask: Ask) -> str | None:
    call = ask.services.calls().get(ask.params["call_id"])
    return call.context_name if call is not None else None


OPEN = Endpoint(
    "GET",
    "/echo",
    may=Permission.CALLS_READ,
    scope=Scope.NONE,
    takes=None,
    gives=Frames(ECHO, (), ()),
    audit=UNRECORDED,
    does=echo,
)
TICKET = Endpoint(
    "GET",
    "/calls/{call_id}/echo",
    may=Permission.CALLS_CONTROL,
    scope=context_of,
    takes=None,
    gives=Frames(ECHO, (), (), ticket="echo"),
    audit="call.echo",
    does=echo,
)


@pytest.fixture
def app(room: Room) -> AdminApplication:
    return AdminApplication((OPEN, TICKET), room.services, Guard(AdminUi()), room.page)


async def visit(browser: Browser, app: AdminApplication, path: str = "/echo", *more: str) -> Visit:
    return await browser.connect(path, ECHO, *more, app=app)


async def test_a_socket_is_accepted_by_cookie_and_origin_and_frames_go_both_ways(
    room: Room, app: AdminApplication
) -> None:
    room.add("vera", Role.VIEWER)
    seen = await visit(room.browser("vera"), app)
    assert (seen.status, seen.protocol) == (101, ECHO)
    seen.send({"a": 1})
    assert await seen.frame() == {"a": 1}
    seen.send("enough")
    assert await seen.closed() == 1000
    assert len(room.services.sockets) == 0


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:15001", 101),
        ("http://127.0.0.1:15002", 403),
        ("http://127.0.0.1:15001.evil.example", 403),
        ("https://127.0.0.1:15001", 403),
        ("null", 403),
        ("", 403),
        (None, 403),
    ],
)
async def test_a_page_of_another_origin_opens_no_socket(
    room: Room, app: AdminApplication, origin: str | None, status: int
) -> None:
    room.add("vera", Role.VIEWER)
    browser = room.browser("vera", headers={} if origin is None else {"Origin": origin})
    seen = await visit(browser, app)
    assert seen.status == status
    assert len(room.services.sockets) == (status == 101)


async def test_a_program_opens_a_socket_by_its_key_and_without_an_origin(
    room: Room, app: AdminApplication
) -> None:
    room.add("vera", Role.VIEWER)
    program = room.program("vera")
    assert (await visit(program, app)).status == 101
    program.headers["Authorization"] += "x"
    assert (await visit(program, app)).status == 401
    assert (await visit(room.browser(), app)).status == 401


async def test_a_socket_needs_its_name_its_address_and_no_unknown_query(
    room: Room, app: AdminApplication
) -> None:
    room.add("vera", Role.VIEWER)
    browser = room.browser("vera")
    unnamed = await browser.connect("/echo", "other.v1", app=app)
    assert (unnamed.status, unnamed.refusal["error"]["code"]) == (400, "wrong_protocol")
    assert (await visit(browser, app, "/nowhere")).status == 404
    assert (await visit(browser, app, "/echo?a=1")).status == 422
    assert (await visit(browser, app, "/calls/call-demo/echo")).status == 403, "no right"


async def test_a_ticket_opens_one_socket_of_one_session_for_one_purpose_and_thing(
    room: Room, app: AdminApplication
) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("olga", Role.OPERATOR)
    browser, other = room.browser("otto"), room.browser("olga")
    session = room.accounts.session(browser.cookies[browser.cookie])
    assert session is not None
    tickets = room.services.tickets = Tickets(room.clock)
    path = "/calls/call-demo/echo"

    def give(purpose: str = "echo", about: str = "call-demo") -> str:
        return "ticket." + tickets.give(f"session:{session.id}", purpose, about)

    good = give()
    assert (await visit(browser, app, path, good)).status == 101
    again = await visit(browser, app, path, good)
    assert (again.status, again.refusal["error"]["code"]) == (403, "no_ticket")
    stolen = give()
    assert (await visit(other, app, path, stolen)).status == 403
    assert (await visit(browser, app, path, stolen)).status == 403, "it was shown: it is spent"
    assert (await visit(browser, app, path, give("listen"))).status == 403
    assert (await visit(browser, app, path, give(about="call-sales"))).status == 403
    assert (await visit(browser, app, path)).status == 403
    assert (await visit(browser, app, path, give(), give())).status == 403
    late = give()
    room.clock.now += 15
    assert (await visit(browser, app, path, late)).status == 403
    assert (await visit(browser, app, "/calls/call-none/echo", give())).status == 404
    opened = [entry for entry in room.entries() if entry["action"] == "call.echo"]
    assert [entry["result"] for entry in opened] == ["done", "refused"]


async def test_withdrawn_rights_close_the_socket_at_once_and_an_ended_session_too(
    room: Room, app: AdminApplication
) -> None:
    for name in ("vera", "paul", "rosa"):
        room.add(name, Role.OPERATOR)
    seen = {name: await visit(room.browser(name), app) for name in ("vera", "paul", "rosa")}
    room.accounts.change("vera", Role.OPERATOR, (), ("demo",), disabled=False)
    assert await seen["vera"].closed() == 4403
    room.accounts.end_session_by_id(
        next(each.id for each in room.accounts.sessions() if each.user.name == "paul")
    )
    assert await seen["paul"].closed() == 4401
    seen["rosa"].send({"still": "here"})
    assert await seen["rosa"].frame() == {"still": "here"}
    room.accounts.change("rosa", Role.OPERATOR, (), EVERYWHERE, disabled=True)
    assert await seen["rosa"].closed() == 4401


async def test_rights_that_another_process_withdrew_are_noticed_in_time(room: Room) -> None:
    """`cordboard users` works on the same file; a session also ends by its age."""
    room.services.sockets = OpenSockets(
        room.accounts, room.services.run, room.services.internal_error, check_seconds=0.02
    )
    app = AdminApplication((OPEN,), room.services, Guard(AdminUi()), room.page)
    room.add("vera", Role.VIEWER)
    seen = await visit(room.browser("vera"), app)
    room.clock.now += 3_600
    assert await seen.closed() == 4401


async def test_a_client_that_floods_is_put_out_but_not_one_whose_line_had_stalled(
    room: Room, app: AdminApplication
) -> None:
    room.add("vera", Role.VIEWER)
    seen = await visit(room.browser("vera"), app)
    for number in range(900):
        seen.send({"n": number})
    assert [(await seen.frame())["n"] for _ in range(900)][-1] == 899
    for number in range(1_000):
        seen.send({"n": number})
    assert await seen.closed() == 4429


async def test_nobody_watches_on_with_rights_that_cannot_be_looked_at(room: Room) -> None:
    app = AdminApplication((OPEN,), room.services, Guard(AdminUi()), room.page)
    room.add("vera", Role.VIEWER)
    seen = await visit(room.browser("vera"), app)

    def fails(holder: str) -> None:
        raise ZeroDivisionError

    room.accounts.rights_now = fails  # type: ignore[assignment,method-assign]
    room.services.sockets.accounts_changed()
    assert await seen.closed() == 1013
    assert room.errors == ["socket_rights"]


async def test_a_socket_outlives_an_elevation_and_does_not_keep_its_session_alive(
    room: Room, app: AdminApplication
) -> None:
    room.add("anna")
    browser = room.browser("anna")
    seen = await visit(browser, app)
    token = room.accounts.elevate(browser.cookies[browser.cookie])
    seen.send({"a": 1})
    assert await seen.frame() == {"a": 1}
    (before,) = room.accounts.sessions()
    room.clock.now += 3_000
    assert room.accounts.rights_now(f"session:{before.id}") is not None
    (after,) = room.accounts.sessions()
    assert after.seen_at == before.seen_at
    room.clock.now += 700
    assert room.accounts.session(token) is None


async def test_sockets_are_limited_for_all_and_for_each_and_take_no_place_of_requests(
    room: Room,
) -> None:
    room.services.sockets = OpenSockets(
        room.accounts, room.services.run, room.services.internal_error, most=3, most_of_one=2
    )
    app = AdminApplication((OPEN,), room.services, Guard(AdminUi()), room.page, most_at_once=1)
    for name in ("vera", "paul"):
        room.add(name, Role.VIEWER)
    vera, paul = room.browser("vera"), room.browser("paul")
    first = await visit(vera, app)
    assert [(await visit(vera, app)).status for _ in range(2)] == [101, 503]
    assert [(await visit(paul, app)).status for _ in range(2)] == [101, 503]
    await first.leave()
    assert (await visit(vera, app)).status == 101


async def test_an_error_of_ours_is_counted_and_says_nothing(
    room: Room, app: AdminApplication
) -> None:
    room.add("vera", Role.VIEWER)
    seen = await visit(room.browser("vera"), app)
    seen.send("fail")
    assert await seen.closed() == 1011
    assert room.errors == ["admin"]


async def test_a_websocket_asked_for_as_a_page_says_so(room: Room, app: AdminApplication) -> None:
    room.app = app
    room.add("vera", Role.VIEWER)
    answer = await room.browser("vera").get("/echo")
    assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


def test_a_websocket_is_a_get() -> None:
    with pytest.raises(ValueError, match="gives"):
        dataclasses.replace(OPEN, method="POST")


# Over a real connection.


@pytest.fixture
async def port(room: Room, app: AdminApplication) -> AsyncIterator[int]:
    room.add("vera", Role.VIEWER)
    server = HttpServer(AdminUi(port=0), app, idle_seconds=1.2, websockets=ServerWebSocket)
    await server.start()
    yield server.port
    await room.services.sockets.close()
    await server.close()


def key(room: Room) -> dict[str, str]:
    return {"Authorization": room.program("vera").headers["Authorization"]}


def opened(port: int, headers: dict[str, str], **more: Any) -> Any:
    address = f"ws://127.0.0.1:{port}/api/v1/echo"
    return connect(
        address,
        additional_headers=headers,
        subprotocols=[ECHO],
        proxy=None,
        **more,  # type: ignore[list-item]
    )


async def test_an_idle_socket_stays_where_an_idle_request_is_cut(room: Room, port: int) -> None:
    async with opened(port, key(room)) as socket:
        reader, idle = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait_for(reader.read(), PATIENCE)
        await socket.send("hello")
        assert await asyncio.wait_for(socket.recv(), PATIENCE) == "hello"
        idle.close()
        await idle.wait_closed()


async def test_a_refused_handshake_is_a_plain_answer(room: Room, port: int) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with opened(port, {}):
            pass
    assert refused.value.response.status_code == 403
    assert b"not_our_page" in refused.value.response.body


async def test_a_frame_too_large_closes_the_socket(room: Room, port: int) -> None:
    async with opened(port, key(room)) as socket:
        await socket.send("x" * (64 * 1024 + 1))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), PATIENCE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def connections(port: int) -> int:
    """The open connections at the server's end."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(each[1].endswith(f":{port:04X}") and each[3] == "01" for each in lines)


async def test_the_stop_closes_sockets_within_its_grace_also_of_those_who_do_not_read(
    room: Room, app: AdminApplication
) -> None:
    before = LeakSnapshot.take()
    room.add("vera", Role.VIEWER)
    server = HttpServer(AdminUi(port=0), app, websockets=ServerWebSocket)
    await server.start()
    headers = key(room)
    async with opened(server.port, headers) as polite, opened(server.port, headers) as deaf:
        deaf.transport.pause_reading()
        for _ in range(400):  # more than the buffers of both sides hold
            try:
                await asyncio.wait_for(deaf.send("x" * 60_000), 0.2)
            except TimeoutError:
                break
        begun = time.monotonic()
        await room.services.sockets.close()
        await server.close()
        assert time.monotonic() - begun < 20, "the grace, on a busy machine"
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(polite.recv(), PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        await until(lambda: connections(server.port) == 0, "the deaf one is cut off")
        deaf.transport.abort()
    await until(lambda: len(room.services.sockets) == 0, "the end of both")
    await asyncio.to_thread(room.services.close)  # its threads began since then
    await before.assert_nothing_left()
