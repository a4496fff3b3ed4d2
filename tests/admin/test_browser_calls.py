"""Browser calls at the admin port: who may order one, of what, and the page's socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cordboard.accounts.rights import Role
from cordboard.admin.browser_calls import PURPOSE, SocketLink
from cordboard.admin.sockets import SocketClosed
from cordboard.audio.format import SLIN_16K
from cordboard.calls.offer import CallTest
from cordboard.telephony.browser.messages import SUBPROTOCOL, encode_sound
from cordboard.tools.tool import Effects
from cordboard.tools.tool_use import ToolUse
from cordboard_testkit.patience import until

from .conftest import Browser, Room, Visit, code

ORDER = {"context": "demo"}
FRAME = bytes(SLIN_16K.frame_bytes)


def operator(room: Room, name: str = "otto", scope: tuple[str, ...] = ("*",)) -> Browser:
    room.add(name, Role.OPERATOR, (), scope)
    return room.browser(name)


async def ordered(browser: Browser, **more: Any) -> dict[str, Any]:
    answer = await browser.post("/browser-calls", {**ORDER, **more})
    assert answer.status_code == 200, answer.text
    given: dict[str, Any] = answer.json()
    return given


async def opened(browser: Browser, given: dict[str, Any], ticket: str | None = None) -> Visit:
    path = given["url"].removeprefix("/api/v1")
    return await browser.connect(path, SUBPROTOCOL, f"ticket.{ticket or given['ticket']}")


async def test_an_order_becomes_a_call_once_its_page_is_here(room: Room) -> None:
    browser = operator(room)
    caller = {"number": "+49301234", "name": "Erika", "variables": {"ORDER": "A-17"}}
    given = await ordered(browser, caller=caller, provider="local")
    assert given["expires_in"] == 15
    assert room.offers == []
    page = await opened(browser, given)
    assert (page.status, page.protocol) == (101, SUBPROTOCOL)
    (offer,) = room.offers
    assert (offer.call_id, offer.source) == (given["id"], "browser")
    assert (offer.caller_number, offer.caller_name) == ("+49301234", "Erika")
    assert offer.variables == {"ORDER": "A-17", "AI_CONTEXT": "demo", "AI_PROVIDER": "local"}
    media = await offer.media((SLIN_16K,))
    heard: list[bytes] = []
    ended: list[str] = []
    media.on_audio(heard.append)
    media.on_closed(ended.append)
    assert (await page.frame())["type"] == "ready"
    page.send_bytes(encode_sound(0, 0, FRAME))
    await until(lambda: heard == [FRAME])
    page.send({"type": "hangup"})
    assert await page.frame() == {"type": "ended", "reason": "caller_hangup"}
    assert await page.closed() == 1000
    assert ended == ["caller_hangup"]
    await offer.control.release()
    assert len(room.browser_calls) == 0
    line = room.entries()[-1]
    assert (line["action"], line["context"]) == ("browser_call.order", "demo")
    assert "Erika" not in str(line), "made-up callers may be real ones"


async def test_the_engine_ends_the_call_after_its_last_words(room: Room) -> None:
    browser = operator(room)
    page = await opened(browser, await ordered(browser))
    (offer,) = room.offers
    media = await offer.media((SLIN_16K,))
    assert (await page.frame())["type"] == "ready"
    await media.close()
    assert await page.frame() == {"type": "ended", "reason": "hangup"}
    assert await page.closed() == 1000
    await offer.control.release()


@pytest.mark.parametrize(("leave", "reason"), [(1001, "caller_hangup"), (1005, "media_lost")])
async def test_a_page_that_goes_ends_the_call(room: Room, leave: int, reason: str) -> None:
    browser = operator(room)
    page = await opened(browser, await ordered(browser))
    (offer,) = room.offers
    media = await offer.media((SLIN_16K,))
    ended: list[str] = []
    media.on_closed(ended.append)
    await page.leave(leave)
    assert ended == [reason]
    await offer.control.release()
    assert len(room.browser_calls) == 0


async def test_a_refused_call_says_so_to_its_page(room: Room) -> None:
    browser = operator(room)
    page = await opened(browser, await ordered(browser))
    await room.offers[0].control.decline("busy")
    assert await page.frame() == {"type": "ended", "reason": "busy"}
    assert await page.closed() == 1000
    await room.offers[0].control.release()


async def test_a_socket_needs_its_own_ticket_and_its_own_session(room: Room) -> None:
    browser, other = operator(room), operator(room, "olga")
    given, foreign = await ordered(browser), await ordered(other)
    assert (await opened(browser, given, foreign["ticket"])).status == 403
    assert (await opened(other, given)).status == 404, "another's call does not exist"
    room.add("vera", Role.VIEWER)
    assert (await opened(room.browser("vera"), given)).status == 403
    assert (await opened(room.browser(), given)).status == 401
    assert (await opened(browser, given)).status == 101
    assert (await opened(browser, given)).status == 404, "an order is taken once"
    assert len(room.offers) == 1
    await room.browser_calls.close()


async def test_an_order_without_a_page_is_forgotten(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.telephony.browser.source.ORDER_SECONDS", 0.01)
    browser = operator(room)
    given = await ordered(browser)
    await until(lambda: len(room.browser_calls) == 0)
    assert (await opened(browser, given)).status == 404


async def test_a_person_has_two_calls_and_all_together_have_four(room: Room) -> None:
    browsers = [operator(room, name) for name in ("otto", "olga", "omar")]
    for browser in browsers[:2]:
        await ordered(browser)
        await ordered(browser)
    for browser in browsers:
        full = await browser.post("/browser-calls", ORDER)
        assert (full.status_code, code(full)) == (503, "full")
    await room.browser_calls.close()


@pytest.mark.parametrize(
    "order",
    [
        {"provider": "nobody"},
        {"caller": {"variables": {"STRANGE": "1"}}},
        {"caller": {"number": "1>2"}},
        {"caller": {"name": 'a" <1>'}},
        {"answers": {"look": {}}},
        {"extension": "700@phones"},
        {"via": "asterisk", "extension": "700@phones", "tools": "read_only"},
        {"via": "asterisk", "extension": "PJSIP/7&8"},
        {"format": "opus"},
    ],
)
async def test_an_order_that_cannot_be_carried_out_is_invalid(
    room: Room, order: dict[str, Any]
) -> None:
    answer = await operator(room).post("/browser-calls", {**ORDER, **order})
    assert (answer.status_code, code(answer)) == (422, "invalid"), answer.text
    assert len(room.browser_calls) == 0


async def test_no_trial_is_found_without_a_file(room: Room) -> None:
    answer = await operator(room).post("/browser-calls", {**ORDER, "trial": "trial-1"})
    assert (answer.status_code, code(answer)) == (404, "not_there")


@pytest.mark.parametrize(
    ("extension", "scope", "status"),
    [
        ("701@phones", ("*",), 200),
        ("701@phones", ("demo",), 403),
        ("8000@phones", ("*",), 403),
        ("701@trunks", ("*",), 403),
        ("", ("*",), 403),
    ],
)
async def test_only_listed_extensions_are_called_and_by_who_may_see_all_contexts(
    room: Room, extension: str, scope: tuple[str, ...], status: int
) -> None:
    browser = operator(room, scope=scope)
    order = {**ORDER, "via": "asterisk", "extension": extension}
    answer = await browser.post("/browser-calls", order)
    assert answer.status_code == status, answer.text
    if status != 200:
        return
    page = await opened(browser, answer.json())
    assert await page.frame() == {"type": "ended", "reason": "unanswered"}
    assert room.offers == [], "the engine answers when Asterisk brings the call"


async def test_the_tools_that_run_are_those_that_the_person_may_try(room: Room) -> None:
    browser = operator(room)
    canned = {"look": {"message": "It is sunny.", "after_ms": 5}}
    for order in (
        {"tools": "real"},
        {"tools": "read_only"},
        {"tools": "canned", "answers": canned},
    ):
        await opened(browser, await ordered(browser, **order))
        await room.offers[-1].control.release()
    real, read_only, played = (offer.test for offer in room.offers)
    assert real is not None
    assert set(real.tools.effects) == {Effects.READ_ONLY, Effects.IDEMPOTENT}
    assert read_only == CallTest(ToolUse(frozenset({Effects.READ_ONLY})))
    assert played is not None
    assert played.tools.canned is not None
    assert played.tools.canned["look"].message == "It is sunny."
    room.add("anna", Role.ADMIN)
    admin = room.browser("anna")
    await opened(admin, await ordered(admin))
    assert room.offers[-1].test == CallTest(), "every tool, as in a call by telephone"
    await room.browser_calls.close()


async def test_a_page_that_does_not_read_is_seen_by_what_waits_for_it() -> None:
    class Deaf:
        ended: tuple[int, str] | None = None

        async def receive(self) -> str:
            await asyncio.Event().wait()
            return ""

        async def send(self, frame: str | bytes) -> None:
            await asyncio.Event().wait()

        def end(self, code: int, reason: str) -> None:
            self.ended = code, reason

    socket: Any = Deaf()
    link = SocketLink(socket)
    running = asyncio.create_task(link.run(lambda _: None))
    for _ in range(10):
        link.send(FRAME)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert link.waiting_bytes == 10 * len(FRAME)
    link.close(4408, "it does not read")
    assert socket.ended == (4408, "it does not read"), "without its last words"
    running.cancel()
    with pytest.raises((asyncio.CancelledError, SocketClosed)):
        await running


async def test_a_ticket_for_something_else_opens_no_call(room: Room) -> None:
    browser = operator(room)
    given = await ordered(browser)
    session = room.accounts.session(browser.cookies[browser.cookie])
    assert session is not None
    wrong = room.services.tickets.give(f"session:{session.id}", f"{PURPOSE}-other", given["id"])
    assert (await opened(browser, given, wrong)).status == 403
    assert (await opened(browser, given)).status == 101
    await room.browser_calls.close()
