"""The live feed: one websocket for each page, with as many topics as it shows, and a twin for curl.

    ledger event ──▶ LiveCalls (facts, rows) ──4 times a second──▶ Rows ──┐
                          └── tail of a followed call ──at once──▶ Events ├──▶ Viewer ──▶ socket
    engine, servers, alarms ──once a second──▶ State ─────────────────────┘

Without viewers no row is made and no timer runs. A viewer pulls its frames when its socket has room
(`cordboard.admin.live_topics`), so a slow viewer delays neither the engine nor the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Literal

import structlog
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import from_json
from starlette.responses import Response

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import (
    UNRECORDED,
    Ask,
    Content,
    Endpoint,
    Frames,
    Gives,
    LastingAnswer,
    Scope,
    Takes,
)
from cordboard.admin.engine import EngineState, LogLevel, kept_log, state_for
from cordboard.admin.forwarding import Relay
from cordboard.admin.insights import AlarmStates, alarms_for
from cordboard.admin.live_feed import PROTOCOL, Feed
from cordboard.admin.live_topics import Events, LogLines, Missed, Rows, State, Topic
from cordboard.admin.mcp import Servers, servers_for
from cordboard.admin.other_engines import OtherEngines
from cordboard.admin.pace import Pace
from cordboard.admin.sockets import INTERNAL, TOO_SLOW, SocketClosed
from cordboard.api.answers import to_json
from cordboard.calls.recording.call_recording import RecordingState
from cordboard.errors import RequestRefused, StoreUnavailable

MOST_TOPICS = 32
"""Subscriptions of one viewer."""
MOST_MISSED = 3
"""Restarts within `MISSED_SECONDS` after which a viewer is disconnected."""
MISSED_SECONDS = 60.0
KEEP_ALIVE_SECONDS = 20.0
SUBSCRIBE = Pace("subscribe", 120, 60)

log = structlog.get_logger()


class Subscribe(Takes):
    op: Literal["subscribe"] = "subscribe"
    id: int = Field(ge=0, le=2**31)
    """Chosen by the client; each frame of the topic has it."""
    topic: Literal["calls", "call", "engine", "mcp", "alarms", "log"]
    call: str = Field("", max_length=100)
    """The call's id, for the topic `call`; for `log`, to have its lines alone."""
    from_ms: int = Field(0, ge=0)
    """Topic `call`: leave out what came earlier in the call."""
    after: int = Field(0, ge=0)
    """Topics `call` and `log`: the `seq` of the last frame that the client has, to go on without a
    gap."""
    level: LogLevel = "debug"
    """Topic `log`: the least level."""


class Unsubscribe(Takes):
    op: Literal["unsubscribe"] = "unsubscribe"
    id: int


class LiveRow(BaseModel):
    """One live call. In `rows` only the changed fields are present, besides `call_id`."""

    call_id: str
    started_at: str
    source: str
    direction: Literal["in", "out"]
    """`out`: the engine placed the call, and the caller is the called one."""
    context: str
    provider: str
    config: str
    """Version of the configuration, as in `call.offered`."""
    caller_number: str
    """Masked to its last four digits without the grant `personal`."""
    caller_name: str
    """Empty without the grant `personal`."""
    called_number: str
    state: str
    """`offered`, `connecting`, `greeting`, `listening`, `thinking`, `tool`, `speaking`, `held`,
    `on_hold`, `transferring` or `ending`."""
    speaking: Literal["caller", "agent", "nobody"]
    turn: int
    last: dict[str, Any] | None
    """The last words: `who`, `text`, `at_ms`. Without `personal` the text is empty."""
    waiting_since_ms: int | None
    """Time in the call since which the caller has been waiting for an answer."""
    latency: dict[str, int] | None
    """`last_ms`, `p50_ms`, `worst_ms` of the call's answers."""
    tools: dict[str, Any]
    """`running` (names), `calls`, `failed`."""
    cost: dict[str, str] | None
    """`amount`, `currency`; null if no price is known."""
    recording: RecordingState
    """`asking`: the caller may still consent; `muted`: the caller enters a secret."""
    troubles: int
    transport: str
    """The way of the sound: `audiosocket`, `websocket`, `rtp`, `browser` or that of a plug-in."""
    test: bool
    """True if a person made the call to try the agent."""
    queued_ms: int
    """Sound of the agent that the caller has yet to hear, rounded up to half seconds."""
    watched: int
    """Number of viewers who follow the call (topic `call`)."""
    listened: int
    """Number of people who listen to the call now."""
    human: str
    """Destination of the transfer whose human is on the line now; empty: none."""
    operator: str
    """Destination from which an operator has joined the call; empty: none."""
    node: str
    """Node that has the call; empty without a cluster."""
    unknown_since: str | None
    """Time since which the node has not answered, so that the call may have changed; None while it
    answers."""


