"""An Asterisk that several engines share: what their instances do for each other.

`AsteriskSource` has one if it is given an `Instance`; it does itself what concerns its own calls
(`AsteriskSource.adopt`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from cordboard.calls.offer import MediaOpener, Offer
from cordboard.errors import AsteriskError, CallerEngaged, LineGone
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Channel, Json
from cordboard.telephony.asterisk.control import ADOPTED, AsteriskLine, ringback_id
from cordboard.telephony.asterisk.instance import Instance, revoke
from cordboard.telephony.asterisk.placement import Placement
from cordboard.telephony.asterisk.remains import Remains, holders


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A call whose engine is gone and whose caller Asterisk keeps, as that engine recorded it."""

    call_id: str
    instance: str
    """Name of the instance that had the call last."""
    channel_id: str
    """The caller's channel."""
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def offer(self, line: AsteriskLine, media: MediaOpener, transport: str) -> Offer:
        """Return the call as the offer that its first engine had, on another line."""
        return Offer(
            call_id=self.call_id,
            source="asterisk",
            media=media,
            control=line,
            caller_number=self.caller_number,
            caller_name=self.caller_name,
            called_number=self.called_number,
            variables=self.variables,
            transport=transport,
        )


@dataclass(frozen=True, slots=True)
class _Listed:
    """Channels and bridges of Asterisk at one moment."""

    channels: Mapping[str, Channel]
    held: Mapping[str, Collection[str]]
    """Applications by channel: see `remains.holders`."""
    bridges: Collection[Json]


