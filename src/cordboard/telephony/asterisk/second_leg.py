"""A consultation in Asterisk (implements `calls.offer.SecondLeg`).

    hold       the caller's channel moves into a bridge of its own, with music: music never
               reaches a bridge that the agent's media is in
    dial       a new channel calls the other party
    brief      that channel joins the agent's bridge: the agent speaks with the other party
    introduce  so does the caller's
    join       caller and other party are alone in the hold bridge (`native_rtp`)
    follow     a snoop of the caller joins the agent's bridge, for the recording
    back       the caller's channel moves into the agent's bridge

`addChannel` moves a channel that is in another bridge. All facts measured on 22.10.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from cordboard.calls.offer import CallerGone, CallerKey, PartyEvent, TransferTarget
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.telephony.asterisk.bridge_sound import restore_sound
from cordboard.telephony.asterisk.caller_side import CallerSide, together, within
from cordboard.telephony.asterisk.party import AsteriskParty


class AsteriskLeg(AsteriskParty):
    """One consultation of one line."""

    def __init__(
        self,
        caller: CallerSide,
        target: TransferTarget,
        number: int,
        watch: Callable[[PartyEvent], None],
    ) -> None:
        """`number`: of this consultation among those of the call."""
        super().__init__(caller, target, f"{caller.prefix}-leg{number}", watch)
        self.hold_id = f"{caller.prefix}-hold{number}"
        self.snoop_id = f"{caller.prefix}-snoop{number}"
        self._watch = watch
        self._caller_holds = False
        """The caller is in the hold bridge."""
        self.with_agent = False
        """The other party is in the agent's bridge: their keys are for the agent."""
        self.joined = False
        """Caller and other party talk in the hold bridge."""
        self._snooping = asyncio.Event()

    @property
    def ids(self) -> tuple[str, ...]:
        return (*super().ids, self.hold_id, self.snoop_id)

    # Events.

    def handle(self, event: Event) -> None:
        """Take an event about the second leg, its private sound, or the snoop."""
        channel = event.channel
        if channel is not None and channel.id == self.snoop_id:
            if event.type == "StasisStart":
                self._snooping.set()
        else:
            super().handle(event)

    def caller_gone(self) -> None:
        """Note that the caller's channel has left us."""
        self._watch(CallerGone())

    def caller_key(self, key: str) -> None:
        """Take a key of the waiting caller."""
        self._watch(CallerKey(key))

    # calls.offer.SecondLeg

    async def hold(self) -> None:
        hold, music = self.hold_id, self._target.music
        self._caller_holds = True
        await together(
            partial(self._post, f"bridges/{hold}", type="mixing", name=hold),
            partial(self._post, f"bridges/{hold}/addChannel", channel=self._caller.channel_id),
            partial(self._post, f"bridges/{hold}/moh", **({"mohClass": music} if music else {})),
        )

    async def brief(self) -> None:
        self.with_agent = self._bridged = True
        await self._post(
            f"bridges/{self._caller.bridge_id}/addChannel",
            channel=self.channel_id,
            inhibitConnectedLineUpdates="true",
        )

    async def introduce(self) -> None:
        await together(self._stop_music, self._caller_to_agent)
        await restore_sound(self._caller.ari, self._caller.bridge_id)

    async def join(self) -> None:
        self.with_agent = False
        self._bridged = self.joined = True
        channels = [] if self._caller_holds else [self._caller.channel_id]
        self._caller_holds = True
        await together(
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
        await within(self._snooping, "Asterisk has not begun to listen to the talk")
        await self._post(f"bridges/{self._caller.bridge_id}/addChannel", channel=self.snoop_id)

    async def drop(self) -> None:
        self.with_agent = self.joined = False
        await super().drop()

    async def back(self) -> None:
        if self._snooping.is_set():
            self._snooping.clear()
            await self._caller.remove(f"channels/{self.snoop_id}")
        if self._caller_holds:
            await self._caller_to_agent()

    async def _remove_all(self) -> None:
        remove = self._caller.remove
        await together(
            self.drop,
            partial(remove, f"channels/{self.snoop_id}"),
            partial(remove, f"bridges/{self.hold_id}"),
        )

    # Requests.

    async def _caller_to_agent(self) -> None:
        await self._post(
            f"bridges/{self._caller.bridge_id}/addChannel", channel=self._caller.channel_id
        )
        self._caller_holds = False

    async def _stop_music(self) -> None:
        await self._caller.remove(f"bridges/{self.hold_id}/moh")