class LiveFrame(Gives):
    """A frame of a topic, or the refusal of a subscription."""

    id: int | None
    seq: int = 0
    snapshot: list[LiveRow] | EngineState | Servers | AlarmStates | None = None
    """The whole state: the first frame of each topic but `call`, and after a `restart`."""
    rows: list[dict[str, Any]] = Field([])
    gone: list[str] = Field([])
    """Ended calls."""
    events: list[dict[str, Any]] = Field([])
    """Lines of the call's ledger."""
    partial: str | None = None
    """The words of the caller's present turn so far, when they have changed; empty once they are an
    event."""
    lines: list[dict[str, Any]] = Field([])
    """Lines of the log, as `cordboard run --log-json` writes them."""
    restart: bool = False
    """Forget what you have: the connection was too slow, and frames are missing before this."""
    over: bool = False
    """The call has ended, and all of it was sent."""
    error: dict[str, str] | None = None
    """`code` and `message`, as in the other answers."""


class Viewer:
    """One connection that watches."""

    def __init__(self, feed: Feed, ask: Ask) -> None:
        self._feed = feed
        self._ask = ask
        self._topics: dict[int, Topic] = {}
        self._missed: deque[float] = deque(maxlen=MOST_MISSED)
        self._others = ExitStack()
        """Has the other engines followed, for the topic `calls`."""
        self.wake = asyncio.Event()
        self.calls: set[str] = set()
        """Ids of the calls that are followed, and were."""

    async def subscribe(self, wanted: Subscribe) -> None:
        """Begin a topic; one with the same id ends. Raises `RequestRefused`."""
        services, who = self._ask.services, self._ask.who
        services.paces.take(SUBSCRIBE, who.name)
        if len(self._topics) >= MOST_TOPICS and wanted.id not in self._topics:
            raise RequestRefused(429, "too_often", f"at most {MOST_TOPICS} topics at once")
        topic = await self._topic(wanted)
        self.unsubscribe(wanted.id)
        self._topics[wanted.id] = topic
        self.wake.set()

    def unsubscribe(self, which: int) -> None:
        """End a topic, if there is one."""
        topic = self._topics.pop(which, None)
        if topic is not None:
            topic.close()

    def close(self) -> None:
        """End all topics."""
        for which in [*self._topics]:
            self.unsubscribe(which)
        self._others.close()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield each frame when the one before it has gone out, and an empty one after a while of
        silence. Raises `RequestRefused` 408 if the client is too slow for that."""
        while True:
            self.wake.clear()
            for which, topic in [*self._topics.items()]:
                async for inside in self._all(topic):
                    if self._topics.get(which) is not topic:
                        break
                    yield b'{"id":%d,%b}' % (which, inside)
                if topic.over and self._topics.get(which) is topic:
                    self.unsubscribe(which)
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):  # `wait_for` of 3.11 can
                    await self.wake.wait()  # lose a cancellation that comes with the event
            except TimeoutError:
                yield b""

    async def _all(self, topic: Topic) -> AsyncIterator[bytes]:
        """Yield the frames that a topic has by now."""
        while True:
            try:
                inside = await topic.next()
            except Missed:
                now = asyncio.get_running_loop().time()
                self._missed.append(now)
                if len(self._missed) == MOST_MISSED and now - self._missed[0] < MISSED_SECONDS:
                    raise RequestRefused(TOO_SLOW - 4000, "too_slow", "too slow") from None
                continue
            if inside is None:
                return
            yield inside

    async def _topic(self, wanted: Subscribe) -> Topic:
        services, rights = self._ask.services, self._ask.who.rights
        if wanted.topic == "calls":
            self._ask.need(Permission.CALLS_READ)
            self._feed.live.refresh()
            own = bool(self._ask.who_node)
            if services.others is not None and not own:
                self._others.enter_context(services.others.viewing())
            return Rows(self._feed.live, rights, self._feed.frame, own)
        if wanted.topic == "call":
            return await self._events(wanted)
        if wanted.topic == "log":
            self._ask.need(Permission.ENGINE_READ)
            self._ask.need_all_contexts()
            log = kept_log(self._ask)
            personal = rights.may(Permission.PERSONAL)
            return LogLines(log, services, personal, wanted.call, wanted.level, wanted.after)
        states: dict[str, tuple[Permission, Callable[[Rights], BaseModel]]] = {
            "engine": (Permission.ENGINE_READ, partial(state_for, services)),
            "mcp": (Permission.MCP_READ, partial(servers_for, services)),
            "alarms": (Permission.ALARMS_READ, partial(alarms_for, services)),
        }
        permission, make = states[wanted.topic]
        self._ask.need(permission)

        def written() -> bytes:
            return to_json(make(rights).model_dump(mode="json", warnings=False))

        shared = partial(self._feed.state, (wanted.topic, rights), written)
        return State(shared, self._feed.second)

    async def _events(self, wanted: Subscribe) -> Topic:
        ask = self._ask
        ask.need(Permission.CALLS_READ)
        facts = self._feed.live.facts(wanted.call)
        if facts is None and ask.services.others is not None and not ask.who_node:
            return await self._relayed(ask.services.others, wanted)
        if facts is None or not ask.who.rights.covers(facts.call.context_name):
            raise RequestRefused(404, "not_there", "there is no such live call")
        is_own = ask.services.browser.is_call_of(wanted.call, ask.who.name)
        personal = ask.who.rights.may(Permission.PERSONAL)
        if personal and not is_own:  # the words of another caller are shown
            context = facts.call.context_name
            await ask.record(action="call.watched", on=wanted.call, context=context)
        self.calls.add(wanted.call)
        return Events(facts, ask.services, personal or is_own, wanted.from_ms, wanted.after)

    async def _relayed(self, others: OtherEngines, wanted: Subscribe) -> Topic:
        """Follow a call of another engine, which masks it and has a line in its audit, too."""
        ask, place = self._ask, await others.find(wanted.call)
        if place is None or not ask.who.rights.covers(place.context):
            raise RequestRefused(404, "not_there", "there is no such live call")
        if ask.who.rights.may(Permission.PERSONAL):
            detail = {"on_node": place.node}
            await ask.record(
                action="call.watched", on=wanted.call, context=place.context, detail=detail
            )
        subscribe = wanted.model_dump(mode="json", exclude={"id", "op"})
        return Relay(ask, place, subscribe, self.wake.set)


async def watch(ask: Ask) -> None:
    """Watch the live calls, one call, the engine, its log, MCP servers and alarms, over a
    websocket.

    Frames and topics: docs/admin-live.md.
    """
    socket, viewer = ask.socket, Viewer(ask.services.feed, ask)
    with ask.services.feed.viewing(viewer):
        sending = asyncio.create_task(_send_all(ask, viewer), name="live-viewer")
        try:
            while True:
                refusal = await _command(viewer, await socket.receive())
                if refusal is not None:
                    await socket.send(refusal)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending


async def _send_all(ask: Ask, viewer: Viewer) -> None:
    """Send the viewer's frames, until the client is gone. Border of its task."""
    socket = ask.socket
    try:
        async for frame in viewer.frames():
            if frame:
                await socket.send(frame.decode())
    except RequestRefused as refused:
        socket.end(4000 + refused.status, str(refused))
    except Exception as error:  # task border
        if not isinstance(error, SocketClosed):
            log.exception("live_viewer_failed", error=repr(error))
            ask.services.internal_error("live")
        socket.end(INTERNAL, "an error of the engine; its log has the details")


