"""Sound for one party alone, over what they hear otherwise.

A media channel of its own is in a bridge of its own: with the party itself, while it is in no other
bridge; otherwise with a snoop that whispers to it.

    engine ──▶ media ──▶ [ room ] ──▶ snoop, `whisper=out` ──▶ the party's phone

It can also be in the bridge of those who talk, and is heard by all of them then.

Measured on 22.10.1: such a whisper is heard after 34 to 38 ms, by the party alone, and the parties
of its bridge go on hearing each other without a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from cordboard.audio.format import SLIN_8K
from cordboard.calls.offer import Media
from cordboard.errors import AsteriskError, LineError, LineGone, MediaError
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.telephony.asterisk.bridge_sound import restore_sound
from cordboard.telephony.asterisk.caller_side import CallerSide, together, within
from cordboard.telephony.asterisk.media_channel import open_media_channel
from cordboard.telephony.asterisk.media_path import LineMedia, MediaArrival

OPEN_SECONDS = 5.0
"""Longest time until the sound can begin; a few tens of ms are usual."""


class AsteriskAside:
    """One private sound. Open it once, and close it then, also if that failed."""

    def __init__(self, caller: CallerSide, channel_id: str, number: int) -> None:
        """`channel_id`: of the party. `number`: of this sound among theirs."""
        self.media_id = f"{channel_id}-aside{number}"
        self.whisper_id = f"{channel_id}-whisper{number}"
        self.room_id = f"{channel_id}-room{number}"
        self._caller = caller
        self._channel_id = channel_id
        self._media_entered = asyncio.Event()
        self._whisper_entered = asyncio.Event()
        self._media: LineMedia | None = None
        self._in_room = False
        """The party is in a bridge of its own for this sound."""
        self._over = False
        """The party is gone."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its channels and bridge."""
        return self.media_id, self.whisper_id, self.room_id

    def handle(self, event: Event, channel_id: str) -> None:
        """Take an event about one of its channels."""
        if event.type == "StasisStart":
            entered = self._media_entered
            (entered if channel_id == self.media_id else self._whisper_entered).set()

    async def open(self, *, bridged: bool, bridge: str = "") -> Media:
        """Connect the sound. `bridged`: the party is in a bridge. `bridge`: the sound is for all
        who are in this one. Raises `LineError`."""
        self._caller.watch((self.media_id, self.whisper_id))
        arrival: MediaArrival | None = None
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                arrival = await self._caller.path.prepare((SLIN_8K,))
                return await self._connect(arrival, bridged=bridged, bridge=bridge)
        except TimeoutError:
            raise LineError(f"the sound has not come within {OPEN_SECONDS:g} s") from None
        except (AsteriskError, MediaError) as error:
            gone = isinstance(error, AsteriskError) and error.status == 404
            raise (LineGone if gone else LineError)(str(error)) from error
        finally:
            if arrival is not None and self._media is None:
                arrival.give_up()

    async def _connect(self, arrival: MediaArrival, *, bridged: bool, bridge: str) -> Media:
        caller, room, channels = self._caller, bridge or self.room_id, self.media_id
        if not bridge:
            await caller.ari.request("POST", f"bridges/{room}", type="mixing", name=room)
        entered = self._media_entered
        await open_media_channel(caller.ari, caller.app, self.media_id, arrival, entered)
        if not bridge:
            self._in_room = not bridged
            channels += f",{await self._whisperer() if bridged else self._channel_id}"
        await caller.ari.request("POST", f"bridges/{room}/addChannel", channel=channels)
        media = self._media = await arrival.media()
        media.claim(lambda _: media.end("media_lost"))
        if bridge:
            await restore_sound(caller.ari, bridge)
        if self._over:
            raise LineGone("they have hung up")
        return media

    async def _whisperer(self) -> str:
        """Make a channel that whispers to the party, and return its id."""
        caller = self._caller
        await caller.ari.request(
            "POST",
            f"channels/{self._channel_id}/snoop/{self.whisper_id}",
            whisper="out",
            app=caller.app,
        )
        await within(self._whisper_entered, "Asterisk has not begun to whisper")
        return self.whisper_id

    def end(self) -> None:
        """End the sound, because the party is gone: who speaks learns of it."""
        self._over = True
        if self._media is not None:
            self._media.end("hangup")

    async def close(self) -> None:
        """Remove the sound, but not the party. Never cut short by a cancellation."""
        await asyncio.shield(asyncio.create_task(self._close(), name=self.room_id))

    async def _close(self) -> None:
        remove = self._caller.remove
        await together(
            self._leave_room,
            partial(remove, f"channels/{self.media_id}"),
            partial(remove, f"channels/{self.whisper_id}"),
            partial(remove, f"bridges/{self.room_id}"),
        )
        if self._media is not None:
            await self._media.close()

    async def _leave_room(self) -> None:
        """Have the party leave before the room is removed. Otherwise Asterisk (22.10.1) may leave
        them outside the bridge that they enter next, though it says that they are in it: 2 of some
        3,100 times on a busy machine."""
        if not self._in_room:
            return
        path = f"bridges/{self.room_id}/removeChannel"
        with contextlib.suppress(AsteriskError):  # they have hung up, or the room is removed later
            await self._caller.ari.request("POST", path, channel=self._channel_id)
