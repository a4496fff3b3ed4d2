"""The caller's way back to the agent's bridge, when something else takes them out of it.

An engine that is to get the caller, and fails in that moment; an operator at the console; a defect
of Asterisk: each would leave the caller in silence, with their call up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Event

log = structlog.get_logger()

OUTSIDE_SECONDS = 0.5
"""Time for which a caller may be outside. A move elsewhere, or a hang-up, takes a few ms."""


class WayBack:
    """Watches whether one caller is in the agent's bridge."""

    def __init__(
        self, ari: AriClient, bridge: str, channel: str, belongs: Callable[[], bool]
    ) -> None:
        """`belongs()`: the caller is to be in this bridge now."""
        self._ari = ari
        self._bridge = bridge
        self._channel = channel
        self._belongs = belongs
        self._returning: asyncio.Task[None] | None = None

    def handle(self, event: Event) -> None:
        """Take ChannelLeftBridge and ChannelEnteredBridge of the caller's channel, of any
        bridge."""
        bridge = event.body.get("bridge")
        if not isinstance(bridge, dict) or bridge.get("id") != self._bridge:
            return
        self.close()
        if event.type == "ChannelLeftBridge":
            self._returning = asyncio.create_task(self._return(), name=f"back to {self._bridge}")

    def close(self) -> None:
        """Bring the caller back no more."""
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None

    async def _return(self) -> None:
        await asyncio.sleep(OUTSIDE_SECONDS)
        try:
            while self._belongs() and (place := await self._place()) != self._bridge:
                if not place:
                    log.warning("caller_outside_bridge", bridge=self._bridge)
                    path = f"bridges/{self._bridge}/addChannel"
                    await self._ari.request("POST", path, channel=self._channel)
                    return
                # The engine that put them there moves them soon, or gives them up.
                await asyncio.sleep(OUTSIDE_SECONDS)
        except AsteriskError as error:  # they have gone, as other events show
            log.warning("caller_not_brought_back", bridge=self._bridge, error=str(error))

    async def _place(self) -> str:
        """Return the id of the bridge in which the caller is; empty: in none. Raises
        `AsteriskError`."""
        bridges = await self._ari.request("GET", "bridges")
        return next((str(each["id"]) for each in bridges if self._channel in each["channels"]), "")