async def _command(viewer: Viewer, text: str | bytes) -> str | None:
    """Do what a frame of the client asks for; return a refusal."""
    which = None
    try:
        content = from_json(text)
        which = content.get("id") if isinstance(content, dict) else None
        if isinstance(content, dict) and content.get("op") == "unsubscribe":
            viewer.unsubscribe(Unsubscribe.model_validate(content).id)
        else:
            await viewer.subscribe(Subscribe.model_validate(content))
    except RequestRefused as refused:
        error = {"code": refused.code, "message": str(refused)}
    except StoreUnavailable as unavailable:
        error = {"code": "store_unavailable", "message": str(unavailable)}
    except ValueError as wrong:  # also a ValidationError
        error = {"code": "invalid", "message": _fault(wrong)}
    else:
        return None
    known = isinstance(which, int) and abs(which) < 2**53
    return to_json({"id": which if known else None, "error": error}).decode()


def _fault(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return "send a JSON object"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


class Watched(Takes):
    topics: str = Field("calls", max_length=1_000)
    """Such as `calls,engine`, `call:ID` or `log:ID`; each frame's `id` is the place in the list."""


async def stream(ask: Ask) -> Response:
    """Watch the same topics as server-sent events, for curl."""
    viewer = Viewer(ask.services.feed, ask)
    try:
        for number, name in enumerate(ask.query.topics.split(",")):
            topic, _, call = name.partition(":")
            try:
                wanted = Subscribe.model_validate({"id": number, "topic": topic, "call": call})
            except ValidationError as error:
                raise RequestRefused(422, "invalid", f"topics: {_fault(error)}") from None
            await viewer.subscribe(wanted)
    except BaseException:
        viewer.close()
        raise

    async def lines() -> AsyncIterator[bytes]:
        with ask.services.feed.viewing(viewer):
            async for frame in viewer.frames():
                yield b"data: %b\n\n" % frame if frame else b": still here\n\n"

    return LastingAnswer(lines(), ask, viewer.close)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/live",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=Frames(PROTOCOL, (Subscribe, Unsubscribe), (LiveFrame,)),
        audit=UNRECORDED,
        does=watch,
        forwards=True,
    ),
    Endpoint(
        "GET",
        "/live/sse",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=Watched,
        gives=Content(("text/event-stream",)),
        audit=UNRECORDED,
        does=stream,
    ),
)
