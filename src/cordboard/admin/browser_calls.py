"""Endpoints of the calls that a person makes from the browser, to try an agent.

The order is a request like any other; the page then opens the call's websocket with the ticket of
the answer. docs/browser-call.md describes the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Frames, Gives, Takes
from cordboard.admin.pace import TRY
from cordboard.admin.sockets import Socket, SocketClosed
from cordboard.admin.tickets import SECONDS
from cordboard.admin.trials import ToolChoice, own_trial
from cordboard.calls.call_registry import Aside
from cordboard.calls.offer import CallTest
from cordboard.chat.trial_runs import Trial
from cordboard.config.schema import Config
from cordboard.errors import RequestRefused
from cordboard.telephony.browser.media import NORMAL
from cordboard.telephony.browser.messages import OF_ENGINE, OF_PAGE, SUBPROTOCOL, FormatName
from cordboard.telephony.browser.source import MOST_OF_ONE, Order

PURPOSE = "browser-call"
"""Purpose of the tickets."""
LAST_WORDS_SECONDS = 1.0
"""Time for a closing page to read what was sent before the end."""


class MadeUpCaller(Takes):
    number: str = Field("", max_length=40, pattern=r"^[0-9A-Za-z+*#_.-]*$")
    name: str = Field("", max_length=80, pattern=r'^[^\x00-\x1f\x7f"<>\\]*$')
    variables: dict[str, Annotated[str, Field(max_length=1_000)]] = Field({}, max_length=50)
    """Channel variables that the context declares."""


class BrowserCall(ToolChoice):
    context: str = Field(max_length=100)
    provider: str = Field("", max_length=100)
    """Left out: that of the context."""
    trial: str = Field("", max_length=64)
    """A draft that runs aside; left out: the configuration in force."""
    via: Literal["engine", "asterisk"] = "engine"
    extension: str = Field("", pattern=r"^([0-9A-Za-z*#+_-]{1,80}@[0-9A-Za-z_-]{1,80})?$")
    """With `asterisk`: the extension to call, one of `admin.ui.extensions`."""
    caller: MadeUpCaller = MadeUpCaller()
    format: FormatName = "slin16"

    def facts(self) -> dict[str, Any]:
        """Return what is called, and how."""
        called = {"via": self.via, "extension": self.extension, "trial": self.trial}
        return {"tools": self.tools, **{key: text for key, text in called.items() if text}}


class BrowserCallOrdered(Gives):
    id: str
    """Id of the call, also of one that comes back to the engine through Asterisk."""
    ticket: str
    url: str
    """Path of its websocket."""
    expires_in: int
    """Seconds within which the page must connect."""


async def order_browser_call(ask: Ask) -> BrowserCallOrdered:
    """Order a call from the browser. The page has 15 s to open its websocket.

    It is admitted, answered and recorded like a call by telephone, and marked as a test.
    """
    body: BrowserCall = ask.body
    browser, config = ask.services.browser, ask.services.config()
    trial = own_trial(ask, body.trial)
    _check(body, _config(ask, body), trial)
    if body.via == "asterisk":
        _check_extension(ask, body, config)
    if len(browser) >= config.admin.ui.calls or browser.of(ask.who.name) >= MOST_OF_ONE:
        message = f"you have {MOST_OF_ONE} calls, or all have admin.ui.calls of them, already"
        raise RequestRefused(503, "full", message, headers={"Retry-After": "5"})
    call_id = browser.order(
        Order(
            owner=ask.who.name,
            context=body.context,
            provider=body.provider,
            number=body.caller.number,
            name=body.caller.name,
            variables=body.caller.variables,
            format=body.format,
            test=CallTest(body.use(ask.who.rights), body.trial),
            aside=_aside(trial) if trial is not None else None,
            used_by=trial.used_by if trial is not None else None,
            extension=body.extension if body.via == "asterisk" else "",
        )
    )
    return BrowserCallOrdered(
        id=call_id,
        ticket=ask.services.tickets.give(ask.who.holder, PURPOSE, call_id),
        url=f"/api/v1/browser-calls/{call_id}",
        expires_in=int(SECONDS),
    )


async def carry_browser_call(ask: Ask) -> None:
    """Carry the sound of an ordered call, both ways, until either side ends it.

    Binary frames have 20 ms of sound each; docs/browser-call.md describes them.
    """
    link = SocketLink(ask.socket)
    call_id = ask.params["call_id"]
    browser = ask.services.browser
    if browser.ordered(call_id, ask.who.name) is None:  # its time was over meanwhile
        raise RequestRefused(404, "not_there", "the call was not begun in time")
    media = browser.connect(call_id, link)
    problem = ""
    try:
        await link.run(media.received)
    except SocketClosed as closed:
        problem = "" if closed.clean else "the connection to the page broke"
    finally:
        link.over()
        media.gone(problem)


class SocketLink:
    """A page's socket, for `telephony.browser.media` (implements its `PageLink`)."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._frames: deque[str | bytes] = deque()
        self._more = asyncio.Event()
        self._over = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._last_words: asyncio.TimerHandle | None = None
        self.waiting_bytes = 0

    def send(self, frame: str | bytes) -> None:
        if self._closing is None and not self._over.is_set():
            self._frames.append(frame)
            self.waiting_bytes += len(frame)
            self._more.set()

    def close(self, code: int, reason: str) -> None:
        if self._closing is not None or self._over.is_set():
            return
        self._closing = code, reason
        if code != NORMAL:  # it breaks the protocol, or does not read
            self._socket.end(code, reason)
            return
        loop = asyncio.get_running_loop()
        self._more.set()
        end = self._socket.end
        self._last_words = loop.call_later(LAST_WORDS_SECONDS, end, code, reason)

    async def closed(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), 2 * LAST_WORDS_SECONDS)

    async def run(self, received: Callable[[str | bytes], None]) -> None:
        """Pass the page's frames on, and send those of the engine. Raises `SocketClosed`."""
        sending = asyncio.create_task(self._send(), name="browser-call-send")
        try:
            while True:
                received(await self._socket.receive())
        finally:
            sending.cancel()
            await asyncio.wait((sending,))

    def over(self) -> None:
        """Note that the socket is gone."""
        self._over.set()
        if self._last_words is not None:
            self._last_words.cancel()

    async def _send(self) -> None:
        """Send the frames in the order of their coming, until the end. A task border."""
        try:
            while True:
                while self._frames:
                    frame = self._frames.popleft()
                    await self._socket.send(frame)
                    self.waiting_bytes -= len(frame)
                if self._closing is not None:
                    self._socket.end(*self._closing)
                    return
                self._more.clear()
                await self._more.wait()
        except SocketClosed:
            self._socket.end(NORMAL, "")  # the receiver may not have noticed


