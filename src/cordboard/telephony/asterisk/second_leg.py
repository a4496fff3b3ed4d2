"""A consultation in Asterisk (implements `calls.offer.SecondLeg`).

    hold       the caller's channel moves into a bridge of its own, with music: music never
               reaches a bridge that the agent's media is in
    dial       a new channel calls the other party
    brief      that channel joins the agent's bridge: the agent speaks with the other party
    introduce  so does the caller's
    join       caller and other party are alone in the hold bridge (`native_rtp`)
    follow     a snoop of the caller joins the agent's bridge, for the recording
    back       the caller's channel moves into the agent's bridge

`addChannel` moves a channel that is in another bridge. The second leg is made by
`channels/create` and `dial`, because `POST channels` follows a 302 of the phone to a channel of
its own that nothing owns. It is never a Local channel: in 19 of 28 calls through one that
`POST channels` made, the human heard nothing. All facts measured on 22.10.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from cordboard.calls.offer import (
    CallerGone,
    CallerKey,
    PartyAnswered,
    PartyEvent,
    PartyGone,
    PartyRings,
    TransferTarget,
)
from cordboard.errors import AsteriskError, LineError, LineGone, PartyUnreachable
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Channel, Event, Json

log = structlog.get_logger()

RING_MARGIN = 5.0
"""Seconds by which Asterisk's own limit of ringing is longer than the engine's."""
ENTRY_SECONDS = 2.0
"""Longest time from making a channel to its StasisStart: before, Asterisk refuses to dial or move
it."""
_NO_CONTACT = 500
"""Status of `channels/create` for an endpoint without a contact, and for an unknown one."""
_GONE = (404, 409)
"""Statuses of operations on a channel or bridge that is gone, or music that does not play."""
_UNQUOTED = str.maketrans("", "", '"<>\\')


@dataclass(frozen=True, slots=True)
class CallerSide:
    """The caller's line, as its consultations see it."""

    ari: AriClient
    app: str
    channel_id: str
    bridge_id: str
    """The bridge with the agent's media."""
    prefix: str
    """The beginning of the ids of everything that belongs to the call."""
    name: str
    number: str
    strand: Callable[[str], None]
    """Called with the path of what must be removed once Asterisk is reachable."""
    closed: Callable[[AsteriskLeg], None]
    """Called when a consultation is closed."""


