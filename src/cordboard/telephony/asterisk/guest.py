"""An operator's phone as a third party of a call (implements `calls.offer.Guest`).

    dial       a new channel calls the phone; caller and agent go on
    aside      the person is asked whether they join, in a bridge of their own
    aloud      caller and human hear in their bridge that the guest joins
    join       the channel joins the caller: in the agent's bridge, or in that of a consultation

Its keys do not reach the bridge (`absorbDTMF`): with AudioSocket they would count as the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from cordboard.calls.offer import GuestEvent, Media, PartyKey, TransferTarget
from cordboard.telephony.asterisk.bridge_sound import restore_sound
from cordboard.telephony.asterisk.caller_side import CallerSide
from cordboard.telephony.asterisk.party import AsteriskParty


class AsteriskGuest(AsteriskParty):
    """One guest of one call."""

    def __init__(
        self,
        caller: CallerSide,
        target: TransferTarget,
        number: int,
        where: Callable[[], str],
        watch: Callable[[GuestEvent], None],
    ) -> None:
        """`number`: of this guest among those of the call. `where()` returns the bridge in which
        the caller talks; it raises `LineError` if they do not."""
        super().__init__(caller, target, f"{caller.prefix}-guest{number}", watch)
        self._where = where
        self._watch_keys = watch

    def key(self, key: str) -> None:
        """Take a key of the guest."""
        self._watch_keys(PartyKey(key))

    def aloud(self) -> AbstractAsyncContextManager[Media]:
        return self._sound(self._where())

    async def join(self) -> None:
        bridge = self._where()
        await self._post(
            f"bridges/{bridge}/addChannel",
            channel=self.channel_id,
            absorbDTMF="true",
            inhibitConnectedLineUpdates="true",
        )
        self._bridged = True
        await restore_sound(self._caller.ari, bridge, absorbing=(self.channel_id,))
