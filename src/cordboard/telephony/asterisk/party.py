"""A phone that the engine has called besides the caller's (implements `calls.offer.Party`).

It is made by `channels/create` and `dial`, because `POST channels` follows a 302 of the phone to a
channel of its own that nothing owns. It is never a Local channel: in 19 of 28 calls through one
that `POST channels` made, the human heard nothing. All facts measured on 22.10.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from cordboard.calls.offer import Media, PartyAnswered, PartyGone, PartyRings, TransferTarget
from cordboard.errors import AsteriskError, LineError, LineGone, PartyUnreachable
from cordboard.telephony.asterisk.ari_messages import Channel, Event, Json
from cordboard.telephony.asterisk.aside import AsteriskAside
from cordboard.telephony.asterisk.caller_side import CallerSide, within

RING_MARGIN = 5.0
"""Seconds by which Asterisk's own limit of ringing is longer than the engine's."""
_NO_CONTACT = 500
"""Status of `channels/create` for an endpoint without a contact, and for an unknown one."""
_UNQUOTED = str.maketrans("", "", '"<>\\')


class AsteriskParty:
    """One phone: called, answered, gone; and sound for it alone."""

    def __init__(
        self,
        caller: CallerSide,
        target: TransferTarget,
        channel_id: str,
        watch: Callable[[PartyRings | PartyAnswered | PartyGone], None],
    ) -> None:
        self.channel_id = channel_id
        self._caller = caller
        self._target = target
        self._tell = watch
        self._answered = self._gone = False
        self._bridged = False
        """The party is in a bridge."""
        self._entered = asyncio.Event()
        """The channel is in our application."""
        self._aside: AsteriskAside | None = None
        self._asides = 0
        self._one_at_a_time = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its channels and bridges."""
        return (self.channel_id, *(self._aside.ids if self._aside is not None else ()))

    # Events.

    def handle(self, event: Event) -> None:
        """Take an event about one of its channels."""
        channel = event.channel
        if channel is None:
            return
        if channel.id == self.channel_id:
            self._handle_phone(event, channel)
        elif self._aside is not None and channel.id in self._aside.ids:
            self._aside.handle(event, channel.id)

    def _handle_phone(self, event: Event, channel: Channel) -> None:
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
                self._tell(PartyAnswered())
        elif state == "Ringing" or dialled == "RINGING":
            self._tell(PartyRings())

    def _end(self, cause: int, status: int) -> None:
        if not self._gone:
            self._gone = True
            self._end_aside()
            self._tell(PartyGone(cause, status))

    def _end_aside(self) -> None:
        if self._aside is not None:
            self._aside.end()

    def reconcile(self, present: Mapping[str, Channel]) -> None:
        """Catch up after a break of the connection. `present`: the channels that exist."""
        channel = present.get(self.channel_id)
        if channel is not None:
            self._take_state(channel.state, "")
        elif self._entered.is_set():
            self._end(0, 0)

    # calls.offer.Party

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
        await within(self._entered, "the other party's channel did not enter the application")
        seconds = str(round(target.ring_seconds + RING_MARGIN))
        await self._post(f"channels/{self.channel_id}/dial", timeout=seconds)

    def aside(self) -> AbstractAsyncContextManager[Media]:
        return self._sound()

    @asynccontextmanager
    async def _sound(self, bridge: str = "") -> AsyncIterator[Media]:
        """Open sound for the party alone, or for those in that bridge."""
        async with self._one_at_a_time:
            if self._closing is not None or self._gone:
                raise LineGone("they have hung up")
            self._asides += 1
            aside = self._aside = AsteriskAside(self._caller, self.channel_id, self._asides)
            try:
                yield await aside.open(bridged=self._bridged, bridge=bridge)
            finally:
                await aside.close()

    async def drop(self) -> None:
        await self._caller.remove(f"channels/{self.channel_id}")

    async def close(self) -> None:
        if self._closing is None:
            # In a task of its own, so that a cancelled call leaves nothing half removed.
            self._closing = asyncio.create_task(self._close(), name=f"close {self.channel_id}")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._end_aside()
        try:
            await self._remove_all()
            async with self._one_at_a_time:
                pass  # `aside` has removed the private sound
        finally:
            self._caller.closed(self)

    async def _remove_all(self) -> None:
        """Remove what the party has, but its private sound."""
        await self.drop()

    # Requests.

    async def _post(self, path: str, **query: str) -> None:
        try:
            await self._request("POST", path, **query)
        except AsteriskError as error:
            gone = error.status == 404
            raise (LineGone if gone else LineError)(str(error)) from error

    async def _request(self, method: str, path: str, body: Json = None, **query: str) -> None:
        if self._closing is not None:
            raise LineGone("they have left the call")
        await self._caller.ari.request(method, path, body, **query)


def _number(body: Mapping[str, Json], key: str) -> int:
    value = body.get(key)
    return value if isinstance(value, int) else 0