class SharedAsterisk:
    """The other engines at this Asterisk (implements `control.Fellows`)."""

    def __init__(
        self,
        ari: AriClient,
        instance: Instance,
        in_doubt: Callable[[], bool],
        remove: Callable[[str], Coroutine[None, None, None]],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`in_doubt`: true while other engines may have taken our calls; `remove(path)`: see
        `Remains`."""
        self._ari = ari
        self._in_doubt = in_doubt
        self.instance = instance
        self.placement = Placement(ari, instance.family, spawn)
        self.remains = Remains(ari, remove, spawn)
        self._looking: asyncio.Task[_Listed] | None = None

    # Ours, and theirs

    def may_have_replaced_us(self) -> bool:
        """True while other engines may have taken our calls."""
        return self._in_doubt()

    async def have(self, channel_id: str) -> bool:
        """Return True if a channel that has left us is with another engine. Raises
        `AsteriskError`."""
        held, body = await asyncio.gather(
            holders(self._ari), self._ari.request("GET", f"channels/{quote(channel_id)}")
        )
        if Channel.read(body).application != "Stasis":
            return False
        apps = held.get(channel_id, set()) - {self.instance.app}
        # None: on its way. It leaves the one list a moment before it is in the other.
        return not apps or any(map(self.instance.is_fellow, apps))

    async def took(self, channel_id: str) -> bool:
        """Return True if another engine has a channel that was ours. Raises `AsteriskError`."""
        apps = (await holders(self._ari)).get(channel_id, set())
        # A dead engine's may list it, too, because it watched it before it was ours.
        return self.instance.app not in apps and any(map(self.instance.is_fellow, apps))

    async def channels(self, ours: Collection[str], bridges: Collection[Json]) -> frozenset[str]:
        """Return the channels of the other engines. `ours`: those that our application lists;
        `bridges`: all. Raises `AsteriskError`.

        Each side may list a channel that the other one has, because it watched it before. Then the
        bridge decides.
        """
        held = await holders(self._ari)
        theirs = {each for each, apps in held.items() if any(map(self.instance.is_fellow, apps))}
        in_their_bridges = {
            channel
            for bridge in bridges
            if not bridge["id"].startswith(f"cordboard-{self.instance.app}-")
            for channel in bridge["channels"]
        }
        return frozenset(theirs - (set(ours) - in_their_bridges))

    async def holders(self, channel_id: str) -> frozenset[str]:
        """Return the other instances whose application lists a channel. Raises `AsteriskError`."""
        prefix = f"{self.instance.family}-"
        apps = (await holders(self._ari)).get(channel_id, set())
        return frozenset(app.removeprefix(prefix) for app in apps if self.instance.is_fellow(app))

    async def make_user(self) -> bool:
        """Make our user if this run of Asterisk has not had it. Return False if it has had it, and
        has refused it now: then another engine has removed it. Raises `AsteriskError`."""
        if self.instance.made and not self._ari.refused:
            return True
        return await self.instance.make()

    def record(self, offer: Offer) -> KeptCall | None:
        """Return what another engine needs to adopt a call of ours; None for a test call, whose
        other end is a browser of this engine."""
        line = offer.control
        if not isinstance(line, AsteriskLine) or offer.test is not None:
            return None
        return KeptCall(
            offer.call_id,
            self.instance.name,
            line.channel_id,
            offer.caller_number,
            offer.caller_name,
            offer.called_number,
            offer.variables,
        )

    # For the dialplan

    def publish_room(self, free: int, labels: Collection[str] = ()) -> None:
        """Publish how many more calls this engine takes, 0: none, and the labels that it has.
        Returns at once."""
        self.placement.room(self.instance.app, free, labels)

    def publish_engines(self, names: Collection[str]) -> None:
        """Publish the living instances, this one among them, whenever they change. Returns at
        once."""
        self.placement.engines([self.instance.app_of(name) for name in names])

    def withdraw(self, name: str) -> None:
        """Let the dialplan send no more callers to an instance that is gone. Returns at once."""
        self.placement.room(self.instance.app_of(name), 0)

    # After the end of another instance

    async def fence(self, name: str) -> None:
        """Make sure that an instance that was given up can do nothing if it wakes, and gets no more
        callers. Raises `AsteriskError`: then it may still act."""
        await revoke(self.instance.shared_section, name)
        self.withdraw(name)

    async def find(self, kept: KeptCall) -> Channel:
        """Return the caller's channel. Raises `LineGone` if it is not with the instance of the
        record any more, `CallerEngaged`, and `AsteriskError`."""
        listed = await self._look()
        channel, app = listed.channels.get(kept.channel_id), self.instance.app_of(kept.instance)
        if channel is None:
            raise LineGone("the caller has hung up")
        if app not in listed.held.get(channel.id, ()):
            raise LineGone("the caller is no longer with that engine")
        if channel.application != "Stasis":
            raise CallerEngaged("the caller is elsewhere in the dialplan, and may come back")
        prefix = f"cordboard-{app}-{kept.call_id}"
        if channel.id == f"{prefix}-outbound" and channel.state != "Up":
            raise LineGone("the other side has not answered")
        person = re.compile(rf"{re.escape(prefix)}-(leg|guest)[0-9]+")
        for bridge in listed.bridges:
            members = bridge["channels"]
            if channel.id in members and any(map(person.fullmatch, members)):
                raise CallerEngaged("the caller talks with another person")
        return channel

    async def _look(self) -> _Listed:
        """List what there is. Those who ask at the same time share an answer: a hundred calls may
        be adopted at once. Raises `AsteriskError`."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._list())
            # Retrieved, though all who asked may be gone by then.
            self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._looking)

    async def _list(self) -> _Listed:
        channels, held, bridges = await asyncio.gather(
            self._ari.request("GET", "channels"),
            holders(self._ari),
            self._ari.request("GET", "bridges"),
        )
        return _Listed({each.id: each for each in map(Channel.read, channels)}, held, bridges)

    async def move_here(self, kept: KeptCall, bridge: str = "") -> None:
        """Move the caller to our application, without what their engine played to them in place of
        its sound: it would go on. `bridge`: they enter this one of ours first, and so hear the one
        engine until they hear the other. Raises `LineGone` and `AsteriskError`.

        They leave their old bridge in any case. If it is removed, by their engine or by us, in the
        moment in which they enter another one, Asterisk answers that they are in it and leaves them
        outside for good: 4 of some 3,400 times on 22.10.1, with ten callers a second.
        """
        channel, app = quote(kept.channel_id), self.instance.app_of(kept.instance)
        bridges = [] if bridge else await self._bridges_of(kept.channel_id)
        # Sent at once: Asterisk handles the requests of one websocket in order. A move has to wait
        # until a tone has ended.
        quiet = (
            self._undo("DELETE", f"playbacks/{quote(ringback_id(app, kept.call_id))}"),
            self._undo("DELETE", f"channels/{channel}/moh"),
        )
        if bridge:
            await asyncio.gather(*quiet, self._enter(bridge, kept.channel_id))
            await self._move(kept.channel_id)
            return
        leaving = [
            self._undo("POST", f"bridges/{quote(each)}/removeChannel", channel=kept.channel_id)
            for each in bridges
        ]
        await asyncio.gather(*quiet, *leaving, self._move(kept.channel_id))

    async def _bridges_of(self, channel_id: str) -> list[str]:
        bridges = (await self._look()).bridges
        return [each["id"] for each in bridges if channel_id in each["channels"]]

    async def _undo(self, method: str, path: str, **query: str) -> None:
        try:
            await self._ari.request(method, path, **query)
        except AsteriskError as error:
            if error.status == 0:
                raise  # else it was undone before, or the caller has gone, as the move will show

    async def _enter(self, bridge: str, channel_id: str) -> None:
        try:
            await self._ari.request("POST", f"bridges/{bridge}/addChannel", channel=channel_id)
        except AsteriskError as error:
            if error.status == 400:
                raise LineGone("the caller has hung up") from error
            raise

    async def _move(self, channel_id: str) -> None:
        """Move a channel to our application. Asterisk answers before it has done so, and also when
        it cannot. Raises `LineGone` and `AsteriskError`."""
        path = f"channels/{quote(channel_id)}/move"
        try:
            await self._ari.request("POST", path, app=self.instance.app, appArgs=ADOPTED)
        except AsteriskError as error:
            if error.status == 404:
                raise LineGone("the caller has hung up") from error
            raise

    async def hang_up(self, kept: KeptCall) -> None:
        """Hang up a caller whom no engine can serve. Raises what `find` does."""
        channel = await self.find(kept)
        try:
            await self._ari.request("DELETE", f"channels/{quote(channel.id)}", reason="congestion")
        except AsteriskError as error:
            if error.status != 404:
                raise
        self.clear(kept.instance, kept.call_id)

    async def take_waiting(self, name: str, known: Collection[str]) -> int:
        """Move the callers here whom the dialplan sent to an instance that is gone, and of whom
        no call is known; each is offered as a new call. Return their number.

        `known`: the channels of the calls that are to be adopted. The application of a stopped
        engine accepts callers, who ring then without end; so call this when it is withdrawn, and
        again a second later. Raises `AsteriskError`.
        """
        made_there = re.compile(rf"cordboard-{re.escape(self.instance.app_of(name))}-.*")
        waiting = [
            channel
            for channel in await self.channels_of(name)
            if channel not in known and not made_there.fullmatch(channel)
        ]
        moves = await asyncio.gather(*map(self._move_if_there, waiting))
        return sum(moves)

    async def _move_if_there(self, channel_id: str) -> bool:
        try:
            await self._move(channel_id)
        except LineGone:
            return False
        except AsteriskError as error:
            if error.status == 409:
                return False  # elsewhere in the dialplan, and only watched by that engine
            raise
        return True

    async def channels_of(self, name: str) -> frozenset[str]:
        """Return the channels of an instance; none if Asterisk does not know it any more. Raises
        `AsteriskError`."""
        app = self.instance.app_of(name)
        try:
            application = await self._ari.request("GET", f"applications/{quote(app)}")
        except AsteriskError as error:
            if error.status != 404:
                raise
            return frozenset()
        return frozenset(application["channel_ids"])

    def clear(self, name: str, call_id: str = "") -> None:
        """Remove, in time, what a call of an instance that is gone left; without `call_id`, all
        that the instance left: only once none of its calls is to be adopted any more."""
        self.remains.clear(self.instance.app_of(name), call_id)