def _context_of_order(ask: Ask) -> str | None:
    body: BrowserCall = ask.body
    return body.context if body.context in _config(ask, body).contexts else None


def _context_of_ordered(ask: Ask) -> str | None:
    order = ask.services.browser.ordered(ask.params["call_id"], ask.who.name)
    return order.context if order is not None else None


def _aside(trial: Trial) -> Aside:
    providers = trial.providers
    return Aside(
        trial.generation, lambda bound: providers.open(bound.context_name, bound.provider_name)
    )


def _config(ask: Ask, body: BrowserCall) -> Config:
    trial = own_trial(ask, body.trial)
    return ask.services.config() if trial is None else trial.generation.config


def _check(body: BrowserCall, config: Config, trial: Trial | None) -> None:
    """Raise `RequestRefused` 422 for what the configuration does not have."""
    faults = []
    if body.provider and body.provider not in config.providers:
        faults.append(f"provider: unknown; known: {', '.join(config.providers)}")
    if trial is not None and body.context != trial.context:
        faults.append(f"context: the trial is of the context {trial.context}")
    declared = config.contexts[body.context].variables
    if strange := [name for name in body.caller.variables if name not in declared]:
        known = ", ".join(declared) or "none"
        faults.append(
            f"caller.variables: {body.context} takes no {strange[0][:64]!r}; it has {known}"
        )
    if body.via == "engine" and body.extension:
        faults.append("extension: it belongs to via: asterisk")
    if body.via == "asterisk" and (body.trial or body.tools != "real"):
        faults.append("via: a call through Asterisk has neither a trial nor other tools than real")
    if faults:
        raise RequestRefused(422, "invalid", "; ".join(faults))


def _check_extension(ask: Ask, body: BrowserCall, config: Config) -> None:
    """Raise `RequestRefused` 403 unless the extension may be called. Its dialplan may lead to any
    context, so a person must be allowed to see all of them."""
    if not ask.who.rights.everywhere:
        raise RequestRefused(403, "forbidden", "a dialplan leads to any context; yours are limited")
    patterns = config.admin.ui.extensions
    if not any(fnmatchcase(body.extension, pattern) for pattern in patterns):
        known = ", ".join(patterns) or "none"
        message = f"the extension is not among those of admin.ui.extensions: {known}"
        raise RequestRefused(403, "extension_not_allowed", message)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/browser-calls",
        may=Permission.TRY_CALL,
        scope=_context_of_order,
        takes=BrowserCall,
        gives=BrowserCallOrdered,
        audit="browser_call.order",
        does=order_browser_call,
        pace=TRY,
    ),
    Endpoint(
        "GET",
        "/browser-calls/{call_id}",
        may=Permission.TRY_CALL,
        scope=_context_of_ordered,
        takes=None,
        gives=Frames(SUBPROTOCOL, OF_PAGE, OF_ENGINE, ticket=PURPOSE),
        audit=UNRECORDED,
        does=carry_browser_call,
    ),
)