class AsteriskLeg:
    """One consultation of one line."""

    def __init__(
        self,
        caller: CallerSide,
        target: TransferTarget,
        number: int,
        watch: Callable[[PartyEvent], None],
    ) -> None:
        """`number`: of this consultation among those of the call."""
        self.channel_id = f"{caller.prefix}-leg{number}"
        self.hold_id = f"{caller.prefix}-hold{number}"
        self.snoop_id = f"{caller.prefix}-snoop{number}"
        self._caller = caller
        self._target = target
        self._watch = watch
        self._answered = self._gone = False
        self._caller_holds = False
        """The caller is in the hold bridge."""
        self.with_agent = False
        """The other party is in the agent's bridge: their keys are for the agent."""
        self._entered = asyncio.Event()
        """The leg is in our application."""
        self._snooping = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its channels and bridges."""
        return self.channel_id, self.hold_id, self.snoop_id

    # Events.

    def handle(self, event: Event) -> None:
        """Take an event about the second leg or the snoop."""
        channel = event.channel
        if channel is None:
            return
        if channel.id == self.snoop_id:
            if event.type == "StasisStart":
                self._snooping.set()
        elif channel.id == self.channel_id:
            self._handle_party(event, channel)

    def _handle_party(self, event: Event, channel: Channel) -> None:
        if event.type == "StasisStart":
            self._entered.set()
        elif event.type in ("ChannelStateChange", "Dial"):
            self._take_state(channel.state, str(event.body.get("dialstatus", "")))
        elif event.type == "ChannelDestroyed" or (
            # The cause of a leg that was not answered is in ChannelDestroyed.
            self._answered and event.type in ("ChannelHangupRequest", "StasisEnd")
        ):
            self._end(_number(event.body, "cause"), _number(event.body, "tech_cause"))

    def _take_state(self, state: str, dialled: str) -> None:
        if self._gone:
            return
        if state == "Up" or dialled == "ANSWER":
            if not self._answered:
                self._answered = True
                self._watch(PartyAnswered())
        elif state == "Ringing" or dialled == "RINGING":
            self._watch(PartyRings())

    def _end(self, cause: int, status: int) -> None:
        if not self._gone:
            self._gone = True
            self._watch(PartyGone(cause, status))

    def caller_gone(self) -> None:
        """Note that the caller's channel has left us."""
        self._watch(CallerGone())

    def caller_key(self, key: str) -> None:
        """Take a key of the waiting caller."""
        self._watch(CallerKey(key))

    def reconcile(self, present: Mapping[str, Channel]) -> None:
        """Catch up after a break of the connection. `present`: the channels that exist."""
        channel = present.get(self.channel_id)
        if channel is not None:
            self._take_state(channel.state, "")
        elif self._entered.is_set():
            self._end(0, 0)

    # calls.offer.SecondLeg

    async def hold(self) -> None:
        hold, music = self.hold_id, self._target.music
        self._caller_holds = True
        await self._together(
            partial(self._post, f"bridges/{hold}", type="mixing", name=hold),
            partial(self._post, f"bridges/{hold}/addChannel", channel=self._caller.channel_id),
            partial(self._post, f"bridges/{hold}/moh", **({"mohClass": music} if music else {})),
        )

    async def dial(self) -> None:
        caller, target = self._caller, self._target
        shows = target.shown or (caller.name, caller.number)
        name, number = (each.translate(_UNQUOTED) for each in shows)
        shown = {"CONNECTEDLINE(all)": f'"{name}" <{number}>'} if number else {}
        try:
            await self._request(
                "POST",
                "channels/create",
                {"variables": shown},
                endpoint=target.endpoint,
                app=caller.app,
                channelId=self.channel_id,
            )
        except AsteriskError as error:
            if error.status == _NO_CONTACT:
                raise PartyUnreachable(f"{target.endpoint} has no phone") from error
            raise LineError(str(error)) from error
        await _within(self._entered, "the other party's channel did not enter the application")
        seconds = str(round(target.ring_seconds + RING_MARGIN))
        await self._post(f"channels/{self.channel_id}/dial", timeout=seconds)

    async def brief(self) -> None:
        self.with_agent = True
        await self._post(
            f"bridges/{self._caller.bridge_id}/addChannel",
            channel=self.channel_id,
            inhibitConnectedLineUpdates="true",
        )

    async def introduce(self) -> None:
        await self._together(self._stop_music, self._caller_to_agent)

    async def join(self) -> None:
        self.with_agent = False
        channels = [] if self._caller_holds else [self._caller.channel_id]
        self._caller_holds = True
        await self._together(
            self._stop_music,
            partial(
                self._post,
                f"bridges/{self.hold_id}/addChannel",
                channel=",".join([*channels, self.channel_id]),
            ),
        )

    async def follow(self) -> None:
        await self._post(
            f"channels/{self._caller.channel_id}/snoop/{self.snoop_id}",
            spy="both",
            app=self._caller.app,
        )
        await _within(self._snooping, "Asterisk has not begun to listen to the talk")
        await self._post(f"bridges/{self._caller.bridge_id}/addChannel", channel=self.snoop_id)

    async def drop(self) -> None:
        self.with_agent = False
        await self._remove(f"channels/{self.channel_id}")

    async def back(self) -> None:
        if self._snooping.is_set():
            self._snooping.clear()
            await self._remove(f"channels/{self.snoop_id}")
        if self._caller_holds:
            await self._caller_to_agent()

    async def close(self) -> None:
        if self._closing is None:
            # In a task of its own, so that a cancelled call leaves nothing half removed.
            self._closing = asyncio.create_task(self._close(), name=self.hold_id)
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.with_agent = False
        try:
            await self._together(
                *(
                    partial(self._remove, path)
                    for path in (
                        f"channels/{self.channel_id}",
                        f"channels/{self.snoop_id}",
                        f"bridges/{self.hold_id}",
                    )
                )
            )
        finally:
            self._caller.closed(self)

    # Requests.

    async def _caller_to_agent(self) -> None:
        await self._post(
            f"bridges/{self._caller.bridge_id}/addChannel", channel=self._caller.channel_id
        )
        self._caller_holds = False

    async def _stop_music(self) -> None:
        await self._remove(f"bridges/{self.hold_id}/moh")

    async def _together(self, *requests: Callable[[], Coroutine[None, None, None]]) -> None:
        """Send requests at once: ARI handles those of one websocket in order."""
        try:
            async with asyncio.TaskGroup() as group:
                for request in requests:
                    group.create_task(request())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    async def _post(self, path: str, **query: str) -> None:
        try:
            await self._request("POST", path, **query)
        except AsteriskError as error:
            gone = error.status == 404
            raise (LineGone if gone else LineError)(str(error)) from error

    async def _request(self, method: str, path: str, body: Json = None, **query: str) -> None:
        if self._closing is not None:
            raise LineGone("the consultation is over")
        await self._caller.ari.request(method, path, body, **query)

    async def _remove(self, path: str) -> None:
        """Remove something that may be gone already; later, if Asterisk cannot be reached now."""
        try:
            await self._caller.ari.request("DELETE", path)
        except AsteriskError as error:
            if error.status == 0:
                self._caller.strand(path)  # perhaps it was done: the next try will show
            elif error.status not in _GONE:
                log.warning("not_removed", leg=self.channel_id, error=str(error))


async def _within(event: asyncio.Event, otherwise: str) -> None:
    try:
        async with asyncio.timeout(ENTRY_SECONDS):
            await event.wait()
    except TimeoutError:
        raise LineError(otherwise) from None


def _number(body: Mapping[str, Json], key: str) -> int:
    value = body.get(key)
    return value if isinstance(value, int) else 0
